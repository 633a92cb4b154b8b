"""Recurrent layers: ``RNN``, ``LSTM`` and ``GRU``, and their cells.

On CUDA cuDNN does this where it is installed. Elsewhere a layer multiplies all steps of its input by ``weight_ih`` at
once, then goes from step to step, where each needs the state that the one before it left. Packed sequences
(``nn.utils.rnn``) have fewer rows at later steps: the rows that are still there are the first, so that each step
changes as many rows of the state as it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..tensor import cudnn_switches
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, ShapeError
from ..tensor.ops.elementwise import elementwise_functions as each
from ..tensor.ops.joining.joining import cat, stack
from ..tensor.ops.making.creation import empty, zeros
from ..tensor.places.tables_with_gradients.library_table import Recurring
from . import init
from .activations import dropout as dropped
from .affine import linear
from .fused_recurrent import fused_recurrent
from .module import Module
from .parameter import Parameter
from .sequences import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

State = tuple[Tensor, ...]
"""What a step leaves for the next: ``(h,)``, for LSTM ``(h, c)``; each (rows, elements)."""
Step = Callable[[Tensor, State, Tensor, "Tensor | None", "Tensor | None"], State]
"""``step(input times weight_ih, state, weight_hh, bias_hh, weight_hr)``: the next state."""


def _rnn_step(activation: Callable[[Tensor], Tensor]) -> Step:
    def step(given: Tensor, state: State, weight: Tensor, bias: Tensor | None, _: Tensor | None) -> State:
        return (activation(given + linear(state[0], weight, bias)),)

    return step


def _lstm_step(given: Tensor, state: State, weight: Tensor, bias: Tensor | None, projection: Tensor | None) -> State:
    enter, forget, cell, leave = (given + linear(state[0], weight, bias)).chunk(4, -1)
    kept = each.sigmoid(forget) * state[1] + each.sigmoid(enter) * each.tanh(cell)
    shown = each.sigmoid(leave) * each.tanh(kept)
    return shown if projection is None else linear(shown, projection), kept


def _gru_step(given: Tensor, state: State, weight: Tensor, bias: Tensor | None, _: Tensor | None) -> State:
    reset, update, new = given.chunk(3, -1)
    from_state = linear(state[0], weight, bias).chunk(3, -1)
    fresh = each.tanh(new + each.sigmoid(reset + from_state[0]) * from_state[2])
    return (fresh + each.sigmoid(update + from_state[1]) * (state[0] - fresh),)


_STEPS: dict[str, Step] = {
    "RNN_TANH": _rnn_step(each.tanh),
    "RNN_RELU": _rnn_step(each.relu),
    "LSTM": _lstm_step,
    "GRU": _gru_step,
}
_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}
_NONLINEARITIES = {"tanh": "RNN_TANH", "relu": "RNN_RELU"}


def _mode_of(owner: str, nonlinearity: str) -> str:
    if nonlinearity not in _NONLINEARITIES:
        raise ArgumentError(f"{owner}: nonlinearity is 'tanh' or 'relu', not {nonlinearity!r}")
    return _NONLINEARITIES[nonlinearity]


class _Recurrent(Module):
    hidden_size: int

    def reset_parameters(self) -> None:
        """Draw new values: uniform within ``1 / sqrt(hidden_size)`` of 0."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)


