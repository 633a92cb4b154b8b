"""CUDA C for element-wise operations: side by side in vectors, strided, and copies that transpose by tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import pack

from ...core.dtypes import bool_, dtype
from ...core.layout import Layout
from ...core.shapes import Shape
from ...places.tables_with_gradients.elementwise_table import COPY, Elementwise
from .cuda_geometry import WALKS, Walk, collapse
from .cuda_source import THREADS, header, store

_TILE, _ROWS = 32, 8
_NAMES = "abc"


@dataclass(frozen=True)
class KernelSource:
    """A source with a kernel ``kernel``, and how to launch it. Its parameters: out, each operand, the element count."""

    source: str
    per_block: int
    """Elements that one block of ``THREADS`` threads makes; or, with ``grid``, nothing."""
    vector: int = 1
    """Elements that are read and written at once: all addresses must be multiples of their size."""
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] = (THREADS, 1, 1)
    before: bytes = b""
    """Parameters that stand before the others."""


def plan(
    operation: Elementwise, types: Sequence[dtype], out: Layout, operands: Sequence[Layout | None], *, aligned: bool
) -> KernelSource:
    """How to compute ``operation``. ``aligned``: whether vectors may be used, if nothing else stands against them."""
    shape, strides = collapse(out, operands)
    flat = (
        len(shape) <= 1
        and all(each in ((), (1,)) for each in strides[:1])
        and all(each in ((), (0,), (1,)) for each in strides[1:])
    )
    body = _Body(operation, types, out.dtype, [None if each is None else each.dtype for each in operands])
    if flat:
        return _flat(body, shape, strides[1:], aligned)
    if operation is COPY and operands[0] is not None:
        tiled = _transposing(body, shape, strides)
        if tiled is not None:
            return tiled
    return _strided(body, shape, strides)


class _Body:
    """The expression, its types, and the text that applies it."""

    def __init__(
        self, operation: Elementwise, types: Sequence[dtype], out: dtype, stored: Sequence[dtype | None]
    ) -> None:
        self.out = out
        self.stored = stored
        if operation is COPY:
            # From what is stored straight to what is wanted.
            types = [types[0] if stored[0] is None else stored[0]]
        self.types = [each.computed for each in types]
        self.result = bool_ if out is bool_ and operation is not COPY else self.types[-1]
        self.expression = operation.cuda

    @property
    def parameters(self) -> str:
        """The kernel's operand parameters."""
        return ", ".join(
            f"const {stored.c_name}* pa_{name}" if stored is not None else f"{computed.c_name} {name}_"
            for name, stored, computed in zip(_NAMES, self.stored, self.types, strict=False)
        )

    def function(self) -> str:
        """The device function ``apply`` of operands in the types to compute in."""
        arguments = ", ".join(f"{kind.c_name} {name}" for name, kind in zip(_NAMES, self.types, strict=False))
        return (
            f"typedef {self.types[-1].c_name} T;\n"
            f"typedef {self.out.c_name} R;\n"
            f"__device__ __forceinline__ R apply({arguments}) {{\n"
            f"    {self.result.c_name} result = {self.expression};\n"
            f"    return {store(self.out, 'result', self.result.c_name)};\n}}\n"
        )

    def load(self, position: int, text: str) -> str:
        """The element ``text`` of an operand, in the type to compute in."""
        stored, computed = self.stored[position], self.types[position]
        assert stored is not None
        if stored.is_half:
            kind, text = "float", f"(float)({text})"
        else:
            kind = stored.c_name
        return text if kind == computed.c_name else f"convert<{computed.c_name}, {kind}>({text})"

    def call(self, texts: Sequence[str | None]) -> str:
        """``apply`` to the elements ``texts``, or to the number where there is None."""
        arguments = [
            f"{name}_" if text is None else self.load(position, text)
            for position, (name, text) in enumerate(zip(_NAMES, texts, strict=False))
        ]
        return f"apply({', '.join(arguments)})"

    def head(self) -> str:
        """All that stands before the kernel."""
        return header([self.out, *self.types, *(each for each in self.stored if each is not None)]) + self.function()

    def signature(self, first: str = "") -> str:
        """The kernel's beginning; ``first``: the parameters before the usual ones."""
        parameters = f", {self.parameters}" if self.parameters else ""
        bounds = f"__launch_bounds__({THREADS})"
        return f'extern "C" __global__ void {bounds} kernel({first}R* out{parameters}, long long count)'


