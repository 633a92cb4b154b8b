"""Which variables of a kernel's body go alike for the whole block, which of the others last beyond a barrier, and which
of these are rather computed again.

What goes alike for the block is decided by grammar: an expression of literals, parameters, ``blockIdx``, ``blockDim``,
``gridDim`` and variables that only such expressions are assigned to, which no thread may touch otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..source import declarations as syntax
from .barrier_statements import (
    CONTROL,
    NUMBERS,
    OF_BLOCK,
    NotSimpleError,
    Part,
    Statements,
    Variable,
    assigns,
    is_operand,
    takes_address,
)

_MOST_KEPT = 600 << 10  # bytes, of the stack that blocks run on


class KeptVariables:
    """Says it of the variables of a body's statements: what it finds stands in these."""

    def __init__(self, body: Statements, found: syntax.SourceDeclarations) -> None:
        """Look at all of them. Raises NotSimpleError where the kernel is left to fibres."""
        self._tokens = body.tokens
        self._variables = body.variables
        self._headers = body.headers
        self._conditions = body.conditions
        self._start = body.start
        self._not_alike = body.not_alike
        self._parts = body.parts
        # What may change what it is given.
        self._by_reference = {"swap", "exchange", "move", "forward", "tie", "ref"}
        self._by_reference |= {
            it.name for it in found.declarations if it.kind == "type" or "&" in body.tokens.slice(*it.head)
        }
        self._find_changes()
        self._find_alike()
        self._find_computed_again()
        self._find_kept(self._parts)
        self._refuse_lost_addresses()

    def mentions(self, name: str, start: int, end: int) -> Iterator[int]:
        """Where a variable of this name is mentioned."""
        tokens = self._tokens
        for position in range(start, end):
            if tokens[position] == name and tokens[position - 1] not in (".", "->"):
                yield position

    def _find_changes(self) -> None:
        tokens = self._tokens
        for variable in self._variables:
            for position in self.mentions(variable.name, max(variable.at + 1, self._start), variable.until):
                before, earlier = tokens[position - 1], tokens[position - 2]
                behind = self._behind_members(position + 1) if self._has_members(variable) else position + 1
                addressed = takes_address(tokens, position - 1)
                addressed |= behind > position + 1 and tokens[behind] == "("  # by a member function
                addressed |= bool(variable.dimensions) and tokens[position + 1] != "["
                if addressed or self._is_reference(position):
                    variable.addresses.append(position)
                following = tokens.slice(behind, behind + 3)
                dereferenced = before == "*" and not is_operand(tokens, position - 2)
                if (
                    (before in "+-" and before == earlier and tokens.adjacent(position - 2))
                    or (following[0] in "+-" and following[0] == following[1] and tokens.adjacent(behind))
                    or (assigns(following) and not dereferenced)
                    or self._is_passed(position)
                ):
                    variable.changes.append(position)
            variable.changes += variable.addresses

    def _has_members(self, variable: Variable) -> bool:
        return not variable.type.endswith("*") and not set(variable.type.split()) & NUMBERS

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
        if not syntax.is_name(called) or called in OF_BLOCK:
            return tokens.kind(place - 1) != "mark" and called not in CONTROL and called not in OF_BLOCK
        return called in self._by_reference or any(variable.name == called for variable in self._variables)

    def _all_parts(self, parts: Sequence[Part]) -> Iterator[Part]:
        for part in parts:
            yield part
            for inside in part.inside:
                yield from self._all_parts(inside)

    def _visible(self, name: str, position: int) -> Variable | None:
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
                    and self.is_alike(*variable.value)
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
                if target and target.alike and not self.is_alike(*part.value):
                    target.alike, changed = False, True
        for part in assignments:
            target = self._visible(part.target, part.start + 1)
            if target is None or not target.alike:
                if part in self._headers:
                    raise NotSimpleError
                part.kind = "plain"
        if not all(self.is_alike(*condition) for condition in self._conditions):
            raise NotSimpleError
        if any(not variable.alike and variable.changes for variable in self._variables if not variable.number):
            raise NotSimpleError  # a parameter that threads change
        of_statements = {variable.number for part in declarations for variable in part.variables}
        if not all(it.alike for it in self._variables if it.number and it.number not in of_statements):
            raise NotSimpleError  # one that the header of a loop declares

    def _is_number(self, variable: Variable) -> bool:
        return variable.type.endswith("*") or bool(set(variable.type.split()) & NUMBERS) or not variable.number

    def is_alike(self, start: int, end: int, extra: frozenset[str] = frozenset()) -> bool:
        """Whether an expression has the same value for all threads of a block, whenever they come to it."""
        tokens = self._tokens
        for position in range(start, end):
            text = tokens[position]
            if text in ("[", "->", "{", '"') or (text == "*" and not is_operand(tokens, position - 1)):
                return False
            if tokens.kind(position) != "word":
                if takes_address(tokens, position):
                    return False
                continue
            if tokens[position - 1] == "." or text in extra:
                continue
            if tokens[position + 1] == "(" and text not in OF_BLOCK:
                return False
            if text in OF_BLOCK:
                continue
            if text in self._not_alike:
                return False
            known = [variable for variable in self._variables if variable.name == text]
            if known and not any(variable.alike and variable.at < position < variable.until for variable in known):
                return False
        return True

    def _find_computed_again(self) -> None:
        """Find the variables of threads that are computed again rather than kept: indices."""
        tokens, again = self._tokens, list[Variable]()
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
                and self.is_alike(*variable.value, frozenset({"threadIdx", *visible}))
            )
            if variable.again:
                again.append(variable)

    def _find_kept(self, parts: Sequence[Part]) -> None:
        for part in parts:
            for inside in part.inside:
                self._find_kept(inside)
        for row in rows(parts):
            start, end = row[0].start, row[-1].end
            for variable in self._variables:
                if not start <= variable.at < end or not variable.number or variable.again:
                    continue
                if variable.alike:  # it is declared before the loop
                    if any(True for _ in self.mentions(variable.name, start, variable.at)):
                        raise NotSimpleError
                    continue
                later = any(True for _ in self.mentions(variable.name, end, variable.until))
                variable.lasts = later or bool(variable.dimensions and variable.addresses)
                if variable.lasts and not variable.type:
                    raise NotSimpleError

    def _refuse_lost_addresses(self) -> None:
        """Refuse what may look at a variable where it has been, before a barrier."""
        lasting = [variable for variable in self._variables if variable.lasts]
        pointing = any(it.type.endswith("*") or self._has_members(it) for it in lasting)
        for variable in self._variables:
            if variable.addresses and variable.number and not variable.dimensions and (variable.lasts or pointing):
                raise NotSimpleError
        self.most_each = _MOST_KEPT // max(1, len(lasting))
        """How many bytes each variable that lasts may take, for all threads together."""


def rows(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """What stands between barriers: rows of statements that one loop over the threads runs."""
    row: list[Part] = []
    for part in parts:
        if part.kind in ("plain", "declaration"):
            row.append(part)
        elif row:
            yield row
            row = []
    if row:
        yield row
