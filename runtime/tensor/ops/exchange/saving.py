"""Tensors in files: ``save`` writes PyTorch's format, ``load`` reads it and safetensors' without running any code.

A file of PyTorch's is a zip archive: ``data.pkl``, a pickle in which tensors refer to storages by name, and the bytes
of each storage beside it. What a pickle may name is a short list here; anything else is refused.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ....machine.device_name import device
from ...backends.on_host.host_place import HOST
from ...core.dtypes import ALL, UNSIGNED, dtype, uint8
from ...core.layout import Layout
from ...core.shapes import Size
from ...core.storage import ArrayStorage, Storage
from ...core.tensor import Tensor, make_tensor
from ...core.tensor_errors import ArgumentError
from ...places.place import place_at
from ...places.registry import place_of
from ..copying.copying import copied_to, detach

__all__ = ["load", "save"]

_STORAGES = {
    "float64": "DoubleStorage",
    "float32": "FloatStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int16": "ShortStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
}
"""By element types, what PyTorch's files call a storage of them. Others are untyped."""
_KINDS = {each.name: each for each in (*ALL, *UNSIGNED)}


class _Named:
    """Stands for something of PyTorch's that a pickle names."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


_REBUILD = _Named("torch._utils", "_rebuild_tensor_v2")


def save(obj: Any, f: Any, *, _use_new_zipfile_serialization: bool = True) -> None:
    """Write tensors, arrays of NumPy's and modules, and containers of them and of numbers and text, to a file.

    Tensors that share memory do so again when they are loaded. PyTorch reads files without modules. Of a module,
    as of any other object, the file names the class and holds the attributes.

    Args:
        obj: what to write.
        f: a path, or a file that is open for writing bytes.
        _use_new_zipfile_serialization: True: there is no other form of file.

    Raises:
        PicklingError, AttributeError or TypeError: something in ``obj`` cannot be written, such as a lambda.
        ValueError: the form of file before PyTorch 1.6 is asked for.
    """
    if not _use_new_zipfile_serialization:
        raise ArgumentError("save: the form of file before PyTorch 1.6 is not part of cuplug")
    storages: dict[int, tuple[str, Storage]] = {}
    pickled = io.BytesIO()
    _Writer(pickled, storages).dump(obj)
    with zipfile.ZipFile(f if hasattr(f, "write") else os.fspath(f), "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", pickled.getvalue())
        archive.writestr("archive/byteorder", sys.byteorder)
        for name, storage in storages.values():
            archive.writestr(f"archive/data/{name}", _bytes_of(storage))
        archive.writestr("archive/version", "3\n")


def _bytes_of(storage: Storage) -> bytes:
    flat = make_tensor(storage, 0, Layout.of(storage.place, uint8, (storage.length,)))
    return place_at(flat._layout).read(flat).tobytes()


_InPython: Any = pickle._Pickler
"""The pickler that is written in Python: names can be written by it of what is not installed."""


class _Writer(_InPython):  # type: ignore[misc]
    """Pickles what ``save`` takes, as PyTorch does."""

    def __init__(self, file: Any, storages: dict[int, tuple[str, Storage]]) -> None:
        super().__init__(file, protocol=2)
        self._storages = storages

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, _Stored):
            return None
        name, _ = self._storages.setdefault(id(obj.storage), (str(len(self._storages)), obj.storage))
        kind = _Named("torch", _STORAGES.get(obj.kind.name, "")) if obj.kind.name in _STORAGES else _UNTYPED
        count = obj.storage.length // (obj.kind.itemsize if kind is not _UNTYPED else 1)
        return ("storage", kind, name, str(obj.storage.place.device), count)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            if type(obj).__name__ == "Parameter":
                return _Reduced(_REBUILD_PARAMETER), (detach(obj), obj.requires_grad, OrderedDict())
            layout = obj._layout
            stored = _Stored(obj._storage, layout.dtype)
            rest: tuple[Any, ...] = (obj._offset, tuple(layout.shape), tuple(layout.strides), False, OrderedDict())
            if layout.dtype.name in _STORAGES:
                return _Reduced(_REBUILD), (stored, *rest)
            return _Reduced(_REBUILD_3), (stored, *rest, layout.dtype)
        if isinstance(obj, Size):
            return _Reduced(_Named("torch", "Size")), (tuple(obj),)
        if isinstance(obj, device):
            return _Reduced(_Named("torch", "device")), (obj.type,) if obj.index is None else (obj.type, obj.index)
        if type(obj) is np.ndarray and obj.dtype.kind in _KINDS_OF_ARRAYS:
            return _Reduced(_ARRAY), (obj.shape, obj.dtype.str, bytearray(obj.tobytes()))
        if isinstance(obj, np.generic) and obj.dtype.name in _SCALARS:
            return _Reduced(_Named("numpy", obj.dtype.name)), (obj.item(),)
        return NotImplemented

    def save(self, obj: Any, save_persistent_id: bool = True) -> Any:
        if isinstance(obj, _Reduced):
            obj = obj.named
        if isinstance(obj, dtype):
            obj = _Named("torch", obj.name)
        if isinstance(obj, _Named):
            self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
            return None
        return super().save(obj, save_persistent_id)


class _Stored:
    """A storage as a tensor of a type refers to it."""

    def __init__(self, storage: Storage, kind: dtype) -> None:
        self.storage, self.kind = storage, kind


class _Reduced:
    """A named function, callable since ``pickle`` wants what it writes to be."""

    def __init__(self, named: _Named) -> None:
        self.named = named

    def __call__(self, *_: Any) -> None:
        raise AssertionError("only its name is written")


_UNTYPED = _Named("torch.storage", "UntypedStorage")
_REBUILD_3 = _Named("torch._utils", "_rebuild_tensor_v3")
_REBUILD_PARAMETER = _Named("torch._utils", "_rebuild_parameter")
_ARRAY = _Named("numpy", "ndarray")
_KINDS_OF_ARRAYS = "biufcmMSU"
"""Of NumPy's arrays, those without objects."""
_SCALARS = frozenset(each.name for each in (*ALL, *UNSIGNED)) - {"bfloat16"}


