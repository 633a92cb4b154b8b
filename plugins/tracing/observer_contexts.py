"""Lets several observers of one allocator have contexts of their own, such as numbers of call stacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from ...allocators.base import Allocator
from ...allocators.errors import PluginError
from ...allocators.events import EventKind, Observer
from ...allocators.libraries import LIBRARY_SHIFT, split_context

Source = Callable[[], int]
"""What is called on the thread that causes an event, before the event; its result travels with the event."""


def attach_all(allocator: Allocator, observers: Sequence[tuple[Observer, Source | None]]) -> None:
    """Attach observers to an allocator, each with a source of contexts, or None.

    Each that has a source gets what its own source returned. One without gets what the others' sources make of it, a
    number that means nothing to it, or 0.
    """
    sources = [source for _, source in observers if source is not None]
    if len(sources) < 2:
        for observer, source in observers:
            allocator.attach(observer, context=source)
        return
    shared = _SharedSource(sources)
    place = 0
    for observer, source in observers:
        if source is None:
            allocator.attach(observer)
        else:
            allocator.attach(shared.translated(observer, place), context=None if place else shared.context)
            place += 1


def source_of(observer: Observer) -> Source | None:
    """The source of contexts that an observer asks for, by its attribute ``context``; None if it does not.

    Raises:
        PluginError: that cannot be called.
    """
    source: Source | None = getattr(observer, "context", None)
    if source is not None and not callable(source):
        raise PluginError(f"the observer {observer!r} has a context that cannot be called: {source!r}")
    return source


class _SharedSource:
    """Asks several sources, and gives each combination of their answers a number."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._numbers: dict[tuple[int, ...], int] = {}
        self._answers: dict[int, tuple[int, ...]] = {0: (0,) * len(sources)}
        self._count = count(1)

    def context(self) -> int:
        """The number of what the sources answer now."""
        answers = tuple([source() for source in self._sources])
        number = self._numbers.get(answers)
        if number is None:
            number = next(self._count)
            self._answers[number] = answers  # before anybody can hear of the number
            self._numbers[answers] = number
        return number

    def translated(self, observer: Observer, place: int) -> Observer:
        """The observer, with the answer of the source at ``place`` as its context."""
        answers = self._answers

        def observe(
            kind: EventKind, time_ns: int, thread: int, stream: int,
            address: int, nbytes: int, requested: int, context: int, /,
        ) -> None:  # fmt: skip
            number, library = split_context(context)
            own = answers[number][place] | library << LIBRARY_SHIFT
            observer(kind, time_ns, thread, stream, address, nbytes, requested, own)

        return observe
