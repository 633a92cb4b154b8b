"""``load`` reads files of tensors, PyTorch's and safetensors', without running any code.

A file of PyTorch's is a zip archive: ``data.pkl``, a pickle in which tensors refer to storages by name, and the bytes
of each storage beside it. Up to PyTorch 1.5 the same pickle stood among others in one stream, before the bytes of all
storages. What a pickle may name is a short list here; anything else is refused. Whatever the file is, it takes time and
memory in proportion to its length, and what is wrong with it is one error.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from .....allocators.errors import CuplugError
from ....machine.device import device_count
from ....machine.device_name import DeviceNameError, device
from ...backends.on_host.cpu_place import HOST
from ...core.dtypes import dtype, uint8
from ...core.layout import Layout
from ...core.shapes import Size
from ...core.storage import ArrayStorage, Storage
from ...core.tensor import Tensor, make_tensor
from ...core.tensor_errors import ArgumentError, UnreadableNameError
from ...places.place import Place
from ...places.registry import place_of
from ..copying.copying import copied_to
from .bounded_archives import BoundedArchive
from .numpy_pickles import NUMPY_NAMES
from .restricted_pickles import RestrictedUnpickler
from .saving import COUNT, KINDS, KINDS_OF_ARRAYS, MAGIC, SCALARS, STORAGES, VERSION, refuse_other

_TOO_MANY = 1 << 63
_MOST_DIMENSIONS = 64


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
) -> Any:
    """Read what ``save`` or PyTorch's ``torch.save`` wrote, also before PyTorch 1.6, or a file of safetensors.

    No code of the file runs: it may name tensors, containers, arrays of NumPy's, modules of cuplug's and of the
    program, if their classes are imported already, and what the program named by ``serialization.add_safe_globals``.

    Args:
        f: a path, or a file that is open for reading bytes. Of a form before PyTorch 1.6 no more than one is read.
        map_location: where tensors go: a device, its text, a dictionary from one text to another, or a function of a
            storage and the text where it was, which returns the storage itself for the CPU, its ``cuda()`` or a
            device; None: where they were.
        pickle_module: Python's ``pickle``, and no other; it is not used.
        weights_only: as torch's. Either way a file is read as said above.
        mmap: as torch's, for a path alone. The file is read whole all the same.

    Raises:
        ValueError: the file is none of these, is cut off or damaged, or is made to take more memory than it is long;
            ``mmap`` of an open file, or another ``pickle_module``.
        TypeError: it names something else. Also a ValueError.
        CuplugError: it names a device that is not there. All of these are of this class.
    """
    del weights_only
    refuse_other("load", pickle_module)
    if not hasattr(f, "read"):
        with open(os.fspath(f), "rb") as file:
            return load(file, map_location)
    if mmap:
        raise ArgumentError("f must be a string or os.PathLike object in order to use the mmap argument")
    content = f.read()
    where = _locations(map_location)
    try:
        if content[:2] == b"PK":
            return _from_archive(content, where)
        return _from_stream(content, where, f) if _MAGIC in content[:_START] else _from_safetensors(content, where)
    except (CuplugError, MemoryError):
        raise
    except _PassedError as passed:
        error = passed.args[0]
    except Exception as damage:  # damaged files raise nearly anything
        said = " ".join(str(damage).split())[:200] or type(damage).__name__
        error = ArgumentError(f"load: the file is cut off or damaged: {said}")
    raise error


class _PassedError(Exception):
    """Carries what the program's own function raised."""


