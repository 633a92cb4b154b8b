"""Instructions that compute: arithmetic and bits."""

from __future__ import annotations

from collections.abc import Callable

from .instruction import Instruction
from .registers import TYPES, UnsupportedInstructionError, cpp_type

_INTEGERS = frozenset(f"{sign}{bits}" for sign in "us" for bits in (16, 32, 64))
_BITS = frozenset({"b16", "b32", "b64"})
_FLOATS = frozenset({"f32", "f64"})
_SMALL = frozenset({"f16", "bf16"})
_PAIRS = {"f16x2": "f16", "bf16x2": "bf16"}
_ROUNDINGS = {"rn": "rn", "rz": "rz", "rm": "rd", "rp": "ru"}
_NAMES = {"add": "add", "sub": "sub", "mul": "mul", "div": "div", "rcp": "rcp", "sqrt": "sqrt"}
_CARRY = "__cuplug::self()->carry"


def _each(it: Instruction, function: str, *arguments: str) -> str:
    """A function of numbers, for a pair of each of the two."""
    if it.type not in _PAIRS:
        return f"{function}({', '.join(arguments)})"
    small = cpp_type(_PAIRS[it.type])
    names = [chr(ord("a") + place) for place in range(len(arguments))]
    parameters = ", ".join(f"{small} {name}" for name in names)
    return f"__ptx::each({', '.join(arguments)}, []({parameters}) {{ return {function}({', '.join(names)}); }})"


def _float(it: Instruction, function: Callable[..., str]) -> str:
    """A function of the operands behind the first, with what ``.ftz``, ``.sat`` and ``.relu`` ask for."""
    flush, within, relu = it.take("ftz"), it.take("sat"), it.take("relu")
    arguments = it.values(1)
    if flush:
        arguments = [_each(it, "__ptx::flush", argument) for argument in arguments]
    value = function(*arguments)
    for wanted, name in ((flush, "flush"), (within, "saturate"), (relu, "relu")):
        if wanted:
            value = _each(it, f"__ptx::{name}", value)
    it.check()
    return it.result(f"({it.cpp})({value})" if it.type in _FLOATS else value)


def _rounded(it: Instruction, name: str) -> str | None:
    """The intrinsic that rounds as the instruction says, if it says so."""
    rounding = it.take(*_ROUNDINGS)
    if not rounding or it.type not in _FLOATS:
        return None
    letter = "f" if it.type == "f32" else "d"
    if name == "fma":
        return f"__fma{'f' if letter == 'f' else ''}_{_ROUNDINGS[rounding[0]]}"
    return f"__{letter}{name}_{_ROUNDINGS[rounding[0]]}"


def _sum(it: Instruction) -> str:
    """``add`` and ``sub``, with carries: ``addc``, ``add.cc``."""
    minus = it.operation.startswith("sub")
    if it.type in _FLOATS | _SMALL or it.type in _PAIRS:
        exact = _rounded(it, it.operation)
        return _float(it, lambda a, b: f"{exact}({a}, {b})" if exact else _each(it, f"__ptx::{it.operation}", a, b))
    it.only(_INTEGERS)
    keeps, uses, within = it.take("cc"), it.operation.endswith("c"), it.take("sat")
    it.check(3)
    if within:
        return it.result(f"__ptx::saturated_sum<{it.cpp}>({it.value(1)}, {it.value(2)}, {str(minus).lower()})")
    if not keeps and not uses:
        return it.result(f"__ptx::{'sub' if minus else 'add'}<{it.cpp}>({it.value(1)}, {it.value(2)})")
    return _with_carry(it, minus, it.value(1, _unsigned(it.type)), it.value(2, _unsigned(it.type)), uses, bool(keeps))


def _with_carry(it: Instruction, minus: bool, a: str, b: str, uses: bool, keeps: bool) -> str:
    function = f"__ptx::{'sub_borrow' if minus else 'add_carry'}<{cpp_type(_unsigned(it.type))}>"
    carry = f"{_CARRY} = __ptx_carry;" if keeps else ""
    value = f"{function}({a}, {b}, {_CARRY if uses else '0u'}, __ptx_carry)"
    return f"{{ unsigned __ptx_carry; {it.result(value)} {carry} }}"


def _unsigned(type_: str) -> str:
    return f"u{type_[1:]}"


def _product(it: Instruction) -> str:
    if it.type in _FLOATS | _SMALL or it.type in _PAIRS:
        exact = _rounded(it, "mul")
        return _float(it, lambda a, b: f"{exact}({a}, {b})" if exact else _each(it, "__ptx::mul", a, b))
    it.only(_INTEGERS)
    part = it.take("lo", "hi", "wide")
    it.check(3)
    return it.result(_part_of_product(it, part))


