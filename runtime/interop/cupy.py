"""``cuplug.interop.cupy``: cuplug's memory under CuPy, on CuPy's current stream."""

from __future__ import annotations

from typing import Any

from ...allocators.errors import CuplugError
from ...allocators.native import is_available
from ..drivers.base import PER_THREAD_STREAM
from ..machine.default_runtime import runtime_or_default
from ..machine.runtime import Runtime
from ..machine.settings import AllocatorChoice
from .installations import import_library, is_installed, is_served, note_installed, runtime_for
from .library_memory import LibraryMemory

__all__ = ["allocator", "check", "install"]

_WHEEL = "cupy-cuda13x"
_SERVED = "cupy"


def check(allocator: AllocatorChoice | None = None) -> None:
    """Find out whether cuplug can be put under CuPy; changes nothing.

    Args:
        allocator: the selection that ``install`` is to be given.

    Raises:
        CuplugError: CuPy is not installed, sees no CUDA device, has taken memory already, or allocates from cuplug with
            another allocator.
    """
    if is_served("cupy", "CuPy", allocator):
        return
    cupy = import_library("cupy", "CuPy", _WHEEL)
    if cupy.cuda.runtime.is_hip or not cupy.cuda.is_available():
        raise CuplugError("cuplug cannot be put under this CuPy, which sees no CUDA device")
    taken = cupy.get_default_memory_pool().total_bytes()
    if taken:
        raise CuplugError(
            f"CuPy has taken {taken} bytes of the device already: put cuplug under it before the first array"
        )


def install(allocator: AllocatorChoice | None = None) -> None:
    """Make CuPy allocate from cuplug (``cupy.cuda.set_allocator``). Its own pool stays empty from now on:
    ``cuplug.cuda`` tells what is in use, and ``cuplug.cuda.empty_cache`` gives back what is not.

    Args:
        allocator: the selection; by default that of the runtime in use (``cuplug.interop.install``).

    Raises:
        CuplugError: as ``check``, or there is no device.
        UnknownAllocatorError: no plugin contributes the allocator.
    """
    check(allocator)
    if is_installed("cupy"):
        return
    runtime = runtime_for("CuPy", allocator)
    set_allocator = import_library("cupy", "CuPy", _WHEEL).cuda.set_allocator
    set_allocator(_allocator_of(runtime).malloc)
    note_installed("cupy", runtime)


def allocator(*, runtime: Runtime | None = None) -> Any:
    """An allocator for CuPy, whose ``malloc`` ``cupy.cuda.set_allocator`` and ``using_allocator`` take.

    Over a native allocator it is a ``cupy.cuda.CFunctionAllocator`` over the core's C functions, which run no Python
    where a block is at hand, else a ``PythonFunctionAllocator``. There can be one over C functions at a time.

    Args:
        runtime: by default the one that ``cuplug.cuda`` uses.

    Raises:
        CuplugError: CuPy is not installed or too old for the C functions, or there is no device.
    """
    return _allocator_of(runtime_or_default(runtime))


def _allocator_of(runtime: Runtime) -> Any:
    if not is_available():
        return _python_allocator(runtime)
    from ...allocators._native import NativeAllocator

    allocators = [runtime.allocator(ordinal) for ordinal in range(runtime.device_count())]
    native = [each for each in allocators if isinstance(each, NativeAllocator)]
    return _native_allocator(runtime, native) if len(native) == len(allocators) else _python_allocator(runtime)


def _native_allocator(runtime: Runtime, allocators: list[Any]) -> Any:
    from ...allocators import _native

    memory = import_library("cupy.cuda.memory", "CuPy", _WHEEL)
    _check_exceptions(memory)
    served = runtime.shared.setdefault(_SERVED, [])
    if not served:
        served.append(True)
        runtime.at_close(lambda: _withdraw(len(allocators)))
    for ordinal, each in enumerate(allocators):
        _native.cupy_publish(ordinal, each)
    malloc, free = _native.cupy_functions(*_current_stream(), lambda: runtime.current.key(PER_THREAD_STREAM))
    return memory.CFunctionAllocator(0, malloc, free, runtime)


def _current_stream() -> tuple[Any, str]:
    """CuPy's C function that tells the current stream, and its signature, as Cython exports it."""
    module = import_library("cupy_backends.cuda.stream", "CuPy", _WHEEL)
    signature = "intptr_t (void)"
    capsule = getattr(module, "__pyx_capi__", {}).get("get_current_stream_ptr")
    if capsule is None or f'"{signature}"' not in repr(capsule):
        raise CuplugError(f"this CuPy does not tell C its current stream as {_TESTED} does; {_INSTEAD}")
    return capsule, signature


def _check_exceptions(memory: Any) -> None:
    """Whether what the C functions raise arrives: CuPy compiled by Cython before version 3 would use address -1."""
    from ...allocators._native import cupy_probe

    malloc = cupy_probe()
    try:
        memory.CFunctionAllocatorMemory(1, 0, malloc, malloc, 0)
    except MemoryError:
        return
    raise CuplugError(f"this CuPy does not pass on what a C allocator raises, as {_TESTED} does; {_INSTEAD}")


_TESTED = "CuPy 14.2"
_INSTEAD = "install a newer CuPy"


def _withdraw(devices: int) -> None:
    from ...allocators import _native

    for ordinal in range(devices):
        _native.cupy_publish(ordinal, None)


def _python_allocator(runtime: Runtime) -> Any:
    cuda = import_library("cupy.cuda", "CuPy", _WHEEL)
    memory = LibraryMemory(runtime, "cupy")

    def malloc(nbytes: int, device: int) -> int:
        stream = cuda.get_current_stream().ptr
        return memory.allocate(nbytes, device=device, stream=0 if stream == 1 else stream)

    def free(address: int, device: int) -> None:
        memory.free(address, device=device)

    return cuda.PythonFunctionAllocator(malloc, free)
