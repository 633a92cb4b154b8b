"""What sources say for the host around their kernels, which Python programs say in Python: it is left out."""

from __future__ import annotations

import re

from . import syntax
from .tokens import Tokens

__all__ = ["without_host_code"]

_SIGNS = re.compile(r"<<<|\bmain\s*\(|\bcuda[A-Z]\w*\s*\(|\b(?:checkCudaErrors|getLastCudaError)\b")
_RUNTIME = re.compile(r"cuda[A-Z]\w*|checkCudaErrors|getLastCudaError")
_DEVICE = frozenset({"__global__", "__device__"})


def without_host_code(source: str) -> str:
    """The source without ``main``, and without functions for the host that launch kernels or call the runtime's API.
    Lines stay where they are."""
    if not _SIGNS.search(source):
        return source
    tokens = Tokens(source)
    pieces = list(tokens.texts)
    for function in syntax.read(tokens).declarations:
        start, end = function.head[0], function.body[1]
        if function.kind != "function" or _DEVICE.intersection(tokens.slice(*function.head)):
            continue
        if function.name == "main" or _calls_runtime(tokens, *function.body):
            for index in range(tokens.words[start], tokens.words[end] + 1):
                pieces[index] = "\n" * pieces[index].count("\n")
    return "".join(pieces)


def _calls_runtime(tokens: Tokens, start: int, end: int) -> bool:
    return any(
        (tokens[position] == "<<" and tokens[position + 1] == "<")
        or (_RUNTIME.fullmatch(tokens[position]) and tokens[position + 1] == "(")
        for position in range(start, end)
    )
