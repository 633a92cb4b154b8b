"""A stand-in for cuDNN's library: functions of the same C types, which check what they are told and compute by NumPy.

It holds for what cuplug uses: tensors, convolutions, graphs of single operations, engines, plans and variant packs;
and recurrent layers, see ``stand_in_recurrent.py``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from .stand_in_recurrent import RECURRENT_SIGNATURES, RecurrentFunctions

_POINTER, _INT, _WIDE = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
_BAD, _UNFINISHED, _UNSUPPORTED = 2000, 2004, 3000
_SIGNATURES = {
    "cudnnGetVersion": (ctypes.c_size_t,),
    "cudnnGetErrorString": (_POINTER, _INT),
    "cudnnGetLastErrorString": (None, _POINTER, ctypes.c_size_t),
    "cudnnCreate": (_INT, ctypes.POINTER(_POINTER)),
    "cudnnDestroy": (_INT, _POINTER),
    "cudnnSetStream": (_INT, _POINTER, _POINTER),
    "cudnnBackendCreateDescriptor": (_INT, _INT, ctypes.POINTER(_POINTER)),
    "cudnnBackendDestroyDescriptor": (_INT, _POINTER),
    "cudnnBackendFinalize": (_INT, _POINTER),
    "cudnnBackendSetAttribute": (_INT, _POINTER, _INT, _INT, _WIDE, _POINTER),
    "cudnnBackendGetAttribute": (_INT, _POINTER, _INT, _INT, _WIDE, ctypes.POINTER(_WIDE), _POINTER),
    "cudnnBackendExecute": (_INT, _POINTER, _POINTER, _POINTER),
    **RECURRENT_SIGNATURES,
}
_TYPES: dict[int, Any] = {0: np.float32, 1: np.float64, 2: np.float16, 4: np.int32, 9: ml_dtypes.bfloat16, 11: np.bool_}
# cudnnBackendAttributeType_t: the C type of each, and its size in bytes.
_C = {0: _POINTER, 2: ctypes.c_bool, 3: _WIDE, 4: ctypes.c_float, 5: ctypes.c_double, 6: _POINTER, 15: _POINTER}
_TENSOR = {901: 1, 902: 3, 903: 3, 906: 3, 900: 3}
_CONVOLUTION = {100: 1, 101: 7, 102: 3, 103: 3, 104: 3, 105: 3, 106: 3}
# For each kind of descriptor its attributes with their types; 4 stands for float or double.
_ATTRIBUTES: dict[int, dict[int, int]] = {
    1: _CONVOLUTION,
    4: {200: 8, 201: 15},
    5: {400: 0, 401: 15},
    10: {700: 4, 701: 4, 702: 15, 703: 15, 704: 15, 705: 15},
    11: {712: 4, 713: 4, 714: 15, 715: 15, 716: 15, 717: 15},
    12: {706: 4, 707: 4, 708: 15, 709: 15, 710: 15, 711: 15},
    15: {800: 0, 801: 15},
    16: {1000: 3, 1001: 6, 1003: 6},
    17: _TENSOR,
    0: {0: 14, 1: 1},
    13: {750: 15, 751: 15, 753: 15},
    18: {1500: 1},
    19: {1520: 15, 1521: 15, 1522: 15, 1523: 15},
    21: {1600: 18, 1601: 1},
    22: {1610: 15, 1611: 15, 1612: 15},
    31: {2200: 15, 2201: 15},
}
_OPTIONAL = {17: {907: 2, 908: 2}, 0: {9: 3}, 13: {752: 15, 758: 15}}


class Engine:
    """What the stand-in offers as an algorithm."""

    def __init__(self, notes: tuple[int, ...] = (), workspace: int = 0, refuses: bool = False) -> None:
        self.notes, self.workspace, self.refuses = notes, workspace, refuses
        self.runs = 0


class _Made:
    """A descriptor."""

    def __init__(self, kind: int, what: Any = None) -> None:
        self.kind, self.what, self.finished = kind, what, False
        self.graph: Any = None
        self.values: dict[int, list[Any]] = {}


class StandInCudnn(RecurrentFunctions):
    """The library. Its functions are C functions, so that ``ctypes`` converts what they are given."""

    def __init__(self, submit: Callable[..., None]) -> None:
        """``submit(work, reads, writes, name)`` queues work on the current stream of the device."""
        self.submit = submit
        self.engines = [Engine()]
        self.fallback: list[Engine] = []
        self.made: dict[int, _Made] = {}
        self.recurrent: dict[int, Any] = {}
        self.kept: dict[int, Any] = {}
        self.runs: list[str] = []
        self.algorithms: dict[int, int] = {}
        self.chosen: list[int] = []
        self.handles: dict[int, int] = {}
        self.streams: list[int] = []
        self.executed: list[tuple[int, dict[str, Any]]] = []
        self._next, self._reason = 0x1000, b""
        for name, (result, *arguments) in _SIGNATURES.items():
            setattr(self, name, ctypes.CFUNCTYPE(result, *arguments)(getattr(self, f"_{name}")))

    def _new(self) -> int:
        self._next += 16
        return self._next

    def _fail(self, status: int, reason: str) -> int:
        self._reason = reason.encode()
        return status

    # --- the functions

    def _cudnnGetVersion(self) -> int:
        return 91900

    def _cudnnGetErrorString(self, status: int) -> int:
        self._text = ctypes.create_string_buffer(b"CUDNN_STATUS_%d" % status)
        return ctypes.addressof(self._text)

    def _cudnnGetLastErrorString(self, text: int, length: int) -> None:
        ctypes.memmove(text, self._reason[: length - 1] + b"\0", min(len(self._reason) + 1, length))

    def _cudnnCreate(self, handle: Any) -> int:
        handle[0] = self._new()
        self.handles[handle[0]] = 0
        return 0

    def _cudnnDestroy(self, handle: int) -> int:
        del self.handles[handle]
        return 0

    def _cudnnSetStream(self, handle: int, stream: int | None) -> int:
        self.handles[handle] = stream or 0
        self.streams.append(stream or 0)
        return 0

    def _cudnnBackendCreateDescriptor(self, kind: int, out: Any) -> int:
        out[0] = self._new()
        self.made[out[0]] = _Made(kind)
        return 0

    def _cudnnBackendDestroyDescriptor(self, address: int) -> int:
        del self.made[address]
        return 0

    def _cudnnBackendSetAttribute(self, address: int, name: int, kind: int, count: int, values: int) -> int:
        made = self.made[address]
        wanted = (_ATTRIBUTES[made.kind] | _OPTIONAL.get(made.kind, {})).get(name)
        if made.finished or wanted is None or (kind != wanted and (wanted, kind) != (4, 5)):
            return self._fail(_BAD, f"attribute {name} of type {kind} in a descriptor of kind {made.kind}")
        array = (_C.get(kind, _INT) * count).from_address(values)
        made.values[name] = [self.made[each] for each in array] if kind == 15 else list(array)
        if kind == 15 and not all(each.finished for each in made.values[name]):
            return self._fail(_UNFINISHED, f"attribute {name} is a descriptor that is not finalized")
        return 0

    def _cudnnBackendFinalize(self, address: int) -> int:
        made = self.made[address]
        missing = _ATTRIBUTES[made.kind].keys() - made.values.keys()
        if missing:
            return self._fail(_BAD, f"a descriptor of kind {made.kind} without {sorted(missing)}")
        if made.kind == 17 and len(made.values[902]) != len(made.values[903]):
            return self._fail(_BAD, "as many strides as dimensions are wanted")
        if made.kind in (10, 11, 12):
            reason = _misfit(made)
            if reason:
                return self._fail(_BAD, reason)
        if made.kind == 5 and made.values[401][0].what.refuses:
            return self._fail(_UNSUPPORTED, "this engine does not do this")
        if made.kind in (5, 15) and made.values[{5: 400, 15: 800}[made.kind]][0] not in self.handles:
            return self._fail(_BAD, "there is no such handle")
        made.finished = True
        return 0

    def _cudnnBackendGetAttribute(self, address: int, name: int, kind: int, room: int, count: Any, out: int) -> int:
        made = self.made[address]
        found: list[Any]
        if (made.kind, name) == (4, 202):
            found = self.fallback if made.values[200] == [2] else self.engines
            if not found:
                return self._fail(_UNSUPPORTED, "no engine does this")
        elif (made.kind, name) in ((3, 300), (2, 1303)):
            found = [made.what] if name == 300 else list(made.what.notes)
        elif (made.kind, name) == (5, 402):
            found = [made.values[401][0].what.workspace]
        else:
            return self._fail(_BAD, f"attribute {name} of a descriptor of kind {made.kind}")
        if (made.kind, name) in ((3, 300), (5, 402)) and room != 1:
            return self._fail(_BAD, "1 != requestedElemCount")
        count[0] = len(found)
        array = (_C.get(kind, _INT) * room).from_address(out) if out else []
        for position, each in zip(range(room), found, strict=False):
            if kind == 15:
                self.made[array[position]].what = each
                self.made[array[position]].graph = made.values[201][0] if name == 202 else made.graph
                self.made[array[position]].finished = True
            else:
                array[position] = each
        return 0

    def _cudnnBackendExecute(self, handle: int, plan: int, pack: int) -> int:
        if not (self.made[plan].finished and self.made[pack].finished and handle in self.handles):
            return self._fail(_UNFINISHED, "a plan, a pack and a handle are wanted")
        engine = self.made[plan].values[401][0].what
        values = self.made[pack].values
        places = dict(zip(values[1000], values[1001], strict=True))
        if engine.workspace and not values[1003][0]:
            return self._fail(_BAD, "this engine wants a workspace")
        operations = self.made[plan].values[401][0].graph.values[801]
        engine.runs += 1
        if operations[0].kind in _ROLES:
            return self._compute(operations[0], places)
        return self._interpret(operations, places)

    def _compute(self, operation: _Made, places: dict[int, int]) -> int:
        result, first, second = (operation.values[each][0] for each in _ROLES[operation.kind])
        convolution = operation.values[_CONVOLUTIONS[operation.kind]][0].values
        settings = convolution[103], convolution[105], convolution[102]
        self.executed.append((operation.kind, {"stride": settings[0], "padding": settings[1], "dilation": settings[2]}))
        spans = [(places[each.values[906][0]], _nbytes(each)) for each in (result, first, second)]
        tensors = result, first, second
        if any(address % each.values[900][0] for (address, _), each in zip(spans, tensors, strict=True)):
            return self._fail(_BAD, "an address is not a multiple of the alignment")
        arrays = [_shown(each, address) for (address, _), each in zip(spans, tensors, strict=True)]

        def work() -> None:
            out, a, b = arrays
            double = [np.asarray(each, np.float64) for each in (out, a, b)]
            double[0][...] = 0
            _PARTS[operation.kind](*double, *settings)
            out[...] = double[0].astype(out.dtype)

        self.submit(work, tuple(spans[1:]), (spans[0],), "cudnn")
        return 0

    def _interpret(self, operations: list[_Made], places: dict[int, int]) -> int:
        """Operation after operation, in double precision, with the tensors between them rounded to their types."""
        self.executed.append((0, {"operations": len(operations)}))
        tensors = {
            each.values[906][0]: each
            for operation in operations
            for given in operation.values.values()
            for each in given
            if each.kind == 17
        }
        written = {operation.values[_RESULTS[operation.kind]][0].values[906][0] for operation in operations}
        known: dict[int, Any] = {}
        spans: tuple[list[Any], list[Any]] = [], []
        for number, each in tensors.items():
            if 908 in each.values:
                known[number] = np.float64(ctypes.c_float.from_address(places[number]).value)
            elif 907 not in each.values:
                if places[number] % each.values[900][0]:
                    return self._fail(_BAD, "an address is not a multiple of the alignment")
                spans[number in written].append((places[number], _nbytes(each)))

        def work() -> None:
            values = dict(known)

            def of(tensor: _Made) -> Any:
                number = tensor.values[906][0]
                if number not in values:
                    values[number] = np.asarray(_shown(tensor, places[number]), np.float64)
                return values[number]

            for operation in operations:
                made = _OPERATIONS[operation.kind](operation.values, of)
                to = operation.values[_RESULTS[operation.kind]][0]
                rounded = np.broadcast_to(made, to.values[902]).astype(_TYPES[to.values[901][0]])
                values[to.values[906][0]] = np.asarray(rounded, np.float64)
                if 907 not in to.values:
                    _shown(to, places[to.values[906][0]])[...] = rounded

        self.submit(work, tuple(spans[0]), tuple(spans[1]), "cudnn")
        return 0


def _pointwise(values: dict[int, Any], of: Callable[[_Made], Any]) -> Any:
    settings = values[750][0].values
    mode, given = settings[0][0], [of(values[name][0]) for name in (751, 752, 758) if name in values]
    if mode == 501:
        return np.broadcast_to(np.indices(given[0].shape)[settings[9][0]], given[0].shape)
    return _POINTWISE[mode](*given)


_POINTWISE: dict[int, Any] = {
    0: np.add,
    1: np.multiply,
    6: np.divide,
    9: np.subtract,
    13: np.exp,
    15: np.log,
    21: np.copy,
    303: np.greater_equal,
    601: lambda x, b, chosen: np.where(chosen != 0, x, b),
}
_OPERATIONS: dict[int, Any] = {
    13: _pointwise,
    19: lambda values, of: of(values[1520][0]) @ of(values[1521][0]),
    22: lambda values, of: {0: np.sum, 3: np.max}[values[1612][0].values[1600][0]](
        of(values[1610][0]), 3, keepdims=True
    ),
    31: lambda values, of: np.swapaxes(of(values[2200][0]), 2, 3),
}
_RESULTS = {13: 753, 19: 1522, 22: 1611, 31: 2201}
_ROLES = {10: (705, 704, 703), 12: (710, 709, 711), 11: (715, 716, 717)}
_CONVOLUTIONS = {10: 702, 12: 708, 11: 714}


def _nbytes(tensor: _Made) -> int:
    reach = sum((length - 1) * step for length, step in zip(tensor.values[902], tensor.values[903], strict=True))
    return (reach + 1) * int(np.dtype(_TYPES[tensor.values[901][0]]).itemsize)


def _shown(tensor: _Made, address: int) -> Any:
    kind = np.dtype(_TYPES[tensor.values[901][0]])
    buffer = (ctypes.c_char * _nbytes(tensor)).from_address(address)
    strides = [each * kind.itemsize for each in tensor.values[903]]
    return np.ndarray(tensor.values[902], kind, buffer, 0, strides)


def _misfit(operation: _Made) -> str:
    """Why a convolution's shapes do not fit each other; an empty text where they do."""
    names = {10: (704, 703, 705), 12: (710, 709, 711), 11: (716, 715, 717)}[operation.kind]
    images, filters, result = (operation.values[each][0].values[902] for each in names)
    settings = operation.values[_CONVOLUTIONS[operation.kind]][0].values
    sizes = [
        (length + before + after - apart * (size - 1) - 1) // step + 1
        for length, before, after, apart, size, step in zip(
            images[2:], settings[105], settings[104], settings[102], filters[2:], settings[103], strict=True
        )
    ]
    if settings[106] != [2] or [images[0], filters[0]] != result[:2] or images[1] % filters[1]:
        return f"images {images} and filters {filters} make no {result}"
    return "" if sizes == result[2:] else f"{sizes} windows, not {result[2:]}"


