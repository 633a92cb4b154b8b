"""Instructions that reach memory or other threads: loads, stores, atomics, barriers, votes, shuffles, matrices."""

from __future__ import annotations

import re
from collections.abc import Callable

from .instruction import Instruction
from .registers import UnsupportedInstructionError, cpp_type

_SPACES = ("global", "shared", "shared::cta", "local", "const")
_SCOPES = ("cta", "cluster", "gpu", "sys")
_CACHES = ("ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc")
_ORDERS = {"relaxed": "__ATOMIC_RELAXED", "acquire": "__ATOMIC_ACQUIRE", "release": "__ATOMIC_RELEASE"}
_MEMORY = frozenset(f"{kind}{bits}" for kind in "usb" for bits in (8, 16, 32, 64)) | {"f32", "f64"}


def _space(it: Instruction) -> str:
    found = it.take(*_SPACES)
    return "shared" if found and found[0].startswith("shared") else ""


def _hints(it: Instruction) -> int:
    """Take what concerns caches alone; how many operands that has."""
    levels = [flag for flag in it.flags if re.match(r"L[12]::|level::", flag)]
    it.take(*_CACHES, *levels, *_SCOPES, "weak")
    return int(any("cache_hint" in flag for flag in levels))


def _raw(type_: str) -> str:
    """The type under which memory holds a type: signed numbers as they are, others as bits."""
    return cpp_type(type_ if type_[0] == "s" else f"u{re.sub(r'[a-z]', '', type_)}")


def _count(it: Instruction) -> int:
    found = it.take("v2", "v4", "v8")
    return int(found[0][1:]) if found else 1


def _load(it: Instruction) -> str:
    it.only(_MEMORY)
    space, hints, count = _space(it), _hints(it), _count(it)
    order, volatile = it.take(*_ORDERS), it.take("volatile")
    it.check(2, 2 + hints)
    type_, parts = _raw(it.type), it.vector(0)
    if len(parts) != count:
        raise UnsupportedInstructionError("its form")
    writes = []
    for place, part in enumerate(parts):
        value = f"__ptx_loaded.x[{place}]"
        writes.append(it.registers.write(part, value))
    address = f"const __ptx::u64 __ptx_from = {it.address(1, space)};"
    if order or volatile:  # others may be waited for
        places = (f"__ptx::at<{type_}>(__ptx_from + {place} * sizeof({type_}))" for place in range(count))
        loads = [
            f"__atomic_load_n(&{place}, {_ORDERS[order[0]]})" if order else f"*(volatile {type_}*)&{place}"
            for place in places
        ]
        loaded = f"const __ptx::Vector<{type_}, {count}> __ptx_loaded = {{{{{', '.join(loads)}}}}};"
        return f"{{ __cuplug::spin(); {address} {loaded} {' '.join(writes)} }}"
    loaded = f"const auto __ptx_loaded = __ptx::at<__ptx::Vector<{type_}, {count}>>(__ptx_from);"
    return f"{{ {address} {loaded} {' '.join(writes)} }}"


def _store(it: Instruction) -> str:
    it.only(_MEMORY)
    space, hints, count = _space(it), _hints(it), _count(it)
    order, volatile = it.take(*_ORDERS), it.take("volatile")
    it.check(2, 2 + hints)
    type_, parts = _raw(it.type), it.vector(1)
    if len(parts) != count:
        raise UnsupportedInstructionError("its form")
    raw_type = it.type if it.type[0] == "s" else f"u{re.sub(r'[a-z]', '', it.type)}"
    values = [it.registers.read(part, raw_type) for part in parts]
    address = f"const __ptx::u64 __ptx_to = {it.address(0, space)};"
    if order or volatile:
        places = (f"__ptx::at<{type_}>(__ptx_to + {place} * sizeof({type_}))" for place in range(count))
        stores = [
            f"__atomic_store_n(&{place}, {value}, {_ORDERS[order[0]]});"
            if order
            else f"*(volatile {type_}*)&{place} = {value};"
            for place, value in zip(places, values, strict=True)
        ]
        return f"{{ {address} {' '.join(stores)} }}"
    vector = f"__ptx::Vector<{type_}, {count}>"
    return f"{{ {address} __ptx::at<{vector}>(__ptx_to) = {vector}{{{{{', '.join(values)}}}}}; }}"


