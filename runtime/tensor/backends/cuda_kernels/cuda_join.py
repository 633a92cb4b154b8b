"""CUDA C that puts small tensors one after the other: one launch for all, where large ones are copied one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, prod
from struct import pack

from ...core.layout import Layout
from ...core.tensor import Tensor
from ...places.place import Kernel
from .cuda_launching import Launching
from .cuda_source import THREADS

_LARGEST = 1 << 20
"""Bytes of a result for which a launch costs more than moving them."""
_MOST = 32
"""Tensors that a launch takes."""
_PER_BLOCK = 4 * THREADS
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long", 16: "uint4"}


def joined_at_once(place: Launching, out: Layout, operands: Sequence[Layout], axis: int) -> Kernel | None:
    """``Place.join`` of few contiguous tensors of one type to a small one; None for others."""
    used = [k for k, each in enumerate(operands) if each.numel]
    given = [operands[k] for k in used]
    alike = all(each.contiguous and each.dtype is out.dtype for each in given)
    if not (out.contiguous and alike and 0 < len(given) <= _MOST and out.nbytes <= _LARGEST):
        return None
    size = out.dtype.itemsize
    lengths = [prod(each.shape[axis:]) * size for each in given]  # bytes of each that stand side by side
    widest = gcd(16, *lengths)
    forms: dict[bool, Callable[..., None]] = {}
    capacity = 2
    while capacity < len(given):
        capacity *= 2
    padding = (0,) * (capacity - len(given))

    def form(aligned: bool) -> Callable[..., None]:
        word = widest if aligned else size
        inner = [each // word for each in lengths]
        starts = [sum(inner[:k]) for k in range(len(inner))]
        counts = [each.numel * size // word for each in given]
        blocks = [-(-count // _PER_BLOCK) for count in counts]
        firsts = [sum(blocks[:k]) for k in range(len(blocks))]
        rows = [(*each, *padding) for each in (inner, starts, counts)]
        before = pack(
            f"@{4 * capacity + 1}q", sum(inner), *rows[0], *rows[1], *rows[2], *firsts, *(1 << 40 for _ in padding)
        )
        function = place.function(_source(word, capacity))
        forms[aligned] = place.bound(function, (sum(blocks), 1, 1), (THREADS, 1, 1), "P" * (1 + capacity), before)
        return forms[aligned]

    def kernel(out: Tensor, *tensors: Tensor) -> None:
        x = out._address
        addresses = [tensors[k]._storage.address + tensors[k]._offset * size for k in used]
        every = x
        for each in addresses:
            every |= each
        aligned = not every % widest
        (forms.get(aligned) or form(aligned))(place.runtime.current, x, *addresses, *padding)

    kernel.by_address = True  # type: ignore[attr-defined]
    return kernel


def _source(word: int, capacity: int) -> str:
    """``kernel(geometry, out, tensors)``: all in words of so many bytes."""
    return f"""typedef {_WORDS[word]} W;
struct Geometry {{ long long row, inner[{capacity}], start[{capacity}], count[{capacity}], first[{capacity}]; }};
struct Given {{ const W* at[{capacity}]; }};
extern "C" __global__ void __launch_bounds__({THREADS})
kernel(const Geometry geometry, W* out, const Given given) {{
    int k = 0;
    while (k + 1 < {capacity} && geometry.first[k + 1] <= (long long)blockIdx.x) ++k;
    const unsigned inner = (unsigned)geometry.inner[k], count = (unsigned)geometry.count[k];
    const W* const from = given.at[k];
    W* const to = out + geometry.start[k];
    unsigned i = (blockIdx.x - (unsigned)geometry.first[k]) * {_PER_BLOCK} + threadIdx.x;
    #pragma unroll
    for (int part = 0; part < 4; ++part, i += {THREADS})
        if (i < count) {{
            const unsigned row = i / inner;
            to[row * (unsigned)geometry.row + (i - row * inner)] = from[i];
        }}
}}
"""