class _Offered:
    """The storage that a function as ``map_location`` gets: it gives it back, or says where it goes."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def cuda(self, index: Any = None) -> device:
        return device("cuda" if index is None else index)

    def cpu(self) -> _Offered:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


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
    try:
        wanted = where(_Offered(flat._storage), location)  # type: ignore[arg-type]
    except Exception as error:
        raise _PassedError(error) from None
    if wanted is None:
        wanted = location
    if isinstance(wanted, (Storage, _Offered)):
        return flat
    return copied_to(flat, _place_named(location) if wanted is location else place_of(wanted))


def _place_named(location: str) -> Place:
    """Where the file says that a storage was."""
    named = _device(location)
    if named.type == "cuda":
        if not (count := device_count()):
            raise CuplugError(
                "load: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If "
                "you are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') "
                "to map your storages to the CPU."
            )
        if (named.index or 0) >= count:
            raise CuplugError(
                f"load: Attempting to deserialize object on CUDA device {named.index} but torch.cuda.device_count() is "
                f"{count}. Please use torch.load with map_location to map your storages to an existing device."
            )
    return place_of(named)


def _host_bytes(content: bytes) -> Tensor:
    array = np.frombuffer(bytearray(content), np.uint8)
    return make_tensor(ArrayStorage(HOST, array.nbytes, array), 0, Layout.of(HOST, uint8, array.shape), array)


def _from_archive(content: bytes, where: Callable[[Storage, str], Any]) -> Any:
    archive = BoundedArchive(content)
    names = [name for name in archive.names if name.endswith("/data.pkl")]
    if len(names) != 1:
        raise ArgumentError("load: the archive holds no data.pkl, as PyTorch's files do")
    folder = names[0][: -len("data.pkl")]
    if f"{folder}byteorder" in archive.names and archive.read(f"{folder}byteorder").decode() != sys.byteorder:
        raise ArgumentError("load: the file was written on a machine of the other byte order")
    pickled = io.BytesIO(archive.read(f"{folder}data.pkl"))
    return _Reader(pickled, lambda name, nbytes: archive.read(f"{folder}data/{name}", nbytes), where).load()


def _from_stream(content: bytes, where: Callable[[Storage, str], Any], f: Any) -> Any:
    """A file as PyTorch wrote it before version 1.6: pickles of a number, a version, what the machine was like, the
    object and the names of its storages; then for each of these how many elements it has, and their bytes. What may
    stand behind is read from ``f`` next."""
    file = io.BytesIO(content)
    _, version, machine = (RestrictedUnpickler(file, _meant).load() for _ in range(3))
    if version != VERSION or machine["little_endian"] is not (sys.byteorder == "little"):
        raise ArgumentError(f"load: the file is of version {version!r}, or of a machine of the other byte order")
    start = file.tell()
    # The object is read twice: how long storages are stands there, and only behind it what they hold.
    lengths: dict[str, int] = {}
    left = len(content)

    def zeros_of(name: str, nbytes: int) -> bytes:
        nonlocal left
        lengths[name], left = nbytes, left - nbytes
        if left < 0:
            raise ArgumentError("load: the file is cut off or damaged: its storages are longer than it is")
        return bytes(nbytes)

    _Reader(file, zeros_of, lambda storage, _: storage).load()
    held = {}
    for name in RestrictedUnpickler(file, _meant).load():
        count, held[name] = int.from_bytes(file.read(COUNT), sys.byteorder), file.read(lengths[name])
        if len(held[name]) != lengths[name] or not count <= lengths[name] <= count * _LARGEST:
            raise ArgumentError(f"load: the file is cut off or damaged: storage {name[:50]!r} is not whole")
    if behind := len(content) - file.tell():
        with suppress(AttributeError, OSError):  # a pipe, say
            f.seek(-behind, os.SEEK_CUR)
    file.seek(start)
    return _Reader(file, lambda name, _: held[name], where).load()


_MAGIC = MAGIC.to_bytes(10, "little")
_START = 32
"""Bytes of a file among which that number is."""
_LARGEST = 8
"""Bytes of the largest element."""


class _Reader(RestrictedUnpickler):
    """Reads pickles that name nothing but what tensors are made of."""

    def __init__(
        self, pickled: io.BytesIO, content_of: Callable[[str, int], bytes], where: Callable[[Storage, str], Any]
    ) -> None:
        """``content_of(name, nbytes)`` gives what a storage holds; ``where``: see ``_locations``."""
        super().__init__(pickled, _meant)
        self._content_of, self._where = content_of, where
        self._storages: dict[str, Tensor] = {}

    def persistent_load(self, pid: Any) -> tuple[Tensor, dtype]:
        if pid[0] == "module":  # the source of a module's class stands beside it in files before PyTorch 1.6
            return pid[1]  # type: ignore[no-any-return]
        _, kind, name, location, count, *part = pid
        if part not in ([], [None]):
            raise ArgumentError("load: a storage is a part of another one, as PyTorch wrote it before version 0.4")
        if not (isinstance(kind, dtype) and type(name) is type(location) is str and _is_count(count)):
            raise ArgumentError(f"load: storage {str(name)[:50]!r} is not what a storage is: the file is damaged")
        if name not in self._storages:
            content = self._content_of(name, count * kind.itemsize)
            self._storages[name] = _placed(_host_bytes(content), location, self._where)
        return self._storages[name], kind


def _meant(module: str, name: str) -> Any:
    # Before what the program named, which are NumPy's own functions where the program was written for PyTorch.
    if (module, name) in NUMPY_NAMES:
        return NUMPY_NAMES[module, name]
    for admit in admitting:
        found = admit(module, name)
        if found is not None:
            return found
    found = _READABLE.get((module, name))
    if found is not None:
        return found
    if module == "numpy" and name in SCALARS:
        return lambda number: _scalar(name, number)
    if module == "torch" and name in KINDS:
        return KINDS[name]
    if module in ("torch", "torch.storage") and name.endswith("Storage"):
        kinds = [kind for kind, storage in STORAGES.items() if storage == name]
        if not kinds and name != "UntypedStorage":
            raise UnreadableNameError(f"load: the file holds elements of {module}.{name}, which cuplug does not have")
        return KINDS[kinds[0]] if kinds else uint8
    raise UnreadableNameError(
        f"load: the file names {module}.{name}, which is not part of cuplug: nothing of a file is run; name it by "
        "serialization.add_safe_globals if you trust it"
    )


def _is_count(number: Any) -> bool:
    return type(number) is int and 0 <= number < _TOO_MANY


def _shape(given: Any) -> tuple[int, ...]:
    """A shape that is one: so many numbers, none negative, and not more elements than can be counted."""
    if (
        not isinstance(given, (tuple, list))
        or len(given) > _MOST_DIMENSIONS
        or not all(map(_is_count, given))
        or prod(length or 1 for length in given) >= _TOO_MANY
    ):
        raise ArgumentError(f"load: {_short(given)} is no shape: the file is damaged")
    return tuple(given)


def _short(given: Any) -> str:
    """Of what a file holds as much as goes into an error."""
    if isinstance(given, (tuple, list)) and all(type(each) is int and abs(each) < _TOO_MANY for each in given[:8]):
        return f"{list(given[:8])}"
    return f"something of type {type(given).__name__}"


def _rebuilt(stored: tuple[Tensor, dtype], offset: int, size: Any, stride: Any, *rest: Any) -> Tensor:
    flat, kind = stored
    if len(rest) > 2 and isinstance(rest[2], dtype):
        kind = rest[2]
    shape, strides = _shape(size), tuple(stride)
    if (
        not (isinstance(flat, Tensor) and isinstance(kind, dtype) and _is_count(offset))
        or len(strides) != len(shape)
        or any(type(each) is not int or abs(each) >= _TOO_MANY for each in strides)
    ):
        raise ArgumentError("load: a tensor is not what a tensor is made of: the file is damaged")
    layout = Layout.of(flat._layout.place, kind, shape, strides)
    low, high = layout.span()
    if offset + low < 0 or (offset + high) * kind.itemsize > flat._storage.length:
        raise ArgumentError(f"load: a tensor of shape {_short(size)} does not lie in its storage: the file is damaged")
    return make_tensor(flat._storage, offset, layout)


def _device(*named: Any) -> device:
    """The device that a file names."""
    try:
        return device(*named)
    except (DeviceNameError, TypeError):
        raise ArgumentError(f"load: {_short(named)} names no device: the file is damaged") from None


def _scalar(kind: str, number: Any) -> Any:
    if type(number) not in (int, float, bool):
        raise ArgumentError(f"load: a number is {_short(number)}: the file is damaged")
    return np.dtype(kind).type(number)


def _bytes_read(content: bytes = b"") -> bytes:
    if not isinstance(content, bytes):
        raise ArgumentError("load: bytes are made of bytes; the file is damaged")
    return content


def _counter(counts: Any = None) -> Counter[Any]:
    """A counter takes over what a dictionary holds, so that a file cannot have one dictionary copied many times."""
    if type(counts) is not dict:
        raise ArgumentError("load: a counter is made of a dictionary; the file is damaged")
    made: Counter[Any] = Counter()
    dict.update(made, counts)
    counts.clear()
    return made


def _encoded(text: str, encoding: str = "latin1") -> bytes:
    """What pickles before protocol 3 make bytes of."""
    if encoding not in ("latin1", "latin-1"):
        raise ArgumentError(f"load: bytes are written as latin1, not as {encoding!r}")
    return text.encode("latin1")


def _array(shape: Any, kind: str, content: Any) -> Any:
    """One of NumPy's arrays, in memory of its own."""
    found = np.dtype(kind) if type(kind) is str and len(kind) <= _LONGEST_TYPE else None
    if (
        found is None
        or found.kind not in KINDS_OF_ARRAYS
        or not isinstance(content, (bytes, bytearray))
        or not isinstance(shape, tuple)
        or not all(map(_is_count, shape))
        or len(shape) > _MOST_DIMENSIONS
        or prod(shape) * found.itemsize != len(content)
    ):
        raise ArgumentError(f"load: an array of shape {_short(shape)} is not what the file holds of it: it is damaged")
    return np.frombuffer(bytearray(content), found).reshape(shape)