_INTEGER_ATOMICS = {"min": "atomicMin", "max": "atomicMax", "inc": "atomicInc", "dec": "atomicDec"}
_BIT_ATOMICS = {"and": "atomicAnd", "or": "atomicOr", "xor": "atomicXor", "exch": "atomicExch", "cas": "atomicCAS"}
_SPOKEN = {
    "u32": "unsigned",
    "s32": "int",
    "u64": "unsigned long long",
    "s64": "long long",
    "f32": "float",
    "f64": "double",
}
_SPOKEN |= {"b16": "unsigned short", "b32": "unsigned", "b64": "unsigned long long"}


def _atomic(it: Instruction) -> str:
    """``atom``, and ``red``, which gives no value back."""
    space, _, count = _space(it), _hints(it), _count(it)
    order = it.take("relaxed", "acquire", "release", "acq_rel")
    it.take("noftz")
    operation = it.take("add", *_INTEGER_ATOMICS, *_BIT_ATOMICS)
    gives = it.operation == "atom"
    it.check()
    if len(operation) != 1:
        raise UnsupportedInstructionError("its form")
    name, first = operation[0], int(gives)
    address = f"const __ptx::u64 __ptx_at = {it.address(first, space)};"
    fences = "__threadfence();" if order and order[0] != "relaxed" else ""
    targets, values = it.vector(0) if gives else ["_"] * count, it.vector(first + 1)
    if count != len(values) or (gives and len(targets) != count) or (count > 1 and it.type != "f32"):
        raise UnsupportedInstructionError("its form")
    done = []
    for place, (target, text) in enumerate(zip(targets, values, strict=True)):
        if it.type in ("f16", "bf16", "f16x2", "bf16x2") and name == "add":
            kind = cpp_type(it.type)
            sum_ = "__ptx::add(old, by)"
            if it.type.endswith("x2"):
                sum_ = "__ptx::each(old, by, [](auto a, auto b) { return __ptx::add(a, b); })"
            change = f"[by = {it.registers.read(text, it.type)}]({kind} old) {{ return {sum_}; }}"
            value = f"__ptx::update(({kind}*)__ptx_at, {change})"
        else:
            value = _plain_atomic(it, name, place, text, first)
        done.append(it.registers.write(target, value))
    return f"{{ {address} {fences} {' '.join(done)} {fences} }}"


def _plain_atomic(it: Instruction, name: str, place: int, text: str, first: int) -> str:
    if it.type not in _SPOKEN:
        raise UnsupportedInstructionError(f"its type '.{it.type}'")
    spoken = _SPOKEN[it.type]
    function = {"add": "atomicAdd", **_INTEGER_ATOMICS, **_BIT_ATOMICS}[name]
    if name == "add" and it.type == "s64":
        spoken = "unsigned long long"
    if name in ("and", "or", "xor", "exch", "cas") and it.type in ("s32", "s64"):
        spoken = _SPOKEN[f"u{it.type[1:]}"]
    operands = [it.registers.read(text, it.type)]
    if name == "cas":
        operands.append(it.value(first + 2))
    arguments = ", ".join(f"({spoken}){operand}" for operand in operands)
    return f"({it.cpp}){function}(({spoken}*)__ptx_at + {place}, {arguments})"


