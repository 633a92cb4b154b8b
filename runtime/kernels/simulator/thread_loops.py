"""Kernels whose barriers all threads of a block reach alike, as loops over the threads from one barrier to the next.

Where every ``__syncthreads()`` stands in the kernel itself, at its top or in loops and branches that go alike for the
whole block, the threads need no stacks of their own: what stands between two barriers becomes a loop over them, which
compiles to far better code than a switch between stacks at every barrier. Variables that live across a barrier are kept
in arrays with an element for each thread, or computed again where that is a matter of indices.

A ``return`` at the top, as in ``if (i >= n) return;``, lets its thread be passed over by the loops that follow:
barriers do not wait for who has returned.

What goes alike for the block is decided by grammar: an expression of literals, parameters, ``blockIdx``, ``blockDim``,
``gridDim`` and variables that only such expressions are assigned to, which no thread may touch otherwise. Whatever else
is found (a ``return`` in a loop, an address of a variable that is kept, a lambda, a barrier in a function, atomics that
a thread could wait by) leaves the kernel to fibres (``headers/engine/fibres.h``), which can do all of CUDA and say what
is right. The option ``-DCUPLUG_BARRIERS`` leaves every kernel to them.

Under ``check="races"`` the loops say which thread runs and where a barrier stands, which is all that the check needs. A
kernel with an array on the level of its barriers that has no initialiser is left to fibres there, since the check lays
such an array between memory that nobody may touch (``guarded_arrays.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..source import declarations as syntax
from ..source.edits import Edits
from ..source.tokens import Tokens

__all__ = ["fits", "loop_over_threads"]

BARRIER = "__syncthreads"
_MOST_THREADS = 1040  # and some, so that arrays do not meet in the same cache sets
_MOST_KEPT = 600 << 10  # bytes, of the stack that blocks run on
_NUMBERS = frozenset(
    {"unsigned", "signed", "int", "long", "short", "char", "float", "double", "bool", "size_t", "uint"}
)
_ASIDE = frozenset({"const", "register"})
_REFUSED = frozenset(
    {"goto", "volatile", "static", "asm", "__asm__", "__asm", "struct", "class", "union", "enum", "extern"}
)
_OF_BLOCK = _NUMBERS | {"blockIdx", "blockDim", "gridDim", "warpSize", "sizeof", "true", "false", "min", "max"}
_IN_PLACE = frozenset({"typedef", "using", "constexpr", "namespace"})
_CONTROL = frozenset({"for", "while", "if", "do", "switch"})


class _NotSimpleError(Exception):
    """The kernel is left to fibres."""


@dataclass
class _Variable:
    """One that the kernel declares outside of what a single region contains."""

    name: str
    at: int
    """Where its name stands."""
    until: int
    """The end of its scope."""
    type: str
    """How C++ spells it, without its own ``const``; empty where that is not known."""
    dimensions: str
    value: tuple[int, int]
    """The words of what it begins as."""
    number: int
    changes: list[int] = field(default_factory=list)
    """Where it is, or may be, changed, other than where it is declared."""
    addresses: list[int] = field(default_factory=list)
    """Where somebody gets its address."""
    alike: bool = False
    """Whether it is the same for all threads, and declared outside the loops over them."""
    again: bool = False
    """Whether it is computed again where it is wanted."""
    lasts: bool = False
    """Whether it is kept from one loop over the threads to another."""

    @property
    def kept(self) -> str:
        return f"__cuplug_kept_{self.number}"


@dataclass
class _Part:
    """A statement on the level of barriers. ``kind``: plain, declaration, assignment, in place, barrier, or around
    (a block, loop or branch with barriers inside)."""

    kind: str
    start: int
    end: int
    variables: list[_Variable] = field(default_factory=list)
    inside: list[list[_Part]] = field(default_factory=list)
    target: str = ""
    """Of an assignment: the variable's name."""
    value: tuple[int, int] = (0, 0)


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
        body = _Body(tokens, kernel, found, races=races)
    except _NotSimpleError:
        return False
    body.write(edits, tracked=tracked)
    return True