def _windows(images: Any, filters: Any, result: Any, stride: Any, dilation: Any) -> Any:
    """For each group and each element of a filter, the images it meets, and its parts of filters and result."""
    groups = images.shape[1] // filters.shape[1]
    inside, outside = filters.shape[1], filters.shape[0] // groups
    for group in range(groups):
        into, out = slice(group * inside, (group + 1) * inside), slice(group * outside, (group + 1) * outside)
        for row in range(filters.shape[2]):
            for column in range(filters.shape[3]):
                y, x = row * dilation[0], column * dilation[1]
                down = slice(y, y + stride[0] * (result.shape[2] - 1) + 1, stride[0])
                across = slice(x, x + stride[1] * (result.shape[3] - 1) + 1, stride[1])
                yield images[:, into, down, across], (out, slice(None), row, column), result[:, out]


def _padded(images: Any, padding: Any) -> Any:
    return np.pad(images, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))


def _forward(out: Any, images: Any, filters: Any, stride: Any, padding: Any, dilation: Any) -> None:
    for seen, part, made in _windows(_padded(images, padding), filters, out, stride, dilation):
        made += np.einsum("nchw,kc->nkhw", seen, filters[part])


def _images(out: Any, filters: Any, gradient: Any, stride: Any, padding: Any, dilation: Any) -> None:
    wide = _padded(out, padding)
    for seen, part, given in _windows(wide, filters, gradient, stride, dilation):
        seen += np.einsum("nkhw,kc->nchw", given, filters[part])
    (top, left), (height, width) = padding, out.shape[2:]
    out[...] = wide[:, :, top : top + height, left : left + width]


def _filters(out: Any, images: Any, gradient: Any, stride: Any, padding: Any, dilation: Any) -> None:
    for seen, part, given in _windows(_padded(images, padding), out, gradient, stride, dilation):
        out[part] += np.einsum("nchw,nkhw->kc", seen, given)


_PARTS = {10: _forward, 12: _images, 11: _filters}
