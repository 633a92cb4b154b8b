"""Recurrent layers and their gradients by cuDNN, which goes from step to step itself: see ``RecurrentKernel``.

cuDNN takes all weights in one piece of memory, in an order that it tells. Parameters stay where they are: they are
copied there for each run, which takes as long as reading them twice, and their gradients are parts of such a piece.
Sequences are always packed; where all are of one length, that is how their steps lie anyway.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache

from ...core.dtypes import dtype, uint8
from ...core.layout import Layout
from ...core.shapes import Shape, contiguous_strides
from ...core.storage import Storage
from ...core.tensor import Tensor, make_tensor
from ...places.tables_with_gradients.library_table import Recurring
from .cudnn import Dnn, DnnError
from .cudnn_descriptors import DATA_TYPES

_MODES = {"RNN_RELU": 0, "RNN_TANH": 1, "LSTM": 2, "GRU": 3}  # cudnnRNNMode_t
_GATES = {"RNN_RELU": 1, "RNN_TANH": 1, "LSTM": 4, "GRU": 3}
_STANDARD, _PERSISTENT, _PERSISTENT_SMALL = 0, 1, 3  # cudnnRNNAlgo_t
_LINEAR_INPUT, _PADDING_DISABLED = 0, 0
_NO_BIAS, _DOUBLE_BIAS = 0, 2  # cudnnRNNBiasMode_t
_DEFAULT_MATH, _TENSOR_MATH, _FMA_MATH = 0, 1, 3  # cudnnMathType_t
_PACKED = 1  # cudnnRNNDataLayout_t
_INFERENCE, _TRAINING = 0, 1  # cudnnForwardMode_t
_ADD = 0  # cudnnWgradMode_t: to set them cuDNN does not do
_SHAPES = 64
"""Of how many batches of sequences the descriptors are kept."""


class CudnnRecurrent:
    """What cuDNN does of recurrent layers in one element type: see ``RecurrentKernel``."""

    def __init__(self, dnn: Dnn, work: Recurring, kind: dtype) -> None:
        """Describe the layers.

        Raises:
            DnnError: cuDNN does not do this.
        """
        self._dnn, self._place, self._work, self._kind = dnn, dnn.place, work, kind
        self._standard = _Layers(dnn, work, kind, _STANDARD)
        self._layers = lru_cache(maxsize=None)(self._with_algorithm)
        self._batch = lru_cache(maxsize=_SHAPES)(self._described)

    def forward(
        self, sizes: Sequence[int], data: Tensor, before: Sequence[Tensor], weights: Sequence[Tensor], *, keep: bool
    ) -> tuple[Tensor, list[Tensor], Tensor | None]:
        """See ``RecurrentKernel``.

        Raises:
            DnnError: cuDNN failed.
            OutOfMemoryError: there is no memory for the results, or for what cuDNN needs meanwhile.
        """
        batch = self._batch(tuple(sizes))
        try:
            return self._run(batch, data, before, weights, keep)
        except DnnError:
            if batch.layers is self._standard:
                raise
        batch.use(self._standard)  # what another algorithm does not do on this device
        return self._run(batch, data, before, weights, keep)

    def _run(
        self, batch: _Batch, data: Tensor, before: Sequence[Tensor], weights: Sequence[Tensor], keep: bool
    ) -> tuple[Tensor, list[Tensor], Tensor | None]:
        place, layers = self._place, batch.layers
        shape = data._layout.shape[0], self._work.shown * self._work.directions
        made = place.empty(Layout.of(place, self._kind, shape))
        after = [place.empty(each._layout) for each in before]
        mode = _TRAINING if keep else _INFERENCE
        with place.runtime.on_device(place.ordinal):
            handle = self._dnn.handle(place.stream_handle())
            space, (scratch, reserve) = layers.gathered(weights), self._rooms(handle, batch, mode)
            self._dnn.call(
                "cudnnRNNForward",
                *(handle, layers.address, mode, None, batch.data.address, data._address),
                *(batch.made.address, made._address, batch.h.address, before[0]._address, after[0]._address),
                *(batch.c_address, *(each[-1]._address if batch.c else None for each in (before, after))),
                *(layers.nbytes, space.address, *_sized(scratch), *_sized(reserve)),
            )
        place.launched()
        return made, after, reserve

    def backward(
        self,
        sizes: Sequence[int],
        operands: tuple[Tensor, Sequence[Tensor], Sequence[Tensor]],
        made: Tensor,
        given: Sequence[Tensor | None],
        reserve: Tensor,
        *,
        to_weights: bool,
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """See ``RecurrentKernel``. Raises as ``forward``."""
        place, batch = self._place, self._batch(tuple(sizes))
        layers, (data, before, weights) = batch.layers, operands
        to_data, to_before = place.empty(data._layout), [place.empty(each._layout) for each in before]
        addresses = [None if each is None else each._address for each in given]
        found: list[Tensor] = []
        with place.runtime.on_device(place.ordinal):
            handle = self._dnn.handle(place.stream_handle())
            space, (scratch, _) = layers.gathered(weights), self._rooms(handle, batch, _TRAINING, reserved=True)
            cells = (before[-1]._address, addresses[-1], to_before[-1]._address) if batch.c else (None, None, None)
            self._dnn.call(
                "cudnnRNNBackwardData_v8",
                *(handle, layers.address, None, batch.made.address, made._address, addresses[0]),
                *(batch.data.address, to_data._address),
                *(batch.h.address, before[0]._address, addresses[1], to_before[0]._address),
                *(batch.c_address, *cells),
                *(layers.nbytes, space.address, *_sized(scratch), *_sized(reserve)),
            )
            if to_weights:
                gradient = place.allocate(layers.nbytes)
                place.clear_bytes(gradient.address, layers.nbytes)
                self._dnn.call(
                    "cudnnRNNBackwardWeights_v8",
                    *(handle, layers.address, _ADD, None, batch.data.address, data._address),
                    *(batch.h.address, before[0]._address, batch.made.address, made._address),
                    *(layers.nbytes, gradient.address, *_sized(scratch), *_sized(reserve)),
                )
                found = layers.taken_apart(gradient)
        place.launched()
        return to_data, to_before, found

    def _rooms(
        self, handle: int, batch: _Batch, mode: int, *, reserved: bool = False
    ) -> tuple[Tensor | None, Tensor | None]:
        """Memory for cuDNN to work with, and what it keeps from forward to backward, unless that is there already."""
        scratch, reserve = batch.rooms(handle, mode)
        keep = mode == _TRAINING and not reserved
        return self._bytes(scratch), self._bytes(max(reserve, 1)) if keep else None

    def _bytes(self, count: int) -> Tensor | None:
        return self._place.empty(Layout.of(self._place, uint8, (count,))) if count else None

    def _described(self, sizes: tuple[int, ...]) -> _Batch:
        try:
            layers = self._layers(_fastest(self._work, self._kind, sizes))
        except DnnError:  # it has only the standard one for this
            layers = self._standard
        return _Batch(self._dnn, self._work, self._kind.name, sizes, layers)

    def _with_algorithm(self, algorithm: int) -> _Layers:
        if algorithm == _STANDARD:
            return self._standard
        return _Layers(self._dnn, self._work, self._kind, algorithm)


def _fastest(work: Recurring, kind: dtype, sizes: tuple[int, ...]) -> int:
    """The algorithm for batches of sequences with so many rows at each step: where they are all of one length, and
    layers are small or of one direction and of float16, one whose weights stay in the processors' registers. The limits
    are those that PyTorch settled by measuring (its ``cudnn/RNN.cpp``)."""
    if sizes[0] != sizes[-1] or work.shown != work.hidden:
        return _STANDARD
    gated = work.mode in ("LSTM", "GRU")
    if work.hidden <= (128 if gated else 256):
        return _PERSISTENT_SMALL
    rows, even = sizes[0], not (work.hidden % 128 or work.taken % 128 or sizes[0] % 8)
    alone = work.layers == work.directions == 1 and kind.name == "float16" and work.mode != "GRU"
    fits = work.hidden <= 1024 and rows <= 128 and (gated or rows < 96 or work.hidden < 896)
    if alone and even and fits:
        return _PERSISTENT
    return _STANDARD


class _Layers:
    """The layers as one algorithm runs them, and where it wants which weight."""

    def __init__(self, dnn: Dnn, work: Recurring, kind: dtype, algorithm: int) -> None:
        """Describe them.

        Raises:
            DnnError: cuDNN does not do this.
        """
        self._dnn, self._place, self._work, self._kind = dnn, dnn.place, work, kind
        precision = DATA_TYPES["float64" if kind.name == "float64" else "float32"]
        precise = kind.name == "float32" and not work.choosing.allow_tf32
        math = _TENSOR_MATH if kind.is_half else _FMA_MATH if precise else _DEFAULT_MATH
        self._descriptor = _Descriptor(dnn, "RNN")
        self.address = self._descriptor.address
        dnn.call(
            "cudnnSetRNNDescriptor_v8",
            *(self.address, algorithm, _MODES[work.mode], _DOUBLE_BIAS if work.bias else _NO_BIAS),
            *(work.directions - 1, _LINEAR_INPUT, DATA_TYPES[kind.name], precision),
            *(math, work.taken, work.hidden, work.shown, work.layers, None, _PADDING_DISABLED),
        )
        with self._place.runtime.on_device(self._place.ordinal):
            handle, room = dnn.handle(self._place.stream_handle()), ctypes.c_size_t()
            dnn.call("cudnnGetRNNWeightSpaceSize", handle, self.address, ctypes.byref(room))
            self.nbytes = int(room.value)
            """Of all weights together."""
            self._parts = self._find_parts(handle)

    def gathered(self, weights: Sequence[Tensor]) -> Storage:
        """The weights where cuDNN wants them."""
        space = self._place.allocate(self.nbytes)
        for part, weight in zip(self.taken_apart(space), weights, strict=True):
            self._place.copy(part, weight)
        return space

    def taken_apart(self, space: Storage) -> list[Tensor]:
        """The weights in such memory."""
        return [make_tensor(space, offset, layout) for offset, layout in self._parts]

    def _find_parts(self, handle: int) -> list[tuple[int, Layout]]:
        """Where in the piece of all weights each one lies, in elements from its beginning, and how.

        Raises:
            DnnError: not as gates of one weight one after the other.
        """
        work, gates = self._work, _GATES[self._work.mode]
        space = self._place.allocate(self.nbytes)
        matrix, vector = _Descriptor(self._dnn, "Tensor"), _Descriptor(self._dnn, "Tensor")

        def addresses(layer: int, part: int) -> tuple[int, int]:
            found = ctypes.c_void_p(), ctypes.c_void_p()
            self._dnn.call(
                "cudnnGetRNNWeightParams",
                *(handle, self.address, layer, self.nbytes, space.address, part),
                *(matrix.address, ctypes.addressof(found[0]), vector.address, ctypes.addressof(found[1])),
            )
            return found[0].value or 0, found[1].value or 0

        def part(starts: Sequence[int], shape: Shape) -> tuple[int, Layout]:
            layout = Layout.of(self._place, self._kind, (len(starts) * shape[0], *shape[1:]))
            begin, step = starts[0] - space.address, layout.nbytes // len(starts)
            apart = any(each != starts[0] + step * number for number, each in enumerate(starts))
            if apart or begin < 0 or begin + layout.nbytes > self.nbytes or begin % self._kind.itemsize:
                raise DnnError("it keeps the gates of a recurrent layer's weights apart")
            return begin // self._kind.itemsize, layout

        made = []
        for layer in range(work.layers * work.directions):
            taken = work.taken if layer < work.directions else work.shown * work.directions
            pairs = [addresses(layer, number) for number in range(2 * gates)]
            for first, width in ((0, taken), (gates, work.shown)):
                made.append(part([pair[0] for pair in pairs[first : first + gates]], (work.hidden, width)))
            if work.bias:
                made += [
                    part([pair[1] for pair in pairs[first : first + gates]], (work.hidden,)) for first in (0, gates)
                ]
            if work.shown != work.hidden:
                made.append(part([addresses(layer, 2 * gates)[0]], (work.shown, work.hidden)))
        return made


class _Descriptor:
    """A descriptor of a kind that has functions of its own, which is destroyed with this object."""

    def __init__(self, dnn: Dnn, kind: str) -> None:
        self.address: int | None = None
        self._destroy = getattr(dnn.library, f"cudnnDestroy{kind}Descriptor")
        made = ctypes.c_void_p()
        dnn.call(f"cudnnCreate{kind}Descriptor", ctypes.byref(made))
        self.address = made.value

    def __del__(self) -> None:
        try:
            if self.address:
                self._destroy(self.address)
        except Exception:  # at the interpreter's end
            pass


class _Batch:
    """The descriptors of sequences of certain lengths, and of states for them; and the algorithm for them."""

    def __init__(self, dnn: Dnn, work: Recurring, kind: str, sizes: tuple[int, ...], layers: _Layers) -> None:
        rows, steps, number = sizes[0], len(sizes), DATA_TYPES[kind]
        ends = [*sizes[1:], 0]
        lengths = [step for step in range(steps, 0, -1) for _ in range(sizes[step - 1] - ends[step - 1])]
        array = (ctypes.c_int32 * rows)(*lengths)
        self.data, self.made = _Descriptor(dnn, "RNNData"), _Descriptor(dnn, "RNNData")
        for each, width in ((self.data, work.taken), (self.made, work.shown * work.directions)):
            given = each.address, number, _PACKED, steps, rows, width, ctypes.addressof(array), None
            dnn.call("cudnnSetRNNDataDescriptor", *given)
        deep = work.layers * work.directions
        self.h = _states(dnn, number, (deep, rows, work.shown))
        self.c = _states(dnn, number, (deep, rows, work.hidden)) if work.mode == "LSTM" else None
        self._dnn = dnn
        self.use(layers)

    def use(self, layers: _Layers) -> None:
        """Take an algorithm."""
        self.layers = layers
        self._rooms: dict[int, tuple[int, int]] = {}

    @property
    def c_address(self) -> int | None:
        """Of the descriptor of ``c``, which only LSTM has."""
        return None if self.c is None else self.c.address

    def rooms(self, handle: int, mode: int) -> tuple[int, int]:
        """The bytes that cuDNN needs while it works, and those that it keeps for ``backward``."""
        found = self._rooms.get(mode)
        if found is None:
            sizes = ctypes.c_size_t(), ctypes.c_size_t()
            given = handle, self.layers.address, mode, self.data.address, *[ctypes.addressof(each) for each in sizes]
            self._dnn.call("cudnnGetRNNTempSpaceSizes", *given)
            found = self._rooms[mode] = int(sizes[0].value), int(sizes[1].value)
        return found


def _states(dnn: Dnn, kind: int, shape: Shape) -> _Descriptor:
    made, count = _Descriptor(dnn, "Tensor"), len(shape)
    lengths, steps = (ctypes.c_int * count)(*shape), (ctypes.c_int * count)(*contiguous_strides(shape))
    given = made.address, kind, count, ctypes.addressof(lengths), ctypes.addressof(steps)
    dnn.call("cudnnSetTensorNdDescriptor", *given)
    return made


def _sized(room: Tensor | None) -> tuple[int, int | None]:
    """Bytes and address of memory, as cuDNN is told of it."""
    return (0, None) if room is None else (room._layout.nbytes, room._address)
