"""Sizes in bytes as people write and read them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _UNITS[_letter] = _UNITS[_letter + "i"] = _UNITS[_letter + "ib"] = 1024**_power
    _UNITS[_letter + "b"] = 1000**_power
_SIZE = re.compile(r"\s*(\d+(?:_\d+)*(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def parse_size(text: str) -> int:
    """The bytes that ``text`` means: ``512``, ``64KiB``, ``2MiB``, ``1.5GiB``; ``K``, ``M``, ``G``, ``T`` are binary
    too, as are ``Ki`` and its kin; ``KB`` and its kin are decimal. Case does not matter. Sizes as PyTorch prints them
    (``23.69 GiB``) are the nearest whole number of bytes.

    Raises:
        ValueError: it is no size, or a fraction of a byte.
    """
    match = _SIZE.fullmatch(text)
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError(f"{text!r} is not a size in bytes; write for example 512, 64KiB, 2MiB or 1.5GiB")
    digits = match[1].replace("_", "")
    nbytes = float(digits) * unit if "." in digits else int(digits) * unit
    if unit == 1 and nbytes != int(nbytes):
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return round(nbytes)


def short_size(nbytes: float) -> str:
    """``nbytes`` for people, short: ``1.50 GiB``, ``512 B``."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if abs(nbytes) >= unit:
            return f"{nbytes / unit:.2f} {name}"
    return f"{nbytes:.0f} B"


def format_size(nbytes: int) -> str:
    """``nbytes`` for people, with the exact figure: ``1.50 GiB (1610612736 bytes)``."""
    return f"{short_size(nbytes)} ({nbytes} bytes)" if abs(nbytes) >= 1024 else f"{nbytes} bytes"
