"""What a launch needs of the driver: a kernel with its geometry, and slots that hold the parameters of one launch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ....allocators.errors import DriverError
from ...drivers.base import Dim3, Driver
from ...streams.stream import ExternalStream, as_stream
from .arguments import ADDRESS_FORMS, Packer

if TYPE_CHECKING:
    from ...machine.current import Current
    from ...machine.runtime import Runtime

_INVALID_CONTEXT = 201
_LAYOUTS = 64


class Slot(Protocol):
    """All that a launch of one kernel with one geometry hands to the driver. One launch at a time has it."""

    parameters: Any
    """The parameter block, writable."""
    stream: int
    """Where ``call`` launches; ``move`` changes it."""
    call: Callable[[], int]
    """Queues the launch. Returns a CUresult. Not for use once the runtime is unusable."""

    def move(self, stream: int) -> None:
        """Launch on ``stream`` from now on."""


class Target:
    """A kernel on one device with its geometry."""

    __slots__ = ("accepted", "cooperative", "function", "geometry", "ordinal", "pop", "push", "room", "runtime")

    def __init__(
        self,
        runtime: Runtime,
        function: int,
        geometry: tuple[Dim3, Dim3, int],
        ordinal: int,
        nbytes: int,
        *,
        cooperative: bool = False,
    ) -> None:
        """For the driver's handle of a kernel whose parameter block has ``nbytes`` bytes."""
        self.runtime = runtime
        self.function = function
        self.geometry = geometry
        self.ordinal = ordinal
        self.cooperative: dict[str, Any] = {"cooperative": True} if cooperative else {}
        """What a cooperative launch tells the driver besides."""
        self.accepted: dict[int, set[Any]] = defaultdict(set)
        """For each place the layouts of tensors that were found to fit."""
        make_slot: Any = getattr(runtime.driver, "launch_slot", None) or partial(_DriverSlot, runtime.driver)
        grid, block, shared = geometry
        self.room: Callable[[], Slot] = partial(
            make_slot, function, grid, block, shared=shared, nbytes=nbytes, **self.cooperative
        )
        slots: list[Slot] = []
        # Taking and giving back are single operations of a list: safe with threads, and in a finaliser that launches.
        self.pop, self.push = slots.pop, slots.append

    def queue(self, slot: Slot, current: Current, stream: int) -> None:
        """Launch on any stream of the target's device, whatever device is current, and give the slot back.

        Raises:
            DriverError: what the driver says.
        """
        if slot.stream != stream:
            slot.move(stream)
        if current.device != self.ordinal:
            with self.runtime.on_device(self.ordinal):
                if slot.call():
                    self.call_again(slot)
        elif slot.call():
            self.call_again(slot)
        self.push(slot)
        if self.runtime.launch_blocking:
            with self.runtime.on_device(self.ordinal):
                self.runtime.driver.stream_synchronize(stream)

    def call_again(self, slot: Slot) -> None:
        """Launch what the driver has refused with all that it takes, or raise the reason. The first launch of a thread
        comes here, which has no current device yet.
        """
        driver = self.runtime.driver
        if driver.current_device() is None:
            driver.set_device(self.ordinal)
        grid, block, shared = self.geometry
        parameters = bytes(slot.parameters)
        driver.launch(
            self.function, grid, block, shared=shared, stream=slot.stream, parameters=parameters, **self.cooperative
        )


def launch(target: Target, packer: Packer, current: Current, handle: int, args: tuple[Any, ...]) -> None:
    """Queue a launch with any arguments on any stream. Raises as ``Function`` does."""
    packing = packer.packing(args)
    for place in packing.arrays:
        _check_array(target, packer, place, args[place])
    try:
        slot = target.pop()
    except IndexError:
        slot = target.room()
    packer.pack_into(packing, slot.parameters, args)
    if packing.foreign:
        _order(target, packer.streams(packing, args), handle)
    target.queue(slot, current, handle)


def _check_array(target: Target, packer: Packer, place: int, value: Any) -> None:
    form = ADDRESS_FORMS.get(type(value))
    layout = getattr(value, form.layout) if form is not None and form.layout else None
    accepted = target.accepted[place]
    if layout is None or layout not in accepted:
        packer.check_array(place, value, target.ordinal)
        if layout is not None:
            if len(accepted) >= _LAYOUTS:
                accepted.clear()
            accepted.add(layout)


def _order(target: Target, streams: list[int], handle: int) -> None:
    """Wait for the streams on which other libraries make the contents of arguments."""
    for stream in streams:
        if stream != handle:
            queue = as_stream(ExternalStream(handle, target.ordinal, runtime=target.runtime), target.runtime)
            queue.wait_stream(ExternalStream(stream, target.ordinal, runtime=target.runtime))


class _DriverSlot:
    """A ``Slot`` for drivers that have none of their own."""

    def __init__(
        self, driver: Driver, function: int, grid: Dim3, block: Dim3, *, shared: int, nbytes: int, **cooperative: Any
    ) -> None:
        self._launch = partial(driver.launch, function, grid, block, shared=shared, **cooperative)
        self.parameters = bytearray(nbytes)
        self.stream = 0

    def move(self, stream: int) -> None:
        self.stream = stream

    def call(self) -> int:
        try:
            self._launch(stream=self.stream, parameters=bytes(self.parameters))
        except DriverError as error:
            if error.code != _INVALID_CONTEXT:
                raise
            return error.code
        return 0
