"""The contract of an allocator, line by line, and the failure that names the line that was broken."""

from __future__ import annotations

import enum
from collections.abc import Callable

__all__ = ["ContractBrokenError", "Rule", "expect", "require"]


class Rule(enum.Enum):
    """What every allocator promises (``cuplug.allocators.base.Allocator``)."""

    ALIGNED = "addresses and rounded sizes are multiples of 512 bytes, and no block is smaller than its request"
    NO_OVERLAP = "no two live blocks overlap, and all lie in memory that upstream gave"
    STREAM_ORDER = "memory freed on one stream is used on another only after the first one's work has passed"
    RECORD_STREAM = "a freed block waits for the streams recorded for it"
    CONTENTS = "nobody but its owner writes into a live block, and queued work finds its memory in place"
    ACCOUNTING = "statistics are exact to the byte"
    MAP = "segments() is the map of what is held, piece by piece"
    LIVE_BLOCKS = "live_blocks() lists what is in the program's hands"
    NOTHING_LOST = "a failed allocation loses nothing: every block and counter is as before"
    LAST_RESORT = "an allocation fails only after waiting blocks were waited for and cached memory was given back"
    HOOK = "on_out_of_memory is asked last, without a lock, and as long as it makes a difference"
    LIMIT = "no more than memory_limit bytes are reserved"
    INVALID_FREE = "a block that is not in the program's hands, or another allocator's, is refused"
    SIZES = "zero bytes give address 0 and count nowhere; a negative size is a ValueError"
    RELEASE = "release gives back what reserve returned, once, when no queued work touches it"
    CLOSE = "close() gives everything back, once, and blocks freed later are ignored"
    ABANDON = "an abandoned allocator calls nothing upstream and its blocks can be dropped"
    STICKY_ERROR = "free() never raises what the device's work did"
    EVENTS = "the events, replayed, give the same live blocks and segments, in order"
    OBSERVERS = "an observer that raises is detached with a warning, and the others go on"
    FORGET_STREAM = "what was cached for a forgotten stream is neither stranded nor unsafe"
    FINALISERS = "free() may run at any moment, also while the same thread is inside the allocator"
    THREADS = "every method may be called from any thread"


class ContractBrokenError(AssertionError):
    """An allocator broke its contract. ``rule`` is the line."""

    def __init__(self, rule: Rule, detail: str) -> None:
        super().__init__(f"contract broken: {rule.value} [{rule.name}]: {detail}")
        self.rule = rule
        self.detail = detail

    def __reduce__(self) -> tuple[type[ContractBrokenError], tuple[Rule, str]]:
        return type(self), (self.rule, self.detail)


def require(held: bool, rule: Rule, detail: str) -> None:
    """Raise ContractBrokenError unless the rule held."""
    if not held:
        raise ContractBrokenError(rule, detail)


def expect(error: type[Exception], rule: Rule, call: Callable[..., object], *args: object, **kwargs: object) -> None:
    """Require that the call raises ``error``."""
    try:
        answer = call(*args, **kwargs)
    except error:
        return
    given = ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())])
    require(False, rule, f"{getattr(call, '__name__', call)}({given}) gave {answer!r} and not {error.__name__}")
