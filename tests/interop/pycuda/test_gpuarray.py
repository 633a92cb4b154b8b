"""``pycuda.gpuarray``, ``cumath`` and ``curandom`` of the stand-in: NumPy tells what is right."""

from __future__ import annotations

import operator
import pickle
import tracemalloc

import cuplug
import numpy as np
import pytest
from cuplug.runtime.interop.pycuda.stand_in import pycuda_cumath as cumath
from cuplug.runtime.interop.pycuda.stand_in import pycuda_curandom as curandom
from cuplug.runtime.interop.pycuda.stand_in import pycuda_driver as drv
from cuplug.runtime.interop.pycuda.stand_in import pycuda_gpuarray as gpuarray
from cuplug.runtime.interop.pycuda.stand_in.pycuda_tools import DeviceMemoryPool

pytestmark = [pytest.mark.needs_sim, pytest.mark.usefixtures("sim")]

VALUES = np.arange(1, 13, dtype=np.float32).reshape(3, 4)


def same(array, expected):
    found, expected = array.get(), np.asarray(expected)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow])
def test_arithmetic_with_arrays_and_numbers_on_both_sides(op):
    other = VALUES[::-1].copy()
    a, b = gpuarray.to_gpu(VALUES), gpuarray.to_gpu(other)
    same(op(a, b), op(VALUES, other))
    same(op(a, 2), op(VALUES, 2))
    same(op(2.5, a), op(np.float32(2.5), VALUES))
    same(op(a, 2j), op(VALUES, np.complex64(2j)))


def test_operators_have_their_names():
    for name in ("__add__", "__rsub__", "__itruediv__", "__eq__"):
        method = getattr(gpuarray.GPUArray, name)
        assert (method.__name__, method.__qualname__) == (name, f"GPUArray.{name}")
        assert pickle.loads(pickle.dumps(method)) is method


@pytest.mark.parametrize(("left", "right"), [("int32", "float32"), ("int64", "complex64"), ("float32", "float64")])
def test_types_of_arrays_are_promoted_as_numpys(left, right):
    a, b = VALUES.astype(left), VALUES.astype(right)
    same(gpuarray.to_gpu(a) * gpuarray.to_gpu(b), a * b)


def test_work_in_place_stays_in_its_memory():
    a = gpuarray.to_gpu(VALUES)
    b, address = a, a.ptr
    a += 1
    a *= gpuarray.to_gpu(VALUES)
    assert a is b
    assert a.ptr == address
    same(a, (VALUES + 1) * VALUES)


def test_comparisons_give_ones_and_zeros_of_the_operands_type():
    a = gpuarray.to_gpu(VALUES)
    same(a > 5, (VALUES > 5).astype(np.float32))
    same(a == gpuarray.to_gpu(VALUES), np.ones_like(VALUES))


def test_logical_functions_give_booleans():
    x, y = np.array([0, 1, 2], np.float32), np.array([1, 0, 3], np.float32)
    a, b = gpuarray.to_gpu(x), gpuarray.to_gpu(y)
    same(gpuarray.logical_and(a, b), np.logical_and(x, y))
    same(gpuarray.logical_or(a, b), np.logical_or(x, y))
    same(gpuarray.logical_not(a), np.logical_not(x))


def test_shapes_that_differ_are_refused():
    with pytest.raises(ValueError, match=r"shapes \(3, 4\), \(4, 3\) must be the same"):
        gpuarray.to_gpu(VALUES) + gpuarray.to_gpu(VALUES.reshape(4, 3))


def test_arithmetic_of_a_view_with_gaps_is_refused_as_pycuda_does():
    with pytest.raises(RuntimeError, match="only contiguous arrays"):
        gpuarray.to_gpu(VALUES)[:, 1:] + 1


def test_views_show_the_same_memory():
    a = gpuarray.to_gpu(VALUES)
    same(a[1:, ::2], VALUES[1:, ::2])
    same(a[..., None, 1], VALUES[..., None, 1])
    same(a.T, VALUES.T)
    same(a.reshape(-1, 6), VALUES.reshape(-1, 6))
    same(a.view(np.int16)[0], VALUES.view(np.int16)[0])
    a[0, 1:3] = 7
    a[2] = gpuarray.to_gpu(VALUES[0])
    changed = VALUES.copy()
    changed[0, 1:3], changed[2] = 7, VALUES[0]
    same(a, changed)
    part = a[1]
    del a
    same(part, changed[1])


@pytest.mark.parametrize("source", [VALUES, np.asfortranarray(VALUES), VALUES.reshape(2, 3, 2).transpose(1, 2, 0)])
def test_the_order_of_dimensions_in_memory_is_kept(source):
    a = gpuarray.to_gpu(source)
    assert a.flags.c_contiguous == source.flags.c_contiguous
    assert a.flags.f_contiguous == source.flags.f_contiguous
    same(a, source)
    same(a.copy(), source)
    assert gpuarray.empty_like(a).strides == a.strides
    a.set(source[::-1].copy())
    same(a, source[::-1])


def test_reductions_give_arrays_without_dimensions():
    a = gpuarray.to_gpu(VALUES)
    same(gpuarray.sum(a), VALUES.sum())
    same(gpuarray.max(a), VALUES.max())
    same(gpuarray.dot(a, a), (VALUES * VALUES).sum())
    same(a.any(), np.True_)
    same((a - 1).all(), np.False_)
    subset = gpuarray.to_gpu(np.array([1, 3], np.int32))
    same(gpuarray.subset_sum(subset, a.ravel()), np.float32(6))


