"""The CUDA driver on a GPU: threads, exits, forks, sticky errors and other libraries, each in a process of its own.

Each process must end well and print nothing to stderr: PyCUDA prints there what it cannot raise.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytestmark = pytest.mark.needs_gpu

USE = """
import ctypes, gc, os, sys, threading
from cuplug.allocators.errors import DriverError
from cuplug.runtime.drivers.cuda import CudaDriver, is_available

def use(driver):
    driver.set_device(0)
    address, stream, event = driver.mem_alloc(1 << 20), driver.stream_create(), driver.event_create()
    driver.memset(address, 1, 1 << 20, stream=stream)
    driver.event_record(event, stream=stream)
    return address, stream, event

def give_back(driver, address, stream, event):
    driver.set_device(0)
    driver.event_destroy(event)
    driver.stream_destroy(stream)
    driver.mem_free(address)

def code_of(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except DriverError as error:
        return error.code
    return 0

def primary_context_is_active():
    flags, active = ctypes.c_uint(), ctypes.c_int()
    assert ctypes.CDLL("libcuda.so.1").cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active)) == 0
    return bool(active.value)
"""

ENDS = {
    "closed": "use(driver); driver.close()",
    "never closed": "use(driver); driver.host_alloc(4096); virtual = driver.virtual_memory(0)\n"
    "if virtual: virtual.reserve_range(virtual.granularity); virtual.create_page(virtual.granularity)",
    "in a thread that ended": "thread = threading.Thread(target=use, args=(driver,)); thread.start(); thread.join()",
    "in threads that still run": "started = threading.Event()\n"
    "def work():\n    use(driver); started.set(); threading.Event().wait()\n"
    "threading.Thread(target=work, daemon=True).start(); started.wait()",
    "by sys.exit in a function": "use(driver); sys.exit(0)",
    "in reference cycles with finalisers": "class Owner:\n"
    "    def __init__(self): self.me, self.held = self, use(driver)\n"
    "    def __del__(self): assert code_of(give_back, driver, *self.held) in (0, 4)\n"
    "owners = [Owner() for _ in range(3)]; del owners[0]",
    "two drivers": "other = CudaDriver(); use(driver); use(other); driver.close(); use(other)",
    "another after closing": "use(driver); driver.close(); use(CudaDriver())",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_process_ends_cleanly(end: str, run_quietly: Callable[..., str]) -> None:
    assert run_quietly(f"{USE}\ndriver = CudaDriver()\n{ENDS[end]}\nprint('end')").strip() in ("end", "")


AVAILABLE = """
from cuplug.runtime.drivers.cuda.availability import _has_device_by_process
print(is_available(), _has_device_by_process())
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
print(is_available(), _has_device_by_process())
"""


def test_whether_a_device_is_visible_is_found_with_and_without_nvml(run_quietly: Callable[..., str]) -> None:
    assert run_quietly(USE + AVAILABLE) == "True True\nFalse False\n"


WITHOUT_BINDINGS = """
sys.modules["cuda.bindings"] = None
driver = CudaDriver()
held = use(driver)
module = driver.module_load(
    b".version 7.0\\n.target sm_70\\n.address_size 64\\n.visible .entry f(.param .u64 a) { ret; }")
function = driver.module_function(module, "f")
print(driver.function_parameters(function), driver.virtual_memory(0), driver.device_properties(0).virtual_memory)
driver.launch(function, (1, 1, 1), (1, 1, 1), shared=0, stream=held[1], parameters=bytes(8))
driver.synchronize()
"""


def test_without_cuda_bindings_all_but_virtual_memory_works(run_quietly: Callable[..., str]) -> None:
    assert run_quietly(USE + WITHOUT_BINDINGS) == "[(0, 8)] None False\n"


CLOSE = """
driver = CudaDriver()
thread = threading.Thread(target=use, args=(driver,)); thread.start(); thread.join()
active = [primary_context_is_active()]
current = ctypes.c_void_p()
get_current = lambda: (ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(current)), current.value)[1]
driver.close()
active.append(primary_context_is_active())
print(active, get_current(), [code_of(call) for call in (driver.mem_info, driver.device_count, driver.current_device)])
again = CudaDriver()
give_back(again, *use(again))
again.close()
print(primary_context_is_active(), get_current())
"""


def test_closing_on_another_thread_releases_the_context(run_quietly: Callable[..., str]) -> None:
    assert run_quietly(USE + CLOSE) == "[True, False] None [4, 4, 4]\nFalse None\n"


FINALISERS = """
driver = CudaDriver()
made = [use(driver) for _ in range(4)]
failures = []
def free():
    try:
        give_back(driver, *made.pop())
        driver.set_device(None)
        assert code_of(driver.mem_info) == 201
    except BaseException as error:
        failures.append(error)
