"""A simulated device: what the CPU would do at once is an operation of a stream here, on simulated memory.

Queued work holds addresses, never tensors: memory that a program gives up too early is given up here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ....kernels.launch.unrolling import Unroller
from ....machine.runtime import Runtime
from ...core.layout import Layout
from ...core.tensor import Tensor, address_of
from ...places.place import Kernel
from ...places.registry import serve_devices
from ..device_place import DevicePlace
from . import numpy_kernels
from .numpy_kernels import Run
from .numpy_place import NumpyPlace

_FIRST = 1 << 12


class _AddressSpace:
    """All of the process's address space as one array of bytes, of which only what the simulator maps is touched."""

    __array_interface__ = {  # noqa: RUF012 - NumPy reads it
        "version": 3,
        "shape": ((1 << 47) - _FIRST,),
        "typestr": "|u1",
        "data": (_FIRST, False),
    }


_space: npt.NDArray[np.uint8] = np.asarray(_AddressSpace())


class SimPlace(DevicePlace, NumpyPlace):
    """A device of the simulated driver."""

    def __init__(self, runtime: Runtime, ordinal: int) -> None:
        super().__init__(runtime, ordinal)
        assert runtime.driver.simulator is not None, "this place is a simulated device"
        self._launch = runtime.driver.simulator.quick_launch_host

    def read(self, source: Tensor) -> npt.NDArray[Any]:
        layout = source._layout
        if layout.contiguous:
            return super().read(source)
        made: npt.NDArray[Any] = np.empty(layout.shape, layout.dtype.numpy)
        shown, at = _Shown(layout), source._address

        def work() -> None:
            made[...] = shown.array(at)

        if layout.numel:
            self.submit(work, ((at + shown.low, shown.nbytes),), (), "read")
            self.synchronize()
        return made

    def product(
        self, out: Layout, a: Layout, b: Layout, turned: tuple[bool, bool], row: Layout | None
    ) -> Callable[..., Tensor] | None:
        if out.dtype.is_half:
            return None
        run = numpy_kernels.product(a, turned)[1]
        name, operands = ("matmul", (a, b)) if row is None else ("addmm", (a, b, row))
        kernel = self._kernel(name, run, (out,), operands, repeatable=True)
        empty = self.empty

        def plan(*tensors: Tensor) -> Tensor:
            made = empty(out)
            kernel(made, *tensors)
            return made

        return plan

    def _kernel(
        self,
        name: str,
        run: Run,
        outs: Sequence[Layout],
        operands: Sequence[Layout | None],
        *,
        repeatable: bool = False,
    ) -> Kernel:
        kinds, shows = [], []
        for position, layout in enumerate((*outs, *operands)):
            if layout is None or layout.place.device.type == "cpu":
                kinds.append("number" if layout is None else "host")
                continue
            shown = _Shown(layout)
            shows.append(shown)
            if not shown.nbytes:
                kinds.append("empty")
            elif position < len(outs):
                kinds.append("out")
            else:
                kinds.append("alike" if layout is outs[0] else "operand")
        make = _maker(tuple(kinds), repeatable, any(each.low for each in shows))
        kernel: Kernel = make(_without_frames(run), self, name, *shows)
        return kernel

    def submit(self, work: Any, reads: Any, writes: Any, name: str) -> None:
        """Queue ``work`` on the current stream of this device, whatever device is current."""
        self._launch(work, self.stream_handle(), reads, writes, name, self.ordinal, 2.0, False)
        self.launched()


@cache
def _maker(kinds: tuple[str, ...], repeatable: bool, shifted: bool) -> Any:
    """The function that makes kernels of these kinds of arguments, written out.

    A tensor keeps the array over its memory, since to make one takes as long as a small operation: ``v{k}``, over the
    bytes from ``at{k}`` on. Where some are ``shifted``, these do not begin with element [0, ..., 0]. What is written in
    place is one array, so that its being written shows.
    """
    arguments = Unroller(kinds)
    placed = ("out", "operand", "alike", "empty")
    settle = f"""
    size{{k}}, low{{k}}, nbytes{{k}} = s{{k}}.itemsize, s{{k}}.low, s{{k}}.nbytes
    offset{{k}} = -low{{k}} - {_FIRST}
    shape{{k}}, dtype{{k}}, strides{{k}} = s{{k}}.shape, s{{k}}.dtype, s{{k}}.strides"""
    present = f"""
        at{{k}} = {address_of("t{k}", "size{k}")}{" + low{k}" if shifted else ""}
        v{{k}} = t{{k}}._array
        if v{{k}} is None:
            v{{k}} = t{{k}}._array = ndarray(shape{{k}}, dtype{{k}}, space, at{{k}} + offset{{k}}, strides{{k}})"""
    prepare = {
        **dict.fromkeys(("out", "operand"), present),
        "alike": present + "\n        if at{k} == at0: v{k} = v0",
        "empty": "\n        v{k} = empty(shape{k}, dtype{k})",
        "host": "\n        v{k} = t{k}._host",
        "number": "\n        v{k} = t{k}",
    }
    span = "(at{k}, nbytes{k}), "
    reads, writes = (arguments.each(span, only=only) for only in (("operand", "alike"), ("out",)))
    arrays = arguments.each("v{k}", between=", ")
    source = f"""
def make(run, place, name, {arguments.each("s{k}", between=", ", only=placed)}):
    runtime, ordinal, launch = place.runtime, place.ordinal, place._launch{arguments.each(settle, only=placed)}
    def kernel({arguments.each("t{k}", between=", ")}):
        pass{arguments.each(prepare)}
        try:
            chosen = runtime.threads.current.streams.get(ordinal)
        except AttributeError:  # the thread's first work; or the runtime was closed, which this says
            chosen = runtime.current.streams.get(ordinal)
        stream = 0 if chosen is None else chosen.cuda_stream
        launch(run, stream, ({reads}), ({writes}), name, ordinal, 2.0, {repeatable}, {arrays})
        if runtime.launch_blocking:
            place.synchronize()
    return kernel
"""
    names = {"ndarray": np.ndarray, "empty": np.empty, "space": _space}
    return arguments.function(source, "make", names)


def _without_frames(run: Run) -> Run:
    """``run``, whose errors have no traceback: its frames hold arrays over memory that will have gone."""
    if getattr(run, "writes", False):  # a function of NumPy's, called in C++: it has no frames
        return run

    def guarded(*arrays: Any) -> None:
        try:
            run(*arrays)
        except Exception as error:
            del arrays
            raise error.with_traceback(None)  # noqa: B904 - it is the same one

    return guarded


class _Shown:
    """Makes NumPy's arrays over tensors of one layout, when their turn comes."""

    __slots__ = ("dtype", "itemsize", "low", "nbytes", "shape", "strides")

    def __init__(self, layout: Layout) -> None:
        self.itemsize = itemsize = layout.dtype.itemsize
        low, high = layout.span()
        self.low = low * itemsize
        self.nbytes = (high - low) * itemsize
        self.shape = layout.lengths
        self.dtype = layout.dtype.numpy
        self.strides = layout.byte_strides

    def array(self, address: int) -> npt.NDArray[Any]:
        """The elements at ``address``."""
        if not self.nbytes:
            return np.empty(self.shape, self.dtype)
        offset = address - _FIRST
        shown: npt.NDArray[Any] = np.ndarray(self.shape, self.dtype, _space, offset, self.strides)
        return shown


serve_devices(SimPlace, simulated=True)
