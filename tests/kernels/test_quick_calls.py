"""What was written in C++ does what its form in Python does."""

from __future__ import annotations

import ctypes
import math
import struct
from types import SimpleNamespace

import pytest
from cuplug.runtime.drivers.cuda.launch import Slot
from cuplug.runtime.kernels.launch import quick_calls

needs_native = pytest.mark.skipif(quick_calls._native is None, reason="needs the module in C++")


class Cuda:
    """Stands in for cuLaunchKernelEx: notes what it is given."""

    def __init__(self) -> None:
        self.launches: list[tuple] = []
        self.status = 0
        pointer = ctypes.c_void_p
        kind = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, pointer, pointer)
        self.function = kind(self._launch)
        self.copies: list[tuple] = []
        self.context = 192
        copy = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_ulonglong, ctypes.c_ulonglong, ctypes.c_size_t, pointer)
        current = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(pointer))
        self.functions = {
            "cuLaunchKernelEx": self.function,
            "cuMemcpyDtoDAsync": copy(self._copy),
            "cuCtxGetCurrent": current(self._current),
        }

    def function_address(self, name: str) -> int:
        return ctypes.cast(self.functions[name], ctypes.c_void_p).value or 0

    def primary_context(self, ordinal: int) -> int:
        return 192 + ordinal

    def _copy(self, *arguments: int) -> int:
        self.copies.append(arguments)
        return self.status

    def _current(self, context: object) -> int:
        context[0] = self.context
        return 0

    def _launch(self, config: int, function: int, _: int, extra: int | None) -> int:
        grid_block_shared = struct.unpack("7I", ctypes.string_at(config, 28))
        stream, attributes, count = struct.unpack("QQI", ctypes.string_at(config + 32, 20))
        block = b""
        if extra:
            one, start, two, size, end = struct.unpack("5Q", ctypes.string_at(extra, 40))
            assert (one, two, end) == (1, 2, 0)
            block = ctypes.string_at(start, ctypes.c_size_t.from_address(size).value)
        self.launches.append((grid_block_shared, stream, attributes, count, function, block))
        return self.status


def both(letters: str, before: bytes, *, device: int = 0):
    """A stand-in for CUDA, and both forms of a launch. That in Python counts its calls."""
    cuda = Cuda()
    layout = struct.Struct("@" + letters)
    slot = Slot(cuda.function, 77, (4, 5, 6), (32, 2, 1), shared=0, nbytes=len(before) + layout.size)
    called: list[tuple] = []

    def python(current, *values):
        called.append(values)
        slot.parameters[: len(before)] = before
        layout.pack_into(slot.parameters, len(before), *values)
        slot.move(current.stream)
        slot.call()

    quick = quick_calls.quick_launch(python, cuda, 77, (4, 5, 6), (32, 2, 1), letters, before, device, 2**62)
    return cuda, python, quick, called


def where(device: int = 0, stream: int = 4711) -> SimpleNamespace:
    return SimpleNamespace(device=device, stream=stream)


@needs_native
@pytest.mark.parametrize(
    ("letters", "before", "values"),
    [
        ("", b"", ()),
        ("", b"only this", ()),
        ("PPq", b"", (2**64 - 1, 3, -5)),
        ("P?dBq", b"a head..", (1, True, 2.5, 255, -(2**63))),
        ("bf?hfi", b"", (-128, 1.1, 0, -32768, math.inf, -(2**31))),
        ("HIQ", b"12345678", (65535, 2**32 - 1, 2**64 - 1)),
        ("df", b"", (3, -math.inf)),
        ("P" * 20 + "q", bytes(range(96)), tuple(range(21))),
    ],
)
def test_a_launch_hands_cuda_what_the_form_in_python_does(letters, before, values):
    cuda, python, quick, called = both(letters, before)
    python(where(), *values)
    quick(where(), *values)
    assert len(called) == 1
    assert len(cuda.launches) == 2
    assert cuda.launches[0] == cuda.launches[1]


@needs_native
def test_what_is_unusual_is_left_to_the_form_in_python():
    cuda, _, quick, called = both("Pf", b"")
    for current in (where(device=1), where(stream=2**62)):
        quick(current, 1, 1.0)
    assert called == [(1, 1.0), (1, 1.0)]
    assert len(cuda.launches) == 2
    for values in (("1", 1.0), (1, "1"), (1,), (1, 1.0, 2)):
        with pytest.raises((struct.error, OverflowError)):
            quick(where(), *values)
    assert len(cuda.launches) == 2
    quick(where(), 1, 1e300)
    assert struct.unpack("@Pf", cuda.launches[2][-1]) == (1, math.inf)
    assert called[-1] == (1, 1e300)


@needs_native
def test_what_cuda_refuses_is_launched_again_by_the_form_in_python():
    cuda, _, quick, called = both("P", b"")
    cuda.status = 201
    quick(where(), 5)
    assert called == [(5,)]
    assert len(cuda.launches) == 2


