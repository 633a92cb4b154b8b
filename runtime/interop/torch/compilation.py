"""Gets the bridge for the PyTorch that is installed: ready-made, from the cache, or compiled now and kept."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from ....allocators.errors import CompileError, CuplugError
from ....allocators.native import get_include
from ...kernels.compile.compile_cache import Entry, content_key, default_cache, make_folders
from ..installations import import_library
from .ready_made import SOURCES, bridge_sources, find_ready_made, ready_made_versions

OLDEST = (2, 8)
"""The oldest PyTorch that the bridge is written for."""
_FLAGS = ["-O2", "-g0", "-fPIC", "-fvisibility=hidden", "-pthread"]
_LIBRARIES = ["-nodefaultlibs", "-lgcc", "-lc", "-ldl", "-lpthread"]
"""Not C++'s own: that has to be the one that PyTorch has loaded, which is found at run time. Where a compiler links it
statically, there would be two in the process, and a stream of the one crashes in the other (seen)."""
_loaded: list[ctypes.CDLL] = []


def bridge_library() -> ctypes.CDLL:
    """The bridge for the PyTorch that is installed, loaded; compiled first if there was none up to now.

    Raises:
        CuplugError: PyTorch is too old, or CUDA's headers or a compiler are missing.
        CompileError: it does not compile for this PyTorch.
    """
    if not _loaded:
        torch = import_library("torch", "PyTorch", "torch")
        ready = find_ready_made(torch)
        if ready is not None:
            with contextlib.suppress(CuplugError):  # made for a C library that this machine does not have, say
                _loaded.append(_load(ready))
                return _loaded[0]
        with one_at_a_time():  # of many processes that start at once, one compiles
            content = default_cache().get_or_make(bridge_key(torch), lambda: Entry(compile_bridge(torch))).payload
        _loaded.append(_load(content))
    return _loaded[0]


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Wait for the other processes of the user that make or try a bridge, and keep further ones waiting.

    Where the cache cannot be written, each process does by itself, and one warning says so.
    """
    directory = default_cache().directory
    try:
        make_folders(directory)
        lock = os.open(directory / "bridge.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        _warn_unwritable(directory, error.strerror or str(error))
        yield
        return
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)  # ends with the process, whatever ends that
        yield
    finally:
        os.close(lock)


@cache
def _warn_unwritable(directory: Path, why: str) -> None:
    warnings.warn(
        "the bridge to PyTorch is tried in every process anew, which takes a second or two (ten where it has to be "
        f"compiled): {directory} cannot be written ({why}). Name another folder in CUPLUG_CACHE_DIR",
        RuntimeWarning,
        stacklevel=4,
    )


def compile_bridge(torch: ModuleType) -> bytes:
    """The shared library of the bridge for ``torch``. Raises as ``bridge_library``."""
    if _version(torch) < OLDEST:
        raise CuplugError(
            f"cuplug cannot be put under PyTorch {torch.__version__}; it can from {OLDEST[0]}.{OLDEST[1]} on: install "
            "a later one, or go on with PyTorch's own allocator"
        )
    with tempfile.TemporaryDirectory(prefix="cuplug-bridge-") as folder:
        made = Path(folder) / "bridge.so"
        objects = compile_sources(torch, Path(folder))
        libraries = Path(str(torch.__file__)).parent / "lib"
        link = [*_compiler(), "-shared", *objects, "-o", str(made), f"-L{libraries}", "-Wl,--no-as-needed"]
        _finish(_start([*link, "-lc10", "-lc10_cuda", "-ltorch_cuda", *_LIBRARIES]), torch)
        return made.read_bytes()


def compile_sources(torch: ModuleType, folder: Path) -> list[str]:
    """Compile the bridge's files for ``torch`` into ``folder``, without linking them: no CUDA libraries are needed.

    Returns:
        The paths of the object files.

    Raises:
        CuplugError: CUDA's headers or a compiler are missing.
        CompileError: they do not compile for this PyTorch.
    """
    objects, compilations = [], []
    for source in sorted(SOURCES.glob("*.cpp")):
        objects.append(str(folder / f"{source.stem}.o"))
        command = [*_compiler(), _standard(torch), *_FLAGS, *_includes(torch), "-c", str(source), "-o", objects[-1]]
        compilations.append(_start(command))
    for compilation in compilations:
        _finish(compilation, torch)
    return objects


