"""``pycuda.driver`` of the stand-in: what PyCUDA's documentation says of it."""

from __future__ import annotations

import gc
import inspect

import cuplug
import numpy as np
import pytest
from cuplug.runtime.interop.pycuda.stand_in import driver as drv
from cuplug.runtime.interop.pycuda.stand_in import pycuda_compiler
from cuplug.runtime.interop.pycuda.stand_in.pycuda_compiler import DynamicSourceModule, SourceModule

pytestmark = [pytest.mark.needs_sim, pytest.mark.usefixtures("sim")]

SCALE = """
struct Pair { int first; float second; };
__constant__ float factors[4];
__global__ void scale(float *values, float factor) { values[threadIdx.x] *= factor; }
__global__ void by_constant(float *values) { values[threadIdx.x] *= factors[threadIdx.x]; }
__global__ void spread(float *values, Pair pair) { values[threadIdx.x] = pair.first * pair.second; }
__global__ void shared_reverse(int *values) {
    extern __shared__ int kept[];
    kept[threadIdx.x] = values[threadIdx.x];
    __syncthreads();
    values[threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x];
}
"""


@pytest.fixture
def kernels():
    return SourceModule(SCALE)


def test_memory_goes_to_the_device_and_back():
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    there = drv.to_device(values)
    assert (drv.from_device(there, (3, 4), np.float32) == values).all()
    assert (drv.from_device_like(there, values) == values).all()
    drv.memcpy_htod(there, b"\x00" * 8)
    again = np.empty_like(values)
    drv.memcpy_dtoh(again, there)
    assert (again[0] == [0, 0, 2, 3]).all()


def test_rows_of_fortran_order_are_copied_as_they_lie():
    values = np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3))
    assert (drv.from_device(drv.to_device(values), 6, np.int32) == [0, 3, 1, 4, 2, 5]).all()


def test_an_array_with_gaps_is_refused():
    with pytest.raises(ValueError, match="not contiguous"):
        drv.to_device(np.arange(10)[::2])


def test_memory_belongs_to_the_allocator_and_goes_back_when_it_is_dropped():
    before = cuplug.cuda.memory_allocated()
    held = drv.mem_alloc(1 << 20)
    assert cuplug.cuda.memory_allocated() == before + (1 << 20)
    del held
    gc.collect()
    drv.Context.synchronize()
    assert cuplug.cuda.memory_allocated() == before


def test_memory_that_was_freed_says_so():
    held = drv.mem_alloc(64)
    held.free()
    with pytest.raises(drv.LogicError, match="was freed"):
        int(held)


def test_too_much_memory_is_pycudas_error():
    with pytest.raises(drv.MemoryError, match="Tried to allocate"):
        drv.mem_alloc(1 << 40)


def test_in_out_and_inout_copy_as_they_say(kernels):
    scale = kernels.get_function("scale")
    kept, changed, made = (np.full(4, start, np.float32) for start in (3, 3, 7))
    scale(drv.In(kept), np.float32(2), block=(4, 1, 1))
    scale(drv.InOut(changed), np.float32(2), block=(4, 1, 1), grid=(1, 1))
    assert (kept == 3).all()
    assert (changed == 6).all()
    kernels.get_function("spread")(drv.Out(made), np.array((3, 1.5), "i4,f4")[()], block=(4, 1, 1))
    assert (made == 4.5).all()


def test_a_plain_number_is_refused_since_it_has_no_size(kernels):
    with pytest.raises(TypeError, match=r"invalid type on parameter #1 \(0-based\): int"):
        kernels.get_function("scale")(drv.mem_alloc(16), 2, block=(4, 1, 1))


def test_an_address_within_memory_is_an_argument(kernels):
    there = drv.to_device(np.ones(8, np.float32))
    kernels.get_function("scale")(np.intp(there) + 16, np.float32(5), block=(4, 1, 1))
    assert (drv.from_device(there, 8, np.float32) == [1] * 4 + [5] * 4).all()


