"""``cuplug.interop``: cuplug's memory under other libraries, so that one allocator serves the whole process.

Each library has a module of its name here with two functions: ``check()`` raises what forbids an installation and
changes nothing, and ``install(allocator=None)`` puts cuplug under the library for the rest of the process. Modules
import their library when they are asked for it, never before.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from ...allocators.errors import CuplugError
from ..machine.settings import AllocatorChoice
from . import cupy, dask, numba, pycuda, rmm, torch

__all__ = ["LIBRARIES", "cupy", "dask", "install", "numba", "pycuda", "rmm", "torch"]

LIBRARIES = ("torch", "cupy", "numba", "rmm", "pycuda")
"""The libraries that cuplug can be put under."""


def install(*libraries: str, allocator: AllocatorChoice | None = None) -> None:
    """Put cuplug under these libraries, for the rest of the process: from now on they allocate from its pool.

    Nothing is changed unless each of them can be served. For a library that is served already nothing is left to do.

    Args:
        libraries: names out of ``LIBRARIES``.
        allocator: the selection, such as ``expandable``. By default that of the runtime in use, else what
            ``CUPLUG_ALLOCATOR`` says, else ``caching``.

    Raises:
        CuplugError: a name is unknown, a library is not installed or has no CUDA, has CUDA memory already, or is served
            already with another allocator; or there is no device.
        UnknownAllocatorError: no plugin contributes the allocator.
    """
    modules = [_module(name) for name in dict.fromkeys(libraries)]
    if not modules:
        raise CuplugError(f"install() needs the names of libraries: {', '.join(LIBRARIES)}")
    for module in modules:
        module.check(allocator)
        if module is torch and not import_module("torch").cuda.device_count():  # it alone begins without a device
            raise CuplugError("PyTorch finds no CUDA device that cuplug could serve (see CUDA_VISIBLE_DEVICES)")
    for module in modules:
        module.install(allocator)


def _module(name: str) -> ModuleType:
    if name not in LIBRARIES:
        raise CuplugError(f"cuplug cannot be put under {name!r}; it can under: {', '.join(LIBRARIES)}")
    return import_module(f".{name}", __name__)
