"""``__shared__`` variables as references into the block's shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from ....allocators.errors import CompileError
from ..source import declarations as syntax
from ..source.edits import Edits
from ..source.tokens import Tokens
from . import guarded_arrays, lockstep


def share(
    tokens: Tokens,
    edits: Edits,
    number: int,
    head: int,
    semicolon: int,
    *,
    inside: bool,
    in_lockstep: bool,
    checked: bool,
    alone: bool,
) -> dict[str, str]:
    """Make references into shared memory of a declaration of shared variables. Those of one outside functions are
    declared in every function that mentions them: how, by name, is what this returns."""
    names = syntax.declarators(tokens, head, semicolon)
    words = tokens.slice(head, semicolon)
    for position in range(head, semicolon):
        if tokens[position] in ("__shared__", "static", "extern", "__device__"):
            edits.drop(position)
    if "extern" in words:
        references = _dynamic_references(tokens, names, head, inside=inside)
        for position in range(head, semicolon + 1):
            edits.drop(position)
    else:
        for name, position in names:
            if tokens[_behind_bounds(tokens, position)] == "=":
                file, line = tokens.line_of(position)
                raise CompileError(
                    f"{file}:{line}: the __shared__ variable {name!r} cannot have an initialiser: let threads write "
                    "it, and call __syncthreads()"
                )
        struct = f"__cuplug_shared_{number}"
        edits.before(head, f"struct {struct} {{")
        if alone:
            edits.after(semicolon, f"{guarded_arrays.names_function([name for name, _ in names])} }};")
            parts = {name: guarded_arrays.part_of(struct, place, name) for place, (name, _) in enumerate(names)}
            shared = {name: f"__cuplug::shared<__cuplug::OneShared<{part}>>().value" for name, part in parts.items()}
        else:
            told = guarded_arrays.names_of_parts(struct, [name for name, _ in names]) if checked else ""
            edits.after(semicolon, f"{told} }};")
            shared = {name: f"__cuplug::shared<{struct}>().{name}" for name, _ in names}
        kind = _instance_named(tokens, names, head, semicolon) or "auto"
        references = {name: f"{kind}& {name} = {reference};" for name, reference in shared.items()}
    if in_lockstep:
        references = {
            name: lockstep.wrap_shared(tokens, head, semicolon, name, text) for name, text in references.items()
        }
    if not inside:
        return references
    edits.after(semicolon, " ".join(references.values()))
    return {}


def _instance_named(tokens: Tokens, names: list[tuple[str, int]], head: int, semicolon: int) -> str:
    """The type of a declaration's only variable if it is written with arguments of a template, else nothing.

    Within that template, functions that are templates are called without ``template`` only where the type is written.
    """
    if len(names) != 1 or names[0][1] + 1 != semicolon:
        return ""
    kept = [p for p in tokens.without_attributes(head, names[0][1]) if tokens[p] not in ("__shared__", "static")]
    return " ".join(tokens[p] for p in kept) if tokens[names[0][1] - 1] == ">" else ""


def _dynamic_references(tokens: Tokens, names: list[tuple[str, int]], head: int, *, inside: bool) -> dict[str, str]:
    """``extern __shared__ T name[];``: all name the same memory, whose size the launch says."""
    first = names[0][1]
    while tokens[first - 1] == "(":  # T (name)[]
        first -= 1
    kept = [p for p in tokens.without_attributes(head, first) if tokens[p] not in ("__shared__", "static", "extern")]
    base = " ".join(tokens[position] for position in kept)
    references = {}
    for name, position in names:
        while tokens[position + 1] == ")":
            position += 1
        bounds = tokens.text(position + 1, _behind_bounds(tokens, position)).replace(" ", "")
        rest = bounds[bounds.index("]") + 1 :] if bounds else ""
        references[name] = f"{base} (&{name})[]{rest} = *({base} (*)[]{rest})__cuplug::dynamic_shared();"
        if inside:  # compilers refuse two types under one name, as nvcc does
            references[name] = f"{{ extern {base} {name}[]{rest}; }} {references[name]}"
    return references


def _behind_bounds(tokens: Tokens, position: int) -> int:
    """The position behind the ``[...]`` that follow a name."""
    end = position + 1
    while tokens[end] == "[":
        end = tokens.partner(end) + 1
    return end


def declare_shared(
    tokens: Tokens, edits: Edits, functions: Sequence[syntax.Declaration], references: dict[str, str]
) -> None:
    """Declare the shared variables of the file in the functions that mention them."""
    for function in functions:
        if function.kind != "function":
            continue
        mentioned = syntax.identifiers(tokens, *function.body) - syntax.identifiers(tokens, *function.head)
        wanted = [text for name, text in references.items() if name in mentioned]
        if wanted:  # in a block around the body, which may have variables of those names
            edits.after(function.body[0], f"{' '.join(wanted)} {{")
            edits.after(function.body[1], "}")
