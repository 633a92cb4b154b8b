"""The ``asm`` statements of a source, each in its place; what is not known is refused where a kernel may come to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .....allocators.errors import CompileError
from ...source.declarations import Declaration
from ...source.edits import Edits
from ...source.tokens import Tokens
from .assembly import UnsupportedPtxError, read_assembly

_QUOTED = str.maketrans({'"': "'", "\\": "/", "\n": " "})


def replace_assembly(
    tokens: Tokens, edits: Edits, functions: Sequence[Declaration], may_come: Callable[[Declaration], bool]
) -> list[str]:
    """Let inline PTX be C++.

    Args:
        tokens: the source.
        edits: what is changed, and was before.
        functions: those of the source.
        may_come: whether a kernel may come to a function. Where none does, what is not known stops whoever comes to it
            all the same, so that files with functions for newer GPUs compile.

    Returns:
        The headers that this needs.

    Raises:
        CompileError: an instruction is not known here; the message has it, with its line.
    """
    headers = set()
    for function in functions:
        for position in range(*function.body):
            if tokens[position] not in ("asm", "__asm__", "__asm") or '""' in tokens.slice(position, position + 4):
                continue  # an empty one is a barrier for the compiler
            try:
                statement = read_assembly(tokens, edits, position)
                text, close = statement.text, statement.close
                headers.add("ptx_matrices.h" if statement.matrices else "ptx.h")
            except UnsupportedPtxError as error:
                refusal = _refusal(tokens, position, error)
                if may_come(function):
                    raise CompileError(refusal) from None
                text, close = f'__ptx::unsupported("{refusal.translate(_QUOTED)}")', error.close
                headers.add("ptx.h")
            for inner in range(position + 1, close + 1):
                edits.drop(inner)
            edits.replace(position, text)
    return sorted(headers)


def _refusal(tokens: Tokens, position: int, error: UnsupportedPtxError) -> str:
    file, line = tokens.line_of(position)
    what = f" ({error.what})" if error.what else ""
    return (
        f"{file}:{line + error.lines}: {error.instruction!r}: the simulator does not support this inline PTX{what}; "
        "kernels that use it need a GPU"
    )
