"""Writes columns of numbers as lines of text, for many rows at once: with NumPy, where a loop would take minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

_Bytes: TypeAlias = "npt.NDArray[np.uint8]"
_LONG = 64
"""Texts of more bytes than this are put in row by row."""


@dataclass(frozen=True)
class Digits:
    """Numbers, of which each is written in so many digits, with zeros before it."""

    numbers: npt.NDArray[Any]
    count: int


@dataclass(frozen=True)
class Texts:
    """One of a few texts for each row, by its place in them."""

    places: npt.NDArray[np.int64]
    texts: Sequence[bytes]


Part: TypeAlias = "bytes | npt.NDArray[Any] | Digits | Texts"
"""What stands in every row: the same bytes, a whole number, or one of some texts. Long texts only come last."""


def lines(parts: Sequence[Part], count: int) -> bytes:
    """``count`` rows, each made of the parts, one behind the other. A line's end is a part's, too.

    ``Texts`` that are longer than some dozen bytes stand for themselves at the end of ``parts``.
    """
    if not count:
        return b""
    last = parts[-1]
    if isinstance(last, Texts) and max(map(len, last.texts)) > _LONG:
        heads = lines([*parts[:-1], b"\n"], count).split(b"\n")  # no part before the last holds a line's end
        tails = [last.texts[place] for place in last.places.tolist()]
        return b"".join([piece for pair in zip(heads, tails, strict=False) for piece in pair])
    columns = [_column(part, count) for part in parts]
    written = np.concatenate([text for text, _ in columns], axis=1)
    kept = np.concatenate([mask for _, mask in columns], axis=1)
    return bytes(written[kept].tobytes())


def _column(part: Part, count: int) -> tuple[_Bytes, npt.NDArray[np.bool_]]:
    """The bytes of a part in each row, side by side, and which of them are written."""
    if isinstance(part, bytes):
        text = np.broadcast_to(np.frombuffer(part, np.uint8), (count, len(part)))
        return text, np.broadcast_to(np.True_, text.shape)
    if isinstance(part, Texts):
        width = max(map(len, part.texts))
        table = np.frombuffer(b"".join(text.ljust(width) for text in part.texts), np.uint8).reshape(-1, width)
        lengths = np.array([len(text) for text in part.texts])
        return table[part.places], np.arange(width) < lengths[part.places][:, None]
    if isinstance(part, Digits):
        digits = _digits(part.numbers, part.count)
        return digits, np.broadcast_to(np.True_, digits.shape)
    negative = part < 0
    size = np.abs(part)
    width = len(str(int(size.max())))
    digits = _digits(size, width)
    shown = np.cumsum(digits != ord("0"), axis=1, dtype=np.uint8) > 0
    shown[:, -1] = True
    if not negative.any():
        return digits, shown
    sign = np.full((count, 1), ord("-"), np.uint8)
    return np.concatenate([sign, digits], axis=1), np.concatenate([negative[:, None], shown], axis=1)


def _digits(numbers: npt.NDArray[Any], width: int) -> _Bytes:
    text: _Bytes = np.empty((width, len(numbers)), np.uint8)
    rest = numbers.astype(np.uint64)
    for place in range(width - 1, -1, -1):
        if rest.dtype != np.uint32 and place + 1 <= 9:
            rest = rest.astype(np.uint32)  # dividing these is far quicker
        whole = rest // rest.dtype.type(10)
        text[place] = rest - whole * rest.dtype.type(10)
        rest = whole
    upright: _Bytes = text.T + np.uint8(ord("0"))
    return upright