def _part_of_product(it: Instruction, part: list[str]) -> str:
    a, b = it.value(1), it.value(2)
    if part == ["wide"]:
        wide = cpp_type(f"{it.type[0]}{2 * int(it.type[1:])}") if it.type[1:] != "64" else ""
        if not wide:
            raise UnsupportedInstructionError("its type '.64'")
        return f"({wide}){a} * ({wide}){b}"
    if part == ["hi"]:
        return f"__ptx::high<{it.cpp}>({a}, {b})"
    if part == ["lo"]:
        unsigned = cpp_type(_unsigned(it.type))
        return f"({it.cpp})(({unsigned}){a} * ({unsigned}){b})"
    raise UnsupportedInstructionError("its form")


def _fused(it: Instruction) -> str:
    """``mad`` and ``fma``."""
    if it.type in _FLOATS | _SMALL or it.type in _PAIRS:
        exact = _rounded(it, "fma")
        return _float(it, lambda a, b, c: f"{exact}({a}, {b}, {c})" if exact else _each(it, "__ptx::fused", a, b, c))
    it.only(_INTEGERS)
    part, keeps, uses, within = it.take("lo", "hi", "wide"), it.take("cc"), it.operation == "madc", it.take("sat")
    it.check(4)
    product = _part_of_product(it, part)
    if within:
        return it.result(f"__ptx::saturated_sum<{it.cpp}>({product}, {it.value(3)}, false)")
    if keeps or uses:
        return _with_carry(it, False, f"(({cpp_type(_unsigned(it.type))})({product}))",
                           it.value(3, _unsigned(it.type)), uses, bool(keeps))  # fmt: skip
    wide = f"{it.type[0]}{2 * int(it.type[1:])}" if part == ["wide"] else it.type
    return it.result(f"__ptx::add<{cpp_type(wide)}>({product}, {it.value(3, wide)})")


def _of_24_bits(it: Instruction) -> str:
    it.only(("u32", "s32"))
    it.take("lo")
    it.check(4 if it.operation == "mad24" else 3)
    product = f"(__ptx::u32)__ptx::of_24_bits({it.value(1)}) * (__ptx::u32)__ptx::of_24_bits({it.value(2)})"
    return it.result(f"{product} + {it.value(3, 'u32')}" if it.operation == "mad24" else product)


def _division(it: Instruction) -> str:
    if it.type in _FLOATS:
        exact = _rounded(it, "div")
        it.take("approx", "full")
        return _float(it, lambda a, b: f"{exact}({a}, {b})" if exact else f"({a} / {b})")
    it.only(_INTEGERS)
    it.check(3)
    function = "remainder" if it.operation == "rem" else "divide"
    return it.result(f"__ptx::{function}<{it.cpp}>({it.value(1)}, {it.value(2)})")


def _extreme(it: Instruction) -> str:
    function = f"__ptx::{'least' if it.operation == 'min' else 'greatest'}"
    if it.type in _INTEGERS:
        it.check(3)
        return it.result(f"{function}<{it.cpp}>({it.value(1)}, {it.value(2)})")
    if len(it.operands) == 4 and it.type == "f32" and "NaN" not in it.flags:
        return _float(it, lambda a, b, c: f"{function}({function}({a}, {b}), {c})")
    if it.take("NaN"):
        return _float(it, lambda a, b: _each(it, "__ptx::nan_or", a, b, _each(it, function, a, b)))
    return _float(it, lambda a, b: _each(it, function, a, b))


def _sign(it: Instruction) -> str:
    function = f"__ptx::{'absolute' if it.operation == 'abs' else 'negative'}"
    return _float(it, lambda a: _each(it, function, a))


def _of_one_float(functions: dict[str, str]) -> Callable[[Instruction], str]:
    def emit(it: Instruction) -> str:
        exact = _rounded(it, it.operation) if it.operation in ("rcp", "sqrt") else None
        it.take("approx")
        if it.type in _SMALL or it.type in _PAIRS:
            name = functions.get("f32", "")
            small = cpp_type(_PAIRS.get(it.type, it.type))
            return _float(it, lambda a: _each(it, f"[](__ptx::f32 x) {{ return {small}({name}(x)); }}", a))
        name = exact or functions.get(it.type, "")
        if not name:
            raise UnsupportedInstructionError(f"its type '.{it.type}'")
        return _float(it, lambda a: f"{name}({a})")

    return emit


def _logic(sign: str) -> Callable[[Instruction], str]:
    def emit(it: Instruction) -> str:
        it.only(_BITS | {"pred"})
        it.check(3)
        return it.result(f"({it.cpp})({it.value(1)} {sign} {it.value(2)})")

    return emit


def _not(it: Instruction) -> str:
    it.only(_BITS | {"pred"})
    it.check(2)
    if it.operation == "cnot":
        return it.result(f"({it.cpp})({it.value(1)} == 0)")
    return it.result(f"!{it.value(1)}" if it.type == "pred" else f"({it.cpp})~{it.value(1)}")


def _shift(it: Instruction) -> str:
    it.only(_BITS | _INTEGERS)
    it.check(3)
    direction = "left" if it.operation == "shl" else "right"
    return it.result(f"__ptx::shift_{direction}<{it.cpp}>({it.value(1)}, {it.value(2, 'u32')})")


