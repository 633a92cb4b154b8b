"""Every operation of tensors beside the same expression in NumPy: what one costs more, on the CPU and the simulator."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt
from time import process_time_ns
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import cuda
from ...runtime import tensor as _tensors
from ...runtime.nn import functional
from .operation_rows import ROWS, Row
from .timing import time_in_turn

__all__ = ["ROWS", "SIZES", "Cost", "Ratio", "beside_torch", "contenders", "cost"]

SIZES = (1, 10, 1_000, 100_000, 1_000_000)
"""Numbers of elements; 1 stands for tensors without dimensions."""

_BATCH_NS = 400_000
"""About how long the calls of one round take together."""
_DEVICES = {"cpu": "cpu", "sim": "cuda", "sim, waiting": "cuda"}


@dataclass(frozen=True)
class Cost:
    """What a row costs at a size: NumPy's microseconds, and how many more each contender takes."""

    row: Row
    size: int
    numpy_us: float
    more_us: dict[str, float]

    @property
    def worst_us(self) -> float:
        """The most that one contender takes more. Waiting for the device is no part of an operation."""
        return max(more for name, more in self.more_us.items() if name != "sim, waiting")


@dataclass(frozen=True)
class Ratio:
    """What a row costs at a size: PyTorch's microseconds on one thread, and how many times that others take."""

    row: Row
    size: int
    torch_us: float
    times: dict[str, float]


def cost(row: Row, size: int, *, rounds: int = 15) -> Cost:
    """Time a row at a size. The least times count: what other programs add to them is no operation's cost."""
    least = _least(contenders(row, size), "numpy", rounds)
    base = least.pop("numpy")
    return Cost(row, size, base / 1e3, {name: (time - base) / 1e3 for name, time in least.items()})


def beside_torch(row: Row, size: int, torch: Any, *, rounds: int = 15) -> Ratio | None:
    """Time a row at a size beside PyTorch on one thread of the CPU; None where PyTorch does not have it."""
    torch.set_num_threads(1)
    names = SimpleNamespace(library=torch, functional=torch.nn.functional)
    try:
        found = {"torch": _repeated(row.ours, size, "cpu", names=names)}
        found["torch"](1)
    except Exception:  # of many kinds: no such name, no CUDA, a step backwards
        return None
    found |= {name: _repeated(row.ours, size, device) for name, device in _DEVICES.items() if "waiting" not in name}
    least = _least(found, "torch", rounds)
    base = least.pop("torch")
    return Ratio(row, size, base / 1e3, {name: time / base for name, time in least.items()})


def _least(found: dict[str, Callable[[int], None]], base: str, rounds: int) -> dict[str, float]:
    # Everything here is computed by this process: its own time is what an operation costs on a busy machine, too.
    once = time_in_turn(found, calls=1, rounds=2, clock=process_time_ns)
    calls = min(max(int(_BATCH_NS / once[base].least_ns), 1), 100)
    timings = time_in_turn(found, calls=calls, rounds=rounds, clock=process_time_ns)
    return {name: each.least_ns for name, each in timings.items()}


def contenders(row: Row, size: int) -> dict[str, Callable[[int], None]]:
    """NumPy, and tensors on the CPU and on the default runtime's device, there also waiting after each operation."""
    found = {"numpy": _repeated(row.numpy, size, None)}
    for name, device in _DEVICES.items():
        found[name] = _repeated(row.ours, size, device, wait=name == "sim, waiting")
    return found


def _repeated(
    source: str, size: int, device: str | None, wait: bool = False, names: SimpleNamespace | None = None
) -> Callable[[int], None]:
    """A function that does what ``source`` says as often as it is told to, with tensors of the libraries ``names``."""
    ours = names or SimpleNamespace(library=SimpleNamespace(**_tensors.PUBLIC), functional=functional)
    library: Any = np if device is None else ours.library
    known = _operands(size, set(re.findall(r"[a-z]+", source)))
    for name, operand in known.items():
        if device is not None and isinstance(operand, np.ndarray) and name != "array":
            known[name] = library.tensor(operand, device="cpu" if name == "host" else device)
    known |= {"m": library, "f": ours.functional, "np": np, "device": device, "wait": cuda.synchronize}
    text = f"""def repeat(times):
    global x, i
    for _ in range(times):
        {source}
        {"wait()" if wait else "pass"}
"""
    exec(text, known)  # as the standard library's timeit does
    repeat: Callable[[int], None] = known["repeat"]
    return repeat


def _operands(size: int, wanted: set[str]) -> dict[str, Any]:
    """The operands that rows name, as NumPy's arrays."""
    shape = () if size == 1 else (size,)
    side = isqrt(size)
    small = max(isqrt(size // 4), 1)
    generator = np.random.default_rng(0)

    def floats(*shape: int) -> Any:
        return generator.random(shape, np.float32) * np.float32(0.8) + np.float32(0.1)

    def integers(high: int, *shape: int) -> Any:
        return generator.integers(0, high, shape)

    def booleans(*shape: int) -> Any:
        return np.random.default_rng(1).random(shape) < 0.5

    makers: dict[str, Callable[[], Any]] = {
        **dict.fromkeys(("x", "y", "z", "w"), lambda: floats(*shape)),
        **dict.fromkeys(("a", "b"), lambda: floats(side, side)),
        **dict.fromkeys(("p", "q"), lambda: floats(4, small, small)),
        **dict.fromkeys(("i", "j"), lambda: integers(8, *shape) + 1),
        **dict.fromkeys(("mask", "other"), lambda: booleans(*shape)),
        "image": lambda: floats(2, 8, small, small),
        "filters": lambda: floats(8, 8, 3, 3),
        "half": lambda: floats(*shape).astype(np.float16),
        "double": lambda: floats(*shape).astype(np.float64),
        "number": lambda: np.float32(0.5),
        "column": lambda: floats(side, 1),
        "vector": lambda: floats(side),
        "square": lambda: booleans(side, side),
        "line": lambda: booleans(side),
        "index": lambda: integers(size, *shape),
        "picks": lambda: integers(side, side),
        "picked": lambda: floats(int(np.count_nonzero(makers["mask"]()))),
        "total": lambda: floats(),
        "host": lambda: floats(*shape),
        "array": lambda: floats(*shape),
        "values": lambda: floats(*shape).tolist(),
        "shape": lambda: shape,
        "n": lambda: size,
        "side": lambda: side,
        "generator": lambda: np.random.Generator(np.random.Philox(0)),
    }
    made = {name: make() for name, make in makers.items() if name in wanted}
    return {name: np.asarray(each) if isinstance(each, np.generic) else each for name, each in made.items()}