class RNNBase(_Recurrent):
    """What ``RNN``, ``LSTM`` and ``GRU`` are: layers of steps, in one or both directions.

    Args:
        mode: ``RNN_TANH``, ``RNN_RELU``, ``LSTM`` or ``GRU``.
        input_size: the number of elements of a step of the input.
        hidden_size: the number of elements of a state.
        num_layers: how many layers there are; each takes what the one before it made.
        bias: whether there are ``bias_ih_l*`` and ``bias_hh_l*``.
        batch_first: whether inputs are (n, steps, elements) instead of (steps, n, elements).
        dropout: with which probability elements between layers are left out while training.
        bidirectional: whether there is a second row of states that goes from the last step to the first.
        proj_size: for LSTM: to how many elements ``h`` is reduced by ``weight_hr_l*``; 0 for not at all.
        device: where the parameters are.
        dtype: their element type.

    Raises:
        ValueError: a size is not positive, ``dropout`` is no probability, or there is no such mode.
        TypeError: ``bias`` or ``batch_first`` is no bool: ``dropout`` stands behind them.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if mode not in _STEPS:
            raise ArgumentError(f"{name}: mode is one of {', '.join(_STEPS)}, not {mode!r}")
        for setting, value in (("bias", bias), ("batch_first", batch_first)):
            if not isinstance(value, bool):
                raise TypeError(f"{name}: {setting} should be of type bool, got: {type(value).__name__}")
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ArgumentError(f"{name}: dropout is a probability, not {dropout!r}")
        if hidden_size <= 0 or num_layers <= 0:
            raise ArgumentError(f"{name}: hidden_size and num_layers are positive, not {hidden_size} and {num_layers}")
        if not 0 <= proj_size < hidden_size or (proj_size and mode != "LSTM"):
            raise ArgumentError(f"{name}: proj_size is for LSTM, at least 0 and below hidden_size, not {proj_size}")
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        made = {"device": device, "dtype": dtype}
        gates, shown = _GATES[mode] * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            taken = input_size if layer == 0 else shown * self._directions
            for suffix in self._suffixes(layer):
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (gates, taken), "weight_hh": (gates, shown)}
                if bias:
                    shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for kind, shape in shapes.items():
                    self.register_parameter(kind + suffix, Parameter(empty(shape, **made)))
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: self._directions]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters, by layer and direction."""
        suffixes = [suffix for layer in range(self.num_layers) for suffix in self._suffixes(layer)]
        return [[getattr(self, kind + suffix) for kind in self._kinds] for suffix in suffixes]

    @property
    def _kinds(self) -> tuple[str, ...]:
        """What weights a layer has in each direction."""
        biases = ("bias_ih", "bias_hh") if self.bias else ()
        return ("weight_ih", "weight_hh", *biases, *(("weight_hr",) if self.proj_size else ()))

    def flatten_parameters(self) -> None:
        """Do nothing: torch's lays parameters side by side for cuDNN, here they are copied there for each use."""

    def forward(self, input: Any, hx: Any = None) -> Any:
        """What all steps leave in the last layer, and the states after the last step.

        Args:
            input: (steps, n, input_size), with ``batch_first`` (n, steps, input_size), without n for one sequence; or a
                ``PackedSequence``.
            hx: the states before the first step, (layers * directions, n, elements), for LSTM a pair ``(h, c)``; zeros
                if None.

        Returns:
            ``(output, states)``: the output is like the input, with ``elements * directions`` elements; the states are
            like ``hx``.

        Raises:
            ValueError: the shapes do not fit.
        """
        if isinstance(input, PackedSequence):
            sizes = [int(each) for each in input.batch_sizes.tolist()]
            data, after = self._run(input.data, sizes, self._before(input.data, sizes[0], hx, input.sorted_indices))
            after = tuple(_permuted(each, input.unsorted_indices) for each in after)
            return input._replace(data=data), self._shown(after)
        if input.ndim not in (2, 3) or input.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__}: an input of shape {list(input.shape)}; 2 or 3 dimensions are needed, and "
                f"{self.input_size} elements in the last"
            )
        single = input.ndim == 2
        if single:
            hx = hx.unsqueeze(1) if isinstance(hx, Tensor) else hx and tuple(each.unsqueeze(1) for each in hx)
        steps = input.unsqueeze(1) if single else input.transpose(0, 1) if self.batch_first else input
        count, rows = steps.shape[:2]
        if not count:
            raise ShapeError(f"{type(self).__name__}: Expected sequence length to be larger than 0 in RNN")
        flat = steps.reshape(count * rows, self.input_size)
        made, after = self._run(flat, [rows] * count, self._before(flat, rows, hx, None))
        made = made.view(count, rows, made.shape[1])
        if single:
            return made.squeeze(1), self._shown(tuple(each.squeeze(1) for each in after))
        return made.transpose(0, 1) if self.batch_first else made, self._shown(after)

    def _shown(self, states: State) -> Any:
        return states if self.mode == "LSTM" else states[0]

    def _before(self, like: Tensor, rows: int, hx: Any, order: Tensor | None) -> State:
        """The states before the first step, each (layers * directions, rows, elements)."""
        lengths = (self.proj_size or self.hidden_size, self.hidden_size)[: 2 if self.mode == "LSTM" else 1]
        shapes = [(self.num_layers * self._directions, rows, length) for length in lengths]
        if hx is None:
            kind = self._parameters["weight_ih_l0"].dtype
            return tuple(zeros(shape, dtype=kind, device=like.device) for shape in shapes)
        given = tuple(hx) if self.mode == "LSTM" else (hx,)
        if [tuple(each.shape) for each in given] != shapes:
            found = ", ".join(str(list(each.shape)) for each in given)
            wanted = ", ".join(str(list(each)) for each in shapes)
            raise ShapeError(f"{type(self).__name__}: states of shape {found}, and {wanted} are needed")
        return tuple(_permuted(each, order) for each in given)

    def _run(self, data: Tensor, sizes: Sequence[int], before: State) -> tuple[Tensor, State]:
        """Of rows of all steps, one step after the other with as many rows as ``sizes`` says: the last layer's, and the
        states after the last step."""
        dropping = self.dropout if self.training else 0.0
        at_once, after = 1 if dropping else self.num_layers, []
        for layer in range(0, self.num_layers, at_once):
            if layer and dropping:
                data = dropped(data, dropping, True)
            part = slice(layer * self._directions, (layer + at_once) * self._directions)
            own = tuple(each[part] for each in before) if dropping else before
            data, states = self._stack(data, sizes, own, layer, at_once)
            after.append(states)
        return data, after[0] if len(after) == 1 else tuple(cat(list(each)) for each in zip(*after, strict=True))

    def _stack(self, data: Tensor, sizes: Sequence[int], before: State, first: int, count: int) -> tuple[Tensor, State]:
        """As ``_run``, of some layers, between which nothing is dropped: by cuDNN, or step by step."""
        kinds = self._kinds
        suffixes = [suffix for layer in range(first, first + count) for suffix in self._suffixes(layer)]
        weights = [getattr(self, kind + suffix) for suffix in suffixes for kind in kinds]

        def work() -> Recurring:
            sizes = data.shape[-1], self.hidden_size, self.proj_size or self.hidden_size, count, self._directions
            return Recurring(self.mode, *sizes, self.bias, cudnn_switches.choosing())

        def compute(data: Tensor, before: Sequence[Tensor], weights: Sequence[Tensor]) -> tuple[Tensor, State]:
            named = [dict(zip(kinds, weights[at:], strict=False)) for at in range(0, len(weights), len(kinds))]
            return _step_by_step(_STEPS[self.mode], self._directions, data, sizes, before, named)

        made = fused_recurrent(work, data, sizes, before, weights, compute)
        return compute(data, before, weights) if made is None else made

    def extra_repr(self) -> str:
        """The sizes, and settings that are not the default."""
        told = f"{self.input_size}, {self.hidden_size}"
        for name, default in _DEFAULTS.items():
            if getattr(self, name) != default:
                told += f", {name}={getattr(self, name)}"
        return told


