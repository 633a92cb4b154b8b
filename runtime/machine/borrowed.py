"""Host memory of other libraries that queued copies still use."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


class Borrower:
    """The call that borrows, for as long as it has not queued its copy: a local variable of it."""

    __slots__ = ("__weakref__",)


class Loan:
    """What one copy has borrowed."""

    __slots__ = ("_borrower", "is_done", "owners")

    def __init__(self, owners: list[Any], borrower: Borrower) -> None:
        self.owners = owners
        """What keeps the memory."""
        self._borrower = weakref.ref(borrower)
        self.is_done: Callable[[], bool] | None = None
        """Whether the copy has run (``Event.query``). None also where an interrupt came between queueing the copy and
        marking it: then the loan ends with a later one, or when somebody waits for the stream."""

    @property
    def queued(self) -> bool:
        """Whether the copy is in its stream, or will never be. Nobody may end the loan before."""
        return self._borrower() is None


class BorrowedMemory:
    """What the copies on one device's streams have borrowed.

    A loan begins before its copy is queued and ends once the copy is done, so that an exception at any point can only
    make it last longer. Every change is one operation on a dictionary, which threads may make at the same time and
    which an interrupt cannot split: there is no lock. Owners are let go of outside of all loops over loans, for their
    finalisers may copy too.
    """

    def __init__(self) -> None:
        self._loans: dict[int, dict[Loan, None]] = {}

    def begin(self, stream: int, owners: list[Any], borrower: Borrower) -> Loan:
        """Keep ``owners`` for a copy that is about to be queued on ``stream`` (the key that allocators know it as)."""
        loan = Loan(owners, borrower)
        self._loans.setdefault(stream, {})[loan] = None
        return loan

    def cancel(self, stream: int, loan: Loan) -> None:
        """The copy was refused, and is not queued."""
        self.end({stream: [loan]})

    def end_done(self, stream: int) -> None:
        """End the loans of ``stream`` whose copies are done. Raises what the work did."""
        loans = [loan for loan in list(self._loans.get(stream, ())) if loan.queued]
        done = 0
        for position, loan in enumerate(loans, start=1):
            if loan.is_done is not None:
                if not loan.is_done():
                    break
                done = position  # and with it everything that was queued there before
        self.end({stream: loans[:done]})

    def queued(self, stream: int | None = None) -> dict[int, list[Loan]]:
        """The loans whose copies are queued now, on one stream or on all: to be ended once these were waited for."""
        streams = list(self._loans) if stream is None else [stream]
        return {key: [loan for loan in list(self._loans.get(key, ())) if loan.queued] for key in streams}

    def end(self, loans: dict[int, list[Loan]]) -> None:
        """End loans, by stream: their copies are done, or were never queued. Those that ended already are ignored."""
        for stream, ended in loans.items():
            for loan in ended:
                self._loans[stream].pop(loan, None)
