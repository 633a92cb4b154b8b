"""From Python's objects to a kernel's parameter block."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NoReturn

import numpy as np

from ...machine.buffer import Buffer

_INTEGERS = {("i", 1): "b", ("i", 2): "h", ("i", 4): "i", ("i", 8): "q"}
_INTEGERS |= {("u", size): code.upper() for (_, size), code in _INTEGERS.items()}
_FLOATS = {2: "e", 4: "f", 8: "d"}
_WORDS = {
    "p": "a pointer",
    "i": "a signed integer",
    "u": "an unsigned integer",
    "b": "a bool",
    "f": "a floating-point number",
    "h": "a half",
    "g": "a bfloat16",
    "s": "a structure",
    "?": "a value",
}
Convert = Callable[[Any], Any]
_MOST_USUAL = 4


@dataclass(frozen=True, slots=True)
class AddressForm:
    """How generated code reads the address of objects of one class: in fewer steps than a method takes."""

    expression: str
    """Python for the address of the object that {0} names. Where it raises AttributeError, or calls ``refuse``, the
    object's own way is taken."""
    layout: str = ""
    """The attribute that holds all that decides whether an object fits a parameter: element type, order and device.
    Objects with a layout that has passed before are not looked at again."""


ADDRESS_FORMS: dict[type, AddressForm] = {
    Buffer: AddressForm("{0}._live_address"),
}
"""The forms that are known. Classes of higher floors put theirs here."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel."""

    name: str
    offset: int
    nbytes: int
    kind: str
    """p pointer, i signed, u unsigned, b bool, f floating, h half, g bfloat16, s structure, ? not known."""
    pointee: str = ""
    """For a pointer to numbers, their kind and size in bytes: ``f4``, ``u1``. ``p8`` for one to pointers; ``s12``, as
    far as that is known, for one to structures of 12 bytes. Empty: anything."""

    def __str__(self) -> str:
        return f"{self.name!r}, {_WORDS[self.kind]} of {self.nbytes} bytes"


@dataclass(frozen=True, slots=True)
class Packing:
    """How arguments of certain types become a parameter block."""

    layout: struct.Struct
    converters: tuple[Convert | None, ...] | None
    """One for each argument that ``layout`` does not take as it is."""
    foreign: tuple[int, ...]
    """Places of arrays that may come with a stream of their own."""
    arrays: tuple[int, ...] = ()
    """Places of tensors and arrays, whose elements must be of the parameter's type."""


