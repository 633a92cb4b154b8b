"""The statements of a kernel's body, as far as barriers are concerned, and the variables that they declare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..source import declarations as syntax
from ..source.tokens import Tokens

BARRIER = "__syncthreads"
NUMBERS = frozenset({"unsigned", "signed", "int", "long", "short", "char", "float", "double", "bool", "size_t", "uint"})
_ASIDE = frozenset({"const", "register"})
_REFUSED = frozenset(
    {"goto", "volatile", "static", "asm", "__asm__", "__asm", "struct", "class", "union", "enum", "extern"}
)
OF_BLOCK = NUMBERS | {"blockIdx", "blockDim", "gridDim", "warpSize", "sizeof", "true", "false", "min", "max"}
_IN_PLACE = frozenset({"typedef", "using", "constexpr", "namespace"})
CONTROL = frozenset({"for", "while", "if", "do", "switch"})


class NotSimpleError(Exception):
    """The kernel is left to fibres."""


@dataclass
class Variable:
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
class Part:
    """A statement on the level of barriers. ``kind``: plain, declaration, assignment, in place, barrier, or around
    (a block, loop or branch with barriers inside)."""

    kind: str
    start: int
    end: int
    variables: list[Variable] = field(default_factory=list)
    inside: list[list[Part]] = field(default_factory=list)
    target: str = ""
    """Of an assignment: the variable's name."""
    value: tuple[int, int] = (0, 0)