def _flat(body: _Body, shape: Shape, strides: Sequence[Shape], aligned: bool) -> KernelSource:
    widest = max([body.out.itemsize, *(each.itemsize for each in body.stored if each is not None)])
    vector = 16 // widest if aligned else 1
    names = _NAMES[: len(body.stored)]
    moving = [stored is not None and step == (1,) for stored, step in zip(body.stored, strides, strict=True)]
    if not shape:
        moving = [False] * len(moving)
    text = body.head()
    text += f"template <class E> struct __align__(sizeof(E) * {vector}) Vector {{ E at[{vector}]; }};\n"
    text += body.signature() + " {\n"
    text += f"    long long i = ((long long)blockIdx.x * {THREADS} + threadIdx.x) * {vector};\n"
    fixed = [f"pa_{name}[0]" if stored is not None else None for name, stored in zip(names, body.stored, strict=True)]
    one = [f"pa_{name}[i]" if moves else still for name, moves, still in zip(names, moving, fixed, strict=True)]
    many = [f"v_{name}.at[k]" if moves else still for name, moves, still in zip(names, moving, fixed, strict=True)]
    if vector > 1:
        text += f"    if (i + {vector} <= count) {{\n"
        for name, stored, moves in zip(names, body.stored, moving, strict=True):
            if moves and stored is not None:
                kind = f"Vector<{stored.c_name}>"
                text += f"        const {kind} v_{name} = *reinterpret_cast<const {kind}*>(pa_{name} + i);\n"
        text += "        Vector<R> made;\n"
        text += f"        #pragma unroll\n        for (int k = 0; k < {vector}; ++k) made.at[k] = {body.call(many)};\n"
        text += "        *reinterpret_cast<Vector<R>*>(out + i) = made;\n        return;\n    }\n"
        text += f"    for (; i < count; ++i) out[i] = {body.call(one)};\n}}\n"
    else:
        text += f"    if (i < count) out[i] = {body.call(one)};\n}}\n"
    return KernelSource(text, THREADS * vector, vector)


def _strided(body: _Body, shape: Shape, strides: Sequence[Shape]) -> KernelSource:
    moving = [position for position, stored in enumerate(body.stored) if stored is not None]
    walk = Walk(shape, [strides[0], *(strides[position + 1] for position in moving)])
    texts: list[str | None] = [None] * len(body.stored)
    for k, position in enumerate(moving):
        texts[position] = f"pa_{_NAMES[position]}[at[{k + 1}]]"
    text = body.head() + WALKS + body.signature(f"const {walk.c_type} walk, ") + " {\n"
    text += f"    const long long i = (long long)blockIdx.x * {THREADS} + threadIdx.x;\n    if (i >= count) return;\n"
    text += f"    long long at[{len(moving) + 1}];\n    walk.go(i, at);\n"
    text += f"    out[at[0]] = {body.call(texts)};\n}}\n"
    return KernelSource(text, THREADS, before=walk.packed)


def _transposing(body: _Body, shape: Shape, strides: Sequence[Shape]) -> KernelSource | None:
    """For a copy that writes along one dimension and reads along another: through shared memory, tile by tile."""
    target, source = strides
    if len(shape) not in (2, 3) or target[-1] != 1 or 1 not in source[:-1] or source[-1] <= 1:
        return None
    across = source.index(1)
    rest = [axis for axis in range(len(shape) - 1) if axis != across]
    rows, columns = shape[across], shape[-1]
    batch = shape[rest[0]] if rest else 1
    if rows < 16 or columns < 16 or batch > 65535 or -(-rows // _TILE) > 65535:
        return None
    step_in, step_out = (source[rest[0]], target[rest[0]]) if rest else (0, 0)
    parameters = "".join(f"long long {name}, " for name in ("rows", "columns", "in_row", "out_row", "in_z", "out_z"))
    element = body.call(["pa_a[row + (column + k) * in_row]"])
    text = (
        body.head()
        + body.signature(parameters)
        + f""" {{
    __shared__ R tile[{_TILE}][{_TILE + 1}];
    pa_a += blockIdx.z * in_z;
    out += blockIdx.z * out_z;
    long long row = (long long)blockIdx.y * {_TILE} + threadIdx.x;
    long long column = (long long)blockIdx.x * {_TILE} + threadIdx.y;
    #pragma unroll
    for (int k = 0; k < {_TILE}; k += {_ROWS})
        if (row < rows && column + k < columns) tile[threadIdx.y + k][threadIdx.x] = {element};
    __syncthreads();
    row = (long long)blockIdx.y * {_TILE} + threadIdx.y;
    column = (long long)blockIdx.x * {_TILE} + threadIdx.x;
    #pragma unroll
    for (int k = 0; k < {_TILE}; k += {_ROWS})
        if (row + k < rows && column < columns) out[(row + k) * out_row + column] = tile[threadIdx.x][threadIdx.y + k];
}}
"""
    )
    grid = (-(-columns // _TILE), -(-rows // _TILE), batch)
    before = pack("@6q", rows, columns, source[-1], target[across], step_in, step_out)
    return KernelSource(text, 0, grid=grid, block=(_TILE, _ROWS, 1), before=before)
