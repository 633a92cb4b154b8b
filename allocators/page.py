"""A physical page, and the addresses at which it is still mapped after it has moved away.

A page may be mapped at several addresses at once. What is written through one of them is seen through the others by
work that begins after the write has ended (CUDA Programming Guide, "Virtual Aliasing Support"). So a page that moves
may stay mapped where it stood, and come back without a call of the driver. It serves one address at a time.
"""

from __future__ import annotations

from .stamps import Stamps


class Page:
    """Physical memory behind one handle, serving one address or, while it is on its way, none."""

    __slots__ = (
        "address", "aliases", "freed", "handle", "host", "maps", "nbytes", "released", "retired",
        "stream", "told",
    )  # fmt: skip

    def __init__(self, nbytes: int, *, host: bool = False) -> None:
        self.host = host
        """Whether it is memory of the host."""
        self.handle = 0
        """0 until it has been created."""
        self.released = False
        """Whether the driver has dropped the handle."""
        self.nbytes = nbytes
        self.address = 0
        """Where it serves; 0 for nowhere."""
        self.maps: dict[int, bool] = {}
        """Whether the driver has mapped it there, for each address where it is or is to be."""
        self.aliases: dict[int, Alias] = {}
        """Where it is mapped besides, by address, the longest out of use first."""
        self.freed: tuple[Stamps, int] | None = None
        """When what it held before its latest move was last freed; None where that has been waited for."""
        self.stream = 0
        """The stream for which it is mapped."""
        self.told = 0
        """The address at which the observers know it to be mapped; 0 for nowhere."""
        self.retired = False
        """Whether it is to be unmapped and released, whatever stands behind its addresses later."""

    @property
    def mapped(self) -> bool:
        """Whether the driver has mapped it where it serves."""
        return self.maps.get(self.address, False)


class Alias:
    """An address at which a page is mapped that serves elsewhere."""

    __slots__ = ("address", "page", "stamp", "stamps")

    def __init__(self, page: Page, address: int, stamps: Stamps | None, stamp: int) -> None:
        self.page = page
        self.address = address
        self.stamps = stamps
        self.stamp = stamp
        """When what lay there was last freed. None for ``stamps``: no queued work touches it."""

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.address + self.page.nbytes

    def wait(self) -> None:
        """Block until no queued work touches it.

        Raises:
            DriverError: the device is in a sticky error state.
        """
        if self.stamps is not None:
            self.stamps.wait(self.stamp)
