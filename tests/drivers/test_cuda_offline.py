"""The CUDA driver, as far as it can be tested without CUDA."""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from cuplug.allocators.errors import DriverError, OutOfMemoryError
from cuplug.runtime.drivers.cuda import CudaDriver, availability, is_available
from cuplug.runtime.drivers.cuda import contexts as contexts_module
from cuplug.runtime.drivers.cuda.api import Refusal, code_of
from cuplug.runtime.drivers.cuda.contexts import Contexts
from cuplug.runtime.drivers.cuda.launch import Slot
from cuplug.runtime.drivers.cuda.modules import function_parameters

IMPORTED = """
import sys
import cuplug.runtime.drivers.cuda
print([name for name in ("pycuda", "cuda") if name in sys.modules])
"""


def test_importing_the_driver_imports_no_cuda(run_quietly: Callable[..., str]) -> None:
    assert run_quietly(IMPORTED) == "[]\n"


def test_without_pycuda_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycuda", None)
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)
    with pytest.raises(DriverError, match=r"PyCUDA cannot be imported.*cuplug\[cuda\].*driver=\"sim\"") as caught:
        CudaDriver()
    assert caught.value.name == "CUDA_ERROR_NOT_INITIALIZED"
    availability.has_pycuda.cache_clear()
    assert not is_available()
    availability.has_pycuda.cache_clear()


@pytest.mark.parametrize(
    ("visible", "count", "shown"),
    [
        (None, 0, False),
        (None, 2, True),
        ("", 2, False),
        ("-1", 2, False),
        ("NoDevFiles", 2, False),
        ("1", 2, True),
        ("2,0", 2, False),
        ("0,7", 2, True),
        ("GPU-392a75dc", 2, True),
        ("MIG-392a75dc", 1, True),
        ("GPU-392a75dc", 0, False),
    ],
)
def test_cuda_visible_devices_may_hide_every_device(visible: str | None, count: int, shown: bool) -> None:
    assert availability._shows_any(visible, count) == shown


def test_a_closed_driver_says_why_it_refuses() -> None:
    refusal = Refusal(4, "this driver was closed; make a new one")
    assert refusal.cuMemAlloc(1, 2) == refusal.cuLaunchKernelEx() == 4
    error = refusal.error("mem_alloc", 0)
    assert isinstance(error, DriverError)
    assert error.name == "CUDA_ERROR_DEINITIALIZED"
    assert "make a new one" in str(error)


class _Parameters:
    """CUDA's answers about a kernel of two parameters, from drivers that tell their count and from others."""

    def __init__(self, *, counts: bool, broken: int = 0) -> None:
        self.cuda = Refusal(broken, "a stand-in")
        self.refused = 0
        self._counts, self._broken = counts, broken

    def code(self, name: str, function: int, *arguments: Any) -> int:
        assert function == 7
        if name == "cuFuncGetParamCount":
            if not self._counts:
                return 801
            arguments[0]._obj.value = 2
            return 0
        index, offset, nbytes = arguments
        if index == 2 or self._broken:
            self.refused += 1
            return self._broken or 1
        offset._obj.value, nbytes._obj.value = 8 * index, 8 - 4 * index
        return 0


@pytest.mark.parametrize("counts", [False, True])
def test_parameters_of_a_kernel_are_asked_for_one_by_one_and_none_behind_the_last_where_their_count_is_told(
    counts: bool,
) -> None:
    calls: Any = _Parameters(counts=counts)
    assert function_parameters(calls, 7) == [(0, 8), (8, 4)]
    assert calls.refused == (not counts)


@pytest.mark.parametrize(("counts", "code"), [(False, 801), (True, 801), (True, 1)])
def test_a_driver_that_does_not_tell_parameters_is_an_error(counts: bool, code: int) -> None:
    calls: Any = _Parameters(counts=counts, broken=code)
    with pytest.raises(DriverError, match="cuFuncGetParamInfo: a stand-in"):
        function_parameters(calls, 7)


def test_the_code_of_an_error_is_found_by_cudas_own_words() -> None:
    class Words:
        def reason(self, code: int) -> str:
            return {2: "out of memory", 700: "an illegal memory access was encountered"}.get(code, "unrecognized")

    def code(text: str) -> int:
        return code_of(Words(), RuntimeError(text))  # type: ignore[arg-type]

    assert code("cuMemAlloc failed: out of memory") == 2
    assert code("cuModuleLoadDataEx failed: an illegal memory access was encountered - a log") == 700
    assert code("cuMemAlloc failed: not a reason of CUDA's") == 999
    assert code("something else") == 999


