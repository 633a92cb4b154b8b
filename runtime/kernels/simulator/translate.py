"""From CUDA C++ to C++ for the host: what the compiler and ``headers/cuda_host.h`` cannot do by themselves.

- Kernels get four parameters in front, ``threadIdx``, ``blockIdx``, ``blockDim`` and ``gridDim``: local values, so that
  the loop over a block's threads can be optimised as if it had been written by hand. Elsewhere those names read the
  worker's state.
- ``__shared__`` variables become references into the block's shared memory.
- A ``return`` of a kernel whose threads may wait for one another says that the thread leaves: nobody waits for it then.
- A table at the end describes kernels and symbols; templates find out the parameters' types, sizes and offsets.

Lines stay where they were, so that a compiler's messages point at the source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ....allocators.errors import CompileError
from ..source import declarations as syntax
from ..source.edits import Edits
from ..source.tokens import Tokens
from . import casted_pointers, guarded_arrays, lockstep, thread_loops
from .barrier_statements import BARRIER
from .integer_casts import define_casts
from .module_table import describe_kernels, module_table
from .ptx import replacement
from .reach import MEETING, SPINNING, Reach
from .shared_variables import declare_shared, share
from .shift_counts import define_shifts
from .wait_loops import let_others_run

_INDICES = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim"})
_PARAMETERS = "const uint3 threadIdx, const uint3 blockIdx, const dim3 blockDim, const dim3 gridDim"
_REPORTING = frozenset({"printf", "failed_assertion", "__trap"})
_UNSUPPORTED = {
    **dict.fromkeys(("this_cluster", "cluster_group", "map_shared_rank"), "clusters and distributed shared memory"),
    **dict.fromkeys(("this_multi_grid", "multi_grid_group"), "grids over several devices, which CUDA 13 has no more"),
    **dict.fromkeys(
        (
            *("texCubemap", "texCubemapLod", "texCubemapGrad", "texCubemapLayered", "texCubemapLayeredLod"),
            *("surfCubemapread", "surfCubemapwrite", "surfCubemapLayeredread", "surfCubemapLayeredwrite"),
        ),
        "cube maps",
    ),
    **dict.fromkeys(
        (
            *("tex1DLayered", "tex1DLayeredLod", "tex1DLayeredGrad", "tex2DLayered", "tex2DLayeredLod"),
            *("tex2DLayeredGrad", "surf1DLayeredread", "surf1DLayeredwrite", "surf2DLayeredread", "surf2DLayeredwrite"),
        ),
        "layered textures",
    ),
    **dict.fromkeys(("cudaSurfaceType1DLayered", "cudaSurfaceType2DLayered"), "layered surfaces"),
    **dict.fromkeys(("tex2Dgather", "tex1DGrad", "tex2DGrad", "tex3DGrad"), "gathers and gradients of textures"),
    **{
        f"curandState{name}{ending}": "cuRAND's generator Sobol64"
        for name in ("Sobol64", "ScrambledSobol64")
        for ending in ("", "_t")
    },
    **dict.fromkeys(("curandStateMtgp32", "curandStateMtgp32_t"), "cuRAND's generator MTGP32"),
    "CUtensorMap": "tensor maps (TMA)",
    **dict.fromkeys(("cudaGraphConditionalHandle", "cudaGraphSetConditional"), "conditional nodes of graphs"),
    **{f"cufftCallback{way}{kind}": "callbacks of cuFFT" for way in ("Load", "Store") for kind in "CZRD"},
}
_OF_GROUPS = frozenset({"this_cluster", "cluster_group", "map_shared_rank", "this_multi_grid", "multi_grid_group"})
"""Those that stand in the namespace of cooperative groups, and so mostly behind ``::``."""


@dataclass(frozen=True, slots=True)
class Translation:
    """A source that a C++ compiler for the host takes."""

    text: str
    parameters: dict[str, list[str]]
    """The names of every kernel's parameters, by the kernel's name as the program asks for it."""
    loops: bool
    """Whether a kernel with barriers became loops over the threads."""


def translate(
    preprocessed: str,
    name_expressions: Sequence[str],
    *,
    checked: bool,
    races: bool = False,
    fibres: bool = False,
    shifts: bool = True,
    guarded: bool = True,
    loops: bool = True,
) -> Translation:
    """Translate a source after the preprocessor.

    Args:
        preprocessed: the source with macros expanded and line markers, CUDA's own keywords left as they are.
        name_expressions: kernels to compile by an expression, such as ``scale<float>``.
        checked: whether the code will be instrumented.
        races: whether it will tell of every access, so that shared variables and arrays must stand by themselves.
        fibres: let the threads of every kernel wait for one another, whether or not the source shows a need.
        shifts: let shifts by a count that is not written out do what CUDA does for counts of 32 and more, and casts to
            integers what it does of numbers that are too large.
        guarded: under ``races``, let the arrays of functions stand by themselves, too.
        loops: let kernels be loops over a block's threads where that can be (``thread_loops.py``).

    Raises:
        CompileError: it uses what the simulator does not support, or has no kernel of a name expression.
    """
    tokens = Tokens(preprocessed)
    found = syntax.read_declarations(tokens)
    edits = Edits(tokens)
    if shifts:
        define_shifts(tokens, edits)
        define_casts(tokens, edits)
    for function in found.declarations:
        if function.kind == "function" and checked:
            casted_pointers.check_alignment(tokens, edits, *function.body)
    _refuse_unsupported(tokens)
    for position, why in found.refused:
        file, line = tokens.line_of(position)
        raise CompileError(f"{file}:{line}: {why}")
    _require_constants(tokens, edits, found.initialised)
    for kernel in found.kernels:
        bracket, close = kernel.parameters
        edits.after(bracket, _PARAMETERS + ("" if not kernel.names else ", "))
        if not kernel.names:
            for position in range(bracket + 1, close):  # (void)
                edits.drop(position)
    identifiers = syntax.identifiers(tokens, 0, len(tokens))
    in_lockstep = lockstep.used(identifiers)
    outside: dict[str, str] = {}
    for number, (head, semicolon, inside) in enumerate(found.shared):
        outside |= share(
            tokens,
            edits,
            number,
            head,
            semicolon,
            inside=inside,
            in_lockstep=in_lockstep,
            checked=checked,
            alone=races,
        )
    if races and guarded:
        guarded_arrays.guard_local_arrays(tokens, edits, found.declarations)
    if in_lockstep:
        lockstep.wrap_pointers(tokens, edits, found.declarations)
    declare_shared(tokens, edits, found.declarations if outside else (), outside)
    elsewhere = _replace_indices(tokens, edits, [kernel.body for kernel in found.kernels if kernel.body])
    functions = [function for function in found.declarations if function.kind == "function"]
    may_come = partial(_may_come, found, name_expressions)
    waiters = let_others_run(tokens, edits, functions)
    includes = [*_included_by_name(identifiers | set(re.findall(r"\w+", " ".join(name_expressions))))]
    includes += [*replacement.replace_assembly(tokens, edits, functions, may_come), *_includes(tokens)]
    for position in range(len(tokens)):
        if tokens[position] == "extern" and tokens[position + 1] == '"C"':
            edits.replace(position + 1, '"C++"')  # names are this table's business: templates may stand inside

    meeting = MEETING | {"volatile"} if in_lockstep else MEETING | SPINNING if races else MEETING
    meets = Reach(found, meeting | waiters)
    reports = bool(identifiers & _REPORTING)
    tracked = checked or elsewhere or reports
    looping = set[str]()
    if loops and not fibres and not in_lockstep:
        waits = Reach(found, MEETING | SPINNING | waiters)
        looping = _loop_over_threads(tokens, edits, found, name_expressions, waits, tracked=tracked, races=races)
    habits: dict[str, int] = {}
    barriers = Reach(found, MEETING)
    for kernel in found.kernels:
        if kernel.body:
            waiting = kernel.name not in looping and (fibres or meets.kernel(kernel, " ".join(name_expressions)))
            leaves = waiting and _tell_returns(tokens, edits, kernel, found.declarations, barriers)
            returns = "return" in tokens.slice(*kernel.body)
            habits[kernel.name] = habits.get(kernel.name, 0) | returns | 2 * in_lockstep | 4 * leaves
    entries, parameters = describe_kernels(
        found.kernels, name_expressions, meets, looping, tracked=tracked, fibres=fibres
    )
    prelude = f"#define CUPLUG_CHECKED {int(checked)}\n#define CUPLUG_RACES {int(races)}\n"
    prelude += "#include <cuda_host.h>\n" + "".join(f"#include <{name}>\n" for name in includes)
    table = module_table(entries, found.symbols, habits)
    return Translation(f'{prelude}{edits.text()}\n# 1 "<cuplug>"\n{table}', parameters, bool(looping))


def _may_come(found: syntax.SourceDeclarations, expressions: Sequence[str], function: syntax.Declaration) -> bool:
    """Whether a kernel is this function or, by the names that it mentions, may call it."""
    owners = {scope.name for scope in function.scopes if scope.kind == "type"}
    reach = Reach(found, frozenset({function.name, *owners} - {""}))
    wanted = " ".join(expressions)
    return any(kernel.body == function.body or reach.kernel(kernel, wanted) for kernel in found.kernels)


def _refuse_unsupported(tokens: Tokens) -> None:
    for position in range(len(tokens)):
        if tokens[position] == "<<" and tokens[position + 1] == "<":
            file, line = tokens.line_of(position)
            raise CompileError(
                f"{file}:{line}: '{tokens[position - 1]}<<<': the simulator does not support launches by kernels. "
                "Launch from Python instead."
            )
        what = _UNSUPPORTED.get(tokens[position])
        if what is None or (tokens[position - 1] in (".", "->", "::") and tokens[position] not in _OF_GROUPS):
            continue
        file, line = tokens.line_of(position)
        raise CompileError(
            f"{file}:{line}: {tokens[position]!r}: the simulator does not support {what}; kernels that use it need a "
            "GPU"
        )


def _require_constants(tokens: Tokens, edits: Edits, initialised: Sequence[tuple[int, int]]) -> None:
    """Let the compiler refuse what variables of the device begin as if it would have to be computed, as nvcc does."""
    for head, equals in initialised:
        positions = list(tokens.without_attributes(head, equals))
        words = [tokens[position] for position in positions]
        value = tokens.slice(equals + 1, equals + 5)
        # Not pointers to functions; nor what is made of no values: nvcc takes constructors whose bodies are empty.
        if "(" in words or "constexpr" in words or value[:2] == ["{", "}"]:
            continue
        if value[0] in words and value[1:3] in (["(", ")"], ["{", "}"]):
            continue
        edits.before(next(place for place in positions if tokens[place] not in syntax.SPACES), "CUPLUG_CONSTANT")


def _replace_indices(tokens: Tokens, edits: Edits, bodies: list[tuple[int, int]]) -> bool:
    """Let the built-in variables outside kernels read the worker's state. Whether there were any."""
    any_found = False
    bodies = sorted(bodies)
    body = 0
    for position in range(len(tokens)):
        if tokens[position] not in _INDICES or tokens[position - 1] in (".", "->"):
            continue
        while body < len(bodies) and bodies[body][1] < position:
            body += 1
        if body < len(bodies) and bodies[body][0] < position:
            continue
        edits.replace(position, f"__cuplug_{tokens[position]}")
        any_found = True
    return any_found


