"""What instructions of PTX name: registers, operands of the program, special registers, numbers and addresses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TYPES: dict[str, str] = {
    **{f"{sign}{bits}": f"{sign}{bits}" for sign in "us" for bits in (8, 16, 32, 64)},
    **{f"b{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    **{name: name for name in ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64")},
    "pred": "bool",
}
"""The types of instructions, and what ``headers/ptx.h`` calls them."""

_WIDTHS = {"b8": 16, "u8": 16, "s8": 16, "f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "pred": 1}
_LANES = {"eq": "(1u << {0})", "lt": "((1u << {0}) - 1u)", "le": "((2u << {0}) - 1u)", "gt": "~((2u << {0}) - 1u)"}
_LANES["ge"] = "~((1u << {0}) - 1u)"
_SPECIAL = {
    "laneid": "__cuplug::lane()",
    "warpid": "(__cuplug::self()->thread / 32)",
    "nwarpid": "((__cuplug::self()->thread_count + 31) / 32)",
    "smid": "0u",
    "nsmid": "1u",
    "gridid": "0ull",
    **{f"lanemask_{name}": text.format("__cuplug::lane()") for name, text in _LANES.items()},
    "clock": "(unsigned)clock64()",
    "clock_hi": "(unsigned)(clock64() >> 32)",
    "clock64": "clock64()",
    "globaltimer": "__cuplug::globaltimer()",
    "globaltimer_lo": "(unsigned)__cuplug::globaltimer()",
    "globaltimer_hi": "(unsigned)(__cuplug::globaltimer() >> 32)",
    "dynamic_smem_size": "__cuplug::self()->shared_nbytes",
    **{
        f"{ptx}.{axis}": f"__cuplug_{name}.{axis}"
        for ptx, name in {
            "tid": "threadIdx",
            "ctaid": "blockIdx",
            "ntid": "blockDim",
            "nctaid": "gridDim",
            "clusterid": "blockIdx",
            "nclusterid": "gridDim",
        }.items()
        for axis in "xyz"
    },
    # Without clusters every block is one of its own.
    **{f"cluster_ctaid.{axis}": "0u" for axis in "xyz"},
    **{f"cluster_nctaid.{axis}": "1u" for axis in "xyz"},
    "cluster_ctarank": "0u",
    "cluster_nctarank": "1u",
}


class UnsupportedInstructionError(Exception):
    """The text says what of an instruction is not known here."""


def cpp_type(name: str) -> str:
    """How ``headers/ptx.h`` calls a type of PTX."""
    return TYPES[name] if name == "pred" else f"__ptx::{TYPES[name]}"


@dataclass
class Registers:
    """The registers that one ``asm`` statement declares, and the program's operands."""

    operands: dict[str, str]
    """The variables that hold the operands, by ``%0`` or ``%[name]``."""
    declared: list[str] = field(default_factory=list)
    """C++ declarations of what the statement declares itself."""
    _scopes: list[dict[str, str]] = field(default_factory=lambda: [{}])

    def open(self) -> None:
        """Begin a scope: ``{``."""
        self._scopes.append({})

    def close(self) -> None:
        """End a scope: ``}``."""
        if len(self._scopes) == 1:
            raise UnsupportedInstructionError("'}' closes what another asm statement opens")
        self._scopes.pop()

    def declare(self, text: str) -> None:
        """Declare registers: what follows ``.reg``."""
        kind, _, names = text.strip().partition(" ")
        name_of_type = kind.lstrip(".")
        if name_of_type not in TYPES:
            raise UnsupportedInstructionError(f"registers of type '{kind}'")
        width = _WIDTHS.get(name_of_type) or int(re.sub(r"\D", "", name_of_type))
        type_ = "bool" if width == 1 else f"__ptx::u{width}"
        for entry in names.split(","):
            counted = re.fullmatch(r"([\w$%]+)<(\d+)>", entry.strip())
            for name in [f"{counted[1]}{i}" for i in range(int(counted[2]))] if counted else [entry.strip()]:
                variable = f"__ptx_r{len(self.declared)}"
                self._scopes[-1][name] = variable
                self.declared.append(f"{type_} {variable} = 0;")

    def variable(self, name: str) -> str:
        """The variable that is a register or an operand."""
        if name in self.operands:
            return self.operands[name]
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        raise UnsupportedInstructionError(f"'{name}'")

    def read(self, text: str, type_: str) -> str:
        """C++ for a value of a type of PTX."""
        if type_ == "pred":
            return f"!{self.variable(text[1:].strip())}" if text.startswith("!") else self.variable(text)
        cpp = cpp_type(type_)
        number = _number(text)
        if number is not None:
            floating = type_ in ("f32", "f64") and not text.startswith(("0f", "0F", "0d", "0D"))
            return f"({cpp})({number})" if floating or type_[0] in "usb" else f"__ptx::get<{cpp}>({number})"
        if text in self.operands or not text.startswith("%") or text in self._declared_names():
            return f"__ptx::get<{cpp}>({self.variable(text)})"
        special = _SPECIAL.get(text.lstrip("%"))
        if special is None:
            raise UnsupportedInstructionError(f"the special register '{text}'")
        return f"({cpp})({special})"

    def write(self, text: str, value: str) -> str:
        """A C++ statement that puts a value into a register."""
        return f"(void)({value});" if text == "_" else f"__ptx::put({self.variable(text)}, {value});"

    def address(self, text: str, space: str = "") -> str:
        """C++ for the number that is the address ``[a + 4]`` in a space."""
        match = re.fullmatch(r"\[\s*([^\]+]+?)\s*(?:\+\s*(-?\s*[\w%\[\]]+)\s*)?\]", text)
        if not match:
            raise UnsupportedInstructionError(f"the address '{text}'")
        base = self.read(match[1], "u64")
        if match[2]:
            offset = self.read(match[2].replace(" ", ""), "s64")
            base = f"({base} + {offset})"
        return f"__ptx::shared_address({base})" if space == "shared" else base

    def _declared_names(self) -> set[str]:
        return {name for scope in self._scopes for name in scope}


def _number(text: str) -> str | None:
    """C++ for a literal: the bits of one that is written as bits."""
    bits = re.fullmatch(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})", text)
    if bits:
        return f"0x{bits[1]}u" if bits[1] else f"0x{bits[2]}ull"
    integer = re.fullmatch(r"(-?)(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?", text)
    if integer:
        return f"{integer[1]}{integer[2]}ull" if not integer[1] else f"-{integer[2]}ll"
    if text == "WARP_SZ":
        return "32"
    return text if re.fullmatch(r"-?\d+\.\d*([eE][+-]?\d+)?", text) else None
