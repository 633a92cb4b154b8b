"""``pycuda.characterize``."""

from __future__ import annotations

import struct
from functools import cache

import numpy as np

from .linear_memory import from_device, mem_alloc
from .pycuda_compiler import SourceModule

__all__ = ["has_double_support", "has_stack", "platform_bits", "sizeof"]


def platform_bits() -> int:
    """The bits of an address: 64 or 32."""
    return 8 * struct.calcsize("P")


def has_stack() -> bool:
    """Whether kernels have a stack."""
    return True


def has_double_support() -> bool:
    """Whether kernels know double precision."""
    return True


@cache
def sizeof(type_name: str, preamble: str = "") -> int:
    """The bytes of a type of kernels. Raises CompileError if it does not compile."""
    source = f'{preamble}\nextern "C" __global__ void tell(size_t *size) {{{{ *size = sizeof({type_name}); }}}}'
    answer = mem_alloc(8)
    SourceModule(source, no_extern_c=True).get_function("tell")(answer, block=(1, 1, 1))
    return int(from_device(answer, (), np.uint64))
