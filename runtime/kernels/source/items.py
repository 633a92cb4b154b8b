"""A source as a row of items outside functions: functions, types, variables, aliases, and the members of classes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from . import declarations as syntax
from .tokens import Tokens

DEVICE = frozenset({"__global__", "__device__", "__constant__", "__managed__", "__shared__"})
"""The words that mark what is for the device."""
_TYPE_KEYWORDS = frozenset({"struct", "class", "union", "enum"})


@dataclass(slots=True)
class Item:
    """One function, type, variable, alias or declaration, from its first to its last word."""

    start: int
    end: int
    kind: str
    """``function``, ``type``, ``variable`` (that may change), ``instance`` (of a template of functions), another
    ``statement``, or ``directive``, which stays."""
    names: tuple[str, ...]
    """What others mention it by."""
    owner: str = ""
    """The class of which it defines a member."""
    marked: bool = False
    """Whether it is for the device, by its own words."""
    for_host: bool = False
    """Whether only a host can run it."""
    body: int = 0
    """The brace that opens a function's or type's body."""
    members: list[Item] = field(default_factory=list)


class SourceItems:
    """The items of one source, in its order."""

    def __init__(self, tokens: Tokens, *, preprocessed: bool) -> None:
        """``preprocessed``: whether all macros are replaced already."""
        self.items: list[Item] = []
        self.macros = {} if preprocessed else _macros(tokens)
        """What each macro that the text defines mentions."""
        self.named_namespaces: list[tuple[int, list[str]]] = []
        """The path that each ``using namespace`` names, and the position where it stands."""
        self._tokens = tokens
        self._words = [tokens.texts[index] for index in tokens.words]
        self._aliases: set[str] = set()
        self._collect(0, len(self._words), self.items)

    def _collect(self, start: int, end: int, into: list[Item], inside: str = "") -> None:
        """Find the items from ``start`` up to ``end``, of a class ``inside`` which they are members, if any."""
        tokens, words = self._tokens, self._words
        head = position = start
        body = 0
        while position < end:
            text = words[position]
            if text in ("(", "["):
                position = tokens.partner(position)
            elif text == "{":
                close = tokens.partner(position)
                scope = syntax.classify(tokens, head, position, None)
                if scope.kind in ("namespace", "linkage"):
                    self._collect(position + 1, close, into)
                    head = close + 1
                elif scope.kind == "function" and not self._initialises(head, position, close):
                    into.append(self._function(head, position, close, inside))
                    head = close + 1
                    if head < end and words[head] == ";":
                        head += 1
                        close += 1
                elif scope.kind == "type":
                    body = position
                position = close
            elif text == ";":
                if position > head:
                    into.append(self._statement(head, position, body))
                head, body = position + 1, 0
            elif text == "}" or (
                text == ":" and inside and words[position - 1] in ("public", "private", "protected") and position > head
            ):
                head, body = position + 1, 0
            position += 1

    def _initialises(self, head: int, brace: int, close: int) -> bool:
        """Whether a brace belongs to a member in a constructor's list: ``A() : x{1} {``."""
        words = self._words
        if words[brace - 1] in (")", "const", "noexcept", "override", "try", "final", "mutable") or words[
            brace - 1
        ].startswith("__"):
            return False
        return ":" in words[head:brace] and close + 1 < len(words) and words[close + 1] in (",", "{")

    def _function(self, head: int, brace: int, close: int, inside: str) -> Item:
        words = self._words
        head = self._behind_macros(head, brace)
        marks = set(words[head:brace])
        start = self._behind_template(head)
        position = syntax.function_position(self._tokens, start, brace)
        name = words[position] if position is not None else ""
        owner = ""
        if position is not None and words[position - 1] == "::":
            owner = self._qualifier(position - 1)
        if name == "~" or (position is not None and words[position - 1] == "~"):
            name = inside or owner
        item = Item(head, close, "function", (name,), owner=owner, body=brace)
        item.marked = bool(marks & DEVICE) or "constexpr" in marks or "consteval" in marks
        item.for_host = "__host__" in marks and "__device__" not in marks
        return item

    def _statement(self, head: int, semicolon: int, body: int) -> Item:
        """A declaration, or the definition of a type."""
        words, tokens = self._words, self._tokens
        head = self._behind_macros(head, semicolon)
        if head >= semicolon:
            return Item(head, semicolon, "directive", ())
        start = self._behind_template(head)
        first = words[start] if start < semicolon else ""
        if first == "using" and words[start + 1] == "namespace":
            path = [word for word in words[start + 2 : semicolon] if word != "::"]
            if path and path[0] not in self._aliases:
                self.named_namespaces.append((head, path))
            return Item(head, semicolon, "directive", ())
        item = Item(head, semicolon, "type" if body else "statement", (), body=body)
        outside = words[head : body or semicolon] + (words[tokens.partner(body) : semicolon] if body else [])
        item.marked = bool(DEVICE.intersection(outside))
        names: list[str] = []
        if first in ("namespace", "using"):
            names.append(words[start + 1] if words[start + 2] == "=" else words[semicolon - 1])
            if first == "namespace":
                self._aliases.add(names[0])
        elif first == "static_assert":
            item.kind = "statement"
        elif first == "typedef" and not body:
            names += [name for name, _ in syntax.declarators(tokens, start + 1, semicolon)]
            for position in range(start, semicolon):  # typedef int (*Function)(int);
                if words[position] == "(" and words[position + 1] == "*":
                    names.append(words[position + 2])
                    break
        elif body:
            names.append(syntax.classify(tokens, head, body, None).name)
            close = tokens.partner(body)
            names += [word for word in words[close + 1 : semicolon] if syntax.is_name(word)]
            if "enum" in words[start:body]:
                names += [word for word in words[body + 1 : close] if syntax.is_name(word)]
            else:
                self._collect(body + 1, close, item.members, inside=names[0])
        elif syntax.is_function(tokens, start, semicolon) and (
            named := syntax.function_position(tokens, start, semicolon)
        ):
            names.append(words[named])
            if words[head] == "template" and words[head + 1] != "<":
                item.kind = "instance"
            item.owner = self._qualifier(named - 1) if words[named - 1] == "::" else ""
        elif first in _TYPE_KEYWORDS and semicolon - start == 2:
            names.append(words[start + 1])
        else:
            if not {"const", "constexpr"} & set(words[start:semicolon]):
                item.kind = "variable"
            for name, position in syntax.declarators(tokens, start, semicolon):
                names.append(name)
                if words[position - 1] == "::":
                    item.owner = self._qualifier(position - 1)
        item.names = tuple(name for name in names if name)
        return item

    def _behind_template(self, head: int) -> int:
        """The position behind ``template <...>``; that of an explicit instance, ``template void f<int>()``, too."""
        words = self._words
        while head < len(words) and words[head] == "template":
            head = self._tokens.after_angles(head + 1) if words[head + 1] == "<" else head + 1
        return head

    def _behind_macros(self, head: int, end: int) -> int:
        """The position behind calls of macros that stand in front, which are not part of the declaration."""
        while head < end and self._words[head] in self.macros and self._words[head + 1] == "(":
            close = self._tokens.partner(head + 1)
            between = self._tokens.texts[self._tokens.words[close] + 1 : self._tokens.words[min(close + 1, end)]]
            if close + 1 > end or not any("\n" in text for text in between):
                break
            head = close + 1
        return head

    def _qualifier(self, colons: int) -> str:
        """The name before ``::``, without its template's arguments."""
        position = colons - 1
        if self._words[position] == ">":
            depth = 0
            while position > 0:
                depth += (self._words[position] == ">") - (self._words[position] == "<")
                position -= 1
                if depth == 0:
                    break
        return self._words[position]


def _macros(tokens: Tokens) -> dict[str, set[str]]:
    """What each macro that the text defines mentions."""
    found: dict[str, set[str]] = {}
    for index, kind in enumerate(tokens.kinds):
        if kind == "directive":
            match = re.match(r"\s*#\s*define\s+(\w+)(.*)", tokens.texts[index], re.DOTALL)
            if match:
                found.setdefault(match[1], set()).update(re.findall(r"[A-Za-z_]\w*", match[2]))
    return found