def _copy_async(it: Instruction) -> str:
    flags = set(it.flags)
    if {"commit_group", "wait_group", "wait_all"} & flags:
        return ";"
    if {"bulk", "mbarrier", "reduce"} & flags:
        raise UnsupportedInstructionError(f"its '.{({'bulk', 'mbarrier', 'reduce'} & flags).pop()}'")
    it.take("async")
    for space in ("shared::cta", "shared", "global"):
        it.take(space)
    hints = _hints(it)
    it.check(3 + hints, 4 + hints)
    to, from_, size = it.address(0, "shared"), it.address(1), it.value(2, "u32")
    given = it.value(3, "u32") if len(it.operands) == 4 + hints else size
    return f"__ptx::copy_async({to}, {from_}, {size}, {given});"


def _space_of_address(it: Instruction) -> str:
    """``cvta``: there is one space here, in which shared memory has addresses that 32 bits may have cut off."""
    to, space = it.take("to"), it.take(*_SPACES, "param")
    it.check(2)
    value = it.value(1)
    generic = not to and space and space[0].startswith("shared")
    return it.result(f"__ptx::shared_address({value})" if generic else value)


def _is_space(it: Instruction) -> str:
    space = it.take(*_SPACES)
    it.check(2)
    test = {"global": "__isGlobal", "shared": "__isShared", "local": "__isLocal", "const": "__isConstant"}
    return it.result(f"(bool){test[space[0].partition('::')[0]]}((const void*){it.value(1, 'u64')})")


def _barrier(it: Instruction) -> str:
    """``bar`` and ``barrier``."""
    it.take("cta", "aligned")
    kind = it.take("sync", "arrive", "red", "warp")
    if "warp" in kind:
        it.check(1)
        return f"__syncwarp({it.value(0, 'u32')});"
    if kind == ["red"]:
        how = it.take("popc", "and", "or")
        it.types = it.types or ["pred"]
        it.check(3)
        function = {"popc": "__syncthreads_count", "and": "__syncthreads_and", "or": "__syncthreads_or"}[how[0]]
        value = f"{function}({it.value(2, 'pred')})"
        return it.result(f"(__ptx::u32){value}" if how[0] == "popc" else f"(bool){value}")
    it.check(1, 2)
    if len(it.operands) == 1:
        if kind != ["sync"]:
            raise UnsupportedInstructionError("its form")
        return "__syncthreads();"
    return f"__ptx::meet({it.value(0, 'u32')}, {it.value(1, 'u32')}, {str(kind == ['sync']).lower()});"


_SHUFFLES = {
    "up": "COLLECT_SHUFFLE_UP",
    "down": "COLLECT_SHUFFLE_DOWN",
    "bfly": "COLLECT_SHUFFLE_XOR",
    "idx": "COLLECT_SHUFFLE",
}


def _shuffle(it: Instruction) -> str:
    with_mask, kind = it.take("sync"), it.take(*_SHUFFLES)
    it.only(("b32", "u32", "s32", "f32"))
    it.check(5 if with_mask else 4)
    value, by, packed = (it.value(place, "u32") for place in (1, 2, 3))
    mask = it.value(4, "u32") if with_mask else "~0u"
    names = [name.strip() for name in it.operands[0].split("|")]
    converging = str(not with_mask).lower()
    arguments = f"__cuplug::{_SHUFFLES[kind[0]]}, {mask}, {value}, {by}, {packed}, {converging}, __ptx_there"
    call = f"__ptx::shuffle({arguments})"
    there = it.registers.write(names[1], "(bool)__ptx_there") if len(names) > 1 else ""
    return f"{{ bool __ptx_there; {it.registers.write(names[0], call)} {there} }}"


def _vote(it: Instruction) -> str:
    with_mask, kind = it.take("sync"), it.take("all", "any", "uni", "ballot")
    it.check(3 if with_mask else 2)
    function = f"__{kind[0]}{'_sync' if with_mask else ''}"
    mask = f"{it.value(2, 'u32')}, " if with_mask else ""
    value = f"{function}({mask}{it.value(1, 'pred')})"
    return it.result(value if kind[0] == "ballot" else f"(bool){value}")


