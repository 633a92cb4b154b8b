"""Choosing between elements by their bits gives what NumPy's ``where`` does, of every type and length."""

import cuplug
import numpy as np
import pytest
from cuplug.runtime.tensor.places.choice import choose

KINDS = ("float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [7, 5000])
def test_elements_are_chosen_bit_by_bit(kind: str, count: int) -> None:
    rng = np.random.default_rng(0)
    condition = rng.random(count) < 0.5
    a, b = ((rng.standard_normal(count) * 9).astype(kind) for _ in range(2))
    if a.dtype.kind == "f":
        a[::3], b[::4] = [np.nan, np.inf, -np.inf, -0.0, 0.0][count % 5], -0.0
    zero = np.zeros((), kind)
    for first, other in ((a, b), (a, zero), (zero, b), (b, b[:1]), (a, a.dtype.type(3))):
        expected = np.where(condition, first, other)
        found = choose(condition, first, other)
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()
        assert choose(condition, first, other, np.empty_like(a)).tobytes() == expected.tobytes()
    in_place = b.copy()
    choose(condition, a, in_place, in_place)
    assert in_place.tobytes() == np.where(condition, a, b).tobytes()


@pytest.mark.parametrize("count", [3, 70_000])
def test_the_gradient_of_relu_is_that_of_the_result_or_zero(count: int) -> None:
    x = np.random.default_rng(1).standard_normal(count).astype(np.float32)
    g = np.full(count, np.inf, np.float32)
    g[1] = np.nan
    tensor = cuplug.tensor(x, requires_grad=True)
    cuplug.relu(tensor).backward(cuplug.tensor(g))
    assert tensor.grad is not None
    np.testing.assert_array_equal(tensor.grad.numpy(), np.where(x > 0, g, np.float32(0)))


def test_plus_is_the_tensor_itself_but_of_bool() -> None:
    x = cuplug.ones(3)
    assert +x is x
    assert cuplug.positive(x) is x.positive() is x
    with pytest.raises(TypeError, match=r"The `\+` operator, on a bool tensor is not supported"):
        +cuplug.ones(2, dtype=cuplug.bool)
