"""What an allocator knows of a call that it is serving, while it makes room in one way after another."""

from __future__ import annotations

from dataclasses import dataclass, field

from .block import Block
from .tags import UNTAGGED

__all__ = ["Request"]

_MOST_HOOK_CALLS = 64


@dataclass(eq=False)
class Request:
    """One call of ``Allocator.allocate`` or ``wake``, from its beginning to its end."""

    nbytes: int
    stream: int
    tag: int = UNTAGGED
    """What is to wake, if that is what was asked for; ``nbytes`` is then how much it takes."""
    context: int = field(default=0, init=False)
    block: Block | None = field(default=None, init=False)
    """What was found, once it is."""
    available: int = field(default=0, init=False)
    """Bytes that the device has free or the allocator holds unused, after the latest attempt."""
    failure: str = field(default="", init=False)
    _asked: int = field(default=0, init=False)
    _most_available: int = field(default=-1, init=False)

    def may_ask(self) -> bool:
        """Whether to call the hook (again): its last answer has to have made more memory available than ever."""
        may = self.available > self._most_available and self._asked < _MOST_HOOK_CALLS
        self._asked += 1
        self._most_available = max(self._most_available, self.available)
        return may
