"""The hooks that a plugin may implement. A package joins by the entry-point group ``cuplug``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..allocators.base import Allocator
    from ..allocators.events import Observer
    from ..runtime.drivers.base import Driver

__all__ = ["PROJECT", "AllocatorFactory", "DriverFactory", "hookimpl", "hookspec"]

PROJECT = "cuplug"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

AllocatorFactory = Callable[..., "Allocator"]
"""``factory(upstream, *, option=default, ...)``: called once for every device. Options are keyword-only parameters
with a default and an annotation (int, float, bool, str, or one of these ``| None``); ``Annotated[int, "text"]``
describes one to people. Ints accept sizes such as ``2MiB``."""

DriverFactory = Callable[..., "Driver"]
"""``factory(*, option=default, ...)``, with options as an allocator's."""


class Specifications:
    """What plugins may say to cuplug. None of these is called per allocation."""

    @hookspec
    def cuplug_allocators(self) -> Mapping[str, AllocatorFactory]:  # type: ignore[empty-body]
        """Contribute allocators: a factory for each name."""

    @hookspec
    def cuplug_drivers(self) -> Mapping[str, DriverFactory]:  # type: ignore[empty-body]
        """Contribute drivers: a factory for each name."""

    @hookspec
    def cuplug_observers(self, runtime: Any) -> Sequence[Callable[[int], Observer]]:  # type: ignore[empty-body]
        """Contribute observers. Each entry makes, from a device's ordinal, the observer of that device's allocator.

        An observer with an attribute ``context``, a function without arguments that returns an int, has it called on
        the thread that causes an event, before the event, and gets the result with the event: for example
        ``cuplug.plugins.tracing.stacks.CallStacks().context``, the number of the program's call stack.
        """

    @hookspec
    def cuplug_out_of_memory(self, device: int, nbytes: int, stream: int) -> bool | None:
        """Free something, and answer whether the allocation of ``nbytes`` bytes should be tried again.

        Called without any lock, outside exception handlers, on the thread that allocates. It may free anything. What it
        allocates itself must be there without asking hooks again: else that allocation raises OutOfMemoryError, and so
        does this hook unless it catches it.
        """
