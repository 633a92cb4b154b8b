"""Brings the events of the native core to the observers in Python."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ..observation import Observation


class Delivery(Observation):
    """As ``Observation``, of events that the core keeps: they are taken from it in batches."""

    def __init__(self, move: Callable[[deque[Any]], int]) -> None:
        """``move`` appends the core's oldest events to a queue, and answers how many."""
        super().__init__()
        self._move = move
        self._asked = False  # whether there may be events that nobody has taken yet

    def deliver(self) -> None:
        """Call the observers with every event up to now, unless somebody is at it already: then they will do it."""
        self._asked = True
        while self._asked and not self.delivering.is_mine():
            if not self.delivering.run_if_free(self._deliver_all):
                return

    def _deliver_all(self) -> None:
        super()._deliver_all()  # what an interrupted delivery has left
        while self._asked:
            self._asked = False
            while self._move(self.outbox):
                super()._deliver_all()
