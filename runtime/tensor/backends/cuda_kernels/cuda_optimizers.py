"""CUDA C for updates of whole lists of tensors: one launch for as many as the parameters of a kernel can name.

Each block works on one piece of one tensor; which, it finds among the rows' first blocks. The rows come as a parameter,
as in PyTorch's multi-tensor kernels: nothing has to be copied to the device before.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ....machine.current import Current
from ...core.dtypes import dtype
from ...core.tensor import Tensor
from ...places.optimizer_table import Update
from .cuda_launching import Launching
from .cuda_scan import loading
from .cuda_source import THREADS, header

_PER_THREAD = 8
_PIECE = THREADS * _PER_THREAD
"""Elements of a block."""
_PARAMETERS = 4096
"""Bytes of a kernel's parameters, before CUDA 12.1 and on older devices (CUDA C++ Programming Guide, "Function
Parameters")."""


class _Chunk(NamedTuple):
    rows: bytes
    """The table that the kernel gets: for each row its addresses, its elements and its first block."""
    many: int
    blocks: int


class Updates:
    """What launches updates at one place."""

    def __init__(self, place: Launching) -> None:
        self._place = place
        self._launchers: dict[tuple[Any, dtype, int], Callable[..., None]] = {}

    def run(
        self, line: Update, kind: dtype, rows: Sequence[Sequence[Tensor]], numbers: Sequence[float], shared: int
    ) -> Iterator[Callable[[Current], None]]:
        """The launches that do it, one after the other. ``shared``: the address of the shared number, or 0."""
        # How many rows a launch can name.
        capacity = (_PARAMETERS - 8 * (2 + len(line.numbers))) // (8 * (len(line.tensors) + 2))
        for chunk in _chunks(rows, len(line.tensors), capacity):
            launch = self._launchers.get((line, kind, chunk.blocks))
            if launch is None:
                letters = "qP" + "d" * len(numbers) + f"{8 * capacity * (len(line.tensors) + 2)}s"
                function = self._place.function(_source(line, kind, capacity))
                launch = self._place.bound(function, (chunk.blocks, 1, 1), (THREADS, 1, 1), letters)
                self._launchers[line, kind, chunk.blocks] = launch
            yield _launching(launch, chunk.many, shared, *numbers, chunk.rows)

    def squares(self, kind: dtype, rows: Sequence[Sequence[Tensor]]) -> tuple[int, Any]:
        """How many sums there are, one for each block; and ``launches(address)`` that write them there."""
        capacity = (_PARAMETERS - 16) // 24
        chunks = list(_chunks(rows, 1, capacity))

        def launches(address: int) -> Iterator[Callable[[Current], None]]:
            done = 0
            for chunk in chunks:
                key = ("squares", kind, chunk.blocks)
                if key not in self._launchers:
                    function = self._place.function(_squares_source(kind, capacity))
                    letters = f"qP{24 * capacity}s"
                    self._launchers[key] = self._place.bound(function, (chunk.blocks, 1, 1), (THREADS, 1, 1), letters)
                at = address + done * kind.computed.itemsize
                yield _launching(self._launchers[key], chunk.many, at, chunk.rows)
                done += chunk.blocks

        return sum(each.blocks for each in chunks), launches


def _launching(launch: Callable[..., None], *values: Any) -> Callable[[Current], None]:
    return lambda current: launch(current, *values)


def _chunks(rows: Sequence[Sequence[Tensor]], width: int, capacity: int) -> Iterator[_Chunk]:
    size = rows[0][0]._layout.dtype.itemsize  # of all
    for start in range(0, len(rows), capacity):
        some = rows[start : start + capacity]
        table: list[int] = []
        blocks = 0
        for row in some:
            table += [each._storage.address + each._offset * size for each in row[:width]]
            elements = row[0]._layout.numel
            table += elements, blocks
            blocks += -(-elements // _PIECE)
        yield _Chunk(array("Q", table).tobytes(), len(some), blocks)


def _head(kind: dtype, width: int, capacity: int) -> str:
    return f"""{header([kind, kind.computed])}{loading(kind, kind.computed)}
struct Row {{ unsigned long long at[{width}], count, first; }};
struct Table {{ Row rows[{capacity}]; }};
__device__ __forceinline__ T finite(T x) {{ return isinf_(x) || isnan_(x) ? T(0) : T(1); }}
"""


_FIND = f"""    int low = 0, high = (int)rows - 1;
    while (low < high) {{
        const int half = (low + high + 1) / 2;
        if (table.rows[half].first <= blockIdx.x) low = half;
        else high = half - 1;
    }}
    const long long count = (long long)table.rows[low].count;
    const long long start = (long long)(blockIdx.x - table.rows[low].first) * {_PIECE} + threadIdx.x;
"""
"""The row whose piece the block has, and where the thread begins."""


def _source(line: Update, kind: dtype, capacity: int) -> str:
    """``kernel(rows, shared, numbers..., table)``."""
    numbers = "".join(f"double {each}_, " for each in line.numbers)
    settled = "".join(f"    const T {each} = (T){each}_;\n" for each in line.numbers)
    if line.shared == "factor":
        settled += "    const T factor = (T)shared[0];\n"
    pointers = "".join(
        f"    Stored* const {each}_ = (Stored*)table.rows[low].at[{k}];\n" for k, each in enumerate(line.tensors)
    )
    loads = "".join(f"        T {each} = load({each}_[i]);\n" for each in line.tensors)
    body = "".join(f"        {each};\n" for each in _in_c(line))
    stores = "".join(f"        {each}_[i] = convert<Stored, T>({each});\n" for each in line.written)
    flag = "        if (good == T(0)) shared[0] = 1.0f;\n" if line.shared == "flag" else ""
    return f"""{_head(kind, len(line.tensors), capacity)}
extern "C" __global__ void __launch_bounds__({THREADS})
kernel(long long rows, float* shared, {numbers}const Table table) {{
{settled}{_FIND}{pointers}    #pragma unroll 4
    for (int k = 0; k < {_PER_THREAD}; ++k) {{
        const long long i = start + k * {THREADS};
        if (i >= count) return;
{loads}{body}{stores}{flag}    }}
}}
"""


def _in_c(line: Update) -> Iterator[str]:
    known = set(line.tensors)
    for each in line.statements:
        name = each.split(" = ")[0]
        # Numbers of the statements are whole, and mean the same in T.
        yield each if name in known else f"const T {each}"


def _squares_source(kind: dtype, capacity: int) -> str:
    """``kernel(rows, out, table)``: of each block the sum of its elements' squares."""
    return f"""{_head(kind, 1, capacity)}
extern "C" __global__ void __launch_bounds__({THREADS}) kernel(long long rows, T* out, const Table table) {{
    __shared__ T shared[{THREADS}];
{_FIND}    const Stored* const g_ = (const Stored*)table.rows[low].at[0];
    T total = T(0);
    #pragma unroll
    for (int k = 0; k < {_PER_THREAD}; ++k) {{
        const long long i = start + k * {THREADS};
        if (i < count) {{
            const T g = load(g_[i]);
            total += g * g;
        }}
    }}
    shared[threadIdx.x] = total;
    __syncthreads();
    for (int half = {THREADS} / 2; half > 0; half /= 2) {{
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }}
    if (threadIdx.x == 0) out[blockIdx.x] = shared[0];
}}
"""
