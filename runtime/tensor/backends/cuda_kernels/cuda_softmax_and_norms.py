"""CUDA C for layer norm, softmax and cross entropy with their gradients: a row for each warp, or for each block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ....drivers.base import Dim3
from ....kernels.launch.unrolling import Unroller
from ...core.dtypes import dtype
from ...core.layout import Layout
from ...core.tensor import address_of
from ...places.place import Kernel
from ...places.tables_with_gradients.scan_and_sort_table import RowOperation
from .cuda_launching import Launching
from .cuda_source import THREADS, header

__all__ = ["FUSED_KERNELS", "Launching", "launcher", "text_of"]

_SHORT = 1024
"""Elements of a row up to which 32 threads work on it."""


def text_of(outs: Sequence[Layout], operands: Sequence[Layout], names: str, numbers: str, body: str) -> str:
    """A kernel's source: its tensors are called as ``names`` says, outs first; ``in(x)`` gives an element in the type
    to compute in, ``T``, and ``put(y, value)`` writes one."""
    kinds = [each.dtype for each in (*outs, *operands)]
    computed = next(each.dtype.computed for each in operands if each.dtype.kind == "f")
    titles = names.split()
    parameters = [
        f"{'' if position < len(outs) else 'const '}{kind.c_name}* {name}"
        for position, (kind, name) in enumerate(zip(kinds, titles, strict=True))
    ]
    return f"""{header([*kinds, computed])}
typedef {computed.c_name} T;
{_loads(kinds)}
template <class R> __device__ __forceinline__ void put(R& to, T value) {{ to = convert<R, T>(value); }}
{body.replace("PARAMETERS", ", ".join([*parameters, numbers] if numbers else parameters))}"""


def _loads(kinds: Sequence[dtype]) -> str:
    floats = {kind.c_name: kind for kind in kinds if kind.kind == "f"}
    return "\n".join(
        f"__device__ __forceinline__ T in(const {name}& x) {{ return T({'(float)x' if kind.is_half else 'x'}); }}"
        for name, kind in floats.items()
    )


_ROW = r"""
enum { LANES = $LANES, ROWS = 256 / LANES };
template <bool largest> __device__ __forceinline__ T joined(T a, T b) { return largest ? maximum(a, b) : a + b; }
template <bool largest> __device__ __forceinline__ T together(T mine, T* shared) {
    for (int far = 16; far > 0; far /= 2) mine = joined<largest>(mine, __shfl_xor_sync(0xffffffffu, mine, far));
    if (LANES == 32) return mine;
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = mine;
    __syncthreads();
    T all = shared[0];
    for (int warp = 1; warp < 8; ++warp) all = joined<largest>(all, shared[warp]);
    __syncthreads();
    return all;
}
extern "C" __global__ void __launch_bounds__(256) kernel(PARAMETERS, long long rows, long long length) {
    __shared__ T shared[8];
    const long long r = (long long)blockIdx.x * ROWS + threadIdx.x / LANES, row = r * length;
    const int lane = threadIdx.x % LANES;
    const bool mine = r < rows;
    const long long end = mine ? length : 0;
$BODY}
"""


def launcher(place: Launching, source: str, grid: Dim3, block: Dim3, letters: str, *after: int) -> Kernel:
    """A kernel of tensors and numbers, with further numbers after them."""
    launch = place.bound(place.function(source), grid, block, letters)
    given = "".join("t" if letter == "P" else "n" for letter in letters[: len(letters) - len(after)])
    return _call_with_addresses(given)(launch, place.runtime, after)  # type: ignore[no-any-return]


@cache
def _call_with_addresses(kinds: str) -> Callable[..., Any]:
    """Makes the functions that launch a kernel with the addresses of tensors and with numbers. They are generated: a
    loop over the operands takes half as long as a launch.

    Args:
        kinds: one letter for each argument, ``t`` for a tensor and ``n`` for a number.
    """
    arguments = Unroller(kinds)
    given = arguments.each("a{k}, ")
    values = arguments.each({"t": address_of("a{k}") + ", ", "n": "a{k}, "})
    source = f"""
