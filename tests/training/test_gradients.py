"""Gradients of every operation of the tables, beside PyTorch's and beside differences."""

from __future__ import annotations

import random
import warnings
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.runtime.tensor.places.tables_with_gradients.elementwise_table import COPY, TABLE
from cuplug.runtime.tensor.places.tables_with_gradients.network_table import NETWORK_TABLE
from cuplug.runtime.tensor.places.tables_with_gradients.reduction_table import REDUCTIONS
from cuplug.runtime.tensor.places.tables_with_gradients.scan_and_sort_table import ROWS

from ..timers import Cut
from .gradient_cases import CASES, operands, value_of

TWICE = [
    case
    for case in CASES
    if case.startswith(("x", "torch", "z", "p", "assigned", "through"))
    and "logcumsumexp" not in case
    and "float32" not in case
    and "float()" not in case
]


def gradients(
    torch: Any, case: str, device: str = "cpu", twice: bool = False
) -> dict[str, np.ndarray[Any, Any] | None]:
    """By operand its gradient: of a sum that weighs each element of the result otherwise."""
    given = operands(torch, device)
    value = value_of(torch, case, given)
    weights = torch.linspace(-1.0, 2.0, value.numel(), dtype=torch.float64, device=device).reshape(value.shape)
    wanted = [name for name, each in given.items() if each.requires_grad]
    total = (value.sin() * weights).sum() if twice else (value * weights).sum()
    tensors = [given[name] for name in wanted]
    made = torch.autograd.grad(total, tensors, create_graph=twice, allow_unused=True)
    if twice:
        again = sum((each * each.detach().cos()).sum() for each in made if each is not None and each.requires_grad)
        if not isinstance(again, torch.Tensor):
            return dict.fromkeys(wanted)
        made = torch.autograd.grad(again, tensors, allow_unused=True)
    return {
        name: None if each is None else each.detach().cpu().numpy() for name, each in zip(wanted, made, strict=True)
    }


