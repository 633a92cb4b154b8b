"""Windows of which one element is made, their largest or their mean, and where the largest is. Values are PyTorch's."""

from __future__ import annotations

import itertools
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.nn import functional as F


@pytest.mark.parametrize("kind", [cuplug.float32, cuplug.int32])
@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.max_pool2d(x, (3, 2), (2, 1), (1, 0), (1, 2), True, True),
        lambda x: F.max_pool1d(x[:, :, 0], 3, 2, 1, return_indices=True),
        lambda x: F.max_pool3d(x.unflatten(1, (1, 3)), 2, 1, 1, 1, False, True),
    ],
)
def test_the_places_of_the_largest_elements_are_told(pool: Any, kind: cuplug.dtype) -> None:
    images = cuplug.randperm(2 * 3 * 7 * 8).view(2, 3, 7, 8).to(kind) - 100
    values, places = pool(images)
    assert (values.dtype, places.dtype) == (kind, cuplug.int64)
    planes = images[:, :, 0] if values.ndim == 3 else images.unflatten(1, (1, 3)) if values.ndim == 5 else images
    assert planes.flatten(2).gather(2, places.flatten(2)).equal(values.flatten(2))
    assert len(values.unique()) > 10


def test_the_places_of_as_many_windows_as_asked_for_are_told() -> None:
    images = cuplug.randperm(2 * 3 * 7 * 8).view(2, 3, 7, 8).float()
    values, places = F.adaptive_max_pool2d(images, (2, 3), True)
    assert images.flatten(2).gather(2, places.flatten(2)).equal(values.flatten(2))
    assert images[0, 0, :4, :3].max() == values[0, 0, 0, 0]


def test_what_is_found_of_images_lies_as_they_do() -> None:
    images = cuplug.randn(2, 3, 6, 8).contiguous(memory_format=cuplug.channels_last)
    for made in F.max_pool2d(images, 2, return_indices=True):
        assert made.is_contiguous(memory_format=cuplug.channels_last)


def test_a_window_beside_the_image_has_no_largest_element_and_no_gradient(device: str) -> None:
    x = cuplug.ones(1, 1, 1, device=device, requires_grad=True)
    made = cuplug.nn.functional.max_pool1d(x, 2, padding=1, dilation=2)
    assert made.tolist() == [[[float("-inf")]]]
    made.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[[0]]]


def test_windows_that_do_not_move_are_refused() -> None:
    for pool in (cuplug.nn.functional.max_pool2d, cuplug.nn.functional.avg_pool2d):
        with pytest.raises(RuntimeError, match="stride should not be zero"):
            pool(cuplug.ones(1, 1, 4, 4), 2, 0)


def test_pools_of_images_whose_channels_lie_last_keep_them_there(device: str) -> None:
    functional = cuplug.nn.functional
    x = cuplug.randn(2, 3, 6, 6, device=device).contiguous(memory_format=cuplug.channels_last)
    for made in (
        functional.avg_pool2d(x, 2),
        functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
        functional.adaptive_avg_pool2d(x, 4),
        functional.adaptive_avg_pool2d(x, 1),
        functional.max_pool2d(x, 2),
    ):
        assert made.is_contiguous(memory_format=cuplug.channels_last)


def every_second_channel(device: str) -> Any:
    """Images whose channels lie last, apart from one another."""
    images = cuplug.randn(2, 6, 6, 6, device=device).contiguous(memory_format=cuplug.channels_last)
    return images[:, ::2]


def test_pools_of_images_whose_channels_are_innermost_with_gaps_have_them_last(device: str) -> None:
    x = every_second_channel(device)
    for made in (
        F.avg_pool2d(x, 2),
        F.max_pool2d(x, 2),
        F.adaptive_avg_pool2d(x, 4),
        F.adaptive_max_pool2d(x, 4),
        F.adaptive_max_pool2d(x, 4, True)[1],
        F.interpolate(x, scale_factor=2),
    ):
        assert made.is_contiguous(memory_format=cuplug.channels_last)
        assert not made.is_contiguous()
    assert F.avg_pool2d(x.contiguous(), 2).is_contiguous()