# --- reading


def load(f: Any, map_location: Any = None, *, weights_only: bool | None = None) -> Any:
    """Read what ``save`` or PyTorch's ``torch.save`` wrote, or a file of safetensors.

    No code of the file runs: it may name tensors, containers, arrays of NumPy's, modules of cuplug's and of the
    program, if their classes are imported already, and what the program named by ``serialization.add_safe_globals``.

    Args:
        f: a path, or a file that is open for reading bytes.
        map_location: where tensors go: a device, its text, a dictionary from one text to another, or a function of a
            storage and the text where it was, which returns the storage itself for the CPU or a device; None: where
            they were.
        weights_only: as torch's. Either way a file is read as said above.

    Raises:
        ValueError: the file is none of these, or is cut off.
        TypeError: it names something else.
        CuplugError: it names a device that is not there.
    """
    del weights_only
    if not hasattr(f, "read"):
        with open(os.fspath(f), "rb") as file:
            return load(file, map_location)
    content = f.read()
    where = _locations(map_location)
    if content[:2] == b"PK":
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                return _from_archive(archive, where)
        except (zipfile.BadZipFile, KeyError, EOFError, struct.error) as error:
            raise ArgumentError(f"load: the file is cut off or damaged: {error}") from None
    return _from_safetensors(content, where)


def _locations(given: Any) -> Callable[[Storage, str], Any]:
    if given is None:
        return lambda _, location: location
    if isinstance(given, dict):
        return lambda _, location: given.get(location, location)
    if callable(given) and not isinstance(given, device):
        return given  # type: ignore[no-any-return]
    return lambda *_: given


def _placed(flat: Tensor, location: str, where: Callable[[Storage, str], Any]) -> Tensor:
    """The bytes of a storage, on the CPU, moved to where they are wanted."""
    wanted = where(flat._storage, location)
    if wanted is None:
        wanted = location
    return flat if isinstance(wanted, Storage) else copied_to(flat, place_of(wanted))


def _host_bytes(content: bytes) -> Tensor:
    array = np.frombuffer(bytearray(content), np.uint8)
    return make_tensor(ArrayStorage(HOST, array.nbytes, array), 0, Layout.of(HOST, uint8, array.shape), array)


def _from_archive(archive: zipfile.ZipFile, where: Callable[[Storage, str], Any]) -> Any:
    names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
    if len(names) != 1:
        raise ArgumentError("load: the archive holds no data.pkl, as PyTorch's files do")
    folder = names[0][: -len("data.pkl")]
    if f"{folder}byteorder" in archive.namelist() and archive.read(f"{folder}byteorder").decode() != sys.byteorder:
        raise ArgumentError("load: the file was written on a machine of the other byte order")
    return _Reader(io.BytesIO(archive.read(names[0])), lambda name: archive.read(f"{folder}data/{name}"), where).load()