def agree(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    for name, expected in theirs.items():
        found = ours[name]
        if expected is None or found is None:
            assert found is None or not np.any(found), name
            assert expected is None or not np.any(expected), name
            continue
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.needs_torch
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_pytorchs(case: str, device: str) -> None:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = gradients(cuplug, case, device)
        try:
            expected = gradients(torch, case)
        except RuntimeError as error:
            if "is not implemented" not in str(error):
                raise
            pytest.skip(f"PyTorch {torch.__version__}: {error}")
        agree(found, expected)


@pytest.mark.needs_torch
@pytest.mark.parametrize("case", TWICE)
def test_gradients_of_gradients_are_pytorchs(case: str, running: str) -> None:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            theirs = gradients(torch, case, twice=True)
        except RuntimeError:
            pytest.skip("PyTorch does not differentiate it twice")
        agree(gradients(cuplug, case, twice=True), theirs)


@pytest.mark.parametrize(
    "case",
    [
        "x * v",
        "x.softmax(1)",
        "n @ x",
        "x.prod(1)",
        "x.std(1)",
        "x[i, i]",
        "x.scatter_add(1, j, y[:, :2])",
        "x.unfold(1, 2, 1)",
    ],
)
def test_gradients_are_what_differences_say(case: str, running: str) -> None:
    given = operands(cuplug)
    names = [name for name in ("x", "y", "v", "n") if name in case]

    def function(*values: Any) -> Any:
        return value_of(cuplug, case, given | dict(zip(names, values, strict=True)))

    assert cuplug.autograd.gradcheck(function, [given[name] for name in names])
    assert cuplug.autograd.gradgradcheck(function, [given[name] for name in names])


@pytest.mark.parametrize(("name", "total"), [("fmod", 1131.0), ("remainder", 3648.0)])
def test_a_divisors_gradient_is_the_whole_part_where_the_quotient_rounds_to_a_whole_number(
    name: str, total: float, device: str
) -> None:
    a = cuplug.arange(5000.0, device=device) - 2500.3
    divisor = cuplug.full_like(a, 3.7).requires_grad_()
    getattr(cuplug, name)(a, divisor).sum().backward()
    assert divisor.grad is not None
    assert divisor.grad.sum().item() == total  # PyTorch 2.6's


def test_a_wrong_gradient_is_found(running: str) -> None:
    class Wrong(cuplug.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * 3

    x = cuplug.ones(2, dtype=cuplug.float64, requires_grad=True)
    with pytest.raises(cuplug.autograd.GradcheckError, match=r"the gradient is 3\.0, and differences say"):
        cuplug.autograd.gradcheck(Wrong.apply, x)


def test_every_line_of_the_tables_says_what_its_gradient_is() -> None:
    lines = [*TABLE, *NETWORK_TABLE, COPY, *REDUCTIONS.values(), *ROWS.values()]
    assert not [line.name for line in lines if line.gradient is None]


def test_every_gradient_of_the_tables_is_compared(running: str) -> None:
    seen: set[str] = set()
    for case in CASES:
        nodes = [value_of(cuplug, case, operands(cuplug)).grad_fn]
        while nodes:
            node = nodes.pop()
            if node is not None:
                seen.add((node.metadata or {}).get("inner", node.title))
                nodes += [edge[0] for edge in node.next_functions]
    functions = [line for line in NETWORK_TABLE if line.arity == 1]  # the others are gradients themselves
    lines = [*TABLE, *functions, COPY, *REDUCTIONS.values(), *ROWS.values()]
    titles = {line.name: "".join(part.capitalize() for part in line.name.split("_")) + "Backward" for line in lines}
    assert not [line.name for line in lines if line.gradient and titles[line.name] not in seen]


def test_what_a_function_kept_is_freed_by_backward_though_the_result_lives(device: str) -> None:
    if device == "cpu":
        pytest.skip("only devices count their memory")
    images = cuplug.randn(4, 3, 32, 32, device=device)
    filters = cuplug.randn(3, 3, 3, 3, device=device, requires_grad=True)
    result = cuplug.nn.functional.conv2d(images * 2, filters).sum()
    before = cuplug.cuda.memory_allocated()
    result.backward()
    assert cuplug.cuda.memory_allocated() <= before - images.nbytes + filters.grad.nbytes + 4096


def test_steps_of_a_programs_own_optimiser_copy_no_parameter(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    weight, ones = cuplug.nn.Parameter(cuplug.ones(2, device=device)), cuplug.ones(2, device=device)

    def refuse(tensor: cuplug.Tensor) -> None:
        raise AssertionError("a parameter was copied")

    monkeypatch.setattr(cuplug.Tensor, "clone", refuse)
    with cuplug.no_grad():
        weight.addcdiv_(ones, ones, value=2).addcmul_(ones, ones)
    assert weight.tolist() == [4.0, 4.0]


def test_a_backward_pass_that_is_interrupted_leaves_recording_on(timer: Cut) -> None:
    x = cuplug.ones(9, requires_grad=True)
    came, left_off, chance = 0, 0, random.Random(1)

    def passes() -> None:
        for _ in range(100):
            (x * x).sum().backward()

    while came < 3000:
        came += timer(passes, chance.uniform(2e-5, 2e-4))
        left_off += not cuplug.is_grad_enabled()
        cuplug.set_grad_enabled(True)
    assert left_off == 0


class _Exponential(cuplug.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (y,) = ctx.saved_tensors
        return gradient * y


def test_a_function_that_keeps_its_result_is_differentiated_twice(device: str) -> None:
    x = cuplug.tensor([0.0, 1.0], dtype=cuplug.float64, device=device, requires_grad=True)
    y = _Exponential.apply(x)
    (first,) = cuplug.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = cuplug.autograd.grad((first * first).sum(), x)
    np.testing.assert_allclose(second.tolist(), [2.0, 2 * np.e**2])
    assert cuplug.autograd.gradgradcheck(_Exponential.apply, (x,))


class _Doubled(cuplug.autograd.Function):
    made: Any = None

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return _Doubled.made


def test_a_functions_gradient_has_its_arguments_shape_or_is_summed_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    x = cuplug.ones(2, 1, requires_grad=True)
    monkeypatch.setattr(_Doubled, "made", cuplug.ones(3, 2, 4))
    _Doubled.apply(x).sum().backward()
    assert x.grad.tolist() == [[12.0], [12.0]]
    monkeypatch.setattr(_Doubled, "made", cuplug.ones(5))
    said = r"Function _DoubledBackward returned an invalid gradient at index 0 - got \[5\] but expected .* \[2, 1\]"
    with pytest.raises(RuntimeError, match=said):
        _Doubled.apply(x).sum().backward()


class _Picked(cuplug.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, index: Any) -> Any:
        return x[index]

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return (cuplug.ones(3, device=gradient.device),) * 2


def test_what_a_function_gives_for_an_argument_without_gradients_is_not_looked_at(device: str) -> None:
    x = cuplug.ones(3, device=device, requires_grad=True)
    _Picked.apply(x, cuplug.tensor([0, 2], device=device)).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_the_gradient_of_what_keeps_none_warns() -> None:
    x = cuplug.ones(2, requires_grad=True)
    y = x * 2
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed"):
        assert y.grad is None
    y.retain_grad()
    assert y.grad is None
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]


class _Careless(cuplug.autograd.Function):
    """Does what it is told to do wrongly."""

    wrong = ""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        if _Careless.wrong == "saves a number":
            ctx.save_for_backward(2)
        if _Careless.wrong == "changes a leaf":
            ctx.mark_dirty(x)
            return x.add_(1)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return 3


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ("saves a number", TypeError, "save_for_backward can only save tensors, but argument 0 is of type int"),
        ("changes a leaf", RuntimeError, "a leaf Variable that requires grad is being used in an in-place"),
        ("gives a number", TypeError, "_CarelessBackward: expected Tensor or None at index 0, got int"),
    ],
)
def test_what_a_function_does_wrongly_is_named(
    wrong: str, error: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Careless, "wrong", wrong)
    x = cuplug.ones(2, requires_grad=True)
    with pytest.raises(error, match=said):
        _Careless.apply(x).sum().backward()
    assert x.is_leaf