@needs_native
def test_what_it_has_no_room_for_is_done_in_python():
    cuda = Cuda()
    for letters, before in (("P" * 65, b""), ("P", bytes(5000)), ("e", b"")):
        assert quick_calls.quick_launch(print, cuda, 1, (1, 1, 1), (1, 1, 1), letters, before, 0, 9) is print


def test_a_driver_that_gives_no_address_is_called_from_python():
    assert quick_calls.quick_launch(print, object(), 1, (1, 1, 1), (1, 1, 1), "P", b"", 0, 9) is print


@needs_native
def test_only_slots_are_set():
    class Without:
        pass

    class Slotted:
        __slots__ = ("a",)

    with pytest.raises(AttributeError):
        quick_calls._native.Maker(Without, ("a",), 1, ())
    with pytest.raises(TypeError, match="no slot"):
        quick_calls._native.Maker(Without, ("__doc__",), 1, ())
    with pytest.raises(ValueError, match="do not fit"):
        quick_calls._native.Maker(Slotted, ("a",), 2, ())


@needs_native
def test_a_copy_is_asked_for_once_and_left_to_python_where_something_is_unusual():
    cuda, called = Cuda(), []

    def python(current, target, source):
        called.append((target, source))

    copy = quick_calls.quick_copy(python, cuda, 24, 0, 2**62)
    copy(where(), 1000, 2**63 + 5)
    assert cuda.copies == [(1000, 2**63 + 5, 24, 4711)]
    assert called == []
    for current in (where(device=1), where(stream=2**62)):
        copy(current, 1000, 2000)
    copy(where(), 0, 2000)
    cuda.context = 193  # another library has made its own current
    copy(where(), 1000, 2000)
    assert len(cuda.copies) == 1
    cuda.context, cuda.status = 192, 201
    copy(where(), 1000, 2000)
    assert called == [(1000, 2000), (1000, 2000), (0, 2000), (1000, 2000), (1000, 2000)]


class Library:
    """Stands in for cuDNN: notes what becomes of its descriptors."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []
        self.refused = ""
        pointer, number, wide = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
        for name, given in {
            "CreateDescriptor": (number, ctypes.POINTER(pointer)),
            "SetAttribute": (pointer, number, number, wide, pointer),
            "Finalize": (pointer,),
            "Execute": (pointer, pointer, pointer),
            "DestroyDescriptor": (pointer,),
        }.items():
            function = ctypes.CFUNCTYPE(number, *given)(lambda *each, name=name: self._noted(name, *each))
            setattr(self, f"cudnnBackend{name}", function)

    def _noted(self, name: str, *given: object) -> int:
        if name == "CreateDescriptor":
            given[1][0] = 640
            given = given[:1]
        if name == "SetAttribute":
            given = *given[:4], list((ctypes.c_uint64 * given[3]).from_address(given[4]))
        self.calls.append((name, *given))
        return int(name == self.refused)


@needs_native
def test_a_plan_runs_with_a_pack_of_its_own_and_what_is_unusual_is_left_to_python():
    cuda, library, called = Cuda(), Library(), []

    def python(handle, workspace, *addresses):
        called.append((handle, workspace, *addresses))

    kinds = [(1000, 3), (1001, 6), (1003, 6)]
    execute = quick_calls.quick_execute(python, cuda, library, 77, 2, 16, kinds, 0)
    execute(5, 0, 2**63 + 16, 32)
    assert library.calls == [
        ("CreateDescriptor", 16),
        ("SetAttribute", 640, 1000, 3, 2, [1, 2]),
        ("SetAttribute", 640, 1001, 6, 2, [2**63 + 16, 32]),
        ("SetAttribute", 640, 1003, 6, 1, [0]),
        ("Finalize", 640),
        ("Execute", 5, 77, 640),
        ("DestroyDescriptor", 640),
    ]
    assert called == []
    cuda.context = 193  # another library has made its own current
    execute(5, 8, 16, 32)
    cuda.context = 192
    execute(5, 8, 16)
    execute(5, 8, "16", 32)
    assert called == [(5, 8, 16, 32), (5, 8, 16), (5, 8, "16", 32)]
    assert len(library.calls) == 7
    assert quick_calls.quick_execute(python, cuda, library, 77, 33, 16, kinds, 0) is python


@needs_native
@pytest.mark.parametrize("refused", ["CreateDescriptor", "SetAttribute", "Finalize", "Execute"])
def test_what_cudnn_refuses_is_run_again_by_the_form_in_python(refused):
    library, called = Library(), []
    library.refused = refused

    def python(*given):
        called.append(given)

    quick_calls.quick_execute(python, Cuda(), library, 77, 1, 16, [(1000, 3), (1001, 6), (1003, 6)], 0)(5, 8, 16)
    assert called == [(5, 8, 16)]
    assert library.calls[-1][0] == (refused if refused == "CreateDescriptor" else "DestroyDescriptor")