def _funnel_shift(it: Instruction) -> str:
    it.only(("b32",))
    letters = "".join(flag[0] for flag in it.take("l", "r")), "c" if it.take("clamp") else ""
    it.take("wrap")
    it.check(4)
    return it.result(f"__funnelshift_{letters[0]}{letters[1]}({', '.join(it.values(1))})")


def _call(function: str, *types: str, of: str = "") -> Callable[[Instruction], str]:
    """An instruction that is a function of its operands. ``types``: theirs, where they are not the instruction's."""

    def emit(it: Instruction) -> str:
        if of:
            it.only(of.split())
        it.check(1 + len(types))
        arguments = (it.value(place + 1, type_) for place, type_ in enumerate(types))
        return it.result(f"{function.replace('T', it.cpp)}({', '.join(arguments)})")

    return emit


def _count(function: str) -> Callable[[Instruction], str]:
    def emit(it: Instruction) -> str:
        it.only(("b32", "b64"))
        it.check(2)
        name = f"{function}{'ll' if it.type == 'b64' else ''}"
        return it.result(
            f"{f'(__ptx::{TYPES[it.type]})' if function == '__brev' else '(__ptx::u32)'}{name}({it.value(1)})"
        )

    return emit


def _highest(it: Instruction) -> str:
    it.only(("u32", "s32", "u64", "s64"))
    as_shift = str(bool(it.take("shiftamt"))).lower()
    it.check(2)
    return it.result(f"__ptx::highest<{it.cpp}>({it.value(1)}, {as_shift})")


def _dot(it: Instruction) -> str:
    if len(it.types) != 2 or not {*it.types} <= {"u32", "s32"}:
        raise UnsupportedInstructionError("its types")
    upper = it.take("lo", "hi")
    it.check(4)
    parts = [f"__ptx::{type_[0]}{bits}" for type_, bits in zip(it.types, (8, 8) if not upper else (16, 8), strict=True)]
    arguments = ", ".join(it.values(1, "u32"))
    further = f", {int(upper == ['hi'])}u" if upper else ""
    return it.result(f"__ptx::dot{it.operation[2]}<{', '.join(parts)}>({arguments}{further})")


def _differences(it: Instruction) -> str:
    """``vabsdiff4``, with or without the sum of a third operand."""
    if it.types != ["u32", "u32", "u32"]:
        raise UnsupportedInstructionError("its types")
    adds = it.take("add")
    it.check(4)
    a, b, c = it.values(1, "u32")
    return it.result(f"__vsadu4({a}, {b}) + {c}" if adds else f"__vabsdiffu4({a}, {b})")


COMPUTATIONS: dict[str, Callable[[Instruction], str]] = {
    **dict.fromkeys(("add", "sub", "addc", "subc"), _sum),
    "mul": _product,
    **dict.fromkeys(("mad", "fma", "madc"), _fused),
    **dict.fromkeys(("mul24", "mad24"), _of_24_bits),
    **dict.fromkeys(("div", "rem"), _division),
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(("abs", "neg"), _sign),
    "rcp": _of_one_float({"f32": "1.0f / ", "f64": "1.0 / "}),
    "sqrt": _of_one_float({"f32": "sqrtf", "f64": "sqrt"}),
    "rsqrt": _of_one_float({"f32": "rsqrtf", "f64": "rsqrt"}),
    "sin": _of_one_float({"f32": "sinf"}),
    "cos": _of_one_float({"f32": "cosf"}),
    "lg2": _of_one_float({"f32": "log2f"}),
    "ex2": _of_one_float({"f32": "exp2f"}),
    "tanh": _of_one_float({"f32": "tanhf"}),
    "copysign": lambda it: _float(it, lambda a, b: f"copysign({b}, {a})"),
    "and": _logic("&"),
    "or": _logic("|"),
    "xor": _logic("^"),
    **dict.fromkeys(("not", "cnot"), _not),
    **dict.fromkeys(("shl", "shr"), _shift),
    "shf": _funnel_shift,
    "popc": _count("__popc"),
    "clz": _count("__clz"),
    "brev": _count("__brev"),
    "bfind": _highest,
    "bfe": lambda it: _call("__ptx::extract<T>", it.type, "u32", "u32", of="u32 s32 u64 s64")(it),
    "bfi": lambda it: _call("__ptx::insert<T>", it.type, it.type, "u32", "u32", of="b32 b64")(it),
    "prmt": _call("__ptx::permute", "u32", "u32", "u32", of="b32"),
    "lop3": _call("__cuplug::lop3", "b32", "b32", "b32", "b32", of="b32"),
    "sad": lambda it: _call("__sad" if it.type == "s32" else "__usad", it.type, it.type, "u32", of="u32 s32")(it),
    **dict.fromkeys(("dp4a", "dp2a"), _dot),
    "vabsdiff4": _differences,
}
"""How each instruction becomes a statement of C++."""
