"""Which libraries cuplug was put under in this process, and what each installation checks first."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ...allocators.errors import CuplugError
from ..machine.default_runtime import init
from ..machine.runtime import Runtime
from ..machine.settings import AllocatorChoice

__all__ = ["check_new", "import_library", "is_installed", "note_installed", "runtime_for", "runtime_of"]

_installed: dict[str, Runtime] = {}


def is_installed(library: str) -> bool:
    """Whether the library allocates from cuplug."""
    return library in _installed


def note_installed(library: str, runtime: Runtime) -> None:
    """From now on the library allocates from ``runtime``."""
    _installed[library] = runtime


def runtime_of(library: str) -> Runtime | None:
    """What the library allocates from; None before it allocates from cuplug."""
    return _installed.get(library)


def check_new(library: str, name: str) -> None:
    """Raises CuplugError if cuplug was put under a library already; ``name`` is what people call it."""
    runtime = _installed.get(library)
    if runtime is not None:
        raise CuplugError(
            f"{name} allocates from cuplug already, with the allocator {runtime.settings.allocator!r}: install it "
            "once, at the start of the program"
        )


def import_library(module: str, name: str, extra: str) -> Any:
    """The library's module.

    Args:
        module: what to import.
        name: what people call the library.
        extra: what to install where it is missing.

    Raises:
        CuplugError: it is not installed, or cannot be imported.
    """
    if find_spec(module.partition(".")[0]) is None:
        without = '; without a GPU, cuplug.init(driver="sim") first' * (extra == "pycuda")
        raise CuplugError(f"cuplug cannot be put under {name}, which is not installed: pip install {extra}{without}")
    try:
        return import_module(module)
    except ImportError as error:
        raise CuplugError(
            f"cuplug cannot be put under this {name}, whose module {module} cannot be imported ({error}): pip install "
            f"{extra}"
        ) from error


def runtime_for(name: str, allocator: AllocatorChoice | None) -> Runtime:
    """The default runtime, started now with ``allocator`` if it was not in use.

    Raises:
        CuplugError: there is no CUDA device, or the runtime in use has another allocator.
        UnknownAllocatorError: no plugin contributes the allocator.
    """
    runtime = init(allocator=allocator)
    driver = runtime.driver  # raises where there is no device
    if driver.name != "cuda":
        raise CuplugError(
            f"{name} needs memory of a CUDA device, and cuplug runs on the driver {driver.name!r}: unset CUPLUG_DRIVER"
        )
    if not driver.device_count():
        raise CuplugError(f"{name} needs memory of a CUDA device, and there is none (see CUDA_VISIBLE_DEVICES)")
    return runtime
