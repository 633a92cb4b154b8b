"""How much of the host's memory a history needs beside a device that is too small for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...allocators.sizes import short_size
from .one_replay import Work, run

_WITHOUT_END = "1TiB"
_GIB, _MIB = 1 << 30, 1 << 20
_FINE = 8 * _GIB
"""Up to so many bytes of the host they are given in steps of 64 MiB, else of 1 GiB."""


@dataclass(frozen=True, slots=True)
class OnHost:
    """What came of replaying a history on ``expandable`` with memory of the host. Sizes are bytes."""

    trace: str
    device: int
    memory: int
    """The device's."""
    host: int
    """The most that lay on the host at once."""
    allocator: str
    """The selection that completes; empty where none does."""
    failure: str = ""
    """Why none does."""
    devices: int = 1
    """How many histories of devices it is for: ``host`` is of all of them together, ``memory`` of each."""

    def sentence(self) -> str:
        """It for people."""
        on = short_size(self.memory)
        if self.devices > 1 and self.host and not self.failure:
            each = f"it fits on {on} each: {self.allocator}"
            return f"With {short_size(self.host)} on the host for all {self.devices} together, {each}."
        if self.failure:
            return f"It does not fit on {on}, however much of the host's memory there is: {self.failure}"
        if not self.host:
            return f"It fits on {on} without memory of the host: {self.allocator}."
        return (
            f"With {short_size(self.host)} on the host it fits on {on}: {self.allocator}. What lies there is reached "
            "at the speed of the bus, some 50 GB/s over PCIe 5."
        )


def fit_on_host(trace: str, memory: int, device: int) -> OnHost:
    """Replay one device's history on ``memory`` bytes, with as much of the host's as it takes, and then with that.

    Raises:
        TraceError, UsageError, PluginError: as ``one_replay.run``.
    """

    def tried(allocator: str) -> tuple[int, str]:
        result = run(Work(trace, allocator, memory, stop_at_failure=True, device=device)).result
        return result.peak_host_bytes, result.failure

    host, failure = tried(f"expandable:host={_WITHOUT_END}")
    if failure:
        return OnHost(trace, device, memory, host, "", failure)
    if not host:
        return OnHost(trace, device, memory, 0, "expandable")
    for wanted in (host, host + host // 8, host + host // 2, 2 * host):  # what is kept for the next time depends on it
        allocator = f"expandable:host={_rounded(wanted)}"
        lay, failure = tried(allocator)
        if not failure:
            return OnHost(trace, device, memory, lay, allocator)
    return OnHost(trace, device, memory, host, f"expandable:host={_WITHOUT_END}")


def all_on_host(found: list[OnHost]) -> OnHost:
    """What came of several devices' histories, of one process or several, on devices of one size, as a whole."""
    worst = max(found, key=lambda one: (bool(one.failure), one.host))
    return replace(worst, host=sum(one.host for one in found), devices=len(found))


def _rounded(nbytes: int) -> str:
    if nbytes > _FINE:
        return f"{-(-nbytes // _GIB)}GiB"
    return f"{-(-nbytes // (64 * _MIB)) * 64}MiB"