class _Body:
    def __init__(self, tokens: Tokens, kernel: syntax.Kernel, found: syntax.SourceDeclarations, *, races: bool) -> None:
        assert kernel.body is not None
        self._tokens = tokens
        self._races = races
        self._shared = {head: semicolon for head, semicolon, _ in found.shared}
        self._variables: list[_Variable] = []
        self._values: dict[int, str] = {}
        """What is computed again, by the variables' numbers."""
        self._headers: list[_Part] = []
        """What the headers of loops assign."""
        self._conditions: list[tuple[int, int]] = []
        opening, self._end = kernel.body
        self._start = opening + 1
        words = set(tokens.slice(opening, self._end)) - ({"extern"} if self._shared else set())
        pairs = {(tokens[p], tokens[p + 1]) for p in range(opening, self._end)}
        if words & _REFUSED or pairs & {("[", "&"), ("[", "="), ("]", "("), ("]", "{"), ("auto", "["), ("auto", "&")}:
            raise _NotSimpleError
        # What is in memory, or may depend on the thread.
        self._not_alike = {"threadIdx", "auto", "new", "delete"}
        self._not_alike |= {it.name for it in found.symbols} | {
            it.name for it in found.declarations if it.kind == "function"
        }
        for head, semicolon in self._shared.items():
            self._not_alike |= {name for name, _ in syntax.declarators(tokens, head, semicolon)}
        # What may change what it is given.
        self._by_reference = {"swap", "exchange", "move", "forward", "tie", "ref"}
        self._by_reference |= {
            it.name for it in found.declarations if it.kind == "type" or "&" in tokens.slice(*it.head)
        }
        for name, kind in zip(kernel.names, kernel.types, strict=True):
            simple = "&" not in kind
            self._variables.append(_Variable(name, kernel.parameters[1], self._end, kind, "", (0, 0), 0, alike=simple))
        self._parts = list(self._statements(self._start, self._end))
        if races and any(it.dimensions and it.value[0] >= it.value[1] for it in self._variables):
            raise _NotSimpleError
        self._returns = list(self._find_returns())
        self._find_changes()
        self._find_alike()
        self._find_computed_again()
        self._find_kept(self._parts)
        self._refuse_lost_addresses()
        if len(self._returns) != tokens.slice(self._start, self._end).count("return"):
            raise _NotSimpleError

    # --- reading

    def _statements(self, start: int, end: int) -> Iterator[_Part]:
        position = start
        while position < end:
            part = self._statement(position, end)
            yield part
            position = part.end

    def _statement(self, start: int, scope_end: int) -> _Part:
        tokens = self._tokens
        if start in self._shared:
            return _Part("in place", start, self._shared[start] + 1)
        end = self._end_of(start)
        first = tokens[start]
        if BARRIER not in tokens.slice(start, end):
            if tokens.kind(start) == "word" and tokens[start + 1] == ":":
                raise _NotSimpleError  # a label
            self._check_jumps(start, end)
            if first in _IN_PLACE:
                if any(tokens[p] in self._not_alike for p in range(start, end)):
                    raise _NotSimpleError
                return _Part("in place", start, end)
            if first in _CONTROL or first in ("{", ";", "else"):
                return _Part("plain", start, end)
            declared = self._declaration(start, end, scope_end)
            if declared is None and self._may_declare(start):
                raise _NotSimpleError
            return declared or self._assignment(start, end - 1) or _Part("plain", start, end)
        if tokens.slice(start, end) == [BARRIER, "(", ")", ";"]:
            return _Part("barrier", start, end)
        if first == "{":
            return _Part("around", start, end, inside=[list(self._statements(start + 1, end - 1))])
        if first not in ("for", "while", "if") or tokens[start + 1] != "(":
            raise _NotSimpleError
        close = tokens.partner(start + 1)
        bodies = [close + 1]
        if first == "for":
            self._header(start + 2, close, end)
        else:
            self._conditions.append((start + 2, close))
        if first == "if":
            behind = self._end_of(close + 1)
            if behind < end:
                bodies.append(behind + 1)  # behind else
        inside = []
        for begin in bodies:
            part = self._statement(begin, self._end_of(begin))
            if part.kind not in ("around", "barrier"):
                if tokens[begin] != "{":
                    raise _NotSimpleError
                close = part.end - 1
                part = _Part("around", begin, part.end, inside=[list(self._statements(begin + 1, close))])
            inside.append([part])
        return _Part("around", start, end, inside=inside)

    def _end_of(self, start: int) -> int:
        """The position behind a statement."""
        tokens, first = self._tokens, self._tokens[start]
        if first == "{":
            return tokens.partner(start) + 1
        if first in ("for", "while", "switch", "if") and tokens[start + 1] == "(":
            end = self._end_of(tokens.partner(start + 1) + 1)
            if first == "if" and tokens[end] == "else":
                end = self._end_of(end + 1)
            return end
        if first == "do":
            end = self._end_of(start + 1)
            return self._end_of(end) if tokens[end] == "while" else end
        if first in ("if", "else", "case", "default", "try", "}"):
            raise _NotSimpleError
        position = start
        while position < self._end and tokens[position] != ";":
            position = tokens.partner(position) + 1 if tokens[position] in ("(", "[", "{") else position + 1
        if position >= self._end:
            raise _NotSimpleError
        return position + 1

    def _check_jumps(self, start: int, end: int) -> None:
        """Refuse what leaves a loop that has barriers: a jump that stands in no loop of its own."""
        tokens, position = self._tokens, start
        while position < end:
            if tokens[position] in ("for", "while", "do"):
                position = self._end_of(position)
            elif tokens[position] == "switch":
                behind = self._end_of(position)
                if "continue" in tokens.slice(position, behind):
                    raise _NotSimpleError
                position = behind
            elif tokens[position] in ("break", "continue"):
                raise _NotSimpleError
            else:
                position += 1

    def _header(self, start: int, close: int, end: int) -> None:
        parts = [*self._split(start, close, ";")]
        if len(parts) != 3:
            raise _NotSimpleError
        (first, behind), condition, step = parts
        if first < behind:
            declared = self._declaration(first, behind + 1, end)
            if declared:
                for variable in declared.variables:
                    variable.alike = True
            else:
                self._header_assignments(first, behind)
        self._header_assignments(*step)
        self._conditions.append(condition)

    def _header_assignments(self, start: int, end: int) -> None:
        for first, behind in self._split(start, end, ","):
            if first == behind:
                continue
            part = self._assignment(first, behind)
            if part is None:
                raise _NotSimpleError
            self._headers.append(part)

    def _split(self, start: int, end: int, mark: str) -> Iterator[tuple[int, int]]:
        tokens, first, position = self._tokens, start, start
        while position < end:
            if tokens[position] == mark:
                yield first, position
                first = position + 1
            position = tokens.partner(position) + 1 if tokens[position] in ("(", "[", "{") else position + 1
        yield first, end

    def _declaration(self, start: int, end: int, scope_end: int) -> _Part | None:
        """The declaration that the statement is, whose semicolon stands before ``end``, or None."""
        tokens, position = self._tokens, start
        words, built_in = [], False
        while tokens[position] in _NUMBERS or tokens[position] in _ASIDE:
            built_in |= tokens[position] in _NUMBERS
            words.append(tokens[position])
            position += 1
        if not built_in:
            if tokens.kind(position) != "word" or tokens[position] in ("delete", "new", "sizeof", "throw", "this"):
                return None
            first = position
            position += 1
            while tokens[position] == "::" and tokens.kind(position + 1) == "word":
                position += 2
            if tokens[position] == "<":
                position = tokens.after_angles(position)
            words.append(tokens.text(first, position))
            if tokens[position] == "const":
                words.append("const")
                position += 1
        ahead = position
        while tokens[ahead] in ("*", "&", "const", "__restrict__", "__restrict"):
            ahead += 1
        if tokens.kind(ahead) != "word" or (tokens[ahead + 1] not in ("=", ";", ",", "[", "(", "{")):
            return None
        if not built_in and ahead > position and tokens[ahead + 1] not in ("=", ";"):
            raise _NotSimpleError  # a product, or a pointer?
        found = []
        for first, behind in self._split(position, end - 1, ","):
            found.append(self._declarator(words, first, behind, scope_end))
        self._variables += found
        return _Part("declaration", start, end, variables=found)

    def _may_declare(self, start: int) -> bool:
        """Whether a statement could be a declaration, of a form that is not read."""
        tokens, position = self._tokens, start + 1
        if tokens[start] in _NUMBERS | _ASIDE | {"typename", "auto", "::"}:
            return True
        if tokens.kind(start) != "word":
            return False
        if tokens[position] == "(":  # an attribute, or decltype
            return tokens.kind(tokens.partner(position) + 1) == "word"
        while tokens[position] == "::":
            position += 2
        if tokens[position] == "<":
            position = tokens.after_angles(position)
        pointer = tokens[position] in ("*", "&") and tokens.kind(position + 1) == "word"
        return pointer or tokens[position] == "::" or tokens.kind(position) == "word"

    def _declarator(self, words: list[str], first: int, behind: int, scope_end: int) -> _Variable:
        tokens, position = self._tokens, first
        stars = 0
        while tokens[position] in ("*", "&", "const", "__restrict__", "__restrict"):
            stars += tokens[position] == "*"
            if tokens[position] == "&":
                raise _NotSimpleError
            position += 1
        if tokens.kind(position) != "word":
            raise _NotSimpleError
        name, at = tokens[position], position
        position += 1
        dimensions = position
        while tokens[position] == "[":
            position = tokens.partner(position) + 1
        kept = [word for word in words if word != "register" and (stars or word != "const")]
        spelled = "" if "auto" in words else " ".join([*kept, *["*"] * stars])
        if any(other.name == name and other.at < at < other.until for other in self._variables):
            raise _NotSimpleError  # one hides another
        value = (position + (tokens[position] == "="), behind)
        return _Variable(
            name, at, scope_end, spelled, tokens.text(dimensions, position), value, len(self._variables) + at
        )

    def _assignment(self, start: int, end: int) -> _Part | None:
        """``x = ...``, ``x += ...``, ``x++`` or ``++x``, or None."""
        tokens = self._tokens
        words = tokens.slice(start, end)
        if len(words) == 3 and (words[:2] in (["+", "+"], ["-", "-"]) or words[1:] in (["+", "+"], ["-", "-"])):
            name = words[2] if words[0] in "+-" else words[0]
            return _Part("assignment", start, end + 1, target=name) if syntax.is_name(name) else None
        if len(words) < 3 or tokens.kind(start) != "word" or not syntax.is_name(words[0]):
            return None
        length = _assigns(words[1:4])
        if not length or any(_assigns(words[place : place + 3]) for place in range(1 + length, len(words))):
            return None
        if "," in words:
            return None
        return _Part("assignment", start, end + 1, target=words[0], value=(start + 1 + length, end))

    def _find_returns(self) -> Iterator[int]:
        """Where threads leave: in statements at the top that have no barriers, and not in a loop of theirs."""
        tokens = self._tokens
        for part in self._parts:
            position = part.start
            while part.kind == "plain" and position < part.end:
                if tokens[position] in ("for", "while", "do", "switch"):
                    position = self._end_of(position)
                    continue
                if tokens[position] == "return" and tokens[position + 1] == ";":
                    yield position
                position += 1

    # --- what goes alike

    def _mentions(self, name: str, start: int, end: int) -> Iterator[int]:
        tokens = self._tokens
        for position in range(start, end):
            if tokens[position] == name and tokens[position - 1] not in (".", "->"):
                yield position

    def _find_changes(self) -> None:
        tokens = self._tokens
        for variable in self._variables:
            for position in self._mentions(variable.name, max(variable.at + 1, self._start), variable.until):
                before, earlier = tokens[position - 1], tokens[position - 2]
                behind = self._behind_members(position + 1) if self._has_members(variable) else position + 1
                addressed = _takes_address(tokens, position - 1)
                addressed |= behind > position + 1 and tokens[behind] == "("  # by a member function
                addressed |= bool(variable.dimensions) and tokens[position + 1] != "["
                if addressed or self._is_reference(position):
                    variable.addresses.append(position)
                following = tokens.slice(behind, behind + 3)
                dereferenced = before == "*" and not _is_operand(tokens, position - 2)
                if (
                    (before in "+-" and before == earlier and tokens.adjacent(position - 2))
                    or (following[0] in "+-" and following[0] == following[1] and tokens.adjacent(behind))
                    or (_assigns(following) and not dereferenced)
                    or self._is_passed(position)
                ):
                    variable.changes.append(position)
            variable.changes += variable.addresses

    def _has_members(self, variable: _Variable) -> bool:
        return not variable.type.endswith("*") and not set(variable.type.split()) & _NUMBERS

    def _behind_members(self, position: int) -> int:
        """The position behind ``.name`` and ``[...]``, however many."""
        tokens = self._tokens
        while tokens[position] in (".", "["):
            position = position + 2 if tokens[position] == "." else tokens.partner(position) + 1
        return position

    def _is_reference(self, position: int) -> bool:
        """Whether ``float& y = x;`` names x."""
        tokens = self._tokens
        place = position - 1
        while tokens[place] not in (";", "{", "}", "=", "") and position - place < 40:
            place -= 1
        if tokens[place] != "=" or tokens.kind(place - 1) != "word":
            return False
        return tokens[place - 2] == "&" and tokens.kind(place - 3) in ("word", "mark") and tokens[place - 3] != "&"

    def _is_passed(self, position: int) -> bool:
        """Whether a function gets the variable itself, which may then change it."""
        tokens = self._tokens
        if tokens[position - 1] not in ("(", ",", "{") or tokens[position + 1] not in (")", ",", "}"):
            return False
        place, depth = position - 1, 0
        while place > self._start and (depth or tokens[place] not in ("(", "{", ";")):
            depth += (tokens[place] in (")", "]", "}")) - (tokens[place] in ("(", "[", "{"))
            place -= 1
        if tokens[place] != "(":
            return True
        called = tokens[place - 1]
        if not syntax.is_name(called) or called in _OF_BLOCK:
            return tokens.kind(place - 1) != "mark" and called not in _CONTROL and called not in _OF_BLOCK
        return called in self._by_reference or any(variable.name == called for variable in self._variables)

    def _all_parts(self, parts: Sequence[_Part]) -> Iterator[_Part]:
        for part in parts:
            yield part
            for inside in part.inside:
                yield from self._all_parts(inside)

    def _visible(self, name: str, position: int) -> _Variable | None:
        for variable in reversed(self._variables):
            if variable.name == name and variable.at < position < variable.until:
                return variable
        return None

    def _find_alike(self) -> None:
        parts = list(self._all_parts(self._parts))
        declarations = [part for part in parts if part.kind == "declaration"]
        assignments = [*(part for part in parts if part.kind == "assignment"), *self._headers]
        for part in declarations:
            for variable in part.variables:
                variable.alike = True
        allowed = {id(variable): set[int]() for variable in self._variables}
        for part in assignments:
            target = self._visible(part.target, part.start + 1)
            if target:
                allowed[id(target)].update(range(part.start, part.end))
        changed = True
        while changed:
            changed = False
            for variable in self._variables:
                if variable.alike and not (
                    bool(variable.type)
                    and not variable.dimensions
                    and all(place in allowed[id(variable)] for place in variable.changes)
                    and self._is_alike(*variable.value)
                    and self._is_number(variable)
                ):
                    variable.alike, changed = False, True
            for part in declarations:
                if not all(variable.alike for variable in part.variables):
                    changed |= any(variable.alike for variable in part.variables)
                    for variable in part.variables:
                        variable.alike = False
            for part in assignments:
                target = self._visible(part.target, part.start + 1)
                if target and target.alike and not self._is_alike(*part.value):
                    target.alike, changed = False, True
        for part in assignments:
            target = self._visible(part.target, part.start + 1)
            if target is None or not target.alike:
                if part in self._headers:
                    raise _NotSimpleError
                part.kind = "plain"
        if not all(self._is_alike(*condition) for condition in self._conditions):
            raise _NotSimpleError
        if any(not variable.alike and variable.changes for variable in self._variables if not variable.number):
            raise _NotSimpleError  # a parameter that threads change
        of_statements = {variable.number for part in declarations for variable in part.variables}
        if not all(it.alike for it in self._variables if it.number and it.number not in of_statements):
            raise _NotSimpleError  # one that the header of a loop declares

    def _is_number(self, variable: _Variable) -> bool:
        return variable.type.endswith("*") or bool(set(variable.type.split()) & _NUMBERS) or not variable.number

    def _is_alike(self, start: int, end: int, extra: frozenset[str] = frozenset()) -> bool:
        """Whether an expression has the same value for all threads of a block, whenever they come to it."""
        tokens = self._tokens
        for position in range(start, end):
            text = tokens[position]
            if text in ("[", "->", "{", '"') or (text == "*" and not _is_operand(tokens, position - 1)):
                return False
            if tokens.kind(position) != "word":
                if _takes_address(tokens, position):
                    return False
                continue
            if tokens[position - 1] == "." or text in extra:
                continue
            if tokens[position + 1] == "(" and text not in _OF_BLOCK:
                return False
            if text in _OF_BLOCK:
                continue
            if text in self._not_alike:
                return False
            known = [variable for variable in self._variables if variable.name == text]
            if known and not any(variable.alike and variable.at < position < variable.until for variable in known):
                return False
        return True

    def _find_computed_again(self) -> None:
        """Find the variables of threads that are computed again rather than kept: indices."""
        tokens, again = self._tokens, list[_Variable]()
        for variable in self._variables:
            if variable.alike or not variable.number or variable.changes or variable.dimensions:
                continue
            visible = (it.name for it in again if it.at < variable.at < it.until)
            used = (self._visible(tokens[position], position) for position in range(*variable.value))
            variable.again = (
                not self._has_members(variable)
                and not variable.type.endswith("*")
                and variable.value[0] < variable.value[1]
                and not any(it.changes for it in used if it is not None)
                and self._is_alike(*variable.value, frozenset({"threadIdx", *visible}))
            )
            if variable.again:
                again.append(variable)

    def _find_kept(self, parts: Sequence[_Part]) -> None:
        for part in parts:
            for inside in part.inside:
                self._find_kept(inside)
        for row in _rows(parts):
            start, end = row[0].start, row[-1].end
            for variable in self._variables:
                if not start <= variable.at < end or not variable.number or variable.again:
                    continue
                if variable.alike:  # it is declared before the loop
                    if any(True for _ in self._mentions(variable.name, start, variable.at)):
                        raise _NotSimpleError
                    continue
                later = any(True for _ in self._mentions(variable.name, end, variable.until))
                variable.lasts = later or bool(variable.dimensions and variable.addresses)
                if variable.lasts and not variable.type:
                    raise _NotSimpleError

    def _refuse_lost_addresses(self) -> None:
        """Refuse what may look at a variable where it has been, before a barrier."""
        lasting = [variable for variable in self._variables if variable.lasts]
        pointing = any(it.type.endswith("*") or self._has_members(it) for it in lasting)
        for variable in self._variables:
            if variable.addresses and variable.number and not variable.dimensions and (variable.lasts or pointing):
                raise _NotSimpleError
        self._most_kept = _MOST_KEPT // max(1, len(lasting))

    # --- writing

    def write(self, edits: Edits, *, tracked: bool) -> None:
        """Change the source."""
        self._write_remainders(edits)
        self._values = {it.number: edits.present(*it.value) for it in self._variables if it.again}
        if self._returns:
            edits.after(
                self._start - 1, f"unsigned __cuplug_left[{_MOST_THREADS}] = {{}}; bool __cuplug_any_left = false;"
            )
        for position in self._returns:
            edits.replace(
                position,
                "{ __cuplug::keep(__cuplug_left[__cuplug_i], 1u); __cuplug_any_left = true; continue; }",
            )
            edits.drop(position + 1)
        self._write(edits, self._parts, tracked)

    def _write_remainders(self, edits: Edits) -> None:
        """Divide by what goes alike for the block as ``remainder`` in ``headers/entry.h`` does: by shifting, mostly.

        ``t % (2 * k)`` decides in every step of a reduction who adds, and the processor's division takes longer than
        all else that a thread does there.
        """
        tokens = self._tokens
        for position in range(self._start, self._end):
            if tokens[position] != "%" or tokens[position + 1] == "=":
                continue
            start, end = self._operand_before(position), self._operand_behind(position)
            if start is None or end is None or not self._is_alike(position + 1, end):
                continue
            if self._is_alike(start, position) or all(tokens.kind(place) != "word" for place in range(position, end)):
                continue
            edits.before(start, "__cuplug::remainder(")
            edits.replace(position, ",")
            edits.after(end - 1, ")")

    def _operand_before(self, position: int) -> int | None:
        """Where the left operand of ``%`` begins: a name, of a member too, or what stands in brackets, or None."""
        tokens, start = self._tokens, position - 1
        if tokens[start] == ")":
            depth = 1
            while depth and start > self._start:
                start -= 1
                depth += (tokens[start] == ")") - (tokens[start] == "(")
        elif tokens.kind(start) != "word":
            return None
        while tokens[start - 1] == "." and tokens.kind(start - 2) == "word":
            start -= 2
        before = tokens[start - 1]
        if before in ("+", "-"):
            return start if _is_operand(tokens, start - 2) else None
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

    def _write(self, edits: Edits, parts: Sequence[_Part], tracked: bool) -> None:
        for part in parts:
            if part.kind == "barrier":
                for position in range(part.start, part.end - 1):
                    edits.drop(position)
                if self._races:
                    edits.replace(part.start, "__cuplug::pass_barrier()")
            for inside in part.inside:
                self._write(edits, inside, tracked)
        for row in _rows(parts):
            self._write_row(edits, row, tracked)

    def _write_row(self, edits: Edits, row: list[_Part], tracked: bool) -> None:
        start, end = row[0].start, row[-1].end
        alike = [part for part in row if part.kind == "declaration" and part.variables[0].alike]
        before = [edits.take(part.start, part.end) for part in alike]
        begin: list[str] = []
        if self._returns:
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

    def _keep_room(self, edits: Edits, variable: _Variable, before: list[str], finish: list[str]) -> None:
        """Room for a variable that lasts, which the row declares."""
        kept, name, number = variable.kept, variable.name, variable.number
        before.append(f"{variable.type} {kept}[{_MOST_THREADS}]{variable.dimensions};")
        before.append(f"__cuplug::check_kept<decltype({kept}), {self._most_kept}>();")
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

    def _fetch(self, variable: _Variable, start: int, end: int, begin: list[str], finish: list[str]) -> None:
        kept, name = f"{variable.kept}[__cuplug_i]", variable.name
        if not any(True for _ in self._mentions(name, start, end)):
            return
        if variable.dimensions:
            begin.append(f"auto& {name} = {kept};")
            return
        begin.append(f"{variable.type} {name} = __cuplug::kept({kept});")
        if any(start <= place < end for place in variable.changes):
            finish.append(f"__cuplug::keep({kept}, {name});")


def _rows(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    """What stands between barriers: rows of statements that one loop over the threads runs."""
    row: list[_Part] = []
    for part in parts:
        if part.kind in ("plain", "declaration"):
            row.append(part)
        elif row:
            yield row
            row = []
    if row:
        yield row


def _is_operand(tokens: Tokens, position: int) -> bool:
    """Whether a word can stand before an operator with two operands."""
    text = tokens[position]
    if tokens.kind(position) == "word":
        return text not in ("return", "case", "else", "do")
    return text in (")", "]") or tokens.kind(position) in ("number", "char")


def _takes_address(tokens: Tokens, position: int) -> bool:
    if tokens[position] != "&" or _is_operand(tokens, position - 1):
        return False
    return not (tokens[position - 1] == "&" and _is_operand(tokens, position - 2))


def _assigns(words: Sequence[str]) -> int:
    """How many words an assignment's operator takes, with which ``words`` begin; 0 if that is none."""
    if words and words[0] == "<<=":
        return 1
    if words and words[0] == "=":
        return 0 if words[1:2] == ["="] else 1
    if len(words) > 1 and words[0] in "-+*/%&|^" and words[1] == "=":
        return 2
    return 3 if list(words[:3]) == [">", ">", "="] else 0
