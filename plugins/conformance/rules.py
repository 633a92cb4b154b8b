"""The contract of an allocator, line by line, and the failure that names the line that was broken."""

from __future__ import annotations

import enum
from collections.abc import Callable

from ...allocators.errors import DriverError, OutOfMemoryError

__all__ = ["ContractBrokenError", "DeadlockError", "Rule", "broken_by", "expect", "require"]


class Rule(enum.Enum):
    """What every allocator promises (``cuplug.allocators.base.Allocator``)."""

    ALIGNED = "addresses and rounded sizes are multiples of 512 bytes, and no block is smaller than its request"
    NO_OVERLAP = "no two live blocks overlap, and all lie in memory that upstream gave"
    STREAM_ORDER = "memory freed on one stream is used on another only after the first one's work has passed"
    RECORD_STREAM = "a freed block waits for the streams recorded for it"
    CONTENTS = "nobody but its owner writes into a live block, and queued work finds its memory in place"
    ACCOUNTING = "statistics are exact to the byte"
    MAP = "segments() is the map of what is held, piece by piece"
    SEGMENT = "a segment says the stream and the pool that it was reserved for, and large blocks lie in large segments"
    LIVE_BLOCKS = "live_blocks() lists what is in the program's hands"
    NOTHING_LOST = "a failed allocation loses nothing: every block and counter is as before"
    LAST_RESORT = "an allocation fails only after waiting blocks were waited for and cached memory was given back"
    WHOLE_AGAIN = "what was cut into pieces serves as a whole again once they are freed, before an allocation fails"
    HOST = "memory of the host is taken only where the device has no room, and counted apart"
    HOOK = "on_out_of_memory is asked last, without a lock, and as long as it makes a difference"
    LIMIT = "no more than memory_limit bytes are reserved, given to the constructor or set later"
    INVALID_FREE = "a block that is not in the program's hands, or another allocator's, is refused"
    SIZES = "zero bytes give address 0 and count nowhere; a negative size is a ValueError"
    RELEASE = "release gives back what reserve returned, once, when no queued work touches it"
    NO_LEAK = "no freed block is lost, of whatever size: with none live, release_cached() gives everything back"
    CLOSE = "close() gives everything back, once, and blocks freed later are ignored"
    ABANDON = "an abandoned allocator calls nothing upstream and its blocks can be dropped"
    STICKY_ERROR = "free() never raises what the device's work did"
    EVENTS = "the events, replayed, give the same live blocks and segments, in order"
    OBSERVERS = "an observer that raises is detached with a warning, and the others go on"
    FORGET_STREAM = "what was cached for a forgotten stream is neither stranded nor unsafe"
    FINALISERS = "free() may run at any moment, also while the same thread is inside the allocator"
    THREADS = "every method may be called from any thread"
    INTERRUPTED = "after an exception at any point an allocator is consistent, or refuses to go on and says why"
    SPEED = "the work of one call grows no faster than the number of pieces held"
    ERRORS = "a method raises what its documentation names, and nothing else"


class ContractBrokenError(AssertionError):
    """An allocator broke its contract. ``rule`` is the line."""

    def __init__(self, rule: Rule, detail: str) -> None:
        super().__init__(f"contract broken: {rule.value} [{rule.name}]: {detail}")
        self.rule = rule
        self.detail = detail
        self.operations: tuple[str, ...] = ()
        """What the bench did last, the latest at the end."""

    def __reduce__(self) -> tuple[type[ContractBrokenError], tuple[Rule, str]]:
        return type(self), (self.rule, self.detail)


class DeadlockError(ContractBrokenError):
    """Threads stand still. What they hold stays held, so nothing that they were using can be closed."""


def require(held: bool, rule: Rule, detail: str) -> None:
    """Raise ContractBrokenError unless the rule held."""
    if not held:
        raise ContractBrokenError(rule, detail)


def expect(error: type[Exception], rule: Rule, call: Callable[..., object], *args: object, **kwargs: object) -> None:
    """Require that the call raises ``error``."""
    given = ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())])
    asked = f"{getattr(call, '__name__', call)}({given})"
    try:
        answer = call(*args, **kwargs)
    except error:
        return
    except ContractBrokenError:
        raise
    except Exception as other:
        raise ContractBrokenError(rule, f"{asked} raised {other!r} and not {error.__name__}") from other
    require(False, rule, f"{asked} gave {answer!r} and not {error.__name__}")


def broken_by(error: Exception, rule: Rule = Rule.ERRORS) -> ContractBrokenError:
    """The failure that says which rule an allocator broke when it raised ``error`` where nothing should be raised.

    Running out of memory, and failures of queued work, have rules of their own; ``rule`` is for everything else.
    """
    if isinstance(error, ContractBrokenError):
        return error
    if isinstance(error, OutOfMemoryError):
        return ContractBrokenError(
            Rule.LAST_RESORT if rule is Rule.ERRORS else rule, f"an allocation that has room failed: {error}"
        )
    if isinstance(error, DriverError):
        return ContractBrokenError(
            Rule.CONTENTS, f"queued work on blocks in the program's hands failed, or a call upstream was wrong: {error}"
        )
    return ContractBrokenError(rule, f"{type(error).__name__} was raised: {error}")
