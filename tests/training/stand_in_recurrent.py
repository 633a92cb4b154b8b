"""The functions of cuDNN's for recurrent layers, as the stand-in has them: of the same C types, which check what they
are told. What they compute, cuplug's layers compute on the CPU, in double precision."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import cuplug
import ml_dtypes
import numpy as np

__all__ = ["RECURRENT_SIGNATURES", "RecurrentFunctions"]

_P, _I, _N = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
_OUT = ctypes.POINTER(_P)
_MODES = {0: ("RNN", "relu"), 1: ("RNN", "tanh"), 2: ("LSTM", None), 3: ("GRU", None)}
_GATES = {0: 1, 1: 1, 2: 4, 3: 3}
_TYPES: dict[int, Any] = {0: np.float32, 1: np.float64, 2: np.float16, 9: ml_dtypes.bfloat16}
_BAD, _GAP, _RESERVE = 2000, 64, 48

# As cudnn_adv.h and cudnn_ops.h of version 9 declare them.
RECURRENT_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cudnnCreateTensorDescriptor": (_I, _OUT),
    "cudnnDestroyTensorDescriptor": (_I, _P),
    "cudnnSetTensorNdDescriptor": (_I, _P, _I, _I, ctypes.POINTER(_I), ctypes.POINTER(_I)),
    "cudnnCreateRNNDescriptor": (_I, _OUT),
    "cudnnDestroyRNNDescriptor": (_I, _P),
    "cudnnSetRNNDescriptor_v8": (_I, _P, _I, _I, _I, _I, _I, _I, _I, _I, _I, _I, _I, _I, _P, ctypes.c_uint32),
    "cudnnCreateRNNDataDescriptor": (_I, _OUT),
    "cudnnDestroyRNNDataDescriptor": (_I, _P),
    "cudnnSetRNNDataDescriptor": (_I, _P, _I, _I, _I, _I, _I, ctypes.POINTER(_I), _P),
    "cudnnGetRNNWeightSpaceSize": (_I, _P, _P, ctypes.POINTER(_N)),
    "cudnnGetRNNWeightParams": (_I, _P, _P, _I, _N, _P, _I, _P, _OUT, _P, _OUT),
    "cudnnGetRNNTempSpaceSizes": (_I, _P, _P, _I, _P, ctypes.POINTER(_N), ctypes.POINTER(_N)),
    "cudnnRNNForward": (_I, _P, _P, _I, _P, _P, _P, _P, _P, _P, _P, _P, _P, _P, _P, _N, _P, _N, _P, _N, _P),
    "cudnnRNNBackwardData_v8": (_I, *[_P] * 16, _N, _P, _N, _P, _N, _P),
    "cudnnRNNBackwardWeights_v8": (_I, _P, _P, _I, *[_P] * 7, _N, _P, _N, _P, _N, _P),
}


class RecurrentFunctions:
    """Layers lie in the weight space last one first, with gaps, all biases before all matrices."""

    apart = False
    """Whether the gates of a weight lie apart from each other."""
    recurrent: dict[int, Any]
    kept: dict[int, Any]
    handles: dict[int, int]
    runs: list[str]
    algorithms: dict[int, int]
    """By layers: by which algorithm they run."""
    chosen: list[int]
    """The algorithms of what ran forward."""
    refused: tuple[int, ...] = ()
    submit: Any

    def _new(self) -> int:
        raise NotImplementedError

    def _fail(self, status: int, reason: str) -> int:
        raise NotImplementedError

    # --- descriptors

    def _make(self, out: Any) -> int:
        out[0] = self._new()
        self.recurrent[out[0]] = None
        return 0

    def _forget(self, address: int) -> int:
        del self.recurrent[address]
        return 0

    _cudnnCreateTensorDescriptor = _cudnnCreateRNNDescriptor = _cudnnCreateRNNDataDescriptor = _make
    _cudnnDestroyTensorDescriptor = _cudnnDestroyRNNDescriptor = _cudnnDestroyRNNDataDescriptor = _forget

    def _cudnnSetTensorNdDescriptor(self, address: int, kind: int, count: int, lengths: Any, steps: Any) -> int:
        shape = tuple(lengths[:count])
        if steps[:count] != [int(np.prod(shape[each + 1 :])) for each in range(count)]:
            return self._fail(_BAD, "states are wanted side by side")
        self.recurrent[address] = kind, shape
        return 0

    def _cudnnSetRNNDescriptor_v8(self, address: int, *given: Any) -> int:
        algorithm, mode, bias, direction, into, kind, precision, _, taken, hidden, shown, layers, dropout, flags = given
        if (
            (into, flags) != (0, 0)
            or algorithm not in (0, 1, 3)
            or dropout
            or bias not in (0, 2)
            or not 0 < shown <= hidden
        ):
            return self._fail(_BAD, f"recurrent layers of {given}")
        if precision != (1 if kind == 1 else 0) or (shown != hidden and mode != 2):
            return self._fail(_BAD, f"recurrent layers of {given}")
        name, nonlinearity = _MODES[mode]
        more = {"proj_size": shown if shown != hidden else 0} if name == "LSTM" else {}
        if nonlinearity:
            more = {"nonlinearity": nonlinearity}
        settings = dict(bidirectional=bool(direction), bias=bool(bias), dtype=cuplug.float64, **more)
        self.recurrent[address] = kind, mode, (taken, hidden, layers), settings
        self.algorithms[address] = algorithm
        return 0

    def _cudnnSetRNNDataDescriptor(self, address: int, *given: Any) -> int:
        kind, layout, longest, rows, width, lengths, padding = given
        ends = lengths[:rows]
        if layout != 1 or padding or ends != sorted(ends, reverse=True) or ends[0] != longest or ends[-1] < 1:
            return self._fail(_BAD, f"packed sequences of lengths {ends}")
        self.recurrent[address] = kind, [sum(end > step for end in ends) for step in range(longest)], width
        return 0

    # --- weights

    def _cudnnGetRNNWeightSpaceSize(self, handle: int, layers: int, out: Any) -> int:
        del handle
        out[0] = self._space(layers)[1]
        return 0

    def _space(self, layers: int) -> tuple[dict[str, tuple[int, Any]], int]:
        """Where each parameter lies, with its shape; and the bytes of all."""
        kind = self.recurrent[layers][0]
        named, at = list(self._net(layers).named_parameters()), _GAP
        found: dict[str, tuple[int, Any]] = {}
        named.sort(key=lambda pair: (pair[0].startswith("bias"), pair[0]), reverse=True)
        for name, each in named:
            found[name] = at, tuple(each.shape)
            at += each.numel() * np.dtype(_TYPES[kind]).itemsize + _GAP
        return found, at

    def _net(self, layers: int) -> Any:
        _, mode, sizes, settings = self.recurrent[layers]
        return getattr(cuplug.nn, _MODES[mode][0])(*sizes, **settings)

    def _cudnnGetRNNWeightParams(
        self, _: int, layers: int, layer: int, size: int, space: int, part: int, *out: Any
    ) -> int:
        kind, mode, sizes, settings = self.recurrent[layers]
        places, total = self._space(layers)
        matrix, to_matrix, vector, to_vector = out
        if size != total or matrix not in self.recurrent or vector not in self.recurrent:
            return self._fail(_BAD, "a weight space of another size")
        directions = 2 if settings["bidirectional"] else 1
        suffix = f"_l{layer // directions}" + ("_reverse" if layer % directions else "")
        gates, item = _GATES[mode], np.dtype(_TYPES[kind]).itemsize
        side = "hr" if part == 2 * gates else "ih" if part < gates else "hh"
        start, shape = places[f"weight_{side}{suffix}"]
        to_matrix[0] = space + start + (0 if side == "hr" else part % gates * sizes[1] * shape[1] * item)
        to_matrix[0] += _GAP if self.apart and part % 2 else 0
        to_vector[0] = None
        if settings["bias"] and side != "hr":
            to_vector[0] = space + places[f"bias_{side}{suffix}"][0] + part % gates * sizes[1] * item
        return 0

    def _cudnnGetRNNTempSpaceSizes(self, _: int, layers: int, mode: int, data: int, work: Any, reserve: Any) -> int:
        if self.recurrent[layers][0] != self.recurrent[data][0]:
            return self._fail(_BAD, "data of another type")
        work[0], reserve[0] = 256, _RESERVE if mode else 0
        return 0

    # --- running

    def _cudnnRNNForward(self, handle: int, layers: int, mode: int, lengths: Any, *given: Any) -> int:
        x, x_at, y, y_at, h, hx, hy, c, cx, cy, size, space, scratch, scratch_at, reserve, reserve_at = given
        reason = self._wrong(layers, lengths, (size, x, y, h, c), (scratch, scratch_at))
        if reason or handle not in self.handles or (mode and (reserve != _RESERVE or not reserve_at)):
            return self._fail(_BAD, reason or "a handle, and memory to keep for the gradients, are wanted")
        if self.algorithms[layers] in self.refused:
            return self._fail(3000, "this algorithm is not for this device")
        self.runs.append("forward")
        self.chosen.append(self.algorithms[layers])
        arrays = self._arrays((x, x_at), (h, hx), (c, cx))
        outs = self._arrays((y, y_at), (h, hy), (c, cy))

        filled, sizes = self._filled(layers, space), self.recurrent[x][1]

        def work() -> None:
            with cuplug.no_grad():
                _store(outs, _run(filled(), sizes, [_double(each) for each in arrays]))
            if mode:
                self.kept[reserve_at] = [np.array(each) for each in (*arrays, outs[0])]
                _bytes(reserve_at, 1)[0] = 1

        writes = [_span(each) for each in outs] + ([(reserve_at, reserve)] if mode else [])
        self.submit(work, (*[_span(each) for each in arrays], (space, size)), tuple(writes), "cudnn")
        return 0

    def _cudnnRNNBackwardData_v8(self, handle: int, layers: int, lengths: Any, *given: Any) -> int:
        y, y_at, dy, x, dx, h, hx, dhy, dhx, c, cx, dcy, dcx = given[:13]
        size, space, scratch, scratch_at, reserve, reserve_at = given[13:]
        reason = self._wrong(layers, lengths, (size, x, y, h, c), (scratch, scratch_at))
        if reason or handle not in self.handles or reserve != _RESERVE or not (reserve_at and dy and dx):
            return self._fail(_BAD, reason or "a handle, what was kept, and gradients are wanted")
        self.runs.append("data")
        seen = self._arrays((h, hx), (c, cx), (y, y_at))
        states = seen[:-1]
        gradients = self._arrays((y, dy), (h, dhy or hx), (c, dcy or cx))
        outs = self._arrays((x, dx), (h, dhx), (c, dcx))
        filled, sizes = self._filled(layers, space), self.recurrent[x][1]

        def work() -> None:
            assert _bytes(reserve_at, 1)[0] == 1, "what forward kept serves once"
            kept = self.kept[reserve_at]
            for each, before in zip(seen, kept[1:], strict=True):
                assert (each == before).all(), "states and results are those of forward"
            taken = [_double(each) for each in gradients]
            for number, address in enumerate((dhy, dcy)[: len(states)], 1):
                taken[number] = taken[number] if address else taken[number] * 0
            operands = [_double(each) for each in kept[:-1]]
            found = _gradients(filled(), sizes, operands, taken)
            _store(outs, found[: len(outs)])
            self.kept[reserve_at] = [kept[0], *found[len(outs) :]]
            _bytes(reserve_at, 1)[0] = 2

        reads = [_span(each) for each in (*seen, *gradients)] + [(space, size)]
        writes = [_span(each) for each in outs] + [(reserve_at, reserve)]
        self.submit(work, tuple(reads), tuple(writes), "cudnn")
        return 0

    def _cudnnRNNBackwardWeights_v8(self, handle: int, layers: int, add: int, lengths: Any, *given: Any) -> int:
        x, x_at, h, hx, y, y_at, size, space, scratch, scratch_at, reserve, reserve_at = given
        reason = self._wrong(layers, lengths, (size, x, y, h, None), (scratch, scratch_at))
        if reason or handle not in self.handles or add != 0 or reserve != _RESERVE or not (hx and y_at):
            return self._fail(_BAD, reason or "gradients of weights are only added to others")
        self.runs.append("weights")
        (data,) = self._arrays((x, x_at))
        places = self._space(layers)[0]
        names = [name for name, _ in self._net(layers).named_parameters()]

        def work() -> None:
            assert _bytes(reserve_at, 1)[0] == 2, "gradients of the data come first"
            before, *grown = self.kept.pop(reserve_at)
            assert (data == before).all(), "the input is that of forward"
            kind = data.dtype
            for name, each in zip(names, grown, strict=True):
                start, shape = places[name]
                there = _array(space + start, shape, kind)
                there += each.numpy().astype(kind)

        self.submit(work, (_span(data), (reserve_at, reserve)), ((space, size),), "cudnn")
        return 0

    def _wrong(self, layers: int, lengths: Any, given: Any, scratch: Any) -> str:
        size, x, y, h, c = given
        kind, mode, (taken, hidden, deep), settings = self.recurrent[layers]
        directions = 2 if settings["bidirectional"] else 1
        shown = settings.get("proj_size") or hidden
        (x_kind, sizes, width), (y_kind, y_sizes, y_width) = self.recurrent[x], self.recurrent[y]
        states = {h: shown, **({c: hidden} if c else {})}
        if lengths is not None:
            return "lengths on the device are not wanted"
        if size != self._space(layers)[1] or scratch[0] != 256 or not scratch[1]:
            return "memory of another size"
        if (x_kind, y_kind, width, y_width, y_sizes) != (kind, kind, taken, shown * directions, sizes):
            return "data of other types or shapes"
        for each, length in states.items():
            if self.recurrent[each] != (kind, (deep * directions, sizes[0], length)):
                return f"states {self.recurrent[each]}"
        return "" if c is None or mode == 2 else "a state c"

    def _arrays(self, *pairs: Any) -> list[Any]:
        found = []
        for descriptor, address in pairs:
            if descriptor is None:
                continue
            kind, *rest = self.recurrent[descriptor]
            shape = rest[0] if len(rest) == 1 else (sum(rest[0]), rest[1])
            assert not address % 16, "addresses are multiples of 16"
            found.append(_array(address, shape, np.dtype(_TYPES[kind])))
        return found

    def _filled(self, layers: int, space: int) -> Callable[[], Any]:
        """What makes a layer of the weights that are there when it is called."""
        net, kind = self._net(layers), np.dtype(_TYPES[self.recurrent[layers][0]])
        places = self._space(layers)[0]

        def fill() -> Any:
            arrays = {name: _array(space + at, shape, kind) for name, (at, shape) in places.items()}
            net.load_state_dict({name: _double(each) for name, each in arrays.items()})
            return net

        return fill


def _run(net: Any, sizes: Any, operands: Any) -> list[Any]:
    data, *states = operands
    packed = cuplug.nn.utils.rnn.PackedSequence(data, cuplug.tensor(sizes))
    made, after = net(packed, tuple(states) if len(states) > 1 else states[0])
    return [made.data, *(after if len(states) > 1 else (after,))]


def _gradients(net: Any, sizes: Any, operands: Any, given: Any) -> list[Any]:
    with cuplug.enable_grad():
        wanted = [each.requires_grad_() for each in operands]
        made = _run(net, sizes, wanted)
        return list(cuplug.autograd.grad(made, [*wanted, *net.parameters()], given))


def _store(outs: Any, made: Any) -> None:
    for out, each in zip(outs, made, strict=True):
        out[...] = each.numpy().astype(out.dtype)


def _double(array: Any) -> Any:
    return cuplug.tensor(np.asarray(array, np.float64))


def _array(address: int, shape: Any, kind: Any) -> Any:
    count = int(np.prod(shape)) * kind.itemsize
    return np.frombuffer(_bytes(address, count), kind).reshape(shape)


def _bytes(address: int, count: int) -> Any:
    return (ctypes.c_uint8 * count).from_address(address)


def _span(array: Any) -> tuple[int, int]:
    return array.ctypes.data, array.nbytes
