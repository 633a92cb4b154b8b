"""``pycuda.elementwise``, ``reduction`` and ``scan`` of the stand-in: kernels generated from expressions."""

from __future__ import annotations

import numpy as np
import pytest
from cuplug.runtime.interop.pycuda.stand_in import pycuda_gpuarray as gpuarray
from cuplug.runtime.interop.pycuda.stand_in import pycuda_tools as tools
from cuplug.runtime.interop.pycuda.stand_in.pycuda_elementwise import ElementwiseKernel, get_linear_combination_kernel
from cuplug.runtime.interop.pycuda.stand_in.pycuda_reduction import ReductionKernel
from cuplug.runtime.interop.pycuda.stand_in.pycuda_scan import ExclusiveScanKernel, InclusiveScanKernel

pytestmark = [pytest.mark.needs_sim, pytest.mark.usefixtures("sim")]


def test_an_expression_is_done_for_each_element():
    kernel = ElementwiseKernel(
        "float a, const float *x, pycuda::complex<float> *z",
        "z[i] = pycuda::complex<float>(a * x[i], twice(x[i]))",
        "combine",
        preamble="__device__ float twice(float x) { return 2 * x; }",
    )
    x, z = gpuarray.arange(5000, dtype=np.float32), gpuarray.empty(5000, np.complex64)
    kernel(3, x, z)
    assert (z.get() == x.get() * np.complex64(3 + 2j)).all()


@pytest.mark.parametrize("part", [slice(5, 2000), slice(5, 2000, 17), slice(300, 5, -1), slice(10, -1), slice(7, 7)])
def test_an_expression_is_done_for_a_part_of_the_elements(part):
    kernel = ElementwiseKernel("int *z", "z[i] = 7", "set_to_seven")
    a, expected = gpuarray.zeros(3000, np.int32), np.zeros(3000, np.int32)
    expected[part] = 7
    kernel(a, slice=part)
    assert (a.get() == expected).all()


def test_a_wrong_argument_is_named():
    kernel = ElementwiseKernel("float *x, float y", "x[i] = y")
    with pytest.raises(TypeError, match="kernel kernel: x must be a GPUArray, not ndarray"):
        kernel(np.zeros(3, np.float32), 1)
    with pytest.raises(ValueError, match="the type 'strange' of 'strange y' is unknown"):
        ElementwiseKernel("float *x, strange y", "x[i] = y")


def test_values_are_reduced_by_any_expression():
    a = np.random.default_rng(0).random(10007, np.float32)
    largest = ReductionKernel(np.float32, neutral="0", reduce_expr="max(a, b)", map_expr="x[i]", arguments="float *x")
    x = gpuarray.to_gpu(a)
    assert largest(x).get() == a.max()
    assert largest(x, slice=slice(3, 900, 7)).get() == a[3:900:7].max()
    out = gpuarray.zeros(2, np.float32)
    largest(x, out=out[1])
    assert out.get().tolist() == [0, a.max()]


def test_structures_are_reduced_once_they_have_a_name():
    pair = np.dtype([("low", np.int32), ("high", np.int32)])
    tools.register_dtype(pair, "extent")
    kernel = ReductionKernel(
        pair,
        neutral="extent(1 << 30, -(1 << 30))",
        reduce_expr="extent(min(a.low, b.low), max(a.high, b.high))",
        map_expr="extent(x[i], x[i])",
        arguments="int *x",
        preamble="struct extent { int low, high; __device__ extent(int l, int h) : low(l), high(h) {} };",
    )
    values = np.random.default_rng(0).integers(-1000, 1000, 3000, np.int32)
    assert kernel(gpuarray.to_gpu(values)).get().tolist() == (values.min(), values.max())


@pytest.mark.parametrize("size", [1, 63, 5000, 200003])
def test_running_totals_with_and_without_their_own_element(size):
    values = np.random.default_rng(size).integers(0, 9, size, np.int32)
    totals = np.cumsum(values, dtype=np.int32)
    a = gpuarray.to_gpu(values)
    assert InclusiveScanKernel(np.int32, "a+b")(a) is a
    assert (a.get() == totals).all()
    exclusive = ExclusiveScanKernel(np.int32, "a+b", neutral="0")(gpuarray.to_gpu(values))
    assert (exclusive.get() == totals - values).all()


def test_a_linear_combination_reads_its_factors_through_textures():
    dtype = np.float64  # which textures do not know
    kernel, textures = get_linear_combination_kernel(((True, dtype, dtype), (False, dtype, dtype)), dtype)
    x, y = (gpuarray.arange(100, dtype=dtype) for _ in range(2))
    z = gpuarray.empty_like(x)
    for factor in (5, 6.25):
        factor_memory = gpuarray.to_gpu(np.array([factor], dtype))
        factor_memory.bind_to_texref_ext(textures[0], allow_double_hack=True)
        kernel.prepared_call(x._grid, x._block, x.gpudata, 2.0, y.gpudata, z.gpudata, x.mem_size)
        assert (z.get() == (factor + 2) * x.get()).all()


def test_names_of_types_in_kernels():
    assert tools.dtype_to_ctype(np.complex128) == "pycuda::complex<double>"
    assert tools.dtype_to_ctype(np.float64, with_fp_tex_hack=True) == "fp_tex_double"
    argument = tools.parse_c_arg("const unsigned int *__restrict__ count")
    assert (type(argument), argument.dtype, argument.name) == (tools.VectorArg, np.uint32, "count")
    with pytest.raises(ValueError, match="no type of C is known"):
        tools.dtype_to_ctype(np.dtype([("a", "i4"), ("b", "f8")]))


def test_how_many_blocks_a_multiprocessor_holds():
    data = tools.DeviceData()
    record = tools.OccupancyRecord(data, 256, shared_mem=16 << 10)
    assert (record.tb_per_mp, record.limited_by, record.occupancy) == (3, "smem", 24 / 64)
    assert tools.OccupancyRecord(data, 1024).limited_by == "warps"


def test_results_are_kept_once_for_each_device():
    calls = []
    compute = tools.context_dependent_memoize(lambda x: calls.append(x) or x)
    assert compute(1) == compute(1) == 1
    tools.clear_context_caches()
    compute(1)
    assert calls == [1, 1]