def test_a_launch_hands_over_its_geometry_its_stream_and_where_its_parameters_lie() -> None:
    seen = []

    def launch_kernel(config: int, function: int, by_address: int | None, extra: int | None) -> int:
        geometry = struct.unpack("@7IPPI", ctypes.string_at(config, struct.calcsize("@7IPPI")))
        parameters = b""
        if extra is not None:
            pointer, address, size, size_address, end = struct.unpack("@5P", ctypes.string_at(extra, 40))
            assert (pointer, size, end) == (1, 2, 0)
            parameters = ctypes.string_at(address, ctypes.c_size_t.from_address(size_address).value)
        seen.append((geometry, function, by_address, parameters))
        return len(seen) - 1

    with_types = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(launch_kernel)
    called = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.cast(with_types, ctypes.c_void_p).value)
    slot = Slot(called, 1 << 40, (1, 2, 3), (4, 5, 6), shared=7, nbytes=12)
    struct.pack_into("@QI", slot.parameters, 0, 1 << 50, 9)
    assert slot.call() == 0
    struct.pack_into("@QI", slot.parameters, 0, 1 << 51, 10)
    slot.move(1 << 45)
    assert (slot.call(), slot.stream) == (1, 1 << 45)
    assert Slot(called, 8, (1, 1, 1), (1, 1, 1), shared=0, nbytes=0).call() == 2
    assert seen == [
        ((1, 2, 3, 4, 5, 6, 7, 0, 0, 0), 1 << 40, None, struct.pack("@QI", 1 << 50, 9)),
        ((1, 2, 3, 4, 5, 6, 7, 1 << 45, 0, 0), 1 << 40, None, struct.pack("@QI", 1 << 51, 10)),
        ((1, 1, 1, 1, 1, 1, 0, 0, 0, 0), 8, None, b""),
    ]


def test_a_cooperative_launch_says_so_by_its_only_attribute() -> None:
    seen = []

    def launch_kernel(config: int, *_: int | None) -> int:
        attributes, count = struct.unpack("@PI", ctypes.string_at(config + 40, 12))
        seen.append((count, struct.unpack("@IIi60x", ctypes.string_at(attributes, 72))))
        return 0

    with_types = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(launch_kernel)
    called = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.cast(with_types, ctypes.c_void_p).value)
    slot = Slot(called, 8, (1, 1, 1), (1, 1, 1), shared=0, nbytes=0, cooperative=True)
    assert slot.call() == 0
    cooperative = 2  # CU_LAUNCH_ATTRIBUTE_COOPERATIVE
    assert seen == [(1, (cooperative, 0, 1))]


# --- the current context. What CUDA does is simple enough to be stood in for: a stack of contexts for each thread.


class FakeCuda:
    """CUDA's contexts: ``cuCtx…Current`` as the driver API documents them."""

    def __init__(self) -> None:
        self._local = threading.local()
        self.destroyed: set[int] = set()

    @property
    def stack(self) -> list[int]:
        if not hasattr(self._local, "stack"):
            self._local.stack = []
        return self._local.stack  # type: ignore[no-any-return]

    def cuCtxGetCurrent(self, reference: object) -> int:
        reference._obj.value = self.stack[-1] if self.stack else None  # type: ignore[attr-defined]
        return 0

    def cuCtxSetCurrent(self, context: int | None) -> int:
        if context in self.destroyed:
            return 709
        self.stack[-1:] = [context] if context else []
        return 0

    def cuCtxPushCurrent(self, context: int) -> int:
        self.stack.append(context)
        return 0

    def cuCtxPopCurrent(self, reference: object) -> int:
        self.stack.pop()
        return 0


class FakePycuda:
    """As much of PyCUDA as retains contexts: their handles are 100 and 101."""

    Error = RuntimeError

    class Device:
        def __init__(self, ordinal: int) -> None:
            self.handle = 100 + ordinal

        def retain_primary_context(self) -> FakePycuda.Device:
            return self


THEIRS = 7


@pytest.fixture
def cuda() -> FakeCuda:
    return FakeCuda()


