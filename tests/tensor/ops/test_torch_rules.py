"""What torch 2.13 makes of some 500 expressions, recorded from it: values, types, shapes, strides and errors.

Run with PyTorch, ``python tests/tensor/ops/test_torch_rules.py`` writes the record anew. Where cuplug knowingly does
something else, ``DIFFERENCES`` says what and why.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.runtime.tensor.backends.cuda_place import CudaPlace

RECORD = Path(__file__).with_name("data") / "outcomes_of_torch.txt"


def outcome(torch: Any, expression: str) -> str:
    """What ``torch`` makes of statements separated by semicolons, of which the last is an expression."""
    *before, last = ast.parse(expression).body
    names = {"torch": torch, "np": np}
    try:
        exec(compile(ast.Module(before, []), "<before>", "exec"), names)
        assert isinstance(last, ast.Expr)
        return _shown(eval(compile(ast.Expression(last.value), "<last>", "eval"), names), torch)
    except Exception as error:
        return "! " + next(each.__name__ for each in _known(type(error)))


def _known(kind: type) -> Iterator[type]:
    """Classes of errors that are compared. NotImplementedError is a RuntimeError."""
    return (each for each in kind.__mro__ if hasattr(builtins, each.__name__) and each is not NotImplementedError)


def _shown(value: Any, torch: Any) -> str:
    if isinstance(value, torch.Tensor):
        shape = tuple(value.shape)
        steps = [str(step) if length > 1 else "_" for length, step in zip(shape, value.stride(), strict=True)]
        strides = " ".join(steps) if value.numel() else "_"
        return f"{str(value.dtype).split('.')[1]} {shape} strides {strides}: {_shown(value.tolist(), torch)}"
    if isinstance(value, torch.Size):
        return f"Size {list(value)}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_shown(each, torch) for each in value) + "]"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value).replace("cuplug.", "torch.")


def _record() -> dict[str, list[tuple[str, str]]]:
    sections: dict[str, list[tuple[str, str]]] = {}
    for section in RECORD.read_text().split("# ")[2:]:
        name, _, lines = section.partition("\n")
        pairs = [each.partition("\n") for each in lines.split(">>> ")[1:]]
        sections[name] = [(expression, result.rstrip("\n")) for expression, _, result in pairs]
    return sections


RECORDED = _record() if RECORD.exists() else {}


@pytest.mark.one_schedule
@pytest.mark.parametrize("section", RECORDED)
def test_an_expression_gives_what_it_gives_in_torch(section: str, device: str, running: str) -> None:
    pairs = RECORDED[section]
    if device != "cpu" and running.startswith("cuda"):
        pairs = pairs[::6]  # each compiles kernels there
    for expression, expected in pairs:
        _check(expression, expected, device)


@pytest.fixture
def kernels(running: str, quick_compiler: None) -> str:
    """The name of a simulated device whose tensors run generated kernels instead of NumPy."""
    runtime = cuplug.default_runtime()
    runtime.device(1).objects["tensor.place"] = CudaPlace(runtime, 1)
    return "cuda:1"


@pytest.mark.one_schedule
@pytest.mark.needs_sim
def test_generated_kernels_give_what_torch_gives(kernels: str) -> None:
    pairs = [pair for pairs in RECORDED.values() for pair in pairs]
    for expression, expected in pairs[::11]:  # each compiles kernels
        _check(expression, expected, kernels)


def _check(expression: str, expected: str, device: str) -> None:
    with nullcontext() if device == "cpu" else cuplug.device("cuda:0" if device == "cuda" else device):
        if not expected.startswith("! "):
            assert outcome(cuplug, expression) == expected, expression
            return
        found = _raised(cuplug, expression)
    assert isinstance(found, getattr(builtins, expected[2:])), (expression, found)


def _raised(torch: Any, expression: str) -> BaseException | None:
    try:
        exec(expression, {"torch": torch, "np": np})
    except Exception as error:
        return error
    return None


DIFFERENCES = {
    # expression: (torch, cuplug)
    "torch.arange(3)[::-1]": (
        "! ValueError",
        "int64 (3,) strides -1: [2, 1, 0]",
    ),  # views may step backwards, as NumPy's
    "torch.from_numpy(np.arange(3)[::-1])": ("! ValueError", "int64 (3,) strides -1: [2, 1, 0]"),
    # assignment converts, also by index tensors, and takes lists
    "x = torch.zeros(2); x[[0]] = torch.tensor([1]); x": ("! RuntimeError", "float32 (2,) strides 1: [1, 0]"),
    "x = torch.zeros(2); x[:] = [1, 2]; x": ("! TypeError", "float32 (2,) strides 1: [1, 2]"),
    "torch.arange(3)[torch.tensor([1], dtype=torch.int8)]": ("! IndexError", "int64 (1,) strides _: [1]"),
    "torch.as_strided(torch.arange(3), (3,), (-1,), 2)": ("! RuntimeError", "int64 (3,) strides -1: [2, 1, 0]"),
    # numbers that scale come by name
    "torch.addcmul(torch.ones(1), 2, torch.ones(1), torch.ones(1))": (
        "float32 (1,) strides _: [3]",
        "! TypeError",
    ),
    # what index tensors pick is row-major, whatever the source's order
    "torch.arange(12).reshape(2, 3, 2).transpose(0, 2)[torch.tensor([0])].stride()": ("[6, 1, 3]", "[6, 2, 1]"),
    # convolutions, batch norm and padding give row-major results
    "torch.nn.BatchNorm2d(2)(torch.ones(1, 2, 2, 2).to(memory_format=torch.channels_last)).stride()": (
        "[8, 1, 4, 2]",
        "[8, 4, 2, 1]",
    ),
    # an index has one Ellipsis
    "torch.arange(3)[..., ...]": ("int64 (3,) strides 1: [0, 1, 2]", "! IndexError"),
    # NumPy's bool is a bool, and an array on the right of an operator is a tensor
    "torch.tensor([2]) * np.bool_(True)": ("float32 (1,) strides _: [2]", "int64 (1,) strides _: [2]"),
    "torch.tensor([2]) / np.array([4])": ("float64 (1,) strides _: [0.5]", "float32 (1,) strides _: [0.5]"),
    # a remainder of 0 has the divisor's sign, as in NumPy
    "torch.tensor([0.0]) % -3": ("float32 (1,) strides _: [0]", "float32 (1,) strides _: [-0]"),
    # a number beside halves keeps its digits
    "torch.fmod(torch.tensor([9.5], dtype=torch.float16), 0.3)": (
        "float16 (1,) strides _: [0.1985]",
        "float16 (1,) strides _: [0.2]",
    ),
    # bool has no powers
    "torch.tensor([True]) ** True": ("bool (1,) strides _: [True]", "! RuntimeError"),
    # dtypes may be named by text and by NumPy's
    "torch.zeros(1, dtype='int8')": ("! TypeError", "int8 (1,) strides _: [0]"),
    # sequences of dimensions where torch takes one
    "torch.ones(2, 2).prod((0, 1))": ("! TypeError", "float32 () strides : 1"),
    # the power of one half is exact at both ends, as of CUDA
    "torch.tensor([float('-inf')]) ** 0.5": ("float32 (1,) strides _: [nan]", "float32 (1,) strides _: [inf]"),
    # norms of matrices are not there
    "torch.eye(2).norm('nuc')": ("float32 () strides : 2", "! RuntimeError"),
}


@pytest.mark.one_schedule
@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("expression", DIFFERENCES)
def test_what_differs_from_torch_is_known(expression: str) -> None:
    theirs, ours = DIFFERENCES[expression]
    assert theirs != ours
    _check(expression, ours, "cpu")


if __name__ == "__main__":
    import torch as pytorch

    text = f"# What torch {pytorch.__version__.partition('+')[0]} makes of these expressions: see test_torch_rules.py\n"
    for name, lines in RECORDED.items():
        text += f"# {name}\n" + "".join(f">>> {line}\n{outcome(pytorch, line)}\n" for line, _ in lines)
    RECORD.write_text(text)
    for line, (theirs, _) in DIFFERENCES.items():
        assert outcome(pytorch, line) == theirs, (line, outcome(pytorch, line))