def _loop_over_threads(
    tokens: Tokens,
    edits: Edits,
    found: syntax.SourceDeclarations,
    expressions: Sequence[str],
    waits: Reach,
    *,
    tracked: bool,
    races: bool,
) -> set[str]:
    """Let kernels be loops over the threads where that can be done; the names of those."""
    names = [kernel.name for kernel in found.kernels if kernel.body]
    return {
        kernel.name
        for kernel in found.kernels
        if names.count(kernel.name) == 1
        and thread_loops.fits(tokens, kernel)
        and not waits.kernel(kernel, " ".join(expressions), besides=BARRIER)
        and thread_loops.loop_over_threads(tokens, edits, kernel, found, tracked=tracked, races=races)
    }


def _included_by_name(names: set[str]) -> list[str]:
    """The headers of ours that few sources use, and that take a compiler a third of the time that it needs for all of
    them: those of which one of ``names`` may be a function."""
    return [header for header, functions in _BY_NAME.items() if any(functions.fullmatch(name) for name in names)]


_BY_NAME = {
    "rounding.h": re.compile(r"__\w+_r[udz]"),
    "simd.h": re.compile(r"__v\w+[24]"),
    "dpx.h": re.compile(r"__vi\w+_[su](32|16x2)(_relu)?"),
}


