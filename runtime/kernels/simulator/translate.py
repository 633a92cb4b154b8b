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
from .ptx import replacement

__all__ = ["Translation", "translate"]

_INDICES = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim"})
_PARAMETERS = "const uint3 threadIdx, const uint3 blockIdx, const dim3 blockDim, const dim3 gridDim"
_MEETING = frozenset(
    (
        *("__syncthreads", "__syncthreads_count", "__syncthreads_and", "__syncthreads_or", "__syncwarp"),
        *("__activemask", "__shfl", "__shfl_up", "__shfl_down", "__shfl_xor", "__shfl_sync"),
        *("__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync", "__any", "__all", "__ballot"),
        *("__any_sync", "__all_sync", "__ballot_sync", "__uni_sync", "__match_any_sync", "__match_all_sync"),
        *("__reduce_add_sync", "__reduce_min_sync", "__reduce_max_sync", "__reduce_and_sync"),
        *("__reduce_or_sync", "__reduce_xor_sync", "__nanosleep", "this_thread_block", "tiled_partition"),
        *("this_grid", "grid_group"),
        *("asm", "__asm__", "__asm"),  # which may ask for the lane
        *(
            "coalesced_threads",
            "thread_block",
            "barrier",
            "pipeline_shared_state",
            "atomic",
            "atomic_ref",
            "wmma",
            "cub",
        ),
    )
)
"""What lets threads wait for one another: a kernel from which one of these can be reached needs fibres."""
_SPINNING = frozenset(
    {
        *("volatile", "atomicCAS", "atomicExch", "atomicAdd", "atomicSub", "atomicInc", "atomicDec"),
        *("atomicAnd", "atomicOr", "atomicXor", "atomicMin", "atomicMax", "__ldcv", "__ldcg"),
    }
)
"""And what a thread may look at until another one has come by: under ``races`` it must be able to, so as to say who
waits for whom."""
_REPORTING = frozenset({"printf", "failed_assertion", "__trap"})
_UNSUPPORTED = {
    **dict.fromkeys(("this_cluster", "cluster_group", "map_shared_rank"), "clusters and distributed shared memory"),
    **dict.fromkeys(("this_multi_grid", "multi_grid_group"), "grids over several devices, which CUDA 13 has no more"),
    **dict.fromkeys(("texCubemap", "texCubemapLod", "texCubemapLayered", "surfCubemapread"), "cube maps"),
    **dict.fromkeys(("tex1DLayered", "tex2DLayered", "surf2DLayeredwrite", "surf2DLayeredread"), "layered textures"),
    **dict.fromkeys(("cudaSurfaceType1DLayered", "cudaSurfaceType2DLayered"), "layered surfaces"),
    **dict.fromkeys(("tex2Dgather", "tex1DGrad", "tex2DGrad", "tex3DGrad"), "gathers and gradients of textures"),
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
        shifts: let shifts by a count that is not written out do what CUDA does for counts of 32 and more.
        guarded: under ``races``, let the arrays of functions stand by themselves, too.
        loops: let kernels be loops over a block's threads where that can be (``thread_loops.py``).

    Raises:
        CompileError: it uses what the simulator does not support, or has no kernel of a name expression.
    """
    tokens = Tokens(preprocessed)
    found = syntax.read_declarations(tokens)
    edits = Edits(tokens)
    if shifts:
        _define_shifts(tokens, edits)
    for function in found.declarations:
        if function.kind == "function" and checked:
            casted_pointers.check_alignment(tokens, edits, *function.body)
    _refuse_unsupported(tokens)
    for kernel in found.kernels:
        bracket, close = kernel.parameters
        edits.after(bracket, _PARAMETERS + ("" if not kernel.names else ", "))
        if not kernel.names:
            for position in range(bracket + 1, close):  # (void)
                edits.drop(position)
    identifiers = identifiers_of(tokens)
    in_lockstep = lockstep.used(identifiers)
    outside: dict[str, str] = {}
    for number, (head, semicolon, inside) in enumerate(found.shared):
        outside |= _share(
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
    _declare_shared(tokens, edits, found.declarations if outside else (), outside)
    elsewhere = _replace_indices(tokens, edits, [kernel.body for kernel in found.kernels if kernel.body])
    functions = [function for function in found.declarations if function.kind == "function"]
    may_come = partial(_may_come, tokens, found, name_expressions)
    includes = [*_included_by_name(identifiers | set(re.findall(r"\w+", " ".join(name_expressions))))]
    includes += [*replacement.replace_assembly(tokens, edits, functions, may_come), *_includes(tokens)]
    for position in range(len(tokens)):
        if tokens[position] == "extern" and tokens[position + 1] == '"C"':
            edits.replace(position + 1, '"C++"')  # names are this table's business: templates may stand inside

    meeting = _MEETING | {"volatile"} if in_lockstep else _MEETING | _SPINNING if races else _MEETING
    meets = _Reach(found.declarations, tokens, meeting)
    reports = bool(identifiers & _REPORTING)
    tracked = checked or elsewhere or reports
    looping = set[str]()
    if loops and not fibres and not in_lockstep:
        looping = _loop_over_threads(tokens, edits, found, name_expressions, tracked=tracked, races=races)
    habits: dict[str, int] = {}
    barriers = _Reach(found.declarations, tokens, _MEETING)
    for kernel in found.kernels:
        if kernel.body:
            waiting = kernel.name not in looping and (fibres or meets.kernel(kernel, " ".join(name_expressions)))
            leaves = waiting and _tell_returns(tokens, edits, kernel, found.declarations, barriers)
            habits.setdefault(kernel.name, 0)
            habits[kernel.name] |= _returns(tokens, kernel) | 2 * in_lockstep | 4 * leaves
    entries, parameters = _entries(found.kernels, name_expressions, meets, looping, tracked=tracked, fibres=fibres)
    prelude = f"#define CUPLUG_CHECKED {int(checked)}\n#define CUPLUG_RACES {int(races)}\n"
    prelude += '#include "cuda_host.h"\n' + "".join(f"#include <{name}>\n" for name in includes)
    table = _table(entries, found.symbols, habits)
    return Translation(f'{prelude}{edits.text()}\n# 1 "<cuplug>"\n{table}', parameters, bool(looping))


def identifiers_of(tokens: Tokens) -> set[str]:
    """All identifiers of a source."""
    return syntax.identifiers(tokens, 0, len(tokens))


def _define_shifts(tokens: Tokens, edits: Edits) -> None:
    """Let shifts whose count is not written out, or is too large, go by ``headers/shifts.h``."""
    position = 0
    while position < len(tokens):
        text, length = tokens[position], 1
        if text == ">" and tokens[position + 1] == ">" and tokens.adjacent(position):
            text, length = ">>", 2
            if tokens[position + 2] == "=" and tokens.adjacent(position + 1):
                text, length = ">>=", 3
            if _closes_angles(tokens, position):
                position += length
                continue
        behind = position + length
        is_shift = text in _SHIFTS and tokens[behind] != "<" and tokens[position - 1] != "operator"
        if is_shift and not _is_small(tokens[behind]):
            edits.replace(position, f"{text} __cuplug::shift {text}")
            for rest in range(position + 1, behind):
                edits.drop(rest)
        position += length


_SHIFTS = frozenset({"<<", "<<=", ">>", ">>="})


def _closes_angles(tokens: Tokens, position: int) -> bool:
    """Whether ``>>`` ends two lists of a template's arguments: two are open since the statement or bracket began."""
    depth = opened = 0
    for here in range(position - 1, -1, -1):
        text = tokens[here]
        if text in (")", "]"):
            depth += 1
        elif text in ("(", "["):
            depth -= 1
        if depth < 0 or text in (";", "{", "}"):
            break
        if depth == 0:
            opened += (text == "<") - (text == ">" and tokens[here - 1] != "-")
    return opened >= 2


def _is_small(text: str) -> bool:
    """Whether a count is written out, and below 32."""
    digits = text.rstrip("uUlL")
    return digits.isdecimal() and int(digits) < 32


def _may_come(
    tokens: Tokens, found: syntax.SourceDeclarations, expressions: Sequence[str], function: syntax.Declaration
) -> bool:
    """Whether a kernel is this function or, by the names that it mentions, may call it."""
    owners = {scope.name for scope in function.scopes if scope.kind == "type"}
    reach = _Reach(found.declarations, tokens, frozenset({function.name, *owners} - {""}))
    wanted = " ".join(expressions)
    return any(kernel.body == function.body or reach.kernel(kernel, wanted) for kernel in found.kernels)


def _refuse_unsupported(tokens: Tokens) -> None:
    for position in range(len(tokens)):
        if tokens[position] == "<<" and tokens[position + 1] == "<":
            raise CompileError(
                f"'{tokens[position - 1]}<<<': the simulator does not support launches by kernels. "
                "Launch from Python instead."
            )
        what = _UNSUPPORTED.get(tokens[position])
        if what is None or (tokens[position - 1] in (".", "->", "::") and tokens[position] not in _OF_GROUPS):
            continue
        raise CompileError(
            f"{tokens[position]!r}: the simulator does not support {what}; kernels that use it need a GPU"
        )


def _share(
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
        references = _dynamic_references(tokens, names, head)
        for position in range(head, semicolon + 1):
            edits.drop(position)
    else:
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


def _dynamic_references(tokens: Tokens, names: list[tuple[str, int]], head: int) -> dict[str, str]:
    """``extern __shared__ T name[];``: all name the same memory, whose size the launch says."""
    first = names[0][1]
    kept = [p for p in tokens.without_attributes(head, first) if tokens[p] not in ("__shared__", "static", "extern")]
    base = " ".join(tokens[position] for position in kept)
    references = {}
    for name, position in names:
        end = position + 1
        while tokens[end] == "[":
            end = tokens.partner(end) + 1
        bounds = tokens.text(position + 1, end).replace(" ", "")
        rest = bounds[bounds.index("]") + 1 :] if bounds else ""
        references[name] = f"{base} (&{name})[]{rest} = *({base} (*)[]{rest})__cuplug::dynamic_shared();"
    return references


def _declare_shared(
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
    *,
    tracked: bool,
    races: bool,
) -> set[str]:
    """Let kernels be loops over the threads where that can be done; the names of those."""
    waits = _Reach(found.declarations, tokens, _MEETING | _SPINNING)
    names = [kernel.name for kernel in found.kernels if kernel.body]
    return {
        kernel.name
        for kernel in found.kernels
        if names.count(kernel.name) == 1
        and thread_loops.fits(tokens, kernel)
        and not waits.kernel(kernel, " ".join(expressions), besides=thread_loops.BARRIER)
        and thread_loops.loop_over_threads(tokens, edits, kernel, found, tracked=tracked, races=races)
    }


class _Reach:
    """Which names lead to a barrier or a warp function."""

    def __init__(self, declarations: Sequence[syntax.Declaration], tokens: Tokens, meeting: frozenset[str]) -> None:
        self._tokens = tokens
        self._meeting = meeting
        self._mentions: dict[str, set[str]] = {}
        for declaration in declarations:
            mentioned = syntax.identifiers(tokens, declaration.head[0], declaration.body[1])
            owners = [scope.name for scope in declaration.scopes if scope.kind == "type"]
            for name in (declaration.name, *owners):
                self._mentions.setdefault(name, set()).update(mentioned)

    def __call__(self, start: set[str]) -> bool:
        """Whether anything that these names mention, however indirectly, lets threads wait."""
        seen: set[str] = set()
        waiting = start | self._mentions.get("operator", set())
        while waiting:
            name = waiting.pop()
            if name in self._meeting:
                return True
            if name not in seen:
                seen.add(name)
                waiting |= self._mentions.get(name, set()) - seen
        return False

    def names(self, start: set[str]) -> set[str]:
        """All names that these mention, however indirectly."""
        seen: set[str] = set()
        waiting = set(start)
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting |= self._mentions.get(name, set()) - seen
        return seen

    def kernel(self, kernel: syntax.Kernel, expression: str = "", besides: str = "") -> bool:
        """Whether threads of the kernel may wait for one another, ``besides`` where the kernel itself says this."""
        words = set(re.findall(r"\w+", expression))
        if kernel.body:
            words |= syntax.identifiers(self._tokens, kernel.parameters[0], kernel.body[1])
        return self(words - {kernel.name, besides})


def _entries(
    kernels: Sequence[syntax.Kernel],
    expressions: Sequence[str],
    meets: _Reach,
    looping: set[str],
    *,
    tracked: bool,
    fibres: bool,
) -> tuple[list[tuple[str, str, str]], dict[str, list[str]]]:
    """Name, description in C++ and launch bounds of every kernel; and the parameters' names."""
    entries, names = [], {}
    defined = [kernel for kernel in kernels if kernel.body]
    plain = [kernel.qualified for kernel in defined if kernel.template is None]
    for kernel in defined:
        if kernel.template is not None:
            continue
        name, expression = kernel.qualified, f"(&::{kernel.qualified})"
        if any(it.qualified == name and (it.template is not None or it.types != kernel.types) for it in kernels):
            types = ", ".join(["uint3, uint3, dim3, dim3", *kernel.types])
            expression = f"static_cast<void (*)({types})>{expression}"
        if plain.count(name) > 1:
            name = kernel.with_types
        way = _LOOPS if kernel.name in looping else _FIBRES if fibres or meets.kernel(kernel) else _FREE
        entries.append((name, expression, way, kernel.bounds or "0"))
        names[name] = kernel.names
    instances = [kernel.instance for kernel in kernels if kernel.instance]
    for expression in {_written_alike(each): each for each in [*instances, *expressions]}.values():
        base = re.sub(r"^\s*&?\s*(::)?", "", expression.split("<")[0]).strip()
        matching = [k for k in defined if base in (k.qualified, k.name)] or [
            k for k in defined if base.endswith(k.name)
        ]
        if not matching:
            known = ", ".join(sorted({kernel.qualified for kernel in defined})) or "none"
            raise CompileError(f"name expression {expression!r} names no kernel of the source; its kernels: {known}")
        waits = fibres or any(meets.kernel(kernel, expression) for kernel in matching)
        way = _LOOPS if matching[0].name in looping else _FIBRES if waits else _FREE
        if expression not in names:
            entries.append((expression, f"(&{expression.lstrip('& ')})", way, "0"))
            names[expression] = matching[0].names
    described = []
    for name, expression, way, bounds in entries:
        described.append((name, f"Describe<{expression}, {way}, {str(tracked).lower()}>", bounds))
    return described, names


def _written_alike(expression: str) -> str:
    """An expression that names a kernel, less what makes no difference: an instance that the source makes explicitly
    may be asked for by name, too."""
    return re.sub(r"\s+", "", expression).removeprefix("&").removeprefix("::")


_FREE, _FIBRES, _LOOPS = "FREE", "FIBRES", "LOOPS"
"""How the threads of a kernel's blocks run: see ``Way`` in ``headers/entry.h``."""


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


def _returns(tokens: Tokens, kernel: syntax.Kernel) -> bool:
    """Whether threads of a kernel may return before its end."""
    return kernel.body is not None and "return" in tokens.slice(*kernel.body)


def _tell_returns(
    tokens: Tokens, edits: Edits, kernel: syntax.Kernel, functions: Sequence[syntax.Declaration], barriers: _Reach
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


def _table(entries: Sequence[tuple[str, str, str]], symbols: Sequence[syntax.Symbol], habits: dict[str, int]) -> str:
    lines = ["namespace __cuplug {"]
    for number, (name, description, bounds) in enumerate(entries):
        habit = habits.get(re.split(r"[<(]", name)[0].split("::")[-1].strip(" &"), 1)
        lines.append(
            f'static constexpr Kernel kernel_{number} = {description}::make("{name}", (cuplug_u32)({bounds}), {habit});'
        )
    kernels = ", ".join(f"&kernel_{number}" for number in range(len(entries)))
    lines.append(f"static const Kernel* const kernels[] = {{{kernels}{', ' if kernels else ''}nullptr}};")
    unique = {symbol.qualified: symbol for symbol in symbols}
    rows = [f'SYMBOL("{name}", ::{name}, {2 * symbol.constant})' for name, symbol in unique.items()]
    lines.append(
        "#define SYMBOL(name, it, space) {name, (void*)&it, sizeof(it), IsConst<decltype(it)>::value | space},"
    )
    lines.append(f"static const Symbol symbols[] = {{{' '.join(rows)} {{nullptr, nullptr, 0, 0}}}};")
    fields = f"CUPLUG_ABI, {len(entries)}, {len(unique)}, kernels, symbols, __ehdr_start, _end"
    lines.append(f"static const Module module = {{{fields}}};")
    lines.append("}")
    lines.append('extern "C" __attribute__((visibility("default"))) const __cuplug::Module* cuplug_module() {')
    lines.append("return &__cuplug::module; }")
    return "\n".join(lines) + "\n"
