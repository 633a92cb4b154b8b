"""A simulated device: what the CPU would do at once is an operation of a stream here, on simulated memory.

Queued work holds addresses, never tensors: memory that a program gives up too early is given up here, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..layout import Layout
from ..places import Kernel
from .device_place import DevicePlace
from .host_kernels import Run
from .numpy_place import NumpyPlace

if TYPE_CHECKING:
    from ...runtime import Runtime

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


class SimPlace(DevicePlace, NumpyPlace):
    """A device of the simulated driver."""

    def __init__(self, runtime: Runtime, ordinal: int) -> None:
        super().__init__(runtime, ordinal)
        self._launch_host: Any = runtime.driver.launch_host  # type: ignore[attr-defined]

    def _kernel(self, name: str, run: Run, outs: Sequence[Layout], operands: Sequence[Layout | None]) -> Kernel:
        shows = [None if layout is None else _Shown(layout) for layout in (*outs, *operands)]
        written = len(outs)
        submit, stripped = self.submit, _stripped
        if written == 1 and len(shows) in (2, 3) and all(shown is not None and shown.nbytes for shown in shows):
            return self._short_kernel(name, run, shows)  # type: ignore[arg-type]

        def kernel(*tensors: Any) -> None:
            addresses = [
                each if shown is None else each._storage.address + each._offset * shown.itemsize
                for each, shown in zip(tensors, shows, strict=True)
            ]
            ranges = [
                (address + shown.low, shown.nbytes)
                for address, shown in zip(addresses, shows, strict=True)
                if shown is not None and shown.nbytes
            ]

            def work() -> None:
                try:
                    run(*[each if shown is None else shown.array(each) for each, shown in zip(addresses, shows)])  # noqa: B905
                except Exception as error:
                    raise stripped(error)  # noqa: B904

            submit(work, ranges[written:], ranges[:written], name)

        return kernel

    def _short_kernel(self, name: str, run: Run, shows: Sequence[_Shown]) -> Kernel:
        """The same with fewer steps for the most frequent kinds: one or two operands, all of them tensors."""
        submit, stripped = self.submit, _stripped
        out, first, second = (*shows, None)[:3]
        assert out is not None
        assert first is not None

        def unary(x: Any, a: Any) -> None:
            at_x = x._storage.address + x._offset * out.itemsize
            at_a = a._storage.address + a._offset * first.itemsize

            def work() -> None:
                try:
                    run(out.array(at_x), first.array(at_a))
                except Exception as error:
                    raise stripped(error)  # noqa: B904

            submit(work, ((at_a + first.low, first.nbytes),), ((at_x + out.low, out.nbytes),), name)

        if second is None:
            return unary

        def binary(x: Any, a: Any, b: Any) -> None:
            at_x = x._storage.address + x._offset * out.itemsize
            at_a = a._storage.address + a._offset * first.itemsize
            at_b = b._storage.address + b._offset * second.itemsize

            def work() -> None:
                try:
                    run(out.array(at_x), first.array(at_a), second.array(at_b))
                except Exception as error:
                    raise stripped(error)  # noqa: B904

            reads = ((at_a + first.low, first.nbytes), (at_b + second.low, second.nbytes))
            submit(work, reads, ((at_x + out.low, out.nbytes),), name)

        return binary

    def submit(self, work: Any, reads: Any, writes: Any, name: str) -> None:
        """Queue ``work`` on the current stream of this device, whatever device is current."""
        driver, ordinal, launch = self.driver, self.ordinal, self._launch_host
        stream = self.stream_handle()
        if driver.current_device() == ordinal:
            launch(work, stream=stream, reads=reads, writes=writes, name=name)
        else:
            with self.runtime.on_device(ordinal):
                launch(work, stream=stream, reads=reads, writes=writes, name=name)
        if self.runtime.launch_blocking:
            self.synchronize()


def _stripped(error: Exception) -> Exception:
    """The error without its traceback, whose frames hold arrays over memory that will have gone."""
    return error.with_traceback(None)


class _Shown:
    """Makes NumPy's arrays over tensors of one layout, when their turn comes."""

    __slots__ = ("dtype", "itemsize", "low", "nbytes", "shape", "strides")

    def __init__(self, layout: Layout) -> None:
        self.itemsize = itemsize = layout.dtype.itemsize
        low, high = layout.span()
        self.low = low * itemsize
        self.nbytes = (high - low) * itemsize
        self.shape = tuple(layout.shape)
        self.dtype = layout.dtype.numpy
        self.strides = tuple(stride * itemsize for stride in layout.strides)

    def array(self, address: int) -> npt.NDArray[Any]:
        """The elements at ``address``."""
        if not self.nbytes:
            return np.empty(self.shape, self.dtype)
        offset = address - _FIRST
        shown: npt.NDArray[Any] = np.ndarray(self.shape, self.dtype, _space, offset, self.strides)
        return shown
