"""Makes what a runtime's settings ask for: its driver, its allocators, its trace's recorder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...allocators.base import Allocator
from ...allocators.errors import CuplugError
from ...allocators.upstream import Upstream
from ..drivers.base import Driver
from .settings import Settings

if TYPE_CHECKING:
    from ...plugins.manager import PluginManager
    from ...plugins.tracing.recorder import TraceRecorder


def find_driver(settings: Settings, plugins: PluginManager) -> tuple[Driver | None, str]:
    """The driver; or None, and why there is none, where ``auto`` finds no device.

    Raises:
        PluginError: an unknown driver or option.
        DriverError: the driver was asked for by name and cannot start.
    """
    wanted = settings.driver
    assert wanted is not None
    if not isinstance(wanted, str):
        return wanted, ""
    if wanted != "auto":
        return plugins.make_driver(wanted), ""
    try:
        driver = plugins.make_driver("cuda")
        count = driver.device_count()
    except CuplugError as error:
        return None, str(error)
    if count:
        return driver, ""
    driver.close()
    return None, "the CUDA driver finds none"


def check_allocator(settings: Settings, plugins: PluginManager) -> None:
    """Find out now, and not at the first allocation, whether there is such an allocator.

    Raises:
        UnknownAllocatorError: no plugin contributes it.
        PluginError: the selection has no such form, or an option is unknown or wrong.
    """
    if isinstance(settings.allocator, str):
        plugins.check_allocator(settings.allocator)


def make_allocator(settings: Settings, plugins: PluginManager, upstream: Upstream) -> Allocator:
    """The allocator over one device's memory.

    Raises:
        PluginError: an option is unknown or wrong, or the plugin failed.
    """
    wanted = settings.allocator
    assert wanted is not None
    return plugins.make_allocator(wanted, upstream) if isinstance(wanted, str) else wanted(upstream)


def make_recorder(settings: Settings, driver: Driver, devices: int) -> TraceRecorder:
    """What writes the trace.

    Raises:
        TraceError: the file cannot be made.
    """
    from ...plugins.tracing.recorder import TraceRecorder

    assert settings.trace is not None
    recorder = TraceRecorder(settings.trace)
    selection = settings.driver
    known = [(ordinal, driver.device_properties(ordinal)) for ordinal in range(devices)]
    recorder.describe(
        driver=selection if isinstance(selection, str) and selection != "auto" else driver.name,
        allocators={str(ordinal): str(settings.allocator) for ordinal, _ in known},
        devices=[{"ordinal": ordinal, "name": it.name, "total_memory": it.total_memory} for ordinal, it in known],
    )
    return recorder
