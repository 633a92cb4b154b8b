"""How tensors print: torch's format (``torch/_tensor_str.py``), with cuplug's names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.dtypes import bool_, get_default_dtype, int64
from ...core.tensor import Tensor
from ..copying.copying import cpu
from ..joining.joining import cat
from ..shapes.views import narrow

Format = Callable[[Any], str]


class _Options:
    precision = 4
    threshold = 1000
    edgeitems = 3
    linewidth = 80
    sci_mode: bool | None = None


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors print.

    Args:
        precision: digits after the point.
        threshold: print tensors of more elements in part.
        edgeitems: elements to print at each end of a dimension then.
        linewidth: characters of a line.
        profile: ``default``, ``short`` or ``full``, before the others.
        sci_mode: whether to print floats in scientific notation; None lets the values decide.

    Raises:
        ValueError: there is no such profile.
    """
    profiles = {
        "default": (4, 1000, 3, 80),
        "short": (2, 1000, 2, 80),
        "full": (4, math.inf, 3, 80),
    }
    if profile is not None:
        if profile not in profiles:
            raise ValueError(f"no profile {profile!r}; there are {', '.join(profiles)}")
        found = profiles[profile]
        _Options.precision, _Options.threshold, _Options.edgeitems, _Options.linewidth = found  # type: ignore[assignment]
    for name, value in (
        ("precision", precision),
        ("threshold", threshold),
        ("edgeitems", edgeitems),
        ("linewidth", linewidth),
    ):
        if value is not None:
            setattr(_Options, name, value)
    _Options.sci_mode = sci_mode


def text_of(tensor: Tensor) -> str:
    """What ``repr`` shows: the elements, what of size, type and device does not go without saying, and of a tensor that
    requires gradients what made it."""
    notes = []
    if not tensor.is_cpu:
        notes.append(f"device='{tensor.device}'")
    usual = tensor.dtype in (get_default_dtype(), int64, bool_)
    if not tensor.numel():
        if tensor.dim() != 1:
            notes.append(f"size={tuple(tensor.shape)}")
        if tensor.dtype is not get_default_dtype():
            notes.append(f"dtype={tensor.dtype!r}")
        body = "[]"
    else:
        if not usual:
            notes.append(f"dtype={tensor.dtype!r}")
        body = _body(tensor)
    if tensor.requires_grad:
        made_by = tensor.grad_fn
        notes.append("requires_grad=True" if made_by is None else f"grad_fn=<{made_by.name()}>")
    return _with_notes("tensor(" + body, notes)


def _with_notes(text: str, notes: list[str]) -> str:
    last = len(text) - text.rfind("\n") + 1  # two more than there are, as torch counts
    for note in notes:
        if last + len(note) + 2 > _Options.linewidth:
            text += ",\n       " + note
            last = 7 + len(note)
        else:
            text += ", " + note
            last += len(note) + 2
    return text + ")"


def _body(tensor: Tensor) -> str:
    summarize = tensor.numel() > _Options.threshold
    shown = _edges(tensor) if summarize else tensor
    values = cpu(shown)._host
    if values.dtype.itemsize == 2 and tensor.dtype.kind == "f":
        values = values.astype(np.float32)
    form, width = _format_for(values)
    return _block(values, tensor.shape, 0, len("tensor("), summarize, form, width)


def _edges(tensor: Tensor) -> Tensor:
    """The first and last positions of every dimension, side by side."""
    edge = _Options.edgeitems
    for axis, length in enumerate(tensor.shape):
        if length > 2 * edge:
            parts = [narrow(tensor, axis, 0, edge), narrow(tensor, axis, length - edge, edge)]
            tensor = cat(parts, axis)
    return tensor


def _block(values: Any, shape: Any, depth: int, indent: int, summarize: bool, form: Format, width: int) -> str:
    """``values`` has the positions to show; ``shape`` is the whole tensor's."""
    left = shape[depth:]
    if not left:
        return form(values.item())
    edge = _Options.edgeitems
    cut = summarize and left[0] > 2 * edge
    if len(left) == 1:
        items = [form(each) for each in values.tolist()]
        if cut:
            items.insert(edge, " ...")
        per_line = max(1, (_Options.linewidth - indent) // (width + 2))
        lines = [", ".join(items[start : start + per_line]) for start in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    blocks = [_block(each, shape, depth + 1, indent + 1, summarize, form, width) for each in values]
    if cut:
        blocks.insert(edge, "...")
    return "[" + ("," + "\n" * (len(left) - 1) + " " * (indent + 1)).join(blocks) + "]"


def _format_for(values: Any) -> tuple[Format, int]:
    """How to print each of ``values``, and the width of most of them: torch measures only what is finite and not 0."""
    if values.dtype.kind != "f":
        width = max(len(str(each)) for each in values.ravel().tolist())
        return (lambda value: str(value).rjust(width)), width
    measured = values[np.isfinite(values) & (values != 0)].astype(np.float64)
    form = _float_form(measured)
    width = max((len(form(each)) for each in measured.tolist()), default=1)
    return (lambda value: form(value).rjust(width)), width


def _float_form(measured: Any) -> Format:
    precision = _Options.precision
    sizes = np.abs(measured)
    scientific = _Options.sci_mode
    if scientific is None:
        scientific = bool(
            sizes.size and (sizes.max() / sizes.min() > 1000.0 or sizes.max() > 1.0e8 or sizes.min() < 1.0e-4)
        )
    if scientific and sizes.size:
        return lambda value: f"{value:.{precision}e}"
    if (sizes == np.ceil(sizes)).all():
        return lambda value: f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"
    return lambda value: f"{value:.{precision}f}"
