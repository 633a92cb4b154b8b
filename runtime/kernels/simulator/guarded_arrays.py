"""Arrays under ``check="races"``: every shared variable and every array of a function stands by itself, with a name.

Between them lies what nobody may touch, so that reaching from one into its neighbour is seen
(``headers/memory.h``).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..source import declarations as syntax
from ..source.edits import Edits
from ..source.tokens import Tokens

_NO_ARRAY = frozenset(
    (
        *("return", "case", "goto", "using", "typedef", "static", "extern", "const", "constexpr", "union", "struct"),
        *("class", "enum", "delete", "new", "throw", "else", "do", "auto", "volatile", "operator", "__shared__"),
        *("__constant__", "thread_local", "friend", "public", "private", "protected", "template", "namespace"),
    )
)


def names_function(names: Sequence[str]) -> str:
    """A member function that tells the names of a structure's variables by their numbers."""
    answer = "".join(f"number == {number} ? {name!r} : ".replace("'", '"') for number, name in enumerate(names))
    return f'static constexpr const char* __cuplug_name(int number = 0) {{ return {answer}""; }}'


def names_of_parts(struct: str, names: Sequence[str]) -> str:
    """A member function that tells where in a structure its variables lie, and of what they are arrays."""
    each = "".join(
        f'__cuplug::named<decltype({struct}::{name})>("{name}", __builtin_offsetof({struct}, {name})), '
        for name in names
    )
    inside = f"static constexpr __cuplug::Named all[] = {{{each}{{}}}}; return all;"
    return f"static const __cuplug::Named* __cuplug_names() {{ {inside} }}"


def part_of(struct: str, number: int, name: str) -> str:
    """The type of one variable of a structure, by itself."""
    return f"{struct}, {number}, decltype({struct}::{name})"


def guard_local_arrays(tokens: Tokens, edits: Edits, functions: Sequence[syntax.Declaration]) -> None:
    """Let the arrays that functions declare, and do not initialise, lie between bytes that nobody may touch."""
    number = 0
    for function in functions:
        if function.kind != "function" or {"constexpr", "consteval"} & set(tokens.slice(*function.head)):
            continue
        position = function.body[0]
        while position < function.body[1]:
            if tokens[position] == "{" and _opens_type(tokens, position):
                position = tokens.partner(position)
            end = _array_declaration(tokens, position + 1) if tokens[position] in ("{", "}", ";") else None
            if end is not None:
                struct = f"__cuplug_local_{number}"
                number += 1
                names = [name for name, _ in syntax.declarators(tokens, position + 1, end)]
                edits.before(position + 1, f"struct {struct} {{")
                edits.after(end, f"{names_function(names)} }};")
                for place, name in enumerate(names):
                    guarded = f"__cuplug::Guarded<{part_of(struct, place, name)}> __cuplug_guarded_{name};"
                    edits.after(end, f"{guarded} auto& {name} = __cuplug_guarded_{name}.value;")
                position = end - 1
            position += 1


def _opens_type(tokens: Tokens, brace: int) -> bool:
    """Whether a brace opens a structure, whose members are no arrays of the function's."""
    for position in range(brace - 1, max(brace - 12, 0), -1):
        if tokens[position] in ("struct", "class", "union", "enum"):
            return True
        if tokens[position] in (";", "{", "}", "("):
            return False
    return False


def _array_declaration(tokens: Tokens, start: int) -> int | None:
    """The semicolon of a declaration of arrays without initialisers that begins here, or None."""
    position, words, brackets = start, 0, 0
    while tokens[position] != ";":
        text = tokens[position]
        if text == "[":
            if not words or tokens.kind(position - 1) not in ("word", "mark"):
                return None
            brackets += 1
            position = tokens.partner(position) + 1
            if brackets and tokens[position] not in ("[", ",", ";"):
                return None
            continue
        if text == "<" and words:
            behind = tokens.after_angles(position)
            if behind <= position or tokens[behind - 1] != ">":
                return None
            position = behind
            continue
        if tokens.kind(position) == "word":
            if text in _NO_ARRAY:
                return None
            words += 1
        elif text not in ("::", "*", ","):
            return None
        position += 1
    if not brackets or words < 2 or tokens[start + 1] in ("[", ","):
        return None
    return position
