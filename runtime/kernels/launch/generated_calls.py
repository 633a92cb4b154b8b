"""The hot path of a launch.

A launch costs CUDA 3.0 µs on an H200, and its arguments must not cost as much again. So the function that a program
calls is generated for the kernel: naming the arguments one by one takes half the time of handling them as a tuple, and
reading what they hold less than calling their methods. It knows one way, for arguments of types that came before, on a
current stream; whatever else comes, and every error, goes to the function ``otherwise``. What CUDA gets is made ahead,
in a ``Slot``.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from ...machine.runtime_upstream import PER_THREAD_KEY
from .arguments import ADDRESS_FORMS, Packer
from .target import Target
from .unrolling import Unroller

if TYPE_CHECKING:
    from ...machine.runtime import Runtime

MISSING: Any = type("Missing", (), {})()

_BODY = """
        stream = {stream}
        if rest or stream >= per_thread:
            raise KeyError
        {branches}
        if slot.stream != stream:
            slot.move(stream)
    except failures:
        slot = None
    if slot is None:  # outside the block, so that errors do not tell of this one
        return otherwise(given_of(({arguments}*rest,)){geometry})
    if slot.call():
        target.call_again(slot)
    target.push(slot)
"""
_BRANCH = """if {condition}:
            slot = target.pop()
            pack{number}(slot.parameters, 0, {values})
        el"""
_CALL = (
    """
def call({parameters}*rest, grid=1, block=None, shared=0, stream=None, cooperative=False):
    given = stream
    try:
        current = runtime.threads.current
        if given is not None or cooperative:
            raise KeyError
        target = targets[grid, block, shared, current.device]"""
    + _BODY
)
_PREPARED = (
    """
def call({parameters}*rest):
    try:
        current = runtime.threads.current
        if current.device != target.ordinal:
            raise KeyError"""
    + _BODY
)


def generate_call(
    function: Any, runtime: Runtime, packer: Packer, targets: dict[tuple[Any, Any, Any, int], Target]
) -> None:
    """Make a call of ``function`` take the short way where there is one.

    Args:
        function: a ``partial`` of what launches in any case: ``launch(args, grid, block, shared, stream,
            cooperative)``. Its function becomes one of ``(*args, grid, block, shared, stream, cooperative)``.
        runtime: the kernel's.
        packer: the kernel's.
        targets: what is known, by grid, block, shared memory and device.
    """
    template = partial(_CALL.format, stream="current.stream", geometry=", grid, block, shared, given, cooperative")
    _write_out(function, runtime, packer, template, targets=targets)


def generate_prepared_call(function: Any, packer: Packer, target: Target, handle: int | None) -> None:
    """The same for a launch whose target is settled, and its stream unless ``handle`` is None: ``launch(args)``."""
    template = partial(_PREPARED.format, stream="current.stream" if handle is None else str(handle), geometry="")
    _write_out(function, target.runtime, packer, template, target=target)


def _write_out(function: Any, runtime: Runtime, packer: Packer, template: Callable[..., str], **names: Any) -> None:
    """Generate what ``function`` calls for the types that came so far; and again when others have come."""
    in_any_case, written_for, referred = function.func, 0, weakref.ref(function)

    def write_out(function: Any) -> None:
        nonlocal written_for
        written_for = len(packer.usual)
        call = _generate(template, runtime, packer, otherwise=otherwise, **names)
        function.__setstate__((call, (), {}, vars(function)))

    def otherwise(*args: Any) -> None:
        in_any_case(*args)
        if written_for != len(packer.usual):
            function = referred()
            if function is not None:
                write_out(function)

    write_out(function)


def _generate(template: Callable[..., str], runtime: Runtime, packer: Packer, **names: Any) -> Callable[..., None]:
    arguments = Unroller([parameter.kind for parameter in packer.parameters])
    space: dict[str, Any] = {
        **names,
        "runtime": runtime,
        "per_thread": PER_THREAD_KEY,
        "missing": MISSING,
        "given_of": _given,
        "refuse": _refuse,
        "failures": (AttributeError, KeyError, TypeError, IndexError, OverflowError, struct.error),
    }
    branches = ""
    for number, (types, packing) in enumerate([] if runtime.launch_blocking else packer.usual):
        space[f"pack{number}"] = packing.layout.pack_into
        values = []
        for place, kind in enumerate(types):
            space[f"type{number}_{place}"] = kind
            convert = None if packing.converters is None else packing.converters[place]
            value = f"a{place}"
            if kind in ADDRESS_FORMS and packer.parameters[place].kind == "p":
                form = ADDRESS_FORMS[kind]
                address = form.expression.format(value)
                fits = f"{value}.{form.layout} in target.accepted[{place}]"
                value = f"({address} if {fits} else refuse())" if form.layout else address
            elif convert is not None:
                space[f"convert{number}_{place}"] = convert
                value = f"convert{number}_{place}({value})"
            values.append(value)
        branches += _BRANCH.format(
            condition=arguments.each(f"type(a{{k}}) is type{number}_{{k}}", between=" and ") or "True",
            number=number,
            values="".join(f"{value}, " for value in values),
        )
    source = template(
        parameters=arguments.each("a{k}=missing, ") + ("/, " if packer.parameters else ""),
        branches=f"{branches}se:\n            raise KeyError" if branches else "raise KeyError",
        arguments=arguments.each("a{k}, "),
    )
    return arguments.function(source, "call", space)


def _refuse() -> NoReturn:
    raise KeyError


def _given(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value for value in args if value is not MISSING)