_DEFAULTS = {
    "proj_size": 0,
    "num_layers": 1,
    "bias": True,
    "batch_first": False,
    "dropout": 0.0,
    "bidirectional": False,
}


def _step_by_step(
    step: Step,
    directions: int,
    data: Tensor,
    sizes: Sequence[int],
    before: Sequence[Tensor],
    weights: Sequence[dict[str, Tensor]],
) -> tuple[Tensor, State]:
    """What the last layer makes of rows of all steps, and the states after the last step. ``weights``: of each layer
    and direction."""
    after = []
    for layer in range(0, len(weights), directions):
        made = []
        for number in range(layer, layer + directions):
            own, backwards = weights[number], number > layer
            given = linear(data, own["weight_ih"], own.get("bias_ih"))
            state = tuple(each[number] for each in before)
            outputs = []
            parts = list(zip(given.split(list(sizes)), sizes, strict=True))
            for part, rows in parts[::-1] if backwards else parts:
                whole = rows == sizes[0]
                used = state if whole else tuple(each[:rows] for each in state)
                new = step(part, used, own["weight_hh"], own.get("bias_hh"), own.get("weight_hr"))
                outputs.append(new[0])
                state = new if whole else tuple(cat([n, s[rows:]]) for n, s in zip(new, state, strict=True))
            made.append(cat(outputs[::-1] if backwards else outputs))
            after.append(state)
        data = made[0] if len(made) == 1 else cat(made, -1)
    return data, tuple(stack(list(each)) for each in zip(*after, strict=True))


