"""Products of matrices by inline PTX (mma.sync, ldmatrix and their kin), against a model in NumPy.

The model puts each element where PTX's manual says which lane holds it, and knows nothing of how the simulator does it.
"""

# ruff: noqa: E501 - statements of PTX stand on one line
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytestmark = pytest.mark.one_schedule

LANES = np.arange(32)
GROUP, IN_GROUP = LANES // 4, LANES % 4


def packed(elements: list[Any], bits: int) -> Any:
    """Registers of 32 or 64 bits, by lane, of elements of so many bits, the first the lowest."""
    register = np.zeros(32, np.uint64)
    for place, element in enumerate(elements):
        raw = np.ascontiguousarray(element).view(f"u{bits // 8}").astype(np.uint64)
        register |= raw << np.uint64(bits * place)
    return register


def registers_of_a(matrix: Any, bits: int) -> list[Any]:
    """Of the first factor, M by K: "A fragment" of PTX's manual, 9.7.14."""
    m, k = matrix.shape
    n = 1 if bits == 64 else 32 // bits
    return [
        packed([matrix[GROUP + row, part + n * IN_GROUP + e] for e in range(n)], bits)
        for part in range(0, k, 4 * n)
        for row in range(0, m, 8)
    ]


def registers_of_b(matrix: Any, bits: int) -> list[Any]:
    """Of the second factor, K by 8."""
    n = 1 if bits == 64 else 32 // bits
    return [
        packed([matrix[part + n * IN_GROUP + e, GROUP] for e in range(n)], bits)
        for part in range(0, matrix.shape[0], 4 * n)
    ]


def registers_of_sums(matrix: Any) -> list[Any]:
    """Of C and D, M by 8: two neighbours of a row, those of 16 bits in one register."""
    rows = range(0, matrix.shape[0], 8)
    pairs = [[matrix[GROUP + row, 2 * IN_GROUP + e] for e in range(2)] for row in rows]
    if matrix.dtype.itemsize == 2:
        return [packed(pair, 16) for pair in pairs]
    return [packed([element], 8 * matrix.dtype.itemsize) for pair in pairs for element in pair]


def tf32(values: Any) -> Any:
    """Numbers that ten bits of fraction hold."""
    return (values.astype(np.float32).view(np.uint32) & ~np.uint32(0x1FFF)).view(np.float32)


CASES = [
    (shape, kind, sums)
    for kind, shapes, sums_of in [
        ("f16", ("m16n8k8", "m16n8k16"), ("f32", "f16")),
        ("bf16", ("m16n8k8", "m16n8k16"), ("f32",)),
        ("tf32", ("m16n8k4", "m16n8k8"), ("f32",)),
        ("f64", ("m8n8k4",), ("f64",)),
        ("s8", ("m8n8k16", "m16n8k16", "m16n8k32"), ("s32",)),
        ("u8.s8", ("m16n8k32",), ("s32",)),
        ("e4m3", ("m16n8k32",), ("f32",)),
        ("e5m2.e4m3", ("m16n8k32",), ("f32",)),
    ]
    for shape in shapes
    for sums in sums_of
]
NUMPY: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f64": np.float64,
    "f32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
    "s32": np.int32,
}


def shape_of(text: str) -> tuple[int, int, int]:
    m, n, k = (int(part) for part in text.replace("m", " ").replace("n", " ").replace("k", " ").split())
    return m, n, k


def numbers(kind: str, shape: tuple[int, int], random: Any) -> Any:
    if NUMPY[kind] in (np.int8, np.uint8):
        return random.integers(np.iinfo(NUMPY[kind]).min, np.iinfo(NUMPY[kind]).max, shape, NUMPY[kind], endpoint=True)
    values = random.standard_normal(shape)
    return tf32(values) if kind == "tf32" else values.astype(NUMPY[kind])


