"""Views whose shapes are worked out once for each layout."""

from __future__ import annotations

import random
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.runtime.tensor.ops.indexing import indexing

SHOWN = [
    lambda x: x.view(3, 4, 2),
    lambda x: x.reshape(-1),
    lambda x: x.unsqueeze(1),
    lambda x: x.permute(2, 0, 1),
    lambda x: x.transpose(0, 2),
    lambda x: x.expand(5, 2, 3, 4),
    lambda x: x.flatten(1),
    lambda x: x.squeeze(),
    lambda x: x.select(1, -1),
    lambda x: x.narrow(2, 1, 2),
    lambda x: x[1],
    lambda x: x[-2],
    lambda x: x[1:],
    lambda x: x[::2],
    lambda x: x[5:2],
    lambda x: x[:, None],
    lambda x: x[:, 1:, ::2],
    lambda x: x[..., -1],
    lambda x: x[1, None, 0],
    lambda x: x[None, ..., 1:, 3:0],
]


@pytest.mark.parametrize("number", range(len(SHOWN)))
def test_a_view_of_the_next_tensor_of_a_layout_begins_in_that_tensor(number: int, device: str) -> None:
    show = SHOWN[number]
    first = cuplug.arange(48, device=device).reshape(2, 2, 3, 4)
    for part in (first[0], first[1], first[1].clone()):
        again = show(part)
        plain = show(cuplug.tensor(part.cpu().numpy(), device=device))
        assert again.tolist() == plain.tolist()
        assert again.shape == plain.shape
        assert again.stride() == plain.stride()
        assert again.untyped_storage() is part.untyped_storage()


def test_what_is_refused_is_refused_after_an_equal_argument_was_not() -> None:
    x = cuplug.ones(2, 3)
    assert x.unsqueeze(1).shape == (2, 1, 3)
    assert x.view(3, 2).shape == (3, 2)
    assert x.narrow(0, 1, 1).shape == (1, 3)
    with pytest.raises(TypeError):
        x.unsqueeze(1.0)
    with pytest.raises(TypeError):
        x.view(3.0, 2)
    with pytest.raises(IndexError):
        x.narrow(0, 2, 1)
    with pytest.raises(IndexError, match="index 2 is out of bounds for dimension 0 with size 2"):
        x[2]
    assert cuplug.zeros(2, 3).shape == (2, 3)
    with pytest.raises(TypeError):
        cuplug.zeros(2.0, 3)
    with pytest.raises(ValueError, match="negative"):
        cuplug.zeros(-2, 3)


def test_an_index_shows_what_it_would_if_nothing_were_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(3)

    def part() -> Any:
        bounds = [chance.choice([None, chance.randint(-5, 5)]) for _ in range(2)]
        among = [chance.randint(-4, 4), slice(*bounds, chance.choice([None, 1, 2, 3])), None, ...]
        return chance.choices(among, (6, 9, 3, 2))[0]

    def shown(x: cuplug.Tensor, key: Any) -> Any:
        try:
            view = x[key]
        except IndexError as error:
            return str(error)
        return view.shape, view.stride(), view.storage_offset(), view.tolist()

    compared = 0
    for _ in range(4000):
        shape = [chance.randint(0, 4) for _ in range(chance.randint(0, 4))]
        x = cuplug.arange(int(np.prod(shape))).reshape(shape)
        if len(shape) > 1 and chance.random() < 0.5:
            x = x.transpose(0, -1)
        key = tuple(part() for _ in range(chance.randint(0, 5)))
        found = shown(x, key)
        with monkeypatch.context() as without:
            without.setattr(indexing, "_basic_view", lambda *_: None)
            assert shown(x, key) == found
        compared += not isinstance(found, str)
    assert compared > 1000


def test_what_an_index_names_is_written_each_time(device: str) -> None:
    for value in (1.0, 2.0):
        x, a = cuplug.zeros(3, 4, device=device), np.zeros((3, 4), np.float32)
        for key in ((slice(None), 1), (0, slice(2, None)), (Ellipsis, -1), (None, 2)):
            x[key] = value
            a[key] = value
            x[key] = x[key] + cuplug.ones((), device=device)
            a[key] = a[key] + 1
        assert x.tolist() == a.tolist()


def test_a_view_of_a_tensor_that_requires_gradients_is_part_of_the_graph_each_time(device: str) -> None:
    for factor in (1.0, 2.0):
        x = cuplug.ones(2, 2, 3, 4, device=device, requires_grad=True)
        for show in SHOWN:
            (show(x[0]) * factor).sum().backward()
        counts = np.zeros((2, 3, 4))
        for show in SHOWN:
            numbers = show(cuplug.arange(24).reshape(2, 3, 4)).reshape(-1).tolist()
            np.add.at(counts.reshape(-1), np.array(numbers, int), factor)
        assert x.grad is not None
        assert (x.grad[0].cpu().numpy() == counts).all()
        assert not x.grad[1].cpu().numpy().any()


