"""Casts to integers, of which CUDA says what they make of numbers that are too large: by ``headers/integers.h``."""

from __future__ import annotations

from ..source.edits import Edits
from ..source.tokens import Tokens

_WORDS = frozenset({"int", "unsigned", "signed", "long", "short", "char"})
_NAMES = _WORDS.union(
    ("size_t", "uchar", "ushort", "uint", "ulong"),
    (f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
_BEFORE_CASTS = frozenset({"return", "case", "else", "do"})
"""The words behind which a type in brackets is a cast."""
_NO_OPERANDS = frozenset(
    {
        *("const", "volatile", "noexcept", "override", "final", "mutable", "requires", "__attribute__", "operator"),
        *("sizeof", "alignof"),
    }
)
"""Words behind a type in brackets that are part of a function's declaration, and those whose value is an integer."""
_PREFIXES = frozenset("+-!~*&")
_BEFORE_CALLS = frozenset("=(,+-*/%[?:&|!^") | {"return"}
"""What stands before ``int(x)`` where that is a value. Behind ``<`` it may be the type of a function."""


def define_casts(tokens: Tokens, edits: Edits) -> None:
    """Let casts to integers go by ``headers/integers.h``: ``(int)x``, ``static_cast<int>(x)`` and ``int(x)``.

    Where the operand of ``(int)x`` ends need not be known: a second cast, to a class, takes it.
    """
    texts = tokens.texts
    for named in [at for at, index in enumerate(tokens.words) if texts[index] in _NAMES]:
        first = named - 2 if tokens[named - 1] == "::" and tokens[named - 2] == "std" else named
        before, behind = tokens[first - 1], named + 1
        if tokens[named] in _WORDS:
            while tokens[behind] in _WORDS:
                behind += 1
        if before == "(" and tokens[behind] == ")":
            if _is_cast(tokens, first - 1) and _is_operand(tokens, behind + 1):
                edits.after(behind, f"(__cuplug::Cast<{tokens.text(first, behind)}>)")
        elif before == "<" and tokens[first - 2] == "static_cast" and tokens[behind] == ">":
            edits.replace(first - 2, "__cuplug::to_integer")
        elif before in _BEFORE_CALLS and tokens[behind] == "(" and behind == named + 1:
            inside = tokens[behind + 1]
            if inside not in _NAMES | {"*", "&", ")", "void", "float", "double", "const"} and not (
                _is_declared(tokens, first, named)
            ):
                for position in range(first, named):
                    edits.drop(position)
                edits.replace(named, f"__cuplug::to_integer<{tokens[named]}>")


def _is_declared(tokens: Tokens, first: int, named: int) -> bool:
    """Whether ``int(x)`` is the type of a function, or a parameter: ``void f(int (x))``, which has a space there."""
    before = tokens[first - 1]
    if before == "=":
        return tokens[first - 3] in ("class", "typename", "using")
    return before in ("(", ",") and not tokens.adjacent(named)


def _is_cast(tokens: Tokens, bracket: int) -> bool:
    """Whether a type in brackets is a cast, and not what a function takes or ``sizeof`` measures."""
    before = tokens[bracket - 1]
    if before == ")":  # of another cast
        here = bracket - 2
        while tokens.kind(here) == "word" or tokens[here] == "*":
            here -= 1
        return tokens[here] == "(" and here < bracket - 2
    return before != "]" and (tokens.kind(bracket - 1) != "word" or before in _BEFORE_CASTS)


def _is_operand(tokens: Tokens, position: int) -> bool:
    """Whether an operand begins here that is not a number written out."""
    while tokens[position] in _PREFIXES:
        position += 1
    text = tokens[position]
    return text in ("(", "::") or (tokens.kind(position) == "word" and text not in _NO_OPERANDS)
