"""Layers and networks are printed as PyTorch prints them."""

from __future__ import annotations

import cuplug
import pytest


def test_layers_are_printed_as_torch_prints_them() -> None:
    nn = cuplug.nn
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1, bias=False),
        nn.Conv1d(4, 2, 3, 2, groups=2),
        nn.ReLU(),
        nn.LeakyReLU(0.2, True),
        nn.MaxPool2d(2),
        nn.AvgPool2d(3, 1),
        nn.Upsample(size=4, mode="bilinear"),
    )
    assert [repr(each) for each in net] == [
        "Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)",
        "Conv1d(4, 2, kernel_size=(3,), stride=(2,), groups=2)",
        "ReLU()",
        "LeakyReLU(negative_slope=0.2, inplace=True)",
        "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)",
        "AvgPool2d(kernel_size=3, stride=1, padding=0)",
        "Upsample(size=4, mode='bilinear')",
    ]


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (
            "ConvTranspose2d(2, 3, 4, 2, output_padding=1)",
            "(2, 3, kernel_size=(4, 4), stride=(2, 2), output_padding=(1, 1))",
        ),
        ("AvgPool1d(2)", "(kernel_size=(2,), stride=(2,), padding=(0,))"),
        ("AdaptiveAvgPool2d((1, 1))", "(output_size=(1, 1))"),
        ("AdaptiveMaxPool1d(2)", "(output_size=2)"),
        ("BatchNorm2d(3)", "(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)"),
        ("InstanceNorm1d(3)", "(3, eps=1e-05, momentum=0.1, affine=False, bias=False, track_running_stats=False)"),
        ("LayerNorm(3, bias=False)", "((3,), eps=1e-05, elementwise_affine=True, bias=False)"),
        ("GroupNorm(1, 3)", "(1, 3, eps=1e-05, affine=True, bias=True)"),
        ("RMSNorm(3)", "((3,), eps=None, elementwise_affine=True)"),
        ("ZeroPad1d(1)", "((1, 1))"),
        ("Flatten()", "(start_dim=1, end_dim=-1)"),
        ("Unflatten(1, (2, 3))", "(dim=1, unflattened_size=(2, 3))"),
        ("Unfold(2)", "(kernel_size=2, dilation=1, padding=0, stride=1)"),
        ("Fold(4, 2)", "(output_size=4, kernel_size=2, dilation=1, padding=0, stride=1)"),
        ("UpsamplingNearest2d(scale_factor=2)", "(scale_factor=2.0, mode='nearest')"),
        ("UpsamplingBilinear2d((4, 4))", "(size=(4, 4), mode='bilinear')"),
        ("AlphaDropout()", "(p=0.5, inplace=False)"),
        (
            "ConvTranspose3d(1, 2, 3, 2, 1, 1)",
            "(1, 2, kernel_size=(3, 3, 3), stride=(2, 2, 2), padding=(1, 1, 1), output_padding=(1, 1, 1))",
        ),
        ("Bilinear(2, 3, 4)", "(in1_features=2, in2_features=3, out_features=4, bias=True)"),
        ("Upsample(scale_factor=2)", "(scale_factor=2.0, mode='nearest')"),
        ("GELU()", "(approximate='none')"),
        ("Softshrink()", "(0.5)"),
        ("Hardshrink(1.0)", "(1.0)"),
        ("CrossEntropyLoss(label_smoothing=0.1)", "()"),
        ("PairwiseDistance()", "()"),
        ("ReLU6()", "()"),
        ("RNNCell(2, 3, nonlinearity='relu')", "(2, 3, nonlinearity=relu)"),
        ("LSTM(2, 4, 2, proj_size=3)", "(2, 4, proj_size=3, num_layers=2)"),
        (
            "MultiheadAttention(4, 2)",
            "(\n  (out_proj): NonDynamicallyQuantizableLinear(in_features=4, out_features=4, bias=True)\n)",
        ),
    ],
)
def test_settings_are_printed_as_torch_prints_them(layer: str, text: str) -> None:
    assert repr(eval(f"nn.{layer}", {"nn": cuplug.nn})) == layer.partition("(")[0] + text


