"""The table of updates: what is done to whole lists of tensors at once, as optimisers do it to all parameters.

A list has rows: tensors that belong together, as a parameter, its gradient and what is remembered of it, all of one
type and number of elements. A line says what happens to each of their elements, in statements that are Python and CUDA
C alike: so NumPy and a kernel, which does it for a whole list in one launch, follow from one text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Update:
    """One line of the table."""

    name: str
    tensors: str
    """A letter for each tensor of a row, by which the statements call its element."""
    written: str
    """Those that are written, which come first."""
    numbers: tuple[str, ...]
    """What the statements call the numbers that come with the list."""
    statements: tuple[str, ...]
    """Assignments. They may use ``sqrt``, ``maximum`` and ``finite``, which is 1 or 0."""
    shared: str = ""
    """``flag``: one float32 is given besides, which becomes 1 if ``good`` is 0 anywhere. ``factor``: one float32 is
    given, which statements call ``factor``."""
    run: Callable[..., None] = field(init=False)
    """``run(*arrays, *numbers, shared)``: NumPy's implementation, of arrays of one dimension and the type to compute
    in."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "run", _with_numpy(self))

    def __repr__(self) -> str:
        return f"<update {self.name}>"


_PIECE = 1 << 15
"""Elements that are worked on at a time: what the statements make on the way stays in the processor's cache."""


def _with_numpy(line: Update) -> Callable[..., None]:
    letters = tuple(line.tensors)
    given = ", ".join((*(f"{each}_" for each in letters), *line.numbers, "shared"))  # arrays of one dimension
    lines = [f"    {each} = {each}_[part]" for each in letters]
    lines += [f"    {each}" for each in line.statements]
    lines += [f"    {each}_[part] = {each}" for each in line.written]
    if line.shared == "flag":
        lines.append("    if not all(good): shared[...] = 1")
    head = "factor = shared.item()" if line.shared == "factor" else "pass"
    source = f"def run({given}):\n  {head}\n  for part in pieces({letters[0]}_):\n" + "\n".join(lines)
    names: dict[str, Any] = {"sqrt": np.sqrt, "maximum": np.maximum, "finite": np.isfinite, "all": np.all}
    names["pieces"] = _pieces
    exec(compile(source, f"<update {line.name}>", "exec"), names)
    made: Callable[..., None] = names["run"]
    return made


def _pieces(array: Any) -> Iterator[slice]:
    return (slice(start, start + _PIECE) for start in range(0, len(array), _PIECE))


_DECAYED = "g = sign * g + decay * p"

# fmt: off
_TABLE = (
    Update("sgd", "pg", "p", ("rate", "decay", "sign"),
           (_DECAYED, "p = p - rate * g")),
    Update("sgd_momentum", "pmg", "pm", ("rate", "decay", "sign", "keep", "take", "ahead", "behind"),
           (_DECAYED, "m = keep * m + take * g", "p = p - rate * (ahead * g + behind * m)")),
    Update("adam", "pmvg", "pmv", ("rate", "root", "eps", "first", "second", "decay", "sign", "shrink"),
           (_DECAYED, "p = p * shrink", "m = first * m + (1 - first) * g", "v = second * v + (1 - second) * (g * g)",
            "p = p - rate * (m / (sqrt(v) * root + eps))")),
    Update("amsgrad", "pmvxg", "pmvx", ("rate", "root", "eps", "first", "second", "decay", "sign", "shrink"),
           (_DECAYED, "p = p * shrink", "m = first * m + (1 - first) * g", "v = second * v + (1 - second) * (g * g)",
            "x = maximum(x, v)", "p = p - rate * (m / (sqrt(x) * root + eps))")),
    Update("rmsprop", "pvg", "pv", ("rate", "eps", "alpha", "decay", "sign"),
           (_DECAYED, "v = alpha * v + (1 - alpha) * (g * g)", "p = p - rate * (g / (sqrt(v) + eps))")),
    Update("rmsprop_momentum", "pvmg", "pvm", ("rate", "eps", "alpha", "decay", "sign", "momentum"),
           (_DECAYED, "v = alpha * v + (1 - alpha) * (g * g)", "m = momentum * m + g / (sqrt(v) + eps)",
            "p = p - rate * m")),
    Update("rmsprop_centred", "pvcg", "pvc", ("rate", "eps", "alpha", "decay", "sign"),
           (_DECAYED, "v = alpha * v + (1 - alpha) * (g * g)", "c = alpha * c + (1 - alpha) * g",
            "p = p - rate * (g / (sqrt(v - c * c) + eps))")),
    Update("rmsprop_centred_momentum", "pvcmg", "pvcm", ("rate", "eps", "alpha", "decay", "sign", "momentum"),
           (_DECAYED, "v = alpha * v + (1 - alpha) * (g * g)", "c = alpha * c + (1 - alpha) * g",
            "m = momentum * m + g / (sqrt(v - c * c) + eps)", "p = p - rate * m")),
    Update("adagrad", "psg", "ps", ("rate", "eps", "decay", "sign"),
           (_DECAYED, "s = s + g * g", "p = p - rate * (g / (sqrt(s) + eps))")),
    Update("adadelta", "psdg", "psd", ("rate", "eps", "rho", "decay", "sign"),
           (_DECAYED, "s = rho * s + (1 - rho) * (g * g)", "g = g * sqrt(d + eps) / sqrt(s + eps)",
            "d = rho * d + (1 - rho) * (g * g)", "p = p - rate * g")),
    Update("adamax", "pmxg", "pmx", ("rate", "eps", "first", "second", "decay", "sign"),
           (_DECAYED, "m = first * m + (1 - first) * g", "x = maximum(second * x, maximum(g, -g) + eps)",
            "p = p - rate * (m / x)")),
    Update("nadam", "pmvg", "pmv", ("now", "then", "root", "eps", "first", "second", "decay", "sign", "shrink"),
           (_DECAYED, "p = p * shrink", "m = first * m + (1 - first) * g", "v = second * v + (1 - second) * (g * g)",
            "p = p - (now * g + then * m) / (sqrt(v) * root + eps)")),
    Update("radam_warming", "pmvg", "pmv", ("rate", "first", "second", "decay", "sign", "shrink"),
           (_DECAYED, "p = p * shrink", "m = first * m + (1 - first) * g", "v = second * v + (1 - second) * (g * g)",
            "p = p - rate * m")),
    Update("radam", "pmvg", "pmv", ("rate", "eps", "first", "second", "decay", "sign", "shrink"),
           (_DECAYED, "p = p * shrink", "m = first * m + (1 - first) * g", "v = second * v + (1 - second) * (g * g)",
            "p = p - rate * (m / (sqrt(v) + eps))")),
    Update("unscale", "g", "g", ("scale",),
           ("g = g * scale", "good = finite(g)"), shared="flag"),
    Update("multiply", "g", "g", (),
           ("g = g * factor",), shared="factor"),
    Update("copy", "ab", "a", (), ("a = b",)),
    Update("add", "ab", "a", (), ("a = a + b",)),
)
# fmt: on

UPDATES = {line.name: line for line in _TABLE}
