"""Memory that sleeps: given back to its device for a while, at addresses that stay (``allocators/sleeping.py``)."""

from __future__ import annotations

from functools import partial

from ...allocators.base import Allocator
from ...allocators.errors import CuplugError
from ...allocators.sleeping import Keep, cannot_sleep
from ...allocators.tags import check_tag_name, known_tags, memory_tag, tag_number
from ..machine.checks import flag
from ..machine.default_runtime import runtime_or_default
from ..machine.runtime import Runtime
from .pinned import PinnedMemory, pinned_allocator
from .side_copies import SideCopies

__all__ = ["check_known_tag", "memory_tag", "name_in_trace", "name_of_allocator", "sleep", "wake"]

_HOST = 0
"""The key under which the host itself uses page-locked memory."""


def sleep(tag: str, keep: bool = True, *, runtime: Runtime | None = None) -> int:
    """Give the memory of what was allocated within ``memory_tag(tag)`` back to its devices, and keep the addresses.

    It waits for all work on these devices first. Buffers, tensors, views, arguments of prepared launches and captured
    graphs stay valid, and may be freed; using them before ``wake(tag)`` is an illegal access. Memory that sleeps
    already, or a tag of which nothing is left, is passed over.

    Args:
        tag: the name that ``memory_tag`` had.
        keep: whether to copy the contents to page-locked host memory. Otherwise they are undefined after ``wake``.
        runtime: the default runtime, if left out.

    Returns:
        The bytes given back, on all devices together.

    Raises:
        OutOfMemoryError: the host cannot lock that much memory. On that device nothing sleeps.
        CuplugError: the allocator cannot put memory to sleep; ``expandable`` can.
        DriverError: a device is in a sticky error state, or a call failed.
        ValueError: nothing was ever tagged so.
        TypeError: ``tag`` is no name, or ``keep`` no truth value.
    """
    runtime, keep = runtime_or_default(runtime), flag(keep, "keep")
    check_known_tag(tag)
    released = 0
    for ordinal in range(runtime.device_count()):
        allocator = runtime.find_allocator(ordinal)
        if allocator is None:
            continue
        if not allocator.can_sleep:
            raise _cannot(runtime)
        name_in_trace(runtime, tag)
        runtime.device(ordinal).synchronize()
        released += allocator.sleep(tag, keep=_keeper(runtime, ordinal) if keep else None)
    return released


def wake(tag: str, *, runtime: Runtime | None = None) -> int:
    """Bring what ``sleep(tag)`` gave back to the same addresses, with the contents if those were kept.

    Where memory is short, it is made as for an allocation: cached memory goes back, and the hooks for that case are
    asked. If that does not help, the memory sleeps on. Memory that is awake is passed over.

    Args:
        tag: the name that ``memory_tag`` had.
        runtime: the default runtime, if left out.

    Returns:
        The bytes taken, on all devices together.

    Raises:
        OutOfMemoryError: there is no room on a device. There the memory sleeps on.
        CuplugError: the allocator cannot put memory to sleep; ``expandable`` can.
        DriverError: a device is in a sticky error state, or a call failed.
        ValueError: nothing was ever tagged so.
        TypeError: ``tag`` is no name.
    """
    runtime = runtime_or_default(runtime)
    check_known_tag(tag)
    taken = 0
    for ordinal in range(runtime.device_count()):
        allocator = runtime.find_allocator(ordinal)
        if allocator is None:
            continue
        if not allocator.can_sleep:
            raise _cannot(runtime)
        taken += allocator.wake(tag)
    return taken


class _PinnedCopy:
    """A block's contents in page-locked memory."""

    __slots__ = ("_address", "_copies", "_memory", "_nbytes")

    def __init__(self, copies: SideCopies, allocator: Allocator, address: int, nbytes: int) -> None:
        self._copies = copies
        self._address = address
        self._nbytes = nbytes
        self._memory = PinnedMemory.allocate(allocator, nbytes, stream=_HOST)
        # Dropped before its copies are done, it waits for them.
        self._memory.used_by(copies.ordinal, copies.stream.cuda_stream)
        copies.save(self._memory.block.address, address, nbytes)

    def restore(self) -> None:
        """Queue the way back."""
        self._copies.restore(self._address, self._memory.block.address, self._nbytes)

    def wait(self) -> None:
        """Block until what was queued last is done."""
        self._copies.wait()


def _keeper(runtime: Runtime, ordinal: int) -> Keep:
    """Keeps contents of one device's memory in page-locked memory."""
    return partial(_PinnedCopy, SideCopies(runtime, ordinal), pinned_allocator(runtime, private=True))


def check_known_tag(tag: str) -> None:
    """Raise where ``tag`` is no name (TypeError, ValueError), or nothing was ever tagged so (ValueError)."""
    if tag_number(check_tag_name(tag)) is None:
        known = ", ".join(map(repr, known_tags())) or "none"
        raise ValueError(
            f"nothing was ever tagged {tag!r}: allocate within cuplug.cuda.memory_tag({tag!r}); tags up to now: {known}"
        )


def _cannot(runtime: Runtime) -> CuplugError:
    how = ': cuplug.init(allocator="expandable"), or CUPLUG_ALLOCATOR=expandable'
    return cannot_sleep(name_of_allocator(runtime), how)


def name_of_allocator(runtime: Runtime) -> str:
    """What messages call the allocator of ``runtime``."""
    chosen = runtime.settings.allocator
    return f"the allocator {chosen if isinstance(chosen, str) else 'that was chosen'}"


def name_in_trace(runtime: Runtime, tag: str) -> None:
    """Let the trace, if there is one, know the name that goes with the number in its events."""
    number = tag_number(tag)
    if runtime.recorder is not None and number not in runtime.shared.setdefault("tags in the trace", set()):
        runtime.recorder.describe(tags={str(number): tag})
        runtime.shared["tags in the trace"].add(number)