@pytest.mark.parametrize(
    ("layer", "attributes"),
    [
        ("Conv1d(4, 6, 3)", {"stride": (1,), "padding": (0,), "dilation": (1,), "output_padding": (0,)}),
        ("Conv2d(4, 6, 3, 2, [1, 0])", {"stride": (2, 2), "padding": (1, 0), "dilation": (1, 1)}),
        ("Conv2d(4, 6, 3, padding='same')", {"stride": (1, 1), "padding": "same"}),
        ("Conv3d(4, 6, (1, 2, 3))", {"kernel_size": (1, 2, 3), "stride": (1, 1, 1), "output_padding": (0, 0, 0)}),
        ("ConvTranspose2d(4, 6, 3, 2, output_padding=1)", {"stride": (2, 2), "output_padding": (1, 1)}),
        ("MaxPool2d(2)", {"kernel_size": 2, "stride": 2, "padding": 0}),
        ("MaxPool3d((2, 1, 2))", {"stride": (2, 1, 2)}),
        ("AvgPool1d(3)", {"kernel_size": (3,), "stride": (3,), "padding": (0,)}),
        ("AvgPool2d(3, 1)", {"kernel_size": 3, "stride": 1}),
        ("ReLU6()", {"min_val": 0.0, "max_val": 6.0}),
        ("PReLU(2, 0.5)", {"num_parameters": 2, "init": 0.5}),
        ("MultiheadAttention(6, 2)", {"embed_dim": 6, "num_heads": 2, "head_dim": 3}),
    ],
)
def test_layers_have_the_attributes_that_torch_gives_them(layer: str, attributes: dict[str, object]) -> None:
    made = eval(f"nn.{layer}", {"nn": cuplug.nn})
    assert {name: getattr(made, name) for name in attributes} == attributes


@pytest.mark.parametrize(
    ("family", "base"),
    [
        ("Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout", "dropout._DropoutNd"),
        ("MaxPool1d MaxPool2d MaxPool3d", "pooling._MaxPoolNd"),
        ("AvgPool1d AvgPool2d AvgPool3d", "pooling._AvgPoolNd"),
        ("AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d", "pooling._AdaptiveAvgPoolNd"),
        ("AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d", "pooling._AdaptiveMaxPoolNd"),
        ("ConvTranspose1d ConvTranspose2d ConvTranspose3d", "conv._ConvTransposeNd"),
        ("Conv1d Conv2d Conv3d ConvTranspose1d", "conv._ConvNd"),
    ],
)
def test_layers_of_a_family_are_no_kinds_of_each_other(family: str, base: str) -> None:
    kinds = [getattr(cuplug.nn, name) for name in family.split()]
    assert [(a, b) for a in kinds for b in kinds if a is not b and issubclass(a, b)] == []
    common = eval(f"modules.{base}", {"modules": cuplug.nn.modules})
    assert all(issubclass(each, common) for each in kinds)
    assert not issubclass(cuplug.nn.AdaptiveMaxPool2d, cuplug.nn.modules.pooling._AdaptiveAvgPoolNd)
    assert issubclass(cuplug.nn.ZeroPad2d, cuplug.nn.ConstantPad2d)  # as PyTorch's


def test_modules_of_one_text_that_follow_each_other_are_printed_once() -> None:
    nn = cuplug.nn
    blocks = nn.ModuleList(nn.Sequential(nn.Tanh()) for _ in range(3))
    blocks.append(nn.ReLU())
    assert repr(nn.ModuleDict({"blocks": blocks, "none": nn.ModuleList()})) == (
        "ModuleDict(\n"
        "  (blocks): ModuleList(\n"
        "    (0-2): 3 x Sequential(\n"
        "      (0): Tanh()\n"
        "    )\n"
        "    (3): ReLU()\n"
        "  )\n"
        "  (none): ModuleList()\n"
        ")"
    )


def test_convolutions_of_earlier_files_are_printed_too() -> None:
    layer = cuplug.nn.Conv2d(4, 6, 3, groups=2)
    layer.__dict__.update(stride=1, padding=2, dilation=1)
    del layer.output_padding
    assert repr(layer) == "Conv2d(4, 6, kernel_size=(3, 3), stride=(1, 1), padding=(2, 2), groups=2)"
