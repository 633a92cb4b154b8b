"""Convolutions and their transposes, of rows, images and volumes: results, roundings, and what is refused."""

from __future__ import annotations

from typing import Any

import cuplug
import numpy as np
import pytest


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("directions", [1, 2, 3])
def test_filters_see_around_images_what_the_mode_says(mode: str, directions: int, device: str) -> None:
    nn = cuplug.nn
    layer = getattr(nn, f"Conv{directions}d")
    x = cuplug.randn(2, 2, *range(5, 5 + directions), device=device)
    for padding, size, around in ((1, 3, (1, 1)), ("same", 4, (1, 2)), ("valid", 2, (0, 0))):
        filters = layer(2, 4, size, padding=padding, padding_mode=mode, groups=2, device=device)
        plain = layer(2, 4, size, groups=2, device=device)
        plain.load_state_dict(filters.state_dict())
        padded = nn.functional.pad(x, around * directions, mode=mode)
        assert cuplug.allclose(filters(x), plain(padded), atol=1e-6)
        assert f"padding_mode={mode}" in repr(filters)


def test_a_transposed_convolution_has_the_size_that_is_asked_for(device: str) -> None:
    layer = cuplug.nn.ConvTranspose2d(2, 3, 3, stride=3, device=device)
    x = cuplug.randn(2, 2, 6, 6, device=device)
    for size in ((18, 20), (2, 3, 19, 18)):
        assert layer(x, output_size=size).shape[-2:] == size[-2:]
    assert layer(x[0], output_size=(20, 18)).shape == (3, 20, 18)
    with pytest.raises(ValueError, match=r"valid sizes range from \[18, 18\] to \[20, 20\]"):
        layer(x, output_size=(21, 18))
    assert cuplug.nn.ConvTranspose1d(1, 1, 2, 2, device=device)(x[:, :1, 0], output_size=[13]).shape == (2, 1, 13)
    volumes = x.unsqueeze(2)
    assert cuplug.nn.ConvTranspose3d(2, 3, 2, 2, device=device)(volumes, (3, 12, 13)).shape == (2, 3, 3, 12, 13)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Conv2d(3, 3, 3, padding_mode='edge')", "padding_mode must be one of"),
        ("ConvTranspose2d(3, 3, 3, padding_mode='reflect')", 'Only "zeros" padding mode is supported'),
        ("Conv1d(1, 1, 3, groups=0)", "groups must be a positive integer"),
        ("Conv1d(3, 4, 3, groups=2)", "in_channels must be divisible by groups"),
        ("Conv1d(1, 1, 3, padding='full')", "Invalid padding string"),
        ("Conv1d(1, 1, 3, 2, padding='same')", "not supported for strided"),
    ],
)
def test_filters_that_cannot_be_are_refused_when_they_are_made(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        eval(f"nn.{text}", {"nn": cuplug.nn})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("conv2d(x, w[0])", "filters of shape"),
        ("conv2d(x[0, 0], w)", r"Expected 3D \(unbatched\) or 4D \(batched\) input to conv2d"),
        ("conv2d(x, w, stride=0)", "non-positive stride is not supported"),
        ("conv2d(x, w, padding=-1)", "negative padding is not supported"),
        ("conv2d(x, w, dilation=0)", "dilation should be greater than zero"),
        ("conv2d(x, w, groups=0)", "non-positive groups is not supported"),
        (
            "conv2d(x, w, groups=2)",
            r"Given groups=2, weight of size \[2, 2, 2, 2\], expected input\[1, 2, 3, 3\] to have 4",
        ),
        ("conv2d(x, w, dilation=3)", r"per channel: \(3 x 3\). Kernel size: \(4 x 4\). Kernel size can't be greater"),
        ("conv3d(x[None], w[None], stride=(1, 2))", "one number for all three directions is expected, or three"),
        ("conv3d(x, w)", "filters of shape"),
        ("conv_transpose2d(x, w, stride=0)", "non-positive stride is not supported"),
        ("conv_transpose2d(x, w, padding=-1)", "negative padding is not supported"),
        ("conv_transpose2d(x, w, dilation=0)", "dilation should be greater than zero"),
        ("conv_transpose2d(x, w, output_padding=-1)", "negative output_padding is not supported"),
        ("conv_transpose2d(x, w, output_padding=1)", "output padding must be smaller than either stride or dilation"),
        (
            "conv_transpose2d(x, w, padding=4)",
            r"Calculated output size per channel: \(-4 x -4\). Output size is too small",
        ),
        (
            "conv_transpose2d(x[:, :1], w)",
            "Given transposed=1, weight of size .* to have 2 channels, but got 1 channels",
        ),
        ("conv_transpose1d(x[:, :, 0], w[0], padding=4)", r"Calculated output size per channel: \(1 x -4\)"),
        ("conv_transpose3d(x, w)", "filters of shape"),
        ("conv_transpose3d(x[0], w)", r"Expected 4D \(unbatched\) or 5D \(batched\) input to conv_transpose3d"),
    ],
)
def test_convolutions_of_what_does_not_fit_are_refused_in_torchs_words(text: str, said: str) -> None:
    given = {"x": cuplug.ones(1, 2, 3, 3), "w": cuplug.ones(2, 2, 2, 2), "F": cuplug.nn.functional}
    for kind in (ValueError, RuntimeError):
        with pytest.raises(kind, match=said):
            eval(f"F.{text}", given)


