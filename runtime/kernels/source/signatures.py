"""What the parameters of a source's kernels are called, and of which kinds they are.

For arguments on a GPU, whose driver tells offsets and sizes only. Types that are not understood stay unknown, and the
driver's sizes have the last word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from . import declarations as syntax
from .kernel_names import typed_name
from .tokens import Tokens

_KINDS = {
    **dict.fromkeys(["float", "double"], "f"),
    **dict.fromkeys(["half", "__half"], "h"),
    **dict.fromkeys(["__nv_bfloat16", "nv_bfloat16"], "g"),
    "bool": "b",
    **dict.fromkeys(("char", "short", "int", "long", "signed", "ptrdiff_t", "intptr_t", "clock_t", "wchar_t"), "i"),
    **dict.fromkeys(("int8_t", "int16_t", "int32_t", "int64_t"), "i"),
    **dict.fromkeys(("unsigned", "size_t", "uintptr_t", "uchar", "ushort", "uint", "ulong"), "u"),
    **dict.fromkeys(("uint8_t", "uint16_t", "uint32_t", "uint64_t"), "u"),
}
_SIZES = {"f": (4, 8), "h": (2,), "g": (2,), "b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "p": (8,)}
_IGNORED = frozenset({"const", "volatile", "struct", "enum", "typename", "std", "::", "int"})
_VECTOR = re.compile(r"(u?(char|short|int|long|longlong)|float|double)[1-4]$|dim3$|__half2$|half2$|__nv_bfloat162$")


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of one kernel as its source declares them."""

    name: str
    names: list[str]
    types: list[str]


def signatures(source: str, name_expressions: Sequence[str] = ()) -> dict[str, Signature]:
    """Every kernel of a source, and every instance that a name expression asks for, by name."""
    tokens = Tokens(source)
    aliases, structures = _aliases(tokens), _structures(tokens)
    found: dict[str, Signature] = {}
    kernels = [kernel for kernel in syntax.read_declarations(tokens).kernels if kernel.body]
    shared = Counter(kernel.qualified for kernel in kernels if kernel.template is None)
    for kernel in kernels:
        types = [_resolve(text, aliases, structures) for text in kernel.types]
        if kernel.template is None:
            name = kernel.qualified if shared[kernel.qualified] == 1 else typed_name(kernel.with_types)
            found[name] = Signature(name, kernel.names, types)
        for expression in name_expressions:
            base, _, rest = expression.partition("<")
            if base.strip().lstrip("&: ").split("::")[-1] != kernel.name:
                continue
            if kernel.instance and kernel.instance.replace(" ", "") != expression.replace(" ", ""):
                continue  # another specialisation
            values = Tokens(rest.rstrip().removesuffix(">"))
            arguments = [values.text(*part) for part in syntax.split(values, 0, len(values))]
            bound = {**aliases, **dict(zip(kernel.template or [], arguments))}  # noqa: B905 - defaults may follow
            types = [_resolve(text, bound, structures) for text in kernel.types]
            found[expression] = Signature(expression, kernel.names, types)
    return found


def kinds(signature: Signature | None, layout: Sequence[tuple[int, int]]) -> list[tuple[str, str]]:
    """Name and kind of every parameter, given offsets and sizes in bytes."""
    if signature is None or len(signature.types) != len(layout):
        return [(f"parameter {index}", "?") for index in range(len(layout))]
    return [
        (name, _kind(text, nbytes))
        for name, text, (_, nbytes) in zip(signature.names, signature.types, layout, strict=True)
    ]


def pointees(signature: Signature) -> list[str]:
    """What each parameter points to, as ``Parameter.pointee`` has it, if that is numbers or pointers; else nothing."""
    return [_pointee(text) for text in signature.types]


