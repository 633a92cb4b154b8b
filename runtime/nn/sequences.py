"""``cuplug.nn.utils.rnn``: sequences of several lengths, padded to one or packed without padding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ...allocators.errors import CuplugError
from ..tensor.core.dtypes import float16, float32, float64, int8, int16, int32, int64, uint8
from ..tensor.core.needed_tensors import layout_of, needed
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError
from ..tensor.ops.arguments.facts import typename
from ..tensor.ops.joining.joining import cat, stack
from ..tensor.ops.making.creation import full
from ..tensor.ops.making.from_values import tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class PackedSequence(NamedTuple):
    """Sequences without padding: their first steps, then their second ones, and so on, the longest sequence first.
    Made by ``pack_padded_sequence`` and ``pack_sequence``."""

    data: Tensor
    """(all steps of all sequences, ...)."""
    batch_sizes: Tensor
    """How many sequences have a first step, a second, and so on: int64, on the CPU."""
    sorted_indices: Tensor | None = None
    """Which sequence is the longest, which the next: int64, beside ``data``; None where they came so."""
    unsorted_indices: Tensor | None = None
    """The inverse."""

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a CUDA device."""
        return bool(self.data.is_cuda)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """With the data as ``Tensor.to`` makes it; itself where that changes nothing."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        orders = (each if each is None else each.to(data.device) for each in self[2:])
        return PackedSequence(data, self.batch_sizes, *orders)

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """On a CUDA device, as ``Tensor.cuda``."""
        return self.to(self.data.cuda(*args, **kwargs).device)

    def cpu(self) -> PackedSequence:
        """On the CPU."""
        return self.to("cpu")

    def byte(self) -> PackedSequence:
        """With elements of uint8."""
        return self.to(uint8)

    def char(self) -> PackedSequence:
        """With elements of int8."""
        return self.to(int8)

    def short(self) -> PackedSequence:
        """With elements of int16."""
        return self.to(int16)

    def int(self) -> PackedSequence:
        """With elements of int32."""
        return self.to(int32)

    def long(self) -> PackedSequence:
        """With elements of int64."""
        return self.to(int64)

    def half(self) -> PackedSequence:
        """With elements of float16."""
        return self.to(float16)

    def float(self) -> PackedSequence:
        """With elements of float32."""
        return self.to(float32)

    def double(self) -> PackedSequence:
        """With elements of float64."""
        return self.to(float64)

    def is_pinned(self) -> bool:
        """Whether the data is in pinned host memory."""
        return bool(self.data.is_pinned())

    def pin_memory(self) -> PackedSequence:
        """With the data in pinned host memory."""
        return self._replace(data=self.data.pin_memory())


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another, int64; None for None."""
    return None if permutation is None else needed(permutation).argsort()


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Sequences packed that are padded to one length.

    Args:
        input: (steps, n, ...), with ``batch_first`` (n, steps, ...).
        lengths: the number of steps of each sequence: numbers, or an int64 tensor on the CPU.
        batch_first: which of these shapes it is.
        enforce_sorted: whether the longest must come first. Otherwise they are sorted, and ``sorted_indices`` says how.

    Raises:
        ValueError: the input is empty, a length is not positive or beyond the input's steps, there are not n of them,
            or they are not sorted and ``enforce_sorted``.
    """
    if not layout_of(input).numel:
        raise ArgumentError("Cannot pack empty tensors.")
    counts = [int(each) for each in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
    steps = input.transpose(0, 1) if batch_first else input
    if len(counts) != steps.shape[1]:
        raise ArgumentError(f"pack_padded_sequence: {len(counts)} lengths for {steps.shape[1]} sequences")
    if not counts or min(counts) <= 0 or max(counts) > steps.shape[0]:
        raise ArgumentError(f"pack_padded_sequence: lengths are 1 to {steps.shape[0]}, the input's steps, not {counts}")
    order = None
    if enforce_sorted:
        if any(one < other for one, other in pairwise(counts)):
            raise ArgumentError(
                "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
                "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence"
            )
    else:
        places = sorted(range(len(counts)), key=lambda place: -counts[place])
        counts = [counts[place] for place in places]
        order = tensor(places, dtype=int64, device=input.device)
        steps = steps.index_select(1, order)
    sizes = [sum(each > step for each in counts) for step in range(counts[0])]
    data = cat([steps[step, :size] for step, size in enumerate(sizes)])
    return PackedSequence(data, tensor(sizes, dtype=int64, device="cpu"), order, invert_permutation(order))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The inverse of ``pack_padded_sequence``.

    Args:
        sequence: packed sequences.
        batch_first: whether the result is (n, steps, ...) instead of (steps, n, ...).
        padding_value: what stands after the end of a sequence.
        total_length: the number of steps; the longest sequence's if None.

    Returns:
        The padded sequences, and their lengths, int64 on the CPU.

    Raises:
        ValueError: a sequence is longer than ``total_length``.
    """
    if not isinstance(sequence, PackedSequence):
        raise TypeError(f"pad_packed_sequence() takes a PackedSequence, not {typename(sequence)}")
    sizes = [int(each) for each in sequence.batch_sizes.tolist()]
    if total_length is not None and total_length < len(sizes):
        raise ArgumentError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {len(sizes)}"
        )
    data, many = sequence.data, sizes[0]
    rows = []
    for part, size in zip(data.split(sizes), sizes, strict=True):
        short = full((many - size, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
        rows.append(part if size == many else cat([part, short]))
    missing = 0 if total_length is None else total_length - len(sizes)
    rows += [full((many, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)] * missing
    whole = cat([each.unsqueeze(0) for each in rows])
    lengths = tensor([sum(size > place for size in sizes) for place in range(many)], dtype=int64, device="cpu")
    if sequence.unsorted_indices is not None:
        whole = whole.index_select(1, sequence.unsorted_indices)
        lengths = lengths.index_select(0, sequence.unsorted_indices.cpu())
    return whole.transpose(0, 1) if batch_first else whole, lengths


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences of several lengths as one tensor.

    Args:
        sequences: tensors (steps, ...), alike but for the steps.
        batch_first: whether the result is (n, steps, ...) instead of (steps, n, ...).
        padding_value: what stands where a sequence has nothing.
        padding_side: ``right`` or ``left``: where that is.

    Raises:
        CuplugError: these are no sequences.
        ValueError: there is no such side, or no sequence.
    """
    if not isinstance(sequences, Iterable):
        raise CuplugError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    given: Sequence[Tensor] = list(sequences)
    if padding_side not in ("right", "left"):
        raise ArgumentError(f"pad_sequence: padding_side is 'right' or 'left', not {padding_side!r}")
    if not given:
        raise ArgumentError("pad_sequence: there are no sequences")
    longest = max(layout_of(each).shape[0] for each in given)
    rows = []
    for each in given:
        short = (longest - each.shape[0], *each.shape[1:])
        padding = full(short, padding_value, dtype=given[0].dtype, device=each.device)
        rows.append(cat([each, padding] if padding_side == "right" else [padding, each]))
    return stack(rows, 0 if batch_first else 1)


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences (steps, ...) of several lengths, packed: see ``pack_padded_sequence``.

    Raises:
        ValueError: there is none, or they are not sorted and ``enforce_sorted``.
    """
    lengths = [layout_of(each).shape[0] for each in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences of which ``pad_sequence`` made one tensor, each a tensor of its own."""
    rows = padded_sequences if batch_first else needed(padded_sequences).transpose(0, 1)
    counts = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    return [row[: int(count)].clone() for row, count in zip(rows, counts, strict=True)]


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of which ``pack_sequence`` made packed ones."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)
