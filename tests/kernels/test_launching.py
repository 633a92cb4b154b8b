"""Launching: forms, arguments, limits, streams, devices."""

from __future__ import annotations

import copy
import ctypes
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.allocators.errors import CuplugError, DriverError
from cuplug.runtime.kernels import SourceModule
from cuplug.runtime.kernels.launch.unrolling import Unroller
from cuplug.runtime.machine.runtime import Runtime
from cuplug.runtime.streams.stream import Stream, stream

pytestmark = pytest.mark.one_schedule
SOURCE = """
struct Pair { int a; float b; };
extern "C" {
__global__ void fill(float *out, float value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = value;
}
__global__ void every_kind(double *out, signed char c, unsigned short h, int i, unsigned u, long long l, size_t z,
                           float f, double d, bool b, Pair pair, const char *nothing) {
    double values[] = {(double)c, (double)h, (double)i, (double)u, (double)l, (double)z,
                       f, d, (double)b, (double)pair.a, pair.b, nothing ? 1.0 : 0.0};
    for (int k = 0; k < 12; ++k) out[k] = values[k];
}
__global__ void __launch_bounds__(64) bounded(int *out) { out[threadIdx.x] = 1; }
__global__ void nothing() {}
}
"""
PAIR = np.dtype([("a", "i4"), ("b", "f4")])


class _Array:
    """Device memory as other libraries show it."""

    def __init__(self, buffer: Any, **interface: Any) -> None:
        self.buffer = buffer
        self.__cuda_array_interface__ = {**buffer.__cuda_array_interface__, **interface}


class _Allocation:
    """As PyCUDA's DeviceAllocation."""

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer

    def __int__(self) -> int:
        return int(self.buffer)


@pytest.fixture
def module(machine: Any) -> Any:
    return machine.module(SOURCE)


def test_every_form_of_launching(machine: Any, module: Any) -> None:
    fill = module.get_function("fill")
    out = machine.zeros(6, np.float32)
    fill(out, 1, 1, grid=1, block=32)
    fill(int(out) + 4, 2.0, 1, grid=(1, 1), block=[32, 1])
    fill[1, 32](int(out) + 8, np.float32(3), 1)
    prepared = fill.prepare((1, 1, 1), (32, 1, 1), shared=16)
    prepared(int(out) + 12, 4.5, 1)
    prepared(np.uint64(int(out) + 16), 5.5, np.int32(1))
    other = Stream(runtime=machine.runtime)
    fill[1, 32, 0, other](int(out) + 20, 6, 1)
    machine.synchronize()
    assert machine.down(out, 6, np.float32).tolist() == [1, 2, 3, 4.5, 5.5, 6]
    module.get_function("nothing")(block=1)


def test_pointers_come_in_many_shapes(machine: Any, module: Any) -> None:
    fill = module.get_function("fill")
    buffers = [machine.zeros(1, np.float32) for _ in range(4)]
    wrapped = [buffers[0], _Array(buffers[1]), _Allocation(buffers[2]), ctypes.c_void_p(int(buffers[3]))]
    for value, pointer in enumerate(wrapped):
        fill(pointer, value + 1, 1, grid=1, block=1)
    assert [machine.down(buffer, 1, np.float32)[0] for buffer in buffers] == [1, 2, 3, 4]


def test_arguments_become_what_the_kernel_declares(machine: Any, module: Any) -> None:
    out = machine.empty(12, np.float64)
    every = module.get_function("every_kind")
    pair = np.array((-7, 1.5), PAIR)
    expected = [-5, 65535, -2, 4_000_000_000, -(2**40), 2**50, 0.5, 1 / 3, 1, -7, 1.5, 0]
    plain = (-5, 65535, -2, 4_000_000_000, -(2**40), 2**50, 0.5, 1 / 3, True)
    types = np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64, np.bool_
    scalars = tuple(kind(value) for kind, value in zip(types, plain, strict=True))
    for numbers in (plain, scalars):
        for structure in (pair, pair.tobytes(), pair[()]):
            every(out, *numbers, structure, None, grid=1, block=1)
            assert machine.down(out, 12, np.float64).tolist() == expected


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, 1.5, "parameter 0 .*'out', a pointer"),
        (0, np.zeros(3), "'out'.*host memory"),
        (0, np.int32(5), "'out'.*an address has 8 bytes"),
        (1, "3", "parameter 1 .*'value', a floating-point number of 4 bytes"),
        (1, np.int32(1), "'value'.*kind"),
        (1, True, "'value'"),
        (2, 1.0, "'n', a signed integer of 4 bytes"),
        (2, np.int64(3), "'n'.*it has 8 bytes"),
        (2, np.float32(3), "'n'.*kind"),
        (2, None, "'n'"),
    ],
)
def test_a_wrong_argument_is_named(machine: Any, module: Any, place: int, value: object, message: str) -> None:
    arguments: list[object] = [machine.zeros(1, np.float32), 1.0, 1]
    arguments[place] = value
    with pytest.raises(TypeError, match=f"kernel fill, {message}" if message.startswith("par") else message):
        module.get_function("fill")(*arguments, grid=1, block=1)