class Packer:
    """Makes the parameter blocks of one kernel."""

    def __init__(self, kernel: str, parameters: Sequence[Parameter]) -> None:
        self.kernel = kernel
        self.parameters = tuple(parameters)
        self.nbytes = max((parameter.offset + parameter.nbytes for parameter in self.parameters), default=0)
        """The size of the parameter block."""
        self.usual: list[tuple[tuple[type, ...], Packing]] = []
        """The first types that came, as far as they and nothing else settle the packing: for launches made for them."""
        self._packings: dict[tuple[type, ...], Packing] = {}

    def __call__(self, args: tuple[Any, ...]) -> bytes:
        """The parameter block for these arguments.

        Raises:
            TypeError: there are too many or too few, or one is of the wrong kind or size.
            ValueError: a number does not fit into its parameter.
        """
        block = bytearray(self.nbytes)
        self.pack_into(self.packing(args), block, args)
        return bytes(block)

    def packing(self, args: tuple[Any, ...]) -> Packing:
        """How these arguments are packed. Raises TypeError as calling does."""
        return self._packings.get(tuple(map(type, args))) or self._make_packing(args)

    def pack_into(self, packing: Packing, block: Any, args: tuple[Any, ...]) -> None:
        """Write arguments by their packing into a parameter block. Raises ValueError as calling does."""
        try:
            if packing.converters is None:
                packing.layout.pack_into(block, 0, *args)
                return
            packing.layout.pack_into(
                block,
                0,
                *[value if convert is None else convert(value) for value, convert in zip(args, packing.converters)],  # noqa: B905
            )
        except (struct.error, OverflowError, TypeError, ValueError):
            self._explain(args)
            raise
        except _OnHostError as error:
            place = next(place for place, each in enumerate(args) if each is error.value)
            self._refuse(self.parameters[place], error.value, _HOST_MEMORY)

    @staticmethod
    def streams(packing: Packing, args: tuple[Any, ...]) -> list[int]:
        """The streams on which other libraries' arrays among the arguments get their contents."""
        found = []
        for place in packing.foreign:
            stream = args[place].__cuda_array_interface__.get("stream")
            if stream is not None:
                found.append(0 if stream == 1 else stream)
        return found

    def _make_packing(self, args: tuple[Any, ...]) -> Packing:
        expected = len(self.parameters)
        if len(args) != expected:
            names = ", ".join(parameter.name for parameter in self.parameters)
            raise TypeError(f"kernel {self.kernel} takes {expected} arguments ({names}); it got {len(args)}")
        layout, end = "<", 0
        converters: list[Convert | None] = []
        foreign, arrays = [], []
        for place, (parameter, value) in enumerate(zip(self.parameters, args, strict=True)):
            code, convert = self._accept(parameter, value)
            layout += f"{parameter.offset - end}x{code}"
            end = parameter.offset + parameter.nbytes
            converters.append(convert)
            if convert is _address_of_array:
                foreign.append(place)
            if convert in (_address_of_array, _address_of_tensor):
                arrays.append(place)
        converted = tuple(converters) if any(converters) else None
        packing = Packing(struct.Struct(layout), converted, tuple(foreign), tuple(arrays))
        if "s" not in [parameter.kind for parameter in self.parameters]:  # a structure's size is its object's matter
            types = tuple(map(type, args))
            self._packings[types] = packing
            if not foreign and len(self.usual) < _MOST_USUAL:
                self.usual.append((types, packing))
        return packing

    def _accept(self, parameter: Parameter, value: Any) -> tuple[str, Convert | None]:
        kind = parameter.kind if parameter.kind != "?" else _guess(parameter.nbytes, value)
        size = parameter.nbytes
        if kind == "p":
            return "Q", self._pointer(parameter, value)
        if kind == "s":
            return f"{size}s", self._structure(parameter, value)
        if isinstance(value, _CTYPES_NUMBER):
            code, convert = self._accept(parameter, value.value)
            return code, attrgetter("value") if convert is None else lambda number: convert(number.value)
        if isinstance(value, np.generic):
            self._check_scalar(parameter, kind, value)
        elif kind in "iu" and not (isinstance(value, int) or _is_index(value)):
            self._refuse(parameter, value, "pass an int or a NumPy scalar")
        elif kind == "b" and not isinstance(value, int):
            self._refuse(parameter, value, "pass a bool")
        elif kind in "fhg" and (isinstance(value, bool) or not isinstance(value, (int, float))):
            self._refuse(parameter, value, "pass a float or a NumPy scalar")
        if kind == "b":
            return "?", None
        if kind == "g":
            return "H", _bfloat16
        code = _INTEGERS.get((kind, size)) or _FLOATS[size]
        return code, None

    def _check_scalar(self, parameter: Parameter, kind: str, value: np.generic) -> None:
        wanted = {"i": "iu", "u": "iu", "b": "b", "f": "f", "h": "f", "g": "f"}[kind]
        fitting = f"pass numpy.{_NUMPY[kind].format(8 * parameter.nbytes)}(...)"
        if value.dtype.kind not in wanted:
            self._refuse(parameter, value, f"its kind is another; {fitting}")
        if kind in "iub" and value.dtype.itemsize != parameter.nbytes:
            self._refuse(parameter, value, f"it has {value.dtype.itemsize} bytes; {fitting}")

    def _pointer(self, parameter: Parameter, value: Any) -> Convert | None:
        if value is None:
            return lambda _: 0
        if isinstance(value, (bool, np.bool_, float, np.floating, str, bytes, complex)):
            self._refuse(parameter, value, "pass a Buffer, a device array or an address")
        if isinstance(value, np.ndarray):
            self._refuse(parameter, value, _HOST_MEMORY)
        if isinstance(value, np.integer):
            if value.dtype.itemsize != 8:
                self._refuse(parameter, value, f"an address has 8 bytes, and this has {value.dtype.itemsize}")
            return None
        if isinstance(value, Buffer):
            return None
        if hasattr(value, "data_ptr") and hasattr(value, "is_cuda"):  # a tensor, of ours or of PyTorch
            return _address_of_tensor
        if _is_index(value):
            return None
        if hasattr(type(value), "__cuda_array_interface__") or hasattr(value, "__cuda_array_interface__"):
            return _address_of_array
        if hasattr(value, "gpudata"):
            return lambda array: int(array.gpudata)
        if isinstance(value, ctypes.c_void_p):
            return lambda pointer: pointer.value or 0
        if hasattr(value, "__int__"):
            return int
        return self._refuse(parameter, value, "pass a Buffer, a device array or an address")

    def check_array(self, place: int, value: Any, ordinal: int) -> None:
        """Check that a tensor or an array fits its parameter on a device.

        Raises:
            TypeError: its elements are of another type than the pointer's, it is not contiguous, or it is on another
                device, or on none.
        """
        parameter = self.parameters[place]
        instead = "to pass its address all the same, pass .data_ptr()"
        is_tensor = hasattr(value, "data_ptr") and hasattr(value, "is_cuda")
        if is_tensor and not value.is_cuda:
            self._refuse(parameter, value, _HOST_MEMORY)
        found = _elements_of(value, is_tensor=is_tensor)
        if found and parameter.pointee and not same_numbers(parameter.pointee, found):
            wanted = f"a pointer to {_NUMBERS[parameter.pointee[0]]} of {parameter.pointee[1:]} bytes"
            what = f"its elements are {_NUMBERS[found[0]]} of {found[1:]} bytes, and this is {wanted}"
            self._refuse(parameter, value, f"{what}; {instead}")
        if is_tensor and not value.is_contiguous():
            self._refuse(parameter, value, f"it is a view that is not contiguous; pass .contiguous(), or {instead}")
        if is_tensor and value.get_device() != ordinal:
            where = f"it is on device {value.get_device()}, and the launch on device {ordinal}"
            self._refuse(parameter, value, f"{where}; copy it there, or {instead}")

    def _structure(self, parameter: Parameter, value: Any) -> Convert:
        if isinstance(value, (np.ndarray, np.generic)):
            nbytes = value.nbytes
        else:
            try:
                nbytes = memoryview(value).nbytes
            except TypeError:
                self._refuse(parameter, value, "pass a NumPy structured scalar, a ctypes structure or bytes")
        if nbytes != parameter.nbytes:
            fitting = "NumPy lays structures out as C does with numpy.dtype(..., align=True)"
            self._refuse(parameter, value, f"it has {nbytes} bytes ({fitting})")
        return _bytes_of

    def _refuse(self, parameter: Parameter, value: Any, why: str) -> NoReturn:
        what = (
            f"{type(value).__name__} {value!r}" if isinstance(value, (int, float, np.generic)) else type(value).__name__
        )
        place = self.parameters.index(parameter)
        raise TypeError(f"kernel {self.kernel}, parameter {place} ({parameter}) cannot be {what}: {why}")

    def _explain(self, args: tuple[Any, ...]) -> None:
        """Raise for the argument that does not fit: ValueError, or TypeError for a tensor that is no whole number."""
        for place, (parameter, value) in enumerate(zip(self.parameters, args, strict=True)):
            code, convert = self._accept(parameter, value)
            try:
                struct.pack(f"<{code}", value if convert is None else convert(value))
            except (struct.error, OverflowError) as error:
                raise ValueError(
                    f"kernel {self.kernel}, parameter {place} ({parameter}) cannot hold {value!r}: {error}"
                ) from None
            except (TypeError, ValueError) as error:
                if not hasattr(type(value), "__cuda_array_interface__"):
                    raise  # what a program's own ``__index__`` raises
                self._refuse(parameter, value, str(error))


