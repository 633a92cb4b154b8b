"""Integers that stand for objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from ..base import driver_error

T = TypeVar("T")


class HandleTable(Generic[T]):
    """The handles of one kind of thing. The one given back last is given out first, as pointers often are.

    ``objects`` is the truth: a handle exists when it is a key there. The list of handles to give out again is only a
    hint, checked against it, so that an interrupted call leaves nothing to mend.
    """

    def __init__(self, what: str, first: int) -> None:
        """Handles from ``first`` on. ``what`` names the kind of thing in errors."""
        self.objects: dict[int, T] = {}
        """What each handle stands for."""
        self._what = what
        self._next = first
        self._given_back: list[int] = []

    def __len__(self) -> int:
        return len(self.objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self.objects.values())

    def unused(self) -> int:
        """The handle that the next object gets. It is taken by entering the object in ``objects``."""
        while self._given_back:
            if self._given_back[-1] not in self.objects:
                return self._given_back[-1]
            self._given_back.pop()
        while self._next in self.objects:
            self._next += 16
        return self._next

    def get(self, handle: int) -> T:
        """What the handle stands for.

        Raises:
            DriverError: ``CUDA_ERROR_INVALID_HANDLE``.
        """
        try:
            return self.objects[handle]
        except KeyError:
            raise driver_error(400, f"{handle:#x} is no {self._what}, or was destroyed") from None

    def remove(self, handle: int, thing: T) -> bool:
        """Take the handle back, if it still stands for ``thing``. Whether it did."""
        if self.objects.get(handle) is not thing:
            return False
        self._given_back.append(handle)
        del self.objects[handle]
        return True