def _load(content: bytes) -> ctypes.CDLL:
    # From memory: what was checked when it was read is what is loaded.
    file = os.memfd_create("cuplug-bridge")
    with os.fdopen(file, "wb", closefd=False) as writer:
        writer.write(content)
    try:
        # By the number of the process: PyTorch has other programs read the symbols of what is on its call stacks.
        return ctypes.CDLL(f"/proc/{os.getpid()}/fd/{file}")
    except OSError as error:
        raise CuplugError(f"the bridge to PyTorch cannot be loaded: {error}") from None


def bridge_key(torch: ModuleType) -> str:
    """The cache's key of the bridge for ``torch``: everything that it depends on."""
    ready = find_ready_made(torch)
    if ready is not None:
        return content_key("ready-made bridge to PyTorch", ready)
    machine = [sys.platform, platform.machine(), "-".join(platform.libc_ver())]  # a home may be shared by several
    return content_key(
        "bridge to PyTorch",
        bridge_sources(),
        [torch.__version__, str(torch.version.git_version), str(torch.version.cuda), *machine],
        [*_compiler(), _standard(torch), *_FLAGS, *_LIBRARIES],
    )


def _version(torch: ModuleType) -> tuple[int, int]:
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def _standard(torch: ModuleType) -> str:
    """The C++ that the headers of this PyTorch are written in: 2.14's need C++20."""
    return "-std=c++17" if _version(torch) < (2, 12) else "-std=c++20"


def _compiler() -> list[str]:
    named = os.environ.get("CXX")
    if named:
        return shlex.split(named)
    found = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
    if found is None:
        raise CuplugError(
            "the bridge to PyTorch has to be compiled, and there is no C++ compiler: install g++, or name one in CXX"
            + _those_that_need_none()
        )
    return [found]


def _those_that_need_none() -> str:
    versions = ready_made_versions()
    return f"; or use one of the PyTorch for which there is a bridge: {', '.join(versions)}" if versions else ""


def _includes(torch: ModuleType) -> list[str]:
    """Options with the folders of headers: PyTorch's, CUDA's, cuplug's."""
    own = Path(str(torch.__file__)).parent / "include"
    folders = [own, own / "torch" / "csrc" / "api" / "include", *_cuda_includes(str(torch.version.cuda))]
    flags = [option for folder in folders for option in ("-isystem", str(folder))]
    abi = int(bool(torch._C._GLIBCXX_USE_CXX11_ABI))
    return [*flags, f"-I{get_include()}", f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]


def _cuda_includes(version: str) -> list[Path]:
    """The folders of CUDA's headers.

    Raises:
        CuplugError: there are none.
    """
    major = version.partition(".")[0]
    for folders in (_toolkit_includes(), list(_wheel_includes(major))):
        if any((folder / "cuda_runtime_api.h").exists() for folder in folders) and any(
            (folder / "crt" / "host_defines.h").exists() for folder in folders
        ):
            return folders
    raise CuplugError(
        f"the bridge to PyTorch has to be compiled, and CUDA's headers are not there: install CUDA {version}'s toolkit "
        f"and set CUDA_HOME, or pip install 'cuplug[{'torch' if major == '13' else f'torch-cu{major}'}]'"
    )


def _toolkit_includes() -> list[Path]:
    nvcc = shutil.which("nvcc")
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), nvcc and str(Path(nvcc).resolve().parent.parent)]
    homes.append("/usr/local/cuda")
    for home in homes:
        if home and (Path(home) / "include" / "cuda_runtime_api.h").exists():
            return [Path(home) / "include"]
    return []


def _wheel_includes(major: str) -> Iterator[Path]:
    """Where NVIDIA's wheels (nvidia-cuda-runtime, nvidia-cuda-crt) put headers."""
    for site in dict.fromkeys([*sys.path, sysconfig.get_path("purelib")]):
        for name in (f"cu{major}", "cuda_runtime", "cuda_crt", "cuda_nvcc"):
            folder = Path(site or ".") / "nvidia" / name / "include"
            if folder.is_dir():
                yield folder


def _start(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _finish(compilation: subprocess.Popen[str], torch: ModuleType) -> None:
    log = compilation.communicate()[0]
    if compilation.returncode:
        first = next((line for line in log.splitlines() if "error" in line), log.strip()[:400])
        raise CompileError(
            f"cuplug's bridge does not compile for PyTorch {torch.__version__}: {first}. Install a PyTorch that it "
            f"does compile for (it was written for {OLDEST[0]}.{OLDEST[1]}), or go on with PyTorch's own allocator",
            log,
        )
