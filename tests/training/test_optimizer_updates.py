"""Updates of whole lists of tensors: by NumPy and by the generated kernels, which must say the same."""

from __future__ import annotations

from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.runtime.tensor.ops.devices.optimizer_updates import sum_of_squares, update
from cuplug.runtime.tensor.ops.devices.packed_tensors import copy_all
from cuplug.runtime.tensor.places.optimizer_table import UPDATES

pytestmark = pytest.mark.one_schedule

LENGTHS = (1, 7, 5000, 0, 2048)


def rows(line: Any, device: str, kind: Any) -> list[list[Any]]:
    random = np.random.default_rng(3)
    arrays = [[random.random(length) + 0.5 for _ in line.tensors] for length in LENGTHS]
    return [[cuplug.tensor(each, device=device, dtype=kind) for each in row] for row in arrays]


@pytest.mark.needs_sim
@pytest.mark.parametrize("name", ["amsgrad", "unscale", "multiply", "add"])
def test_one_launch_does_to_all_tensors_what_numpy_does(name: str, kernels: str) -> None:
    line = UPDATES[name]
    numbers = [0.1 + 0.05 * position for position in range(len(line.numbers))]
    found = []
    for place in ("cpu", kernels):
        given = rows(line, place, cuplug.float32)
        shared = cuplug.full((), 0.25, device=place) if line.shared == "factor" else None
        if line.shared == "flag":
            shared = cuplug.zeros((), device=place)
        before = given[2][0]._version
        update(name, given, *numbers, shared=shared)
        assert given[2][0]._version == before + 1
        found.append([each.cpu().numpy() for row in given for each in row])
        found[-1].append(np.array(0.0 if shared is None else shared.item()))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=2e-6, atol=2e-7)


@pytest.mark.needs_sim
def test_tensors_of_several_types_are_copied_bit_by_bit(kernels: str) -> None:
    bits = cuplug.tensor([0x7FF0000000000001, -1, 3], device=kernels)  # as a float64 the first is a signalling NaN
    sources = [bits, cuplug.rand(5, 4, device=kernels).t(), cuplug.tensor([True, False], device=kernels), bits[:0]]
    targets = [cuplug.empty(each.shape, dtype=each.dtype, device=kernels) for each in sources]
    copy_all(targets, sources)
    assert [each.tolist() for each in targets] == [each.tolist() for each in sources]


@pytest.mark.needs_sim
def test_more_tensors_than_a_launch_names_are_all_changed(kernels: str) -> None:
    given = [[cuplug.full((3,), float(k), device=kernels)] for k in range(400)]
    flag = cuplug.zeros((), device=kernels)
    update("unscale", given, 2.0, shared=flag)
    assert [each.tolist() for (each,) in given] == [[2.0 * k] * 3 for k in range(400)]
    assert flag.item() == 0
    (total,) = sum_of_squares(given)
    assert total.item() == sum(3 * (2.0 * k) ** 2 for k in range(400))


@pytest.mark.parametrize("wrong", [float("inf"), float("nan")])
def test_what_is_not_finite_sets_the_flag(wrong: float, device: str) -> None:
    given = [[cuplug.ones(70000, device=device)], [cuplug.ones(3, device=device)]]
    given[0][0][69999] = wrong
    flag = cuplug.zeros((), device=device)
    update("unscale", given, 1.0, shared=flag)
    assert flag.item() == 1


def test_what_does_not_lie_side_by_side_and_half_types_are_changed_too(device: str) -> None:
    base = cuplug.zeros(4, 3, device=device)
    update("sgd", [[base.t(), cuplug.ones(3, 4, device=device)]], 0.5, 0.0, 1.0)
    assert base.tolist() == [[-0.5] * 3] * 4
    half = cuplug.ones(5, device=device, dtype=cuplug.bfloat16)
    update("sgd", [[half, half.clone()]], 0.5, 0.0, 1.0)
    assert half.tolist() == [0.5] * 5


def test_the_norm_of_all_gradients_is_that_of_one_vector(device: str) -> None:
    given = [cuplug.zeros(n, device=device, requires_grad=True) for n in (5, 70000)]
    for each in given:
        each.grad = cuplug.full(each.shape, 2.0, device=device)
    total = cuplug.nn.utils.clip_grad_norm_(given, 1.0)
    assert total.item() == pytest.approx(2 * 70005**0.5)
    assert given[1].grad[3].item() == pytest.approx(1 / 70005**0.5)


def test_the_norm_of_gradients_of_several_types_is_of_the_widest(device: str) -> None:
    half, full = (cuplug.zeros(3, device=device, dtype=kind) for kind in (cuplug.bfloat16, cuplug.float32))
    for each in (half, full):
        each.requires_grad_().grad = cuplug.full_like(each, 0.777)
    of_half = cuplug.nn.utils.clip_grad_norm_([half], 9.0)
    of_both = cuplug.nn.utils.clip_grad_norm_([half, full], 9.0)
    assert (of_half.dtype, of_both.dtype) == (cuplug.bfloat16, cuplug.float32)
    assert of_both.item() == pytest.approx((3 * half.grad[0].item() ** 2 + 3 * 0.777**2) ** 0.5)


def test_an_operation_of_several_tensors_is_that_of_each(device: str) -> None:
    def two(a: float, b: float) -> list[Any]:
        return [cuplug.full((2,), a, device=device), cuplug.full((3,), b, device=device)]

    def shown(tensors: Any) -> list[float]:
        return [each[0].item() for each in tensors]

    a, b = two(1.0, 2.0), two(3.0, 4.0)
    assert shown(cuplug._foreach_add(a, b, alpha=2)) == [7, 10]
    assert shown(cuplug._foreach_div(a, [2.0, 4.0])) == [0.5, 0.5]
    assert shown(cuplug._foreach_lerp(a, b, 0.5)) == [2, 3]
    assert cuplug._foreach_addcmul_(a, b, b, 0.5) is a
    assert shown(a) == [5.5, 10]
    cuplug._foreach_copy_(a, b)
    assert shown(a) == [3, 4]
    cuplug._foreach_maximum_(a, two(5.0, 1.0))
    cuplug._foreach_minimum_(a, 4.5)
    assert shown(a) == [4.5, 4]
    with pytest.raises(AttributeError, match="nothing"):
        _ = cuplug._foreach_nothing
    for others in (b[:1], [1.0, 2.0, 3.0]):
        with pytest.raises(ValueError, match=r"_foreach_add: lists must be as long as each other, not \[2, [13]\]"):
            cuplug._foreach_add(a, others)
