"""What every small operation does besides CUDA's own work, in C++ where that was built: about a third of its time is
spent there. What is done is said by the forms in Python, which take over wherever something is unusual, and which do
everything where the extension module is not there or ``CUPLUG_NATIVE=0`` switches it off.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ....allocators.core_choice import VARIABLE, tell_if_outdated
from ....allocators.environment import read_choice
from ...drivers.base import Dim3, Driver

if TYPE_CHECKING:
    from ...machine.current import Current

_native: Any = None
if read_choice(VARIABLE, ("0", "1")) != "0":
    with suppress(ImportError):  # it was not built
        from . import _quick_calls as _native

        tell_if_outdated(_native)

_F = TypeVar("_F", bound=Callable[..., Any])


def quick_launch(
    python: Callable[..., None],
    driver: Driver,
    function: int,
    grid: Dim3,
    block: Dim3,
    letters: str,
    before: bytes,
    device: int,
    streams: int,
) -> Callable[..., None]:
    """``launch(current, *values)`` of a kernel on the current stream: the quick form of ``python``, or that itself.

    Args:
        python: does the same. It is called where another device is current, where the stream is none below ``streams``,
            where a value is not of the usual type, and where CUDA refuses.
        driver: of the kernel.
        function: the driver's handle of the kernel.
        grid: the number of blocks.
        block: the threads of a block.
        letters: the values, as the module ``struct`` has them.
        before: the parameter block up to the values.
        device: the ordinal of the kernel's device.
        streams: the first stream that the quick form is not for.
    """
    address = _address(driver, "cuLaunchKernelEx")
    if not address:
        return python
    try:
        made: Callable[..., None] = _native.Launcher(
            address, function, grid, block, letters, before, device, streams, python
        )
    except ValueError:  # more parameters than it has room for
        return python
    return made


def quick_copy(
    python: Callable[[Current, int, int], None], driver: Driver, nbytes: int, device: int, streams: int
) -> Callable[[Current, int, int], None]:
    """``copy(current, target, source)`` of so many bytes, by addresses of one device, on the current stream: the quick
    form of ``python``, or that itself.

    Args:
        python: does the same. It is called where ``quick_launch`` calls it, and where CUDA has another context.
        driver: of the device.
        nbytes: how many bytes are copied, one at least.
        device: its ordinal.
        streams: the first stream that the quick form is not for.
    """
    copy, current = (_address(driver, name) for name in ("cuMemcpyDtoDAsync", "cuCtxGetCurrent"))
    if not copy or not current:
        return python
    context: int = cast("Any", driver).primary_context(device)
    made: Callable[[Current, int, int], None] = _native.Copier(copy, current, context, nbytes, device, streams, python)
    return made


def quick_execute(
    python: Callable[..., None],
    driver: Driver,
    library: Any,
    plan: int,
    count: int,
    pack: int,
    attributes: Sequence[tuple[int, int]],
    device: int,
) -> Callable[..., None]:
    """``execute(handle, workspace, *addresses)`` of one of cuDNN's plans: the quick form of ``python``, or that itself.
    Other threads run meanwhile.

    Args:
        python: does the same. It is called where CUDA has another context, and where cuDNN refuses: it raises why.
        driver: of the device.
        library: cuDNN, by ``ctypes``.
        plan: the address of the plan's descriptor, which ``python`` keeps.
        count: how many tensors it takes; they are numbered from 1 on.
        pack: the kind of descriptor that names tensors.
        attributes: its attributes with the types of their values: numbers, addresses and workspace.
        device: the ordinal of the device.
    """
    if _native is None:
        return python
    functions = tuple(
        ctypes.cast(getattr(library, f"cudnnBackend{each}"), ctypes.c_void_p).value or 0 for each in _OF_PACKS
    )
    current = _address(driver, "cuCtxGetCurrent")
    context: int = cast("Any", driver).primary_context(device) if current else 0
    try:
        made: Callable[..., None] = _native.Executor(
            functions, current, context, plan, count, pack, *attributes, python
        )
    except ValueError:  # more tensors than it has room for
        return python
    return made


_OF_PACKS = ("CreateDescriptor", "SetAttribute", "Finalize", "Execute", "DestroyDescriptor")


def _address(driver: Driver, name: str) -> int:
    """Where CUDA's function is; 0 where it is not to be called from C."""
    find: Callable[[str], int] | None = getattr(driver, "function_address", None)
    return 0 if _native is None or find is None else find(name)


def quick_maker(made: type[Any], names: tuple[str, ...], given: int, *defaults: Any) -> Callable[[_F], _F]:
    """Decorates a function that makes objects of one class from the values of their slots, given by position.

    Args:
        made: the class. It has these names in its ``__slots__``, and nothing else to do when an object is made.
        names: of the slots that are set, first those whose values are given.
        given: how many values may be given.
        *defaults: the values of the last slots where they are not given.
    """

    def quick(python: _F) -> _F:
        if _native is None:
            return python
        maker: _F = _native.Maker(made, names, given, defaults)
        _forms[maker] = python
        return maker

    return quick


_forms: dict[Callable[..., Any], Callable[..., Any]] = {}
"""By what ``quick_maker`` has put in its place: the form in Python."""


def python_form(function: Callable[..., Any]) -> Callable[..., Any]:
    """The form in Python of a function, which has its signature and documentation; itself if it is in Python."""
    return _forms.get(function, function)