class _Reader(pickle.Unpickler):
    """Reads pickles that name nothing but what tensors are made of."""

    def __init__(self, file: Any, read: Callable[[str], bytes], where: Callable[[Storage, str], Any]) -> None:
        super().__init__(file)
        self._read, self._where = read, where
        self._storages: dict[str, Tensor] = {}

    def find_class(self, module: str, name: str) -> Any:
        for admit in admitting:
            found = admit(module, name)
            if found is not None:
                return found
        found = _READABLE.get((module, name))
        if found is not None:
            return found
        if module == "numpy" and name in _SCALARS:
            return lambda number: np.dtype(name).type(number)
        if module == "torch" and name in _KINDS:
            return _KINDS[name]
        if module in ("torch", "torch.storage") and name.endswith("Storage"):
            kinds = [kind for kind, storage in _STORAGES.items() if storage == name]
            return _KINDS[kinds[0]] if kinds else uint8
        raise TypeError(
            f"load: the file names {module}.{name}, which is not part of cuplug: nothing of a file is run; name it by "
            "serialization.add_safe_globals if you trust it"
        )

    def persistent_load(self, pid: Any) -> tuple[Tensor, dtype]:
        _, kind, name, location, _ = pid
        if name not in self._storages:
            self._storages[name] = _placed(_host_bytes(self._read(name)), location, self._where)
        return self._storages[name], kind


def _rebuilt(stored: tuple[Tensor, dtype], offset: int, size: Any, stride: Any, *rest: Any) -> Tensor:
    flat, kind = stored
    if len(rest) > 2 and isinstance(rest[2], dtype):
        kind = rest[2]
    layout = Layout.of(flat._layout.place, kind, tuple(size), tuple(stride))
    low, high = layout.span()
    if offset + low < 0 or (offset + high) * kind.itemsize > flat._storage.length:
        raise ArgumentError(f"load: a tensor of shape {list(size)} does not lie in its storage: the file is damaged")
    return make_tensor(flat._storage, offset, layout)


def _bytes_read(content: bytes = b"") -> bytes:
    if not isinstance(content, bytes):
        raise ArgumentError("load: bytes are made of bytes; the file is damaged")
    return content


def _encoded(text: str, encoding: str = "latin1") -> bytes:
    """What pickles before protocol 3 make bytes of."""
    if encoding not in ("latin1", "latin-1"):
        raise ArgumentError(f"load: bytes are written as latin1, not as {encoding!r}")
    return text.encode("latin1")


def _array(shape: Any, kind: str, content: Any) -> Any:
    """One of NumPy's arrays, in memory of its own."""
    found = np.dtype(kind)
    if found.kind not in _KINDS_OF_ARRAYS or prod(shape) * found.itemsize != len(content) or min(shape, default=0) < 0:
        raise ArgumentError(f"load: an array of shape {list(shape)} and type {kind} is not what the file holds of it")
    return np.frombuffer(bytearray(content), found).reshape(shape)


admitting: list[Callable[[str, str], Any]] = []
"""What else a file may name: asked for a module and a name, each returns what is meant, or None."""

_READABLE: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch", "Size"): Size,
    ("torch", "device"): device,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuilt,
    ("torch._utils", "_rebuild_tensor_v3"): _rebuilt,
    ("torch._utils", "_rebuild_parameter"): lambda data, *_: data,
    ("__builtin__", "set"): set,
    ("builtins", "set"): set,
    ("builtins", "bytearray"): _bytes_read,
    ("__builtin__", "bytearray"): _bytes_read,
    ("_codecs", "encode"): _encoded,
    ("numpy", "ndarray"): _array,
}
"""What a file may name."""

_SAFE = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "BOOL": "bool",
}
"""What files of safetensors call element types."""


def _from_safetensors(content: bytes, where: Callable[[Storage, str], Any]) -> dict[str, Tensor]:
    """A file of safetensors: the length of a header, the header as JSON, and the bytes of all tensors."""
    length = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8 : 8 + length]) if 2 <= length <= len(content) - 8 else {}
        entries = [
            (name, _KINDS[_SAFE[entry["dtype"]]], tuple(entry["shape"]), *entry["data_offsets"])
            for name, entry in header.items()
            if name != "__metadata__"
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        entries = []
    space = len(content) - 8 - length
    if not entries or any(
        last - first != prod(shape) * kind.itemsize or not 0 <= first <= last <= space
        for _, kind, shape, first, last in entries
    ):
        raise ArgumentError("load: this is neither a file of PyTorch's nor one of safetensors, or it is damaged")
    made = {}
    for name, kind, shape, first, last in entries:
        flat = _placed(_host_bytes(content[8 + length + first : 8 + length + last]), "cpu", where)
        made[name] = make_tensor(flat._storage, 0, Layout.of(flat._layout.place, kind, shape))
    return made
