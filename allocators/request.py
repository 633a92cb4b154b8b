"""What an allocator knows of a call that it is serving, while it makes room in one way after another."""

from __future__ import annotations

from dataclasses import dataclass

from .block import Block
from .tags import UNTAGGED

__all__ = ["Request"]

_MOST_HOOK_CALLS = 64


@dataclass(slots=True, eq=False)
class Request:
    """One call of ``Allocator.allocate`` or ``wake``, from its beginning to its end."""

    nbytes: int
    stream: int
    context: int = 0
    block: Block | None = None
    """What was found, once it is."""
    available: int = 0
    """Bytes that the device has free or the allocator holds unused, after the latest attempt."""
    failure: str = ""
    tag: int = UNTAGGED
    """What is to wake, if that is what was asked for; ``nbytes`` is then how much it takes."""
    _asked: int = 0
    _most_available: int = -1

    def may_ask(self) -> bool:
        """Whether to call the hook (again): its last answer has to have made more memory available than ever."""
        may = self.available > self._most_available and self._asked < _MOST_HOOK_CALLS
        self._asked += 1
        self._most_available = max(self._most_available, self.available)
        return may