def test_a_number_that_fills_is_converted_to_the_type_of_each_tensor(device: str) -> None:
    for kind, expected in ((cuplug.float32, 1.5), (cuplug.int64, 1), (cuplug.bool, True)):
        for _ in range(2):
            assert cuplug.full((2,), 1.5, dtype=kind, device=device).tolist() == [expected] * 2
    before = cuplug.get_default_dtype()
    try:
        for kind in (cuplug.float64, cuplug.float32):
            cuplug.set_default_dtype(kind)
            assert cuplug.zeros(3, device=device).dtype is kind
            assert cuplug.full((3,), 0.5, device=device).dtype is kind
            assert cuplug.zeros_like(cuplug.ones(2, device=device)).dtype is kind
    finally:
        cuplug.set_default_dtype(before)


def test_work_along_rows_as_they_lie_is_that_of_any_other_layout(device: str) -> None:
    numbers = np.random.default_rng(0)
    a = numbers.standard_normal((4, 6)).astype(np.float32)
    at = numbers.integers(0, 6, (4, 6))

    def all_of(x: Any, index: Any) -> list[Any]:
        target = cuplug.zeros(4, 6, device=device)
        target.scatter_add_(1, index, x)
        target.scatter_(1, index, target.clone())
        return [x.gather(1, index), x.softmax(1), x.log_softmax(-1), x.cumsum(1), x.cummax(1).values, target]

    expected = all_of(cuplug.tensor(a, device=device).t().contiguous().t(), cuplug.tensor(at, device=device).int())
    for _ in range(2):  # the second time by the plans that the first one left
        found = all_of(cuplug.tensor(a, device=device), cuplug.tensor(at, device=device))
        for one, other in zip(found, expected, strict=True):
            assert np.allclose(one.cpu().numpy(), other.cpu().numpy(), atol=1e-6)
    assert found[-1]._version > 0


def test_what_was_searched_for_once_is_searched_for_as_asked_the_next_time(device: str) -> None:
    ordered = cuplug.tensor([[1.0, 2.0, 2.0, 5.0], [0.0, 1.0, 3.0, 3.0]], device=device)
    values = cuplug.tensor([[2.0, 6.0], [3.0, -1.0]], device=device)
    for _ in range(2):
        assert cuplug.searchsorted(ordered, values).tolist() == [[1, 4], [2, 0]]
        assert cuplug.searchsorted(ordered, values, right=True).tolist() == [[3, 4], [4, 0]]
        assert cuplug.searchsorted(ordered, values, side="right", out_int32=True).dtype is cuplug.int32
        assert cuplug.searchsorted(ordered[0], values[0]).tolist() == [1, 4]
        assert cuplug.searchsorted(ordered[0], values).tolist() == [[1, 4], [3, 0]]
        with pytest.raises(ValueError, match="side is"):
            cuplug.searchsorted(ordered, values, side="left", right=True)


def test_products_are_added_in_one_step_or_several_with_the_same_gradients(device: str) -> None:
    for kind in (cuplug.float64, cuplug.float16):
        a, b, c = (
            cuplug.tensor(each, dtype=kind, device=device, requires_grad=True)
            for each in ([1.0, 2.0], [3.0, 4.0], [5.0])
        )
        made = cuplug.addcmul(a, b, c)
        assert made.tolist() == [16.0, 22.0]
        assert cuplug.addcmul(a, b, c, value=2).tolist() == [31.0, 42.0]
        made.sum().backward()
        assert (a.grad.tolist(), b.grad.tolist(), c.grad.tolist()) == ([1, 1], [5, 5], [7])
    whole = cuplug.tensor([1, 2], device=device)
    assert cuplug.addcmul(whole, whole, whole).tolist() == [2, 6]
    assert cuplug.addcmul(cuplug.ones(2, device=device), whole, whole).dtype is cuplug.float32


def test_a_tensor_is_not_scattered_into_itself_whatever_plan_is_kept(device: str) -> None:
    index = cuplug.tensor([1, 0, 3, 2], device=device)
    for _ in range(2):
        x = cuplug.tensor([1.0, 2.0, 3.0, 4.0], device=device)
        with pytest.raises(RuntimeError, match="single memory location"):
            x.scatter_(0, index, x)
        assert x.scatter_(0, index, cuplug.ones(4, device=device)).tolist() == [1.0] * 4