def _includes(tokens: Tokens) -> list[str]:
    """The optional headers of ours that the source includes: they left a mark in the preprocessor's output."""
    directives = (text for text, kind in zip(tokens.texts, tokens.kinds, strict=True) if kind == "directive")
    found = [name for text in directives for name in _INCLUDE_MARK.findall(text)]
    return list(dict.fromkeys(found))


_INCLUDE_MARK = re.compile(r"^\s*#\s*pragma\s+cuplug_include\s+(\S+)", re.MULTILINE)


def _tell_returns(
    tokens: Tokens, edits: Edits, kernel: syntax.Kernel, functions: Sequence[syntax.Declaration], barriers: Reach
) -> bool:
    """Let the ``return`` of a kernel tell the engine (``leave`` in ``headers/entry.h``). Whether its threads may leave
    by that of a function, too: one that has barriers, and a ``return`` that is not its last word."""
    assert kernel.body is not None
    for position in range(*kernel.body):
        if tokens[position] == "return" and tokens[position + 1] == ";":
            edits.after(position, " __cuplug::leave()")
    mentioned = barriers.names(syntax.identifiers(tokens, *kernel.body))
    for function in functions:
        start, end = function.body
        if function.kind != "function" or function.name not in mentioned or start == kernel.body[0]:
            continue
        returns = [position for position in range(start, end) if tokens[position] == "return"]
        if any(";" in tokens.slice(position, end - 1) for position in returns) and barriers(
            syntax.identifiers(tokens, start, end)
        ):
            return True
    return False