def kernel_of(launch, runtime, after):
    def kernel({given}):
        launch(runtime.current, {values}*after)
    return kernel
"""
    return arguments.function(source, "kernel_of")


def _by_rows(
    place: Launching,
    outs: Sequence[Layout],
    operands: Sequence[Layout],
    names: str,
    numbers: str,
    body: str,
    shape: tuple[int, int],
) -> Kernel:
    """``numbers``: the C declarations of the numbers, doubles and long longs."""
    rows, length = shape
    lanes = 32 if length <= _SHORT else THREADS
    text = _ROW.replace("$LANES", str(lanes)).replace("$BODY", body)
    declared = numbers.split(", ") if numbers else []
    letters = "P" * (len(outs) + len(operands)) + "".join(
        "d" if each.startswith("double") else "q" for each in declared
    )
    source = text_of(outs, operands, names, numbers, text)
    return launcher(place, source, (-(-(rows * lanes) // THREADS), 1, 1), (THREADS, 1, 1), letters + "qq", rows, length)


_EACH = "    for (long long i = lane; i < end; i += LANES) "


def _pair(layout: Layout) -> tuple[int, int]:
    return layout.shape[0], layout.shape[1]


def _layer_norm(place: Launching, _: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    scaled = "away" if len(operands) == 1 else "away * in(w[i])" if len(operands) == 2 else "away * in(w[i]) + in(b[i])"
    body = f"""    T total = T(0), squares = T(0);
{_EACH}total += in(x[row + i]);
    const T middle = together<false>(total, shared) / T(length);
{_EACH}{{ const T away = in(x[row + i]) - middle; squares += away * away; }}
    const T scale = T(1) / sqrt(together<false>(squares, shared) / T(length) + T(eps));
{_EACH}{{ const T away = (in(x[row + i]) - middle) * scale; put(y[row + i], {scaled}); }}
    if (mine && lane == 0) {{ put(middles[r], middle); put(scales[r], scale); }}
"""
    names = " ".join(["y middles scales x", *["w", "b"][: len(operands) - 1]])
    return _by_rows(place, outs, operands, names, "double eps", body, _pair(operands[0]))


def _layer_norm_gradient(
    place: Launching, _: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]
) -> Kernel:
    weight = " * in(w[i])" if len(operands) > 4 else ""
    both = f"const T grown = in(g[row + i]){weight}, normal = (in(x[row + i]) - middle) * scale;"
    body = f"""    const T middle = mine ? in(middles[r]) : T(0), scale = mine ? in(scales[r]) : T(0);
    T total = T(0), along = T(0);
{_EACH}{{ {both} total += grown; along += grown * normal; }}
    total = together<false>(total, shared) / T(length);
    along = together<false>(along, shared) / T(length);
{_EACH}{{ {both} put(made[row + i], (grown - total - normal * along) * scale); }}
"""
    names = "made g x middles scales w" if weight else "made g x middles scales"
    return _by_rows(place, outs, operands, names, "", body, _pair(operands[1]))


def _layer_norm_sums(place: Launching, _: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    rows, length = operands[1].shape
    parts = outs[0].shape[0]
    body = r"""
