"""``ExceptionWrapper``: an exception and its traceback as text, which another process or thread raises again."""

from __future__ import annotations

import sys
import traceback
from typing import Any, NoReturn

__all__ = ["ExceptionWrapper"]


class ExceptionWrapper:
    """What was raised, without the frames and what they hold: it can be pickled."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        """Hold what ``sys.exc_info()`` tells, or what it told, and say where that was."""
        raised: Any = sys.exc_info() if exc_info is None else exc_info
        kind, error, frames = raised
        self.exc_type: type[BaseException] = kind
        self.exc_msg = "".join(traceback.format_exception(kind, error, frames))
        self.where = where

    def reraise(self) -> NoReturn:
        """Raise an exception of that type whose text has the traceback; RuntimeError where it wants other arguments."""
        raise self._again()  # no name here: the frame would keep the exception, which keeps the frame

    def _again(self) -> BaseException:
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        try:
            return self.exc_type(_Shown(text) if self.exc_type is KeyError else text)
        except Exception:
            return RuntimeError(text)


class _Shown(str):
    """The text of a KeyError, which shows ``repr`` of its argument: lines stay lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
