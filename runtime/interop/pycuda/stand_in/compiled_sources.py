"""What ``compiler.compile`` gives in the place of a cubin: the source and how it was compiled, which modules load."""

from __future__ import annotations

import json
from typing import Any

_MARK = b"cuplug source 1\n"


def pack(settings: dict[str, Any]) -> bytes:
    """Bytes that hold the arguments of cuplug's ``SourceModule``."""
    return _MARK + json.dumps(settings).encode()


def unpack(image: bytes) -> dict[str, Any] | None:
    """The arguments that ``pack`` was given; None if the bytes are not from there."""
    if not image.startswith(_MARK):
        return None
    found: dict[str, Any] = json.loads(image[len(_MARK) :])
    return found
