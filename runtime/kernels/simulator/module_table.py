"""The table at the end of a translated source, which describes its kernels and symbols to the engine."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ....allocators.errors import CompileError
from ..source import declarations as syntax
from .reach import Reach

_FREE, _FIBRES, _LOOPS = "FREE", "FIBRES", "LOOPS"
"""How the threads of a kernel's blocks run: see ``Way`` in ``headers/entry.h``."""


def describe_kernels(
    kernels: Sequence[syntax.Kernel],
    expressions: Sequence[str],
    meets: Reach,
    looping: set[str],
    *,
    tracked: bool,
    fibres: bool,
) -> tuple[list[tuple[str, str, str]], dict[str, list[str]]]:
    """Name, description in C++ and launch bounds of every kernel; and the parameters' names."""
    entries, names = [], {}
    defined = [kernel for kernel in kernels if kernel.body]
    plain = [kernel.qualified for kernel in defined if kernel.template is None]
    for kernel in defined:
        for parameter, type_ in zip(kernel.names, kernel.types, strict=False):
            if type_.rstrip().endswith("&"):
                raise CompileError(
                    f"kernel {kernel.name}: its parameter {parameter!r} is a reference, which a launch cannot pass: "
                    "take a value, or a pointer to device memory"
                )
        if kernel.template is not None:
            continue
        name, expression = kernel.qualified, f"(&::{kernel.qualified})"
        if any(it.qualified == name and (it.template is not None or it.types != kernel.types) for it in kernels):
            types = ", ".join(["uint3, uint3, dim3, dim3", *kernel.types])
            expression = f"static_cast<void (*)({types})>{expression}"
        if plain.count(name) > 1:
            name = kernel.with_types
        way = _LOOPS if kernel.name in looping else _FIBRES if fibres or meets.kernel(kernel) else _FREE
        entries.append((name, expression, way, kernel.bounds or "0"))
        names[name] = kernel.names
    instances = [kernel.instance for kernel in kernels if kernel.instance]
    for expression in {_written_alike(each): each for each in [*instances, *expressions]}.values():
        base = re.sub(r"^\s*&?\s*(::)?", "", expression.split("<")[0]).strip()
        matching = [k for k in defined if base in (k.qualified, k.name)] or [
            k for k in defined if base.endswith(k.name)
        ]
        if not matching:
            known = ", ".join(sorted({kernel.qualified for kernel in defined})) or "none"
            raise CompileError(f"name expression {expression!r} names no kernel of the source; its kernels: {known}")
        waits = fibres or any(meets.kernel(kernel, expression) for kernel in matching)
        way = _LOOPS if matching[0].name in looping else _FIBRES if waits else _FREE
        if expression not in names:
            entries.append((expression, f"(&{expression.lstrip('& ')})", way, "0"))
            names[expression] = matching[0].names
    described = []
    for name, expression, way, bounds in entries:
        described.append((name, f"Describe<{expression}, {way}, {str(tracked).lower()}>", bounds))
    return described, names


def _written_alike(expression: str) -> str:
    """An expression that names a kernel, less what makes no difference: an instance that the source makes explicitly
    may be asked for by name, too."""
    return re.sub(r"\s+", "", expression).removeprefix("&").removeprefix("::")


def module_table(
    entries: Sequence[tuple[str, str, str]], symbols: Sequence[syntax.Symbol], habits: dict[str, int]
) -> str:
    """The table, as C++: kernels as ``describe_kernels`` has them, symbols, and what kernels do, by their names."""
    lines = ["namespace __cuplug {"]
    for number, (name, description, bounds) in enumerate(entries):
        habit = habits.get(re.split(r"[<(]", name)[0].split("::")[-1].strip(" &"), 1)
        lines.append(
            f'static constexpr Kernel kernel_{number} = {description}::make("{name}", (cuplug_u32)({bounds}), {habit});'
        )
    kernels = ", ".join(f"&kernel_{number}" for number in range(len(entries)))
    lines.append(f"static const Kernel* const kernels[] = {{{kernels}{', ' if kernels else ''}nullptr}};")
    unique = {symbol.qualified: symbol for symbol in symbols}
    constants = [f"sizeof(::{name})" for name, symbol in unique.items() if symbol.constant]
    if constants:
        told = "the __constant__ variables of a source may have 64 KiB together"
        lines.append(f'static_assert({" + ".join(constants)} <= 65536, "{told}");')
    rows = [f'SYMBOL("{name}", ::{name}, {2 * symbol.constant})' for name, symbol in unique.items()]
    lines.append(
        "#define SYMBOL(name, it, space) {name, (void*)&it, sizeof(it), IsConst<decltype(it)>::value | space},"
    )
    lines.append(f"static const Symbol symbols[] = {{{' '.join(rows)} {{nullptr, nullptr, 0, 0}}}};")
    fields = f"CUPLUG_ABI, {len(entries)}, {len(unique)}, kernels, symbols, __ehdr_start, _end"
    lines.append(f"static const Module module = {{{fields}}};")
    lines.append("}")
    lines.append('extern "C" __attribute__((visibility("default"))) const __cuplug::Module* cuplug_module() {')
    lines.append("return &__cuplug::module; }")
    return "\n".join(lines) + "\n"