class Statements:
    """What a kernel's body consists of. It is read as it is made."""

    def __init__(self, tokens: Tokens, kernel: syntax.Kernel, found: syntax.SourceDeclarations) -> None:
        """Read the body of ``kernel``. Raises NotSimpleError if it is of a form that is left to fibres."""
        assert kernel.body is not None
        self.tokens = tokens
        self.variables: list[Variable] = []
        self.headers: list[Part] = []
        """What the headers of loops assign."""
        self.conditions: list[tuple[int, int]] = []
        """Of loops and branches that have barriers."""
        self._shared = {head: semicolon for head, semicolon, _ in found.shared}
        opening, self.end = kernel.body
        self.start = opening + 1
        words = set(tokens.slice(opening, self.end)) - ({"extern"} if self._shared else set())
        pairs = {(tokens[p], tokens[p + 1]) for p in range(opening, self.end)}
        if words & _REFUSED or pairs & {("[", "&"), ("[", "="), ("]", "("), ("]", "{"), ("auto", "["), ("auto", "&")}:
            raise NotSimpleError
        self.not_alike = {"threadIdx", "auto", "new", "delete"}
        """What is in memory, or may depend on the thread."""
        self.not_alike |= {it.name for it in found.symbols} | {
            it.name for it in found.declarations if it.kind == "function"
        }
        for head, semicolon in self._shared.items():
            self.not_alike |= {name for name, _ in syntax.declarators(tokens, head, semicolon)}
        for name, kind in zip(kernel.names, kernel.types, strict=True):
            simple = "&" not in kind
            self.variables.append(Variable(name, kernel.parameters[1], self.end, kind, "", (0, 0), 0, alike=simple))
        self.parts = list(self._statements(self.start, self.end))
        self.returns = list(self._find_returns())

    def _statements(self, start: int, end: int) -> Iterator[Part]:
        position = start
        while position < end:
            part = self._statement(position, end)
            yield part
            position = part.end

    def _statement(self, start: int, scope_end: int) -> Part:
        tokens = self.tokens
        if start in self._shared:
            return Part("in place", start, self._shared[start] + 1)
        end = self._end_of(start)
        first = tokens[start]
        if BARRIER not in tokens.slice(start, end):
            if tokens.kind(start) == "word" and tokens[start + 1] == ":":
                raise NotSimpleError  # a label
            self._check_jumps(start, end)
            if first in _IN_PLACE:
                if any(tokens[p] in self.not_alike for p in range(start, end)):
                    raise NotSimpleError
                return Part("in place", start, end)
            if first in CONTROL or first in ("{", ";", "else"):
                return Part("plain", start, end)
            declared = self._declaration(start, end, scope_end)
            if declared is None and self._may_declare(start):
                raise NotSimpleError
            return declared or self._assignment(start, end - 1) or Part("plain", start, end)
        if tokens.slice(start, end) == [BARRIER, "(", ")", ";"]:
            return Part("barrier", start, end)
        if first == "{":
            return Part("around", start, end, inside=[list(self._statements(start + 1, end - 1))])
        if first not in ("for", "while", "if") or tokens[start + 1] != "(":
            raise NotSimpleError
        close = tokens.partner(start + 1)
        bodies = [close + 1]
        if first == "for":
            self._header(start + 2, close, end)
        else:
            self.conditions.append((start + 2, close))
        if first == "if":
            behind = self._end_of(close + 1)
            if behind < end:
                bodies.append(behind + 1)  # behind else
        inside = []
        for begin in bodies:
            part = self._statement(begin, self._end_of(begin))
            if part.kind not in ("around", "barrier"):
                if tokens[begin] != "{":
                    raise NotSimpleError
                close = part.end - 1
                part = Part("around", begin, part.end, inside=[list(self._statements(begin + 1, close))])
            inside.append([part])
        return Part("around", start, end, inside=inside)

    def _end_of(self, start: int) -> int:
        """The position behind a statement."""
        tokens, first = self.tokens, self.tokens[start]
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
            raise NotSimpleError
        position = start
        while position < self.end and tokens[position] != ";":
            position = tokens.partner(position) + 1 if tokens[position] in ("(", "[", "{") else position + 1
        if position >= self.end:
            raise NotSimpleError
        return position + 1

    def _check_jumps(self, start: int, end: int) -> None:
        """Refuse what leaves a loop that has barriers: a jump that stands in no loop of its own."""
        tokens, position = self.tokens, start
        while position < end:
            if tokens[position] in ("for", "while", "do"):
                position = self._end_of(position)
            elif tokens[position] == "switch":
                behind = self._end_of(position)
                if "continue" in tokens.slice(position, behind):
                    raise NotSimpleError
                position = behind
            elif tokens[position] in ("break", "continue"):
                raise NotSimpleError
            else:
                position += 1

    def _header(self, start: int, close: int, end: int) -> None:
        parts = [*self._split(start, close, ";")]
        if len(parts) != 3:
            raise NotSimpleError
        (first, behind), condition, step = parts
        if first < behind:
            declared = self._declaration(first, behind + 1, end)
            if declared:
                for variable in declared.variables:
                    variable.alike = True
            else:
                self._header_assignments(first, behind)
        self._header_assignments(*step)
        self.conditions.append(condition)

    def _header_assignments(self, start: int, end: int) -> None:
        for first, behind in self._split(start, end, ","):
            if first == behind:
                continue
            part = self._assignment(first, behind)
            if part is None:
                raise NotSimpleError
            self.headers.append(part)

    def _split(self, start: int, end: int, mark: str) -> Iterator[tuple[int, int]]:
        tokens, first, position = self.tokens, start, start
        while position < end:
            if tokens[position] == mark:
                yield first, position
                first = position + 1
            position = tokens.partner(position) + 1 if tokens[position] in ("(", "[", "{") else position + 1
        yield first, end

    def _declaration(self, start: int, end: int, scope_end: int) -> Part | None:
        """The declaration that the statement is, whose semicolon stands before ``end``, or None."""
        tokens, position = self.tokens, start
        words, built_in = [], False
        while tokens[position] in NUMBERS or tokens[position] in _ASIDE:
            built_in |= tokens[position] in NUMBERS
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
            raise NotSimpleError  # a product, or a pointer?
        found = []
        for first, behind in self._split(position, end - 1, ","):
            found.append(self._declarator(words, first, behind, scope_end))
        self.variables += found
        return Part("declaration", start, end, variables=found)

    def _may_declare(self, start: int) -> bool:
        """Whether a statement could be a declaration, of a form that is not read."""
        tokens, position = self.tokens, start + 1
        if tokens[start] in NUMBERS | _ASIDE | {"typename", "auto", "::"}:
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

    def _declarator(self, words: list[str], first: int, behind: int, scope_end: int) -> Variable:
        tokens, position = self.tokens, first
        stars = 0
        while tokens[position] in ("*", "&", "const", "__restrict__", "__restrict"):
            stars += tokens[position] == "*"
            if tokens[position] == "&":
                raise NotSimpleError
            position += 1
        if tokens.kind(position) != "word":
            raise NotSimpleError
        name, at = tokens[position], position
        position += 1
        dimensions = position
        while tokens[position] == "[":
            position = tokens.partner(position) + 1
        kept = [word for word in words if word != "register" and (stars or word != "const")]
        spelled = "" if "auto" in words else " ".join([*kept, *["*"] * stars])
        if any(other.name == name and other.at < at < other.until for other in self.variables):
            raise NotSimpleError  # one hides another
        value = (position + (tokens[position] == "="), behind)
        return Variable(
            name, at, scope_end, spelled, tokens.text(dimensions, position), value, len(self.variables) + at
        )

    def _assignment(self, start: int, end: int) -> Part | None:
        """``x = ...``, ``x += ...``, ``x++`` or ``++x``, or None."""
        tokens = self.tokens
        words = tokens.slice(start, end)
        if len(words) == 3 and (words[:2] in (["+", "+"], ["-", "-"]) or words[1:] in (["+", "+"], ["-", "-"])):
            name = words[2] if words[0] in "+-" else words[0]
            return Part("assignment", start, end + 1, target=name) if syntax.is_name(name) else None
        if len(words) < 3 or tokens.kind(start) != "word" or not syntax.is_name(words[0]):
            return None
        length = assigns(words[1:4])
        if not length or any(assigns(words[place : place + 3]) for place in range(1 + length, len(words))):
            return None
        if "," in words:
            return None
        return Part("assignment", start, end + 1, target=words[0], value=(start + 1 + length, end))

    def _find_returns(self) -> Iterator[int]:
        """Where threads leave: in statements at the top that have no barriers, and not in a loop of theirs."""
        tokens = self.tokens
        for part in self.parts:
            position = part.start
            while part.kind == "plain" and position < part.end:
                if tokens[position] in ("for", "while", "do", "switch"):
                    position = self._end_of(position)
                    continue
                if tokens[position] == "return" and tokens[position + 1] == ";":
                    yield position
                position += 1


def is_operand(tokens: Tokens, position: int) -> bool:
    """Whether a word can stand before an operator with two operands."""
    text = tokens[position]
    if tokens.kind(position) == "word":
        return text not in ("return", "case", "else", "do")
    return text in (")", "]") or tokens.kind(position) in ("number", "char")


def takes_address(tokens: Tokens, position: int) -> bool:
    """Whether ``&`` at a position asks for an address."""
    if tokens[position] != "&" or is_operand(tokens, position - 1):
        return False
    return not (tokens[position - 1] == "&" and is_operand(tokens, position - 2))


def assigns(words: Sequence[str]) -> int:
    """How many words an assignment's operator takes, with which ``words`` begin; 0 if that is none."""
    if words and words[0] == "<<=":
        return 1
    if words and words[0] == "=":
        return 0 if words[1:2] == ["="] else 1
    if len(words) > 1 and words[0] in "-+*/%&|^" and words[1] == "=":
        return 2
    return 3 if list(words[:3]) == [">", ">", "="] else 0