def _match(it: Instruction) -> str:
    kind = it.take("any", "all")
    it.take("sync")
    it.only(("b32", "b64"))
    it.check(3)
    names = [name.strip() for name in it.operands[0].split("|")]
    if kind == ["any"]:
        return it.result(f"__match_any_sync({it.value(2, 'u32')}, {it.value(1)})")
    there = it.registers.write(names[1], "(bool)__ptx_there") if len(names) > 1 else ""
    call = f"__match_all_sync({it.value(2, 'u32')}, {it.value(1)}, &__ptx_there)"
    return f"{{ int __ptx_there; {it.registers.write(names[0], call)} {there} }}"


def _reduce(it: Instruction) -> str:
    it.take("sync")
    kind = it.take("add", "min", "max", "and", "or", "xor")
    it.only(("u32", "s32", "b32"))
    it.check(3)
    return it.result(f"__reduce_{kind[0]}_sync({it.value(2, 'u32')}, {it.value(1)})")


def _elect(it: Instruction) -> str:
    it.take("sync")
    it.check(2)
    lane, _, chosen = it.operands[0].partition("|")
    mask = it.value(1, "u32")
    leader = f"(__ptx::u32)__builtin_ctz(__ballot_sync({mask}, 1))"
    writes = [it.registers.write(lane.strip(), "__ptx_leader")] if lane.strip() != "_" else []
    writes.append(it.registers.write(chosen.strip(), "(bool)(__ptx_leader == __cuplug::lane())"))
    return f"{{ const __ptx::u32 __ptx_leader = {leader}; {' '.join(writes)} }}"


def _active(it: Instruction) -> str:
    it.check(1)
    return it.result("__activemask()")


