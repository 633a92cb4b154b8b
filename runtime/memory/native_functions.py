"""What libraries in C take to allocate from a device's allocator: its handle, or a pair of functions."""

from __future__ import annotations

from typing import Any

from ...allocators.base import Allocator
from ...allocators.errors import CuplugError
from ...allocators.native import is_available, why_not
from ..machine.default_runtime import runtime_or_default
from ..machine.device import device_index
from ..machine.runtime import Runtime


def allocator_handle(device: Any = None, *, runtime: Runtime | None = None) -> int:
    """The address of the ``cuplug_allocator`` of a device, for functions of ``cuplug_allocator.h``
    (``cuplug.allocators.native.get_include()`` says where that is).

    It stays valid as long as the process. Once the runtime is closed, its functions answer ``CUPLUG_CLOSED``.

    Args:
        device: a device, by default the current one.
        runtime: by default the one that ``cuplug.cuda`` uses.

    Raises:
        CuplugError: the device's allocator is not a native one; or there is no device.
    """
    runtime = runtime_or_default(runtime)
    return _handle(runtime.allocator(device_index(device, runtime)))


def allocator_functions(*, runtime: Runtime | None = None) -> tuple[int, int]:
    """The addresses of two C functions that allocate on the runtime's devices, from any thread, for libraries whose
    allocator can be replaced by such a pair: ``void *malloc(ssize_t size, int device, void *stream)``, which gives null
    where memory is short, and ``void free(void *pointer, ssize_t size, int device, void *stream)``.

    They serve one runtime, that of the latest call, until it is closed.

    Raises:
        CuplugError: the allocator is not a native one; or there is no device.
    """
    runtime = runtime_or_default(runtime)
    runtime.driver  # noqa: B018 - raises where there is no device
    handles = [_handle(runtime.allocator(ordinal)) for ordinal in range(runtime.device_count())]
    from ...allocators import _native

    for ordinal, handle in enumerate(handles):
        _native.publish(ordinal, handle)
    if not runtime.shared.get("functions"):
        runtime.shared["functions"] = True
        runtime.at_close(lambda: _withdraw(handles))
    pointers: tuple[int, int] = _native.function_pointers()
    return pointers


def _withdraw(handles: list[int]) -> None:
    from ...allocators import _native

    for ordinal, handle in enumerate(handles):
        _native.withdraw(ordinal, handle)


def _handle(allocator: Allocator) -> int:
    if not is_available():
        raise CuplugError(f"C needs the native allocators, which are not used here: {why_not()}")
    from ...allocators import _native

    if not isinstance(allocator, _native.NativeAllocator):
        raise CuplugError(
            f"the allocator {type(allocator).__name__} runs in Python, which C cannot use; choose caching or expandable"
        )
    handle: int = allocator._core_handle()
    return handle
