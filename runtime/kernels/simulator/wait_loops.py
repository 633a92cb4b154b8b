"""Loops in which a thread waits for what another thread of its block writes: the others must come by meanwhile.

On a GPU since Volta every thread goes on, whatever its neighbours do. Here one thread of a block runs until it waits
at a barrier or in a warp function. So a loop that looks at memory until it changes lets the others run, too. Such loops
are known by what they look at: a volatile variable, an atomic function, or a load that passes by the nearest cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..source import declarations as syntax
from ..source.edits import Edits
from ..source.tokens import Tokens

_LOOKS = frozenset({"volatile", "__ldcg", "__ldcv"})
"""What reads memory anew each time."""
_ATOMICS = frozenset(
    {
        *("atomicCAS", "atomicExch", "atomicAdd", "atomicSub", "atomicInc", "atomicDec"),
        *("atomicAnd", "atomicOr", "atomicXor", "atomicMin", "atomicMax"),
    }
)
_COUNTS = frozenset({"atomicAdd", "atomicSub", "atomicInc", "atomicDec"})
"""With these a thread also takes the next piece of work, for which it waits for nobody: see ``_draws``."""
_MOST_WORDS = 60
"""A function of more words is no small one that looks at memory for its caller, as ``try_lock()`` is."""


def let_others_run(tokens: Tokens, edits: Edits, functions: Sequence[syntax.Declaration]) -> set[str]:
    """Let the other threads of a block run in each loop that waits. The names of the functions with such loops, and of
    the classes whose functions these are."""
    volatile = list(_volatile_names(tokens))
    extents = [(function.head[0], function.body[1]) for function in functions]
    everywhere = {name for position, name, _ in volatile if not any(start <= position <= end for start, end in extents)}
    within = [
        _LOOKS | everywhere | {name for position, name, seen in volatile if seen and start <= position <= end}
        for start, end in extents
    ]
    asked = {
        function.name for function, looks in zip(functions, within, strict=True) if _looks_for(tokens, function, looks)
    }
    found = set[str]()
    for function, looks in zip(functions, within, strict=True):
        start, end = function.body
        waits = False
        done: dict[int, int] = {}  # the braces behind ``do``, by where its ``while`` stands
        for position in range(start, end):
            word = tokens[position]
            if word == "do" and tokens[position + 1] == "{":
                done[tokens.partner(position + 1) + 1] = position + 1
                waits |= _until(tokens, edits, position + 1, looks)
            elif word in ("while", "for") and tokens[position + 1] == "(":
                waits |= _while(tokens, edits, position, done.get(position), looks, asked)
        if waits:
            found |= {function.name, *(scope.name for scope in function.scopes if scope.kind == "type")} - {""}
    return found


def _volatile_names(tokens: Tokens) -> Iterator[tuple[int, str, bool]]:
    """What is declared volatile: where, its name, and whether other threads see it if a function declares it: what it
    points to, or what is shared. Variables of a thread's own are volatile so that compilers keep them."""
    for position in range(len(tokens)):
        if tokens[position] == "volatile":
            behind = position + 1
            while behind < len(tokens) and (syntax.is_word(tokens[behind]) or tokens[behind] in ("*", "&", "::")):
                behind += 1
            if syntax.is_name(tokens[behind - 1]) and behind - 1 > position + 1:
                before = position
                while before > 0 and tokens[before] not in (";", "{", "}", "(", ")", ","):
                    before -= 1
                words = tokens.slice(before, behind)
                is_array = tokens[behind] == "[" and tokens[before] in ("(", ",")
                seen = is_array or not {"*", "&", "__shared__"}.isdisjoint(words)
                yield position, tokens[behind - 1], seen
                while tokens[before] not in ("(", ",") and tokens[behind] in ("[", ","):  # int a[2], *b;
                    behind = tokens.partner(behind) + 1 if tokens[behind] == "[" else behind + 1
                    while tokens[behind] == "*":
                        behind += 1
                    if syntax.is_name(tokens[behind]):
                        yield position, tokens[behind], seen
                        behind += 1


def _looks_for(tokens: Tokens, function: syntax.Declaration, looks: frozenset[str]) -> bool:
    """Whether a small function looks at memory for its caller: ``bool try_lock() { return atomicCAS(...) == 0; }``."""
    start, end = function.body
    if end - start > _MOST_WORDS or function.name == "operator":
        return False
    body = tokens.slice(start, end)
    atomics = _ATOMICS.intersection(body)
    return not looks.isdisjoint(body) or (bool(atomics) and ("0" in body or not atomics <= _COUNTS))


def _while(
    tokens: Tokens, edits: Edits, position: int, brace: int | None, looks: frozenset[str], asked: set[str]
) -> bool:
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
    looks |= asked
    if tokens[position] == "for" or not (looks | _ATOMICS).intersection(condition):
        return False
    if _declares(condition) or (looks.isdisjoint(condition) and _draws(condition)):
        return False
    if brace is not None and _retries(condition, tokens.slice(brace, position)):
        return False
    edits.after(bracket, "__cuplug::spun() && (")
    edits.before(close, ")")
    return True


def _declares(condition: list[str]) -> bool:
    """Whether a condition declares a variable: ``int i = ...``, ``Node *node = ...``."""
    if len(condition) < 2 or not syntax.is_word(condition[0]):
        return False
    equals = next(_assignments(condition), 0)
    return syntax.is_word(condition[1]) or (equals > 1 and condition[equals - 2] in ("*", "&", ">"))


def _draws(condition: list[str]) -> bool:
    """Whether a condition counts on and keeps what the count was, ``(i = atomicAdd(next, 1)) < n``: the thread takes
    work and waits for nobody."""
    atomics = _ATOMICS.intersection(condition)
    return any(_assignments(condition)) and atomics <= _COUNTS and "0" not in condition


def _assignments(words: list[str]) -> Iterator[int]:
    """Where ``=`` stands by itself; ``!=`` is two words."""
    for position in range(1, len(words) - 1):
        if words[position] == "=" and words[position + 1] != "=" and words[position - 1] not in ("=", "!", "<", ">"):
            yield position


def _retries(condition: list[str], body: list[str]) -> bool:
    """Whether this is ``do { old = *x; ... } while (atomicCAS(x, old, ...) != old);``: a thread tries again because
    another one came first, which holds nobody up. (Where ``old`` is computed, as the unlocked form of a lock, it may.)
    """
    if condition[-3:-1] != ["!", "="] or _ATOMICS.intersection(condition) != {"atomicCAS"}:
        return False
    old = condition[-1]
    values = [body[at + 1 : [*body, ";"].index(";", at)] for at in _assignments(body) if body[at - 1] == old]
    return condition.count(old) > 1 and bool(values) and all(map(_is_read, values))


def _is_read(value: list[str]) -> bool:
    """Whether an expression is what stands in memory, at most with its bits as another type."""
    for word, following in zip(value, [*value[1:], ""], strict=True):
        if following == "(" and syntax.is_name(word) and not word.startswith("__"):
            return False
        if not syntax.is_word(word) and word not in ("*", ".", "->", "[", "]", "(", ")", "::", "<", ">"):
            return False
    return bool(value)


def _until(tokens: Tokens, edits: Edits, brace: int, looks: frozenset[str]) -> bool:
    """``do { ... look ... } while (...);``, whose condition speaks of what was seen."""
    behind = tokens.partner(brace) + 1
    body, condition = tokens.slice(brace, behind), tokens.slice(behind + 2, tokens.partner(behind + 1))
    if not looks.intersection(body) or _retries(condition, body):
        return False
    edits.after(brace, "__cuplug::spin();")
    return True
