"""Instructions that compare, choose, convert and move."""

from __future__ import annotations

from collections.abc import Callable

from .instruction import Instruction
from .registers import TYPES, UnsupportedInstructionError, cpp_type

_FLOATS = frozenset({"f32", "f64"})
_PAIRS = {"f16x2": "f16", "bf16x2": "bf16"}

_COMPARISONS = {
    "eq": "=={}",
    "ne": "!={}",
    "lt": "<{}",
    "le": "<={}",
    "gt": ">{}",
    "ge": ">={}",
    "lo": "<{}",
    "ls": "<={}",
    "hi": ">{}",
    "hs": ">={}",
}


def _comparison(it: Instruction, type_: str, first: int) -> str:
    """C++ for the comparison that the modifiers name of two operands, joined with a predicate by ``.and`` and such."""
    comparisons = it.take(*_COMPARISONS, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
    joins = it.take("and", "or", "xor")
    flush = it.take("ftz") and type_ == "f32"
    it.check()
    if len(comparisons) != 1:
        raise UnsupportedInstructionError("its form")
    a, b = (f"__ptx::flush({text})" if flush else text for text in (it.value(first, type_), it.value(first + 1, type_)))
    name = comparisons[0]
    either = f"(__ptx::is_nan({a}) || __ptx::is_nan({b}))"
    floating = type_[0] == "f" or type_[0:2] == "bf"
    if name in ("num", "nan"):
        value = either if name == "nan" else f"!{either}"
    elif name.endswith("u") and name[:2] in _COMPARISONS:
        value = f"({either} || {a} {_COMPARISONS[name[:2]].format(' ' + b)})"
    else:
        value = f"({a} {_COMPARISONS[name].format(' ' + b)})"
        if floating and name == "ne":
            value = f"(!{either} && {value})"
    if joins:
        signs = {"and": "&", "or": "|", "xor": "^"}
        return f"{value} {signs[joins[0]]} {it.value(first + 2, 'pred')}"
    return value


def _set_predicate(it: Instruction) -> str:
    names = [name.strip() for name in it.operands[0].split("|")]
    if it.type in _PAIRS:
        raise UnsupportedInstructionError(f"its type '.{it.type}'")
    joined = set(it.flags) & {"and", "or", "xor"}
    value = _comparison(it, it.type, 1)
    writes = [it.registers.write(names[0], "(bool)__ptx_is")]
    if len(names) > 1:
        if joined:
            raise UnsupportedInstructionError("two predicates with a third")
        writes.append(it.registers.write(names[1], "!__ptx_is"))
    return f"{{ const bool __ptx_is = {value}; {' '.join(writes)} }}"


def _set(it: Instruction) -> str:
    if len(it.types) != 2:
        raise UnsupportedInstructionError("its form")
    to, of = it.types
    value = _comparison(it, of, 1)
    yes, no = ("1.0f", "0.0f") if to == "f32" else ("~0u", "0u")
    return it.result(f"({cpp_type(to)})(({value}) ? {yes} : {no})")


def _select(it: Instruction) -> str:
    it.check(4)
    return it.result(f"({it.value(3, 'pred')} ? {it.value(1)} : {it.value(2)})")


def _select_by_sign(it: Instruction) -> str:
    it.take("ftz")
    it.check(4)
    return it.result(f"({it.value(3, it.types[1])} >= 0 ? {it.value(1)} : {it.value(2)})")


def _test(it: Instruction) -> str:
    tests = {
        "finite": "__builtin_isfinite(x)", "infinite": "__builtin_isinf(x)", "number": "x == x",
        "notanumber": "x != x", "normal": "__builtin_isnormal(x)",
        "subnormal": "x != 0 && __builtin_isfinite(x) && !__builtin_isnormal(x)",
    }  # fmt: skip
    wanted = it.take(*tests)
    it.only(_FLOATS)
    it.check(2)
    return it.result(f"[]({it.cpp} x) {{ return (bool)({tests[wanted[0]]}); }}({it.value(1)})")


_TO_INTEGRAL = {"rni": "NEAREST", "rzi": "TO_ZERO", "rmi": "DOWN", "rpi": "UP"}
_OF_FLOATS = {"rn": "NEAREST", "rz": "TO_ZERO", "rm": "DOWN", "rp": "UP", "rna": "AWAY"}


def _convert(it: Instruction) -> str:
    integral, rounding = it.take(*_TO_INTEGRAL), it.take(*_OF_FLOATS)
    flush, within, relu = it.take("ftz"), it.take("sat"), it.take("relu")
    if it.take("tf32"):
        it.check(2)
        return it.result(f"__ptx::to_tf32({it.value(1)}, __ptx::{_OF_FLOATS[(rounding or ['rn'])[0]]})")
    it.check(2, 3)
    if len(it.types) != 2:
        raise UnsupportedInstructionError("its types")
    to, of = it.types
    way = f"__ptx::{({**_TO_INTEGRAL, **_OF_FLOATS})[(integral or rounding or ['rn'])[0]]}"

    def one(place: int, type_: str) -> str:
        value = it.value(place, of)
        if flush and of == "f32":
            value = f"__ptx::flush({value})"
        floating = type_[0] == "f" or type_[0] == "b"
        if integral and type_ == of:
            value = f"__ptx::rounded({value}, {way})"
        else:
            clamp = str(bool(within) and not floating).lower()
            value = f"__ptx::convert<{cpp_type(type_)}, {cpp_type(of)}>({value}, {way}, {clamp})"
        if within and floating:
            value = f"__ptx::saturate({value})"
        if flush and type_ == "f32":
            value = f"__ptx::flush({value})"
        return f"__ptx::relu({value})" if relu else value

    if to in _PAIRS:
        if len(it.operands) != 3:
            raise UnsupportedInstructionError("its form")
        return it.result(f"{cpp_type(to)}({one(2, _PAIRS[to])}, {one(1, _PAIRS[to])})")
    it.check(2)
    if {to, of} & {"f16x2", "bf16x2", "pred"}:
        raise UnsupportedInstructionError("its types")
    return it.result(one(1, to.replace("b", "u") if to in ("b8", "b16", "b32", "b64") else to))


def _move(it: Instruction) -> str:
    """``mov``, which also packs and splits."""
    it.check(2)
    parts, from_ = it.vector(0), it.vector(1)
    if len(parts) == len(from_) == 1:
        return it.result(it.value(1))
    if it.type not in ("b16", "b32", "b64", "u32", "u64") or 1 not in (len(parts), len(from_)):
        raise UnsupportedInstructionError("its form")
    width, count = int(it.type[1:]), max(len(parts), len(from_))
    part = f"u{width // count}"
    if part not in TYPES:
        raise UnsupportedInstructionError("its form")
    whole = cpp_type(f"u{width}")
    if len(parts) == 1:
        shifted = (
            f"({whole}){it.registers.read(text, part)} << {place * width // count}" for place, text in enumerate(from_)
        )
        return it.result(f"({whole})({' | '.join(shifted)})")
    writes = (
        it.registers.write(text, f"({cpp_type(part)})(__ptx_whole >> {place * width // count})")
        for place, text in enumerate(parts)
    )
    return f"{{ const {whole} __ptx_whole = {it.value(1)}; {' '.join(writes)} }}"


CONVERSIONS: dict[str, Callable[[Instruction], str]] = {
    "testp": _test,
    "setp": _set_predicate,
    "set": _set,
    "selp": _select,
    "slct": _select_by_sign,
    "cvt": _convert,
    "mov": _move,
}
"""How each instruction becomes a statement of C++."""