@pytest.fixture
def contexts(cuda: FakeCuda) -> Contexts:
    return Contexts(cuda, FakePycuda, 2)  # type: ignore[arg-type]


def test_setting_a_device_makes_its_context_current(contexts: Contexts, cuda: FakeCuda) -> None:
    contexts.set(0)
    assert cuda.stack == [100]
    contexts.set(1)
    assert cuda.stack == [101]
    contexts.set(None)
    assert contexts.ordinal is None


def test_setting_no_device_leaves_other_libraries_the_default_device_if_it_is_in_use(
    contexts: Contexts, cuda: FakeCuda
) -> None:
    contexts.set(1)
    contexts.set(None)
    assert cuda.stack == []
    contexts.set(0)
    contexts.set(1)
    contexts.set(None)
    assert cuda.stack == [100]


def test_what_another_library_had_made_current_comes_back(contexts: Contexts, cuda: FakeCuda) -> None:
    cuda.cuCtxSetCurrent(THEIRS)
    contexts.set(0)
    contexts.set(1)
    contexts.set(None)
    assert cuda.stack == [THEIRS]


def test_a_finaliser_on_a_new_thread_is_refused_once_cuda_must_not_be_called(contexts: Contexts) -> None:
    contexts.refuse(Refusal(3, "forked"))
    seen: list[Any] = []

    def ask() -> None:
        try:
            seen.append(contexts.local.state)
        except DriverError as error:
            seen.append(str(error))

    def ask_within(frame: Any, _: str, __: Any) -> None:
        if frame.f_code.co_name == "__init__":
            sys.settrace(None)
            ask()  # as a finaliser that runs while what the thread asks for is made, if anything is

    def run() -> None:
        sys.settrace(ask_within)
        ask()
        sys.settrace(None)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen
    assert all("forked" in str(each) for each in seen)


def test_a_finaliser_may_ask_for_a_threads_state_while_it_is_made(contexts: Contexts, monkeypatch: Any) -> None:
    made: list[Any] = []

    class CollectedMeanwhile(contexts_module._State):
        def __init__(self) -> None:
            super().__init__()
            if not made:
                made.append(None)
                made.append(contexts.local.state)  # as the finaliser of a buffer, which makes an event

    monkeypatch.setattr(contexts_module, "_State", CollectedMeanwhile)
    thread = threading.Thread(target=lambda: made.append(contexts.local.state))
    thread.start()
    thread.join()
    assert made[1] is made[2]


def test_a_context_that_another_library_destroyed_does_not_come_back(contexts: Contexts, cuda: FakeCuda) -> None:
    cuda.cuCtxSetCurrent(THEIRS)
    contexts.set(1)
    cuda.destroyed.add(THEIRS)
    contexts.set(None)
    assert cuda.stack == []


def test_what_another_library_made_current_meanwhile_stays(contexts: Contexts, cuda: FakeCuda) -> None:
    contexts.set(0)
    cuda.cuCtxSetCurrent(THEIRS)
    assert contexts.ordinal == 0
    contexts.set(None)
    assert cuda.stack == [THEIRS]


def test_a_call_runs_in_its_own_context_and_gives_back_the_others(contexts: Contexts, cuda: FakeCuda) -> None:
    contexts.set(0)
    assert not contexts.enter()
    cuda.cuCtxSetCurrent(THEIRS)
    assert contexts.enter()
    assert cuda.stack[-1] == 100
    contexts.leave()
    assert cuda.stack == [THEIRS]
    assert contexts.enter(1)
    assert cuda.stack[-1] == 101
    contexts.leave()
    assert cuda.stack == [THEIRS]


def test_every_thread_has_its_own_current_device(contexts: Contexts) -> None:
    contexts.set(0)
    codes: list[int] = []

    def elsewhere() -> None:
        try:
            contexts.enter()
        except DriverError as error:
            codes.append(error.code)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert codes == [201]


def test_after_a_fork_or_the_end_nothing_reaches_cuda(contexts: Contexts, cuda: FakeCuda) -> None:
    contexts.set(0)
    contexts.refuse(Refusal(3, "forked"))
    for call in (contexts.enter, contexts.here, contexts.check, lambda: contexts.set(0), lambda: contexts.set(None)):
        with pytest.raises((DriverError, OutOfMemoryError), match="forked"):
            call()
    assert cuda.stack == [100]