def _permuted(state: Tensor, order: Tensor | None) -> Tensor:
    return state if order is None else state.index_select(1, order)


class RNN(RNNBase):
    """Steps ``h' = tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh)``, or with ``relu``: see ``RNNBase``.

    Raises:
        ValueError: as ``RNNBase``; or there is no such nonlinearity: ``tanh`` or ``relu``.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        mode = _mode_of(type(self).__name__, nonlinearity)
        sizes = (input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        super().__init__(mode, *sizes, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory: gates say what enters the cell, what stays and what is shown: see ``RNNBase``, which says
    what it raises. The rows of the weights are those of the gates to enter, to forget, of the cell and to leave."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = (input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size)
        super().__init__("LSTM", *sizes, device=device, dtype=dtype)


class GRU(RNNBase):
    """Gated recurrent units: gates say what of the state is seen, and how much of it stays: see ``RNNBase``, which says
    what it raises. The rows of the weights are those of the gates to reset and to update, and of the new state."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = (input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        super().__init__("GRU", *sizes, device=device, dtype=dtype)


class RNNCellBase(_Recurrent):
    """One step of a recurrent layer, with weights of its own."""

    mode = "RNN_TANH"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        gates, made = _GATES[self.mode] * hidden_size, {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(empty(gates, input_size, **made))
        self.weight_hh = Parameter(empty(gates, hidden_size, **made))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty(gates, **made)) if bias else None)
        self.reset_parameters()

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """The state after a step.

        Args:
            input: (n, input_size), or (input_size).
            hx: the state before, (n, hidden_size) or (hidden_size), for ``LSTMCell`` a pair ``(h, c)``; zeros if None.

        Raises:
            ValueError: the shapes do not fit.
        """
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__}: an input of shape {list(input.shape)}; 1 or 2 dimensions are needed, and "
                f"{self.input_size} elements in the last"
            )
        shape = (*input.shape[:-1], self.hidden_size)
        if hx is None:
            nothing = zeros(shape, dtype=input.dtype, device=input.device)
            before: State = (nothing, nothing)
        else:
            before = tuple(hx) if self.mode == "LSTM" else (hx,)
            for state in before:
                if tuple(state.shape) != shape:
                    raise ShapeError(f"{type(self).__name__}: a state of shape {list(state.shape)} for {list(shape)}")
        given = linear(input, self.weight_ih, self.bias_ih)
        made = _STEPS[self.mode](given, before, self.weight_hh, self.bias_hh, None)
        return made if self.mode == "LSTM" else made[0]

    def extra_repr(self) -> str:
        """The sizes, and settings that are not the default."""
        told = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")
        return told + (", nonlinearity=relu" if getattr(self, "nonlinearity", "tanh") == "relu" else "")


class RNNCell(RNNCellBase):
    """One step of ``RNN``.

    Raises:
        ValueError: there is no such nonlinearity: ``tanh`` or ``relu``.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.mode = _mode_of(type(self).__name__, nonlinearity)
        self.nonlinearity = nonlinearity


class LSTMCell(RNNCellBase):
    """One step of ``LSTM``: ``(h, c)`` from ``(h, c)``."""

    mode = "LSTM"


class GRUCell(RNNCellBase):
    """One step of ``GRU``."""

    mode = "GRU"
