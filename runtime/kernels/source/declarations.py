"""As much of CUDA C++'s syntax as cuplug must see in a source: its kernels, shared variables and symbols.

This is no parser: expressions and types stay text. It follows nesting, tells declarations from one another by their
first words, and finds names. What it reads is preprocessed where a compiler is at hand (macros are gone), or else the
source itself (comments are skipped, macros are words).

Why not tree-sitter with its grammar for CUDA? It was measured on 397 public files (CUDA samples, llm.c, Rodinia, 200 of
HeCBench; 9.6 MB when preprocessed). It parses them in 3.4 s where this takes 6.0 s, and costs 13 ms to import; a
kernel's compilation takes 300 ms and more. It finds the same kernels in 396 of them and misses two in one. In 191 there
are errors in its tree, most of them small, at which every reader would have to guess. And what is done with a source
here is to change words of it, which needs the words. So it would come beside this, not in its place. (For cubins,
pyelftools finds the same names as the one expression in ``gpu_compiler.py``, in 2 to 7 ms instead of 0.1.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .tokens import Tokens

_QUALIFIERS = frozenset({"const", "volatile", "restrict", "__restrict__", "__restrict", "__grid_constant__"})
KEYWORDS = frozenset(
    (
        *("alignas", "auto", "bool", "char", "class", "const", "constexpr", "double", "else", "enum", "explicit"),
        *("extern", "float", "for", "friend", "if", "inline", "int", "long", "namespace", "operator", "private"),
        *("protected", "public", "register", "return", "short", "signed", "sizeof", "static", "struct", "template"),
        *("this", "typedef", "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "while"),
        *("__device__", "__global__", "__host__", "__forceinline__", "__inline__", "__noinline__", "__constant__"),
        *("__shared__", "__managed__", "__restrict__", "__restrict", "restrict"),
    )
)
SPACES = frozenset({"__device__", "__constant__", "__managed__"})


@dataclass(frozen=True, slots=True)
class Scope:
    """What a brace opens: ``namespace``, ``linkage`` (extern "C"), ``type``, ``function``, ``block`` or ``values``."""

    kind: str
    name: str = ""


@dataclass(slots=True)
class Declaration:
    """One function or type outside functions, with the words of its head and body."""

    kind: str
    """``function`` or ``type``."""
    name: str
    head: tuple[int, int]
    body: tuple[int, int]
    scopes: tuple[Scope, ...]


@dataclass(slots=True)
class Kernel:
    """A ``__global__`` function, wherever it is declared."""

    name: str
    qualified: str
    parameters: tuple[int, int]
    """Positions of the brackets."""
    body: tuple[int, int] | None
    """Positions of the braces, or None for a mere declaration."""
    template: list[str] | None
    """The names of a template's parameters; None if it is none."""
    bounds: str
    """What ``__launch_bounds__`` says first, or nothing."""
    instance: str = ""
    """For an explicit instance or specialisation of a template, how C++ calls it: ``scale<float>``."""
    names: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)

    @property
    def with_types(self) -> str:
        """The name with the parameters' types, which tells kernels apart that share a name."""
        return f"{self.qualified}({', '.join(self.types)})"


@dataclass(slots=True)
class Symbol:
    """A ``__device__``, ``__constant__`` or ``__managed__`` variable, or a texture or surface reference."""

    name: str
    qualified: str
    constant: bool = False
    """Whether it is in ``__constant__`` memory."""


@dataclass(slots=True)
class SourceDeclarations:
    """What a source declares outside functions, and its shared variables. Positions count words of ``tokens``."""

    tokens: Tokens
    kernels: list[Kernel] = field(default_factory=list)
    symbols: list[Symbol] = field(default_factory=list)
    shared: list[tuple[int, int, bool]] = field(default_factory=list)
    """First word and semicolon of every ``__shared__`` declaration, and whether it stands inside a function."""
    declarations: list[Declaration] = field(default_factory=list)
    aliases: list[tuple[str, int, int]] = field(default_factory=list)
    """Of every alias outside functions the name, if it has one, first word and semicolon."""
    initialised: list[tuple[int, int]] = field(default_factory=list)
    """First word and equals sign of every declaration of such variables that begin as something."""
    refused: list[tuple[int, str]] = field(default_factory=list)
    """What stands where CUDA does not allow it: a position, and why."""