def test_the_number_of_arguments_must_be_right(module: Any) -> None:
    with pytest.raises(TypeError, match=r"kernel fill takes 3 arguments \(out, value, n\); it got 2"):
        module.get_function("fill")(0, 1.0, grid=1, block=1)


@pytest.mark.parametrize(
    ("value", "n"),
    [(np.float64(2.5), 1), (np.float16(2.5), 1), (ctypes.c_float(2.5), ctypes.c_int64(1)), (2.5, ctypes.c_uint8(1))],
)
def test_floats_of_other_sizes_and_scalars_of_ctypes_convert(machine: Any, module: Any, value: Any, n: Any) -> None:
    out = machine.zeros(1, np.float32)
    for _ in range(2):  # the second time by the function written out for these types
        module.get_function("fill")(out, value, n, grid=1, block=1)
        assert machine.down(out, 1, np.float32)[0] == 2.5
        out = machine.zeros(1, np.float32)


def test_a_scalar_of_ctypes_that_does_not_fit_is_named(module: Any) -> None:
    with pytest.raises(ValueError, match=r"parameter 2 .* cannot hold"):
        module.get_function("fill")(0, 1.0, ctypes.c_int64(2**31), grid=1, block=1)
    with pytest.raises(TypeError, match="'n', a signed integer of 4 bytes"):
        module.get_function("fill")(0, 1.0, ctypes.c_double(3), grid=1, block=1)


@pytest.mark.parametrize(("place", "value"), [(2, 2**31), (2, -(2**31) - 1), (1, 1e300), (0, -1)])
def test_a_number_that_does_not_fit_is_named(module: Any, place: int, value: Any) -> None:
    arguments: list[Any] = [0, 1.0, 1]
    arguments[place] = value
    with pytest.raises(ValueError, match=f"parameter {place} .* cannot hold"):
        module.get_function("fill")(*arguments, grid=1, block=1)
    arguments[place] = type(value)(0)  # and the same types afterwards, which are known now
    module.get_function("fill")(*arguments[:2], 0, grid=1, block=1)


def test_a_structure_must_have_its_size(module: Any) -> None:
    with pytest.raises(TypeError, match=r"'pair', a structure of 8 bytes.* it has 7 bytes"):
        module.get_function("every_kind")(0, 1, 1, 1, 1, 1, 1, 1.0, 1.0, True, b"1234567", None, grid=1, block=1)


@pytest.mark.parametrize(
    ("geometry", "limit"),
    [
        ({"grid": 1, "block": 1025}, "max_block_dim"),
        ({"grid": 1, "block": (1, 1, 65)}, "max_block_dim"),
        ({"grid": 1, "block": (32, 33)}, "max_threads_per_block"),
        ({"grid": (1, 65536), "block": 1}, "max_grid_dim"),
        ({"grid": 0, "block": 1}, "max_grid_dim"),
        ({"grid": 1, "block": 1, "shared": 1 << 20}, "shared_memory_per_block_optin"),
    ],
)
def test_a_limit_of_the_device_is_named(module: Any, geometry: dict[str, Any], limit: str) -> None:
    with pytest.raises(ValueError, match=limit):
        module.get_function("nothing")(**geometry)


def test_launch_bounds_are_a_limit(machine: Any, module: Any) -> None:
    bounded = module.get_function("bounded")
    bounded(machine.zeros(64, np.int32), grid=1, block=64)
    with pytest.raises(ValueError, match="compiled for at most 64"):
        bounded(machine.zeros(65, np.int32), grid=1, block=65)


@pytest.mark.parametrize("grid", [1.5, "2", (1, 2, 3, 4), ()])
def test_a_grid_is_whole_numbers(module: Any, grid: Any) -> None:
    with pytest.raises(CuplugError, match="grid is"):
        module.get_function("nothing")(grid=grid, block=1)


