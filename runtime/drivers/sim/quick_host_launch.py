"""Launches of Python functions in C++, where the core was built: what is said by ``SimDriver.launch_host``, which takes
over wherever something is unusual, and which does everything where there is no core, or a schedule defers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ....allocators.core_choice import is_available
from . import locked_calls
from .allocations import Allocations
from .device_table import DeviceTable
from .memory import DeviceMemory
from .simulated_device import Device
from .streams import CALL_US, Streams
from .work import Operation, Stream

_native: Any = None
if is_available():
    from ....allocators import _native


def quick_host_launch(
    python: Callable[..., None], calls: locked_calls.Calls, streams: Streams, devices: DeviceTable
) -> Callable[..., None]:
    """``launch(function, stream, reads, writes, name, device, cost_us, repeatable, *arguments)``, all by position: the
    quick form of ``python``, a machine's ``launch_host``, of ``function(*arguments)``; or the same by that itself."""

    def launch(
        function: Callable[..., object],
        stream: Any,
        reads: Any,
        writes: Any,
        name: Any,
        device: Any,
        cost_us: Any,
        repeatable: Any,
        *arguments: Any,
    ) -> None:
        work = partial(function, *arguments) if arguments else function
        python(work, stream, reads, writes, name, device, cost_us, repeatable)

    schedule = streams.schedule
    if _native is None or schedule.defers:
        return launch
    made: Callable[..., None] = _native.HostLaunch(
        python=launch,
        calls=calls,
        streams=streams,
        schedule=schedule,
        devices=devices.made,
        legacy=streams._legacy,
        handles=streams.streams.objects,
        given_back=calls.given_back,
        abandoned=calls.abandoned,
        faults=calls.faults,
        managed=streams.managed.sizes,
        in_use=streams.managed.in_use,
        log=schedule.log,
        call_us=CALL_US,
        pausing=locked_calls._pausing,
        collection=vars(locked_calls),
        is_failure=_is_failure,
        device_type=Device,
        stream_type=Stream,
        memory_type=DeviceMemory,
        allocations_type=Allocations,
    )
    return made


def _is_failure(
    error: BaseException, device: Device, name: str, function: Callable[..., object], *arguments: Any
) -> bool:
    """What a kernel raised that may run again: see ``Operation.is_failure``."""
    return Operation(name, partial(function, *arguments)).is_failure(device, error)
