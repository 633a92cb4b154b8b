"""Operations of tensors: cuplug's beside those of PyTorch, CuPy and NumPy, on the same device and of the same size.

Every contender repeats one operation and then waits for the device: many repetitions measure throughput, as programs
see it. A library that is not installed, or has no device, is left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

from ... import cuda
from ...runtime import tensor as _tensors
from .tensor_rows import ROWS, Operands
from .timing import Repeat, made_by, repeated

Operation = Callable[..., Any]

_MATRIX = 4096
_SMALL = 1024


@dataclass
class Case:
    """One operation, and who does it."""

    name: str
    calls: int
    """How often to repeat it in a round."""
    amount: float
    """Bytes that one call reads and writes, or floating-point operations; 0 where only the time matters."""
    unit: str
    """``GB/s``, ``TFLOP/s`` or ``us``."""
    contenders: dict[str, Repeat] = field(default_factory=dict)

    def figure(self, nanoseconds: float) -> float:
        """The time of a call in the case's unit."""
        if self.unit == "us":
            return nanoseconds / 1e3
        return self.amount / nanoseconds / (1e3 if self.unit == "TFLOP/s" else 1)


@dataclass(frozen=True)
class _Library:
    name: str
    make: Callable[[tuple[int, ...], str], Any]
    """A random array of a shape and a type."""
    exp: Operation
    transposed: Operation
    wait: Callable[[], object]
    module: Any = None
    """What the rows of ``tensor_rows`` call; None where they are not measured."""


def cases(nbytes: int = 256 << 20, device: str | None = None) -> tuple[list[Case], dict[str, str]]:
    """What there is to measure.

    Args:
        nbytes: the size of each operand of the operations that memory bounds.
        device: ``cuda`` or ``cpu``; by default ``cuda`` where there is one.

    Returns:
        The cases, and why libraries were left out.
    """
    where = device or ("cuda" if cuda.is_available() else "cpu")
    peers = {"torch": _torch, "numpy": _numpy} if where == "cpu" else {"torch": _torch, "cupy": _cupy}
    there, missing = made_by(peers, where)
    libraries = [_cuplug(where), *there.values()]
    count, side = nbytes // 4, int((nbytes // 4) ** 0.5)
    made = [
        _case(libraries, ("a * b + c", 10, 6 * nbytes, "GB/s"), 3, (count,), lambda _, a, b, c: a * b + c),
        _case(libraries, ("exp", 10, 2 * nbytes, "GB/s"), 1, (count,), lambda of, x: of.exp(x)),
        _case(libraries, ("sum", 10, nbytes, "GB/s"), 1, (count,), lambda _, x: x.sum()),
        _case(libraries, ("transposed copy", 10, 8 * side**2, "GB/s"), 1, (side, side), lambda of, x: of.transposed(x)),
        _case(libraries, ("a + b of 1024 elements", 2000, 0, "us"), 2, (_SMALL,), lambda _, a, b: a + b),
    ]
    side = _MATRIX if where != "cpu" else _MATRIX // 8
    for kind in ("float32", "float16") if where != "cpu" else ("float32",):
        told = (f"matmul of {side} x {side}, {kind}", 10, 2.0 * side**3, "TFLOP/s")
        made.append(_case(libraries, told, 2, (side, side), lambda _, a, b: a @ b, kind))
    sharing = [library for library in libraries if library.module is not None]
    for count, calls in ((max(nbytes // 4 // _SMALL, 1) * _SMALL, 3), (_SMALL, 200)):
        made += _rows(sharing, count, calls, large=calls == 3)
    return made, missing


def _rows(libraries: list[_Library], count: int, calls: int, *, large: bool) -> list[Case]:
    """A case for each line of ``tensor_rows``, of operands of ``count`` elements."""
    operands = {each.name: Operands.of(each.module, partial(_random, each), count) for each in libraries}
    made = []
    for row in ROWS:
        if large and not row.large:
            continue
        case = Case(f"{row.name} of {count:,} elements", calls, 0, "us")
        for library in libraries:
            run = row.cupy if library.name == "cupy" else row.torch
            if run is not None:
                operation = partial(run, library.module, operands[library.name])
                case.contenders[library.name] = repeated(operation, library.wait)
        made.append(case)
    return made


def _random(library: _Library, count: int) -> Any:
    return library.make((count,), "float32")


def _case(
    libraries: list[_Library],
    told: tuple[str, int, float, str],
    operands: int,
    shape: tuple[int, ...],
    operation: Callable[..., Any],
    kind: str = "float32",
) -> Case:
    """A case of ``operation(library, *operands)``, of random operands of one shape. ``told``: its first four fields."""
    case = Case(*told)
    for library in libraries:
        given = [library.make(shape, kind) for _ in range(operands)]
        case.contenders[library.name] = repeated(partial(operation, library, *given), library.wait)
    return case


def _cuplug(where: str) -> _Library:
    rand, exp = _tensors.PUBLIC["rand"], _tensors.PUBLIC["exp"]

    def make(shape: tuple[int, ...], kind: str) -> Any:
        return rand(*shape, device=where).to(kind)

    wait = cuda.synchronize if where != "cpu" else _nothing
    module = SimpleNamespace(**_tensors.PUBLIC)
    return _Library("cuplug", make, exp, lambda x: x.t().contiguous(), wait, module)


def _torch(where: str) -> _Library:
    import torch

    def make(shape: tuple[int, ...], kind: str) -> Any:
        return torch.rand(*shape, device=where).to(getattr(torch, kind))

    torch.zeros(1, device=where)  # raises where it has no such device
    wait = torch.cuda.synchronize if where != "cpu" else _nothing
    return _Library("torch", make, torch.exp, lambda x: x.t().contiguous(), wait, torch)


def _cupy(where: str) -> _Library:  # noqa: ARG001 - it has one kind of device
    import cupy

    def make(shape: tuple[int, ...], kind: str) -> Any:
        return cupy.random.rand(*shape).astype(kind)

    return _Library(
        "cupy", make, cupy.exp, lambda x: cupy.ascontiguousarray(x.T), cupy.cuda.get_current_stream().synchronize, cupy
    )


def _numpy(where: str) -> _Library:  # noqa: ARG001 - it has one kind of device
    import numpy as np

    def make(shape: tuple[int, ...], kind: str) -> Any:
        return np.random.default_rng(0).random(shape).astype(kind)

    return _Library("numpy", make, np.exp, lambda x: np.ascontiguousarray(x.T), _nothing)


def _nothing() -> None:
    """The CPU has nothing to wait for."""
