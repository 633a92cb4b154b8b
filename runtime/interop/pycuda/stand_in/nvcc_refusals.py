"""What nvcc refuses in a PyCUDA program's source, and compilers for this machine take: the program is warned.

Tried with nvcc 13.0: templates, functions that share a name, and the headers below in ``extern "C" {}``, into which
PyCUDA puts a source; calls of functions without ``__device__`` by device code; warp functions without ``_sync``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ....kernels.source.declarations import declarators, is_name, is_word, read_declarations
from ....kernels.source.items import DEVICE, Item, SourceItems
from ....kernels.source.tokens import Tokens

_OF_TEMPLATES = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*<(vector|algorithm|complex|string|iostream|cuda_fp16\.h|cuda_bf16\.h|mma\.h|"
    r"curand_kernel\.h|cuda_pipeline\.h|(?:cooperative_groups|thrust|cub|cuda)/[^>]*|cooperative_groups\.h)>",
    re.MULTILINE,
)
_NUMBERS = frozenset(("bool", "char", "short", "int", "long", "float", "double", "unsigned", "signed", "static"))
_WITHOUT_MASK = frozenset(("__shfl", "__shfl_up", "__shfl_down", "__shfl_xor", "__ballot", "__any", "__all"))


def refusals(source: str, *, extern_c: bool, options: Sequence[str] = ()) -> Iterator[str]:
    """What nvcc would refuse, in sentences. ``extern_c``: whether PyCUDA puts the source into ``extern "C" {}``."""
    tokens = Tokens(source)
    items = SourceItems(tokens, preprocessed=False)
    functions = [item for item in items.items if item.kind == "function"]
    heads = [tokens.slice(item.start, item.body) for item in functions]
    if extern_c:
        found = [*_templates(tokens), *(f"<{name}>" for name in _OF_TEMPLATES.findall(source))]
        texts: dict[str, set[str]] = {}
        for item, head in zip(functions, heads, strict=True):
            name = item.names[0]
            if name == "operator":
                name = "".join(head[head.index(name) : head.index("(", head.index(name) + 2)])
            texts.setdefault(name, set()).add(" ".join(head))
        if "#if" not in source:
            found += [f"several functions {name}" for name, several in texts.items() if len(several) > 1]
        if found and not _leaves_braces(tokens):
            yield (
                f'PyCUDA puts the source into extern "C" {{}}, where nvcc refuses {", ".join(found)}: pass '
                'no_extern_c=True, and write extern "C" before each kernel'
            )
    if "#if" in source:  # which of the lines are compiled is not known
        return
    known = {*items.macros, *(name for item in functions for name in item.names)}
    for position in range(len(tokens)):
        name = tokens[position]
        if name in _WITHOUT_MASK - known:
            _, line = tokens.line_of(position)
            yield f"nvcc refuses {name} in line {line} of the source for GPUs since Volta: use {name}_sync"
            break
    of_files = {
        name
        for item in items.items
        if _may_change_or_is_array(item, tokens) and not _is_for_device(item, items, tokens)
        for name in item.names
    }
    relaxed = "--expt-relaxed-constexpr" in options
    of_standard = set[str]() if relaxed else {"min", "max", "clamp", "numeric_limits"}
    declared = {item.names for item in items.items if _is_for_device(item, items, tokens, constexpr=False)}
    of_host = {
        name: "constexpr" in head
        for item, head in zip(functions, heads, strict=True)
        if item.names not in declared and not item.owner and not (relaxed and "constexpr" in head)
        for name in item.names
    }
    for item, head in zip(functions, heads, strict=True):
        if "constexpr" in head or not _is_for_device(item, items, tokens):
            continue
        own = _own_names(tokens, item)
        # Of what such a function calls, nvcc warns only.
        also_for_host = any("__host__" in (word, *items.macros.get(word, ())) for word in head)
        for position in range(item.body, item.end):
            name = tokens[position]
            before = tokens[position - 1]
            if (
                name in of_standard
                and not also_for_host
                and tokens.slice(position - 2, position) == ["std", "::"]
                and tokens[position - 3] != "::"
                and (name != "numeric_limits" or _is_call_of_member(tokens, position))
            ):
                of_standard.clear()
                _, line = tokens.line_of(position)
                instead = "write the number" if name == "numeric_limits" else f"write {name}"
                yield (
                    f"nvcc refuses std::{name} in line {line} of the source: {instead}, or pass "
                    "options=['--expt-relaxed-constexpr']"
                )
            if name in own or before in (".", "->", "::", "goto") or _is_unevaluated(tokens, position):
                continue
            if name in of_host and tokens[position + 1] == "(" and not also_for_host:
                _, line = tokens.line_of(position)
                yield (
                    f"nvcc refuses the call of {name} in line {line} of the source: {name} is not declared __device__"
                    + (": declare it, or pass options=['--expt-relaxed-constexpr']" if of_host.pop(name) else "")
                )
            elif name in of_files and not (before in (";", "{", "}", ")") and tokens[position + 1] == ":"):  # a label
                of_files.discard(name)
                _, line = tokens.line_of(position)
                yield (
                    f"nvcc refuses the variable {name} in line {line} of the source: it is the host's; declare it "
                    "__device__ or __constant__"
                )


def _is_for_device(item: Item, items: SourceItems, tokens: Tokens, *, constexpr: bool = True) -> bool:
    """Whether an item is marked for the device, by its own words or by a macro's; ``constexpr``: also if it is that."""
    words = tokens.slice(item.start, item.body or item.end)
    marked = item.marked if constexpr else not DEVICE.isdisjoint(words)
    return marked or any(DEVICE.intersection(items.macros.get(word, ())) for word in words)