def test_a_prepared_kernel_takes_plain_numbers(kernels):
    there = drv.to_device(np.ones(4, np.float32))
    scale = kernels.get_function("scale").prepare("Pf")
    scale.prepared_call((1, 1), (4, 1, 1), there, 3)
    stream = drv.Stream()
    scale.prepared_async_call((1, 1), (4, 1, 1), stream, int(there), 2.0)
    stream.synchronize()
    assert scale.prepared_timed_call((1,), (4, 1, 1), there, 1)() >= 0
    assert (drv.from_device(there, 4, np.float32) == 6).all()


def test_a_kernel_that_was_not_prepared_says_so(kernels):
    with pytest.raises(drv.LogicError, match="call prepare"):
        kernels.get_function("scale").prepared_call((1, 1), (4, 1, 1), 0, 1)


def test_dynamic_shared_memory_is_given_in_bytes(kernels):
    values = np.arange(8, dtype=np.int32)
    kernels.get_function("shared_reverse")(drv.InOut(values), block=(8, 1, 1), shared=32)
    assert (values == np.arange(8)[::-1]).all()


def test_a_constant_is_filled_by_its_address(kernels):
    address, nbytes = kernels.get_global("factors")
    assert nbytes == 16
    drv.memcpy_htod(address, np.array([1, 2, 3, 4], np.float32))
    values = np.ones(4, np.float32)
    kernels.get_function("by_constant")(drv.InOut(values), block=(4, 1, 1))
    assert (values == [1, 2, 3, 4]).all()


def test_a_kernel_knows_its_attributes(kernels):
    function = kernels.get_function("scale")
    assert function is kernels.get_function("scale")
    assert (
        function.max_threads_per_block == function.get_attribute(drv.function_attribute.MAX_THREADS_PER_BLOCK) == 1024
    )
    with pytest.raises(drv.LogicError, match="nowhere"):
        kernels.get_function("nowhere")


def test_a_block_that_is_too_large_is_a_wrong_call(kernels):
    with pytest.raises(drv.LogicError, match="max_threads_per_block"):
        kernels.get_function("scale")(drv.mem_alloc(16), np.float32(1), block=(1024, 2, 1))


def test_streams_run_beside_each_other_and_events_order_them(kernels):
    scale = kernels.get_function("scale")
    values = drv.pagelocked_zeros(4, np.float32)
    values[:] = 1
    there, first, second, done = drv.mem_alloc(16), drv.Stream(), drv.Stream(), drv.Event()
    drv.memcpy_htod_async(there, values, first)
    scale(there, np.float32(4), block=(4, 1, 1), stream=first)
    assert not first.is_done()
    done.record(first)
    second.wait_for_event(done)
    drv.memcpy_dtoh_async(values, there, second)
    second.synchronize()
    assert done.query()
    assert (values == 4).all()


def test_the_default_stream_waits_for_the_others(kernels):
    there = drv.to_device(np.ones(4, np.float32))
    kernels.get_function("scale")(there, np.float32(4), block=(4, 1, 1), stream=drv.Stream())
    assert (drv.from_device(there, 4, np.float32) == 4).all()


def test_the_time_between_events_is_that_of_the_simulated_clock(kernels):
    start, end = drv.Event(), drv.Event()
    with pytest.raises(drv.LogicError, match="must be recorded"):
        end.time_since(start)
    start.record()
    kernels.get_function("scale")(drv.to_device(np.ones(4, np.float32)), np.float32(1), block=(4, 1, 1))
    end.record().synchronize()
    assert end.time_since(start) == start.time_till(end) > 0


def test_page_locked_memory_is_the_base_of_its_array():
    array = drv.pagelocked_empty((3, 4), np.complex64, order="F")
    assert array.flags.f_contiguous
    assert isinstance(array.base, drv.PagelockedHostAllocation)
    assert array.base.get_device_pointer() == array.ctypes.data
    aligned = drv.aligned_zeros((3, 4), np.int16, alignment=1 << 14)
    assert aligned.ctypes.data % (1 << 14) == 0


