"""When queued operations run: the schedules ``eager``, ``lazy`` and ``random``."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable

from .held_signals import run_without_signals
from .managed_blocks import ManagedMemory
from .simulated_device import Device
from .work import Operation, Stream


class Schedule:
    """Queues operations and runs them. A legal next operation is the first of its stream whose ``after`` are done.

    Any order of legal operations is one that CUDA allows. Operations only wait for ones submitted earlier, so that
    waiting always ends.
    """

    __slots__ = ("active", "executed", "finished", "log", "managed")
    defers = True
    """Whether operations may still be queued when a call returns."""

    def __init__(self) -> None:
        self.active: dict[Stream, None] = {}
        """The streams with queued operations, in the order in which they got them."""
        self.log: deque[tuple[int, int, str]] = deque(maxlen=1 << 16)
        """Device, number of the stream on that device, and name of the operations executed last, oldest first."""
        self.executed = 0
        self.managed = ManagedMemory()
        self.finished: list[object] = []
        """What executed operations held: to be dropped outside the driver's lock, since that may run finalisers."""

    def __str__(self) -> str:
        raise NotImplementedError

    def submit(self, operation: Operation) -> None:
        """Queue an operation."""
        stream = operation.stream
        self.active[stream] = None  # first, so that ``mend`` finds whatever was queued
        stream.queue.append(operation)

    def mend(self) -> None:
        """Put right what an interrupted call left: operations that are done leave their queues, and streams without
        any are not active."""
        for stream in list(self.active):
            while stream.queue and stream.queue[0].done:
                self._leave(stream.queue[0])
            if not stream.queue:
                self.active.pop(stream, None)

    def step(self) -> None:
        """An opportunity to execute something: at the start of every driver call."""

    def poll(self, operation: Operation) -> bool:
        """Whether the operation was done; if not, things may have moved on afterwards."""
        raise NotImplementedError

    def wait(self, operation: Operation) -> None:
        """Execute at least the operation and what comes before it."""
        raise NotImplementedError

    def drain(self, device: Device) -> None:
        """Execute everything queued on the device."""
        for stream in [stream for stream in self.active if stream.device is device]:
            while stream.queue:
                self.wait(stream.queue[-1])

    def queued(self) -> Iterable[Operation]:
        """All operations that have not run yet."""
        for stream in self.active:
            yield from stream.queue

    def drop_everything(self) -> None:
        """Forget all queued operations."""
        for operation in list(self.queued()):
            operation.done = True
            self.finished.append(operation)
        for stream in self.active:
            stream.queue.clear()
        self.active.clear()

    def run_towards(self, target: Operation, limit: int | None = None) -> None:
        """Execute what ``target`` needs and nothing else, at most ``limit`` operations."""
        path = [target]
        while path and limit != 0:
            if path[-1].done:
                path.pop()
                continue
            head = path[-1].stream.queue[0]
            blocker = next((earlier for earlier in head.after if not earlier.done), None)
            if blocker is not None:
                path.append(blocker)
            else:
                self.execute(head)
                limit = None if limit is None else limit - 1

    def execute(self, operation: Operation) -> None:
        """Run the first operation of a stream. If that is interrupted before it is done, it stays the first."""
        self.run(operation)
        self._leave(operation)

    def run(self, operation: Operation) -> None:
        """Run an operation. Signals wait until it is done, unless it may run again after one."""
        managed = self.managed
        if managed.in_use and operation.body is not None:
            managed.open()
        try:
            if operation.repeatable:
                operation.execute()
            else:
                run_without_signals(operation.execute)
        finally:
            if managed.in_use:
                managed.close()

    def _leave(self, operation: Operation) -> None:
        stream = operation.stream
        self.finished.append(operation.body)
        operation.body = None
        self.note(operation)
        stream.queue.popleft()
        if not stream.queue:
            del self.active[stream]

    def note(self, operation: Operation) -> None:
        """Enter an executed operation into the log."""
        stream = operation.stream
        self.executed += 1
        self.log.append((stream.device.ordinal, stream.number, operation.name))


class EagerSchedule(Schedule):
    """Everything runs when it is submitted: like a GPU that is infinitely fast."""

    defers = False

    def __str__(self) -> str:
        return "eager"

    def submit(self, operation: Operation) -> None:
        if operation.body is None and not self.managed.in_use:  # a mark: nothing of the program's runs
            operation.execute()
        else:
            self.run(operation)
        self.note(operation)

    def poll(self, operation: Operation) -> bool:
        return operation.done

    def wait(self, operation: Operation) -> None:
        """Nothing is ever left to wait for."""


class LazySchedule(Schedule):
    """Nothing runs before something waits for it: like a GPU that is infinitely slow."""

    def __str__(self) -> str:
        return "lazy"

    def poll(self, operation: Operation) -> bool:
        """Executes one operation towards it, so that a loop that polls comes to an end."""
        if operation.done:
            return True
        self.run_towards(operation, limit=1)
        return False

    def wait(self, operation: Operation) -> None:
        self.run_towards(operation)


class RandomSchedule(Schedule):
    """At every driver call a seeded generator executes some legal operations, in some legal order.

    The pace changes at random between standing still and running ahead, so that both long and short overlaps occur.
    """

    _PACES = (0.0, 0.05, 0.3, 0.7)

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self._random = random.Random(seed)
        self._pace = self._random.choice(self._PACES)

    def __str__(self) -> str:
        return f"random:{self.seed}"

    def step(self) -> None:
        if self._random.random() < 1 / 32:
            self._pace = self._random.choice(self._PACES)
        while self.active and self._random.random() < self._pace:
            self._execute_one()

    def poll(self, operation: Operation) -> bool:
        if operation.done:
            return True
        if self._random.random() < 0.5:
            self.run_towards(operation, limit=1)
        return False

    def wait(self, operation: Operation) -> None:
        if self._random.random() < 0.5:
            self.run_towards(operation)
        while not operation.done:
            self._execute_one()

    def _execute_one(self) -> None:
        heads = [stream.queue[0] for stream in self.active]
        self.execute(self._random.choice([head for head in heads if all(earlier.done for earlier in head.after)]))


def make_schedule(text: str, seed: int) -> Schedule:
    """The schedule that ``eager``, ``lazy``, ``random`` or ``random:SEED`` names.

    Raises:
        ValueError: it names none.
    """
    name, colon, number = text.partition(":")
    if name == "random":
        if not colon or number.isdecimal():
            return RandomSchedule(int(number) if colon else seed)
    elif text == "eager":
        return EagerSchedule()
    elif text == "lazy":
        return LazySchedule()
    raise ValueError(f"schedule {text!r} is unknown; known: eager, lazy, random, random:SEED (a whole number)")