def read_declarations(tokens: Tokens) -> SourceDeclarations:
    """Find kernels, symbols, shared variables, and every function and type outside functions."""
    found = SourceDeclarations(tokens)
    scopes: list[tuple[Scope, int, int]] = []  # with the positions of head and brace
    head = position = 0
    while position < len(tokens):
        text = tokens[position]
        if text in ("(", "["):
            position = tokens.partner(position)
        elif text == "{":
            scope = classify(tokens, head, position, scopes[-1][0] if scopes else None)
            if scope.kind == "function":
                _function(found, head, position, [entry[0] for entry in scopes], scope.name)
            scopes.append((scope, head, position))
            if scope.kind == "values":
                position = tokens.partner(position)
                scopes.pop()
            else:
                head = position + 1
        elif text == "}":
            if scopes:
                scope, start, brace = scopes.pop()
                outer = tuple(entry[0] for entry in scopes)
                if scope.kind in ("function", "type") and not any(s.kind in ("function", "block") for s in outer):
                    whole = Declaration(scope.kind, scope.name, (start, brace), (brace, position), outer)
                    found.declarations.append(whole)
                if scope.kind == "type":
                    head = start
                    position += 1
                    continue
            head = position + 1
        elif text == ";":
            _statement(found, head, position, [entry[0] for entry in scopes])
            head = position + 1
        elif text == ":" and tokens[position - 1] in ("public", "private", "protected"):
            head = position + 1
        position += 1
    _shared_within_brackets(found)
    if scopes:  # a brace that nothing closes: what seems to stand inside may not
        found.refused.clear()
    return found


def _shared_within_brackets(found: SourceDeclarations) -> None:
    """Find shared variables of functions without a name that are arguments: ``apply([&] { __shared__ int x; })``."""
    tokens = found.tokens
    texts = tokens.texts
    for position in [at for at, index in enumerate(tokens.words) if texts[index] == "__shared__"]:
        if any(head <= position < semicolon for head, semicolon, _ in found.shared):
            continue
        head = position
        while head and tokens[head - 1] not in (";", "{", "}"):
            head -= 1
        if "(" not in tokens.slice(head, position):  # else a parameter
            semicolon = next((at for at in range(position, len(tokens)) if tokens[at] == ";"), len(tokens))
            found.shared.append((head, semicolon, True))


def classify(tokens: Tokens, head: int, brace: int, outer: Scope | None) -> Scope:
    """What a brace opens, whose declaration begins at ``head``, in the scope ``outer``."""
    if outer is not None and outer.kind in ("function", "block"):
        words = [tokens[position] for position in tokens.without_attributes(head, brace)]
        for keyword in ("struct", "class", "union", "enum"):
            if keyword in words and "(" not in words and "=" not in words:
                after = words[words.index(keyword) + 1 :]
                return Scope("type", after[0] if after else "")
        if "=" in words and words[-1] != ")":
            return Scope("values")
        return Scope("block")
    positions = list(tokens.without_attributes(head, brace))
    words = [tokens[position] for position in positions]
    if "namespace" in words[:2]:
        return Scope("namespace", "".join(words[words.index("namespace") + 1 :]))
    if words and words[0] == "extern" and len(words) == 2:
        return Scope("linkage")
    start = head
    if words and words[0] == "template":
        while tokens[start] == "template":
            start = tokens.after_angles(start + 1)
        words = [tokens[position] for position in tokens.without_attributes(start, brace)]
    if "(" in words and not ("=" in words and words.index("=") < words.index("(") and "operator" not in words):
        return Scope("function", _before_brackets(tokens, start, brace))
    for keyword in ("struct", "class", "union", "enum"):
        if keyword in words and words[-1] != "=":  # else a table: const struct row table[] = {
            after = words[words.index(keyword) + 1 :]
            names = [word for word in after if word[:1].isalpha() or word[:1] == "_"]
            return Scope("type", names[0] if names and names[0] not in ("class", "struct") else "".join(names[1:2]))
    return Scope("values")