@pytest.mark.parametrize(
    "text",
    [
        "conv1d(x[:, :, 0], w[:, :, 0], b)",
        "conv2d(x, w, b, padding='same')",
        "conv3d(x[None], w[None], b[:1], padding=1)",
        "conv_transpose1d(x[:, :, 0], w[:, :, 0], b)",
        "conv_transpose2d(x, w, b, stride=2, padding=1)",
        "conv_transpose3d(x[:, None], w[:1, :1, None], b[:1])",
        "linear(x, w[:, 0, 0], b)",
        "group_norm(x, 1, b, b)",
        "batch_norm(x, b.detach(), b.detach().abs(), b, b)",
        "interpolate(x, (3, 4), mode='area')",
    ],
)
@pytest.mark.parametrize("kind", [cuplug.float16, cuplug.bfloat16])
def test_halves_are_rounded_once_on_the_cpu(text: str, kind: Any) -> None:
    cuplug.manual_seed(3)
    given = [cuplug.randn(*shape).to(kind).requires_grad_() for shape in ((2, 2, 5, 5), (2, 2, 4, 5), (2,))]
    made = []
    for operands in (given, [each.detach().float() for each in given]):
        made.append(eval(f"F.{text}", dict(zip("xwb", operands, strict=True)) | {"F": cuplug.nn.functional}))
    assert made[0].dtype is kind
    assert made[0].equal(made[1].to(kind))
    made[0].sum().backward()
    for each in given:
        assert each.grad is None or each.grad.dtype is kind
    assert given[0].grad is not None


@pytest.mark.parametrize("name", ["conv2d", "conv_transpose2d", "conv3d", "conv_transpose3d"])
def test_a_bias_is_one_number_of_the_right_type_for_each_result(name: str) -> None:
    directions = int(name[-2])
    x, w = cuplug.ones(1, 1, *[3] * directions), cuplug.ones(1, 1, *[2] * directions)
    function = getattr(cuplug.nn.functional, name)
    for wrong in ((2,), (1, 1), ()):
        said = "expected bias to be 1-dimensional with 1 elements, but got bias of size"
        with pytest.raises(RuntimeError, match=said):
            function(x, w, cuplug.ones(*wrong) if wrong else cuplug.tensor(1.0))
    with pytest.raises(TypeError, match=r"Input type .* and bias type .* should be the same"):
        function(x, w, cuplug.ones(1, dtype=cuplug.float64))


VOLUME_SETTINGS: list[dict[str, Any]] = [
    {},
    {"stride": 2, "padding": 1, "output_padding": 1},
    {"stride": (1, 2, 3), "padding": (1, 0, 0), "output_padding": (0, 1, 2), "dilation": (2, 1, 1), "groups": 2},
]


