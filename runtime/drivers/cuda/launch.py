"""Launching kernels: the hottest call of a runtime.

With ``cuLaunchKernelEx``, whose four arguments are settled before the launch, so that ctypes converts nothing. Measured
in turn in one process on an H200 (driver 580, Python 3.12, cuda-bindings 13.3.1), medians of a launch of two arguments:
called from C 4.1 µs, a slot's ``call`` 5.1, ``cuLaunchKernel`` with its eleven arguments through cuda-bindings 5.7.
Whether the parameters are handed over one by one or as a block made no difference, nor which of the two functions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

from ..base import Dim3

# The keys in the array ``extra``, which ends in 0 (CUDA driver API, "Execution Control").
_BUFFER_POINTER, _BUFFER_SIZE = 1, 2


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    ]


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = [("id", ctypes.c_uint), ("padding", ctypes.c_uint), ("value", ctypes.c_int), ("rest", ctypes.c_int * 15)]


_COOPERATIVE = _Attribute(id=2, value=1)  # CU_LAUNCH_ATTRIBUTE_COOPERATIVE


class Slot:
    """All that a launch of one kernel with one geometry hands to CUDA. One launch at a time has it."""

    __slots__ = ("_config", "call", "parameters", "stream")

    def __init__(
        self,
        launch_kernel: Callable[..., int],
        function: int,
        grid: Dim3,
        block: Dim3,
        *,
        shared: int,
        nbytes: int,
        cooperative: bool = False,
    ) -> None:
        """Room for a parameter block of ``nbytes`` bytes.

        Args:
            launch_kernel: cuLaunchKernelEx, without ``argtypes``: what it gets is made here and needs no conversion.
            function: the kernel.
            grid: the number of blocks.
            block: the threads of a block.
            shared: bytes of dynamic shared memory of each block.
            nbytes: the size of the parameter block.
            cooperative: whether all blocks are to be resident at once, and may wait for one another.
        """
        self.parameters: Any = (ctypes.c_char * nbytes)()
        """The parameter block, writable."""
        self.stream = 0
        """Where ``call`` launches; ``move`` changes it."""
        self._config = _Config(grid, block, shared)
        if cooperative:
            self._config.attributes, self._config.attribute_count = ctypes.addressof(_COOPERATIVE), 1
        extra = None
        if nbytes:
            # The array ``extra``, and the size to which it points.
            extra = (ctypes.c_void_p * 6)(_BUFFER_POINTER, ctypes.addressof(self.parameters), _BUFFER_SIZE)
            extra[3], extra[5] = ctypes.addressof(extra) + 5 * ctypes.sizeof(ctypes.c_void_p), nbytes
        self.call: Callable[[], int] = partial(
            launch_kernel,
            ctypes.byref(self._config),
            ctypes.c_void_p.from_param(function),
            None,
            None if extra is None else ctypes.byref(extra),
        )
        """Queues the launch. Returns a CUresult."""

    def move(self, stream: int) -> None:
        """Launch on ``stream`` from now on."""
        self._config.stream = stream
        self.stream = stream