def _guess(nbytes: int, value: Any) -> str:
    """The kind of a parameter of which only the size is known, from what is passed."""
    if isinstance(value, np.generic):
        return {"f": "f", "i": "i", "u": "u", "b": "b"}.get(value.dtype.kind, "s")
    if isinstance(value, bool):
        return "b" if nbytes == 1 else "i"
    if isinstance(value, float):
        return "f" if nbytes in _FLOATS else "s"
    if isinstance(value, int):
        return ("u" if value >= 0 else "i") if nbytes in (1, 2, 4, 8) else "s"
    if isinstance(value, (bytes, bytearray, memoryview, ctypes.Structure, np.ndarray)):
        return "s"
    return "p" if nbytes == 8 else "s"


_CTYPES_NUMBER = (
    *(ctypes.c_bool, ctypes.c_byte, ctypes.c_ubyte, ctypes.c_short, ctypes.c_ushort, ctypes.c_int, ctypes.c_uint),
    *(ctypes.c_long, ctypes.c_ulong, ctypes.c_longlong, ctypes.c_ulonglong, ctypes.c_float, ctypes.c_double),
)


_NUMPY = {"i": "int{}", "u": "uint{}", "b": "bool_", "f": "float{}", "h": "float16", "g": "float32"}
_NUMBERS = {
    "p": "pointers",
    "i": "signed integers",
    "u": "unsigned integers",
    "b": "bools",
    "f": "floating-point numbers",
    "h": "halves",
    "g": "bfloat16 numbers",
}
_OF_NAMES = {
    **{f"{name}{8 * size}": f"{name[0]}{size}" for name in ("int", "uint") for size in (1, 2, 4, 8)},
    "bool": "b1",
    "float16": "h2",
    "bfloat16": "g2",
    "float32": "f4",
    "float64": "f8",
}


