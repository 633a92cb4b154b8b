"""Scans, sorts and what goes to and from indexed places, against NumPy, on the CPU, a device and generated kernels."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.runtime.tensor.backends.cuda_place import CudaPlace

pytestmark = pytest.mark.one_schedule

RANDOM = np.random.default_rng(5)


@pytest.fixture(params=["cpu", "cuda", "kernels"], scope="module")
def place(request: pytest.FixtureRequest, running: str) -> Iterator[str]:
    """The CPU, a device, and a simulated device that runs generated kernels instead of NumPy."""
    if request.param != "kernels":
        yield str(request.param)
        return
    if running.startswith("cuda"):
        pytest.skip("the device itself runs them")
    request.getfixturevalue("quick_compiler")
    runtime = cuplug.default_runtime()
    before = runtime.device(1).objects.get("tensor.place")
    runtime.device(1).objects["tensor.place"] = CudaPlace(runtime, 1)
    yield "cuda:1"
    if before is None:
        del runtime.device(1).objects["tensor.place"]
    else:
        runtime.device(1).objects["tensor.place"] = before


def _numbers(*shape: int) -> Any:
    return RANDOM.integers(-9, 10, shape).astype(np.float32)


@pytest.mark.parametrize("length", [1, 5000])
def test_scans_give_what_numpy_gives(length: int, place: str) -> None:
    array = _numbers(2, length)
    x = cuplug.tensor(array, device=place)
    np.testing.assert_allclose(x.cumsum(1).cpu().numpy(), array.cumsum(1))
    signs = np.sign(array) + (array == 0)
    np.testing.assert_array_equal(cuplug.tensor(signs, device=place).cumprod(1).cpu().numpy(), signs.cumprod(1))
    most = x.cummax(1)
    np.testing.assert_array_equal(most.values.cpu().numpy(), np.maximum.accumulate(array, 1))
    np.testing.assert_array_equal(x.gather(1, most.indices).cpu().numpy(), most.values.cpu().numpy())
    np.testing.assert_array_equal(x.cummin(0).values.cpu().numpy(), np.minimum.accumulate(array, 0))


def test_the_last_of_equals_is_the_extreme_so_far_and_nan_stays(place: str) -> None:
    x = cuplug.tensor([1.0, 1.0, float("nan"), 5.0], device=place)
    found = x.cummax(0)
    assert found.indices.tolist() == [0, 1, 2, 2]
    assert found.values.isnan().tolist() == [False, False, True, True]


@pytest.mark.parametrize("length", [1, 6, 256, 3000])
@pytest.mark.parametrize("descending", [False, True])
def test_sorting_is_stable_and_puts_nan_above_all_numbers(length: int, descending: bool, place: str) -> None:
    array = _numbers(2, length)
    array[0, length // 2] = np.nan
    values, places = cuplug.tensor(array, device=place).sort(1, descending)
    order = np.argsort(-array if descending else array, 1, kind="stable")
    if descending:  # NaN comes first
        order[0] = np.concatenate([order[0, -1:], order[0, :-1]])
    np.testing.assert_array_equal(places.cpu().numpy(), order)
    np.testing.assert_array_equal(values.cpu().numpy(), np.take_along_axis(array, order, 1))


@pytest.mark.parametrize("kind", ["float32", "float16", "int64", "uint8"])
def test_what_goes_to_one_place_is_combined(kind: str, place: str) -> None:
    if place == "cuda:1" and kind != "float16":
        pytest.skip("each type compiles five kernels; this one exchanges parts of words, the hardest")
    places = np.array([[0, 2, 2, 0, 4]])
    values = np.array([[1, 2, 3, 4, 5]])
    index = cuplug.tensor(places, device=place)
    source = cuplug.tensor(values, device=place).to(getattr(cuplug, kind))
    for name, expected in {
        "sum": [[6, 1, 6, 1, 6, 1]],
        "prod": [[4, 1, 6, 1, 5, 1]],
        "amax": [[4, 1, 3, 1, 5, 1]],
        "amin": [[1, 1, 1, 1, 1, 1]],
        "mean": [[2, 1, 2, 1, 3, 1]],
    }.items():
        target = cuplug.ones(1, 6, device=place).to(getattr(cuplug, kind))
        assert target.scatter_reduce(1, index, source, name).tolist() == expected, name
    counts = cuplug.zeros(6, device=place).to(getattr(cuplug, kind))
    assert counts.index_add_(0, index[0], source[0]).tolist() == [5, 0, 5, 0, 5, 0]
    assert counts.index_put_([index[0]], source[0], accumulate=True).tolist() == [10, 0, 10, 0, 10, 0]


INDEXED = {
    "one dimension": ((4, 3), ([3, -4, 3],)),
    "one in the middle": ((2, 4, 3), (None, [3, 0, -1])),
    "two neighbours": ((3, 4, 2), (None, [[0], [-4]], [[1, 0, 1]])),
    "two apart": ((3, 2, 4), ([0, -1, 0], None, [3, 3, 3])),
    "a number with a row": ((3, 4), ([2], [-1, 0, 3])),
    "a mask": ((3, 2, 2), ([True, False, True],)),
    "a mask of two dimensions": ((2, 2, 3), ([[True, False], [False, True]],)),
    "nothing": ((3, 2), ([],)),
}


@pytest.mark.parametrize("what", INDEXED)
@pytest.mark.parametrize("turned", [False, True])
def test_values_are_added_at_indices_of_any_dimensions(place: str, what: str, turned: bool) -> None:
    shape, parts = INDEXED[what]
    key = tuple(slice(None) if part is None else np.array(part, None if part else np.int64) for part in parts)
    start = _numbers(*shape[::-1]).T if turned else _numbers(*shape)
    picked = start[key]
    for values in (_numbers(*picked.shape), _numbers(*picked.shape[1:]), _numbers(1)):
        expected = start.copy()
        np.add.at(expected, key, values)
        target = cuplug.tensor(start.T.copy(), device=place).permute(*reversed(range(start.ndim)))
        target = target if turned else target.contiguous()
        asked = [None if isinstance(part, slice) else cuplug.tensor(part, device=place) for part in key]
        assert target.index_put_(asked, cuplug.tensor(values, device=place), accumulate=True) is target
        np.testing.assert_array_equal(target.cpu().numpy(), expected)


def test_values_are_added_at_indices_in_memory_that_fits_the_values() -> None:
    target = cuplug.zeros(2, 1 << 20, dtype=cuplug.int8)
    index = cuplug.tensor([0, -1, 0]), cuplug.tensor([5, -1, 5])
    tracemalloc.start()
    target.index_put_(index, cuplug.tensor(3, dtype=cuplug.int8), accumulate=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < target.numel()
    assert [target[0, 5].item(), target[1, -1].item()] == [6, 3]
    with pytest.raises(IndexError, match="index 2 is out of bounds for dimension 0 with size 2"):
        target.index_put_((cuplug.tensor([1, 2]), cuplug.tensor([0, 0])), target[0, :2].clone(), accumulate=True)


def test_indexed_places_may_be_parts_of_other_tensors(device: str) -> None:
    whole = cuplug.zeros(4, 6, device=device)
    part = whole.t()[1:5]
    part.scatter_(0, cuplug.tensor([[3, 0, 1, 2]], device=device), cuplug.ones(1, 4, device=device))
    expected = np.zeros((4, 6))
    expected[range(4), np.array([3, 0, 1, 2]) + 1] = 1
    np.testing.assert_array_equal(whole.cpu().numpy(), expected)


@pytest.mark.parametrize("length", [3, 1500, 8300])
def test_softmax_adds_up_to_one_whatever_the_size_of_numbers(length: int, place: str) -> None:
    array = _numbers(3, length) * 100
    found = cuplug.tensor(array, device=place).softmax(1).cpu().numpy()
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)
    logs = cuplug.tensor(array, device=place).log_softmax(1).cpu().numpy()
    np.testing.assert_allclose(np.exp(logs), found, atol=1e-6)


def test_values_are_found_in_what_is_sorted(place: str) -> None:
    rows = cuplug.tensor([[1, 3, 3, 7], [2, 4, 6, 8]], device=place)
    values = cuplug.tensor([[3, 0, 9], [4, 5, 2]], device=place)
    assert cuplug.searchsorted(rows, values).tolist() == [[1, 0, 4], [1, 2, 0]]
    assert cuplug.searchsorted(rows, values, right=True).tolist() == [[3, 0, 4], [2, 2, 1]]
    assert cuplug.bucketize(values, rows[0]).tolist() == [[1, 0, 4], [3, 3, 1]]


def test_an_index_out_of_range_is_refused_on_the_cpu(running: str) -> None:
    x = cuplug.zeros(2, 3)
    for wrong in (3, -1):
        index = cuplug.tensor([[wrong]])
        with pytest.raises(IndexError, match="out of bounds"):
            x.gather(1, index)
        with pytest.raises(IndexError, match="out of bounds"):
            x.scatter_(1, index, 1.0)


def test_distinct_elements_their_places_and_counts(device: str) -> None:
    x = cuplug.tensor([[3, 1], [3, 2]], device=device)
    values, inverse, counts = cuplug.unique(x, return_inverse=True, return_counts=True)
    assert values.tolist() == [1, 2, 3]
    assert values[inverse].equal(x)
    assert counts.tolist() == [1, 1, 2]
    assert cuplug.bincount(x.reshape(-1)).tolist() == [0, 1, 1, 2]


def test_the_median_of_long_rows_is_the_first_nan_or_the_middle_element(device: str) -> None:
    array = _numbers(3, 4099)
    array[1, 7], array[1, 70] = np.nan, np.nan
    x = cuplug.tensor(array, device=device).requires_grad_()
    order = np.argsort(array, 1, kind="stable")
    found = x.median(1)
    expected = [order[0, 2049], 7, order[2, 2049]]
    assert found.indices.tolist() == expected
    np.testing.assert_array_equal(found.values.detach().cpu().numpy(), array[range(3), expected])
    found.values.sum().backward()
    np.testing.assert_array_equal(np.nonzero(x.grad.cpu().numpy())[1], expected)
    assert x.detach().median().isnan().item()
    turned = x.detach().t().to(cuplug.int32).median(0, keepdim=True)
    assert turned.indices.tolist()[0][::2] == [order[0, 2049], order[2, 2049]]


def test_elements_are_counted_by_value_and_by_parts_of_a_range(place: str) -> None:
    numbers = RANDOM.integers(0, 300, 9000)
    counted = cuplug.bincount(
        cuplug.tensor(numbers, device=place), minlength=9000
    )  # more than a block counts by itself
    np.testing.assert_array_equal(counted.cpu().numpy(), np.bincount(numbers, minlength=9000))
    array = (RANDOM.integers(-20, 120, 9000) / 64).astype(np.float32)
    array[:4] = np.nan, np.inf, 0, 1
    found = cuplug.tensor(array, device=place).histc(10, 0, 1)
    assert found.dtype is cuplug.float32
    np.testing.assert_array_equal(found.cpu().numpy(), np.histogram(array[2:], 10, (0, 1))[0])
    assert cuplug.tensor([], device=place).histc(2).tolist() == [0, 0]


def test_positions_are_drawn_by_weight(device: str) -> None:
    cuplug.manual_seed(3)
    cuplug.cuda.manual_seed(3)
    weights = cuplug.tensor([0.0, 1.0, 3.0], device=device)
    drawn = cuplug.multinomial(weights, 4000, replacement=True)
    counts = cuplug.bincount(drawn, minlength=3).tolist()
    assert counts[0] == 0
    assert 2800 < counts[2] < 3200
    assert sorted(cuplug.multinomial(weights, 2).tolist()) == [1, 2]
    with pytest.raises(ValueError, match="fewer"):
        cuplug.multinomial(weights, 3)
    assert 800 < cuplug.bernoulli(cuplug.full((2000,), 0.5, device=device)).sum().item() < 1200


@pytest.mark.parametrize(
    "weights", [[0.0, 0.0], [-1.0, 2.0], [math.nan, 1.0], [math.inf, 1.0], [[1.0, 0.0], [0.0, 0.0]]]
)
@pytest.mark.parametrize("replacement", [False, True])
def test_weights_that_are_none_are_refused(weights: list[Any], replacement: bool, device: str) -> None:
    with pytest.raises(ValueError, match="weights are finite and not negative, and one of a row is greater than 0"):
        cuplug.multinomial(cuplug.tensor(weights, dtype=cuplug.float32, device=device), 1, replacement)


def test_one_position_is_chosen_as_often_as_its_weight_says(device: str) -> None:
    cuplug.manual_seed(5)
    cuplug.cuda.manual_seed(5)
    weights = cuplug.tensor([1.0, 0.0, 3.0], device=device, requires_grad=True)
    drawn = cuplug.multinomial(weights.expand(4000, 3), 1)
    assert drawn.shape == (4000, 1)
    assert not drawn.requires_grad
    counts = cuplug.bincount(drawn.view(-1), minlength=3).tolist()
    assert counts[1] == 0
    assert 2850 < counts[2] < 3150  # of 3000, whose standard deviation is 27


def test_a_resized_tensor_keeps_what_was_there(device: str) -> None:
    x = cuplug.arange(6, device=device)
    address = x.data_ptr()
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert x.data_ptr() == address
    assert x.resize_(9)[:6].tolist() == [0, 1, 2, 3, 4, 5]


def test_windows_slide_over_a_view(device: str) -> None:
    x = cuplug.arange(7, device=device)
    windows = x.unfold(0, 3, 2)
    assert windows.tolist() == [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
    windows[1, 0] = 9
    assert x[2].item() == 9


def test_sums_refuse_types_that_torchs_do(device: str) -> None:
    x, flags = cuplug.ones(3, device=device), cuplug.ones(3, dtype=cuplug.bool, device=device)
    with pytest.raises(TypeError, match="nansum"):
        cuplug.nansum(x, dtype=cuplug.int64)
    with pytest.raises(TypeError, match="nansum"):
        cuplug.nansum(x, out=cuplug.empty(0, dtype=cuplug.int16, device=device))
    assert cuplug.nansum(flags).item() == 3
    for accumulate in (cuplug.cumsum, cuplug.cumprod):
        with pytest.raises(TypeError, match="bool"):
            accumulate(x, 0, dtype=cuplug.bool)
    index = cuplug.tensor([0, 1, 1], device=device)
    with pytest.raises(TypeError, match="no mean of bool"):
        flags.scatter_reduce_(0, index, flags.clone(), "mean")


def test_operations_kept_by_layout_mind_values_offsets_and_gradients(place: str) -> None:
    for _ in range(2):  # the second time what the layouts settle is kept
        x, y, longer = _numbers(3, 4), _numbers(5, 4), _numbers(26)
        a, b = cuplug.tensor(x, device=place), cuplug.tensor(y, device=place)
        for axis in (0, 1, -1, None):
            assert np.array_equal(cuplug.repeat_interleave(a, 3, axis).cpu().numpy(), x.repeat(3, axis))
            assert np.array_equal(cuplug.repeat_interleave(a.t(), 3, axis).cpu().numpy(), x.T.repeat(3, axis))
        assert cuplug.repeat_interleave(a, 1, 0).data_ptr() != a.data_ptr()
        assert cuplug.repeat_interleave(a, 0, 1).shape == (3, 0)
        for equation in ("ij,kj->ik", "ij,kj->ki", "ij,kj", "ij,kj->k", "ij,kj->ikj"):
            made = cuplug.einsum(equation, a, b)
            assert np.array_equal(made.cpu().numpy(), np.einsum(equation, x, y)), equation
        part = cuplug.tensor(longer, device=place)[1:13].view(3, 4)
        wanted = np.einsum("ij,kj->ki", longer[1:13].reshape(3, 4), y)
        assert np.array_equal(cuplug.einsum("ij,kj->ki", part, b).cpu().numpy(), wanted)
        tracked = a.clone().requires_grad_()
        cuplug.einsum("ij,kj->ik", tracked, b).sum().backward()
        assert np.array_equal(tracked.grad.cpu().numpy(), np.broadcast_to(y.sum(0), (3, 4)))
        target, index = cuplug.zeros(3, 4, device=place), cuplug.tensor([2, -3], device=place)
        before = target._version
        assert target.index_put_((index,), b[1:3]) is target
        assert target._version > before
        assert np.array_equal(target.cpu().numpy(), np.stack([y[2], np.zeros(4, np.float32), y[1]]))
        with pytest.raises(RuntimeError, match="single memory location"):
            target.index_put_((index,), target[1:3])
        target.index_put_((index,), b[1:3], accumulate=True)
        assert np.array_equal(target.cpu().numpy(), np.stack([2 * y[2], np.zeros(4, np.float32), 2 * y[1]]))


def test_what_moves_elements_by_index_minds_offsets_sharing_and_gradients_when_kept(place: str) -> None:
    order = np.array([3, 1, 2, 2, 0])
    for begin in (0, 4, 0):  # by the third time what the layouts settle is kept
        x, y = _numbers(9)[begin : begin + 5], _numbers(9)[begin : begin + 5]
        long_x, long_y = cuplug.zeros(9, device=place), cuplug.zeros(9, device=place)
        a, b = long_x[begin : begin + 5], long_y[begin : begin + 5]
        a.copy_(cuplug.tensor(x))
        b.copy_(cuplug.tensor(y))
        index = cuplug.tensor([7, *order], device=place)[1:]
        assert np.array_equal(cuplug.flip(a, (0,)).cpu().numpy(), x[::-1])
        assert np.array_equal(cuplug.flip(a, [0]).cpu().numpy(), x[::-1])
        with pytest.raises(TypeError):
            cuplug.flip(a, 0, dims=(0,))
        assert np.array_equal(cuplug.take(a, index).cpu().numpy(), x[order])
        assert np.array_equal(cuplug.take(a, index.view(5, 1)).cpu().numpy(), x[order][:, None])
        assert np.array_equal(cuplug.gather(a, 0, index).cpu().numpy(), x[order])
        assert np.array_equal(cuplug.searchsorted(a.sort()[0], b).cpu().numpy(), np.sort(x).searchsorted(y))
        assert np.array_equal(
            cuplug.bucketize(b, a.sort()[0], right=True).cpu().numpy(), np.sort(x).searchsorted(y, "right")
        )
        for name in ("index_add_", "scatter_add_", "scatter_"):
            target = cuplug.zeros(9, device=place)[begin : begin + 5].fill_(1)
            version = target._version
            assert getattr(target, name)(0, index, b) is target
            assert target._version > version
            wanted = np.ones(5, np.float32)
            if name == "scatter_":
                wanted[order] = y
                wanted[2] = target[2].item()  # one of two
                assert wanted[2] in y[2:4]
            else:
                np.add.at(wanted, order, y)
            assert np.allclose(target.cpu().numpy(), wanted)
            with pytest.raises(RuntimeError, match=r"memory location|lies over"):
                getattr(target, name)(0, index, target)
            tracked = b.clone().requires_grad_()
            getattr(cuplug.zeros(5, device=place), name)(0, index, tracked).sum().backward()
            assert np.array_equal(tracked.grad.cpu().numpy()[[0, 1, 4]], np.ones(3, np.float32))
        assert np.allclose(cuplug.zeros(5, device=place).index_add_(0, index, b, alpha=2).cpu().numpy()[3], 2 * y[0])


@pytest.mark.parametrize("kind", ["float32", "float16", "int64"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_what_is_scattered_along_any_dimension_lies_in_any_order(
    place: str, kind: str, order: tuple[int, ...], axis: int
) -> None:
    shape = [3, 4, 5]
    start, few = RANDOM.integers(0, 9, shape).astype(kind), RANDOM.permutation(shape[axis])[:2]
    shape[axis] = 2
    source, where = RANDOM.integers(0, 9, shape).astype(kind), RANDOM.integers(0, start.shape[axis], shape)

    def laid(array: Any) -> cuplug.Tensor:
        return cuplug.tensor(array.transpose(order).copy(), device=place).permute(*np.argsort(order).tolist())

    copied, added, scattered = start.copy(), start.copy(), start.copy()
    place_of_few = (slice(None),) * axis + (few,)
    copied[place_of_few] = source
    added[place_of_few] += source
    for position in np.ndindex(*shape):
        target = (*position[:axis], where[position], *position[axis + 1 :])
        scattered[target] += source[position]
    index = cuplug.tensor(few, device=place)
    assert np.array_equal(laid(start).index_copy_(axis, index, laid(source)).cpu().numpy(), copied)
    assert np.array_equal(laid(start).index_add_(axis, index, laid(source)).cpu().numpy(), added)
    assert np.array_equal(laid(start).scatter_add_(axis, laid(where), laid(source)).cpu().numpy(), scattered)


NAMED_BY_AXIS = "aminmax argsort logsumexp median nanmean nanmedian nansum sort std_mean unbind var_mean"


@pytest.mark.parametrize("name", NAMED_BY_AXIS.split())
def test_a_dimension_may_be_named_as_numpys(name: str) -> None:
    a = cuplug.tensor(RANDOM.permutation(12).reshape(3, 4).astype(np.float32))

    def found(**named: int) -> list[Any]:
        made = getattr(cuplug, name)(a, **named)
        return [each.tolist() for each in (made if isinstance(made, tuple) else (made,))]

    assert found(axis=0) == found(dim=0) != found(axis=1) == found(dim=1)


def test_of_some_elements_along_an_axis_and_of_no_dimension() -> None:
    a = cuplug.tensor([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
    assert cuplug.topk(a, 1, axis=0).values.tolist() == [[6, 5, 4]]
    assert cuplug.kthvalue(a, 1, axis=0).values.tolist() == [3, 1, 2]
    with pytest.raises(TypeError, match=r"logsumexp\(\) missing 1 required positional argument"):
        cuplug.logsumexp(a)
