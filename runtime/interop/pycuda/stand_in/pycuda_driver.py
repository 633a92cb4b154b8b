"""``pycuda.driver``."""

from __future__ import annotations

from typing import Any

from . import cuda_arrays, device_contexts, driver_constants, launches, linear_memory, page_locked, queues, references
from .cuda_arrays import *  # noqa: F403
from .device_contexts import *  # noqa: F403
from .driver_constants import *  # noqa: F403
from .driver_errors import (
    CompileError,
    Error,
    LaunchError,
    LogicError,
    MemoryError,  # noqa: A004 - PyCUDA's names
    RuntimeError,  # noqa: A004
    lacking,
)
from .launches import *  # noqa: F403
from .linear_memory import *  # noqa: F403
from .page_locked import *  # noqa: F403
from .queues import *  # noqa: F403
from .references import *  # noqa: F403

_OWN = (
    *("address_of", "current_ordinal", "device_address", "dtype_of_format", "handle_of", "host_bytes"),
    *("library_memory", "managed_base", "page_locked_base", "runtime"),
)
_PARTS = (cuda_arrays, device_contexts, driver_constants, launches, linear_memory, page_locked, queues, references)
for _name in _OWN:  # what the stand-in alone knows
    del globals()[_name]

__all__ = [
    "CompileError",
    "Error",
    "LaunchError",
    "LogicError",
    "MemoryError",
    "RuntimeError",
    "initialize_profiler",
    "matrix_to_texref",
    "bind_array_to_texref",
    "start_profiler",
    "stop_profiler",
    *(name for part in _PARTS for name in part.__all__ if name not in _OWN),
]


def matrix_to_texref(matrix: Any, texref: references.TextureReference, order: str) -> None:
    """Let a texture reference read a matrix (``matrix_to_array``)."""
    texref.set_array(cuda_arrays.matrix_to_array(matrix, order))


def bind_array_to_texref(ary: cuda_arrays.Array, texref: references.TextureReference) -> None:
    """Let a texture reference read an array."""
    texref.set_array(ary)


def initialize_profiler(config_file: str, output_file: str, output_mode: Any) -> None:  # noqa: ARG001
    """Refused: nothing profiles the simulator. Raises NotImplementedError."""
    lacking("initialize_profiler", "record the program with cuplug-trace")


def start_profiler() -> None:
    """Nothing: no profiler is there to begin."""


def stop_profiler() -> None:
    """Nothing: no profiler is there to stop."""
