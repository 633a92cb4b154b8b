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

from .declarations import is_name
from .declared_names import DeclaredNames
from .items import DEVICE, Item, SourceItems
from .tokens import Tokens

_SIGNS = re.compile(
    r"<<<|\bmain\s*\(|\bcuda[A-Z]\w*\s*\(|\b(?:checkCudaErrors|getLastCudaError|FILE|fprintf|exit)\b"
    r"|\bstd\s*::\s*(?:vector|string|cout|cerr|map|ofstream|ifstream)\b"
)
"""A source without any of these probably holds device code alone."""

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
_LAUNCHING = re.compile(r"(device|host|universal)_(?!ptr)\w+|Device\w+|CachingDeviceAllocator|DoubleBuffer")
"""Of thrust and CUB, what the host calls, or owns memory by."""
_NO_CALL = frozenset(
    (
        *("if", "for", "while", "switch", "return", "sizeof", "alignof", "decltype", "typeid", "catch"),
        *("static_assert", "noexcept", "alignas", "asm"),
    )
)


def without_host_code(
    source: str, *, preprocessed: bool = False, also: Iterable[str] = (), always: bool = False
) -> str:
    """The source without what concerns the host alone. Lines stay where they are.

    Args:
        source: the text.
        preprocessed: whether all files that it includes, and all macros, stand in the text already. Else names may be
            mentioned where they cannot be seen, and only functions, variables that are not constant, and what is in
            terms of the host's libraries are left out.
        also: names that count as mentioned.
        always: whether a source is also read that does not look as if it held code for the host: it does not compile.
    """
    if not always and not _SIGNS.search(source):
        return source
    return _Separation(Tokens(source), preprocessed=preprocessed, also=also).text()


class _Separation:
    """Tells one source's items apart."""

    def __init__(self, tokens: Tokens, *, preprocessed: bool, also: Iterable[str]) -> None:
        self._tokens = tokens
        self._words = [tokens.texts[index] for index in tokens.words]
        self._preprocessed = preprocessed
        self._source = SourceItems(tokens, preprocessed=preprocessed)
        self._items = self._source.items
        self._declared_names = DeclaredNames(tokens)
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
        if self._preprocessed:  # what a namespace held may be left out: it is declared where it is named
            for position, path in self._source.named_namespaces:
                opening = "".join(f"namespace {name} {{ " for name in path)
                pieces[words[position]] = f"{opening}{'} ' * len(path)}{pieces[words[position]]}"
        return "".join(pieces)

    # --- which are for the host

    def _find_host_functions(self) -> None:
        """Find the functions that launch kernels, use the host's libraries, or call a function that does."""
        functions = [item for item in self._all() if item.kind == "function" and not item.marked]
        marked = {name for item in self._all() if item.marked for name in item.names}
        calls: dict[str, list[Item]] = defaultdict(list)
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

    def _all(self) -> Iterator[Item]:
        waiting = list(self._items)
        while waiting:
            item = waiting.pop()
            yield item
            waiting += item.members

    def _uses_host(self, item: Item) -> bool:
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

    def _calls(self, item: Item) -> set[str]:
        words = self._words
        return {
            words[position]
            for position in range(item.body, item.end)
            if words[position + 1] in ("(", "<")
            and is_name(words[position])
            and words[position] not in _NO_CALL
            and words[position - 1] not in (".", "->")
        }

    # --- what device code reaches

    def _unreached(self, also: Collection[str]) -> list[Item]:
        """The items that are left out."""
        marked = [item for item in self._items if item.kind == "function" and item.marked]
        marked_functions = {item.names for item in marked}
        besides_constructors = {item.names for item in marked if item.owner not in item.names}
        by_name: dict[str, list[Item]] = defaultdict(list)
        for item in self._items:
            for name in {*item.names, item.owner} - {""}:
                by_name[name].append(item)
        kept: set[int] = set()
        reached: set[str] = set()
        waiting: list[str] = [*also, "operator"]
        dropped: list[Item] = []

        def keep(item: Item) -> None:
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
            waiting += self._source.macros.get(name, set()) - reached
            for item in by_name.get(name, ()):
                meant_instead = marked_functions if item.kind == "function" else besides_constructors
                if item.for_host or (not item.marked and item.names in meant_instead):
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

    def _stays(self, item: Item) -> bool:
        """Whether an item stays whether or not device code mentions it."""
        if item.marked and item.kind == "function":
            return "constexpr" not in self._words[item.start : item.body] or bool(
                DEVICE.intersection(self._words[item.start : item.body])
            )
        if item.marked:
            return True
        if self._preprocessed or item.kind in ("function", "variable"):
            return False
        if item.kind == "type":
            return True
        return not self._is_of_host(item)

    def _is_of_host(self, item: Item) -> bool:
        """Whether a declaration is in terms of the host's libraries."""
        words = self._words[item.start : item.end + 1]
        for place, word in enumerate(words[:-1]):
            if word in ("thrust", "cub"):  # both are for devices, too
                if words[place + 1] == "::" and _LAUNCHING.fullmatch(words[place + 2]):
                    return True
            elif word in _HOST_WORDS or _OF_RUNTIME.fullmatch(word):
                return True
        return False

    def _members_for_host(self, item: Item) -> Iterator[Item]:
        for member in item.members:
            if member.for_host:
                yield member
            else:
                yield from self._members_for_host(member)

    def _mentions(self, item: Item) -> set[str]:
        """The names that an item mentions, other than those of its own variables and parameters."""
        skipped = sorted((member.start, member.end) for member in self._members_for_host(item))
        words = self._words
        found: set[str] = set()
        declared = self._declared_names.of(item)
        position = item.start
        while position <= item.end:
            if skipped and position == skipped[0][0]:
                position = skipped.pop(0)[1] + 1
                continue
            text = words[position]
            if is_name(text) and text not in declared and words[position - 1] not in (".", "->"):
                found.add(text)
            position += 1
        return found
