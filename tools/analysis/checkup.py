"""What this machine has of what cuplug can use, and what to do about the rest."""

from __future__ import annotations

import ctypes
import importlib
import os
import platform
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from ...allocators.errors import CuplugError
from ...plugins.manager import PluginManager, default_manager
from ...runtime.interop.torch.installation import check, try_out
from ...runtime.kernels.compile.compile_cache import default_cache
from ...runtime.kernels.compile.gpu_compiler import find_nvcc, nvcc_version
from ...runtime.kernels.simulator.host_compiler import find_compiler
from ...runtime.machine.settings import Settings

State = Literal["fine", "absent", "wrong"]
"""``absent``: it is not there, and need not be. ``wrong``: it is there and does not work."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: State
    found: str
    """What was found, in a few words."""
    advice: str = ""
    """What follows, and what to do; empty where it is fine."""


def check_machine() -> list[Check]:
    """Look at everything, in the order in which things build upon each other. Uses the GPU only to ask its name."""
    checks = [_guarded(name, look) for name, look in _LOOKS]
    return [*checks, *(_library(name, distribution) for name, distribution in _LIBRARIES)]


def check_bridge() -> list[Check]:
    """Try PyTorch on cuplug's allocators, each in a child process, and keep what is found for later installations.

    CUDA must not have been started in this process.
    """
    return [_guarded(f"PyTorch on {strategy}", partial(_bridge, strategy)) for strategy in ("expandable", "caching")]


def _bridge(strategy: str) -> tuple[State, str, str]:
    check()
    verdict = try_out(strategy, again=True)
    took = f"{verdict.seconds:.1f} s"
    if verdict.state == "failed":
        return "wrong", verdict.text, "PyTorch keeps its own allocator; please report this line"
    if verdict.state == "untested":
        return "absent", f"could not be tried: {verdict.text}", "cuplug is put under PyTorch untried"
    return "fine", f"tried in {took}" + (f"; {verdict.text}" if verdict.text else ""), ""


def _guarded(name: str, look: Callable[[], tuple[State, str, str]]) -> Check:
    try:
        return Check(name, *look())
    except Exception as error:  # whatever else is broken here: say so, and look at the rest
        return Check(name, "wrong", f"{type(error).__name__}: {error}", "it cannot be used as it is")


def _python() -> tuple[State, str, str]:
    found = f"{platform.python_version()} ({platform.python_implementation()}, {platform.machine()}) {sys.executable}"
    if platform.python_implementation() != "CPython":
        return "wrong", found, "cuplug is tested with CPython alone: use that"
    return "fine", found, ""


def _cuda() -> tuple[ctypes.CDLL | None, int]:
    """The driver's library, initialised, and the CUresult of initialising it. None where there is no driver."""
    try:
        library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return None, 0
    return library, int(library.cuInit(0))


def _driver() -> tuple[State, str, str]:
    library, code = _cuda()
    if library is None:
        return (
            "absent",
            "no NVIDIA driver",
            "programs run on the simulator, if told so (CUPLUG_DRIVER=sim); for a GPU, install NVIDIA's driver",
        )
    number = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(number))
    found = f"for CUDA {number.value // 1000}.{number.value % 1000 // 10}"
    if code not in (0, 100):
        return "wrong", f"{found}; it answers CUresult {code}", "run nvidia-smi: driver and kernel module may not agree"
    return "fine", found, ""


def _gpus() -> tuple[State, str, str]:
    library, code = _cuda()
    count = ctypes.c_int()
    if library is None or code or library.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        hidden = "" if visible is None else f"; CUDA_VISIBLE_DEVICES={visible!r} may hide them"
        return "absent", "none", f"choose the simulator with driver='sim' or CUPLUG_DRIVER=sim{hidden}"
    names = []
    for ordinal in range(count.value):
        device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
        library.cuDeviceGet(ctypes.byref(device), ordinal)
        library.cuDeviceGetName(name, 256, device)
        names.append(name.value.decode(errors="replace"))
    return "fine", ", ".join(f"{ordinal}: {name}" for ordinal, name in enumerate(names)), ""


def _pycuda() -> tuple[State, str, str]:
    found = _version("pycuda")
    if found is None:
        return (
            "absent",
            "not installed",
            "a GPU needs it: pip install 'cuplug[cuda]' (built against CUDA's toolkit)",
        )
    try:
        importlib.import_module("pycuda.driver")
    except Exception as error:  # one that was built for another CUDA fails in several ways
        return "wrong", f"{found}, but: {error}", "it was built for another CUDA: pip install --force-reinstall pycuda"
    return "fine", found, ""


def _nvrtc() -> tuple[State, str, str]:
    bindings = _version("cuda-bindings")
    if bindings is None:
        return (
            "absent",
            "cuda-bindings is not installed",
            "virtual memory (allocator expandable) and quick compilation for GPUs need it: pip install 'cuplug[cuda]'",
        )
    try:
        code, major, minor = importlib.import_module("cuda.bindings.nvrtc").nvrtcVersion()
        assert not int(code)
    except Exception as error:
        return (
            "absent",
            f"cuda-bindings {bindings}, but no NVRTC: {str(error).partition(chr(10))[0]}",
            "kernels for GPUs are compiled by nvcc instead; or: pip install nvidia-cuda-nvrtc",
        )
    return "fine", f"{major}.{minor}, by cuda-bindings {bindings}", ""


