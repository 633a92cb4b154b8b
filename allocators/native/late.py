"""A fence for when an interrupt came while one was made."""

from __future__ import annotations

from ..upstream import Fence, Upstream

__all__ = ["LateFence"]


class LateFence:
    """Is made when it is first asked. It then stands behind more work than it need, which is safe: to do without it,
    because of a Ctrl-C, would not be."""

    def __init__(self, upstream: Upstream, stream: int) -> None:
        self._upstream = upstream
        self._stream = stream
        self._fence: Fence | None = None

    def done(self) -> bool:
        return self._made().done()

    def wait(self) -> None:
        self._made().wait()

    def _made(self) -> Fence:
        if self._fence is None:
            self._fence = self._upstream.fence(self._stream)
        return self._fence
