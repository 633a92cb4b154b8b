"""``save`` writes tensors to files, in PyTorch's format: see ``load``."""

from __future__ import annotations

import io
import os
import pickle
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from ....machine.device_name import device
from ...core.dtypes import ALL, UNSIGNED, dtype, uint8
from ...core.layout import Layout
from ...core.shapes import Size
from ...core.storage import Storage
from ...core.tensor import Tensor, make_tensor
from ...core.tensor_errors import ArgumentError
from ...places.place import place_at
from ..copying.copying import detach

STORAGES = {
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
KINDS = {each.name: each for each in (*ALL, *UNSIGNED)}


class _Named:
    """Stands for something of PyTorch's that a pickle names."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


_REBUILD = _Named("torch._utils", "_rebuild_tensor_v2")


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write tensors, arrays of NumPy's and modules, and containers of them and of numbers and text, to a file.

    Tensors that share memory do so again when they are loaded. PyTorch reads files without modules. Of a module,
    as of any other object, the file names the class and holds the attributes.

    Args:
        obj: what to write.
        f: a path, or a file that is open for writing bytes; it is flushed.
        pickle_module: Python's ``pickle``, and no other.
        pickle_protocol: makes no difference: protocol 2 is written, which all read.
        _use_new_zipfile_serialization: False: in the form that PyTorch before version 1.6 reads, too.

    Raises:
        PicklingError, AttributeError or TypeError: something in ``obj`` cannot be written, such as a lambda.
        AttributeError: ``f`` is neither a path nor a file.
        ValueError: ``pickle_module`` is another one.
    """
    del pickle_protocol
    refuse_other("save", pickle_module)
    named = isinstance(f, (str, bytes, os.PathLike))
    if not named and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    storages: dict[int, tuple[str, Storage, int]] = {}
    pickled = io.BytesIO()
    _Writer(pickled, storages, () if _use_new_zipfile_serialization else (None,)).dump(obj)
    # What cannot be written is known by now: a file that a path names stays as it is.
    with open(f, "wb") if named else nullcontext(f) as file:
        if _use_new_zipfile_serialization:
            _write_archive(_Written(file.write), pickled.getvalue(), storages)
        else:
            _write_stream(file, pickled.getvalue(), storages)
        if hasattr(file, "flush"):
            file.flush()


class _Written:
    """What an archive is written to: it begins here, whatever the file holds already, and nobody goes back."""

    def __init__(self, write: Callable[[bytes], Any]) -> None:
        self.write = write

    def flush(self) -> None:
        """Do nothing: ``save`` flushes in the end."""


def refuse_other(name: str, pickle_module: Any) -> None:
    """Raise ArgumentError unless the module is Python's ``pickle``, or None."""
    if pickle_module not in (None, pickle):
        raise ArgumentError(f"{name}: pickle_module={pickle_module!r} is not part of cuplug; leave it out")


def _write_archive(f: Any, pickled: bytes, storages: dict[int, tuple[str, Storage, int]]) -> None:
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/byteorder", sys.byteorder)
        for name, storage, _ in storages.values():
            archive.writestr(f"archive/data/{name}", _bytes_of(storage))
        archive.writestr("archive/version", "3\n")


def _write_stream(f: Any, pickled: bytes, storages: dict[int, tuple[str, Storage, int]]) -> None:
    """As PyTorch wrote before version 1.6: see ``loading._from_stream``."""
    machine = {"protocol_version": VERSION, "little_endian": sys.byteorder == "little", "type_sizes": _SIZES}
    for each in (MAGIC, VERSION, machine):
        f.write(pickle.dumps(each, 2))
    f.write(pickled)
    f.write(pickle.dumps([name for name, *_ in storages.values()], 2))
    for _, storage, count in storages.values():
        f.write(count.to_bytes(COUNT, sys.byteorder))
        f.write(_bytes_of(storage))


MAGIC, VERSION, COUNT = 0x1950A86A20F9469CFC6C, 1001, 8
"""Of files that are no archives: the number in the first pickle, the version in the second, and the bytes of the number
that stands before a storage's elements."""
_SIZES = {"short": 2, "int": 4, "long": 4}


def _bytes_of(storage: Storage) -> bytes:
    flat = make_tensor(storage, 0, Layout.of(storage.place, uint8, (storage.length,)))
    return place_at(flat._layout).read(flat).tobytes()


_InPython: Any = pickle._Pickler
"""The pickler that is written in Python: names can be written by it of what is not installed."""


class _Writer(_InPython):  # type: ignore[misc]
    """Pickles what ``save`` takes, as PyTorch does."""

    def __init__(self, file: Any, storages: dict[int, tuple[str, Storage, int]], part: tuple[None, ...] = ()) -> None:
        super().__init__(file, protocol=2)
        self._storages, self._part = storages, part
        """By identity: a storage's name, the storage, and how many elements it has of the type that named it first;
        and what older files say of a storage besides: that it is no part of another one."""

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, _Stored):
            return None
        kind = _Named("torch", STORAGES.get(obj.kind.name, "")) if obj.kind.name in STORAGES else _UNTYPED
        count = obj.storage.length // (obj.kind.itemsize if kind is not _UNTYPED else 1)
        name, *_ = self._storages.setdefault(id(obj.storage), (str(len(self._storages)), obj.storage, count))
        return ("storage", kind, name, str(obj.storage.place.device), count, *self._part)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            if type(obj).__name__ == "Parameter":
                return _Reduced(_REBUILD_PARAMETER), (detach(obj), obj.requires_grad, OrderedDict())
            layout = obj._layout
            stored = _Stored(obj._storage, layout.dtype)
            rest: tuple[Any, ...] = (obj._offset, tuple(layout.shape), tuple(layout.strides), False, OrderedDict())
            if layout.dtype.name in STORAGES:
                return _Reduced(_REBUILD), (stored, *rest)
            return _Reduced(_REBUILD_3), (stored, *rest, layout.dtype)
        if isinstance(obj, Size):
            return _Reduced(_Named("torch", "Size")), (tuple(obj),)
        if isinstance(obj, device):
            return _Reduced(_Named("torch", "device")), (obj.type,) if obj.index is None else (obj.type, obj.index)
        if type(obj) is np.ndarray and obj.dtype.kind in KINDS_OF_ARRAYS:
            return _Reduced(_ARRAY), (obj.shape, obj.dtype.str, bytearray(obj.tobytes()))
        if isinstance(obj, np.generic) and obj.dtype.name in SCALARS:
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
KINDS_OF_ARRAYS = "biufcmMSU"
"""Of NumPy's arrays, those without objects."""
SCALARS = frozenset(each.name for each in (*ALL, *UNSIGNED)) - {"bfloat16"}