_ELEMENTS = frozenset({"f16", "bf16", "tf32", "f32", "f64", "s32", "s8", "u8", "e4m3", "e5m2"})
_SHAPES = {
    ("f16", "f16"): ("m16n8k8", "m16n8k16"),
    ("bf16", "bf16"): ("m16n8k8", "m16n8k16"),
    ("tf32", "tf32"): ("m16n8k4", "m16n8k8"),
    ("f64", "f64"): ("m8n8k4", "m16n8k4", "m16n8k8"),
    **{(a, b): ("m8n8k16", "m16n8k16", "m16n8k32") for a in ("s8", "u8") for b in ("s8", "u8")},
    **{(a, b): ("m16n8k32",) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")},
}


def _multiply(it: Instruction) -> str:
    """``mma.sync``: D = A * B + C, in the registers of a warp."""
    words = it.opcode.split(".")[1:]
    shape = [word for word in words if re.fullmatch(r"m\d+n\d+k\d+", word)]
    kinds = [word for word in words if word in _ELEMENTS]
    rest = set(words) - {*shape, *kinds, "sync", "aligned", "row", "col", "satfinite"}
    if rest:
        raise UnsupportedInstructionError(f"its '.{min(rest)}'")
    if len(shape) != 1 or len(kinds) != 4 or words.index("row") > words.index("col"):
        raise UnsupportedInstructionError("its form")
    d, a, b, c = kinds
    if shape[0] not in _SHAPES.get((a, b), ()):
        raise UnsupportedInstructionError(f"its shape '.{shape[0]}' with '.{a}.{b}'")
    both = ("f16", "f32")
    sums = {"f16": both, "e4m3": both, "e5m2": both, "f64": ("f64",)}.get(a, ("s32",) if a[-1] == "8" else ("f32",))
    if d != c or d not in sums or len(it.operands) != 4:
        raise UnsupportedInstructionError(f"its sums '.{d}' and '.{c}'")
    m, k = (int(number) for number in re.findall(r"(?:m|k)(\d+)", shape[0]))
    wide, per_register = a == "f64", {"f16": 2, "bf16": 2, "tf32": 1, "f64": 1}.get(a, 4)
    word = "u64" if wide else "u32"
    counts = [m // 8 * (1 if d == "f16" else 2), m // 8 * k // (4 * per_register), k // (4 * per_register)]
    vectors = [it.vector(place) for place in range(4)]
    if [len(vector) for vector in vectors] != [*counts, counts[0]]:
        raise UnsupportedInstructionError("the numbers of its registers")
    arrays = [
        f"const __ptx::{word} __ptx_{name}[] = {{{', '.join(it.registers.read(text, word) for text in vector)}}};"
        for name, vector in zip("abc", vectors[1:], strict=True)
    ]
    # Of f16 two sums stand in a register: the function writes as many words as numbers, at most.
    arrays.append(f"__ptx::{word} __ptx_d[{m // 4}] = {{}};")
    names = ", ".join(f"__ptx::{kind}" for kind in (a, b, c, d))
    within = str("satfinite" in words).lower()
    call = f"__ptx::mma<{m}, {k}, {names}>(__ptx_d, __ptx_a, __ptx_b, __ptx_c, {within});"
    writes = (it.registers.write(text, f"__ptx_d[{place}]") for place, text in enumerate(vectors[0]))
    return f"{{ {' '.join(arrays)} {call} {' '.join(writes)} }}"


def _matrices(it: Instruction) -> str:
    """``ldmatrix`` and ``stmatrix``."""
    it.take("sync", "aligned", "shared", "shared::cta", "m8n8")
    count = it.take("x1", "x2", "x4")
    transposed = str(bool(it.take("trans"))).lower()
    it.only(("b16",))
    it.check(2)
    number, loads = int((count or ["x1"])[0][1:]), it.operation == "ldmatrix"
    parts = it.vector(0 if loads else 1)
    if len(parts) != number:
        raise UnsupportedInstructionError("the number of its registers")
    address = it.address(1 if loads else 0)
    if loads:
        writes = (it.registers.write(text, f"__ptx_words[{place}]") for place, text in enumerate(parts))
        call = f"__ptx::load_matrices<{number}, {transposed}>(__ptx_words, {address});"
        return f"{{ __ptx::u32 __ptx_words[{number}]; {call} {' '.join(writes)} }}"
    values = ", ".join(it.registers.read(text, "u32") for text in parts)
    call = f"__ptx::store_matrices<{number}, {transposed}>({address}, __ptx_words);"
    return f"{{ const __ptx::u32 __ptx_words[] = {{{values}}}; {call} }}"


def _transpose(it: Instruction) -> str:
    it.take("sync", "aligned", "m8n8", "trans")
    it.only(("b16",))
    it.check(2)
    return it.result(f"__ptx::transpose_matrix({it.value(1, 'u32')})")


MEMORY_AND_THREADS: dict[str, Callable[[Instruction], str]] = {
    **dict.fromkeys(("ld", "ldu"), _load),
    "st": _store,
    **dict.fromkeys(("atom", "red"), _atomic),
    "cp": _copy_async,
    "cvta": _space_of_address,
    "isspacep": _is_space,
    **dict.fromkeys(("bar", "barrier"), _barrier),
    "shfl": _shuffle,
    "vote": _vote,
    "match": _match,
    "redux": _reduce,
    "elect": _elect,
    "activemask": _active,
    "mma": _multiply,
    **dict.fromkeys(("ldmatrix", "stmatrix"), _matrices),
    "movmatrix": _transpose,
    **dict.fromkeys(("membar", "fence"), lambda _: "__threadfence();"),
    **dict.fromkeys(("prefetch", "prefetchu", "discard", "applypriority", "pmevent"), lambda _: ";"),
    **dict.fromkeys(("griddepcontrol", "setmaxnreg"), lambda _: ";"),
    "createpolicy": lambda it: it.result("0ull"),
    "nanosleep": lambda it: f"__nanosleep({it.value(0, 'u32')});",
    **dict.fromkeys(("trap", "brkpt"), lambda _: "__trap();"),
}
"""How each instruction becomes a statement of C++."""

MATRICES = frozenset({"mma", "ldmatrix", "stmatrix", "movmatrix"})
"""Those that need ``headers/ptx_matrices.h``."""