def kernel_of(number: int, shape: str, kinds: str, sums: str) -> tuple[str, list[int]]:
    """A kernel that multiplies what its registers are given; and how many registers D, A and B have."""
    m, _, k = shape_of(shape)
    a, _, b = kinds.partition(".")
    b = b or a
    bits = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64}.get(a, 8)
    per = 1 if bits == 64 else 32 // bits
    counts = [m // 8 * (1 if sums == "f16" else 2), m // 8 * k // (4 * per), k // (4 * per)]
    word, letter = ("unsigned long long", "l") if bits == 64 else ("unsigned", "r")
    letter = {"f64": "d", "f32": "f"}.get(sums, letter)
    value = {"d": "double", "f": "float"}.get(letter, "unsigned")
    factor, factor_letter = ("double", "d") if bits == 64 else ("unsigned", "r")
    starts = np.cumsum([0, counts[0], counts[1], counts[2]]).tolist()
    braces = ["{" + ", ".join(f"%{start + i}" for i in range(count)) + "}"
              for start, count in zip(starts, [*counts, counts[0]], strict=True)]  # fmt: skip
    outputs = ", ".join(f'"={letter}"(d[{i}])' for i in range(counts[0]))
    inputs = ", ".join(
        f'"{of}"({name}[{i}])'
        for name, of, count in (
            ("a", factor_letter, counts[1]),
            ("b", factor_letter, counts[2]),
            ("c", letter, counts[0]),
        )
        for i in range(count)
    )
    read = "\n".join(
        f"{of} {name}[{count}]; for (int i = 0; i < {count}; ++i) {name}[i] = *({of}*)&in[({start} + i) * 32 + threadIdx.x];"
        for name, of, start, count in (
            ("a", factor, 0, counts[1]),
            ("b", factor, counts[1], counts[2]),
            ("c", value, counts[1] + counts[2], counts[0]),
        )
    )
    opcode = f"mma.sync.aligned.{shape}.row.col.{sums}.{a}.{b}.{sums}"
    return (
        f'extern "C" __global__ void product_{number}(const {word} *in, {word} *out) {{\n{read}\n{value} d[{counts[0]}];\n'
        f'asm volatile("{opcode} {", ".join(braces)};" : {outputs} : {inputs});\n'
        f"for (int i = 0; i < {counts[0]}; ++i) *({value}*)&out[i * 32 + threadIdx.x] = d[i];\n}}\n"
    ), counts


@pytest.mark.parametrize("check", [True, "races"])
def test_products_are_those_of_numpy(machine: Any, check: Any) -> None:
    if check == "races" and machine.runtime.driver.name != "sim":
        pytest.skip("races are looked for on the simulator")
    source = "".join(kernel_of(number, *case)[0] for number, case in enumerate(CASES))
    module = machine.module(source, check=check)
    random = np.random.default_rng(3)
    for number, (shape, kinds, sums) in enumerate(CASES):
        m, n, k = shape_of(shape)
        first, _, second = kinds.partition(".")
        a, b = numbers(first, (m, k), random), numbers(second or first, (k, n), random)
        c = random.integers(-99, 99, (m, n)).astype(NUMPY[sums])
        bits = 8 * a.dtype.itemsize
        word = np.uint64 if bits == 64 else np.uint32
        words = np.array([*registers_of_a(a, bits), *registers_of_b(b, bits), *registers_of_sums(c)]).astype(word)
        exact = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
        expected = registers_of_sums(exact.astype(NUMPY[sums]))
        out = machine.zeros((len(expected), 32), word)
        module.get_function(f"product_{number}")(machine.up(words), out, grid=1, block=32)
        found = machine.down(out, (len(expected), 32), word)
        kind = NUMPY[sums]
        near = {np.float16: 2e-3, np.float32: 1e-5, np.float64: 1e-14}.get(kind, 0)
        left, right = found.view(kind).astype(np.float64), np.array(expected).astype(word).view(kind).astype(np.float64)
        assert np.allclose(left, right, rtol=near, atol=100 * near), CASES[number]


MATRICES = """
extern "C" __global__ void matrices(const unsigned short *in, unsigned *out, unsigned short *back) {
    __shared__ __align__(16) unsigned short tile[32 * 8], other[32 * 8];
    for (int i = threadIdx.x; i < 256; i += 32) tile[i] = in[i];
    __syncthreads();
    const unsigned row = (unsigned)__cvta_generic_to_shared(&tile[threadIdx.x * 8]);
    unsigned r[4], t[4], one, pair[2], turned;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(t[0]), "=r"(t[1]), "=r"(t[2]), "=r"(t[3]) : "r"(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(one) : "r"(threadIdx.x < 8 ? row : 0u));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(pair[0]), "=r"(pair[1]) : "r"(row));
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(r[2]));
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"((unsigned)__cvta_generic_to_shared(&other[threadIdx.x * 8])), "r"(t[0]), "r"(t[1]), "r"(t[2]), "r"(t[3]));
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += 32) back[i] = other[i];
    const unsigned all[] = {r[0], r[1], r[2], r[3], t[0], t[1], t[2], t[3], one, pair[0], pair[1], turned};
    for (int i = 0; i < 12; ++i) out[i * 32 + threadIdx.x] = all[i];
}
"""


@pytest.mark.parametrize("check", [True, "races"])
def test_matrices_are_loaded_stored_and_transposed_as_the_manual_draws_them(machine: Any, check: Any) -> None:
    if check == "races" and machine.runtime.driver.name != "sim":
        pytest.skip("races are looked for on the simulator")
    values = np.random.default_rng(4).integers(0, 1 << 16, (4, 8, 8), np.uint16)
    out, back = machine.zeros((12, 32), np.uint32), machine.zeros(256, np.uint16)
    module = machine.module(MATRICES, check=check)
    module.get_function("matrices")(machine.up(values), out, back, grid=1, block=32)

    def lanes(matrix: Any) -> Any:
        return packed([matrix[GROUP, 2 * IN_GROUP + e] for e in range(2)], 16)

    plain, turned = [lanes(matrix) for matrix in values], [lanes(matrix.T) for matrix in values]
    expected = [*plain, *turned, plain[0], plain[0], plain[1], turned[2]]
    assert np.array_equal(machine.down(out, (12, 32), np.uint32), np.array(expected).astype(np.uint32))
    assert np.array_equal(machine.down(back, (4, 8, 8), np.uint16), values)


PRODUCT = """
#include <cuda_fp16.h>
// C (64 by 64) of A (64 by K, rows) and B (K by 64, rows): four warps, each 16 rows.
extern "C" __global__ void product(const half *a, const half *b, float *c, int K) {
    __shared__ __align__(16) half left[64][24], right[16][72];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float sums[8][4] = {};
    for (int k = 0; k < K; k += 16) {
        for (int i = threadIdx.x; i < 64 * 2; i += blockDim.x) {
            const unsigned to = (unsigned)__cvta_generic_to_shared(&left[i / 2][i % 2 * 8]);
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(&a[i / 2 * K + k + i % 2 * 8]));
        }
        for (int i = threadIdx.x; i < 16 * 8; i += blockDim.x) {
            const unsigned to = (unsigned)__cvta_generic_to_shared(&right[i / 8][i % 8 * 8]);
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(&b[(k + i / 8) * 64 + i % 8 * 8]));
        }
        asm volatile("cp.async.commit_group;\\n" ::);
        asm volatile("cp.async.wait_group 0;\\n" ::);
        __syncthreads();
        unsigned x[4];
        const unsigned from = (unsigned)__cvta_generic_to_shared(&left[warp * 16 + lane % 16][lane / 16 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(from));
        for (int j = 0; j < 8; ++j) {
            unsigned y[2];
            const unsigned at = (unsigned)__cvta_generic_to_shared(&right[lane % 16][j * 8]);
            asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(y[0]), "=r"(y[1]) : "r"(at));
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                         "{%0, %1, %2, %3};\\n"
                         : "+f"(sums[j][0]), "+f"(sums[j][1]), "+f"(sums[j][2]), "+f"(sums[j][3])
                         : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
        }
        __syncthreads();
    }
    for (int j = 0; j < 8; ++j)
        for (int i = 0; i < 4; ++i)
            c[(warp * 16 + lane / 4 + i / 2 * 8) * 64 + j * 8 + lane % 4 * 2 + i % 2] = sums[j][i];
}
"""


def test_a_product_by_tiles_is_that_of_numpy(machine: Any) -> None:
    random = np.random.default_rng(5)
    a, b = random.standard_normal((64, 96)).astype(np.float16), random.standard_normal((96, 64)).astype(np.float16)
    c = machine.zeros((64, 64), np.float32)
    machine.module(PRODUCT).get_function("product")(machine.up(a), machine.up(b), c, 96, grid=1, block=128)
    assert np.allclose(machine.down(c, (64, 64), np.float32), a.astype(np.float32) @ b.astype(np.float32), atol=1e-3)


@pytest.mark.needs_sim
def test_a_tile_that_another_warp_still_fills_is_a_race(make_machine: Any) -> None:
    machine = make_machine()
    source = PRODUCT.replace("__syncthreads();", "", 1)
    args = [
        machine.zeros((64, 16), np.float16),
        machine.zeros((16, 64), np.float16),
        machine.zeros((64, 64), np.float32),
    ]
    machine.module(source, check="races").get_function("product")(*args, 16, grid=1, block=128)
    with pytest.raises(Exception, match="race"):
        machine.synchronize()