def _is_call_of_member(tokens: Tokens, position: int) -> bool:
    """Whether a name of a template begins a call such as ``numeric_limits<float>::max()``."""
    behind = tokens.after_angles(position + 1)
    return tokens[behind] == "::" and tokens[behind + 2] == "("


def _is_unevaluated(tokens: Tokens, position: int) -> bool:
    """Whether a name stands only for its type."""
    position -= 1
    while tokens[position] in ("(", "*"):
        position -= 1
    return tokens[position] in ("sizeof", "decltype")


def _may_change_or_is_array(item: Item, tokens: Tokens) -> bool:
    """Whether an item is a variable of numbers, other than a constant that nvcc puts in the place of its name."""
    words = tokens.slice(item.start, item.end)
    if item.kind == "variable":
        return words[0] in _NUMBERS
    return (
        item.kind == "statement"
        and "const" in words[:2]
        and words[words.index("const") + 1] in _NUMBERS
        and ("[" in words and "(" not in words and "extern" not in words)
    )


def _own_names(tokens: Tokens, function: Item) -> set[str]:
    """The names of a function's parameters and local variables, and perhaps a few more."""
    own = set(tokens.slice(function.start, function.body))
    for position in range(function.body, function.end):
        if tokens[position] not in (";", "{", "}", "(", ")", ":"):
            continue
        first = behind = position + 1
        while behind < function.end and (tokens[behind] in ("*", "&") or is_word(tokens[behind])):
            behind += 1
        words = [word for word in tokens.slice(first, behind) if is_word(word)]
        if len(words) > 1 and words[0] not in ("return", "else", "goto", "case", "delete", "new", "throw"):
            end = next((at for at in range(behind, function.end) if tokens[at] == ";"), function.end)
            own.update(name for name, _ in declarators(tokens, first, end))
    return own


def mangled_kernels(source: str) -> set[str]:
    """The kernels outside of ``extern "C"``, which a GPU knows by mangled names."""
    tokens = Tokens(source)
    found = set()
    for function in read_declarations(tokens).declarations:
        head = tokens.slice(*function.head)
        in_c = "extern" in head or any(scope.kind == "linkage" for scope in function.scopes)
        if "__global__" in head and not in_c and is_name(function.name):
            found.add(function.name)
    return found


def _templates(tokens: Tokens) -> Iterator[str]:
    """The first template outside of ``extern "C++" {}``."""
    position = 0
    while position < len(tokens):
        if tokens.slice(position, position + 3) == ["extern", '"C++"', "{"]:
            position = tokens.partner(position + 2)
        elif tokens[position] == "template":
            yield f"the template in line {tokens.line_of(position)[1]}"
            return
        position += 1


def _leaves_braces(tokens: Tokens) -> bool:
    """Whether a source closes the brace that PyCUDA opens."""
    depth = 0
    for position in range(len(tokens)):
        depth += (tokens[position] == "{") - (tokens[position] == "}")
        if depth < 0:
            return True
    return False
