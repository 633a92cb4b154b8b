"""Which place a device's name means: the CPU, or a device of the default runtime."""

from __future__ import annotations

from typing import Any

from ...runtime import Runtime, default_runtime
from ..backends.host_place import HOST
from ..core.device_name import device
from .place import Place

__all__ = ["place_of", "place_on"]


def place_of(given: Any) -> Place:
    """The place that ``given`` names: a device, its text, a CUDA ordinal. Without an index: the current CUDA device.

    Raises:
        CuplugError: there is no CUDA device.
        DriverError: ``CUDA_ERROR_INVALID_DEVICE``: none has this ordinal.
    """
    named = device(given)
    if named.type == "cpu":
        return HOST
    runtime = default_runtime()
    return place_on(runtime, runtime.current.device if named.index is None else named.index)


def place_on(runtime: Runtime, ordinal: int) -> Place:
    """The place that a device of a runtime is."""
    objects = runtime.device(ordinal).objects
    found: Place | None = objects.get("tensor.place")
    if found is None:
        found = objects.setdefault("tensor.place", _make(runtime, ordinal))
    return found


def _make(runtime: Runtime, ordinal: int) -> Place:
    if runtime.driver.simulator is not None:
        from ..backends.sim_place import SimPlace

        return SimPlace(runtime, ordinal)

    from ..backends.cuda_place import CudaPlace

    return CudaPlace(runtime, ordinal)
