"""Kernels' names: as programs give them, as C++ writes them in full, and mangled."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Sequence
from difflib import get_close_matches

from ....allocators.errors import DriverError

_NOT_FOUND = 500
_SYNONYMS = {"uchar": "unsigned char", "ushort": "unsigned short", "uint": "unsigned int", "ulong": "unsigned long"}
_SYNONYMS |= {"size_t": "unsigned long"}


def find_kernel(name: str, known: Sequence[str], source: str) -> str:
    """The kernel that a program means: its full name, or the only one whose name ends so. Of kernels that share a name
    (overloads, which ``known`` lists with their parameters' types) the one with the types that ``name`` gives. The
    ``source`` tells whether it is a template.

    Raises:
        DriverError: ``CUDA_ERROR_NOT_FOUND``; the message lists what is known.
    """
    wanted = _compact(plain_name(name))
    full = demangle(name)
    same_types = [other for other in known if "(" in full and typed_name(other) == typed_name(full)]
    exact = [other for other in known if _compact(plain_name(other)) == wanted]
    ending = [other for other in known if _compact(plain_name(other)).split("<")[0].endswith(f"::{wanted}")]
    for candidates in (same_types, exact, ending):
        if len(candidates) == 1:
            return candidates[0]
    what, how = f"no kernel {name!r}", ""
    if exact or ending:
        what = f"{len(exact or ending)} kernels are called {name!r}; say which with its parameters' types"
    elif _is_template(wanted.split("<")[0], source):
        what = f"kernel {name!r} is a template"
        instance = wanted if "<" in wanted else f"{wanted}<...>"
        how = f" (name instances in name_expressions, or in the source: template __global__ void {instance}(...);)"
    elif close := get_close_matches(name, known, 1):
        how = f"; did you mean {close[0]!r}?"
    raise DriverError(
        _NOT_FOUND, "CUDA_ERROR_NOT_FOUND", f"{what}; the module has {', '.join(sorted(known)) or 'none'}{how}"
    )


def _is_template(name: str, source: str) -> bool:
    """Whether a source has a template of kernels that is called so."""
    called = re.compile(rf"\b{re.escape(name)}\s*\(")
    for statement in re.split("[;{}]", source):
        template = re.search(r"\btemplate\s*<", statement)
        kernel = statement.find("__global__", template.end()) if template else -1
        if kernel >= 0 and called.search(statement, kernel):
            return True
    return False


def plain_name(name: str) -> str:
    """A name without the parameters that a demangled one has; a mangled one in plain, as far as that is easy."""
    mangled = re.match(r"_Z(N?)((?:\d+[A-Za-z_]\w*)+)", name)
    if mangled:
        rest, parts = mangled[2], []
        while match := re.match(r"(\d+)", rest):
            length = int(match[1])
            start = len(match[1])
            parts.append(rest[start : start + length])
            rest = rest[start + length :]
            if not mangled[1]:
                break
        return "::".join(parts)
    return name[: _bracket(name)].removeprefix("void ").lstrip("& ").removeprefix("::").strip()


def typed_name(name: str) -> str:
    """A name with its parameters' types, written in one way of the many that C++ has."""
    bracket = _bracket(name)
    parameters = name[bracket + 1 : name.rfind(")")] if bracket < len(name) else ""
    types = [_type(part) for part in re.split(r",(?![^<]*>)", parameters) if part.strip() not in ("", "void")]
    return f"{_compact(plain_name(name))}({', '.join(types)})"


def _type(text: str) -> str:
    """``unsigned const *const`` as ``const int unsigned*``: words in order, without what is no part of the type."""
    levels = []
    *pointed, last = re.sub(r"\b(?:struct|__restrict__|__restrict|restrict)\b", " ", text).split("*")
    for level in [*pointed, re.sub(r"\b(?:const|volatile)\b", " ", last)]:
        words = " ".join(_SYNONYMS.get(word, word) for word in level.split()).split()
        if "long" in words or "short" in words:
            words = [word for word in words if word != "int"]
        elif words in (["unsigned"], ["const", "unsigned"], ["unsigned", "const"]):
            words.append("int")
        levels.append(" ".join(sorted(words)))
    return "*".join(levels)


def _bracket(name: str) -> int:
    """Where the parameters begin, or the end."""
    depth = 0
    for position, character in enumerate(name):
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0:
            return position
    return len(name)


def _compact(name: str) -> str:
    return re.sub(r"\s+", "", name)


def demangle(symbol: str) -> str:
    """A C++ name in full, or the symbol itself where that cannot be told."""
    library = _demangler() if symbol.startswith("_Z") else None
    if library is None:
        return symbol
    status = ctypes.c_int()
    result = library.__cxa_demangle(symbol.encode(), None, None, ctypes.byref(status))
    if not result:
        return symbol
    text = ctypes.string_at(result).decode()
    ctypes.CDLL(None).free(ctypes.c_void_p(result))
    return text


@functools.cache
def _demangler() -> ctypes.CDLL | None:
    for name in ("libstdc++.so.6", "libc++abi.so.1"):
        try:
            library = ctypes.CDLL(name)
            library.__cxa_demangle.restype = ctypes.c_void_p
        except (OSError, AttributeError):
            continue
        return library
    return None
