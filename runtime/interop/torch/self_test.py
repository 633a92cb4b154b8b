"""Whether PyTorch runs on cuplug's memory here, tried in a child process before cuplug takes its allocator's place.

The child is a fork of this process, which has PyTorch loaded and has not started CUDA: that takes a second where
another interpreter would take several. What is found is kept for this PyTorch, cuplug, driver and kinds of devices.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from ...kernels.compile.compile_cache import Entry, content_key, default_cache
from .compilation import bridge_key, one_at_a_time
from .self_checks import State, first_line, run_checks

_PATIENCE_S = 60.0
"""A child that says nothing for so long is taken for hung. Starting CUDA on many devices takes ten seconds."""
_NOT_INITIALIZED, _NO_DEVICE = 3, 100  # CUresult


@dataclass(frozen=True)
class Verdict:
    """What the self-test has found."""

    state: State
    text: str = ""
    """What failed, or what could not be tried here; one line."""
    seconds: float = 0.0
    """How long it took."""
    kept: bool = False
    """Whether it is from an earlier process."""


def self_test(torch: Any, strategy: str, put_under: Callable[[str], object], *, again: bool = False) -> Verdict:
    """Put PyTorch on cuplug's memory in a child process, and try what it does there.

    Args:
        torch: PyTorch's module, which has not started CUDA.
        strategy: ``caching`` or ``expandable``.
        put_under: puts an allocator of that strategy under PyTorch; called in the child.
        again: whether to try although it is known.
    """
    machine = _machine()
    if machine is None:
        return Verdict("untested", "there is no NVIDIA driver")
    from ....allocators import _native

    core = Path(str(_native.__file__)).read_bytes()
    key = content_key("self-test of the bridge to PyTorch", bridge_key(torch), core, [strategy, *machine])
    with one_at_a_time():
        found = None if again else _kept(key)
        if found is not None:
            return found
        verdict = _in_child(lambda: put_under(strategy), torch)
        if verdict.state != "untested":
            default_cache().put(key, Entry(json.dumps(asdict(verdict)).encode()))
        return verdict


def _kept(key: str) -> Verdict | None:
    entry = default_cache().get(key)
    return None if entry is None else replace(Verdict(**json.loads(entry.payload)), kept=True)


def _in_child(prepare: Callable[[], object], torch: Any) -> Verdict:
    began = time.monotonic()
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: a child that hangs for their locks is ended
        child = os.fork()
    if not child:
        _be_child(writer, prepare, torch)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        in_time = bool(select.select([pipe], [], [], _PATIENCE_S)[0])
        if not in_time:
            os.kill(child, signal.SIGKILL)
        text = pipe.read()
    status = os.waitpid(child, 0)[1]
    took = time.monotonic() - began
    if text:
        state, found = json.loads(text)
        return Verdict(state, found, took)
    how = f"was ended by signal {os.WTERMSIG(status)}" if in_time else f"did not end within {_PATIENCE_S:.0f} seconds"
    return Verdict("failed", f"the test {how}", took)


def _be_child(writer: int, prepare: Callable[[], object], torch: Any) -> NoReturn:
    """Run the checks and leave, as quietly as can be: what is printed would seem to be the program's."""
    report: tuple[str, str] = ("failed", "the test was broken off")
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        missing = _why_no_cuda()
        if missing:
            report = ("untested", missing)
        else:
            prepare()
            report = run_checks(torch)
    except BaseException as error:
        report = ("failed", first_line(error))
    finally:
        os.write(writer, json.dumps(report).encode())
        os._exit(0)


def _why_no_cuda() -> str:
    """Why CUDA cannot be started in this process; empty if it can, or if nobody knows yet."""
    code = ctypes.CDLL("libcuda.so.1").cuInit(0)
    if code == _NOT_INITIALIZED:
        return "CUDA had been started in the process already, and its children cannot use it"
    return "there is no CUDA device" if code == _NO_DEVICE else ""


def _machine() -> list[str] | None:
    """The driver and the devices, without starting CUDA; None where there is no driver.

    NVML knows them. Where it is missing, the driver's library has its version in the name of its file.
    """
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    with open("/proc/self/maps") as maps:
        files = {line.split()[-1] for line in maps if "/libcuda.so" in line}
    found = [f"{path} {os.stat(path).st_size} {os.stat(path).st_mtime_ns}" for path in sorted(files)]
    text = ctypes.create_string_buffer(256)
    count, device = ctypes.c_uint(), ctypes.c_void_p()
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if nvml.nvmlInit_v2():
            return found
        try:
            nvml.nvmlSystemGetDriverVersion(text, len(text))
            found = [text.value.decode(errors="replace")]
            nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
            for index in range(count.value):
                if not nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)):
                    nvml.nvmlDeviceGetName(device, text, len(text))
                    found.append(text.value.decode(errors="replace"))
        finally:
            nvml.nvmlShutdown()
    except (OSError, AttributeError):
        pass
    return found
