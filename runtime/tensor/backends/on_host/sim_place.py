"""A simulated device: what the CPU would do at once is an operation of a stream here, on simulated memory.

Queued work holds addresses, never tensors: memory that a program gives up too early is given up here, too.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from .numpy_kernels import Run
from .numpy_place import NumpyPlace

__all__ = ["SimPlace"]

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
_SHOWN = f"ndarray(shape{{k}}, dtype{{k}}, space, at{{k}} - {_FIRST}, strides{{k}})"
"""``_Shown.array``, written out for the argument ``k``."""


class SimPlace(DevicePlace, NumpyPlace):
    """A device of the simulated driver."""

    def __init__(self, runtime: Runtime, ordinal: int) -> None:
        super().__init__(runtime, ordinal)
        assert runtime.driver.simulator is not None, "this place is a simulated device"
        self._launch_host = runtime.driver.simulator.launch_host

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

    def _kernel(self, name: str, run: Run, outs: Sequence[Layout], operands: Sequence[Layout | None]) -> Kernel:
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
        return _maker(tuple(kinds))(run, self.submit, name, *shows)  # type: ignore[no-any-return]

    def submit(self, work: Any, reads: Any, writes: Any, name: str) -> None:
        """Queue ``work`` on the current stream of this device, whatever device is current."""
        runtime, ordinal = self.runtime, self.ordinal
        try:
            current = runtime.threads.current
        except AttributeError:  # the thread's first work; or the runtime was closed, which this says
            current = runtime.current
        chosen = current.streams.get(ordinal)
        stream = 0 if chosen is None else chosen.cuda_stream
        self._launch_host(work, stream, reads, writes, name, ordinal)  # names take a quarter of a microsecond
        if runtime.launch_blocking:
            self.synchronize()


@cache
def _maker(kinds: tuple[str, ...]) -> Any:
    """The function that makes kernels of these kinds of arguments, written out."""
    arguments = Unroller(kinds)
    placed = ("out", "operand", "alike", "empty")
    span = "(at{k} + low{k}, nbytes{k}), "
    # What is written in place is one array, so that its being written shows.
    alike = "alike" in kinds
    shown = {
        "number": "t{k}",
        "host": "h{k}",
        "alike": f"first if at{{k}} == at0 else {_SHOWN}",
        "out": _SHOWN,
        "operand": _SHOWN,
        "empty": "empty(shape{k}, dtype{k})",
    }
    arrays = arguments.each(shown, between="\n").split("\n")
    if alike:
        arrays[0] = "first"
    settle = """
    size{k}, low{k}, nbytes{k} = s{k}.itemsize, s{k}.low, s{k}.nbytes
    shape{k}, dtype{k}, strides{k} = s{k}.shape, s{k}.dtype, s{k}.strides"""
    source = f"""
def make(run, submit, name, {arguments.each("s{k}", between=", ", only=placed)}):
    pass{arguments.each(settle, only=placed)}
    def kernel({arguments.each("t{k}", between=", ")}):
        pass{arguments.each("; at{k} = " + address_of("t{k}", "size{k}"), only=placed)}
        pass{arguments.each("; h{k} = t{k}._host", only=("host",))}
        def work():
            try:
                {"first = " + _SHOWN.format(k=0) if alike else "pass"}
                run({", ".join(arrays)})
            except Exception as error:
                # without the traceback, whose frames hold arrays over memory that will have gone
                raise error.with_traceback(None)
        submit(work, ({arguments.each(span, only=("operand", "alike"))}), ({arguments.each(span, only=("out",))}), name)
    return kernel
"""
    return arguments.function(source, "make", {"ndarray": np.ndarray, "empty": np.empty, "space": _space})


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
