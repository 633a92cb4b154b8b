"""``device``: the name of a place where tensors live."""

from __future__ import annotations

import threading
from typing import Any

from ...allocators.errors import CuplugError


class DeviceNameError(CuplugError, ValueError):
    """What was given names no device."""


_TORCHS_OTHER_TYPES = ("hpu", "meta", "mps", "mtia", "vulkan", "xla", "xpu")
"""Types of devices that torch knows beside these."""


class device:  # noqa: N801 - torch's name
    """``device('cpu')``, ``device('cuda')`` (whatever CUDA device is current), ``device('cuda:1')``,
    ``device('cuda', 1)``, ``device(1)`` (a CUDA device by its ordinal).

    It only names: neither a driver nor a device is touched. As a context manager it is the device on which
    factories place what names no device of its own, in this thread.

    Raises:
        ValueError: the text names no device.
    """

    __slots__ = ("index", "type")
    type: str
    index: int | None

    def __new__(  # noqa: PYI034 - there is one object of each name
        cls,
        type: str | int | device,  # noqa: A002 - torch's name
        index: int | None = None,
    ) -> device:
        if isinstance(type, device):
            if index is not None:
                raise TypeError(f"{type!r} is a device already; {index!r} can be no other index of it")
            return type
        found = _known.get((type, index))
        return found if found is not None and not isinstance(type, float) else cls._make(type, index)

    @classmethod
    def _make(cls, kind: str | int, index: int | None) -> device:
        asked = f"device({kind!r})" if index is None else f"device({kind!r}, {index!r})"
        given = kind, index
        if isinstance(kind, int) and not isinstance(kind, bool) and index is None:
            index, kind = kind, "cuda"
        if not isinstance(kind, str):
            raise TypeError(f"{asked}: a device is named by text such as 'cpu' or 'cuda:1', or by a CUDA ordinal")
        name, colon, number = kind.partition(":")
        if colon:
            if index is not None or not number.isdecimal():
                raise DeviceNameError(f"{asked} names no device; write 'cpu', 'cuda', 'cuda:1' or device('cuda', 1)")
            index = int(number)
        if name not in ("cpu", "cuda"):
            absent = f"{name} is not part of cuplug: " if name in _TORCHS_OTHER_TYPES else ""
            raise DeviceNameError(f"{asked}: {absent}there are devices of the types 'cpu' and 'cuda' only")
        if index is not None and not isinstance(index, int):
            raise TypeError(f"{asked}: a device's index is an integer")
        if index is not None and index < 0:
            raise DeviceNameError(f"{asked}: a device's index is 0 or more")
        found = _known.get((name, index))
        if found is None:
            found = object.__new__(cls)
            object.__setattr__(found, "type", name)
            object.__setattr__(found, "index", index)
            found = _known.setdefault((name, index), found)
        if len(_known) < 1024:
            _known[given] = found
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a device cannot be changed; name another one")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device(type={self.type!r}" + ("" if self.index is None else f", index={self.index}") + ")"

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.type, self.index)

    def __enter__(self) -> device:  # noqa: PYI034 - there is no other class of devices
        _chosen.stack.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _chosen.stack.pop()


class _Chosen(threading.local):
    def __init__(self) -> None:
        self.stack: list[device] = []
        self.default: device | None = None


_known: dict[tuple[str | int, int | None], device] = {}
_chosen = _Chosen()
CPU = device("cpu")


def current_factory_device() -> device:
    """Where factories place what names no device: the innermost ``with device(...)``, else the device of
    ``set_default_device``, else the CPU."""
    stack = _chosen.stack
    return stack[-1] if stack else _chosen.default or CPU


_as_device = device


def set_default_device(device: Any) -> None:
    """Let factories of this thread place what names no device on ``device``; None: on the CPU.

    Raises:
        ValueError: ``device`` names no device.
    """
    _chosen.default = None if device is None else _as_device(device)