def test_an_unknown_name_lists_the_known_ones(module: Any) -> None:
    with pytest.raises(DriverError, match=r"no kernel 'foo'.*bounded, every_kind, fill, nothing"):
        module.get_function("foo")
    with pytest.raises(DriverError, match="foo"):
        module.get_global("foo")


def test_parameters_can_be_inspected(module: Any) -> None:
    names = [(parameter.name, parameter.kind) for parameter in module.get_function("fill").parameters]
    assert names == [("out", "p"), ("value", "f"), ("n", "i")]


def test_threads_that_share_a_launch_do_not_mix_their_arguments(machine: Any, module: Any) -> None:
    fill, count, times = module.get_function("fill"), 4, 50
    launch = fill.prepare(1, 32)
    out = machine.zeros(count * times, np.float32)

    def work(number: int) -> None:
        for place in range(number * times, (number + 1) * times):
            launch(int(out) + 4 * place, float(place), 1)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    machine.synchronize()
    assert machine.down(out, count * times, np.float32).tolist() == list(range(count * times))


def test_a_launch_goes_on_after_a_wrong_argument(machine: Any, module: Any) -> None:
    out = machine.zeros(2, np.float32)
    launch = module.get_function("fill")[1, 32]
    for value in (1.0, 2.0):
        launch(out, value, 2)
        with pytest.raises(ValueError, match=r"parameter 2 .* cannot hold") as raised:
            launch(out, value, 2**40)
        assert raised.value.__context__ is None or not isinstance(raised.value.__context__, KeyError)
        with pytest.raises(TypeError, match="takes 3 arguments"):
            launch(out, value, 2, 4)
        assert machine.down(out, 2, np.float32).tolist() == [value, value]


def test_arguments_of_ever_other_types_arrive(machine: Any, module: Any) -> None:
    out = machine.zeros(1, np.float32)
    fill = module.get_function("fill")
    launch = fill.prepare(1, 1)
    values = [1.0, 2, np.float32(3), np.float32(4), 5.0, 6]
    counts = [1, np.int32(1), True]
    for memory in (out, int(out), np.uint64(int(out))):
        for count in counts:
            for value in values:
                for call in (partial(fill, grid=1, block=1), launch):
                    call(memory, value, count)
                    assert machine.down(out, 1, np.float32).tolist() == [value]


def test_memory_that_was_given_up_is_refused(machine: Any, module: Any) -> None:
    launch = module.get_function("fill").prepare(1, 1)
    out = machine.zeros(1, np.float32)
    launch(out, 1.0, 1)
    launch(out, 1.0, 1)
    machine.synchronize()
    out.close()
    for _ in range(2):
        with pytest.raises(CuplugError, match="was closed"):
            launch(out, 1.0, 1)


def test_kernels_cannot_be_copied(module: Any) -> None:
    fill = module.get_function("fill")
    for kernel in (fill, fill[1, 32]):
        with pytest.raises(TypeError, match="cannot be copied"):
            copy.copy(kernel)
    assert "fill" in repr(fill)
    assert "block (32, 1, 1)" in repr(fill[1, 32])


def test_launches_are_operations_of_the_current_stream(make_machine: Callable[..., Any]) -> None:
    machine = make_machine(schedule="lazy")
    fill = machine.module(SOURCE).get_function("fill")
    out = machine.zeros(1, np.float32)
    machine.synchronize()
    side = Stream(runtime=machine.runtime)
    with stream(side):
        fill(out, 7.0, 1, grid=1, block=1)
    assert machine.runtime.driver.view(int(out), 4).tobytes() == bytes(4)
    side.synchronize()
    assert machine.runtime.driver.view(int(out), 4).cast("f")[0] == 7.0
    assert machine.runtime.driver.log[-1][2] == "fill"


def test_a_foreign_arrays_stream_is_waited_for(make_machine: Callable[..., Any]) -> None:
    machine = make_machine(schedule="lazy")
    runtime = machine.runtime
    fill = machine.module(SOURCE).get_function("fill")
    out = machine.zeros(2, np.float32)
    machine.synchronize()
    theirs, ours = Stream(runtime=runtime), Stream(runtime=runtime)
    fill(out, 1.0, 2, grid=1, block=2, stream=theirs)
    fill(_Array(out, stream=theirs.cuda_stream), 2.0, 1, grid=1, block=1, stream=ours)
    ours.synchronize()
    assert runtime.driver.view(int(out), 8).cast("f").tolist() == [2.0, 1.0]


