"""Loops in which a thread waits for what another thread of its block writes: the others must come by meanwhile.

On a GPU since Volta every thread goes on, whatever its neighbours do. Here one thread of a block runs until it waits
at a barrier or in a warp function. So a loop that looks at memory until it changes lets the others run, too. Such loops
are known by what they look at: a volatile variable, an atomic function, or a load that passes by the nearest cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..source import declarations as syntax
from ..source.edits import Edits
from ..source.tokens import Tokens

__all__ = ["let_others_run"]

_LOOKS = frozenset({"volatile", "__ldcg", "__ldcv"})
_ATOMICS = frozenset(
    {
        *("atomicCAS", "atomicExch", "atomicAdd", "atomicSub", "atomicInc", "atomicDec"),
        *("atomicAnd", "atomicOr", "atomicXor", "atomicMin", "atomicMax"),
    }
)


def let_others_run(tokens: Tokens, edits: Edits, functions: Sequence[syntax.Declaration]) -> bool:
    """Let the other threads of a block run in each loop that waits. Whether there is any."""
    looks = _LOOKS | _volatile_names(tokens)
    found = False
    for function in functions:
        start, end = function.body
        for position in range(start, end):
            word = tokens[position]
            if word == "do":
                found |= _until(tokens, edits, position, end, looks)
            elif word in ("while", "for") and tokens[position + 1] == "(":
                found |= _while(tokens, edits, position, looks)
    return found


def _volatile_names(tokens: Tokens) -> set[str]:
    """The variables and parameters that are declared volatile."""
    names = set[str]()
    for position in range(len(tokens)):
        if tokens[position] == "volatile":
            behind = position + 1
            while behind < len(tokens) and (syntax.is_word(tokens[behind]) or tokens[behind] in ("*", "&", "::")):
                behind += 1
            if syntax.is_name(tokens[behind - 1]) and behind - 1 > position + 1:
                names.add(tokens[behind - 1])
    return names


def _while(tokens: Tokens, edits: Edits, position: int, looks: set[str] | frozenset[str]) -> bool:
    """``while (look) ...``, also at the end of ``do``; ``while (true) { ... look ... }`` and ``for (;;)``."""
    bracket = position + 1
    close = tokens.partner(bracket)
    condition = tokens.slice(bracket + 1, close)
    endless = condition in (["true"], ["1"], [";", ";"])
    if endless and tokens[close + 1] == "{":
        if not looks.intersection(tokens.slice(close + 1, tokens.partner(close + 1))):
            return False
        edits.after(close + 1, "__cuplug::spin();")
        return True
    if tokens[position] == "for" or not (looks | _ATOMICS).intersection(condition):
        return False
    if len(condition) > 1 and syntax.is_word(condition[0]) and syntax.is_word(condition[1]):
        return False  # it declares a variable
    edits.after(bracket, "__cuplug::spun() && (")
    edits.before(close, ")")
    return True


def _until(tokens: Tokens, edits: Edits, position: int, end: int, looks: set[str] | frozenset[str]) -> bool:
    """``do { ... look ... } while (...);``, whose condition speaks of what was seen."""
    brace = position + 1
    if tokens[brace] != "{" or brace >= end or not looks.intersection(tokens.slice(brace, tokens.partner(brace))):
        return False
    edits.after(brace, "__cuplug::spin();")
    return True