def _elements_of(value: Any, *, is_tensor: bool) -> str:
    """Kind and size of the elements as ``Parameter.pointee`` has them; empty if that cannot be told."""
    if is_tensor:
        return _OF_NAMES.get(str(value.dtype).rpartition(".")[2], "")
    typestr = str(value.__cuda_array_interface__["typestr"])[1:]
    typestr = {"f2": "h2", "u1": ""}.get(typestr, typestr)  # what has no type calls itself bytes
    return typestr if typestr[:1] in _NUMBERS else ""


def same_numbers(wanted: str, found: str) -> bool:
    """Whether memory of one kind of numbers may be meant as another: signed or not is all one, as is byte or bool.
    Structures may be made of any numbers, and integers may be addresses."""
    if wanted[0] == "s":
        return True
    integers = "iub" if wanted[1:] == "1" else "iup"
    return wanted == found or (wanted[1:] == found[1:] and wanted[0] in integers and found[0] in integers)


def _is_index(value: Any) -> bool:
    return hasattr(type(value), "__index__") and not isinstance(value, np.ndarray)


_HOST_MEMORY = "that is host memory; copy it to the device and pass the device array"


class _OnHostError(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


def _address_of_tensor(value: Any) -> int:
    if not value.is_cuda:
        raise _OnHostError(value)
    address: int = value.data_ptr()
    return address


def _address_of_array(value: Any) -> int:
    address: int = value.__cuda_array_interface__["data"][0]
    return address


def _bytes_of(value: Any) -> bytes:
    return value.tobytes() if isinstance(value, (np.ndarray, np.generic)) else bytes(memoryview(value).cast("B"))


def _bfloat16(value: float) -> int:
    bits = int(np.float32(value).view(np.uint32))
    if math.isnan(value):
        return 0x7FFF
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF
