"""Which libraries cuplug was put under in this process, and what each installation checks first."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ...allocators.errors import CuplugError
from ..machine.default_runtime import init
from ..machine.runtime import Runtime
from ..machine.settings import AllocatorChoice

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


def is_served(library: str, name: str, allocator: AllocatorChoice | None) -> bool:
    """Whether the library allocates from cuplug as is asked for, so that an installation has nothing left to do: a
    notebook's cell may run again.

    Args:
        library: its name in ``cuplug.interop.LIBRARIES``.
        name: what people call it.
        allocator: the selection asked for; any will do where it is None.

    Raises:
        CuplugError: it allocates from cuplug with another allocator, or from a runtime that was shut down.
    """
    runtime = _installed.get(library)
    if runtime is None:
        return False
    check_same(name, runtime.settings.allocator, allocator)
    if not runtime.usable:
        raise CuplugError(f"{name} allocates from a runtime of cuplug's that was shut down: start the program anew")
    return True


def check_same(name: str, allocator: AllocatorChoice | None, asked: AllocatorChoice | None) -> None:
    """Raises CuplugError where ``asked`` names another allocator than the one that serves the library."""
    if asked and asked != allocator:
        raise CuplugError(
            f"{name} allocates from cuplug already, with the allocator {allocator!r}, which cannot become {asked!r}: "
            "choose it once, at the start of the program"
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
