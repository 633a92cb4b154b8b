"""What nvcc refuses in a PyCUDA program's source, and compilers for this machine take: the program is warned.

Tried with nvcc 13.0: templates, functions that share a name, and the headers below in ``extern "C" {}``, into which
PyCUDA puts a source; calls of functions without ``__device__`` by device code; warp functions without ``_sync``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....kernels.source.declarations import declarators, is_name, read_declarations
from ....kernels.source.items import SourceItems
from ....kernels.source.tokens import Tokens

__all__ = ["mangled_kernels", "refusals"]

_OF_TEMPLATES = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*<(vector|algorithm|complex|string|iostream|cuda_fp16\.h|cuda_bf16\.h|mma\.h|"
    r"curand_kernel\.h|cuda_pipeline\.h|(?:cooperative_groups|thrust|cub|cuda)/[^>]*|cooperative_groups\.h)>",
    re.MULTILINE,
)
_NUMBERS = frozenset(("bool", "char", "short", "int", "long", "float", "double", "unsigned", "signed", "static"))
_WITHOUT_MASK = frozenset(("__shfl", "__shfl_up", "__shfl_down", "__shfl_xor", "__ballot", "__any", "__all"))


def refusals(source: str, *, extern_c: bool) -> Iterator[str]:
    """What nvcc would refuse, in sentences. ``extern_c``: whether PyCUDA puts the source into ``extern "C" {}``."""
    tokens = Tokens(source)
    items = SourceItems(tokens, preprocessed=False)
    functions = [item for item in items.items if item.kind == "function"]
    heads = [tokens.slice(item.start, item.body) for item in functions]
    if extern_c:
        found = [*_templates(tokens), *(f"<{name}>" for name in _OF_TEMPLATES.findall(source))]
        texts: dict[str, set[str]] = {}
        for item, head in zip(functions, heads, strict=True):
            texts.setdefault(item.names[0], set()).add(" ".join(head))
        if "#if" not in source:
            found += [f"several functions {name}" for name, several in texts.items() if len(several) > 1]
        if found and not _leaves_braces(tokens):
            yield (
                f'PyCUDA puts the source into extern "C" {{}}, where nvcc refuses {", ".join(found)}: pass '
                'no_extern_c=True, and write extern "C" before each kernel'
            )
    for position in range(0 if "#if" not in source else len(tokens), len(tokens)):
        name = tokens[position]
        if name in _WITHOUT_MASK:
            _, line = tokens.line_of(position)
            yield f"nvcc refuses {name} in line {line} of the source for GPUs since Volta: use {name}_sync"
            break
    for_device = [
        item.marked or any("__device__" in items.macros.get(word, ()) for word in head)
        for item, head in zip(functions, heads, strict=True)
    ]
    for name, line in _extern_shared(tokens):
        yield f"nvcc refuses the shared variable {name} in line {line} of the source: one before has another type"
    of_files = {
        name
        for item in items.items
        if item.kind == "variable" and not item.marked and tokens[item.start] in _NUMBERS
        for name in item.names
    }
    marked = {item.names for item, is_marked in zip(functions, for_device, strict=True) if is_marked}
    of_host = {name for item in functions for name in item.names if item.names not in marked and not item.owner}
    for item, is_marked in zip(functions, for_device, strict=True):
        for position in range(item.body, item.end if is_marked else item.body):
            name = tokens[position]
            if name in of_host and tokens[position + 1] == "(" and tokens[position - 1] not in (".", "->", "::"):
                of_host.discard(name)
                _, line = tokens.line_of(position)
                yield f"nvcc refuses the call of {name} in line {line} of the source: {name} is not declared __device__"
            elif name in of_files and tokens[position - 1] not in (".", "->", "::"):
                of_files.discard(name)
                _, line = tokens.line_of(position)
                yield (
                    f"nvcc refuses the variable {name} in line {line} of the source: it is the host's; declare it "
                    "__device__ or __constant__"
                )


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


def _extern_shared(tokens: Tokens) -> Iterator[tuple[str, int]]:
    """Name and line of each dynamic shared variable that has the name of one before and another type."""
    types: dict[str, str] = {}
    for head, semicolon, _ in read_declarations(tokens).shared:
        if "extern" not in tokens.slice(head, semicolon):
            continue
        for name, position in declarators(tokens, head, semicolon):
            kind = tokens.text(head, position)
            if types.setdefault(name, kind) != kind:
                yield name, tokens.line_of(position)[1]


def _leaves_braces(tokens: Tokens) -> bool:
    """Whether a source closes the brace that PyCUDA opens."""
    depth = 0
    for position in range(len(tokens)):
        depth += (tokens[position] == "{") - (tokens[position] == "}")
        if depth < 0:
            return True
    return False
