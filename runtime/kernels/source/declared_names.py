"""Which names a function or a type declares for itself: parameters, variables, members."""

from __future__ import annotations

from . import declarations as syntax
from .items import Item
from .tokens import Tokens

_NO_TYPE = frozenset(
    (
        *("return", "delete", "throw", "goto", "case", "else", "new", "operator", "typename", "using", "namespace"),
        *("break", "do", "public", "protected", "private", "virtual"),
    )
)
_TYPE_KEYWORDS = frozenset({"struct", "class", "union", "enum"})
_BEFORE_BLOCK = frozenset({")", "{", "}", ";", ":", "else", "do", "try", "const", "noexcept"})
_BEHIND_NAME = frozenset({"=", ";", ",", "[", "(", "{", ")", ":"})


class DeclaredNames:
    """Finds the names that items of one source declare."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._words = [tokens.texts[index] for index in tokens.words]

    def of(self, item: Item) -> set[str]:
        """The parameters, variables and members that an item declares."""
        if item.kind != "function" and not item.body:
            return set()
        words, tokens = self._words, self._tokens
        found: set[str] = set()
        start = item.start
        while words[start] == "template" and words[start + 1] == "<":
            behind = tokens.after_angles(start + 1)
            for first, last in syntax.split(tokens, start + 2, behind - 1):
                part = words[first:last]
                found.update((part[: part.index("=")] if "=" in part else part)[-1:])
            start = behind
        if item.kind == "function":
            position = syntax.function_position(tokens, start, item.body)
            while position is not None and position < item.body and words[position] != "(":
                position += 1
            if position is not None:
                found |= self._parameters(position)
        for position in range(item.body + 1, item.end):
            if words[position] == "(" and words[position - 1] == "]":  # of a lambda
                found |= self._parameters(position)
            elif self._begins_statement(position, item.body):
                name = self._declared_at(position, item.end)
                if name:
                    found.add(words[name])
                    found |= self._further(name, item.end)
        return found - set(item.names)

    def _parameters(self, bracket: int) -> set[str]:
        close = self._tokens.partner(bracket)
        names = [self._declared_at(first, close + 1) for first, _ in syntax.split(self._tokens, bracket + 1, close)]
        return {self._words[name] for name in names if name}

    def _begins_statement(self, position: int, body: int) -> bool:
        """Whether a statement, or the declaration in the brackets of ``for`` and its kin, begins here."""
        words = self._words
        before = words[position - 1]
        if before in (";", "}", "else", "do"):
            return True
        if before == "(":
            return words[position - 2] in ("for", "if", "while", "switch", "catch")
        if before == ":":
            return words[position - 2] in ("public", "private", "protected", "default")
        if before == "{":
            return (
                position - 1 == body
                or words[position - 2] in _BEFORE_BLOCK
                or not _TYPE_KEYWORDS.isdisjoint(words[position - 4 : position - 2])
            )
        return False

    def _declared_at(self, position: int, end: int) -> int:
        """Where a statement that begins here declares a name: behind a type, before a sign; or 0."""
        words = self._words
        types = 0
        while position < end:
            text = words[position]
            if text == "<" and types:
                behind = self._tokens.after_angles(position)
                if behind <= position or words[behind - 1] != ">":
                    return 0
                position = behind
                continue
            if text in ("*", "&", "::", "&&") and types:
                position += 1
                continue
            if not syntax.is_word(text) or text in _NO_TYPE:
                return 0
            if types and words[position - 1] != "::" and words[position + 1] in _BEHIND_NAME and syntax.is_name(text):
                return position
            types += 1
            position += 1
        return 0

    def _further(self, name: int, end: int) -> set[str]:
        """What else the declaration declares: ``int a, *b``."""
        words, found = self._words, set()
        position = name + 1
        while position < end and words[position] not in (";", ")"):
            if words[position] in ("(", "[", "{"):
                position = self._tokens.partner(position)
            elif words[position] == "<":
                behind = self._tokens.after_angles(position)
                if words[behind - 1] == ">" and "=" not in words[position:behind]:
                    position = behind - 1  # a template's arguments, not a comparison before the next variable
            elif words[position] == ",":
                while words[position + 1] in ("*", "&", "const"):
                    position += 1
                if words[position + 2] in _BEHIND_NAME and syntax.is_name(words[position + 1]):
                    found.add(words[position + 1])
            position += 1
        return found
