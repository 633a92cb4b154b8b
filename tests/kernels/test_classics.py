"""One set of kernels runs on every driver, with results equal to NumPy's within rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import DriverError

pytestmark = pytest.mark.one_schedule


@pytest.fixture(params=[True, False], ids=["checked", "unchecked"])
def classics(machine: Any, request: pytest.FixtureRequest) -> Any:
    if machine.runtime.driver.name != "sim" and not request.param:
        pytest.skip("checks are the simulator's")
    return machine.module("classics.cu", check=request.param)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240501)


def test_vector_add(machine: Any, classics: Any, rng: Any) -> None:
    a, b = rng.random((2, 10_001), dtype=np.float32)
    out = machine.empty(a.shape, a.dtype)
    classics.get_function("add")(machine.up(a), machine.up(b), out, a.size, grid=(a.size + 255) // 256, block=256)
    assert np.array_equal(machine.down(out, a.shape, a.dtype), a + b)


def test_saxpy_with_a_grid_stride_loop(machine: Any, classics: Any, rng: Any) -> None:
    x, y = rng.random((2, 50_000), dtype=np.float32)
    out = machine.empty(x.shape, x.dtype)
    classics.get_function("saxpy")[(7,), (128, 1, 1)](2.5, machine.up(x), machine.up(y), out, x.size)
    assert np.allclose(machine.down(out, x.shape, x.dtype), np.float32(2.5) * x + y, rtol=1e-6)


def test_tiled_matrix_product(machine: Any, classics: Any, rng: Any) -> None:
    n = 96
    a, b = rng.random((2, n, n), dtype=np.float32)
    out = machine.empty((n, n), np.float32)
    classics.get_function("matmul")(machine.up(a), machine.up(b), out, n, grid=(n // 16, n // 16), block=(16, 16))
    assert np.allclose(machine.down(out, (n, n), np.float32), a @ b, rtol=1e-5)


def test_transpose_of_a_matrix_that_the_tiles_do_not_divide(machine: Any, classics: Any, rng: Any) -> None:
    height, width = 50, 83
    a = rng.random((height, width), dtype=np.float32)
    out = machine.empty((width, height), np.float32)
    grid = (width + 15) // 16, (height + 15) // 16
    classics.get_function("transpose")(machine.up(a), out, width, height, grid=grid, block=(16, 16))
    assert np.array_equal(machine.down(out, (width, height), np.float32), a.T)


def test_block_reduction_in_dynamic_shared_memory(machine: Any, classics: Any, rng: Any) -> None:
    a = rng.random(5_000, dtype=np.float32)
    blocks = (a.size + 511) // 512
    out = machine.empty(blocks, np.float32)
    classics.get_function("reduce")(machine.up(a), out, a.size, grid=blocks, block=256, shared=256 * 4)
    assert np.isclose(machine.down(out, blocks, np.float32).sum(), a.sum(), rtol=1e-5)


def test_warp_shuffle_reduction(machine: Any, classics: Any, rng: Any) -> None:
    a = rng.random(10_000, dtype=np.float32)
    total = machine.zeros(1, np.float32)
    classics.get_function("warp_reduce")(machine.up(a), total, a.size, grid=4, block=128)
    assert np.isclose(machine.down(total, 1, np.float32)[0], a.sum(), rtol=1e-5)


def test_histogram_with_shared_atomics(machine: Any, classics: Any, rng: Any) -> None:
    data = rng.integers(0, 256, 20_000, dtype=np.uint8)
    bins = machine.zeros(256, np.uint32)
    classics.get_function("histogram")(machine.up(data), bins, data.size, grid=8, block=192)
    assert np.array_equal(machine.down(bins, 256, np.uint32), np.bincount(data, minlength=256))


def test_prefix_scan(machine: Any, classics: Any, rng: Any) -> None:
    a = rng.integers(0, 100, 512, dtype=np.int32)
    out = machine.empty(512, np.int32)
    classics.get_function("scan")(machine.up(a), out, 512, grid=1, block=256, shared=512 * 4)
    assert np.array_equal(machine.down(out, 512, np.int32), np.cumsum(a) - a)


def test_stencil_in_three_dimensions(machine: Any, classics: Any, rng: Any) -> None:
    a = rng.random((13, 17, 21))
    out = machine.zeros(a.shape, a.dtype)
    grid = tuple((n + b - 1) // b for n, b in zip(a.shape[::-1], (8, 4, 2), strict=True))
    classics.get_function("stencil")(machine.up(a), out, *a.shape[::-1], grid=grid, block=(8, 4, 2))
    expected = np.zeros_like(a)
    inner = (slice(1, -1),) * 3
    expected[inner] = -6 * a[inner]
    for axis in range(3):
        expected[inner] += np.roll(a, 1, axis)[inner] + np.roll(a, -1, axis)[inner]
    assert np.allclose(machine.down(out, a.shape, a.dtype), expected, rtol=1e-12, atol=1e-12)


def test_nbody_with_float4(machine: Any, classics: Any, rng: Any) -> None:
    n = 256
    bodies = rng.random((n, 4), dtype=np.float32)
    out = machine.empty((n, 3), np.float32)
    classics.get_function("nbody")(machine.up(bodies), out, n, 0.01, grid=n // 64, block=64)
    apart = bodies[None, :, :3].astype(float) - bodies[:, None, :3]
    weight = bodies[None, :, 3] * ((apart**2).sum(-1) + 0.01) ** -1.5
    expected = (apart * weight[..., None]).sum(1)
    assert np.allclose(machine.down(out, (n, 3), np.float32), expected, rtol=1e-3, atol=1e-2)


def test_mandelbrot(machine: Any, classics: Any) -> None:
    width, height, limit = 60, 40, 50
    out = machine.empty((height, width), np.int32)
    classics.get_function("mandelbrot")(out, width, height, limit, grid=(4, 3), block=(16, 16))
    c = (-2.0 + 3.0 * np.arange(width) / width)[None, :] + 1j * (-1.5 + 3.0 * np.arange(height) / height)[:, None]
    x, y, steps = np.zeros(c.shape), np.zeros(c.shape), np.zeros(c.shape, int)
    for _ in range(limit):
        inside = x * x + y * y <= 4.0
        steps += inside
        x, y = np.where(inside, x * x - y * y + c.real, x), np.where(inside, 2.0 * x * y + c.imag, y)
    assert np.array_equal(machine.down(out, (height, width), np.int32), steps)


def test_bitonic_sort(machine: Any, classics: Any, rng: Any) -> None:
    a = rng.standard_normal(512).astype(np.float32)
    values = machine.up(a)
    classics.get_function("bitonic")(values, grid=1, block=512, shared=512 * 4)
    assert np.array_equal(machine.down(values, 512, np.float32), np.sort(a))


def test_maximum_by_compare_and_swap(machine: Any, classics: Any, rng: Any) -> None:
    a = rng.standard_normal(9_999).astype(np.float32)
    out = machine.up(np.float32([-np.inf]))
    classics.get_function("maximum")(machine.up(a), out, a.size, grid=40, block=256)
    assert machine.down(out, 1, np.float32)[0] == a.max()


def test_constant_memory_and_device_variables(machine: Any, classics: Any, rng: Any) -> None:
    x = rng.random(300, dtype=np.float32)
    out = machine.empty(x.shape, x.dtype)
    coefficients = np.float32([1.0, -2.0, 0.5, 3.0])
    symbol, calls = classics.get_global("coefficients"), classics.get_global("calls")
    assert (symbol.nbytes, calls.nbytes) == (16, 4)
    symbol.copy_from(coefficients)
    classics.get_function("polynomial")(machine.up(x), out, x.size, grid=2, block=256)
    expected = np.polynomial.polynomial.polyval(x.astype(float), coefficients)
    assert np.allclose(machine.down(out, x.shape, x.dtype), expected, rtol=1e-5)
    assert np.array_equal(symbol.copy_to(np.empty(4, np.float32)), coefficients)
    assert calls.copy_to(np.empty(1, np.int32))[0] == 42
    calls.copy_from(np.int32(7))
    assert calls.copy_to(np.empty(1, np.int32))[0] == 7


def test_printf_comes_out_in_the_order_of_blocks(machine: Any, classics: Any, capfd: Any) -> None:
    classics.get_function("hello")(3, grid=2, block=2)
    machine.synchronize()
    lines = [f"block {block} thread {thread}:  3.25 ok" for block in range(2) for thread in range(2)]
    found = capfd.readouterr().out.splitlines()
    assert (found if machine.runtime.driver.name == "sim" else sorted(found)) == lines


def test_templates_are_instantiated_by_name_expressions(machine: Any, rng: Any) -> None:
    expressions = ("scale<float>", "scale<int, 3>", "reverse<double, 64>")
    module = machine.module("templates.cu", name_expressions=expressions)
    x = rng.random(100, dtype=np.float32)
    floats, ints, doubles = machine.up(x), machine.up(np.arange(100, dtype=np.int32)), machine.up(np.arange(128.0))
    module.get_function("scale<float>")(floats, 1.5, 100, grid=1, block=128)
    module.get_function("scale<int, 3>")(ints, 2, 100, grid=1, block=128)
    module.get_function("reverse<double, 64>")(doubles, grid=2, block=64)
    assert np.array_equal(machine.down(floats, 100, np.float32), x * np.float32(1.5))
    assert np.array_equal(machine.down(ints, 100, np.int32), np.arange(100) * 8)
    assert np.array_equal(machine.down(doubles, 128, np.float64), np.arange(128.0).reshape(2, 64)[:, ::-1].ravel())


def test_kernels_and_symbols_in_namespaces_are_found(machine: Any) -> None:
    module = machine.module("templates.cu", name_expressions=("scale<float>",))
    values = machine.zeros(8, np.float64)
    for name in ("ops::shift", "shift"):
        module.get_function(name)(values, 8, grid=1, block=32)
    module.get_global("ops::offset").copy_from(np.float64(2.0))
    module.get_function("_ZN3ops5shiftEPdi")(values, 8, grid=1, block=32)
    assert np.array_equal(machine.down(values, 8, np.float64), np.full(8, 3.0))
    out = machine.empty(10, np.int32)
    module.get_function("lambdas")(out, 10, 1, grid=1, block=4)
    assert np.array_equal(machine.down(out, 10, np.int32), np.arange(10) ** 2 + 1)


def test_kernels_that_share_a_name_are_told_by_their_parameters(machine: Any) -> None:
    module = machine.module("overloads.cu")
    a, b = np.arange(8, dtype=np.int32), np.arange(8, dtype=np.int32) ** 2
    pairs = np.arange(16, dtype=np.float32)
    out = machine.empty(8, np.int32)
    for name, arguments, expected in (
        ("combine(const int*, int*, int)", (machine.up(a), out, 3), 6 * a),
        ("combine(float2 const *, int *, int)", (machine.up(pairs), out, -1), -2 * pairs.reshape(8, 2).sum(1)),
        ("combine(const int*, const int*, int*, uint)", (machine.up(a), machine.up(b), out, 2), 2 * (a + b)),
        ("_Z7combinePKiPii", (machine.up(b), out, 1), 2 * b),
    ):
        module.get_function(name)(*arguments, grid=1, block=8)
        assert np.array_equal(machine.down(out, 8, np.int32), expected)
    with pytest.raises(DriverError, match="3 kernels are called 'combine'; say which with its parameters' types"):
        module.get_function("combine")


def test_a_kernel_that_shares_its_name_with_a_mere_declaration_or_a_template_is_found_by_it(machine: Any) -> None:
    module = machine.module("overloads.cu")
    x, out = machine.up(np.arange(8, dtype=np.float32)), machine.empty(8, np.float32)
    module.get_function("shift")(x, out, grid=1, block=8)
    assert machine.down(out, 8, np.float32).tolist() == list(range(1, 9))
    module.get_function("negate")(machine.up(np.arange(8, dtype=np.int32)), out, grid=1, block=8)
    assert machine.down(out, 8, np.int32).tolist() == [-i for i in range(8)]


def test_instances_of_the_source_itself_are_found(machine: Any, rng: Any) -> None:
    module = machine.module("overloads.cu")
    x, y = rng.random((2, 8), dtype=np.float32)
    floats, ints = machine.up(y), machine.empty(8, np.int32)
    module.get_function("axpy<float>")(2.0, machine.up(x), floats, grid=1, block=8)
    module.get_function("axpy<int>")(7, machine.up(np.arange(8, dtype=np.int32)), ints, grid=1, block=8)
    assert np.allclose(machine.down(floats, 8, np.float32), y + 2 * x, rtol=1e-6)
    assert machine.down(ints, 8, np.int32).tolist() == [7 - i for i in range(8)]