extern "C" __global__ void __launch_bounds__(256) kernel(PARAMETERS, long long rows, long long length) {
    __shared__ T shared[2][8][32];
    const long long column = (long long)blockIdx.x * 32 + threadIdx.x;
    T weight = T(0), bias = T(0);
    if (column < length) for (long long r = (long long)blockIdx.y * 8 + threadIdx.y; r < rows; r += 8 * gridDim.y) {
        const T grown = in(g[r * length + column]);
        weight += grown * ((in(x[r * length + column]) - in(middles[r])) * in(scales[r]));
        bias += grown;
    }
    shared[0][threadIdx.y][threadIdx.x] = weight;
    shared[1][threadIdx.y][threadIdx.x] = bias;
    __syncthreads();
    if (threadIdx.y >= 2 || column >= length) return;
    T total = T(0);
    for (int k = 0; k < 8; ++k) total += shared[threadIdx.y][k][threadIdx.x];
    put(made[(2 * blockIdx.y + threadIdx.y) * length + column], total);
}
"""
    source = text_of(outs, operands, "made g x middles scales", "long long parts", body)
    return launcher(place, source, (-(-length // 32), parts, 1), (32, 8, 1), "PPPPPqqq", rows, length)


def _soft_gradient(place: Launching, line: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    log = line.name == "log_softmax_gradient"
    value = (
        "in(g[row + i]) - exp(in(y[row + i])) * total"
        if log
        else "in(y[row + i]) * (in(g[row + i]) - total) * T(factor)"
    )
    body = f"""    T total = T(0);
{_EACH}total += in(g[row + i]){"" if log else " * in(y[row + i])"};
    total = together<false>(total, shared);
{_EACH}put(made[row + i], {value});
"""
    numbers = "" if log else "double factor"
    return _by_rows(place, outs, operands, "made g y", numbers, body, _pair(operands[0]))


def _attention(place: Launching, _: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    body = f"""    const long long own = r % queries + 1, seen = causal && own < length ? own : length;
    const long long limit = end < seen ? end : seen;
    T most = -INFINITY, total = T(0);
    for (long long i = lane; i < limit; i += LANES) most = maximum(most, in(x[row + i]) * T(factor));
    most = together<true>(most, shared);
    for (long long i = lane; i < limit; i += LANES) total += exp(in(x[row + i]) * T(factor) - most);
    total = together<false>(total, shared);
{_EACH}put(made[row + i], i < limit ? exp(in(x[row + i]) * T(factor) - most) / total : T(0));
"""
    numbers = "double factor, long long causal, long long queries"
    return _by_rows(place, outs, operands, "made x", numbers, body, _pair(operands[0]))


def _cross_entropy(place: Launching, _: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    body = f"""    T most = -INFINITY, total = T(0), all = T(0);
    // One reading: what was added up so far shrinks when a larger element comes.
{_EACH}{{
        const T here = in(x[row + i]);
        all += here;
        if (here > most) {{ total = total * exp(most - here) + T(1); most = here; }}
        else total += here == most && isinf_(here) && here < T(0) ? T(0) : exp(here - most);
    }}
    const T largest = together<true>(most, shared);
    total = together<false>(most == largest ? total : total * exp(most - largest), shared);
    all = together<false>(all, shared);
    if (!mine || lane) return;
    const T sum = largest + log(total);
    put(sums[r], sum);
    const long long chosen = target[r];
    const bool counts = chosen != ignored;
    if (counts && (chosen < 0 || chosen >= length)) __trap();
    T loss = T(0);
    if (counts) loss = (T(1) - T(smoothing)) * (sum - in(x[row + chosen]));
    if (counts && smoothing != 0) loss += T(smoothing) * (sum - all / T(length));
    put(losses[r], loss);
    put(losses[rows + r], counts ? T(1) : T(0));
"""
    names, numbers = "losses sums x target", "long long ignored, double smoothing"
    return _by_rows(place, outs, operands, names, numbers, body, _pair(operands[0]))


def _cross_entropy_gradient(
    place: Launching, _: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]
) -> Kernel:
    body = f"""    if (!mine) return;
    const long long chosen = target[r];
    const T by = chosen != ignored ? in(factor[r * step]) : T(0), sum = in(sums[r]);
    const T least = T(smoothing) / T(length), right = T(1) - T(smoothing);
{_EACH}{{
        const T share = exp(in(x[row + i]) - sum) - least - (i == chosen ? right : T(0));
        put(made[row + i], chosen == ignored ? T(0) : share * by);
    }}
"""
    numbers = "long long ignored, double smoothing, long long step"
    return _by_rows(place, outs, operands, "made x target sums factor", numbers, body, _pair(operands[0]))


FUSED_KERNELS: dict[str, Callable[[Any, RowOperation, Sequence[Layout], Sequence[Layout]], Kernel]] = {
    "layer_norm": _layer_norm,
    "layer_norm_gradient": _layer_norm_gradient,
    "layer_norm_sums": _layer_norm_sums,
    "soft_gradient": _soft_gradient,
    "attention": _attention,
    "cross_entropy": _cross_entropy,
    "cross_entropy_gradient": _cross_entropy_gradient,
}
