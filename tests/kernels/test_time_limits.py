"""Kernels that do not end: a time limit, and Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import DriverError
from cuplug.runtime.drivers.sim import SimDriver
from cuplug.runtime.kernels import SourceModule
from cuplug.runtime.machine.runtime import Runtime
from cuplug.runtime.memory.copies import memcpy

pytestmark = [pytest.mark.needs_sim, pytest.mark.one_schedule]
SOURCE = """
#include <cstdio>
extern "C" {
__global__ void forever(volatile int *x) {
    x[1] = 1;
    while (!x[0]) {
    }
}
__global__ void at_barriers(volatile int *x) {
    while (!x[0]) {
        __syncthreads();
    }
}
__global__ void printing(volatile int *x) { x[1] = 1;
    while (!x[0]) {
        printf("%d", x[0]);
        free(malloc(16));
    }
}
__global__ void set(int *x) { x[0] = 7; }
}
"""


def run(machine: Any, function: Any, *args: Any, **geometry: Any) -> None:
    """Launch, and wait for the end."""
    function(*args, **geometry)
    machine.synchronize()


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Python's own handler of Ctrl-C, whatever runs the tests has set."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("kernel", "line"), [("forever", "line [67]"), ("at_barriers", "line 1[0-2]"), ("printing", "line 1[5-8]")]
)
def test_a_kernel_that_runs_too_long_is_ended_where_its_blocks_stand(
    make_machine: Callable[..., Any], kernel: str, line: str
) -> None:
    machine = make_machine(timeout="300ms")
    x = machine.zeros(2, np.int32)
    function = machine.module(SOURCE).get_function(kernel)
    with pytest.raises(DriverError, match=r"CUDA_ERROR_LAUNCH_TIMEOUT.*timeout is 0\.3 s") as caught:
        run(machine, function, x, grid=3, block=64)
    assert caught.value.code == 702
    assert re.search(rf"block \(\d, 0, 0\), thread \(\d+, 0, 0\) stands in {line}", str(caught.value))
    with pytest.raises(DriverError, match="CUDA_ERROR_LAUNCH_TIMEOUT"):  # sticky
        machine.synchronize()


def test_kernels_within_their_time_are_left_alone(make_machine: Callable[..., Any]) -> None:
    machine = make_machine(timeout="60s")
    x = machine.zeros(2, np.int32)
    for _ in range(50):
        machine.module(SOURCE).get_function("set")(x, grid=1, block=1)
    assert machine.down(x, 2, np.int32)[0] == 7


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("kernel", ["forever", "printing"])
def test_an_interrupt_ends_a_running_kernel(make_machine: Callable[..., Any], kernel: str) -> None:
    machine = make_machine()
    x = machine.zeros(2, np.int32)
    function = machine.module(SOURCE).get_function(kernel)
    memory = machine.runtime.driver.view(x.address, 8)

    def interrupt() -> None:
        while not memory[4]:  # until the kernel runs
            os.sched_yield()
        os.kill(os.getpid(), signal.SIGINT)

    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        run(machine, function, x, grid=2, block=32)
    other.join()
    with pytest.raises(DriverError, match=r"CUDA_ERROR_LAUNCH_TIMEOUT.*ended by an interrupt"):
        machine.synchronize()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("interrupts")
def test_a_kernel_that_ends_soon_after_an_interrupt_has_done_its_work(make_machine: Callable[..., Any]) -> None:
    machine = make_machine()
    x = machine.zeros(2, np.int32)
    function = machine.module(
        'extern "C" __global__ void wait(volatile int *x) { x[1] = 1; while (!x[0]) {} x[1] = 2; }'
    ).get_function("wait")
    memory = machine.runtime.driver.view(x.address, 8)

    def interrupt_and_let_go() -> None:
        while not memory[4]:
            os.sched_yield()
        os.kill(os.getpid(), signal.SIGINT)
        memory[0] = 1

    other = threading.Thread(target=interrupt_and_let_go)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        run(machine, function, x, grid=1, block=1)
    other.join()
    assert machine.down(x, 2, np.int32).tolist() == [1, 2]  # the device goes on


def test_after_a_kernel_was_ended_the_next_ones_run(make_machine: Callable[..., Any]) -> None:
    for _ in range(3):
        ended = make_machine(timeout="50ms")
        with pytest.raises(DriverError, match="TIMEOUT"):
            run(ended, ended.module(SOURCE).get_function("printing"), ended.zeros(2, np.int32), grid=4, block=64)
        machine = make_machine()
        x = machine.zeros(2, np.int32)
        machine.module(SOURCE).get_function("set")(x, grid=1, block=1)
        assert machine.down(x, 2, np.int32)[0] == 7


def test_a_program_without_a_handler_of_interrupts_dies_of_them() -> None:
    program = (
        "import signal, os, threading, cuplug\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "cuplug.init(driver='sim')\n"
        "source = 'extern \"C\" __global__ void f(volatile int *x) { while (!*x) {} }'\n"
        "f = cuplug.SourceModule(source).get_function('f')\n"
        "x = cuplug.zeros(1, dtype=cuplug.int32, device='cuda')\n"
        "threading.Thread(target=lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "f(x, grid=1, block=1)\n"
        "cuplug.cuda.synchronize()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGINT


@pytest.mark.parametrize("text", ["10", "s", "-1s", "0s", "1 hour", "1e3s"])
def test_a_time_limit_has_a_unit(text: str) -> None:
    with pytest.raises(ValueError, match="write a time above 0 with its unit"):
        SimDriver(timeout=text)


@pytest.mark.parametrize(("text", "seconds"), [("10s", 10.0), ("500ms", 0.5), ("2min", 120.0), ("1.5s", 1.5)])
def test_time_limits_are_read(text: str, seconds: float) -> None:
    assert SimDriver(timeout=text).timeout_s == seconds


def test_warps_may_wait_for_one_another_in_different_lines(make_machine: Callable[..., Any]) -> None:
    machine = make_machine()
    source = """
    extern "C" __global__ void halves(int *out) {
        __shared__ int from[2];
        if (threadIdx.x / 32 == 0) {
            from[0] = 3;
            __syncthreads();
            out[threadIdx.x] = from[1];
        } else {
            from[1] = 4;
            __syncthreads();
            out[threadIdx.x] = from[0];
        }
    }
    extern "C" __global__ void lanes(int *out) {
        if (threadIdx.x % 2) {
            __syncthreads();
        } else {
            __syncthreads();
        }
    }
    """
    module, out = machine.module(source), machine.zeros(64, np.int32)
    module.get_function("halves")(out, grid=1, block=64)
    assert machine.down(out, 64, np.int32).tolist() == [4] * 32 + [3] * 32
    with pytest.raises(DriverError, match="not all threads of the block reach the same"):
        run(machine, module.get_function("lanes"), out, grid=1, block=64)


def test_each_of_many_kernels_that_print_and_allocate_ends_soon() -> None:
    """The signal that ends a kernel mostly finds it in the engine, which looks when it is left."""
    times = 100 if os.environ.get("CUPLUG_THOROUGH") == "1" else 30
    for _ in range(times):
        driver = SimDriver(timeout="20ms")
        with Runtime(driver=driver) as runtime:
            numbers = runtime.alloc(8)
            memcpy(numbers, np.zeros(2, np.int32), runtime=runtime)
            SourceModule(SOURCE, runtime=runtime).get_function("printing")(numbers, grid=4, block=64)
            with pytest.raises(DriverError, match="ran too long"), runtime.on_device(0):
                runtime.driver.synchronize()
            with suppress(DriverError):
                runtime.close()
        driver.close()  # a driver that its maker holds keeps its address space until then


def test_a_kernel_whose_time_is_over_before_it_begins_says_so() -> None:
    """Whatever a kernel has not done is told: either all of its blocks have run, or its end is an error."""
    for _ in range(50):
        driver = SimDriver(timeout="0.001ms")
        runtime = Runtime(driver=driver)
        x, out = runtime.alloc(4), np.zeros(1, np.int32)
        memcpy(x, out, runtime=runtime)
        SourceModule(SOURCE, runtime=runtime).get_function("set")(x, grid=1, block=1)
        try:
            memcpy(out, x, runtime=runtime)
        except DriverError as error:
            assert error.code == 702  # noqa: PT017 - one of two ends that are right
        else:
            assert out[0] == 7
        with suppress(DriverError):
            runtime.close()
        driver.close()
