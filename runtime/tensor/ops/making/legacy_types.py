"""The constructors of old programs: ``FloatTensor(2, 3)``, ``cuda.FloatTensor([1, 2])``, ``x.new(...)``."""

from __future__ import annotations

from typing import Any

from ....machine.device_name import device as torch_device
from ...core.dtypes import LEGACY_NAMES, dtype, get_default_dtype
from ...core.shapes import Size, shape_of
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError
from .creation import empty
from .from_values import tensor

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
]


class LegacyType:
    """A pair of an element type and a kind of device that, called, makes tensors as old programs do.

    ``FloatTensor()`` is empty, ``FloatTensor(2, 3)`` and ``FloatTensor(size)`` have that shape, uninitialised, and
    ``FloatTensor([1, 2])`` has these elements. On a CUDA device it is the current one.
    """

    def __init__(self, name: str, kind: dtype, device: str) -> None:
        self.__name__ = name
        self.dtype = kind
        self.device = device

    def __call__(self, *args: Any, device: Any = None) -> Tensor:
        if device is not None and torch_device(device).type != self.device:
            raise ArgumentError(f"{self!r} makes tensors on {self.device}, not on {device}")
        return legacy_tensor(self.dtype, self.device if device is None else device, args)

    def __instancecheck__(self, thing: Any) -> bool:
        return getattr(thing, "dtype", None) is self.dtype and thing.device.type == self.device

    def __repr__(self) -> str:
        return f"<legacy tensor type {'cuda.' if self.device == 'cuda' else ''}{self.__name__}>"


LEGACY = {
    device: {name: LegacyType(name, kind, device) for name, kind in LEGACY_NAMES.items()} for device in ("cpu", "cuda")
}
"""The legacy types by kind of device and name."""


BFloat16Tensor = LEGACY["cpu"]["BFloat16Tensor"]
BoolTensor = LEGACY["cpu"]["BoolTensor"]
ByteTensor = LEGACY["cpu"]["ByteTensor"]
CharTensor = LEGACY["cpu"]["CharTensor"]
DoubleTensor = LEGACY["cpu"]["DoubleTensor"]
FloatTensor = LEGACY["cpu"]["FloatTensor"]
HalfTensor = LEGACY["cpu"]["HalfTensor"]
IntTensor = LEGACY["cpu"]["IntTensor"]
LongTensor = LEGACY["cpu"]["LongTensor"]
ShortTensor = LEGACY["cpu"]["ShortTensor"]


def legacy_tensor(kind: dtype, device: Any, args: tuple[Any, ...]) -> Tensor:
    """A tensor as the legacy constructors make it: from lengths, from a ``Size``, from values, or empty.

    Raises:
        TypeError: the arguments are none of these.
    """
    if not args:
        return empty(0, dtype=kind, device=device)
    if isinstance(args[0], Size) and len(args) == 1:
        return empty(args[0], dtype=kind, device=device)
    if len(args) == 1 and (isinstance(args[0], Tensor) or hasattr(args[0], "__len__")):
        return tensor(args[0], dtype=kind, device=device)
    return empty(shape_of(args), dtype=kind, device=device)


def legacy_name(tensor: Tensor) -> str:
    """The name that torch gives the tensor's type and device, with ``torch`` in front as programs compare it."""
    name = next(name for name, kind in LEGACY_NAMES.items() if kind is tensor.dtype)
    return f"torch.cuda.{name}" if tensor.is_cuda else f"torch.{name}"


def named_type(name: str) -> LegacyType:
    """The legacy type of a name such as ``torch.cuda.FloatTensor``.

    Raises:
        ValueError: there is none.
    """
    *prefix, last = name.split(".")
    if last == "Tensor":
        last = next(each for each, kind in LEGACY_NAMES.items() if kind is get_default_dtype())
    where = ".".join(prefix)
    if last not in LEGACY_NAMES or where not in ("torch", "torch.cuda", "cuplug", "cuplug.cuda", "cuda", ""):
        raise ValueError(f"no type {name!r}; there are for example 'torch.FloatTensor' and 'torch.cuda.LongTensor'")
    return LEGACY["cuda" if "cuda" in prefix else "cpu"][last]