threads = [threading.Thread(target=free) for _ in range(4)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
print(failures, driver.current_device())
"""


def test_what_one_thread_made_another_destroys(run_quietly: Callable[..., str]) -> None:
    assert run_quietly(USE + FINALISERS) == "[] 0\n"


FORK = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python's: CUDA has threads
assert is_available()
child = os.fork()
if not child:  # asking does not initialise CUDA
    sys.exit(code_of(use, CudaDriver()))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
driver = CudaDriver()
held = use(driver)
virtual = driver.virtual_memory(0)
module = driver.module_load(b".version 7.0\\n.target sm_70\\n.address_size 64\\n.visible .entry f() { ret; }")
function = driver.module_function(module, "f")
child = os.fork()
if not child:
    address, stream, event = held
    calls = (
        lambda: driver.launch(function, (1, 1, 1), (1, 1, 1), shared=0, stream=stream, parameters=b""),
        lambda: driver.event_query(event), lambda: driver.event_record(event, stream=stream),
        lambda: driver.stream_query(stream), lambda: driver.memset(address, 0, 1, stream=stream),
        lambda: driver.event_destroy(event), lambda: driver.set_device(None), lambda: driver.device_properties(0),
        lambda: driver.virtual_memory(0), lambda: virtual and virtual.create_page(2 << 20) or CudaDriver(),
        lambda: driver.module_load(b""), driver.driver_version, CudaDriver,
    )
    codes = [code_of(call) for call in calls]
    driver.close()
    sys.exit(0 if set(codes) == {3} else str(codes))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
give_back(driver, *held)
use(driver)
driver.close()
child = os.fork()
if not child:
    sys.exit(0 if code_of(CudaDriver) == 3 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_ends_cleanly_and_calls_no_cuda(run_quietly: Callable[..., str]) -> None:
    assert run_quietly(USE + FORK) == "0\n0\n0\n"


STICKY = """
driver = CudaDriver()
held = use(driver)
pinned, module = driver.host_alloc(4096), driver.module_load(
    b".version 7.0\\n.target sm_70\\n.address_size 64\\n.visible .entry wild() { .reg .b64 %rd<2>;"
    b" mov.u64 %rd1, 16; st.global.u32 [%rd1], 1; ret; }"
)
virtual = driver.virtual_memory(0)
if virtual:
    base, page = virtual.reserve_range(virtual.granularity), virtual.create_page(virtual.granularity)
    virtual.map(base, virtual.granularity, page)
stream = held[1]
driver.launch(
    driver.module_function(module, "wild"), (1, 1, 1), (1, 1, 1), shared=0, stream=stream, parameters=b"")
try:
    driver.stream_synchronize(stream)
except DriverError as error:
    print(error.name, "Queued work is at fault" in str(error))
print([code_of(call) for call in (driver.synchronize, lambda: driver.mem_alloc(512), driver.mem_info)])
if virtual:
    virtual.unmap(base, virtual.granularity), virtual.release_page(page), virtual.free_range(base, virtual.granularity)
give_back(driver, *held); driver.host_free(pinned); driver.module_unload(module)
print(driver.current_device(), code_of(driver.set_device, None), code_of(driver.set_device, 0))
driver.close()
"""


def test_after_a_sticky_error_calls_raise_it_and_giving_back_does_not(run_quietly: Callable[..., str]) -> None:
    assert run_quietly(USE + STICKY) == "CUDA_ERROR_ILLEGAL_ADDRESS True\n[700, 700, 700]\n0 0 0\n"


WAITS = """
driver = CudaDriver()
address, stream, event = use(driver)
libcuda = ctypes.CDLL("libcuda.so.1")
called = []
callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: called.append(1))  # takes the interpreter lock
buffer = ctypes.create_string_buffer(1 << 20)
waits = (
    lambda: driver.stream_synchronize(stream), driver.synchronize, lambda: driver.event_synchronize(event),
    lambda: driver.memcpy_dtoh(ctypes.addressof(buffer), address, 1 << 20, stream=stream),
    lambda: driver.mem_free(driver.mem_alloc(64 << 20)), lambda: driver.host_free(driver.host_alloc(64 << 20)),
)
for wait in waits:
    assert libcuda.cuLaunchHostFunc(ctypes.c_void_p(stream), callback, None) == 0
    driver.event_record(event, stream=stream)
    wait()
