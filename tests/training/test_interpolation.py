"""Rows, images and volumes in another size. Values are PyTorch 2.13's."""

from __future__ import annotations

from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.nn import functional as F

RESIZED: list[tuple[tuple[int, ...], dict[str, Any], list[float]]] = [
    (
        (1, 1, 2, 3),
        {"size": (3, 4), "mode": "bicubic"},
        [-0.3322, 0.2694, 1.2098, 1.8114, 1.4282, 2.0298, 2.9702, 3.5718, 3.1886, 3.7902, 4.7306, 5.3322],
    ),
    (
        (1, 1, 2, 3),
        {"size": (3, 4), "mode": "bicubic", "align_corners": True},
        [0, 0.5741, 1.4259, 2, 1.5, 2.0741, 2.9259, 3.5, 3, 3.5741, 4.4259, 5],
    ),
    ((1, 1, 2, 3), {"size": (4, 2), "mode": "area"}, [0.5, 1.5, 0.5, 1.5, 3.5, 4.5, 3.5, 4.5]),
    ((1, 1, 2, 3), {"scale_factor": 1.5, "mode": "nearest-exact"}, [0, 1, 1, 2, 3, 4, 4, 5, 3, 4, 4, 5]),
    (
        (1, 1, 2, 3),
        {"scale_factor": 1.7, "mode": "bilinear", "recompute_scale_factor": True},
        [0, 0.4, 1, 1.6, 2, 1.5, 1.9, 2.5, 3.1, 3.5, 3, 3.4, 4, 4.6, 5],
    ),
    ((1, 1, 4), {"size": 6, "mode": "linear"}, [0, 0.5, 1.16667, 1.83333, 2.5, 3]),
    (
        (1, 1, 2, 2, 2),
        {"size": (3, 2, 3), "mode": "trilinear"},
        [0, 0.5, 1, 2, 2.5, 3, 2, 2.5, 3, 4, 4.5, 5, 4, 4.5, 5, 6, 6.5, 7],
    ),
]


@pytest.mark.parametrize(("shape", "asked", "wanted"), RESIZED, ids=lambda each: str(each)[:40])
def test_elements_are_those_of_torch(shape: tuple[int, ...], asked: dict[str, Any], wanted: list[float]) -> None:
    x = cuplug.arange(float(np.prod(shape))).view(shape).requires_grad_()
    made = F.interpolate(x, **asked)
    np.testing.assert_allclose(made.detach().numpy().ravel(), wanted, atol=5e-4)
    made.sum().backward()
    assert float(x.grad.sum()) == pytest.approx(made.numel(), rel=1e-5)  # each element's shares sum to one


