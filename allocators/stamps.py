"""Tells whether the work that was queued on a stream before a free has passed, with few fences for many frees."""

from __future__ import annotations

from .private_streams import names_pool
from .upstream import Fence, Upstream


class Stamps:
    """Numbers the frees on one stream in groups. One fence tells of a whole group, and at most one is on its way."""

    def __init__(self, upstream: Upstream, stream: int) -> None:
        self.now = 1
        """The number that frees get at present."""
        self.passed = 0
        """The work queued before every free of this number or a lower one has passed."""
        self.unfenced = 0
        """Bytes freed since the latest fence was made."""
        self.of_pool = names_pool(stream)
        """Whether the stream is a private pool."""
        self._upstream = upstream
        self._stream = stream
        self._fence: Fence | None = None  # of the group before ``now``
        self.forgotten = False
        """Whether the stream has been destroyed."""

    def freed(self, nbytes: int) -> int:
        """Number a free."""
        self.unfenced += nbytes
        return self.now

    def poll(self, least: int) -> None:
        """Look after the fence; make one if ``least`` bytes or more have been freed since the last. Never blocks."""
        if self._fence is not None and self._fence.done():
            self._has_passed()
        if self._fence is None and self.unfenced >= least:
            self._make_fence()

    def wait(self, stamp: int) -> None:
        """Block until the work before the frees numbered ``stamp`` has passed.

        Raises:
            DriverError: the device is in a sticky error state.
        """
        while self.passed < stamp:
            if self._fence is None:
                self._make_fence()
            if self._fence is not None:
                self._fence.wait()
                self._has_passed()

    def forget(self) -> None:
        """The stream is about to be destroyed. Blocks of it that are freed later have been waited for."""
        if not self.forgotten:
            if self._fence is not None or self.passed < self.now:
                self._fence = self._upstream.fence(self._stream)
                self.now += 1
            self.forgotten = True  # the last step: broken off before, this is done again

    def drop(self) -> None:
        """Let go of the fence: nothing asks any more."""
        self._fence = None

    def _make_fence(self) -> None:
        if self.forgotten:
            self.passed = self.now  # everything was fenced when the stream was destroyed
            self.unfenced = 0
            return
        self._fence = self._upstream.fence(self._stream)
        self.now += 1
        self.unfenced = 0

    def _has_passed(self) -> None:
        self._fence = None
        self.passed = self.now - 1