def _before_brackets(tokens: Tokens, start: int, end: int) -> str:
    """The name before the first bracket of parameters."""
    position = function_position(tokens, start, end)
    return tokens[position] if position is not None else ""


def function_position(tokens: Tokens, start: int, end: int) -> int | None:
    """Where the name of a function stands: before the first bracket of parameters."""
    last: int | None = None
    previous = -2
    positions = list(tokens.without_attributes(start, end))
    for position in positions:
        if position < previous:
            continue  # inside angles
        text = tokens[position]
        if text == "operator":
            return position
        if text == "(":
            return last
        if tokens.kind(position) == "word":
            last = position
            if tokens[position + 1] == "<":
                previous = tokens.after_angles(position + 1)
    return None


def _function(found: SourceDeclarations, head: int, brace: int, scopes: Sequence[Scope], name: str) -> None:
    if name and "__global__" in found.tokens.slice(head, brace):
        _kernel(found, head, brace, scopes, (brace, found.tokens.partner(brace)))


def _kernel(
    found: SourceDeclarations, head: int, end: int, scopes: Sequence[Scope], body: tuple[int, int] | None
) -> None:
    tokens = found.tokens
    start: int = head
    template: list[str] | None = None
    while tokens[start] == "template":
        after = tokens.after_angles(start + 1) if tokens[start + 1] == "<" else start + 1
        template = [_last_word(tokens, *part) for part in split(tokens, start + 2, after - 1)]
        start = after
    position = function_position(tokens, start, end)
    if position is None:
        return
    bracket = position + 1
    if tokens[bracket] == "<":
        bracket = tokens.after_angles(bracket)
    close = tokens.partner(bracket)
    words = tokens.slice(head, end)
    if any(scope.kind == "type" for scope in scopes) and "friend" not in words:
        found.refused.append((position, f"the kernel {tokens[position]!r} cannot be a member of a class"))
    bounds = ""
    if "__launch_bounds__" in words:
        at = head + words.index("__launch_bounds__") + 1
        bounds = tokens.text(at + 1, tokens.partner(at)).split(",")[0].strip()
    path = [scope.name for scope in scopes if scope.kind == "namespace" and scope.name]
    first = position
    while tokens[first - 1] == "::" and tokens.kind(first - 2) == "word" and tokens[first - 2] != "void":
        first -= 2
        path.append(tokens[first])  # a namespace that stood around its declaration
    whole = "::".join([*path, tokens.text(position, bracket)])
    kernel = Kernel(
        name=tokens[position],
        qualified="::".join([*path, tokens[position]]),
        instance=whole if template == [] and bracket > position + 1 else "",
        parameters=(bracket, close),
        body=body,
        template=template,
        bounds=bounds,
    )
    for first, last in split(tokens, bracket + 1, close):
        kernel.types.append(_type_of(tokens, first, last))
        kernel.names.append(_name_of(tokens, first, last) or f"parameter {len(kernel.names)}")
    if kernel.types == ["void"]:
        kernel.types, kernel.names = [], []
    found.kernels.append(kernel)


def _last_word(tokens: Tokens, first: int, last: int) -> str:
    words = tokens.slice(first, last)
    words = words[: words.index("=")] if "=" in words else words
    return words[-1] if words else ""