def test_gradients_reach_through_work_along_rows_each_time(device: str) -> None:
    index = cuplug.tensor([2, 0, 2], device=device)
    for plain in (True, False, True, False):
        x = cuplug.tensor([1.0, 2.0, 3.0], device=device, requires_grad=not plain)
        made = x.gather(0, index) * 2 + x.index_select(0, index) + x.cumsum(0)
        assert made.requires_grad is not plain
        if not plain:
            made.sum().backward()
            assert x.grad.tolist() == [3 + 3, 2, 6 + 1]


def test_positions_and_types_are_checked_each_time() -> None:
    x, index = cuplug.ones(2, 3), cuplug.zeros(2, 3, dtype=cuplug.int64)
    x.gather(1, index)
    x.scatter_add_(1, index, cuplug.ones(2, 3))
    for dim in (1.0, 2):
        with pytest.raises((TypeError, IndexError)):
            x.gather(dim, index)
    with pytest.raises(IndexError):
        x.gather(1, index + 3)
    with pytest.raises(TypeError):
        x.scatter_add_(1, index, cuplug.ones(2, 3, dtype=cuplug.float64))
    with pytest.raises(IndexError):
        cuplug.ones(3).index_select(0, cuplug.tensor([3]))


def test_elements_are_moved_as_asked_the_next_time_too(device: str) -> None:
    cuplug.empty(0, device=device)._layout.place.layouts.clear()  # as it does by itself when it has thousands
    for shape in ((7,), (4, 6), (2, 3, 5), ()):
        a = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
        turned = np.swapaxes(a, 0, -1) if shape else a
        for _ in range(2):
            x = cuplug.tensor(a, device=device)
            y = x.transpose(0, -1) if shape else x
            for shift in (1, -3, 0, 100):
                assert x.roll(shift).tolist() == np.roll(a, shift).tolist()
                assert y.roll(shift).tolist() == np.roll(turned, shift).tolist()
            for axis in range(-len(shape), len(shape)):
                assert x.flip(axis).tolist() == np.flip(a, axis).tolist()
                assert y.flip(axis).tolist() == np.flip(turned, axis).tolist()
                assert x.roll(2, axis).tolist() == np.roll(a, 2, axis).tolist()
                assert x.roll(-1, axis)._layout is x._layout


def test_triangles_are_those_asked_for_the_next_time_too(device: str) -> None:
    for shape in ((4, 6), (2, 3, 5)):
        for kind in (np.float32, np.int64, np.bool_):
            a = np.ones(shape, kind)
            for diagonal in (0, 1, -2, 100):
                x = cuplug.tensor(a, device=device)
                assert x.tril(diagonal).tolist() == np.tril(a, diagonal).tolist()
                assert x.triu(diagonal).tolist() == np.triu(a, diagonal).tolist()
                assert x.tril(diagonal).dtype is x.dtype
    with pytest.raises(ValueError, match="two at least"):
        cuplug.ones(4, device=device).tril()


def test_what_is_repaired_is_repaired_at_once(device: str) -> None:
    a = np.array([1, np.nan, np.inf, -np.inf, -2, 0])
    for kind in (np.float32, np.float64, np.float16):
        x = cuplug.tensor(a.astype(kind), device=device)
        for given in ({}, {"nan": 3.0}, {"posinf": 9.0}, {"neginf": -7, "nan": 1}, {"nan": float("inf")}):
            assert np.array_equal(x.nan_to_num(**given).cpu().numpy(), np.nan_to_num(a.astype(kind), **given))


def test_elements_are_added_at_positions_of_one_dimension_as_elsewhere(device: str) -> None:
    index, source = cuplug.tensor([2, 0, 2], device=device), cuplug.tensor([1.0, 2.0, 4.0], device=device)
    for _ in range(2):
        assert cuplug.zeros(4, device=device).index_add_(0, index, source).tolist() == [2, 0, 5, 0]
        assert cuplug.zeros(4, device=device).index_add_(0, index.int(), source, alpha=2).tolist() == [4, 0, 10, 0]
        with pytest.raises(IndexError, match="indices"):
            cuplug.zeros(4, device=device).index_add_(0, index, source[:2])


def test_a_copy_of_the_same_tensor_and_of_one_between_its_elements_are_right_each_time(device: str) -> None:
    for _ in range(2):
        x = cuplug.arange(6.0, device=device)
        assert x.copy_(x).tolist() == [0, 1, 2, 3, 4, 5]
        before = x._version
        assert x[2::2].copy_(x[:-2:2]).tolist() == [0, 2]
        assert x[:3].copy_(cuplug.ones(3, device=device)).tolist() == [1, 1, 1]
        assert x._version > before