def test_bytes_are_rounded_and_halves_computed_in_float32() -> None:
    x = cuplug.tensor([[[[0, 100], [200, 255]]]], dtype=cuplug.uint8)
    made = F.interpolate(x, size=3, mode="bilinear")
    assert made.flatten().tolist() == [0, 50, 100, 100, 139, 178, 200, 228, 255]
    x = (cuplug.arange(12, dtype=cuplug.uint8) * 20).view(1, 1, 3, 4)
    assert F.interpolate(x, size=(4, 5), mode="bilinear").flatten().tolist() == [
        0, 14, 30, 46, 60, 50, 64, 80, 96, 110, 110, 124, 140, 156, 170, 160, 174, 190, 206, 220
    ]  # fmt: skip
    assert F.interpolate(x, size=(4, 5), mode="bicubic").flatten().tolist() == [
        0, 6, 24, 42, 55, 42, 54, 72, 90, 103, 117, 130, 148, 166, 179, 165, 178, 196, 214, 227
    ]  # fmt: skip
    assert F.interpolate(x.half(), size=3, mode="bicubic").dtype is cuplug.float16


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ({}, "either size or scale_factor"),
        ({"size": 2, "scale_factor": 2.0}, "only one of size or scale_factor"),
        ({"size": 2, "mode": "trilinear"}, "no mode 'trilinear' for an input of 4"),
        ({"size": 2, "align_corners": True}, "align_corners option"),
    ],
)
def test_what_has_no_meaning_is_refused(asked: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        F.interpolate(cuplug.ones(1, 1, 2, 2), **asked)


def test_same_padding_of_even_filters_puts_the_odd_zero_at_the_end() -> None:
    row, filters = cuplug.arange(5.0).view(1, 1, 5), cuplug.tensor([[[1.0, 2.0]]])
    assert F.conv1d(row, filters, padding="same").tolist() == [[[2, 5, 8, 11, 4]]]
    assert F.conv2d(row.unsqueeze(2), filters.unsqueeze(2), padding="same").flatten().tolist() == [2, 5, 8, 11, 4]
    assert F.conv3d(row.view(1, 1, 5, 1, 1), filters.view(1, 1, 2, 1, 1), padding="same").flatten()[-1].item() == 4
    with pytest.raises(ValueError, match="strided"):
        F.conv1d(row, filters, stride=2, padding="same")


def test_vectors_that_broadcast_are_compared_along_the_dimension_of_both() -> None:
    x, y = cuplug.tensor([[[1.0, 2, 3], [4, 5, 6]]]), cuplug.tensor([[[1.0, 0, 1]], [[0, 1, 2]]])
    wanted = [[0.857492983, 0, 0.948683262], [0, 0.919144988, 0.948683262]]
    np.testing.assert_allclose(F.cosine_similarity(x, y, dim=-2).numpy(), wanted, rtol=1e-6)


def test_squares_beyond_the_range_of_halves_are_no_infinity() -> None:
    made = F.rms_norm(cuplug.tensor([300.0, 400.0], dtype=cuplug.float16), (2,))
    assert made.tolist() == [0.8486328125, 1.1318359375]


def test_classes_that_are_neither_are_counted_as_torch_does() -> None:
    assert F.hinge_embedding_loss(cuplug.tensor(-8.5), cuplug.tensor(-1.75)).item() == 1.0


def test_integers_stay_integers_within_limits() -> None:
    assert F.relu6(cuplug.tensor([-3, 2, 9])).tolist() == [0, 2, 6]
    assert F.relu6(cuplug.tensor([9])).dtype is cuplug.int64


def test_a_circle_is_of_what_is_left_of_the_row() -> None:
    row = cuplug.arange(5.0).view(1, 1, 5)
    assert F.pad(row, (2, -1), "circular").flatten().tolist() == [2, 3, 0, 1, 2, 3]
    assert F.pad(row, (-1, 2), "circular").flatten().tolist() == [1, 2, 3, 4, 1, 2]


def test_windows_of_no_images_are_none() -> None:
    assert F.unfold(cuplug.ones(0, 1, 5, 5), 2, 2, 1, 2).shape == (0, 4, 9)


@pytest.mark.parametrize(
    ("shape", "match"),
    [
        (
            (2, 3, 0, 4),
            r"Input and output sizes should be greater than 0, but got input \(H: 0, W: 4\) output \(H: 0, W: 8\)",
        ),
        ((2, 3, 0), r"Input and output sizes should be greater than 0, but got input \(W: 0\) and output \(W: 0\)"),
        ((2, 0, 4, 4), r"Non-empty 4D data tensor expected but got a tensor with sizes \[2, 0, 4, 4\]"),
    ],
)
def test_only_a_batch_may_be_empty(shape: tuple[int, ...], match: str) -> None:
    with pytest.raises(RuntimeError, match=match):
        F.interpolate(cuplug.ones(*shape), scale_factor=2)
    assert F.interpolate(cuplug.ones(0, 3, 4, 4), scale_factor=2, mode="bilinear").shape == (0, 3, 8, 8)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((1, 0, 4), (2,)), ((1, 2, 4), (0,)), ((1, 0, 4, 4), (2, 2)), ((0, 0, 4, 4), (2, 2)), ((0, 3, 4, 4), (0, 2)),
        ((0, 3, 4, 4), (3, 2)), ((1, 2, 4, 4, 4), (2, 0, 2)), ((0, 2, 4, 4, 4), (2, 2, 2)),
    ],
)  # fmt: skip
def test_means_of_areas_may_be_none(shape: tuple[int, ...], size: tuple[int, ...]) -> None:
    x = cuplug.ones(*shape, requires_grad=True)
    made = F.interpolate(x, size=size, mode="area")
    assert made.shape == (*shape[:2], *size)
    made.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == cuplug.zeros(*shape).tolist()


@pytest.mark.parametrize(
    ("shape", "size", "match"),
    [
        ((1, 2, 0, 4), (2, 2), r"has sizes \[1, 2, 0, 4\] with dimension 2 being empty"),
        ((0, 3, 0), (2,), "with dimension 2 being empty"),
        ((1, 0, 4, 4, 4), (2, 2, 2), r"pool3d\(\): .* with dimension 1 being empty"),
        ((1, 1, 4, 4), (2, -1), r"elements of output_size must be greater than or equal to 0 but received \(2, -1\)"),
        ((2, 3), 2, "no mode 'area' for an input of 2 dimensions"),
    ],
)
def test_areas_that_pytorch_refuses_are_refused(shape: tuple[int, ...], size: Any, match: str) -> None:
    with pytest.raises(RuntimeError, match=match):
        F.interpolate(cuplug.ones(*shape), size=size, mode="area")
