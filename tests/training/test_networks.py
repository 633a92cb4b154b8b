"""Layers and losses beside PyTorch's: what they make, and the gradients of inputs and parameters."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections import OrderedDict
from typing import Any

import cuplug
import numpy as np
import pytest

from .torch_layers import layer_of, made_of, tensor_of

IMAGE, VOLUME = (2, 4, 7, 6), (2, 4, 5, 6, 4)


LAYERS: dict[str, tuple[int, ...]] = {
    "Linear(5, 3)": (2, 4, 5),
    "Linear(5, 3, bias=False)": (5,),
    "Conv1d(4, 6, 3, stride=2, padding=1)": (2, 4, 9),
    "Conv2d(4, 6, 3)": IMAGE,
    "Conv2d(4, 6, (3, 2), stride=[2, 1], padding=(1, 0), dilation=(1, 2), groups=2, bias=False)": IMAGE,
    "Conv2d(4, 4, 3, padding='same', groups=4)": IMAGE,
    "Conv2d(4, 4, (2, 3), padding='same', dilation=3)": IMAGE,
    "Conv2d(4, 8, 1, stride=2)": IMAGE,
    "ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1)": IMAGE,
    "ConvTranspose2d(4, 6, 2, groups=2, dilation=2)": IMAGE,
    "BatchNorm1d(5)": (6, 5),
    "BatchNorm2d(4)": IMAGE,
    "BatchNorm2d(4, affine=False, momentum=None)": IMAGE,
    "BatchNorm2d(4).eval()": IMAGE,
    "LayerNorm(6)": IMAGE,
    "LayerNorm((7, 6), bias=False)": IMAGE,
    "GroupNorm(2, 4)": IMAGE,
    "RMSNorm(6)": IMAGE,
    "ReLU()": IMAGE,
    "ReLU6()": IMAGE,
    "LeakyReLU(0.2)": IMAGE,
    "ELU()": IMAGE,
    "GELU()": IMAGE,
    "GELU('tanh')": IMAGE,
    "SiLU()": IMAGE,
    "Mish()": IMAGE,
    "Sigmoid()": IMAGE,
    "LogSigmoid()": IMAGE,
    "Tanh()": IMAGE,
    "Softplus()": IMAGE,
    "Hardtanh()": IMAGE,
    "Softmax(dim=1)": IMAGE,
    "LogSoftmax(dim=-1)": IMAGE,
    "MaxPool2d(2)": IMAGE,
    "MaxPool2d(3, stride=2, padding=1)": IMAGE,
    "MaxPool2d(2, ceil_mode=True)": IMAGE,
    "MaxPool1d(2)": (2, 4, 9),
    "AvgPool2d(2)": IMAGE,
    "AvgPool2d(3, stride=2, padding=1)": IMAGE,
    "AvgPool2d(3, stride=2, padding=1, count_include_pad=False)": IMAGE,
    "AvgPool2d(2, ceil_mode=True)": IMAGE,
    "AvgPool1d(3, stride=2)": (2, 4, 9),
    "AdaptiveAvgPool2d(1)": IMAGE,
    "AdaptiveAvgPool2d((3, 2))": IMAGE,
    "Upsample(scale_factor=2)": IMAGE,
    "Upsample(size=(9, 5), mode='bilinear')": IMAGE,
    "Upsample(scale_factor=2, mode='bilinear', align_corners=True)": IMAGE,
    "Upsample(scale_factor=1.7, mode='bicubic')": IMAGE,
    "Upsample(size=(5, 3), mode='area')": IMAGE,
    "Upsample(scale_factor=1.5, mode='nearest-exact')": IMAGE,
    "Upsample(scale_factor=2, mode='trilinear')": VOLUME,
    "Unfold(3, padding=1, stride=2)": IMAGE,
    "Fold((4, 5), (2, 3))": (2, 12, 9),
    "Fold(4, 2, dilation=2, padding=1, stride=2)": (12, 4),
    "UpsamplingNearest2d(scale_factor=2)": IMAGE,
    "UpsamplingBilinear2d((9, 5))": IMAGE,
    "Flatten()": IMAGE,
    "TransformerEncoderLayer(8, 2, 16, 0.0)": (5, 2, 8),
    "TransformerEncoderLayer(8, 2, 16, 0.0, 'gelu', batch_first=True, norm_first=True)": (2, 5, 8),
    "Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2))": (3, 5),
    "TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0), 2, nn.LayerNorm(8))": (5, 2, 8),
    "BatchNorm3d(4)": VOLUME,
    "InstanceNorm1d(4)": (2, 4, 9),
    "InstanceNorm2d(4, affine=True, track_running_stats=True)": IMAGE,
    "InstanceNorm2d(4, track_running_stats=True).eval()": IMAGE,
    "InstanceNorm3d(4)": VOLUME,
    "LocalResponseNorm(3, 0.5)": IMAGE,
    "LocalResponseNorm(2)": VOLUME,
    "Conv3d(4, 6, 2)": VOLUME,
    "Conv3d(4, 6, (3, 2, 1), stride=(1, 2, 1), padding=(1, 1, 0), dilation=(1, 1, 2), groups=2)": VOLUME,
    "Conv3d(4, 4, 3, padding='same', bias=False)": VOLUME,
    "ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1)": (2, 4, 9),
    "ConvTranspose3d(4, 6, 3, stride=2, padding=1, output_padding=1)": VOLUME,
    "ConvTranspose3d(4, 6, (3, 2, 1), (1, 2, 3), (1, 0, 0), (0, 1, 2), 2, False, (2, 1, 1))": VOLUME,
    "MaxPool3d(2)": VOLUME,
    "MaxPool3d((2, 3, 1), stride=(1, 2, 1), padding=(1, 1, 0), ceil_mode=True)": VOLUME,
    "AvgPool3d(2, stride=1)": VOLUME,
    "AvgPool3d(3, stride=2, padding=1, count_include_pad=False)": VOLUME,
    "AdaptiveMaxPool2d((3, 2))": IMAGE,
    "AdaptiveMaxPool1d(3)": (2, 4, 9),
    "AdaptiveAvgPool3d((3, 2, 1))": VOLUME,
    "AdaptiveMaxPool3d((2, 3, 4))": VOLUME,
    "PixelShuffle(2)": IMAGE,
    "PixelUnshuffle(2)": (2, 4, 6, 8),
    "ChannelShuffle(2)": IMAGE,
    "ZeroPad2d((1, 2, 0, 1))": IMAGE,
    "ConstantPad1d(2, 0.5)": (2, 4, 9),
    "ReflectionPad2d(2)": IMAGE,
    "ReplicationPad3d(1)": VOLUME,
    "CircularPad2d((1, 2, 1, 0))": IMAGE,
    "PReLU()": IMAGE,
    "PReLU(4)": IMAGE,
    "CELU(0.5)": IMAGE,
    "GLU(1)": IMAGE,
    "SELU()": IMAGE,
    "Hardshrink(0.4)": IMAGE,
    "Softshrink(0.4)": IMAGE,
    "Hardsigmoid()": IMAGE,
    "Hardswish()": IMAGE,
    "Softmin(dim=1)": IMAGE,
    "Softmax2d()": IMAGE,
    "Softsign()": IMAGE,
    "Tanhshrink()": IMAGE,
    "Threshold(0.1, 20)": IMAGE,
    "utils.weight_norm(nn.Conv2d(4, 6, 3))": IMAGE,
    "utils.weight_norm(nn.Linear(6, 3), dim=None)": IMAGE,
}


FUNCTIONS = (
    "F.cross_entropy(a, c)",
    "F.cross_entropy(a, c, weight=w, label_smoothing=0.1, ignore_index=2)",
    "F.cross_entropy(a, c, reduction='none', ignore_index=0)",
    "F.cross_entropy(a, c, reduction='sum', label_smoothing=0.3)",
    "F.cross_entropy(a, b.softmax(1), label_smoothing=0.1, weight=w)",
    "F.cross_entropy(a.view(1, 4, 3), c[:3].view(1, 3))",
    "F.nll_loss(a.log_softmax(1), c, weight=w)",
    "F.mse_loss(a, b)",
    "F.l1_loss(a, b, reduction='sum')",
    "F.smooth_l1_loss(a, b, beta=0.5)",
    "F.huber_loss(a, b, delta=0.7)",
    "F.binary_cross_entropy(a.sigmoid(), b.sigmoid())",
    "F.binary_cross_entropy_with_logits(a, b.sigmoid(), pos_weight=w[:3])",
    "F.kl_div(a.log_softmax(1), b.softmax(1), reduction='batchmean')",
    "F.kl_div(a.log_softmax(1), b.log_softmax(1), reduction='sum', log_target=True)",
    "F.scaled_dot_product_attention(a.view(1, 4, 3), b.view(1, 4, 3), b.view(1, 4, 3), is_causal=True)",
    "F.scaled_dot_product_attention(a.view(1, 4, 3), b.view(1, 4, 3), a.view(1, 4, 3), attn_mask=b @ b.t())",
    "F.pad(a, (1, 2, -1, 1), value=0.5)",
    "F.pad(a.view(1, 4, 3), (1, 2), mode='reflect')",
    "F.pad(a.view(1, 4, 3), (1, 2), mode='replicate')",
    "F.pad(a.view(1, 4, 3), (1, 2), mode='circular')",
    "F.embedding(c, a, padding_idx=1)",
    "F.fold(a.view(1, 4, 3), (2, 4), 2)",
    "F.normalize(a)",
    "F.cosine_similarity(a, b)",
    "F.pairwise_distance(a, b, p=1, keepdim=True)",
    "F.margin_ranking_loss(a, b, (a - b * b).sign().detach(), margin=0.3)",
    "F.hinge_embedding_loss(a, b.sign())",
    "F.cosine_embedding_loss(a, b, (c.double() - 1.5).sign(), margin=0.1, reduction='none')",
    "F.soft_margin_loss(a, b.sign().detach())",
    "F.multi_margin_loss(a, c, p=2, weight=w[:3])",
    "F.multi_margin_loss(a[0], c[0], margin=0.5)",
    "F.multi_margin_loss(a[0], c[:1], margin=0.5, reduction='none')",
    "F.triplet_margin_loss(a, b, a.flip(0), swap=True, margin=0.7)",
    "F.gaussian_nll_loss(a, b, a.exp(), full=True)",
    "F.poisson_nll_loss(a, b.abs() * 3, full=True, reduction='sum')",
    "F.embedding_bag(c.view(2, 2), a)",
    "F.embedding_bag(c, a, c.new_tensor([0, 1, 1]), mode='max')",
    "F.embedding_bag(c, a, c.new_tensor([0, 3]), mode='sum', per_sample_weights=b[:, 0])",
)


@pytest.mark.needs_torch
@pytest.mark.parametrize("text", LAYERS)
def test_layers_and_their_gradients_are_pytorchs(text: str, device: str) -> None:
    import torch

    array = np.random.default_rng(1).standard_normal(LAYERS[text])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = layer_of(torch, text), layer_of(cuplug, text)
        assert list(ours.state_dict()) == list(theirs.state_dict())
        ours.load_state_dict({name: each.numpy() for name, each in theirs.state_dict().items()})
        ours.to(device)
        expected = made_of(theirs, tensor_of(torch, array, "cpu").requires_grad_())
    found = made_of(ours, tensor_of(cuplug, array, device).requires_grad_())
    assert set(found) == set(expected)
    near = 1e-7 if text == "Hardsigmoid()" else 1e-9  # torch divides by 6 in float32
    for name, each in expected.items():
        np.testing.assert_allclose(found[name], each, rtol=near, atol=near, err_msg=name)


@pytest.mark.parametrize("name", ["Embedding", "EmbeddingBag"])
def test_a_table_of_vectors_may_be_one_that_is_there(name: str, running: str) -> None:
    table = cuplug.randn(5, 3)
    layer = getattr(cuplug.nn, name).from_pretrained(table, sparse=True)
    assert (layer.num_embeddings, layer.embedding_dim, layer.weight.requires_grad) == (5, 3, False)
    assert layer.weight.data_ptr() == table.data_ptr()
    made = layer(cuplug.tensor([[4], [1]]))
    np.testing.assert_array_equal(made.detach().reshape(2, 3).numpy(), table[[4, 1]].numpy())
    assert getattr(cuplug.nn, name).from_pretrained(table, freeze=False, padding_idx=2).weight.requires_grad
    assert table[2].any().item()
    with pytest.raises(ValueError, match="Embeddings parameter is expected to be 2-dimensional"):
        getattr(cuplug.nn, name).from_pretrained(table[0])


def test_a_table_of_vectors_takes_what_torchs_takes(running: str) -> None:
    layer = cuplug.nn.Embedding(5, 3, -1, None, 2.0, False, True)
    assert (layer.padding_idx, layer.weight[4].abs().sum().item()) == (4, 0)


@pytest.mark.needs_torch
@pytest.mark.parametrize("norm_first", [False, True])
def test_a_transformer_and_its_gradients_are_pytorchs(norm_first: bool, device: str) -> None:
    import torch

    text = f"Transformer(8, 2, 2, 1, 16, 0.0, 'gelu', batch_first=True, norm_first={norm_first})"
    random = np.random.default_rng(4)
    read, written = random.standard_normal((2, 5, 8)), random.standard_normal((2, 4, 8))

    def made(torch: Any, layer: Any, device: str) -> dict[str, Any]:
        src = tensor_of(torch, read, device).requires_grad_()
        tgt = tensor_of(torch, written, device)
        mask = layer.generate_square_subsequent_mask(4, device=device).double()
        hidden = torch.tensor([[False] * 5, [False] * 3 + [True] * 2], device=device)
        result = layer(src, tgt, tgt_mask=mask, src_key_padding_mask=hidden, memory_key_padding_mask=hidden)
        result.sin().sum().backward()
        found = {"result": result, "src": src.grad, **{name: each.grad for name, each in layer.named_parameters()}}
        return {name: each.detach().cpu().numpy() for name, each in found.items()}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = layer_of(torch, text), layer_of(cuplug, text)
        assert list(ours.state_dict()) == list(theirs.state_dict())
        ours.load_state_dict({name: each.numpy() for name, each in theirs.state_dict().items()})
        expected = made(torch, theirs, "cpu")
    found = made(cuplug, ours.to(device), device)
    for name, each in expected.items():
        np.testing.assert_allclose(found[name], each, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("name", ["TransformerEncoderLayer", "TransformerDecoderLayer"])
def test_a_part_of_a_transformer_may_become_a_function(name: str) -> None:
    layer = getattr(cuplug.nn, name)(8, 2, 16, 0.0, norm_first=True)
    given = [cuplug.randn(3, 2, 8)] * (1 + (name == "TransformerDecoderLayer"))
    for part in [each for each in layer._modules if each.startswith("dropout") and each != "dropout"]:
        delattr(layer, part)
        setattr(layer, part, lambda x: x * 0)
    assert cuplug.equal(layer(*given), given[0])


def test_spectral_norm_comes_to_a_largest_singular_value_of_one(running: str) -> None:
    layer = cuplug.nn.utils.spectral_norm(cuplug.nn.Linear(4, 5))
    assert sorted(layer.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    for _ in range(50):
        layer(cuplug.zeros(1, 4))
    assert np.linalg.norm(layer.weight.detach().numpy(), 2) == pytest.approx(1, abs=1e-3)
    layer(cuplug.ones(2, 4)).sum().backward()
    assert layer.weight_orig.grad is not None
    cuplug.nn.utils.remove_spectral_norm(layer)
    assert sorted(layer.state_dict()) == ["bias", "weight"]


def test_a_gumbel_softmax_that_is_hard_has_one_one_and_gradients(running: str) -> None:
    logits = cuplug.zeros(6, 3, requires_grad=True)
    made = cuplug.nn.functional.gumbel_softmax(logits, hard=True)
    assert sorted(made.detach().round().flatten().tolist()) == [0.0] * 12 + [1.0] * 6
    assert (made.detach().round().sum(1) == 1).all()
    (made * cuplug.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert logits.grad.abs().sum() > 0


def test_older_names_of_reductions_are_taken(running: str) -> None:
    one, other = cuplug.ones(2, 2), cuplug.zeros(2, 2)
    assert float(cuplug.nn.MSELoss(size_average=False)(one, other)) == 4
    assert cuplug.nn.L1Loss(reduce=False)(one, other).shape == (2, 2)
    assert float(cuplug.nn.functional.mse_loss(one, other, size_average=False)) == 4


@pytest.mark.needs_torch
@pytest.mark.parametrize("text", FUNCTIONS)
def test_functions_and_their_gradients_are_pytorchs(text: str, device: str) -> None:
    import torch

    random = np.random.default_rng(2)
    arrays = {"a": random.standard_normal((4, 3)), "b": random.standard_normal((4, 3)), "c": np.array([0, 2, 1, 0])}
    arrays["w"] = np.array([0.5, 1.0, 2.0])
    outcomes = []
    for library, place in ((torch, "cpu"), (cuplug, device)):
        given = {name: tensor_of(library, each, place) for name, each in arrays.items()}
        given["a"].requires_grad_()
        given["b"].requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = eval(text, {"F": library.nn.functional, **given})
        (value.sin() * 2).sum().backward()
        outcomes.append([value, given["a"].grad, given["b"].grad])
    for expected, found in zip(*outcomes, strict=True):
        assert (expected is None) == (found is None)
        if expected is not None:
            np.testing.assert_allclose(found.detach().cpu().numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("text", ["Conv2d(4, 2, 2)", "MaxPool2d(2)", "LayerNorm(6)", "GELU()", "AvgPool2d(2)"])
def test_layers_can_be_differentiated_twice(text: str, running: str) -> None:
    layer = layer_of(cuplug, text)
    x = cuplug.randn(1, 4, 2, 6, dtype=cuplug.float64, requires_grad=True)
    assert cuplug.autograd.gradcheck(layer, x)
    assert cuplug.autograd.gradgradcheck(lambda x: layer(x).sin(), x)


def test_parts_are_found_by_their_paths(running: str) -> None:
    nn = cuplug.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(2, 3)
            self.rest = nn.ModuleList([nn.BatchNorm1d(3), nn.ModuleDict({"last": nn.Linear(3, 1, bias=False)})])
            self.shared = self.first
            self.register_buffer("scale", cuplug.ones(1), persistent=False)

        def forward(self, x: Any) -> Any:
            return self.rest[1]["last"](self.rest[0](self.shared(x)))

    net = Net()
    assert [name for name, _ in net.named_parameters()] == [
        "first.weight",
        "first.bias",
        "rest.0.weight",
        "rest.0.bias",
        "rest.1.last.weight",
    ]
    assert "shared.weight" in net.state_dict()
    assert "scale" not in net.state_dict()
    assert net.get_submodule("rest.1.last") is net.rest[1]["last"]
    with pytest.raises(
        cuplug.CuplugError,
        match=r'(?s)Missing key\(s\) in state_dict: .*"first\.bias".*Unexpected key\(s\) in state_dict: "odd"',
    ):
        net.load_state_dict({"odd": cuplug.ones(1)})
    seen = []
    handle = net.first.register_forward_hook(lambda module, args, result: seen.append(tuple(result.shape)))
    net(cuplug.ones(4, 2))
    handle.remove()
    net(cuplug.ones(4, 2))
    assert seen == [(4, 3)]
    moved = net.to("cuda", cuplug.float64)
    assert moved is net
    assert {str(each.device) for each in net.parameters()} == {"cuda:0"}
    assert net.rest[0].num_batches_tracked.dtype is cuplug.int64
    twin = copy.deepcopy(net)
    with cuplug.no_grad():
        twin.first.weight.fill_(7.0)
    assert not bool((net.first.weight == 7).any())
    again = pickle.loads(pickle.dumps(nn.Linear(2, 2)))
    assert isinstance(again.weight, nn.Parameter)
    assert again.weight.requires_grad


def test_packages_are_importable_by_statement(running: str) -> None:
    import cuplug.autograd
    import cuplug.nn.functional as functional
    from cuplug.nn import Linear
    from cuplug.nn.utils import clip_grad_norm_

    assert cuplug.nn.functional is functional
    assert Linear is cuplug.nn.Linear
    layer = Linear(2, 2)
    layer(cuplug.ones(1, 2) * 100).sum().backward()
    before = clip_grad_norm_(layer.parameters(), 1.0)
    assert float(before) > 1
    norms = cuplug.stack([each.grad.norm() for each in layer.parameters() if each.grad is not None])
    assert float(norms.norm()) == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("huber_loss(x, x, delta=0)", "huber_loss does not support non-positive values for delta"),
        ("smooth_l1_loss(x, x, beta=-1)", "smooth_l1_loss does not support negative values for beta"),
        ("hardtanh(x, 0.5, -0.5)", "min_val cannot be greater than max_val"),
        ("softshrink(x, -0.5)", r"lambda must be greater or equal to 0, but found to be -0\.5"),
        ("multi_margin_loss(x, x[0], reduction='abc')", "not 'abc'"),
        ("group_norm(x[0], 1)", "Expected at least 2 dimensions for input tensor but received 1"),
    ],
)
def test_settings_that_mean_nothing_are_refused_in_torchs_words(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        eval(f"F.{text}", {"x": cuplug.ones(2, 2), "F": cuplug.nn.functional})


def test_no_channels_are_normalised_to_none() -> None:
    none = cuplug.empty(0)
    for training in (True, False):
        assert cuplug.nn.functional.batch_norm(none, none, none, training=training).shape == (0,)


@pytest.mark.parametrize(
    "text",
    [
        "nn.Conv3d(4, 6, 2)(x)",
        "nn.ConvTranspose3d(4, 6, 2)(x)",
        "nn.BatchNorm3d(4).eval()(x.transpose(-1, -2))",
        "nn.LogSigmoid()(x.transpose(0, 1))",
        "nn.MaxPool1d(2)(x[0, 0].transpose(0, 2))",
        "nn.MultiheadAttention(4, 2)(*[x[0, 0]] * 3)[0]",
        "nn.MultiheadAttention(4, 2, batch_first=True)(*[x[0, 0]] * 3)[0]",
        "nn.GRU(4, 3)(x[0, 0])[0]",
        "nn.utils.rnn.pad_sequence([x[0, 0, 0], x[0, 0, 1, :2]])",
        "nn.utils.rnn.pad_sequence([x[0, 0, 0], x[0, 0, 1, :2]], batch_first=True, padding_side='left')",
    ],
)
def test_results_can_be_viewed_as_those_of_torch(text: str, device: str) -> None:
    x = cuplug.ones(2, 4, 3, 5, 4, device=device)
    layer = text.partition("(x")[0].partition("(*")[0].partition("([x")[0]
    made = eval(f"at({layer}){text.removeprefix(layer)}", {"nn": cuplug.nn, "x": x, "at": lambda it: _on(it, device)})
    assert made.is_contiguous()
    assert made.view(-1).shape == (made.numel(),)


def _on(layer: Any, device: str) -> Any:
    return layer.to(device) if isinstance(layer, cuplug.nn.Module) else layer


def test_columns_of_one_image_are_folded_as_those_of_several(device: str) -> None:
    F = cuplug.nn.functional
    columns = cuplug.arange(24.0, device=device).view(12, 2)
    made = F.fold(columns, (2, 3), 2)
    assert made.shape == (3, 2, 3)
    assert made[0].tolist() == [[0, 3, 3], [4, 11, 7]]
    assert made.equal(F.fold(columns[None], (2, 3), 2)[0])
    assert F.unfold(made, 2).equal(F.unfold(made[None], 2)[0])
    for wrong, said in (
        (columns[None, None], r"Expected 2D or 3D \(batch mode\) tensor"),
        (columns[:, :1], "to match the calculated number of sliding blocks 1 \\* 2 = 2, but got"),
        (columns[:7], "to be divisible by the product of kernel_size"),
    ):
        with pytest.raises(ValueError, match=said):
            F.fold(wrong, (2, 3), 2)
    with pytest.raises(ValueError, match=r"Expected 3D or 4D \(batch mode\) tensor"):
        F.unfold(columns, 2)


@pytest.mark.parametrize("name", ["AlphaDropout", "FeatureAlphaDropout"])
@pytest.mark.parametrize("inplace", [False, True])
def test_elements_or_channels_drop_to_the_least_value_of_selu(name: str, inplace: bool, device: str) -> None:
    cuplug.manual_seed(1)
    p, least = 0.3, -1.7580993408473766
    scale = ((least * least * p + 1) * (1 - p)) ** -0.5
    layer = getattr(cuplug.nn, name)(p, inplace)
    source = cuplug.randn(40, 50, 3, 2, dtype=cuplug.float64, device=device)
    given = source.clone()
    made = layer(given)
    assert (made.data_ptr() == given.data_ptr()) is inplace
    kept = ((source + p * -least) * scale - made).abs() < 1e-9
    dropped = (made - scale * (least - p * least)).abs() < 1e-9
    assert (kept != dropped).all()
    if name == "FeatureAlphaDropout":
        assert (kept.flatten(2).sum(2) % 6 == 0).all()
    assert abs(kept.double().mean().item() - (1 - p)) < 0.05
    assert abs(made.mean().item()) < 0.1
    assert abs(made.var().item() - 1) < 0.15
    layer.eval()
    assert layer(source).equal(source)
    assert not getattr(cuplug.nn, name)(1.0)(source).any()


def test_alpha_dropout_has_gradients_and_torchs_bounds(device: str) -> None:
    F = cuplug.nn.functional
    x = cuplug.ones(50, device=device, requires_grad=True)
    F.alpha_dropout(x, 0.5, True).sum().backward()
    assert sorted({round(each, 4) for each in x.grad.tolist()}) == [0.0, 0.8864]
    assert F.alpha_dropout(x) is x
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got 2"):
        F.alpha_dropout(x, 2)
    with pytest.raises(RuntimeError, match="Feature dropout requires at least 2 dimensions in the input"):
        F.feature_alpha_dropout(x, 0.5, True)


def test_an_index_that_names_no_row_is_refused_on_the_cpu_and_a_negative_one_too() -> None:
    functional, table = cuplug.nn.functional, cuplug.randn(10, 2)
    for index in ([-1, 1], [10, 1]):
        with pytest.raises(IndexError, match="index out of range in self"):
            functional.embedding(cuplug.tensor(index), table)
        with pytest.raises(RuntimeError, match="Expected idx >= 0 && idx < num_embeddings"):
            functional.embedding_bag(cuplug.tensor([index]), table, padding_idx=0)
    assert functional.embedding(cuplug.zeros(0, dtype=cuplug.int64), table).shape == (0, 2)


def test_response_normalisation_takes_no_elements_and_the_whole_mean_of_integers() -> None:
    normalised = cuplug.nn.functional.local_response_norm
    assert normalised(cuplug.ones(0, 1, 2), 1).shape == (0, 1, 2)
    # PyTorch's values: the means of the squares, 0.5 and 5, lose their fractions.
    assert normalised(cuplug.tensor([[[1], [3]]]), 2, 1.0, 1.0, 1.0).tolist() == [[[1.0], [0.5]]]


def test_what_shuffles_pixels_or_channels_has_memory_of_its_own() -> None:
    shuffled = cuplug.nn.functional
    images = cuplug.arange(16.0).view(1, 4, 2, 2)
    made = [
        (images, shuffled.pixel_shuffle(images, 1)),
        (images, shuffled.pixel_unshuffle(images, 1)),
        (images, shuffled.channel_shuffle(images, 1)),
        (images, shuffled.channel_shuffle(images, 4)),
        (images[..., :1, :1], shuffled.pixel_shuffle(images[..., :1, :1], 2)),
        (images[:, :1], shuffled.pixel_unshuffle(images[:, :1], 2)),
    ]
    before = images.clone()
    for given, result in made:
        assert result.flatten().tolist() == given.flatten().tolist()
        result.zero_()
    assert images.equal(before)


def test_weights_of_two_dimensions_are_refused_and_one_score_is_one_class() -> None:
    functional = cuplug.nn.functional
    with pytest.raises(RuntimeError, match="to be a scalar or 1D tensor, but got: ndim = 2"):
        functional.prelu(cuplug.ones(2, 8, 3), cuplug.ones(2, 4))
    with pytest.raises(ValueError, match="weight must be one-dimensional"):
        functional.multi_margin_loss(cuplug.ones(2, 4), cuplug.tensor([0, 1]), weight=cuplug.ones(2, 4))
    with pytest.raises(RuntimeError, match=r"inconsistent weight size, expected 4 but got \[3\]"):
        functional.multi_margin_loss(cuplug.ones(2, 4), cuplug.tensor([0, 1]), weight=cuplug.ones(3))
    alone = functional.multi_margin_loss(cuplug.tensor(-3.5), cuplug.tensor(0))
    assert (alone.shape, alone.item()) == ((), 0.0)


def test_normalisations_take_no_elements_and_leave_running_means_alone(device: str) -> None:
    normalised = cuplug.nn.functional
    for shape in ((0, 3, 4), (2, 3, 0), (2, 0, 4)):
        x = cuplug.ones(*shape, device=device, requires_grad=True)
        means, variances = cuplug.zeros(shape[1], device=device), cuplug.ones(shape[1], device=device)
        made = normalised.batch_norm(x, means, variances, variances * 2, means, training=True)
        assert made.shape == normalised.instance_norm(x).shape == shape
        made.sum().backward()
        assert x.grad.shape == shape
        assert (means.tolist(), variances.tolist()) == ([0.0] * shape[1], [1.0] * shape[1])


@pytest.mark.parametrize("weight", [None, [0.5, 2.0, 0.5]])
def test_a_class_that_does_not_count_may_have_an_endless_logarithm(weight: list[float] | None, device: str) -> None:
    endless = -float("inf")
    rows = [[endless, -1.0, -2.0], [-0.5, -1.5, -3.0], [endless, -2.0, -1.0]]
    logs = cuplug.tensor(rows, device=device, requires_grad=True)
    given = None if weight is None else cuplug.tensor(weight, device=device)
    classes = cuplug.tensor([-100, 2, 1], device=device)
    nll = cuplug.nn.functional.nll_loss
    wanted = [0.0, 3.0, 2.0] if weight is None else [0.0, 1.5, 4.0]
    assert nll(logs, classes, given, reduction="none").tolist() == wanted
    made = nll(logs, classes, given)
    assert made.item() == pytest.approx(2.5 if weight is None else 2.2)
    made.backward()
    assert logs.grad[0].tolist() == [0, 0, 0]
    assert logs.grad.sum().item() == pytest.approx(-1)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("Conv2d", (1, 2, 3)), ("ELU", ()), ("Tanh", ()), ("MSELoss", ()), ("BatchNorm1d", (2,)), ("LSTM", (2, 3))],
)
def test_a_wrong_call_of_forward_names_the_layer(name: str, arguments: tuple[Any, ...]) -> None:
    layer = getattr(cuplug.nn, name)
    with pytest.raises(TypeError, match=rf"__init__\(\) got an unexpected keyword argument 'nonsense'|^{name} takes"):
        layer(nonsense=1)
    with pytest.raises(TypeError, match=rf"^{name}\.forward\(\) got an unexpected keyword argument 'nonsense'"):
        layer(*arguments)(nonsense=1)
    assert isinstance(copy.deepcopy(pickle.loads(pickle.dumps(layer(*arguments)))), layer)


@pytest.mark.parametrize(
    "text", ["BatchNorm2d(4, {})", "InstanceNorm2d(4, affine=True, {})", "GroupNorm(2, 4, {})", "LayerNorm(2, {})"]
)
def test_layers_that_standardise_may_have_a_weight_and_no_bias(text: str) -> None:
    plain, scaled = (eval(text.format(f"bias={each}"), vars(cuplug.nn)) for each in (True, False))
    assert scaled.bias is None
    assert "bias" not in scaled.state_dict()
    assert "bias=False" in repr(scaled)
    x = cuplug.randn(2, 4, 2, 2)
    assert cuplug.allclose(scaled(x), plain(x), atol=1e-6)
    if hasattr(scaled, "reset_parameters"):
        scaled.reset_parameters()


def test_a_class_between_a_layer_and_module_has_its_say() -> None:
    class Counted(cuplug.nn.Module):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return super().forward(x)

    class Doubled(Counted, cuplug.nn.BatchNorm2d):
        def forward(self, x: Any) -> Any:
            return 2 * super().forward(x)

    class Behind(cuplug.nn.BatchNorm2d.__base__):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return 3 * super().forward(x)

    class Norm(cuplug.nn.BatchNorm2d, Behind):
        pass

    plain, doubled, norm = cuplug.nn.BatchNorm2d(2), Doubled(2), Norm(2)
    x = cuplug.arange(16.0).reshape(2, 2, 2, 2)
    assert doubled.calls == 0
    assert cuplug.equal(doubled(x), 2 * plain(x))
    assert doubled.calls == 1
    assert cuplug.equal(norm(x), 3 * plain(x))


@pytest.mark.parametrize(
    ("text", "given", "kind"),
    [
        ("Linear(2, 3)", (np.zeros((1, 2), np.float32),), "numpy.ndarray; from_numpy"),
        ("Linear(2, 3)", (None,), "NoneType"),
        ("Conv2d(1, 2, 3)", ([1.0],), "list"),
        ("BatchNorm1d(2)", (np.zeros((2, 2)),), "numpy.ndarray"),
        ("LSTM(2, 3)", (np.zeros((1, 2)),), "numpy.ndarray"),
        ("Embedding(2, 3)", (np.zeros(1, np.int64),), "numpy.ndarray"),
        ("CrossEntropyLoss()", (cuplug.zeros(2, 3), np.zeros(2, np.int64)), "numpy.ndarray"),
    ],
)
def test_a_layer_that_is_given_no_tensor_says_so(text: str, given: tuple[Any, ...], kind: str) -> None:
    layer = eval(text, vars(cuplug.nn))
    with pytest.raises(TypeError, match=rf"\w+\(\): argument .* must be Tensor, not {kind}"):
        layer(*given)


def test_an_attribute_that_is_missing_in_a_module_of_the_program_stays_that() -> None:
    class Own(cuplug.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.missing

    with pytest.raises(AttributeError, match="missing"):
        Own()(np.zeros(2))
    with pytest.raises(AttributeError, match="missing"):
        cuplug.nn.Sequential(Own())(cuplug.zeros(2))


@pytest.mark.parametrize("name", ["running_mean", "running_var", "weight", "bias"])
@pytest.mark.parametrize("training", [True, False])
def test_normalising_by_statistics_of_other_channels_is_refused_on_a_device_too(
    name: str, training: bool, device: str
) -> None:
    names = ("running_mean", "running_var", "weight", "bias")
    given = {each: cuplug.ones(3 if each == name else 4, device=device) for each in names}
    with pytest.raises(RuntimeError, match=f"{name} should contain 4 elements not 3"):
        cuplug.nn.functional.batch_norm(cuplug.rand(2, 4, 5, device=device), **given, training=training)
    if device == "cuda":
        cuplug.cuda.synchronize()


def test_what_is_normalised_has_channels_and_without_elements_nothing_is_looked_at() -> None:
    for shape in ((), (4,)):
        with pytest.raises(RuntimeError, match="a dimension of channels"):
            cuplug.nn.functional.batch_norm(cuplug.ones(shape), None, None, training=True)
    none = cuplug.ones(0, 3)
    assert cuplug.nn.functional.batch_norm(none, cuplug.zeros(1), cuplug.ones(1), training=True).shape == (0, 3)


@pytest.mark.parametrize("shape", [(2,), (1,), (), (1, 3), (4,)])
def test_factors_of_other_classes_are_refused_on_a_device_too(shape: tuple[int, ...], device: str) -> None:
    logs, classes = cuplug.rand(2, 3, device=device), cuplug.tensor([0, 2], device=device)
    weight = cuplug.ones(shape, device=device)
    for loss in (cuplug.nn.functional.cross_entropy, cuplug.nn.functional.nll_loss):
        with pytest.raises(RuntimeError, match="3 classes"):
            loss(logs, classes, weight)
    with pytest.raises(RuntimeError, match="3 classes"):
        cuplug.nn.functional.cross_entropy(logs, logs, weight)
    if device == "cuda":
        cuplug.cuda.synchronize()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("value", [1.5, -0.1, float("nan")])
def test_what_is_no_probability_is_refused_on_the_cpu(value: float, dtype: str) -> None:
    wrong = cuplug.tensor([0.5, value], dtype=getattr(cuplug, dtype))
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        cuplug.nn.functional.binary_cross_entropy(wrong, cuplug.ones_like(wrong))
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        cuplug.bernoulli(wrong)
    assert cuplug.nn.functional.binary_cross_entropy(cuplug.tensor([0.0, 1.0]), cuplug.tensor([0.0, 1.0])).item() == 0
    assert cuplug.bernoulli(cuplug.tensor([0.0, 1.0])).tolist() == [0, 1]


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_how_many_elements_are_added_may_be_any_integers(mode: str, device: str) -> None:
    x = cuplug.arange(6.0, device=device).reshape(2, 3)
    expected = cuplug.nn.functional.pad(x, (1, 2), mode)
    for given in ([np.int64(1), cuplug.tensor(2)], np.array([1, 2]), cuplug.tensor([1, 2])):
        assert cuplug.equal(cuplug.nn.functional.pad(x, given, mode), expected)
    with pytest.raises(TypeError, match="as an integer"):
        cuplug.nn.functional.pad(x, (1.0, 2), mode)


def test_elements_are_added_to_dimensions_that_are_there() -> None:
    pad = cuplug.nn.functional.pad
    for mode in ("constant", "replicate"):
        with pytest.raises(RuntimeError, match="less than or equal to two times the input dimension"):
            pad(cuplug.ones(2), (1, 1, 1, 1), mode=mode)
        with pytest.raises(RuntimeError, match="divisible by 2"):
            pad(cuplug.ones(2, 2), (1, 1, 1), mode=mode)
    assert pad(cuplug.ones(2, 2), (1, 0, 0, 1)).shape == (3, 3)


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (lambda nn: nn.Sequential(3), TypeError, "int is not a Module subclass$"),
        (lambda nn: nn.Sequential(nn.Linear(1, 1), nn.ReLU), TypeError, r"call it, ReLU\(\.\.\.\)"),
        (lambda nn: nn.ModuleList([3]), TypeError, "int is not a Module"),
        (lambda nn: nn.ModuleDict({"a": 3}), TypeError, "int is not a Module"),
        (lambda nn: nn.ModuleDict({"a.b": nn.ReLU()}), KeyError, "module name can.*t contain"),
        (lambda nn: nn.ModuleDict({"forward": nn.ReLU()}), KeyError, "attribute 'forward' already exists"),
        (lambda nn: nn.ModuleDict({"": nn.ReLU()}), KeyError, "module name"),
        (lambda nn: nn.ModuleDict({3: nn.ReLU()}), TypeError, "module name should be a string"),
        (lambda nn: nn.Linear(1, 1).register_parameter("w", "x"), TypeError, "cannot assign 'str' object to parameter"),
        (lambda nn: nn.Linear(1, 1).register_parameter("w", cuplug.ones(1)), TypeError, "parameter 'w'"),
        (lambda nn: nn.Linear(1, 1).register_parameter("a.b", None), KeyError, "parameter name can.*t contain"),
        (lambda nn: nn.Linear(1, 1).register_parameter([], None), TypeError, "name should be a string. Got list"),
        (lambda nn: nn.Linear(1, 1).register_buffer("weight", cuplug.ones(1)), KeyError, "'weight' already exists"),
        (lambda nn: nn.Linear(1, 1).register_buffer("b", [1]), TypeError, "cannot assign 'list' object to buffer"),
    ],
)
def test_what_is_no_part_of_a_module_is_refused_in_torchs_words(wrong: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        wrong(cuplug.nn)


def test_an_attribute_of_the_class_is_in_the_way_of_a_part() -> None:
    class Without(cuplug.nn.Linear):
        bias = None

    class Standing(cuplug.nn.BatchNorm1d):
        running_mean = property(lambda _: 3)

    class Wrapping(cuplug.nn.Module):
        def __getattr__(self, name: str) -> Any:
            return 3 if name == "made" else super().__getattr__(name)

    for make, name in (
        (lambda: Without(1, 1), "bias"),
        (lambda: Standing(1), "running_mean"),
        (lambda: Wrapping().register_buffer("made", None), "made"),
    ):
        with pytest.raises(KeyError, match=f"attribute '{name}' already exists"):
            make()


def test_layers_register_their_parts_by_functions_that_a_class_may_replace() -> None:
    class Watched(cuplug.nn.BatchNorm1d):
        def register_parameter(self, name: str, param: Any) -> None:
            seen.append(name)
            super().register_parameter(name, param)

        def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
            seen.append(name)
            super().register_buffer(name, tensor, persistent)

    seen: list[str] = []
    Watched(2)
    assert seen == ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]


def test_a_function_that_stands_for_forward_keeps_its_name_in_errors() -> None:
    layer = cuplug.nn.Linear(2, 3)

    def other() -> None: ...

    layer.forward = other
    with pytest.raises(TypeError, match=r"other\(\) takes 0 positional arguments but 1 was given$"):
        layer(1)


def _names(container: Any) -> list[str]:
    return [f"{name}:{type(each).__name__}" for name, each in container.named_children()]


def test_containers_are_taken_apart_and_joined_as_torchs() -> None:
    nn = cuplug.nn
    whole = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.GELU())
    assert _names(whole[1:]) == ["1:Tanh", "2:GELU"]  # states are saved by these names
    assert _names(nn.Sequential(OrderedDict(x=nn.ReLU(), y=nn.Tanh()))[::-1]) == ["y:Tanh", "x:ReLU"]
    parts = nn.ModuleList(whole)
    assert _names(parts[1:]) == ["0:Tanh", "1:GELU"]
    assert _names(parts + nn.ModuleList([nn.ELU()])) == ["0:ReLU", "1:Tanh", "2:GELU", "3:ELU"]
    assert _names(whole + nn.Sequential(nn.ELU())) == ["0:ReLU", "1:Tanh", "2:GELU", "3:ELU"]
    assert len(2 * whole[:2]) == len(whole[:2] * 2) == 4
    with pytest.raises(TypeError):
        whole + 3
    assert type(parts.pop(-1)) is nn.GELU
    assert _names(parts) == ["0:ReLU", "1:Tanh"]
    with pytest.raises(IndexError):
        parts.pop(2)
    del whole[:2]
    assert _names(whole) == ["0:GELU"]
    whole += [nn.ELU()]
    assert _names(whole) == ["0:GELU", "1:ELU"]
    named = nn.ModuleDict({"b": nn.ReLU(), "a": nn.Tanh()})
    assert _names(named) == ["b:ReLU", "a:Tanh"]
    assert type(named.pop("a")) is nn.Tanh
    named.clear()
    assert not named


def test_containers_of_the_program_are_joined_and_sliced_whatever_they_are_made_of() -> None:
    nn = cuplug.nn

    class Block(nn.Sequential):
        def __init__(self, width: int) -> None:
            super().__init__(nn.Linear(width, width), nn.ReLU())

    class Fixed(nn.Sequential):
        def __init__(self) -> None:
            super().__init__(nn.Tanh())

    class Listed(nn.ModuleList):
        def __init__(self, modules: Any) -> None:
            super().__init__(modules)

    assert _names(Block(2) + Block(2)) == ["0:Linear", "1:ReLU", "2:Linear", "3:ReLU"]
    assert _names(Fixed() + Fixed()) == ["0:Tanh", "1:Tanh"]
    assert (len(Block(2) * 2), len(Fixed() * 2)) == (4, 2)
    assert type(Fixed() * 1) is type(Fixed() + Fixed()) is nn.Sequential
    listed = Listed([nn.ReLU(), nn.Tanh()])
    assert type(listed[1:]) is Listed
    assert _names(listed[1:]) == ["0:Tanh"]
    assert _names(listed + Listed([nn.ELU()])) == ["0:ReLU", "1:Tanh", "2:ELU"]
    assert _names(listed.pop(slice(0, 1))) == ["0:ReLU"]
    assert _names(listed) == ["0:Tanh"]
    for times in (0, -1):
        with pytest.raises(ValueError, match="Non-positive multiplication factor"):
            Fixed() * times
    with pytest.raises(TypeError, match="int is not a Module"):
        listed[0] = 3


def test_classes_between_a_layer_and_the_module_have_their_say() -> None:
    class Counting(cuplug.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = 3

        def forward(self, x: Any) -> str:
            return "mixed"

    class Own(cuplug.nn.Sigmoid, Counting):
        pass

    class Listed(cuplug.nn.ModuleDict, Counting):
        pass

    assert Own().count == Listed().count == 3
    assert Listed()(1) == "mixed"


def test_a_part_may_have_a_name_that_only_classes_have() -> None:
    assert _names(cuplug.nn.ModuleDict({"mro": cuplug.nn.ReLU()})) == ["mro:ReLU"]


def test_a_buffer_is_part_of_the_state_where_it_was_last_said_to_be() -> None:
    module = cuplug.nn.Module()
    for persistent in (False, True, False):
        module.register_buffer("b", cuplug.ones(1), persistent)
        assert ("b" in module.state_dict()) is persistent
    module.register_buffer("none", None)
    assert module.get_buffer("none") is None
    with pytest.raises(AttributeError, match="is no buffer"):
        module.get_buffer("other")


def test_parameters_in_containers_have_torchs_order_and_text(device: str) -> None:
    one, two = (cuplug.ones(size, device=device) for size in ((2,), (1, 3)))
    where = " (cuda:0)" if device == "cuda" else ""
    listed = cuplug.nn.ParameterList([one]).extend([two])
    lines = [f"(0): Parameter containing: [cuplug.float32 of size 2{where}]"]
    lines += [f"(1): Parameter containing: [cuplug.float32 of size 1x3{where}]"]
    assert repr(listed) == "ParameterList(\n" + "".join(f"    {line}\n" for line in lines) + ")"
    assert repr(listed[:1]) == f"ParameterList(  {lines[0]})"
    listed[-1] = one
    assert [tuple(each.shape) for each in listed] == [(2,), (2,)]
    listed += [two]
    assert len(listed) == 3
    named = cuplug.nn.ParameterDict({"b": one, "a": two})
    assert list(named) == ["a", "b"]  # optimisers number them in this order
    assert list(cuplug.nn.ParameterDict([("b", one), ("a", two)])) == ["b", "a"]
    assert list(cuplug.nn.ParameterDict(OrderedDict(b=one, a=two))) == ["b", "a"]
    kind = "torch.cuda.FloatTensor" if device == "cuda" else "torch.FloatTensor"
    assert f"  (b): Parameter containing: [{kind} of size 2{where}]" in repr(named)
    assert named.setdefault("c", two) is named["c"]
    assert named.setdefault("c", one) is named["c"]
    assert named["c"].shape == (1, 3)
    named.clear()
    assert not named


def test_a_buffer_is_found_by_its_path() -> None:
    net = cuplug.nn.Sequential(cuplug.nn.BatchNorm1d(2))
    assert net.get_buffer("0.running_mean") is net[0].running_mean
    for wrong in ("0.weight", "0.missing", "1.running_mean"):
        with pytest.raises(AttributeError):
            net.get_buffer(wrong)


@pytest.mark.parametrize(
    ("name", "mean", "total"), [("mse_loss", 25 / 7, 25.0), ("l1_loss", 13 / 7, 13.0), ("huber_loss", 9.5 / 3, 9.5)]
)
def test_differences_are_weighted_as_torchs(name: str, mean: float, total: float, device: str) -> None:
    loss = getattr(cuplug.nn.functional, name)
    x, y, weight = (cuplug.tensor(each, device=device) for each in ([0.0, 1, 5], [1.0, 3, 3], [1.0, 3, 3]))
    assert loss(x, y, weight=weight).item() == pytest.approx(mean)
    assert loss(x, y, weight=weight, reduction="sum").item() == pytest.approx(total)
    assert loss(x, y, weight=weight, reduction="none").shape == (3,)
    with pytest.raises(ValueError, match="must have the same size"):
        loss(x, y, weight=weight[:1])


def test_images_become_smaller_without_the_filter_that_is_not_here() -> None:
    image = cuplug.rand(1, 1, 4, 4)
    assert cuplug.nn.functional.interpolate(image, size=2, mode="bilinear", antialias=False).shape == (1, 1, 2, 2)
    with pytest.raises(ValueError, match="antialias=True is not part of cuplug"):
        cuplug.nn.functional.interpolate(image, size=2, mode="bilinear", antialias=True)


def test_a_layer_made_without_what_it_needs_is_named_or_torchs_base_of_it() -> None:
    for make, name in (
        (lambda: cuplug.nn.Conv2d(3, 6), "_ConvNd"),
        (lambda: cuplug.nn.BatchNorm2d(), "_BatchNorm"),
        (lambda: cuplug.nn.Linear(3), "Linear"),
    ):
        with pytest.raises(TypeError, match=rf"^{name}\.__init__\(\) missing 1 required positional argument"):
            make()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("weight", [1.0], "cannot assign 'list' as parameter 'weight' (Parameter or None expected)"),
        ("running_mean", 5, "cannot assign 'int' as buffer 'running_mean' (Tensor or None expected)"),
        ("part", 5, "cannot assign 'int' as module 'part' (Module or None expected)"),
    ],
)
def test_a_part_of_a_module_is_replaced_by_its_kind_alone(name: str, value: Any, said: str) -> None:
    module: Any = cuplug.nn.BatchNorm1d(2)
    module.part = cuplug.nn.ReLU()
    with pytest.raises(TypeError) as raised:
        setattr(module, name, value)
    assert str(raised.value) == said
    setattr(module, name, None)
    assert getattr(module, name) is None