driver.synchronize()
print(len(called) == len(waits))
"""


def test_calls_that_wait_let_host_functions_run(run_quietly: Callable[..., str]) -> None:
    assert run_quietly(USE + WAITS) == "True\n"


# --- other libraries in the same process, and in the same context

IMPORTS = {
    "torch": """
import torch
def theirs():
    tensor = torch.full((1000,), 5, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    return tensor, tensor.data_ptr(), torch.cuda.Stream().cuda_stream
def total(thing):
    return int(torch.as_tensor(thing, device="cuda").sum(dtype=torch.int64))
""",
    "cupy": """
import cupy
streams = []
def theirs():
    array = cupy.full((1000,), 5, dtype=cupy.uint8)
    cupy.cuda.Device().synchronize()
    streams.append(cupy.cuda.Stream(non_blocking=True))
    return array, array.data.ptr, streams[-1].ptr
def total(thing):
    return int(cupy.asarray(thing).sum(dtype=cupy.int64))
""",
}
SHARE = """
class Ours:
    def __init__(self, address, nbytes):
        self.__cuda_array_interface__ = dict(
            shape=(nbytes,), typestr="|u1", data=(address, False), version=3, strides=None, stream=None)

current = ctypes.c_void_p()
def current_context():
    ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(current))
    return current.value

contexts = []
if sys.argv[1] == "they first":
    array, their_address, their_stream = theirs()
    contexts.append(current_context())
    driver = CudaDriver()
    driver.set_device(0)
    contexts.append(current_context())
else:
    driver = CudaDriver()
    driver.set_device(0)
    contexts.append(current_context())
    array, their_address, their_stream = theirs()
    contexts.append(current_context())
assert contexts[0] == contexts[1] and contexts[0], contexts

address, event = driver.mem_alloc(1000), driver.event_create()
driver.memset(address, 2, 1000, stream=their_stream)           # our memory on their stream
driver.memset(their_address, 3, 500, stream=their_stream)      # their memory on their stream
driver.event_record(event, stream=their_stream)
driver.stream_synchronize(their_stream)
assert driver.event_query(event)
print(total(Ours(address, 1000)), total(array))
driver.set_device(None)
print(total(array))
driver.set_device(0)
driver.mem_free(address)
driver.close()
print(total(array))
"""


@pytest.mark.parametrize("order", ["they first", "we first"])
@pytest.mark.parametrize(
    "library",
    [pytest.param("torch", marks=pytest.mark.needs_torch), pytest.param("cupy", marks=pytest.mark.needs_cupy)],
)
def test_memory_streams_and_context_are_shared(library: str, order: str, run_quietly: Callable[..., str]) -> None:
    ours_then_theirs = USE + IMPORTS[library] if order == "we first" else IMPORTS[library] + USE
    assert run_quietly(ours_then_theirs + SHARE, order) == "2000 4000\n4000\n4000\n"


PYCUDA = """
driver = CudaDriver()
driver.set_device(0)
address = driver.mem_alloc(4000)
driver.memset(address, 0, 4000, stream=0)
with driver.pycuda_context(0):
    import numpy, pycuda.gpuarray
    array = pycuda.gpuarray.GPUArray((1000,), numpy.float32, gpudata=address)
    array.fill(2.5)
    print(array.get().sum(), driver.current_device())
    driver.mem_free(driver.mem_alloc(512))
    del array
driver.mem_free(address)
print(driver.current_device(), driver.mem_info()[0] > 0)
"""


def test_pycudas_own_classes_work_in_the_same_context(run_quietly: Callable[..., str]) -> None:
    assert run_quietly(USE + PYCUDA) == "2500.0 0\n0 True\n"
