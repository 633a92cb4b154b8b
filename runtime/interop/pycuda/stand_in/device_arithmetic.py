"""Work on arrays, queued as kernels of the simulated device: NumPy computes on its memory when the turn comes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .device_contexts import current_ordinal, runtime
from .queues import handle_of


class Region:
    """Where an array lies: address, shape, type and strides in bytes."""

    __slots__ = ("address", "dtype", "high", "low", "shape", "strides")

    def __init__(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...]) -> None:
        self.address, self.shape, self.dtype, self.strides = address, shape, dtype, strides
        reach = [stride * (size - 1) for size, stride in zip(shape, strides, strict=True)]
        self.low = address + sum(each for each in reach if each < 0)
        self.high = address + sum(each for each in reach if each > 0) + dtype.itemsize

    @property
    def empty(self) -> bool:
        """Whether it has no elements."""
        return 0 in self.shape

    @property
    def extent(self) -> tuple[int, int]:
        """The address and size in bytes of what it spans."""
        return self.low, self.high - self.low

    def array(self) -> Any:
        """The elements as NumPy sees them: for use when the work's turn comes."""
        if self.empty:
            return np.empty(self.shape, self.dtype)
        memory: Any = (ctypes.c_char * (self.high - self.low)).from_address(self.low)
        return np.ndarray(self.shape, self.dtype, memory, self.address - self.low, self.strides)


def queue(
    name: str, work: Callable[..., None], outs: Sequence[Region], operands: Sequence[Any], stream: Any = None
) -> None:
    """Queue ``work(*outs, *operands)`` on a stream of the current device. Places among them become NumPy's arrays.

    Args:
        name: what the work is called in the simulator's messages.
        work: computes with NumPy, and writes to ``outs``.
        outs: what it writes.
        operands: what it reads, and values.
        stream: a ``Stream``, or None for the default one.

    Raises:
        DriverError: the device had failed before.
    """
    read = [each for each in operands if isinstance(each, Region) and not each.empty]
    written = [each for each in outs if not each.empty]

    def run() -> None:
        arrays = [each.array() if isinstance(each, Region) else each for each in (*outs, *operands)]
        try:
            with np.errstate(all="ignore"):
                work(*arrays)
        except Exception as error:
            # without the traceback, whose frames hold arrays over memory that will have gone
            raise error.with_traceback(None)  # noqa: B904

    here = runtime()
    here.current.have_context()
    simulator = here.driver.simulator
    assert simulator is not None, "the stand-in works on simulated devices alone"
    simulator.launch_host(
        run,
        stream=handle_of(stream),
        reads=[each.extent for each in read],
        writes=[each.extent for each in written],
        name=name,
        device=current_ordinal(),
    )
