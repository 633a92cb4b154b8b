"""One instruction of PTX in its parts, as the tables of instructions see it."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from .registers import TYPES, Registers, UnsupportedInstructionError, cpp_type


@dataclass
class Instruction:
    """``add.rn.f32 %0, %1, %2``: the operation, what modifies it, its types, and the operands as they are written."""

    opcode: str
    operation: str
    flags: list[str]
    types: list[str]
    operands: list[str]
    registers: Registers

    @staticmethod
    def read(text: str, registers: Registers) -> Instruction:
        """The instruction that a text is."""
        opcode, rest = re.fullmatch(r"([\w.:]*)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
        operation, *modifiers = opcode.split(".")
        types = [word for word in modifiers if word in TYPES]
        flags = [word for word in modifiers if word not in TYPES]
        return Instruction(opcode, operation, flags, types, _split(rest), registers)

    @property
    def type(self) -> str:
        """Its type: the first, if there are several."""
        if not self.types:
            raise UnsupportedInstructionError("its form")
        return self.types[0]

    @property
    def cpp(self) -> str:
        """What its type is in C++."""
        return cpp_type(self.type)

    def take(self, *flags: str) -> list[str]:
        """Those of some modifiers that it has; they are known then."""
        found = [flag for flag in self.flags if flag in flags]
        self.flags = [flag for flag in self.flags if flag not in flags]
        return found

    def check(self, *counts: int) -> None:
        """Refuse it if modifiers are left that nobody knows, or if it has not so many operands.

        Raises:
            UnsupportedInstructionError: that is so.
        """
        if self.flags:
            raise UnsupportedInstructionError(f"its '.{self.flags[0]}'")
        if counts and len(self.operands) not in counts:
            raise UnsupportedInstructionError(f"its {len(self.operands)} operands")

    def only(self, types: Collection[str]) -> None:
        """Refuse it if it has no type, or another than these."""
        if self.type not in types:
            raise UnsupportedInstructionError(f"its type '.{self.type}'")

    def value(self, place: int, type_: str = "") -> str:
        """C++ for an operand's value, of the instruction's own type unless another is said."""
        return self.registers.read(self.operands[place], type_ or self.type)

    def values(self, first: int, type_: str = "") -> list[str]:
        """The values of all operands from one on."""
        return [self.value(place, type_) for place in range(first, len(self.operands))]

    def result(self, value: str) -> str:
        """A statement that puts a value into the first operand."""
        return self.registers.write(self.operands[0], value)

    def vector(self, place: int) -> list[str]:
        """The parts of an operand ``{a, b}``; one that is none is its own only part."""
        text = self.operands[place]
        return _split(text[1:-1]) if text.startswith("{") and text.endswith("}") else [text]

    def address(self, place: int, space: str = "") -> str:
        """C++ for an operand that is an address in a space."""
        return self.registers.address(self.operands[place], space)


def _split(text: str) -> list[str]:
    """The parts between commas outside brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "{[(") - (sign in "}])")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]