def _pointee(text: str) -> str:
    words = [word for word in text.split() if word not in _IGNORED - {"int", "struct"}]
    if words[-1:] == ["*"] and words.count("*") > 1 and "&" not in words:
        return "p8"
    if words[-1:] != ["*"] or "struct" in words or "&" in words:
        return ""
    words = [_SPELLED.get(word, word) for word in " ".join(_SPELLED.get(word, word) for word in words[:-1]).split()]
    names = [word for word in words if word not in ("unsigned", "signed", "int")]
    if not set(names) <= {"char", "short", "long"}:
        return _POINTEES.get(" ".join(words), "")
    size = 1 if "char" in names else 2 if "short" in names else 8 if "long" in names else 4
    return f"{'u' if 'unsigned' in words else 'i'}{size}" if words else ""


_SPELLED = {
    **{f"int{8 * size}_t": name for size, name in ((1, "signed char"), (2, "short"), (4, "int"), (8, "long"))},
    **{f"uint{8 * size}_t": f"unsigned {name}" for size, name in ((1, "char"), (2, "short"), (4, "int"), (8, "long"))},
    "uchar": "unsigned char",
    "ushort": "unsigned short",
    "uint": "unsigned int",
    "ulong": "unsigned long",
    "size_t": "unsigned long",
    "ptrdiff_t": "long",
}
_POINTEES = {
    "float": "f4",
    "double": "f8",
    "bool": "b1",
    "half": "h2",
    "__half": "h2",
    "__nv_bfloat16": "g2",
    "nv_bfloat16": "g2",
}


def _kind(text: str, nbytes: int) -> str:
    words = text.split()
    if "*" in words or "&" in words:
        kind = "p"
    elif "unsigned" in words:
        kind = "u"
    elif "struct" in words or _VECTOR.match(words[-1] if words else ""):
        kind = "s"
    else:
        core = [word for word in words if word not in _IGNORED] or [word for word in words if word == "int"]
        kind = _KINDS.get(core[-1], "?") if core else "?"
    if kind in _SIZES and nbytes not in _SIZES[kind]:
        return "?"
    return "s" if kind == "?" and nbytes not in (1, 2, 4, 8) else kind


def _resolve(text: str, aliases: dict[str, str], structures: set[str]) -> str:
    for _ in range(8):
        replaced = " ".join(aliases.get(word, word) for word in text.split())
        if replaced == text:
            break
        text = replaced
    return f"struct {text}" if structures.intersection(text.split()) else text


def _structures(tokens: Tokens) -> set[str]:
    """What the source defines as a structure, a class or a union, by itself or in a ``typedef``."""
    found = set()
    for position in range(len(tokens)):
        if tokens[position] not in ("struct", "class", "union") or tokens[position - 1] == "enum":
            continue
        for here in tokens.without_attributes(position + 1, min(position + 12, len(tokens))):
            if tokens[here] == "{":
                if tokens[position - 1] == "typedef":
                    found.add(tokens[tokens.partner(here) + 1])
                break
            if tokens[here + 1] in ("{", ":") and tokens[here].isidentifier():
                found.add(tokens[here])
            elif tokens[here] in (";", ",", ")", ">", ":"):
                break
    return found


def _aliases(tokens: Tokens) -> dict[str, str]:
    """What ``typedef``, ``using`` and ``#define`` name, where that is simple."""
    found = {}
    for index, kind in enumerate(tokens.kinds):
        if kind == "directive":
            match = re.match(r"\s*#\s*define\s+(\w+)\s+([A-Za-z_][\w \t*]*)$", tokens.texts[index].strip())
            if match:
                found[match[1]] = match[2].strip()
    for position in range(len(tokens)):
        if tokens[position] not in ("typedef", "using"):
            continue
        end = position
        while tokens[end] not in (";", "{", ""):
            end += 1
        if tokens[end] != ";":
            continue
        words = tokens.slice(position + 1, end)
        if tokens[position] == "typedef" and len(words) > 1 and "(" not in words and "[" not in words:
            found[words[-1]] = " ".join(words[:-1])
        elif tokens[position] == "using" and len(words) > 2 and words[1] == "=":
            found[words[0]] = " ".join(words[2:])
    return found
