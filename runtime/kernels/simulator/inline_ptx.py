"""Inline PTX on the simulator: the instructions that kernels use for want of a function, one C++ expression each."""

from __future__ import annotations

import ast
import re

from ..source.tokens import Tokens

__all__ = ["as_cpp"]

_REGISTERS = {
    "%laneid": "__cuplug::lane()",
    "%warpid": "(__cuplug::self()->thread / 32)",
    "%nwarpid": "32u",
    "%smid": "0u",
    "%nsmid": "1u",
    "%lanemask_eq": "(1u << __cuplug::lane())",
    "%lanemask_lt": "((1u << __cuplug::lane()) - 1u)",
    "%lanemask_le": "((2u << __cuplug::lane()) - 1u)",
    "%lanemask_gt": "~((2u << __cuplug::lane()) - 1u)",
    "%lanemask_ge": "~((1u << __cuplug::lane()) - 1u)",
    "%clock": "(unsigned)clock64()",
    "%clock64": "clock64()",
    "%globaltimer": "__cuplug::globaltimer()",
    **{f"%{ptx}.{axis}": f"__cuplug_{name}.{axis}"
       for ptx, name in {"tid": "threadIdx", "ctaid": "blockIdx", "ntid": "blockDim", "nctaid": "gridDim"}.items()
       for axis in "xyz"},
}  # fmt: skip
_INSTRUCTIONS = {
    r"mov\.\w+": "{1}",
    r"add(\.rn)?(\.ftz)?\.\w+": "{1} + {2}",
    r"sub(\.rn)?(\.ftz)?\.\w+": "{1} - {2}",
    r"mul(\.rn)?(\.ftz)?\.f\d+|mul\.lo\.\w+": "{1} * {2}",
    r"mul\.hi\.u32": "__umulhi({1}, {2})",
    r"mul\.hi\.s32": "__mulhi({1}, {2})",
    r"mad\.lo\.\w+": "{1} * {2} + {3}",
    r"fma\.rn(\.ftz)?\.f\d+": "fma({1}, {2}, {3})",
    r"min\.\w+": "min({1}, {2})",
    r"max\.\w+": "max({1}, {2})",
    r"and\.b\d+": "{1} & {2}",
    r"or\.b\d+": "{1} | {2}",
    r"xor\.b\d+": "{1} ^ {2}",
    r"not\.b\d+": "~{1}",
    r"shl\.b32": "({2} < 32u ? {1} << {2} : 0u)",
    r"shr\.[ub]32": "({2} < 32u ? (unsigned){1} >> {2} : 0u)",
    r"popc\.b32": "__popc({1})",
    r"clz\.b32": "__clz({1})",
    r"brev\.b32": "__brev({1})",
    r"prmt\.b32": "__byte_perm({1}, {2}, {3})",
    r"bfe\.u32": "(unsigned)((unsigned long long)(unsigned){1} >> {2} & ((1ull << {3}) - 1ull))",
    r"vabsdiff4\.u32\.u32\.u32\.add": "__vsadu4({1}, {2}) + {3}",
    r"vabsdiff4\.u32\.u32\.u32": "__vabsdiffu4({1}, {2})",
    r"lop3\.b32": "__cuplug::lop3({1}, {2}, {3}, {4})",
    r"bfind\.u32": "({1} ? 31u - (unsigned)__clz((int){1}) : 0xffffffffu)",
    r"dp4a\.s32\.s32": "__dp4a((int){1}, (int){2}, (int){3})",
    r"dp4a\.u32\.u32": "__dp4a((unsigned){1}, (unsigned){2}, (unsigned){3})",
    r"sqrt(\.approx|\.rn)(\.ftz)?\.f32": "sqrtf({1})",
    r"rsqrt\.approx(\.ftz)?\.f32": "rsqrtf({1})",
    r"rcp(\.approx|\.rn)(\.ftz)?\.f32": "(1.0f / {1})",
    r"ex2\.approx(\.ftz)?\.f32": "exp2f({1})",
    r"lg2\.approx(\.ftz)?\.f32": "log2f({1})",
    r"sin\.approx(\.ftz)?\.f32": "sinf({1})",
    r"cos\.approx(\.ftz)?\.f32": "cosf({1})",
    r"tanh\.approx\.f32": "tanhf({1})",
}
_STATEMENTS = {r"membar\.\w+|fence\.\S+": "__threadfence();", r"trap": "__trap();"}


def as_cpp(tokens: Tokens, position: int) -> tuple[int, str] | None:
    """C++ for the ``asm`` statement at ``position``, and the position of its closing bracket; None if it says what
    is not known here."""
    bracket = position + 1
    while tokens[bracket] in ("volatile", "__volatile__", "goto"):
        bracket += 1
    close = tokens.partner(bracket)
    parts: list[list[int]] = [[]]
    here = bracket + 1
    while here < close:
        parts += [[] for _ in range({":": 1, "::": 2}.get(tokens[here], 0))]
        if tokens[here] not in (":", "::"):
            parts[-1].append(here)
        here += 1
    template = "".join(ast.literal_eval(tokens[at]) for at in parts[0] if tokens.kind(at) == "string")
    operands = [operand for part in parts[1:3] for operand in _operands(tokens, part)]
    statements = []
    for instruction in re.split(r"[;\n]", template):
        if not instruction.strip():
            continue
        statement = _statement(instruction.strip(), operands)
        if statement is None:
            return None
        statements.append(statement)
    return close, f"{{ {' '.join(statements)} }}"


def _operands(tokens: Tokens, positions: list[int]) -> list[str]:
    """What stands in brackets behind each constraint."""
    found = []
    depth = 0
    for position in positions:
        text = tokens[position]
        if text == "(" and depth == 0:
            found.append(tokens.text(position, tokens.partner(position) + 1))
        depth += (text == "(") - (text == ")")
    return found


def _statement(instruction: str, operands: list[str]) -> str | None:
    opcode, _, rest = instruction.partition(" ")
    for pattern, statement in _STATEMENTS.items():
        if re.fullmatch(pattern, opcode):
            return statement
    values = [_value(text.strip(), operands) for text in rest.split(",")]
    for pattern, expression in _INSTRUCTIONS.items():
        if re.fullmatch(pattern, opcode) and len(values) == 1 + len(set(re.findall(r"{\d}", expression))):
            known = [value for value in values if value is not None]
            return f"{known[0]} = {expression.format(*known)};" if len(known) == len(values) else None
    return None


def _value(text: str, operands: list[str]) -> str | None:
    operand = re.fullmatch(r"%(\d+)", text)
    if operand:
        return operands[int(operand[1])] if int(operand[1]) < len(operands) else None
    if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)U?", text):
        return text
    return _REGISTERS.get(re.sub("^%+", "%", text))
