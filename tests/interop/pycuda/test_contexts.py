"""Which context is current is each thread's own matter, and without one nothing that needs one is done."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuplug.runtime.interop.pycuda.stand_in import pycuda_driver as drv
from cuplug.runtime.interop.pycuda.stand_in import pycuda_gpuarray as gpuarray
from cuplug.runtime.interop.pycuda.stand_in.pycuda_compiler import SourceModule

pytestmark = [pytest.mark.needs_sim, pytest.mark.usefixtures("sim")]

NEEDING: dict[str, Callable[[Any], Any]] = {
    "mem_alloc": lambda _: drv.mem_alloc(10),
    "mem_get_info": lambda _: drv.mem_get_info(),
    "memcpy_htod": lambda it: drv.memcpy_htod(it["memory"], np.zeros(4, np.uint8)),
    "memcpy_dtoh": lambda it: drv.memcpy_dtoh(np.zeros(4, np.uint8), it["memory"]),
    "memcpy_dtod": lambda it: drv.memcpy_dtod(it["memory"], it["memory"], 4),
    "memset_d8": lambda it: drv.memset_d8(it["memory"], 1, 4),
    "to_device": lambda _: drv.to_device(np.zeros(4)),
    "pagelocked_empty": lambda _: drv.pagelocked_empty(4, np.float32),
    "Stream": lambda _: drv.Stream(),
    "Event": lambda _: drv.Event(),
    "SourceModule": lambda _: SourceModule("__global__ void g() {}"),
    "a launch": lambda it: it["kernel"](block=(1, 1, 1)),
    "to_gpu": lambda _: gpuarray.to_gpu(np.zeros(4)),
    "synchronize": lambda _: drv.Context.synchronize(),
    "get_device": lambda _: drv.Context.get_device(),
}


@pytest.fixture
def things() -> dict[str, Any]:
    """What was made while there was a context."""
    return {"memory": drv.mem_alloc(64), "kernel": SourceModule("__global__ void f() {}").get_function("f")}


@pytest.fixture
def no_context() -> Iterator[None]:
    """The thread's context is popped for a while."""
    context = drv.Context.get_current()
    assert context is not None
    context.pop()
    yield
    context.push()


@pytest.mark.parametrize("call", NEEDING.values(), ids=NEEDING)
def test_without_a_context_nothing_is_done_that_needs_one(things: Any, no_context: None, call: Any) -> None:
    assert drv.Context.get_current() is None
    with pytest.raises(drv.LogicError, match="invalid device context"):
        call(things)


def test_devices_can_be_asked_without_a_context_and_memory_given_back(things: Any, no_context: None) -> None:
    assert drv.Device(0).total_memory() == 1 << 30
    assert drv.Device.count() == 2
    things["memory"].free()


def in_a_thread(work: Callable[[], object]) -> BaseException | None:
    """What the work raised in a thread of its own."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised[0] if raised else None


def test_a_thread_that_pushed_none_has_no_context() -> None:
    error = in_a_thread(lambda: drv.mem_alloc(100))
    assert isinstance(error, drv.LogicError)
    assert "invalid device context" in str(error)


def test_a_thread_works_in_the_context_that_it_pushes() -> None:
    context = drv.Context.get_current()
    assert context is not None

    def work() -> None:
        context.push()
        assert drv.from_device(drv.to_device(np.arange(4)), 4, np.int64).tolist() == [0, 1, 2, 3]
        context.pop()
        with pytest.raises(drv.LogicError, match="none is current in this thread"):
            context.pop()

    assert in_a_thread(work) is None
    assert drv.Context.get_current() is context


def test_popping_leads_back_to_the_context_before() -> None:
    first = drv.Context.get_current()
    second = drv.Device(1).make_context()
    assert drv.Context.get_device() == drv.Device(1)
    second.pop()
    assert drv.Context.get_current() is first
    assert drv.Context.get_device() == drv.Device(0)
    second.push()
    second.detach()
    assert drv.Context.get_current() is first
    for call in (second.detach, second.push):
        with pytest.raises(drv.LogicError, match="detached"):
            call()


def test_the_primary_context_is_retained_and_not_pushed() -> None:
    before = drv.Context.get_current()
    primary = drv.Device(1).retain_primary_context()
    assert drv.Context.get_current() is before
    primary.push()
    assert drv.Context.get_device() == drv.Device(1)
    primary.pop()
    primary.detach()


def test_a_context_that_was_pushed_twice_is_popped_twice() -> None:
    context = drv.Device(1).make_context()
    context.push()
    context.pop()
    assert drv.Context.get_current() is context
    context.pop()
    assert drv.Context.get_device() == drv.Device(0)


def test_a_context_that_is_current_when_the_program_ends_is_told_of(tmp_path: Path) -> None:
    program = tmp_path / "left.py"
    program.write_text(
        "import pycuda.driver as drv\n"
        "drv.init()\n"
        "context = drv.Device(0).make_context()\n"
        "import sys\n"
        "if sys.argv[1:]: context.pop()\n"
    )
    command = [sys.executable, "-m", "cuplug.interop.pycuda", "-d", "sim", str(program)]
    left, popped = (subprocess.run([*command, *more], capture_output=True, text=True) for more in ([], ["pop"]))
    assert "the context stack was not empty" in left.stderr
    assert popped.stderr == ""
    assert left.returncode == popped.returncode == 0
