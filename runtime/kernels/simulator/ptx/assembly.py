"""``asm`` statements: what a template and its operands become in C++.

A statement becomes a block: the operands' values are read, the instructions follow one by one, and the results are
written. Its registers are variables of the block, its labels labels of the function.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from ...source.edits import Edits
from ...source.tokens import Tokens
from .computations import COMPUTATIONS
from .conversions import CONVERSIONS
from .instruction import Instruction
from .memory_and_threads import MATRICES, MEMORY_AND_THREADS
from .registers import Registers, UnsupportedInstructionError

_WORDS = {"r": "u32", "l": "u64", "h": "u16", "f": "u32", "d": "u64", "n": "u64"}
_FLOATS = {"f": "float", "d": "double"}
_INSTRUCTIONS = {**COMPUTATIONS, **CONVERSIONS, **MEMORY_AND_THREADS}


class UnsupportedPtxError(Exception):
    """An instruction that is not known here."""

    def __init__(self, instruction: str, what: str, lines: int, close: int) -> None:
        super().__init__(instruction, what)
        self.instruction = instruction
        self.what = what
        self.lines = lines
        """How many lines below the statement's first the instruction stands."""
        self.close = close
        """The position of the statement's closing bracket."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """One statement, translated."""

    close: int
    """The position of its closing bracket."""
    text: str
    """In C++."""
    matrices: bool
    """Whether it needs ``headers/ptx_matrices.h``."""


def read_assembly(tokens: Tokens, edits: Edits, position: int) -> Assembly:
    """The ``asm`` statement at ``position``; of its operands what ``edits`` made of them.

    Raises:
        UnsupportedPtxError: an instruction is not known.
    """
    bracket = position + 1
    while tokens[bracket] in ("volatile", "__volatile__", "__volatile", "goto", "inline"):
        bracket += 1
    close = tokens.partner(bracket)
    parts: list[list[int]] = [[]]
    depth = 0
    for here in range(bracket + 1, close):
        text = tokens[here]
        depth += (text in "([{") - (text in ")]}")
        if depth == 0 and text in (":", "::"):
            parts += [[] for _ in text]
        else:
            parts[-1].append(here)
    template, lines = _template(tokens, position, parts[0])
    statement = _Statement(tokens, edits, position, close, parts[1:3])
    return Assembly(close, statement.text(template, lines), statement.matrices)


def _template(tokens: Tokens, position: int, strings: list[int]) -> tuple[str, list[int]]:
    """The text of the literals, and for each of its characters how many lines below the statement it stands."""
    text, lines = "", list[int]()
    first = tokens.words[position]
    for at in strings:
        if tokens.kind(at) not in ("string", "raw"):
            continue
        literal = tokens[at]
        begins = sum(tokens.texts[index].count("\n") for index in range(first, tokens.words[at]))
        raw = re.fullmatch(r'(?:u8|[uUL])?R"([^(]*)\((.*)\)\1"', literal, re.DOTALL)
        part = raw[2] if raw else ast.literal_eval(literal)
        for sign in part:
            text += sign
            lines.append(begins)
            begins += raw is not None and sign == "\n"
    return text, lines


class _Statement:
    def __init__(self, tokens: Tokens, edits: Edits, position: int, close: int, operands: list[list[int]]) -> None:
        self.matrices = False
        self._close = close
        self._number = position
        self._before: list[str] = []
        self._after: list[str] = []
        self._labels: set[str] = set()
        self._current = ""
        """The instruction that is read."""
        names: dict[str, str] = {}
        for is_input, part in enumerate(operands):
            for name, constraint, expression in _operands(tokens, edits, part):
                number = len(set(names.values()))
                variable = f"__ptx_{number}"
                names[f"%{number}"] = variable
                if name:
                    names[f"%[{name}]"] = variable
                self._operand(variable, constraint, expression, is_input=bool(is_input))
        self._registers = Registers(names)

    def _operand(self, variable: str, constraint: str, expression: str, *, is_input: bool) -> None:
        kind = constraint.lstrip("=+&")
        if kind not in _WORDS:
            raise UnsupportedPtxError("asm", f"the constraint '{constraint}'", 0, self._close)
        word = f"__ptx::{_WORDS[kind]}"
        of = f"__ptx::in<{word}>(({_FLOATS[kind]})" if kind in _FLOATS else f"__ptx::in<{word}>("
        if is_input:
            self._before.append(f"const {word} {variable} = {of}{expression});")
            return
        self._before.append(f"auto&& {variable}_is = {expression};")
        self._before.append(f"{word} {variable} = {f'{of}{variable}_is)' if '+' in constraint else '0'};")
        self._after.append(f"__ptx::out({variable}_is, {variable});")

    def text(self, template: str, lines: list[int]) -> str:
        """C++ for the instructions of a template."""
        done: list[str] = []
        template = re.sub(r"/\*.*?\*/|//[^\n]*", lambda comment: " " * len(comment[0]), template, flags=re.DOTALL)
        for match in re.finditer(r"[^;]*(?:;|$)", template):
            piece = match[0].rstrip(";")
            start = match.start() + len(piece) - len(piece.lstrip())
            try:
                done += self._piece(piece.replace("%%", "%").replace("%=", str(self._number)))
            except UnsupportedInstructionError as error:
                line = lines[start] if start < len(lines) else 0
                raise UnsupportedPtxError(self._current, str(error), line, self._close) from None
        declared = self._registers.declared
        return f"do {{ {' '.join([*self._before, *declared, *done, *self._after])} }} while (0)"

    def _piece(self, piece: str) -> list[str]:
        done = []
        text = re.sub(r"\s+", " ", piece).strip()
        while text:
            self._current = text
            label = re.match(r"([\w$%]+) ?:(?!:)", text)
            if text[0] == "{":
                self._registers.open()
                text = text[1:].strip()
            elif text[0] == "}":
                self._registers.close()
                text = text[1:].strip()
            elif label:
                self._labels.add(label[1])
                done.append(f"{self._label(label[1])}:;")
                text = text[label.end() :].strip()
            else:
                break
        self._current = text
        if text.startswith(".reg"):
            self._registers.declare(text[4:])
        elif text.startswith((".pragma", ".loc", ".file")):
            pass
        elif text:
            done.append(self._guarded(text))
        return done

    def _guarded(self, text: str) -> str:
        guard = re.match(r"@ ?(! ?)?([\w$%\[\]]+) (.*)", text)
        if guard:
            condition = self._registers.read(f"{'!' if guard[1] else ''}{guard[2]}", "pred")
            return f"if ({condition}) {{ {self._instruction(guard[3])} }}"
        return self._instruction(text)

    def _instruction(self, text: str) -> str:
        it = Instruction.read(text, self._registers)
        if it.operation == "bra":
            it.take("uni")
            it.check(1)
            back = it.operands[0] in self._labels  # others may be waited for
            return f"{'__cuplug::spin(); ' if back else ''}goto {self._label(it.operands[0])};"
        emit = _INSTRUCTIONS.get(it.operation)
        if emit is None:
            raise UnsupportedInstructionError("")
        self.matrices |= it.operation in MATRICES
        try:
            return emit(it)
        except (IndexError, KeyError, TypeError, ValueError):  # fewer operands, or another form, than there is
            raise UnsupportedInstructionError("its form") from None

    def _label(self, name: str) -> str:
        plain = re.sub(r"\W", "_", name)
        return f"__ptx_{self._number}_{plain}"


def _operands(tokens: Tokens, edits: Edits, positions: list[int]) -> list[tuple[str, str, str]]:
    """Name, constraint and expression of each operand."""
    found, name, constraint, position = [], "", "", 0
    while position < len(positions):
        at = positions[position]
        if tokens[at] == "[":
            name = tokens[at + 1]
            position = positions.index(tokens.partner(at))
        elif tokens.kind(at) == "string":
            constraint += ast.literal_eval(tokens[at])
        elif tokens[at] == "(":
            close = tokens.partner(at)
            found.append((name, constraint, edits.present(at, close + 1)))
            name = constraint = ""
            position = positions.index(close)
        position += 1
    return found
