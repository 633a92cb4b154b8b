"""What sources say for the host around their kernels, which Python programs say in Python: it is left out.

A source is a row of items outside functions: functions, types, variables, aliases. Those that CUDA marks for the device
(``__global__``, ``__device__``, ``__constant__``, ``__managed__``) stay, and what they mention, however indirectly. All
else is for the host. What counts as a mention is decided by grammar, not by name alone: a parameter, a local variable
or a member is none, whatever it is called; and of functions that share a name, device code means the marked one. A
function that is not marked may still be meant (NVRTC can take unmarked functions for the device's), unless it launches
a kernel or calls what devices do not have.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from . import declarations as syntax
from .tokens import Tokens

__all__ = ["without_host_code"]

_SIGNS = re.compile(
    r"<<<|\bmain\s*\(|\bcuda[A-Z]\w*\s*\(|\b(?:checkCudaErrors|getLastCudaError|FILE|fprintf|exit)\b"
    r"|\bstd\s*::\s*(?:vector|string|cout|cerr|map|ofstream|ifstream)\b"
)
"""A source without any of these holds device code alone."""
_DEVICE = frozenset({"__global__", "__device__", "__constant__", "__managed__", "__shared__"})
_HOST_WORDS = frozenset(
    (
        *("FILE", "fopen", "fclose", "fprintf", "fscanf", "fread", "fwrite", "fflush", "stdout", "stderr", "stdin"),
        *("exit", "abort", "atoi", "atof", "getenv", "rand", "srand", "system", "scanf", "puts", "gettimeofday"),
        *("perror", "strcmp", "strtol", "strdup", "strerror", "sprintf", "snprintf", "calloc", "realloc"),
        *("cout", "cerr", "endl", "istream", "ostream", "ifstream", "ofstream", "stringstream", "ostringstream"),
        *("thrust", "cub", "throw"),
    )
)
_OF_RUNTIME = re.compile(
    r"(?:cuda(?!Texture|Surface|ReadMode|Address|Filter|Boundary|Pos|Extent)"
    r"|cublas|cufft|curand(?!State|Direction)|cusparse|cusolver|cudnn|nccl|nvtx)[A-Z]\w*"
)
_NO_CALL = frozenset(
    (
        *("if", "for", "while", "switch", "return", "sizeof", "alignof", "decltype", "typeid", "catch"),
        *("static_assert", "noexcept", "alignas", "asm"),
    )
)
_NO_TYPE = frozenset(
    (
        *("return", "delete", "throw", "goto", "case", "else", "new", "operator", "typename", "using", "namespace"),
        *("break", "do", "public", "protected", "private", "virtual"),
    )
)
_TYPE_KEYWORDS = frozenset({"struct", "class", "union", "enum"})
_BEFORE_BLOCK = frozenset({")", "{", "}", ";", ":", "else", "do", "try", "const", "noexcept"})
_BEHIND_NAME = frozenset({"=", ";", ",", "[", "(", "{", ")", ":"})


@dataclass(slots=True)
class _Item:
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
    members: list[_Item] = field(default_factory=list)


def without_host_code(source: str, *, preprocessed: bool = False, also: Iterable[str] = ()) -> str:
    """The source without what concerns the host alone. Lines stay where they are.

    Args:
        source: the text.
        preprocessed: whether all files that it includes, and all macros, stand in the text already. Else names may be
            mentioned where they cannot be seen, and only functions, variables that are not constant, and what is in
            terms of the host's libraries are left out.
        also: names that count as mentioned.
    """
    if not _SIGNS.search(source):
        return source
    return _Separation(Tokens(source), preprocessed=preprocessed, also=also).text()


class _Separation:
    """Tells one source's items apart."""

    def __init__(self, tokens: Tokens, *, preprocessed: bool, also: Iterable[str]) -> None:
        self._tokens = tokens
        self._words = [tokens.texts[index] for index in tokens.words]
        self._preprocessed = preprocessed
        self._macros = {} if preprocessed else _macros(tokens)
        self._items: list[_Item] = []
        self._aliases: set[str] = set()
        self._opened: list[tuple[int, str]] = []
        self._collect(0, len(self._words), self._items)
        self._find_host_functions()
        self._dropped = self._unreached(set(also))

    def text(self) -> str:
        """The source without what is dropped."""
        pieces = list(self._tokens.texts)
        words, kinds = self._tokens.words, self._tokens.kinds
        for item in self._dropped:
            for index in range(words[item.start], words[item.end] + 1):
                if kinds[index] != "directive":
                    pieces[index] = "\n" * pieces[index].count("\n")
        for position, text in self._opened:
            pieces[words[position]] = text + pieces[words[position]]
        return "".join(pieces)

    # --- items

    def _collect(self, start: int, end: int, into: list[_Item], inside: str = "") -> None:
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

    def _function(self, head: int, brace: int, close: int, inside: str) -> _Item:
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
        item = _Item(head, close, "function", (name,), owner=owner, body=brace)
        item.marked = bool(marks & _DEVICE) or "constexpr" in marks or "consteval" in marks
        item.for_host = "__host__" in marks and "__device__" not in marks
        return item

    def _statement(self, head: int, semicolon: int, body: int) -> _Item:
        """A declaration, or the definition of a type."""
        words, tokens = self._words, self._tokens
        head = self._behind_macros(head, semicolon)
        if head >= semicolon:
            return _Item(head, semicolon, "directive", ())
        start = self._behind_template(head)
        first = words[start] if start < semicolon else ""
        if first == "using" and words[start + 1] == "namespace":
            self._open_namespace(head, start + 2, semicolon)
            return _Item(head, semicolon, "directive", ())
        item = _Item(head, semicolon, "type" if body else "statement", (), body=body)
        outside = words[head : body or semicolon] + (words[tokens.partner(body) : semicolon] if body else [])
        item.marked = bool(_DEVICE.intersection(outside))
        names: list[str] = []
        if first in ("namespace", "using"):
            names.append(words[start + 1] if words[start + 2] == "=" else words[semicolon - 1])
            if first == "namespace":
                self._aliases.add(names[0])
        elif first == "static_assert":
            item.kind = "statement"
        elif first == "typedef" and not body:
            names += [word for word in words[start + 1 : semicolon] if _is_name(word)][-1:]
            for position in range(start, semicolon):  # typedef int (*Function)(int);
                if words[position] == "(" and words[position + 1] == "*":
                    names.append(words[position + 2])
                    break
        elif body:
            names.append(syntax.classify(tokens, head, body, None).name)
            close = tokens.partner(body)
            names += [word for word in words[close + 1 : semicolon] if _is_name(word)]
            if "enum" in words[start:body]:
                names += [word for word in words[body + 1 : close] if _is_name(word)]
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
        while head < end and self._words[head] in self._macros and self._words[head + 1] == "(":
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

    def _open_namespace(self, head: int, start: int, semicolon: int) -> None:
        """Declare a namespace that ``using namespace`` names: what it held may be left out."""
        path = [word for word in self._words[start:semicolon] if word != "::"]
        if self._preprocessed and path and path[0] not in self._aliases:
            opening = "".join(f"namespace {name} {{ " for name in path)
            self._opened.append((head, f"{opening}{'} ' * len(path)}"))

    # --- which are for the host

    def _find_host_functions(self) -> None:
        """Find the functions that launch kernels, use the host's libraries, or call a function that does."""
        functions = [item for item in self._all() if item.kind == "function" and not item.marked]
        marked = {name for item in self._all() if item.marked for name in item.names}
        calls: dict[str, list[_Item]] = defaultdict(list)
        waiting = []
        for item in functions:
            if item.names == ("main",) or item.for_host or self._uses_host(item):
                item.for_host = True
                waiting.append(item)
            for name in self._calls(item):
                calls[name].append(item)
        shared = {item.names for item in functions if not item.for_host}
        while waiting:
            item = waiting.pop()
            if item.names in shared or marked.intersection(item.names):
                continue  # another function of that name may be meant
            for caller in calls[item.names[0]]:
                if not caller.for_host:
                    caller.for_host = True
                    waiting.append(caller)

    def _all(self) -> Iterator[_Item]:
        waiting = list(self._items)
        while waiting:
            item = waiting.pop()
            yield item
            waiting += item.members

    def _uses_host(self, item: _Item) -> bool:
        words = self._words
        for position in range(item.start, item.end):
            text = words[position]
            if text == "<<" and words[position + 1] == "<":
                return True
            if (text in _HOST_WORDS or _OF_RUNTIME.fullmatch(text)) and words[position - 1] not in (".", "->"):
                return True
            if text in ("string", "vector") and words[position - 2] == "std":
                return True
        return False

    def _calls(self, item: _Item) -> set[str]:
        words = self._words
        return {
            words[position]
            for position in range(item.body, item.end)
            if words[position + 1] in ("(", "<")
            and _is_name(words[position])
            and words[position] not in _NO_CALL
            and words[position - 1] not in (".", "->")
        }

    # --- what device code reaches

    def _unreached(self, also: Collection[str]) -> list[_Item]:
        """The items that are left out."""
        marked_functions = {item.names for item in self._items if item.kind == "function" and item.marked}
        by_name: dict[str, list[_Item]] = defaultdict(list)
        for item in self._items:
            for name in {*item.names, item.owner} - {""}:
                by_name[name].append(item)
        kept: set[int] = set()
        reached: set[str] = set()
        waiting: list[str] = [*also, "operator"]
        dropped: list[_Item] = []

        def keep(item: _Item) -> None:
            if id(item) in kept:
                return
            kept.add(id(item))
            waiting.extend(self._mentions(item) - reached)

        for item in self._items:
            if item.kind == "directive" or self._stays(item):
                keep(item)
        while waiting:
            name = waiting.pop()
            if name in reached:
                continue
            reached.add(name)
            waiting += self._macros.get(name, set()) - reached
            for item in by_name.get(name, ()):
                if item.for_host or (not item.marked and item.names in marked_functions):
                    continue
                if item.owner and item.owner not in reached:
                    continue
                if item.kind != "function" and not item.marked and not item.body and self._is_of_host(item):
                    continue
                keep(item)
        for item in self._items:
            if id(item) not in kept or (item.kind == "instance" and not item.marked):  # who calls it makes it
                dropped.append(item)
            else:
                dropped += self._members_for_host(item)
        return dropped

    def _stays(self, item: _Item) -> bool:
        """Whether an item stays whether or not device code mentions it."""
        if item.marked and item.kind == "function":
            return "constexpr" not in self._words[item.start : item.body] or bool(
                _DEVICE.intersection(self._words[item.start : item.body])
            )
        if item.marked:
            return True
        if self._preprocessed or item.kind in ("function", "variable"):
            return False
        if item.kind == "type":
            return True
        return not self._is_of_host(item)

    def _is_of_host(self, item: _Item) -> bool:
        """Whether a declaration is in terms of the host's libraries."""
        words = self._words[item.start : item.end]
        return bool(_HOST_WORDS.intersection(words)) or any(map(_OF_RUNTIME.fullmatch, words))

    def _members_for_host(self, item: _Item) -> Iterator[_Item]:
        for member in item.members:
            if member.for_host:
                yield member
            else:
                yield from self._members_for_host(member)

    def _mentions(self, item: _Item) -> set[str]:
        """The names that an item mentions, other than those of its own variables and parameters."""
        skipped = sorted((member.start, member.end) for member in self._members_for_host(item))
        words = self._words
        found: set[str] = set()
        declared = self._declared(item)
        position = item.start
        while position <= item.end:
            if skipped and position == skipped[0][0]:
                position = skipped.pop(0)[1] + 1
                continue
            text = words[position]
            if _is_name(text) and text not in declared and words[position - 1] not in (".", "->"):
                found.add(text)
            position += 1
        return found

    def _declared(self, item: _Item) -> set[str]:
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
            if not _is_word(text) or text in _NO_TYPE:
                return 0
            if types and words[position - 1] != "::" and words[position + 1] in _BEHIND_NAME and _is_name(text):
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
            elif words[position] == ",":
                while words[position + 1] in ("*", "&", "const"):
                    position += 1
                if words[position + 2] in _BEHIND_NAME and _is_name(words[position + 1]):
                    found.add(words[position + 1])
            position += 1
        return found


def _is_word(text: str) -> bool:
    return text[:1].isalpha() or (text[:1] in "_$" and text != "")


def _is_name(text: str) -> bool:
    return _is_word(text) and text not in syntax.KEYWORDS


def _macros(tokens: Tokens) -> dict[str, set[str]]:
    """What each macro that the text defines mentions."""
    found: dict[str, set[str]] = {}
    for index, kind in enumerate(tokens.kinds):
        if kind == "directive":
            match = re.match(r"\s*#\s*define\s+(\w+)(.*)", tokens.texts[index], re.DOTALL)
            if match:
                found.setdefault(match[1], set()).update(re.findall(r"[A-Za-z_]\w*", match[2]))
    return found
