"""Copies of one device's memory on a stream of their own, beside the program's, for what sleeps and what moves."""

from __future__ import annotations

from ..machine.runtime import Runtime
from ..streams.stream import Stream


class SideCopies:
    """Queues copies, which may be waited for together. Errors are those of ``Driver``'s calls."""

    def __init__(self, runtime: Runtime, ordinal: int) -> None:
        self.runtime = runtime
        self.ordinal = ordinal
        self.stream = Stream(ordinal, runtime=runtime)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        """Queue a copy from one address of the device to another."""
        with self.runtime.on_device(self.ordinal):
            self.runtime.driver.memcpy_dtod(to, source, nbytes, stream=self.stream.cuda_stream)

    def save(self, host: int, source: int, nbytes: int) -> None:
        """Queue a copy to an address of the host."""
        with self.runtime.on_device(self.ordinal):
            self.runtime.driver.memcpy_dtoh(host, source, nbytes, stream=self.stream.cuda_stream)

    def restore(self, to: int, host: int, nbytes: int) -> None:
        """Queue the way back."""
        with self.runtime.on_device(self.ordinal):
            self.runtime.driver.memcpy_htod(to, host, nbytes, stream=self.stream.cuda_stream)

    def wait(self) -> None:
        """Block until all that was queued is done."""
        self.stream.synchronize()
