"""Kernels whose barriers all threads of a block reach alike, as loops over the threads from one barrier to the next.

Where every ``__syncthreads()`` stands in the kernel itself, at its top or in loops and branches that go alike for the
whole block, the threads need no stacks of their own: what stands between two barriers becomes a loop over them, which
compiles to far better code than a switch between stacks at every barrier. Variables that live across a barrier are kept
in arrays with an element for each thread, or computed again where that is a matter of indices.

A ``return`` at the top, as in ``if (i >= n) return;``, lets its thread be passed over by the loops that follow:
barriers do not wait for who has returned.

What goes alike for the block is decided by grammar (``kept_variables.py``). Whatever else is found (a ``return`` in a
loop, an address of a variable that is kept, a lambda, a barrier in a function, atomics that a thread could wait by)
leaves the kernel to fibres (``headers/engine/fibres.h``), which can do all of CUDA and say what is right. The option
``-DCUPLUG_BARRIERS`` leaves every kernel to them.

Under ``check="races"`` the loops say which thread runs and where a barrier stands, which is all that the check needs. A
kernel with an array on the level of its barriers that has no initialiser is left to fibres there, since the check lays
such an array between memory that nobody may touch (``guarded_arrays.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..source import declarations as syntax
from ..source.edits import Edits
from ..source.tokens import Tokens
from .barrier_statements import BARRIER, NotSimpleError, Part, Statements, Variable, is_operand
from .kept_variables import KeptVariables, rows

_MOST_THREADS = 1040  # and some, so that arrays do not meet in the same cache sets


def fits(tokens: Tokens, kernel: syntax.Kernel) -> bool:
    """Whether a kernel has barriers of its own, so that this file concerns it."""
    return kernel.body is not None and BARRIER in tokens.slice(*kernel.body)


def loop_over_threads(
    tokens: Tokens, edits: Edits, kernel: syntax.Kernel, found: syntax.SourceDeclarations, *, tracked: bool, races: bool
) -> bool:
    """Let a kernel's body run all threads of a block, if that can be done.

    Args:
        tokens: the source.
        edits: what is changed; nothing, if it cannot be done.
        kernel: which.
        found: what the source declares.
        tracked: whether each thread must say that it runs.
        races: whether the check of races must hear of threads and barriers.

    Returns:
        Whether it was done.
    """
    try:
        body = Statements(tokens, kernel, found)
        if races and any(it.dimensions and it.value[0] >= it.value[1] for it in body.variables):
            return False
        kept = KeptVariables(body, found)
    except NotSimpleError:
        return False
    if len(body.returns) != tokens.slice(body.start, body.end).count("return"):
        return False
    _Loops(body, kept, races=races).write(edits, tracked=tracked)
    return True


class _Loops:
    """What a body becomes."""

    def __init__(self, body: Statements, kept: KeptVariables, *, races: bool) -> None:
        self._body, self._kept, self._races = body, kept, races
        self._tokens, self._variables = body.tokens, body.variables
        self._values: dict[int, str] = {}
        """What is computed again, by the variables' numbers."""

    def write(self, edits: Edits, *, tracked: bool) -> None:
        """Change the source."""
        self._write_remainders(edits)
        self._values = {it.number: edits.present(*it.value) for it in self._variables if it.again}
        if self._body.returns:
            edits.after(
                self._body.start - 1, f"unsigned __cuplug_left[{_MOST_THREADS}] = {{}}; bool __cuplug_any_left = false;"
            )
        for position in self._body.returns:
            edits.replace(
                position,
                "{ __cuplug::keep(__cuplug_left[__cuplug_i], 1u); __cuplug_any_left = true; continue; }",
            )
            edits.drop(position + 1)
        self._write(edits, self._body.parts, tracked)

    def _write_remainders(self, edits: Edits) -> None:
        """Divide by what goes alike for the block as ``remainder`` in ``headers/entry.h`` does: by shifting, mostly.

        ``t % (2 * k)`` decides in every step of a reduction who adds, and the processor's division takes longer than
        all else that a thread does there.
        """
        tokens = self._tokens
        for position in range(self._body.start, self._body.end):
            if tokens[position] != "%" or tokens[position + 1] == "=":
                continue
            start, end = self._operand_before(position), self._operand_behind(position)
            if start is None or end is None or not self._kept.is_alike(position + 1, end):
                continue
            if self._kept.is_alike(start, position) or all(
                tokens.kind(place) != "word" for place in range(position, end)
            ):
                continue
            edits.before(start, "__cuplug::remainder(")
            edits.replace(position, ",")
            edits.after(end - 1, ")")

    def _operand_before(self, position: int) -> int | None:
        """Where the left operand of ``%`` begins: a name, of a member too, or what stands in brackets, or None."""
        tokens, start = self._tokens, position - 1
        if tokens[start] == ")":
            depth = 1
            while depth and start > self._body.start:
                start -= 1
                depth += (tokens[start] == ")") - (tokens[start] == "(")
        elif tokens.kind(start) != "word":
            return None
        while tokens[start - 1] == "." and tokens.kind(start - 2) == "word":
            start -= 2
        before = tokens[start - 1]
        if before in ("+", "-"):
            return start if is_operand(tokens, start - 2) else None
        return start if before in ("(", ",", "=", ";", "{", "}", "?", "<", ">", "|", "return") else None

    def _operand_behind(self, position: int) -> int | None:
        """The position behind the right operand of ``%``, or None if that is nothing as simple."""
        tokens, end = self._tokens, position + 2
        if tokens[position + 1] == "(":
            end = tokens.partner(position + 1) + 1
        elif tokens.kind(position + 1) not in ("word", "number"):
            return None
        while tokens[end] == "." and tokens.kind(end + 1) == "word":
            end += 2
        behind = tokens[end]
        if behind in ("(", "[", "->", "::", "{") or tokens.kind(end) in ("word", "number"):
            return None
        return None if behind in ("+", "-") and tokens[end + 1] == behind else end

    def _write(self, edits: Edits, parts: Sequence[Part], tracked: bool) -> None:
        for part in parts:
            if part.kind == "barrier":
                for position in range(part.start, part.end - 1):
                    edits.drop(position)
                if self._races:
                    edits.replace(part.start, "__cuplug::pass_barrier()")
            for inside in part.inside:
                self._write(edits, inside, tracked)
        for row in rows(parts):
            self._write_row(edits, row, tracked)

    def _write_row(self, edits: Edits, row: list[Part], tracked: bool) -> None:
        start, end = row[0].start, row[-1].end
        alike = [part for part in row if part.kind == "declaration" and part.variables[0].alike]
        before = [edits.take(part.start, part.end) for part in alike]
        begin: list[str] = []
        if self._body.returns:
            begin.append("if (__cuplug_any_left && __cuplug::kept(__cuplug_left[__cuplug_i])) continue;")
        finish: list[str] = []
        for variable in self._variables:
            if start <= variable.at < end and variable.lasts:
                self._keep_room(edits, variable, before, finish)
            elif variable.at < start < variable.until and variable.again:
                begin.append(f"const {variable.type} {variable.name} = {self._values[variable.number]};")
            elif variable.at < start < variable.until and variable.lasts:
                self._fetch(variable, start, end, begin, finish)
        if len(alike) == len(row):
            edits.before(start, " ".join(before))
            return
        enter_row = "__cuplug::enter_row(__cuplug_y, __cuplug_z);" if tracked else ""
        enter_thread = "__cuplug::enter_thread(__cuplug_x);" if tracked else ""
        if self._races:
            enter_thread += " __cuplug::enter_linear_thread(__cuplug_i);"
        edits.before(
            start,
            f"{' '.join(before)} {{ unsigned __cuplug_i = 0; "
            "for (unsigned __cuplug_z = 0; __cuplug_z < blockDim.z; ++__cuplug_z) "
            f"for (unsigned __cuplug_y = 0; __cuplug_y < blockDim.y; ++__cuplug_y) {{ {enter_row} "
            "for (unsigned __cuplug_x = 0; __cuplug_x < blockDim.x; ++__cuplug_x, ++__cuplug_i) { "
            f"{enter_thread} const uint3 threadIdx{{__cuplug_x, __cuplug_y, __cuplug_z}}; {' '.join(begin)}",
        )
        edits.after(end - 1, f"{' '.join(finish)} }} }} }}")

    def _keep_room(self, edits: Edits, variable: Variable, before: list[str], finish: list[str]) -> None:
        """Room for a variable that lasts, which the row declares."""
        kept, name, number = variable.kept, variable.name, variable.number
        before.append(f"{variable.type} {kept}[{_MOST_THREADS}]{variable.dimensions};")
        before.append(f"__cuplug::check_kept<decltype({kept}), {self._kept.most_each}>();")
        if not variable.dimensions:
            finish.append(f"__cuplug::keep({kept}[__cuplug_i], {name});")
            return
        edits.replace(variable.at, f"__cuplug_first_{number}")
        semicolon = variable.value[1]
        while self._tokens[semicolon] != ";":
            semicolon += 1
        has_value = variable.value[0] < variable.value[1]
        copy = f"__builtin_memcpy(&{name}, &__cuplug_first_{number}, sizeof {name});" if has_value else ""
        edits.after(semicolon, f"auto& {name} = {kept}[__cuplug_i]; {copy}")

    def _fetch(self, variable: Variable, start: int, end: int, begin: list[str], finish: list[str]) -> None:
        kept, name = f"{variable.kept}[__cuplug_i]", variable.name
        if not any(True for _ in self._kept.mentions(name, start, end)):
            return
        if variable.dimensions:
            begin.append(f"auto& {name} = {kept};")
            return
        begin.append(f"{variable.type} {name} = __cuplug::kept({kept});")
        if any(start <= place < end for place in variable.changes):
            finish.append(f"__cuplug::keep({kept}, {name});")