_LONGEST_TYPE = 32
"""Characters in NumPy's name of an element type."""


admitting: list[Callable[[str, str], Any]] = []
"""What else a file may name: asked for a module and a name, each returns what is meant, or None."""

_READABLE: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): _counter,
    ("torch", "Size"): Size,
    ("torch", "device"): _device,
    ("torch._utils", "_rebuild_tensor"): _rebuilt,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuilt,
    ("torch._utils", "_rebuild_tensor_v3"): _rebuilt,
    ("torch._utils", "_rebuild_parameter"): lambda data, *_: data,
    ("__builtin__", "set"): set,
    ("builtins", "set"): set,
    ("builtins", "bytearray"): _bytes_read,
    ("__builtin__", "bytearray"): _bytes_read,
    ("builtins", "bytes"): _bytes_read,
    ("__builtin__", "bytes"): _bytes_read,
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
            (name, KINDS[_SAFE[entry["dtype"]]], _shape(entry["shape"]), *entry["data_offsets"])
            for name, entry in header.items()
            if name != "__metadata__"
        ]
        places = sorted((first, last) for *_, first, last in entries)
        is_whole = all(
            _is_count(first) and _is_count(last) and last - first == prod(shape) * kind.itemsize
            for _, kind, shape, first, last in entries
        ) and all(before[1] <= after[0] for before, after in pairwise(places))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        entries, is_whole = [], False
    space = len(content) - 8 - length
    if not entries or not is_whole or places[-1][1] > space:
        raise ArgumentError("load: this is neither a file of PyTorch's nor one of safetensors, or it is damaged")
    made = {}
    for name, kind, shape, first, last in entries:
        flat = _placed(_host_bytes(content[8 + length + first : 8 + length + last]), "cpu", where)
        made[name] = make_tensor(flat._storage, 0, Layout.of(flat._layout.place, kind, shape))
    return made
