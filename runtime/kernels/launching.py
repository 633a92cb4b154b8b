"""The hot path of a launch.

A launch costs CUDA 3.0 µs on an H200, and its arguments must not cost as much again. So the function that a program
calls is generated for the kernel: naming the arguments one by one takes half the time of handling them as a tuple, and
reading what they hold less than calling their methods. It knows one way, for arguments of types that came before, on a
current stream; whatever else comes, and every error, goes to the function ``otherwise``. What CUDA gets is made ahead,
in a ``Slot``.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from ...allocators.errors import DriverError
from ..drivers.base import Dim3, Driver
from ..stream import ExternalStream, as_stream
from ..upstream import PER_THREAD_KEY
from .arguments import READ, Packer

if TYPE_CHECKING:
    from ..current import Current
    from ..runtime import Runtime

__all__ = ["MISSING", "Slot", "Target", "launch", "settle_call", "settle_prepared"]

MISSING: Any = type("Missing", (), {})()
_INVALID_CONTEXT = 201

_BODY = """
        stream = {stream}
        if rest or stream >= per_thread or runtime._unusable is not None:
            raise KeyError
        {branches}
        if slot.stream != stream:
            slot.move(stream)
    except failures:
        slot = None
    if slot is None:  # outside the block, so that errors do not tell of this one
        return otherwise(given_of(({arguments}*rest,)){geometry})
    if slot.call():
        target.call_again(slot)
    target.push(slot)
"""
_BRANCH = """if {condition}:
            slot = target.pop()
            pack{number}(slot.parameters, 0, {values})
        el"""
_CALL = (
    """
def call({parameters}*rest, grid=1, block, shared=0, stream=None):
    given = stream
    try:
        current = threads.current
        if given is not None:
            raise KeyError
        target = targets[grid, block, shared, current.device]"""
    + _BODY
)
_PREPARED = (
    """
def call({parameters}*rest):
    try:
        current = threads.current
        if current.device != target.ordinal:
            raise KeyError"""
    + _BODY
)


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
        ...


class Target:
    """A kernel on one device with its geometry."""

    __slots__ = ("function", "geometry", "ordinal", "pop", "push", "room", "runtime")

    def __init__(
        self, runtime: Runtime, function: int, geometry: tuple[Dim3, Dim3, int], ordinal: int, nbytes: int
    ) -> None:
        """For the driver's handle of a kernel whose parameter block has ``nbytes`` bytes."""
        self.runtime = runtime
        self.function = function
        self.geometry = geometry
        self.ordinal = ordinal
        make_slot: Any = getattr(runtime.driver, "launch_slot", None) or partial(_DriverSlot, runtime.driver)
        grid, block, shared = geometry
        self.room: Callable[[], Slot] = partial(make_slot, function, grid, block, shared=shared, nbytes=nbytes)
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
        driver.launch(self.function, grid, block, shared=shared, stream=slot.stream, parameters=parameters)


def settle_call(
    function: Any, runtime: Runtime, packer: Packer, targets: dict[tuple[Any, Any, Any, int], Target]
) -> None:
    """Make a call of ``function`` take the short way where there is one.

    Args:
        function: a ``partial`` of what launches in any case: ``launch(args, grid, block, shared, stream)``. Its
            function becomes one of ``(*args, grid, block, shared, stream)``.
        runtime: the kernel's.
        packer: the kernel's.
        targets: what is known, by grid, block, shared memory and device.
    """
    template = partial(_CALL.format, stream="current.stream", geometry=", grid, block, shared, given")
    _settle(function, runtime, packer, template, targets=targets)


def settle_prepared(function: Any, packer: Packer, target: Target, handle: int | None) -> None:
    """The same for a launch whose target is settled, and its stream unless ``handle`` is None: ``launch(args)``."""
    template = partial(_PREPARED.format, stream="current.stream" if handle is None else str(handle), geometry="")
    _settle(function, target.runtime, packer, template, target=target)


def _settle(function: Any, runtime: Runtime, packer: Packer, template: Callable[..., str], **names: Any) -> None:
    """Generate what ``function`` calls for the types that came so far; and again when others have come."""
    in_any_case, settled, referred = function.func, 0, weakref.ref(function)

    def settle(function: Any) -> None:
        nonlocal settled
        settled = len(packer.usual)
        call = _generate(template, runtime, packer, otherwise=otherwise, **names)
        function.__setstate__((call, (), {}, vars(function)))

    def otherwise(*args: Any) -> None:
        in_any_case(*args)
        if settled != len(packer.usual):
            function = referred()
            if function is not None:
                settle(function)

    settle(function)


def _generate(template: Callable[..., str], runtime: Runtime, packer: Packer, **names: Any) -> Callable[..., None]:
    arguments = [f"a{index}" for index in range(len(packer.parameters))]
    space: dict[str, Any] = {
        **names,
        "runtime": runtime,
        "threads": runtime.threads,
        "per_thread": PER_THREAD_KEY,
        "missing": MISSING,
        "given_of": _given,
        "refuse": _refuse,
        "failures": (AttributeError, KeyError, TypeError, IndexError, OverflowError, struct.error),
    }
    branches = ""
    for number, (types, plan) in enumerate([] if runtime.launch_blocking else packer.usual):
        space[f"pack{number}"] = plan.layout.pack_into
        values = []
        for place, (name, kind) in enumerate(zip(arguments, types, strict=True)):
            space[f"type{number}_{place}"] = kind
            convert = None if plan.converters is None else plan.converters[place]
            if kind in READ and packer.parameters[place].kind == "p":
                name = READ[kind].format(name)
            elif convert is not None:
                space[f"convert{number}_{place}"] = convert
                name = f"convert{number}_{place}({name})"
            values.append(name)
        condition = " and ".join(f"type({name}) is type{number}_{place}" for place, name in enumerate(arguments))
        branches += _BRANCH.format(
            condition=condition or "True", number=number, values="".join(f"{value}, " for value in values)
        )
    source = template(
        parameters="".join(f"{name}=missing, " for name in arguments) + ("/, " if arguments else ""),
        branches=f"{branches}se:\n            raise KeyError" if branches else "raise KeyError",
        arguments="".join(f"{name}, " for name in arguments),
    )
    exec(compile(source, "<a launch made by cuplug>", "exec"), space)
    made: Callable[..., None] = space["call"]
    return made


def _refuse() -> NoReturn:
    raise KeyError


def _given(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value for value in args if value is not MISSING)


def launch(target: Target, packer: Packer, current: Current, handle: int, args: tuple[Any, ...]) -> None:
    """Queue a launch with any arguments on any stream. Raises as ``Function`` does."""
    plan = packer.plan(args)
    try:
        slot = target.pop()
    except IndexError:
        slot = target.room()
    packer.pack_into(plan, slot.parameters, args)
    if plan.foreign:
        _order(target, packer.streams(plan, args), handle)
    target.queue(slot, current, handle)


def _order(target: Target, streams: list[int], handle: int) -> None:
    """Wait for the streams on which other libraries make the contents of arguments."""
    for stream in streams:
        if stream != handle:
            queue = as_stream(ExternalStream(handle, target.ordinal, runtime=target.runtime), target.runtime)
            queue.wait_stream(ExternalStream(stream, target.ordinal, runtime=target.runtime))


class _DriverSlot:
    """A ``Slot`` for drivers that have none of their own."""

    def __init__(self, driver: Driver, function: int, grid: Dim3, block: Dim3, *, shared: int, nbytes: int) -> None:
        self._launch = partial(driver.launch, function, grid, block, shared=shared)
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