def test_volumes_whose_channels_lie_last_keep_them_there_where_pytorch_does() -> None:
    x = cuplug.randn(2, 3, 4, 4, 4).contiguous(memory_format=cuplug.channels_last_3d)
    values, places = F.max_pool3d(x, 2, return_indices=True)
    for made in (values, places, F.max_pool3d(x, 2)):
        assert made.stride() == (24, 1, 12, 6, 3)
    assert F.avg_pool3d(x, 2).stride() == (24, 8, 4, 2, 1)
    for made in F.max_pool3d(x[0], 2, return_indices=True):
        assert made.stride() == (1, 12, 6, 3)
    assert F.max_pool3d(x[0].contiguous(), 2).stride() == (8, 4, 2, 1)


def test_the_strides_of_one_window_are_pytorchs() -> None:
    x = cuplug.randn(2, 3, 6, 6)
    assert F.adaptive_avg_pool2d(x, 1).stride() == (3, 1, 1, 1)
    assert F.adaptive_avg_pool2d(x.contiguous(memory_format=cuplug.channels_last), 1).stride() == (3, 1, 3, 3)


@pytest.mark.parametrize("lengths", [(4,), (4, 4), (4, 4, 4)])
def test_what_stands_around_is_never_the_largest(lengths: tuple[int, ...], device: str) -> None:
    pool = getattr(F, f"max_pool{len(lengths)}d")
    x = cuplug.full((1, 1, *lengths), float("-inf"), device=device)
    values, places = pool(x, 2, 2, 1, return_indices=True)
    inside = {1: [0, 1, 3], 2: [0, 1, 3, 4, 5, 7, 12, 13, 15]}
    inside[3] = [16 * n + each for n in (0, 1, 3) for each in inside[2]]
    assert places.flatten().tolist() == inside[len(lengths)]
    assert set(values.flatten().tolist()) == {float("-inf")}


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_a_window_beside_the_image_has_no_place(dimensions: int) -> None:
    pool = getattr(F, f"max_pool{dimensions}d")
    x = cuplug.ones(1, 1, *(1,) * dimensions, requires_grad=True)
    values, places = pool(x, 2, padding=1, dilation=2, return_indices=True)
    assert (values.item(), places.item()) == (float("-inf"), -1)
    values.sum().backward()
    assert x.grad is not None
    assert x.grad.item() == 0


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.max_pool1d(x[:, :, 0, 0], 2, return_indices=True),
        lambda x: F.max_pool2d(x[:, :, 0], 2, return_indices=True),
        lambda x: F.max_pool3d(x, 2, return_indices=True),
        lambda x: F.adaptive_max_pool2d(x[:, :, 0], 3, return_indices=True),
    ],
)
def test_the_gradient_goes_by_the_places_that_were_told(pool: Any) -> None:
    x = cuplug.randperm(2 * 4 * 4 * 4).view(1, 2, 4, 4, 4).float().requires_grad_()
    values, places = pool(x)
    values.sum().backward(retain_graph=True)
    assert x.grad is not None
    largest = values.flatten().tolist()  # of each window; no two elements of the image are equal
    assert x.grad.flatten().tolist() == [largest.count(element) for element in x.flatten().tolist()]
    places.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        values.sum().backward()


def test_means_of_integers_are_pytorchs() -> None:
    x = cuplug.arange(16).view(1, 1, 4, 4)
    for made in (F.avg_pool2d(x, 2), F.avg_pool3d(x.unsqueeze(0), (1, 2, 2))):
        assert made.dtype is cuplug.int64
        assert made.flatten().tolist() == [2, 4, 10, 12]
    assert F.avg_pool2d(-x, 2).flatten().tolist() == [-2, -4, -10, -12]
    for kind in (cuplug.int32, cuplug.uint8, cuplug.bool):
        with pytest.raises(RuntimeError, match="not implemented"):
            F.avg_pool2d(x.to(kind), 2)
    for pool in (F.adaptive_avg_pool2d, F.adaptive_max_pool2d):
        with pytest.raises(RuntimeError, match="not implemented"):
            pool(x, 2)
    with pytest.raises(RuntimeError, match="not implemented"):
        F.max_pool2d(x.bool(), 2)


@pytest.mark.parametrize("name", ["avg_pool", "max_pool"])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_a_batch_may_be_empty_and_nothing_else(name: str, dimensions: int) -> None:
    pool = getattr(F, f"{name}{dimensions}d")
    assert pool(cuplug.ones(0, 2, *(4,) * dimensions), 2).shape == (0, 2, *(2,) * dimensions)
    sentence = rf"Expected {dimensions + 1}D or {dimensions + 2}D \(batch mode\) tensor with optional 0 dim batch size"
    for shape in [(1, 0, *(4,) * dimensions), (0, *(4,) * dimensions), (4,) * dimensions, (1,) * (dimensions + 3)]:
        with pytest.raises(RuntimeError, match=sentence):
            pool(cuplug.ones(*shape), 2)