@pytest.mark.parametrize(
    ("kind", "last"), [("pagelocked", "mem_flags"), ("aligned", "alignment"), ("managed", "mem_flags")]
)
def test_what_makes_host_arrays_says_what_it_takes(kind, last):
    for name in ("empty", "zeros"):
        assert [*inspect.signature(getattr(drv, f"{kind}_{name}")).parameters] == ["shape", "dtype", "order", last]
        assert [*inspect.signature(getattr(drv, f"{kind}_{name}_like")).parameters] == ["array", last]


def test_filling_counts_elements():
    there = drv.mem_alloc(32)
    drv.memset_d32(there, 7, 8)
    drv.memset_d8(int(there) + 4, 0, 4)
    assert (drv.from_device(there, 8, np.uint32) == [7, 0, *[7] * 6]).all()
    block, pitch = drv.mem_alloc_pitch(6, 2, 4)
    drv.memset_d2d16(block, pitch, 5, 3, 2)
    assert (drv.from_device(int(block) + pitch, 3, np.uint16) == 5).all()


def test_a_rectangle_is_copied_row_by_row():
    values = np.arange(24, dtype=np.uint8).reshape(4, 6)
    there, back = drv.to_device(values), np.zeros((2, 3), np.uint8)
    copy = drv.Memcpy2D()
    copy.set_src_device(there)
    copy.set_dst_host(back)
    copy.src_x_in_bytes, copy.src_y, copy.src_pitch, copy.dst_pitch = 2, 1, 6, 3
    copy.width_in_bytes, copy.height = 3, 2
    copy()
    assert (back == values[1:3, 2:5]).all()


def test_the_context_on_top_decides_the_device():
    assert drv.Context.get_device() == drv.Device(0)
    context = drv.Device(1).make_context()
    assert drv.Context.get_device().ordinal == 1
    assert drv.Context.get_current() is context
    other = drv.mem_alloc(1 << 20)
    assert cuplug.cuda.memory_allocated(1) == 1 << 20
    del other
    context.pop()


def test_a_device_says_what_it_is():
    device = drv.Device(1)
    assert drv.Device.count() == 2
    assert drv.Device(device.pci_bus_id()) == device
    assert device.warp_size == device.get_attribute(drv.device_attribute.WARP_SIZE) == 32
    assert str(drv.device_attribute.WARP_SIZE) == "WARP_SIZE"
    assert drv.mem_get_info()[1] == device.total_memory() == 1 << 30


def test_a_grid_is_made_of_whole_numbers_which_a_division_may_give(kernels):
    values = np.ones(4, np.float32)
    kernels.get_function("scale")(drv.InOut(values), np.float32(2), block=(4.0, 1, 1), grid=(np.int64(1), 2 / 2))
    assert (values == 2).all()
    with pytest.raises(TypeError, match=r"grid=\(2\.5, 1\) .* whole numbers: divide by //"):
        kernels.get_function("scale")(drv.InOut(values), np.float32(2), block=(4, 1, 1), grid=(10 / 4, 1))


def test_an_access_beyond_memory_is_a_failed_launch(kernels):
    kernels.get_function("scale")(np.uintp(8), np.float32(1), block=(4, 1, 1))
    with pytest.raises(drv.LaunchError, match="ILLEGAL_ADDRESS"):
        drv.Context.synchronize()


def test_source_that_does_not_compile_brings_the_compilers_words():
    with pytest.raises(drv.CompileError, match="no_such_thing"):
        SourceModule("__global__ void f() { no_such_thing(); }")


def test_a_texture_reference_reads_a_matrix():
    module = SourceModule(
        "texture<float, 2, cudaReadModeElementType> image;\n"
        "__global__ void turn(float *out) {\n"
        "    out[threadIdx.x * 3 + threadIdx.y] = tex2D(image, threadIdx.x, threadIdx.y);\n"
        "}"
    )
    values, out = np.random.default_rng(0).random((3, 2), np.float32), np.zeros((2, 3), np.float32)
    reference = module.get_texref("image")
    drv.matrix_to_texref(values, reference, order="C")
    module.get_function("turn")(drv.Out(out), block=(2, 3, 1), texrefs=[reference])
    assert (out == values.T).all()


