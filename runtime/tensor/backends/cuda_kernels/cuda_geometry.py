"""Shapes and strides reduced to what a kernel must walk: fewer dimensions, merged where all operands step evenly.

Lengths and strides are parameters of kernels, never constants in their text: a new shape needs no new compilation.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from struct import pack

from ...core.layout import Layout
from ...core.shapes import Shape, broadcast_strides


def collapse(out: Layout, operands: Sequence[Layout | None]) -> tuple[Shape, list[Shape]]:
    """The merged shape of an element-wise operation, and the strides in it of ``out`` and of each operand.

    Dimensions are ordered by the strides of ``out``, the largest first, so that neighbouring threads write
    neighbouring elements. A Python number (None) has no strides.
    """
    strides = [tuple(out.strides)]
    strides += [
        broadcast_strides(tuple(each.shape), each.strides, tuple(out.shape))
        if each is not None
        else (0,) * len(out.shape)
        for each in operands
    ]
    kept = [axis for axis, length in enumerate(out.shape) if length != 1]
    kept.sort(key=lambda axis: -abs(out.strides[axis]))
    shape = tuple(out.shape[axis] for axis in kept)
    return merged(shape, [tuple(each[axis] for axis in kept) for each in strides])


def merged(shape: Shape, strides: Sequence[Shape]) -> tuple[Shape, list[Shape]]:
    """Neighbouring dimensions made one where every operand steps through both evenly."""
    lengths: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, length in enumerate(shape):
        if lengths and all(mine[-1] == each[axis] * length for mine, each in zip(steps, strides, strict=True)):
            lengths[-1] *= length
            for mine, each in zip(steps, strides, strict=True):
                mine[-1] = each[axis]
        else:
            lengths.append(length)
            for mine, each in zip(steps, strides, strict=True):
                mine.append(each[axis])
    return tuple(lengths), [tuple(mine) for mine in steps]


WALKS = r"""
// How a linear index becomes an offset for each of K operands over N dimensions. Dividing by a length is multiplying by
// a fraction of 2**32 (Granlund and Montgomery, 1994): exact for indices below 2**31. Larger ones are divided.
template <int N, int K> struct Walk {
    unsigned length[N], magic[N], shift[N];
    long long step[K][N];
    __device__ __forceinline__ void go(long long index, long long (&at)[K]) const {
        unsigned i = (unsigned)index;
        #pragma unroll
        for (int k = 0; k < K; ++k) at[k] = 0;
        #pragma unroll
        for (int d = N - 1; d > 0; --d) {
            const unsigned next = (__umulhi(i, magic[d]) + i) >> shift[d], here = i - next * length[d];
            #pragma unroll
            for (int k = 0; k < K; ++k) at[k] += (long long)here * step[k][d];
            i = next;
        }
        #pragma unroll
        for (int k = 0; k < K; ++k) at[k] += (long long)i * step[k][0];
    }
};
template <int N, int K> struct LongWalk {
    long long length[N];
    long long step[K][N];
    __device__ __forceinline__ void go(long long i, long long (&at)[K]) const {
        for (int k = 0; k < K; ++k) at[k] = 0;
        for (int d = N - 1; d > 0; --d) {
            const long long next = i / length[d], here = i - next * length[d];
            for (int k = 0; k < K; ++k) at[k] += here * step[k][d];
            i = next;
        }
        for (int k = 0; k < K; ++k) at[k] += i * step[k][0];
    }
};
"""
"""C++ types that find offsets; ``Walk`` on this side says which to use and packs the values."""


class Walk:
    """The way from a linear index to the offsets of some operands. A kernel takes it by value, as a first parameter."""

    def __init__(self, shape: Shape, strides: Sequence[Shape]) -> None:
        lengths = shape or (1,)
        steps = [each or (0,) for each in strides]
        short = prod(lengths) < 2**31
        self.c_type = f"{'Walk' if short else 'LongWalk'}<{len(lengths)}, {len(steps)}>"
        flat = [step for each in steps for step in each]
        if short:
            shifts = [max(length - 1, 0).bit_length() for length in lengths]
            magic = [
                ((1 << 32) * ((1 << shift) - length)) // length + 1 if length else 0
                for length, shift in zip(lengths, shifts, strict=True)
            ]
            self.packed = pack(f"@{3 * len(lengths)}I{len(flat)}q", *lengths, *magic, *shifts, *flat)
        else:
            self.packed = pack(f"@{len(lengths) + len(flat)}q", *lengths, *flat)
        self.packed += bytes(-len(self.packed) % 8)