@pytest.mark.parametrize("settings", VOLUME_SETTINGS, ids=str)
def test_volumes_are_spread_as_gradients_of_correlations_are(settings: dict[str, Any], device: str) -> None:
    F = cuplug.nn.functional
    groups = settings.get("groups", 1)
    given = cuplug.randn(2, 4, 3, 2, 3, dtype=cuplug.float64, device=device, requires_grad=True)
    filters = cuplug.randn(4, 6 // groups, 3, 2, 2, dtype=cuplug.float64, device=device, requires_grad=True)
    made = F.conv_transpose3d(given, filters, None, **settings)
    source = cuplug.randn(*made.shape, dtype=cuplug.float64, device=device, requires_grad=True)
    around = {name: each for name, each in settings.items() if name != "output_padding"}
    seen = F.conv3d(source, filters, None, **around)
    wanted, to_filters = cuplug.autograd.grad(seen, (source, filters), given.detach(), retain_graph=True)
    np.testing.assert_allclose(made.detach().cpu().numpy(), wanted.cpu().numpy(), atol=1e-9)
    # Its own gradient with respect to what is given is the correlation itself, and both have one for the filters.
    for found, each in zip(cuplug.autograd.grad(made, (given, filters), source), (seen, to_filters), strict=True):
        np.testing.assert_allclose(found.cpu().numpy(), each.detach().cpu().numpy(), atol=1e-9)
    alone = F.conv_transpose3d(given[0], filters, None, **settings)
    np.testing.assert_allclose(alone.detach().cpu().numpy(), made[0].detach().cpu().numpy(), atol=1e-9)


def test_a_volume_is_spread_as_by_torch(device: str) -> None:
    given = cuplug.arange(8.0, device=device).view(1, 1, 2, 2, 2)
    filters = cuplug.arange(1.0, 9.0, device=device).view(1, 1, 2, 2, 2)
    made = cuplug.nn.functional.conv_transpose3d(given, filters, cuplug.tensor([0.5], device=device))
    values = [0.5, 1.5, 2.5, 2.5, 10.5, 10.5, 6.5, 17.5, 12.5, 4.5, 18.5, 16.5, 28.5, 84.5, 60.5, 32.5, 82.5, 52.5,
              20.5, 49.5, 30.5, 58.5, 138.5, 82.5, 42.5, 97.5, 56.5]  # fmt: skip
    assert made.flatten().tolist() == values


@pytest.mark.parametrize("layer", ["Conv2d", "ConvTranspose2d"])
@pytest.mark.parametrize("groups", [1, 4])
def test_no_images_make_no_images(layer: str, groups: int, device: str) -> None:
    made = getattr(cuplug.nn, layer)(4, 4, 3, stride=2, padding=1, groups=groups, device=device)
    x = cuplug.zeros(0, 4, 4, 4, device=device, requires_grad=True)
    made(x).sum().backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape
    assert made.weight.grad.abs().sum() == 0


def test_filters_are_not_spread_over_images_without_elements() -> None:
    spread, filters = cuplug.nn.functional.conv_transpose2d, cuplug.ones(3, 5, 2, 2)
    with pytest.raises(RuntimeError, match=r"Only zero batch or zero channel inputs .* shape: \[2, 3, 0, 4\]"):
        spread(cuplug.ones(2, 3, 0, 4), filters)
    assert spread(cuplug.ones(0, 3, 4, 4), filters).shape == (0, 5, 5, 5)


def test_a_layer_of_a_program_convolves_with_other_weights() -> None:
    class Doubled(cuplug.nn.Conv2d):
        def forward(self, x: Any) -> Any:
            return self._conv_forward(x, self.weight * 2, self.bias)

    layer = Doubled(2, 3, 3, padding=1, padding_mode="circular", bias=False)
    x = cuplug.randn(1, 2, 5, 5)
    assert cuplug.allclose(layer(x), cuplug.nn.Conv2d.forward(layer, x) * 2)
