"""Which place a device's name means: the CPU, or a device of the default runtime.

Backends say here what they serve when they are imported, so that nothing above them needs to know which there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...machine.default_runtime import default_runtime
from ...machine.device_name import device
from ...machine.runtime import Runtime
from .place import Place

_cpu: list[Place] = []
_makers: dict[bool, Callable[[Runtime, int], Place]] = {}


def serve_cpu(place: Place) -> None:
    """Let ``place`` be the CPU."""
    _cpu[:] = [place]


def serve_devices(make: Callable[[Runtime, int], Place], *, simulated: bool) -> None:
    """Let ``make(runtime, ordinal)`` make the places of devices: those of a simulator, or those that run CUDA C."""
    _makers[simulated] = make


def place_of(given: Any) -> Place:
    """The place that ``given`` names: a device, its text, a CUDA ordinal. Without an index: the current CUDA device.

    Raises:
        CuplugError: there is no CUDA device.
        DriverError: ``CUDA_ERROR_INVALID_DEVICE``: none has this ordinal.
    """
    named = given if type(given) is device else device(given)
    if named.type == "cpu":
        return _cpu[0]
    runtime = default_runtime()
    ordinal = runtime.current.device if named.index is None else named.index
    found: Place | None = runtime.device(ordinal).objects.get("tensor.place")
    return place_on(runtime, ordinal) if found is None else found


def place_on(runtime: Runtime, ordinal: int) -> Place:
    """The place that a device of a runtime is.

    Raises:
        DriverError: ``CUDA_ERROR_INVALID_DEVICE``: none has this ordinal.
    """
    objects = runtime.device(ordinal).objects
    found: Place | None = objects.get("tensor.place")
    if found is None:
        make = _makers[runtime.driver.simulator is not None]
        found = objects.setdefault("tensor.place", make(runtime, ordinal))
    return found