def _statement(found: SourceDeclarations, head: int, semicolon: int, scopes: Sequence[Scope]) -> None:
    tokens = found.tokens
    words = set()
    position = head
    while position < semicolon:  # not what stands in a structure's braces
        words.add(tokens[position])
        position = tokens.partner(position) if tokens[position] == "{" else position + 1
    inside = any(scope.kind in ("function", "block") for scope in scopes)
    if "__shared__" in words:
        while tokens[head] == ":" or tokens[head + 1] == ":":  # behind a label
            head += 1
        found.shared.append((head, semicolon, inside))
    elif inside:
        if "__constant__" in words and not words & {"static", "extern"}:
            why = "a __constant__ variable stands outside functions, or is static"
            found.refused.append((head, why))
    elif "using" in words or tokens[head] in ("typedef", "namespace"):
        first = head + tokens.slice(head, semicolon).index("using") if "using" in words else head
        is_named = tokens[first + 2] == "=" and tokens[first] != "typedef"
        name = tokens[first + 1] if is_named else tokens[semicolon - 1]
        found.aliases.append(("" if tokens[first + 1] == "namespace" else name, first, semicolon))
    elif "__global__" in words:
        _kernel(found, head, semicolon, scopes, None)
    elif tokens[head + (tokens[head] == "static")] in ("texture", "surface"):
        path = [scope.name for scope in scopes if scope.kind == "namespace" and scope.name]
        if "(" not in words and not any(scope.kind == "type" for scope in scopes):
            found.symbols += [
                Symbol(name, "::".join([*path, name])) for name, _ in declarators(tokens, head, semicolon)
            ]
    elif words & SPACES and not words & {"extern", "typedef", "using", "friend", "operator", "template"}:
        path = [scope.name for scope in scopes if scope.kind == "namespace" and scope.name]
        if any(scope.kind == "type" for scope in scopes) or is_function(tokens, head, semicolon):
            return
        if "=" in words:
            found.initialised.append((head, tokens.slice(head, semicolon).index("=") + head))
        constant = "__constant__" in words
        for name, _ in declarators(tokens, head, semicolon):
            found.symbols.append(Symbol(name, "::".join([*path, name]), constant))


def is_function(tokens: Tokens, head: int, semicolon: int) -> bool:
    """Whether a declaration without a body may be a function's."""
    for position in tokens.without_attributes(head, semicolon):
        if tokens[position] in ("=", "[", "{"):
            return False
        if tokens[position] == "(":
            return True
    return False


def is_word(text: str) -> bool:
    """Whether a token is a keyword or a name."""
    return text[:1].isalpha() or (text[:1] in "_$" and text != "")


def is_name(text: str) -> bool:
    """Whether a token is a name."""
    return is_word(text) and text not in KEYWORDS


def split(tokens: Tokens, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts between commas, from ``start`` up to ``end``, outside brackets and angles."""
    first = position = start
    while position < end:
        text = tokens[position]
        if text in ("(", "[", "{"):
            position = tokens.partner(position)
        elif text == "<" and position > start and tokens.kind(position - 1) == "word":
            behind = tokens.after_angles(position)
            position = behind - 1 if behind <= end else position
        elif text == ",":
            yield first, position
            first = position + 1
        position += 1
    if first < end:
        yield first, end


def declarators(tokens: Tokens, head: int, semicolon: int) -> list[tuple[str, int]]:
    """Name and position of every variable that a declaration declares."""
    found = []
    for first, last in split(tokens, head, semicolon):
        name: int | None = None
        skip = first
        for position in tokens.without_attributes(first, last):
            if position < skip:
                continue
            text = tokens[position]
            if text == "{" and {"struct", "union", "class"} & {tokens[position - 1], tokens[position - 2]}:
                skip, name = tokens.partner(position) + 1, None
                continue
            if text in ("[", "=", "{", ":") or (text == "(" and name is not None):
                break
            if tokens.kind(position) == "word" and text not in KEYWORDS:
                name = position
                if tokens[position + 1] == "<":
                    skip = tokens.after_angles(position + 1)
        if name is not None:
            found.append((tokens[name], name))
    return found


def _name_of(tokens: Tokens, first: int, last: int) -> str:
    words = []
    for position in range(first, last):
        text = tokens[position]
        if text in ("=", "["):
            break
        if tokens.kind(position) == "word" and text not in _QUALIFIERS:
            words.append(text)
    if len(words) < 2 or words[-1] in KEYWORDS:
        return ""
    return words[-1]


def _type_of(tokens: Tokens, first: int, last: int) -> str:
    words = tokens.slice(first, last)
    for stop in ("=",):
        if stop in words:
            words = words[: words.index(stop)]
    name = _name_of(tokens, first, last)
    if name:
        words = words[: len(words) - 1 - words[::-1].index(name)]
    words += ["*"] if "[" in tokens.slice(first, last) else []
    return " ".join(word for word in words if word not in _QUALIFIERS - {"const"})


def identifiers(tokens: Tokens, start: int, end: int) -> set[str]:
    """The identifiers from ``start`` up to ``end``."""
    kinds, texts = tokens.kinds, tokens.texts
    return {texts[index] for index in tokens.words[start:end] if kinds[index] == "word"}
