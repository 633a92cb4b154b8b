"""The hot path of a launch.

A launch costs CUDA 3.0 µs on an H200, and its arguments must not cost as much again. So the function that a program
calls is generated for the kernel's number of parameters: naming the arguments one by one takes half the time of
handling them as a tuple. It knows one way, for arguments of types that came before and need no conversion, on a current
stream; whatever else comes, and every error, goes to the function ``otherwise``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...allocators.errors import DriverError
from ..drivers.base import Dim3, Driver
from ..stream import ExternalStream, as_stream
from ..upstream import PER_THREAD_KEY
from .arguments import Packer

if TYPE_CHECKING:
    from ..current import Current
    from ..runtime import Runtime

__all__ = ["MISSING", "Target", "fast_call", "fast_prepared", "launch"]

Slot = tuple[Any, ...]
"""A writable buffer for a parameter block, and what the driver keeps with it. One launch at a time has it."""

MISSING: Any = type("Missing", (), {})()
_INVALID_CONTEXT = 201

_BODY = """
        pack_into = plain[{types}]
        stream = {stream}
        if rest or stream >= per_thread or runtime._unusable is not None:
            raise KeyError
        slot = target.pop()
        pack_into(slot[0], 0, {names})
    except failures:
        slot = None
    if slot is None:  # outside the block, so that errors do not tell of this one
        return otherwise({otherwise})
    try:
        target.queue(stream, slot)
    except error as problem:
        target.again(problem, stream, slot)
    target.push(slot)
"""
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


class Target:
    """A kernel on one device with its geometry."""

    __slots__ = ("geometry", "ordinal", "packer", "pop", "push", "queue", "room", "runtime")

    def __init__(
        self, runtime: Runtime, packer: Packer, handle: int, geometry: tuple[Dim3, Dim3, int], ordinal: int
    ) -> None:
        self.runtime = runtime
        self.packer = packer
        self.geometry = geometry
        self.ordinal = ordinal
        bind = getattr(runtime.driver, "bind_launch_in_place", None) or _Bound(runtime.driver).bind_launch_in_place
        grid, block, shared = geometry
        self.room: Callable[[], Slot]
        self.queue: Callable[[int, Slot], None]
        self.room, self.queue = bind(handle, grid, block, shared=shared, nbytes=packer.nbytes)
        slots: list[Slot] = []
        # Taking and giving back are single operations of a list: safe with threads, and in a finaliser that launches.
        self.pop, self.push = slots.pop, slots.append

    def again(self, problem: DriverError, stream: int, slot: Slot) -> None:
        """Queue once more after an error that the first call of a thread gets, which has no current device yet."""
        if problem.code != _INVALID_CONTEXT:
            raise problem
        self.runtime.driver.set_device(self.ordinal)
        self.queue(stream, slot)


def fast_call(
    count: int,
    runtime: Runtime,
    packer: Packer,
    targets: dict[tuple[Any, Any, Any, int], Target],
    otherwise: Callable[..., None],
) -> Callable[..., None]:
    """``call(*args, grid, block, shared, stream)`` for a kernel of ``count`` parameters.

    Args:
        count: how many.
        runtime: the kernel's.
        packer: the kernel's.
        targets: what is known, by grid, block, shared memory and device.
        otherwise: ``otherwise(args, grid, block, shared, stream)`` does what this cannot.
    """
    rest = "grid, block, shared, given"
    return _generate(_CALL, count, runtime, packer, rest, targets=targets, otherwise=otherwise, of="current.stream")


def fast_prepared(target: Target, handle: int | None, otherwise: Callable[..., None]) -> Callable[..., None]:
    """``call(*args)`` on a settled target, and stream unless ``handle`` is None. ``otherwise(args)`` does the rest."""
    count = len(target.packer.parameters)
    of = "current.stream" if handle is None else str(handle)
    return _generate(_PREPARED, count, target.runtime, target.packer, "", target=target, otherwise=otherwise, of=of)


def _generate(
    template: str, count: int, runtime: Runtime, packer: Packer, rest: str, *, of: str, **names: Any
) -> Callable[..., None]:
    arguments = [f"a{index}" for index in range(count)]
    source = template.format(
        parameters="".join(f"{name}=missing, " for name in arguments) + ("/, " if arguments else ""),
        names=", ".join(arguments),
        types="(" + "".join(f"type({name}), " for name in arguments) + ")",
        otherwise=f"given_of(({''.join(f'{name}, ' for name in arguments)}*rest,)), {rest}",
        stream=of,
    )
    space: dict[str, Any] = {
        **names,
        "runtime": runtime,
        "threads": runtime.threads,
        "plain": {} if runtime.launch_blocking else packer.plain,
        "per_thread": PER_THREAD_KEY,
        "missing": MISSING,
        "given_of": _given,
        "failures": (AttributeError, KeyError, TypeError, IndexError, OverflowError, struct.error),
        "error": DriverError,
    }
    exec(compile(source, "<a launch made by cuplug>", "exec"), space)
    made: Callable[..., None] = space["call"]
    return made


def _given(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value for value in args if value is not MISSING)


def launch(target: Target, current: Current, handle: int, args: tuple[Any, ...]) -> None:
    """Queue a launch with any arguments on any stream. Raises as ``Function`` does."""
    packer, ordinal, runtime = target.packer, target.ordinal, target.runtime
    plan = packer.plan(args)
    try:
        slot = target.pop()
    except IndexError:
        slot = target.room()
    packer.pack_into(plan, slot[0], args)
    if plan.foreign:
        _order(target, packer.streams(plan, args), handle)
    if current.device != ordinal:
        with runtime.on_device(ordinal):
            target.queue(handle, slot)
    else:
        try:
            target.queue(handle, slot)
        except DriverError as problem:
            target.again(problem, handle, slot)
    target.push(slot)
    if runtime.launch_blocking:
        with runtime.on_device(ordinal):
            runtime.driver.stream_synchronize(handle)


def _order(target: Target, streams: list[int], handle: int) -> None:
    """Wait for the streams on which other libraries make the contents of arguments."""
    for stream in streams:
        if stream != handle:
            queue = as_stream(ExternalStream(handle, target.ordinal, runtime=target.runtime), target.runtime)
            queue.wait_stream(ExternalStream(stream, target.ordinal, runtime=target.runtime))


class _Bound:
    """``bind_launch_in_place`` for drivers that have none."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def bind_launch_in_place(
        self, function: int, grid: Dim3, block: Dim3, *, shared: int, nbytes: int
    ) -> tuple[Callable[[], Slot], Callable[[int, Slot], None]]:
        """Room for a parameter block, and ``queue(stream, slot)``."""
        driver = self._driver

        def queue(stream: int, slot: Slot) -> None:
            driver.launch(function, grid, block, shared=shared, stream=stream, parameters=bytes(slot[0]))

        return lambda: (bytearray(nbytes),), queue
