"""CUDA C for patterns and random numbers."""

from __future__ import annotations

from functools import cache

from ...core.dtypes import bfloat16, dtype, float16, float64
from ...places.distributions import UNIFORM_BITS, wide
from ...places.normal_distribution import FIRST_PART, REST_BITS, normal_table
from ...places.pattern_table import PATTERNS
from .cuda_source import THREADS, header, store

_LINEAR = f"""    const long long i = (long long)blockIdx.x * {THREADS} + threadIdx.x;
    if (i >= count) return;
"""


def pattern_source(pattern: str, out: dtype) -> str:
    """A kernel ``kernel(out, parameters..., count)`` that fills with a pattern."""
    found = PATTERNS[pattern]
    kind = "double" if found.floating else "long long"
    result = "bool" if pattern in ("eye", "lower", "upper") else kind
    parameters = "".join(f", {kind} p{k}" for k in range(found.parameters))
    return f"""{header([out])}
extern "C" __global__ void kernel({out.c_name}* out{parameters}, long long count) {{
{_LINEAR}    const {result} value = {found.cuda};
    out[i] = {store(out, "value", result)};
}}
"""


# Every operation below is correctly rounded and none is fused: the numbers are those of `generator`, to the bit.
_PHILOX = r"""
struct Words { unsigned long long at[4]; };
__device__ __forceinline__ Words philox(unsigned long long seed, unsigned long long counter) {
    unsigned long long c0 = counter, c1 = 0, c2 = 0, c3 = 0, k0 = seed, k1 = 0;
    #pragma unroll
    for (int round = 0; round < 10; ++round) {
        if (round) { k0 += 0x9E3779B97F4A7C15ull; k1 += 0xBB67AE8584CAA73Bull; }
        const unsigned long long m0 = 0xD2E7470EE14C6C93ull, m1 = 0xCA5A826395121157ull;
        const unsigned long long h0 = __umul64hi(m0, c0), l0 = m0 * c0, h1 = __umul64hi(m1, c2), l1 = m1 * c2;
        c0 = h1 ^ c1 ^ k0; c1 = l1; c2 = h0 ^ c3 ^ k1; c3 = l0;
    }
    Words words = {{c0, c1, c2, c3}};
    return words;
}
__device__ __forceinline__ double plus(double a, double b) { return __dadd_rn(a, b); }
__device__ __forceinline__ double times(double a, double b) { return __dmul_rn(a, b); }
"""


@cache
def random_source(distribution: str, out: dtype) -> str:
    """A kernel ``kernel(out, seed, counter, first, second, count)``. One thread makes what one counter gives."""
    is_wide = wide(distribution, out)
    per_thread = 4 if is_wide else 8
    narrow = "" if out is float64 else "(float)"
    kind = "double" if out is float64 else "float"
    word = "words.at[k]" if is_wide else "(unsigned)(words.at[k / 2] >> 32 * (k % 2))"
    helpers, parameter = "", "double"
    if distribution.endswith("integers"):
        parameter, kind = "long long", "long long"
        chosen = "word % (unsigned long long)second" if is_wide else "(unsigned long long)word * second >> 32"
        value = f"(long long)({chosen}) + first"
    elif distribution == "normal":
        helpers = _normal_helpers(is_wide)
        value = f"{narrow}plus(times(normal(word), second), first)"
    else:
        bits = UNIFORM_BITS.get(out, 53 if is_wide else 24)
        unit = f"times((double)(word >> {(64 if is_wide else 32) - bits}), 0x1p-{bits})"
        value = f"{narrow}plus(times({unit}, plus(second, -first)), first)"
    stored = store(out, "value", kind)
    after = ""
    if distribution == "uniform":
        back = "(double)(float)made" if out in (float16, bfloat16) else "(double)made"
        after = f"if ({back} >= second) made = {store(out, f'({kind})first', kind)};"
    width = min(16 // out.itemsize, per_thread)
    return f"""{header([out])}{_PHILOX}{helpers}
struct __align__({width * out.itemsize}) Vector {{ {out.c_name} at[{width}]; }};
extern "C" __global__ void kernel({out.c_name}* out, unsigned long long seed, unsigned long long counter,
                                  {parameter} first, {parameter} second, long long count) {{
    // What a block makes lies side by side. By way of shared memory, so do what neighbouring threads store.
    __shared__ Vector made_here[{THREADS * per_thread // width}];
    const long long block = (long long)blockIdx.x * {THREADS} + threadIdx.x;
    const Words words = philox(seed, counter + block);
    #pragma unroll
    for (int v = 0; v < {per_thread // width}; ++v) {{
        Vector vector;
        #pragma unroll
        for (int j = 0; j < {width}; ++j) {{
            const int k = v * {width} + j;
            const {"unsigned long long" if is_wide else "unsigned"} word = {word};
            const {kind} value = {value};
            {out.c_name} made = {stored};
            {after}
            vector.at[j] = made;
        }}
        made_here[threadIdx.x * {per_thread // width} + v] = vector;
    }}
    __syncthreads();
    out += (long long)blockIdx.x * {THREADS * per_thread};
    const long long left = count - (long long)blockIdx.x * {THREADS * per_thread};
    if (left >= {THREADS * per_thread} && (unsigned long long)out % sizeof(Vector) == 0) {{
        #pragma unroll
        for (int v = 0; v < {per_thread // width}; ++v)
            ((Vector*)out)[v * {THREADS} + threadIdx.x] = made_here[v * {THREADS} + threadIdx.x];
    }} else {{
        for (int k = threadIdx.x; k < {THREADS * per_thread} && k < left; k += {THREADS})
            out[k] = made_here[k / {width}].at[k % {width}];
    }}
}}
"""


def _normal_helpers(is_wide: bool) -> str:
    """``normal(word)``: see ``normal_distribution.py``. Here a part's coefficients lie side by side, read in pairs."""
    table = normal_table(is_wide)
    terms = len(table.coefficients)
    pairs = (terms + 1) // 2
    rows = [[*row, 0.0] for row in zip(*table.coefficients, strict=True)]
    listed = ",\n".join(
        "{" + ", ".join(f"{{{float(row[2 * k]).hex()}, {float(row[2 * k + 1]).hex()}}}" for k in range(pairs)) + "}"
        for row in rows
    )
    unsigned, signed = ("unsigned long long", "long long") if is_wide else ("unsigned", "int")
    return f"""
struct __align__(16) Pair {{ double even, odd; }};
__device__ const Pair COEFFICIENTS[{len(rows)}][{pairs}] = {{
{listed}
}};
__device__ __forceinline__ double normal({unsigned} word) {{
    const double u = plus((double)(word & {(1 << table.bits) - 1}u{"ll" if is_wide else ""}), 0.5);
    const long long place = __double_as_longlong(u);
    const Pair* row = COEFFICIENTS[(place >> {REST_BITS}) - {FIRST_PART}];
    const double x = (double)(place & {(1 << REST_BITS) - 1}ll);
    Pair c[{pairs}];
    #pragma unroll
    for (int k = 0; k < {pairs}; ++k) c[k] = row[k];
    double total = {"c[" + str((terms - 1) // 2) + "]." + ("even" if (terms - 1) % 2 == 0 else "odd")};
    #pragma unroll
    for (int k = {terms - 2}; k >= 0; --k) total = plus(times(total, x), k % 2 ? c[k / 2].odd : c[k / 2].even);
    return copysign(total, (double)({signed})word);
}}
"""