@pytest.mark.parametrize("size", [(2, 3, 4), (5, 3, 2), (1, 1, 1), (3, None, 2)])
def test_volumes_are_reduced_by_windows_that_cover_them(size: Any) -> None:
    x = cuplug.randn(2, 3, 5, 6, 4, requires_grad=True)
    means, (largest, places) = F.adaptive_avg_pool3d(x, size), F.adaptive_max_pool3d(x, size, return_indices=True)
    counts = [own if each is None else each for own, each in zip(x.shape[2:], size, strict=True)]
    assert means.shape == largest.shape == places.shape == (2, 3, *counts)
    windows = [
        [slice(n * length // count, -(-(n + 1) * length // count)) for n in range(count)]
        for length, count in zip(x.shape[2:], counts, strict=True)
    ]
    for index in itertools.product(*map(range, counts)):
        part = x[(..., *[among[n] for among, n in zip(windows, index, strict=True)])].flatten(2)
        assert cuplug.allclose(means[(..., *index)], part.mean(-1), atol=1e-6)
        assert cuplug.equal(largest[(..., *index)], part.amax(-1))
    assert cuplug.equal(x.flatten(2).gather(-1, places.flatten(2)), largest.flatten(2))
    (means.sum() + largest.sum()).backward()
    assert x.grad is not None
    assert x.grad.sum().item() == pytest.approx(2 * means.numel(), abs=1e-3)


def test_pools_that_are_told_how_many_windows_they_have_say_what_they_cannot_do() -> None:
    x = cuplug.ones(1, 2, 4, 4)
    for pool in (F.adaptive_avg_pool2d, F.adaptive_max_pool2d):
        assert pool(x, (0, 2)).shape == (1, 2, 0, 2)
        for size in (-1, (2,), (2, 2, 2)):
            with pytest.raises(RuntimeError, match="output_size"):
                pool(x, size)
        with pytest.raises(RuntimeError, match="with dimension 2 being empty"):
            pool(x[:, :, :0], 2)
        with pytest.raises(RuntimeError, match="Expected 3D or 4D tensor"):
            pool(x[0, 0], 2)
        with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
            pool(x, 2**31)  # two to the 65th elements: refused before windows are counted
    assert F.adaptive_avg_pool2d(x[:, :0], 2).shape == (1, 0, 2, 2)
    with pytest.raises(RuntimeError, match="with dimension 1 being empty"):
        F.adaptive_max_pool2d(x[:, :0], 2)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"kernel_size": 2, "padding": 2}, "pad should be at most half of effective kernel size"),
        ({"kernel_size": 2, "padding": -1}, "pad must be non-negative"),
        ({"kernel_size": 9}, "too small"),
        ({"kernel_size": (2, 2, 2)}, "one number"),
    ],
)
def test_windows_that_mean_nothing_are_refused(given: dict[str, Any], match: str) -> None:
    for pool in (F.avg_pool2d, F.max_pool2d):
        with pytest.raises(RuntimeError, match=match):
            pool(cuplug.ones(1, 1, 4, 4), **given)


def test_a_divisor_or_a_distance_of_zero_is_refused() -> None:
    with pytest.raises(RuntimeError, match="divisor must be not zero"):
        F.avg_pool2d(cuplug.ones(1, 1, 4, 4), 2, divisor_override=0)
    with pytest.raises(RuntimeError, match="dilation should be greater than zero"):
        F.max_pool2d(cuplug.ones(1, 1, 4, 4), 2, dilation=0)


@pytest.mark.parametrize("wrong", [(), (1, 2)])
def test_a_pool_of_rows_takes_one_number(wrong: tuple[int, ...]) -> None:
    rows = cuplug.ones(1, 2, 3)
    for pool in (F.adaptive_avg_pool1d, F.adaptive_max_pool1d, F.avg_pool1d, F.max_pool1d):
        with pytest.raises(RuntimeError, match=rf"should contain one int \(got {len(wrong)}\)"):
            pool(rows, wrong)
        with pytest.raises(TypeError, match="must be tuple of ints, not float"):
            pool(rows, 2.5)
    assert F.avg_pool1d(rows, (3,)).shape == (1, 2, 1)


