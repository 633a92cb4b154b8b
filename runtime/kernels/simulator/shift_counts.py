"""Shifts whose counts may be too large for C++, of which CUDA says what they do: by ``headers/shifts.h``."""

from __future__ import annotations

from ..source.edits import Edits
from ..source.tokens import Tokens

_SHIFTS = frozenset({"<<", "<<=", ">>", ">>="})


def define_shifts(tokens: Tokens, edits: Edits) -> None:
    """Let shifts whose count is not written out, or is too large, go by ``headers/shifts.h``."""
    position = 0
    while position < len(tokens):
        text, length = tokens[position], 1
        if text == ">" and tokens[position + 1] == ">" and tokens.adjacent(position):
            text, length = ">>", 2
            if tokens[position + 2] == "=" and tokens.adjacent(position + 1):
                text, length = ">>=", 3
            if _closes_angles(tokens, position):
                position += length
                continue
        behind = position + length
        is_shift = text in _SHIFTS and tokens[behind] != "<" and tokens[position - 1] != "operator"
        if is_shift and not _is_small(tokens[behind]):
            edits.replace(position, f"{text} __cuplug::shift {text}")
            for rest in range(position + 1, behind):
                edits.drop(rest)
        position += length


def _closes_angles(tokens: Tokens, position: int) -> bool:
    """Whether ``>>`` ends two lists of a template's arguments: two are open since the statement or bracket began."""
    depth = opened = 0
    for here in range(position - 1, -1, -1):
        text = tokens[here]
        if text in (")", "]"):
            depth += 1
        elif text in ("(", "["):
            depth -= 1
        if depth < 0 or text in (";", "{", "}"):
            break
        if depth == 0:
            opened += (text == "<") - (text == ">" and tokens[here - 1] != "-")
    return opened >= 2


def _is_small(text: str) -> bool:
    """Whether a count is written out, and below 32."""
    digits = text.rstrip("uUlL")
    return digits.isdecimal() and int(digits) < 32