def test_queued_launches_say_what_memory_they_touch(make_machine: Callable[..., Any]) -> None:
    machine = make_machine(schedule="lazy", allocator="direct")
    out, other = machine.zeros(100, np.float32), machine.zeros(100, np.float32)
    machine.synchronize()
    machine.module(SOURCE).get_function("fill")(out, 7.0, 1, grid=1, block=1)
    (access,) = machine.runtime.driver.pending_access(int(out), 1)
    assert (access.operation, access.address, access.nbytes, access.writes) == ("fill", int(out), 400, True)
    assert not machine.runtime.driver.pending_access(int(other), 1)


def test_each_device_has_its_own_variables(make_machine: Callable[..., Any]) -> None:
    machine = make_machine(devices=2)
    runtime = machine.runtime
    module = machine.module("__device__ int value = 5; __global__ void change(int to) { value = to; }")
    found = []
    for device in (0, 1):
        runtime.current.set_device(device)
        module.get_function("change")(10 + device, grid=1, block=1)
    for device in (0, 1):
        runtime.current.set_device(device)
        found.append(int(module.get_global("value").copy_to(np.empty(1, np.int32))[0]))
    runtime.current.set_device(0)
    assert found == [10, 11]


def test_two_modules_of_one_source_have_their_own_variables(machine: Any) -> None:
    source = "__constant__ int value = 5;"
    first, second = machine.module(source), machine.module(source)
    first.get_global("value").copy_from(np.int32(6))
    assert int(second.get_global("value").copy_to(np.empty(1, np.int32))[0]) == 5


def test_a_symbols_size_is_kept(machine: Any) -> None:
    symbol = machine.module("__constant__ int value[4]; __device__ const int fixed[2] = {1, 2};").get_global("value")
    with pytest.raises(ValueError, match="16 bytes, and ndarray 20"):
        symbol.copy_from(np.zeros(5, np.int32))
    symbol.copy_from(np.int32([1, 2]))
    assert symbol.copy_to(np.empty(2, np.int32)).tolist() == [1, 2]


def test_an_unroller_writes_a_template_once_for_each_argument() -> None:
    arguments = Unroller(["tensor", "number", "tensor", "host"])
    assert arguments.each("a{k}", between=", ") == "a0, a1, a2, a3"
    assert arguments.each({"tensor": "p{k}", "number": "n{k}"}, between=" + ") == "p0 + n1 + p2"
    assert arguments.each("a{k}, ", only=["host"]) == "a3, "
    shown = arguments.each("a{k}, ")
    doubled = arguments.each({"tensor": "2 * a{k}", "number": "a{k}", "host": "a{k}"}, between=", ")
    function = arguments.function(f"def f({shown}):\n    return offset, {doubled}", "f", {"offset": 9})
    assert function(1, 2, 3, 4) == (9, 2, 2, 6, 4)


@pytest.mark.needs_sim
@pytest.mark.usefixtures("needs_compiler")
def test_a_kernel_whose_runtime_was_shut_down_is_refused_though_the_driver_lives_on(make_driver: Any) -> None:
    driver = make_driver()
    with Runtime(driver=driver) as runtime:
        kernel = SourceModule(SOURCE, no_extern_c=True, runtime=runtime).get_function("nothing")
        for _ in range(3):
            kernel(block=(1, 1, 1))
    with pytest.raises(CuplugError, match="shut down"):
        kernel(block=(1, 1, 1))


@pytest.mark.needs_sim
@pytest.mark.usefixtures("needs_compiler")
def test_a_stream_is_kept_busy() -> None:
    cuplug.init(driver="sim:schedule=lazy")
    try:
        s = Stream()
        with s:
            cuplug.cuda._sleep(1000)
            done = s.record_event()
        assert not done.query()
        done.synchronize()
        assert done.query()
    finally:
        cuplug.shutdown()


@pytest.mark.parametrize("geometry", [{"grid": 4.5, "block": 4}, {"block": 1 << 20}])
def test_a_wrong_geometry_is_one_error_that_tells_of_no_other(machine: Any, geometry: dict[str, Any]) -> None:
    kernel = machine.module("__global__ void k(int *x) {}").get_function("k")
    with pytest.raises((CuplugError, ValueError)) as caught:
        kernel(0, **geometry)
    assert caught.value.__context__ is None


def test_a_launch_without_a_block_says_how_to_give_one(machine: Any) -> None:
    kernel = machine.module("__global__ void k(int *x) {}").get_function("k")
    for arguments in ((0,), ((1,), (4,), (0,))):  # the second as CuPy has it
        with pytest.raises(TypeError, match=r"kernel k needs block: call it as k\(…, grid=blocks, block=threads\)"):
            kernel(*arguments)