def test_numpys_integers_are_integers() -> None:
    two, images = np.int64(2), cuplug.arange(32.0).view(1, 2, 4, 4)
    rows, volumes = images.flatten(2), images.unsqueeze(2)
    assert F.avg_pool1d(rows, two, two, np.int32(0)).equal(F.avg_pool1d(rows, 2))
    assert F.max_pool1d(rows, two).equal(F.max_pool1d(rows, 2))
    assert F.avg_pool2d(images, two).equal(F.avg_pool2d(images, 2))
    assert F.avg_pool3d(volumes, (1, two, two)).equal(F.avg_pool3d(volumes, (1, 2, 2)))
    assert F.adaptive_avg_pool2d(images, two).equal(F.adaptive_avg_pool2d(images, 2))
    assert F.interpolate(images, scale_factor=np.float32(2)).equal(F.interpolate(images, scale_factor=2))
    assert F.conv1d(rows, cuplug.ones(1, 2, 3), stride=two, padding=two).shape == (1, 1, 9)
    assert F.conv_transpose1d(rows, cuplug.ones(2, 1, 3), stride=two).shape == (1, 1, 33)
    filters = cuplug.nn.Conv2d(2, 3, two, stride=two, padding=two)
    assert filters(images).shape == (1, 3, 4, 4)
    assert cuplug.nn.ZeroPad2d(two)(images).shape == (1, 2, 8, 8)
    assert cuplug.nn.LayerNorm(np.int64(4))(images).shape == images.shape


def test_windows_move_by_their_size_where_no_stride_is_given(device: str) -> None:
    F = cuplug.nn.functional
    volumes = cuplug.arange(64.0, device=device).view(1, 1, 4, 4, 4)
    for nothing in (None, (), []):
        assert F.avg_pool3d(volumes, 2, nothing).equal(F.avg_pool3d(volumes, 2, 2))
        assert F.max_pool3d(volumes, 2, nothing).equal(F.max_pool3d(volumes, 2, 2))
        for images, kind in ((volumes[0], "2d"), (volumes[0, 0], "1d")):
            for name in ("avg_pool", "max_pool"):
                pool = getattr(F, name + kind)
                assert pool(images, 2, nothing).equal(pool(images, 2, 2))


def test_means_of_integers_are_cut_off_once(device: str) -> None:
    volume = cuplug.tensor([5, -3, 2, 8, -7, 1, 4, -9, 3, 6, -2, 9], device=device).view(1, 1, 2, 2, 3)
    pool = cuplug.nn.functional.avg_pool3d
    assert pool(volume, 2, 1).flatten().tolist() == [0, 0]
    assert pool(volume, 2, 1, divisor_override=-2).flatten().tolist() == [-1, 3]
    assert pool(volume, (2, 2, 3), 1, (1, 1, 0)).flatten().tolist() == [0, 0, 0, 0, 1, 1, 0, 0, 1]
    counted = pool(volume, (2, 2, 3), 1, (1, 1, 0), count_include_pad=False)
    assert counted.flatten().tolist() == [1, 1, 0, 0, 1, 2, 0, 1, 4]
    assert pool(volume, 2, 2, 1, ceil_mode=True).flatten().tolist() == [0, 0, 1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(("mode", "around"), [("reflect", (2, 0)), ("reflect", (0, 3)), ("circular", (3, 0))])
def test_padding_does_not_turn_more_than_once(mode: str, around: tuple[int, int], device: str) -> None:
    row = cuplug.arange(2.0, device=device).view(1, 1, 2)
    with pytest.raises(RuntimeError, match=r"Padding (size should be less|value causes wrapping)"):
        F.pad(row, around, mode)
    with pytest.raises(RuntimeError, match="Padding size should be less"):
        F.pad(row[..., :1], (1, 0), "reflect")
    assert F.pad(row, (1, 1), "reflect").tolist() == [[[1, 0, 1, 0]]]
    assert F.pad(row, (2, 2), "circular").tolist() == [[[0, 1, 0, 1, 0, 1]]]


def test_windows_of_one_element_are_a_copy(device: str) -> None:
    images = cuplug.ones(1, 2, 3, 3, device=device)
    F.unfold(images, 1).zero_()
    assert (images == 1).all()


def test_an_empty_batch_of_columns_has_a_gradient(device: str) -> None:
    columns = cuplug.zeros(0, 2, 3, device=device, requires_grad=True)
    images = F.fold(columns, (1, 5), 1, stride=2)
    assert images.shape == (0, 2, 1, 5)
    images.sum().backward()
    assert columns.grad.shape == columns.shape