def test_choices_and_indices():
    a, b = gpuarray.to_gpu(VALUES), gpuarray.to_gpu(VALUES[::-1].copy())
    same(gpuarray.maximum(a, b), np.maximum(VALUES, VALUES[::-1]))
    same(gpuarray.minimum(3, a), np.minimum(3, VALUES))
    same(gpuarray.if_positive(a - 5, a, b), np.where(VALUES > 5, VALUES, VALUES[::-1]))
    at = gpuarray.to_gpu(np.array([5, 0], np.uint32))
    same(gpuarray.take(a, at), VALUES.ravel()[[5, 0]])
    same(gpuarray.multi_put([at], at, dest_shape=(6,), out=[gpuarray.zeros(6, np.uint32)])[0], np.uint32([0] * 5 + [5]))
    same(gpuarray.concatenate((a, b), axis=1), np.concatenate((VALUES, VALUES[::-1]), axis=1))


@pytest.mark.parametrize("join", ["concatenate", "stack"])
def test_arrays_are_joined_without_a_look_at_memory_of_the_host(join):
    """NumPy was asked how the result lies by joining stand-ins of one element each: it read far beyond them."""
    a, b = (gpuarray.zeros((4, 1 << 18), np.float32, order="F") for _ in range(2))
    drv.Context.synchronize()
    tracemalloc.start()
    made = getattr(gpuarray, join)((a, b), axis=1)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < a.nbytes
    wanted = getattr(np, join)([np.zeros(a.shape, np.float32, order="F")] * 2, axis=1)
    assert made.shape == wanted.shape
    assert made.flags.f_contiguous == wanted.flags.f_contiguous
    with pytest.raises(ValueError, match=r"must match exactly|must have the same shape"):
        getattr(gpuarray, join)((a, a[:3]), axis=1)


def test_complex_numbers_have_parts():
    values = (VALUES + 2j * VALUES).astype(np.complex64)
    a = gpuarray.to_gpu(values)
    same(a.real, values.real)
    same(abs(a), abs(values))
    assert a.conj(out=a) is a
    same(a, values.conj())


def test_vector_types_have_fields():
    a = gpuarray.zeros(3, gpuarray.vec.float3)
    a[1] = gpuarray.vec.make_float3(1, 2)
    assert a.get()[1].tolist() == (1, 2, 0)
    assert gpuarray.vec.float3.itemsize == 12


def test_work_on_a_stream_runs_beside_the_others():
    stream = drv.Stream()
    a = gpuarray.zeros(4, np.float32)
    drv.Context.synchronize()
    filled = cumath.exp(a.fill(1, stream=stream), stream=stream)
    assert not stream.is_done()
    stream.synchronize()
    same(filled, np.exp(np.ones(4, np.float32)))


def test_memory_comes_from_the_allocator_that_is_named():
    pool = DeviceMemoryPool()
    a = gpuarray.to_gpu(VALUES, allocator=pool.allocate)
    b = a + 1
    assert (pool.active_blocks, pool.active_bytes) == (2, 96)
    del a, b
    assert pool.active_blocks == 0
    assert pool.managed_bytes == cuplug.cuda.memory_reserved() > 0


@pytest.mark.parametrize("size", [0, 1, 7, 8, 1000, 1 << 31])
def test_a_pools_bins_hold_the_sizes_that_belong_to_them(size):
    number = DeviceMemoryPool.bin_number(size)
    assert DeviceMemoryPool.alloc_size(number) >= size
    assert DeviceMemoryPool.bin_number(DeviceMemoryPool.alloc_size(number)) == number
    assert DeviceMemoryPool.alloc_size(number) < max(size, 1) * 9 / 8 + 1


def test_functions_of_elements_keep_the_type():
    a, out = gpuarray.to_gpu(VALUES), gpuarray.empty_like(gpuarray.to_gpu(VALUES))
    assert cumath.log(a, out=out) is out
    same(out, np.log(VALUES))
    same(cumath.fmod(a, gpuarray.to_gpu(np.full_like(VALUES, 3))), np.fmod(VALUES, 3))
    significands, exponents = cumath.frexp(a)
    same(significands, np.frexp(VALUES)[0])
    same(cumath.ldexp(significands, exponents), VALUES)


def test_random_numbers_are_distributed_as_they_say():
    uniform = curandom.rand(20000).get()
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.02
    draw = curandom.XORWOWRandomNumberGenerator(lambda count: gpuarray.to_gpu(np.arange(count, dtype=np.int32)))
    again = curandom.MRG32k3aRandomNumberGenerator(lambda count: gpuarray.to_gpu(np.arange(count, dtype=np.int32)))
    normal = draw.gen_normal(20000, np.float64).get()
    assert abs(normal.std() - 1) < 0.05
    assert (normal == again.gen_normal(20000, np.float64).get()).all()
    assert abs(draw.gen_poisson(20000, np.uint32, 4.0).get().mean() - 4) < 0.2


def test_quasirandom_sequences_are_refused_by_name():
    with pytest.raises(NotImplementedError, match="no Sobol32RandomNumberGenerator"):
        curandom.Sobol32RandomNumberGenerator()