def _nvcc() -> tuple[State, str, str]:
    path = find_nvcc()
    if path is None:
        return "absent", "none", "not needed where NVRTC is; else install the CUDA toolkit, and name it in CUDA_HOME"
    release = next((line for line in nvcc_version().splitlines() if "release" in line), "").partition("release ")[2]
    if not release:
        return "wrong", f"{path} does not say its version", "it does not run: repair the CUDA toolkit"
    return "fine", f"{release.partition(',')[0]}, {path}", ""


def _host_compiler() -> tuple[State, str, str]:
    try:
        compiler = find_compiler()
    except CuplugError as error:
        state: State = "wrong" if os.environ.get("CXX") else "absent"
        return state, "none that works", str(error)
    return "fine", f"{compiler.version.splitlines()[0]} ({' '.join(compiler.command)})", ""


def _native_core() -> tuple[State, str, str]:
    name = "allocators._native"
    try:
        module = importlib.import_module(f"...{name}", __package__)
    except ModuleNotFoundError:
        return (
            "absent",
            "not built",
            "allocators run in Python, with the same results, but slower; with a C++ compiler, reinstall cuplug",
        )
    except ImportError as error:
        return "wrong", str(error), "it was built for another Python or system: reinstall cuplug"
    return "fine", str(module.__file__), ""


def _cache() -> tuple[State, str, str]:
    folder = default_cache().directory
    nearest = next(each for each in (folder, *folder.parents) if each.exists())
    if not os.access(nearest, os.W_OK):
        return "wrong", f"{folder} cannot be written", "kernels are compiled in each process: set CUPLUG_CACHE_DIR"
    if not folder.exists():
        return "fine", f"{folder} (made when it is needed)", ""
    status = folder.stat()
    if hasattr(os, "getuid") and status.st_uid not in (os.getuid(), 0):
        return "wrong", f"{folder} belongs to user {status.st_uid}", "it is not used: set CUPLUG_CACHE_DIR to your own"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(status.st_mode)
        return "wrong", f"{folder} has mode {mode:o}", f"others may write there, so it is not used: chmod go-w {folder}"
    entries = [entry for entry in folder.rglob("*.bin") if entry.is_file()]
    size = sum(entry.stat().st_size for entry in entries)
    return "fine", f"{folder}: {len(entries)} kernels, {size / (1 << 20):.1f} MiB", ""


def _plugins() -> tuple[State, str, str]:
    manager = default_manager()
    broken = manager.broken()
    if broken:
        return "wrong", ", ".join(broken), " ".join(broken.values())
    installed = [name for name in manager.plugins() if name != "cuplug"]
    known = ", ".join(sorted(manager.allocators()))
    return "fine", f"{', '.join(installed) or 'none but those of cuplug'}; allocators: {known}", ""


def _settings() -> tuple[State, str, str]:
    said = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("CUPLUG_")]
    try:
        _check_settings(default_manager())
    except CuplugError as error:
        return "wrong", ", ".join(said) or "CUDA_LAUNCH_BLOCKING", str(error)
    return "fine", ", ".join(said) or "no CUPLUG_ variables", ""


def _check_settings(manager: PluginManager) -> None:
    settings = Settings(trace=os.devnull).resolved()  # a path, so that the environment's is not counted as used
    assert isinstance(settings.allocator, str)
    assert isinstance(settings.driver, str)
    manager.check_allocator(settings.allocator)
    if settings.driver != "auto":
        manager.check_driver(settings.driver)
    default_cache()


def _simulator() -> tuple[State, str, str]:
    driver = default_manager().make_driver("sim")
    try:
        driver.set_device(0)
        name = driver.device_properties(0).name
    finally:
        driver.close()
    return "fine", name, ""


def _library(name: str, distributions: tuple[str, ...]) -> Check:
    for distribution in distributions:
        found = _version(distribution)
        if found is not None:
            return Check(name, "fine", found)
    return Check(name, "absent", "not installed", "nothing in cuplug needs it")


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


_LOOKS: tuple[tuple[str, Callable[[], tuple[State, str, str]]], ...] = (
    ("Python", _python),
    ("settings", _settings),
    ("plugins", _plugins),
    ("native core", _native_core),
    ("simulator", _simulator),
    ("C++ compiler", _host_compiler),
    ("cache folder", _cache),
    ("CUDA driver", _driver),
    ("GPUs", _gpus),
    ("PyCUDA", _pycuda),
    ("NVRTC", _nvrtc),
    ("nvcc", _nvcc),
)
_LIBRARIES = (
    ("PyTorch", ("torch",)),
    ("CuPy", ("cupy", "cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x")),
    ("Numba", ("numba-cuda", "numba")),
    ("RMM", ("rmm", "rmm-cu13", "rmm-cu12", "rmm-cu11")),
)