@pytest.mark.parametrize("dtype", [np.int16, np.float32, np.float64, np.complex128])
def test_a_surface_reference_writes_and_reads_an_array(dtype):
    kind = {"int16": "short", "float32": "float", "float64": "double"}.get(dtype.__name__, "pycuda::complex<double>")
    source = """
        #include <pycuda-helpers.hpp>
        surface<void, cudaSurfaceType2D> image;
        __global__ void put(TYPE *x) {
            fp_surf2Dwrite(x[threadIdx.y * 3 + threadIdx.x], image, threadIdx.x, threadIdx.y);
        }
        __global__ void turn(TYPE *x) {
            fp_surf2Dread(&x[threadIdx.x * 2 + threadIdx.y], image, threadIdx.x, threadIdx.y, cudaBoundaryModeClamp);
        }"""
    module = SourceModule(source.replace("TYPE", kind))
    values, out = np.arange(6).reshape(2, 3).astype(dtype), np.zeros((3, 2), dtype)
    array = drv.np_to_array(np.zeros_like(values), "C", allowSurfaceBind=True)
    image = module.get_surfref("image")
    image.set_array(array)
    assert image.get_array() is array
    module.get_function("put")(drv.In(values), block=(3, 2, 1))
    module.get_function("turn")(drv.Out(out), block=(3, 2, 1))
    assert (out == values.T).all()


@pytest.mark.parametrize(
    ("use", "name"),
    [
        (lambda: DynamicSourceModule(""), "DynamicSourceModule"),
        (lambda: drv.module_from_buffer(b""), "module_from_buffer"),
        (lambda: drv.mem_get_ipc_handle(0), "mem_get_ipc_handle"),
    ],
)
def test_what_is_missing_raises_with_its_name(use, name):
    with pytest.raises(NotImplementedError, match=f"stand-in for PyCUDA has no {name}"):
        use()
    with pytest.raises(AttributeError, match=r"no pycuda\.driver\.nonsense"):
        drv.nonsense  # noqa: B018


def test_managed_arrays_are_given_to_kernels_as_they_are(kernels):
    scale = kernels.get_function("scale")
    values = drv.managed_zeros((2, 3), np.float32, mem_flags=drv.mem_attach_flags.GLOBAL)
    values += 2
    scale(values, np.float32(3), block=(6, 1, 1))
    drv.Context.synchronize()
    assert values.tolist() == [[6, 6, 6]] * 2
    assert values.base.get_device_pointer() == int(values.base) == values.ctypes.data
    like = drv.managed_empty_like(values)
    assert (like.shape, like.dtype) == ((2, 3), np.float32)
    values.base.attach(drv.mem_attach_flags.HOST)
    assert drv.Device(0).get_attribute(drv.device_attribute.MANAGED_MEMORY) == 1


def test_a_managed_array_that_a_kernel_still_works_with_is_not_touched(kernels):
    values = drv.managed_zeros(4, np.float32)
    kernels.get_function("scale")(values, np.float32(3), block=(4, 1, 1))
    values[1] = 5
    with pytest.raises(drv.LaunchError, match=r"touched managed memory at .* while kernel scale worked with it"):
        drv.Context.synchronize()


def test_what_is_compiled_before_is_loaded_from_bytes_and_files(tmp_path):
    image = pycuda_compiler.compile("__global__ void set(int *x) { x[0] = N; }", options=["-DN=7"], target="cubin")
    (tmp_path / "kernels.cubin").write_bytes(image)
    for module in (drv.module_from_buffer(image), drv.module_from_file(str(tmp_path / "kernels.cubin"))):
        found = np.zeros(1, np.int32)
        module.get_function("set")(drv.Out(found), block=(1, 1, 1))
        assert found[0] == 7
    with pytest.raises(drv.CompileError):
        pycuda_compiler.compile("__global__ void set(int *x) { x[0] = y; }")
