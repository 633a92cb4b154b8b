"""The graph that gradients are computed by: hooks, versions of tensors, modes, and what is kept until when."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import cuplug
import pytest
from cuplug import nn
from cuplug.runtime.autograd import view_gradients
from cuplug.utils.checkpoint import checkpoint, checkpoint_sequential

# --- hooks


def test_a_hook_of_a_leaf_may_replace_its_gradient_and_be_taken_away(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    seen = []
    handle = x.register_hook(lambda gradient: seen.append(gradient.tolist()) or gradient * 10)
    (x * 3).sum().backward()
    handle.remove()
    (x * 3).sum().backward()
    assert seen == [[3.0, 3.0]]
    assert x.grad.tolist() == [33.0, 33.0]


def test_hooks_of_a_result_run_in_order_before_its_gradient_goes_on(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    y = x * 2
    y.register_hook(lambda gradient: gradient + 1)
    y.register_hook(lambda gradient: gradient * 5)
    y.retain_grad()
    y.sum().backward()
    assert y.grad.tolist() == [10.0, 10.0]
    assert x.grad.tolist() == [20.0, 20.0]


def test_a_hook_after_accumulation_sees_the_gradient_in_place(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    seen = []
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.tolist()))
    (x * 3).sum().backward()
    (x * 3).sum().backward()
    assert seen == [[3.0, 3.0], [6.0, 6.0]]


def test_hooks_of_nodes_see_gradients_of_results_and_of_operands(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    y = x * 4
    seen = []
    y.grad_fn.register_prehook(lambda results: seen.append(("of results", results[0].tolist())))
    y.grad_fn.register_hook(lambda operands, results: seen.append(("of operands", operands[0].tolist())))
    y.sum().backward()
    assert seen == [("of results", [1.0, 1.0]), ("of operands", [4.0, 4.0])]


def test_what_requires_no_gradient_takes_no_hook(device: str) -> None:
    with pytest.raises(cuplug.CuplugError, match="requires no gradients"):
        cuplug.ones(2, device=device).register_hook(print)


def test_hooks_of_modules_change_arguments_and_results(running: str) -> None:
    layer = nn.Linear(2, 2)
    first = layer.register_forward_pre_hook(lambda module, args: (args[0] * 0,))
    second = layer.register_forward_hook(lambda module, args, result: result + 1)
    x = cuplug.ones(1, 2)
    assert cuplug.equal(layer(x), (layer.bias + 1).unsqueeze(0))
    first.remove()
    second.remove()
    assert not cuplug.equal(layer(x), (layer.bias + 1).unsqueeze(0))


# --- versions


def test_each_change_in_place_counts_and_views_share_the_count(device: str) -> None:
    x = cuplug.zeros(4, device=device)
    view = x[:2]
    before = x._version
    assert view._version == before
    x.add_(1)
    view.mul_(2)
    x[0] = 5
    assert x._version == view._version == x.detach()._version == before + 3
    other = x.clone()
    start = other._version
    x.add_(1)
    assert other._version == start


def test_an_operand_that_is_needed_and_was_changed_is_an_error(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    y = x * 2
    made = (y * y).sum()
    y.add_(1)
    with pytest.raises(
        cuplug.CuplugError,
        match=r"modified by an inplace operation: .*by MulBackward0, was changed in place: it is at version 1, and 0",
    ):
        made.backward()


def test_a_result_that_is_needed_and_was_changed_is_an_error(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    y = x.exp()
    y.mul_(2)
    with pytest.raises(cuplug.CuplugError, match=r"by ExpBackward0, was changed in place"):
        y.sum().backward()


def test_a_change_through_a_view_or_without_recording_is_noticed_too(device: str) -> None:
    for change in (lambda y: y[0].zero_(), lambda y: y.detach().add_(1)):
        x = cuplug.ones(2, device=device, requires_grad=True)
        y = x * 2
        made = (y * y).sum()
        change(y)
        with pytest.raises(cuplug.CuplugError, match="changed in place"):
            made.backward()


def test_what_is_not_needed_may_be_changed(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    y = x * 2
    made = (y + 1).sum()
    y.add_(1)
    made.backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_leaf_cannot_be_changed_in_place_while_gradients_are_recorded(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    for target in (x, x[0:1]):
        with pytest.raises(
            cuplug.CuplugError, match="leaf Variable that requires grad is being used in an in-place operation"
        ):
            target.add_(1)
    with cuplug.no_grad():
        x.add_(1)
    assert x.tolist() == [2.0, 2.0]


# --- modes


def test_modes_nest_and_are_left_after_exceptions(running: str) -> None:
    with cuplug.no_grad():
        assert not cuplug.is_grad_enabled()
        with pytest.raises(KeyError), cuplug.enable_grad():
            {True: {}}[cuplug.is_grad_enabled()]["absent"]
        assert not cuplug.is_grad_enabled()
    assert cuplug.is_grad_enabled()


def test_inference_mode_records_nothing_and_can_be_switched_off(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    with cuplug.inference_mode():
        assert cuplug.is_inference_mode_enabled()
        assert not cuplug.is_grad_enabled()
        made = x * 2
        assert not made.requires_grad
        assert made.grad_fn is None
        with cuplug.inference_mode(False):
            assert not cuplug.is_inference_mode_enabled()
            assert (x * 2).requires_grad
    assert not cuplug.is_inference_mode_enabled()
    assert (x * made).requires_grad  # what was made within is an ordinary tensor


def test_inference_mode_decorates_functions_and_generators(running: str) -> None:
    @cuplug.inference_mode()
    def asked() -> Any:
        return cuplug.is_inference_mode_enabled(), cuplug.is_grad_enabled()

    @cuplug.no_grad()
    def steps() -> Any:
        yield cuplug.is_grad_enabled()
        yield cuplug.is_grad_enabled()

    assert asked() == (True, False)
    found = []
    for each in steps():
        found.append((each, cuplug.is_grad_enabled()))
    assert found == [(False, True), (False, True)]


def test_the_mode_is_the_threads_own(running: str) -> None:
    import threading

    seen = []
    with cuplug.inference_mode():
        thread = threading.Thread(target=lambda: seen.append(cuplug.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


# --- what is kept


def test_what_gradients_need_is_freed_as_the_pass_goes(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    y = x.exp()
    kept = weakref.ref(y.grad_fn)
    alive = []
    middle = y * 1
    x.register_hook(lambda gradient: alive.append(kept() is not None and kept().kept is not None))
    made = middle.sum()
    made.backward()
    assert alive == [False]
    with pytest.raises(cuplug.CuplugError, match="second time"):
        made.backward()


def test_a_graph_that_nobody_holds_is_gone(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    gc.disable()
    try:
        made = (x.exp() * x).sum()
        node = weakref.ref(made.grad_fn)
        del made
        assert node() is None  # without the collector: there are no circles
        result = x.exp()  # which its gradient needs
        node = weakref.ref(result.grad_fn)
        del result
        assert node() is None
    finally:
        gc.enable()


def net() -> Any:
    cuplug.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Dropout(0.5), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 1))


@pytest.mark.parametrize("mixed", [False, True])
def test_checkpoint_gives_the_same_gradients_with_the_same_random_numbers(device: str, mixed: bool) -> None:
    plain, saving = net().to(device), net().to(device)
    x = cuplug.randn(5, 8, device=device)
    for one in (plain, saving):
        cuplug.manual_seed(7)
        with cuplug.autocast(device, cuplug.bfloat16, enabled=mixed):
            made = checkpoint(one, x) if one is saving else one(x)  # no argument requires gradients
        made.sum().backward()
    for a, b in zip(plain.parameters(), saving.parameters(), strict=True):
        assert cuplug.equal(a.grad, b.grad)


def test_checkpoint_keeps_less(running: str) -> None:
    held = []
    for saves in (False, True):
        model, x = net().cuda(), cuplug.randn(512, 8).cuda()
        before = cuplug.cuda.memory_allocated()
        made = checkpoint_sequential(model, 2, x) if saves else model(x)
        held.append(cuplug.cuda.memory_allocated() - before)
        made.sum().backward()
        del made, x, model
    assert held[1] < held[0] - 512 * 64 * 4


def test_checkpoint_passes_gradients_to_arguments_and_through_grad(device: str) -> None:
    x = cuplug.rand(3, device=device, requires_grad=True)
    (found,) = cuplug.autograd.grad(checkpoint(lambda a, factor: (a.exp() * factor).sin(), x, factor=2.0).sum(), x)
    (expected,) = cuplug.autograd.grad((x.exp() * 2.0).sin().sum(), x)
    assert cuplug.equal(found, expected)


def test_what_computes_something_else_the_second_time_is_an_error(device: str) -> None:
    x, times = cuplug.rand(3, device=device, requires_grad=True), []

    def changing(a: Any) -> Any:
        times.append(1)
        return a.exp().sin() if len(times) == 1 else a.exp()

    with pytest.raises(cuplug.CuplugError, match=r"kept 2 tensors .* and 1 when it ran again"):
        checkpoint(changing, x).sum().backward()
    assert not cuplug.autograd.grad(x.exp().sum(), x)[0].requires_grad


def test_a_leaf_takes_a_gradient_that_nobody_else_has_and_copies_others(device: str) -> None:
    for keep in (False, True):
        kept: list[Any] = []
        places: list[int] = []

        class Twice(cuplug.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

            @staticmethod
            def backward(ctx: Any, gradient: Any) -> Any:
                made = gradient * 2
                places.append(made.data_ptr())  # noqa: B023 - called in this turn
                if keep:  # noqa: B023
                    kept.append(made)  # noqa: B023
                return made

        x = cuplug.ones(3, device=device, requires_grad=True)
        Twice.apply(x).sum().backward()
        assert (x.grad.data_ptr() == places[0]) is not keep
        assert x.grad.tolist() == [2.0] * 3


def test_gradients_of_pieces_are_joined_and_those_of_views_of_pieces_seen_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def scattered(*_: object) -> None:
        raise AssertionError("a gradient was written into zeros")

    monkeypatch.setattr(view_gradients, "_unshown", scattered)
    x = cuplug.arange(18.0).view(3, 6).requires_grad_()
    first, second, third = x.split([4, 1, 1], 1)
    assert first.grad_fn is second.grad_fn is third.grad_fn
    (first.view(3, 2, 2) * cuplug.tensor([1.0, 2.0])).sum().backward(retain_graph=True)
    assert x.grad.tolist() == [[1.0, 2.0, 1.0, 2.0, 0.0, 0.0]] * 3
    (third * 3).sum().backward()
    assert x.grad.tolist() == [[1.0, 2.0, 1.0, 2.0, 0.0, 3.0]] * 3


def test_a_row_added_to_a_product_is_one_node() -> None:
    row, a, b = (cuplug.ones(*shape, requires_grad=True) for shape in ((2,), (3, 4), (4, 2)))
    node = cuplug.addmm(row, a, b).grad_fn
    assert node.name() == "AddmmBackward0"
    assert {each.variable for each, _ in node.next_functions} == {row, a, b}


def test_a_change_in_place_that_was_done_before_asks_anew_whether_it_is_recorded(device: str) -> None:
    x = cuplug.tensor([-1.0, 2.0], device=device, requires_grad=True)
    for _ in range(2):
        y = x * 3
        y.mul_(x)
        y.sub_(4).relu_()
        (gradient,) = cuplug.autograd.grad(y.sum(), x)
        assert gradient.tolist() == [0.0, 12.0]
        with pytest.raises(cuplug.CuplugError, match="leaf"):
            x.mul_(x)
        with cuplug.no_grad():
            z = y.mul_(x)
        assert z.tolist() == [0.0, 16.0]
        with pytest.raises(cuplug.CuplugError, match="leaf"):
            x.relu_()


def test_a_module_of_convolutions_that_ran_before_asks_anew_for_what_its_tensors_are(device: str) -> None:
    cuplug.manual_seed(3)
    net = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3), nn.ReLU(inplace=True)).to(device)
    x = cuplug.randn(4, 2, 5, 5, device=device)
    found = []
    for kind in (cuplug.float32, cuplug.float64, cuplug.float32):
        net.to(kind).zero_grad()
        given = x.to(kind).transpose(2, 3).requires_grad_()  # not as it lies in memory
        net(given).pow(2).sum().backward()
        found.append([given.grad.to(cuplug.float32), *[each.grad.to(cuplug.float32) for each in net.parameters()]])
        with cuplug.no_grad():
            assert not net(given).requires_grad
        assert given.grad.dtype is kind
    for one, other in zip(found[0], found[1], strict=True):
        assert cuplug.allclose(one, other, rtol=1e-3, atol=1e-3)
    for one, other in zip(found[0], found[2], strict=True):
        assert cuplug.allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("operation", "most"),
    [
        pytest.param(lambda y, b: y + b, 3, id="keeps nothing"),
        pytest.param(lambda y, _: y.exp(), 7, id="keeps its result"),
        pytest.param(lambda y, b: y * b, 8, id="keeps its operands"),
    ],
)
def test_a_recorded_operation_leaves_few_objects_to_the_interpreters_collector(operation: Any, most: int) -> None:
    """Each is looked at by collections until the backward pass, and brings a full one nearer."""
    x, b = cuplug.ones(4, requires_grad=True), cuplug.ones(4, requires_grad=True)

    def chain(count: int) -> Any:
        y = x
        for _ in range(count):
            y = operation(y, b)
        return y

    chain(3)
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        before = len(gc.get_objects())
        kept = chain(100)
        after = len(gc.get_objects())
    finally:
        if enabled:
            gc.enable()
    assert kept.requires_grad
    assert (after - before) / 100 < most + 0.5


def test_a_network_that_holds_its_own_result_is_freed_once_it_is_collected(device: str) -> None:
    def train() -> list[Any]:
        network = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)).to(device)
        network.last = network(cuplug.ones(3, 2, device=device)).sum()
        network.last.register_hook(lambda gradient: network.last * gradient)
        network.last.backward(retain_graph=True)
        return [weakref.ref(each) for each in (network, network.last, network.last.grad_fn)]

    gone = train()
    gc.collect()
    assert [each() for each in gone] == [None, None, None]


def test_a_tensor_prints_what_made_it_as_torchs_do() -> None:
    class Doubled(cuplug.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: cuplug.Tensor) -> cuplug.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, *grad_outputs: Any) -> Any:
            return grad_outputs[0] * 2

    x = cuplug.ones(2, 2, requires_grad=True)
    y = x + 2
    printed = {
        "tensor([[1., 1.],\n        [1., 1.]], requires_grad=True)": x,
        "tensor([[1., 1.],\n        [1., 1.]])": x.detach(),
        "tensor([[3., 3.],\n        [3., 3.]], grad_fn=<AddBackward0>)": y,
        "tensor(27., grad_fn=<MeanBackward0>)": (y * y * 3).mean(),
        "tensor([3., 3.], dtype=cuplug.float64, grad_fn=<MulBackward0>)": x[0].double() * 3,
        "tensor([[2., 2.],\n        [2., 2.]], grad_fn=<MmBackward0>)": x @ x,
        "tensor([2., 2.], grad_fn=<MvBackward0>)": x @ x[0],
        "tensor([[3., 3.],\n        [3., 3.]], grad_fn=<AddmmBackward0>)": cuplug.nn.functional.linear(x, x, x[0]),
        "tensor(0.6931, grad_fn=<NllLossBackward0>)": cuplug.nn.functional.cross_entropy(x, cuplug.tensor([0, 1])),
        "tensor([[2., 2.],\n        [2., 2.]], grad_fn=<DoubledBackward>)": Doubled.apply(x),
        "Parameter containing:\ntensor([0.], requires_grad=True)": cuplug.nn.Parameter(cuplug.zeros(1)),
        "tensor([], size=(0, 2), grad_fn=<NegBackward0>)": -x[:0],
        "tensor([[1., 1.]], grad_fn=<EmbeddingBackward0>)": cuplug.nn.functional.embedding(cuplug.tensor([1]), x),
        "tensor([[[[1.]]]], grad_fn=<MaxPool2DWithIndicesBackward0>)": cuplug.nn.functional.max_pool2d(
            x[None, None], 2
        ),
        "tensor([[[[1., 1.]]]], grad_fn=<Col2ImBackward0>)": cuplug.nn.functional.fold(x[None, :1], (1, 2), 1),
    }
    for text, tensor in printed.items():
        assert repr(tensor) == text


def test_what_was_written_to_through_a_view_prints_as_torchs_does() -> None:
    x = cuplug.ones(2, 2, requires_grad=True)
    through_view, by_index = x * 1, cuplug.zeros(2, 2)
    through_view[0].mul_(2)
    by_index[0] = x[0]
    assert repr(through_view) == "tensor([[2., 2.],\n        [1., 1.]], grad_fn=<CopySlices>)"
    assert repr(by_index) == "tensor([[1., 1.],\n        [0., 0.]], grad_fn=<CopySlices>)"


PRINTED = {
    "CopyBackwards": ("torch.zeros(2, 4, device=x.device).copy_(x)",),
    "CloneBackward0": ("x.clone()",),
    "ToCopyBackward0": ("x.double()",),
    "EmbeddingBagBackward0": (
        "F.embedding_bag(c[None],x)",
        "F.embedding_bag(c,x,c[:1],mode='max')",
    ),
    "MseLossBackward0": (
        "F.mse_loss(x,y)",
        "F.mse_loss(x,y,reduction='none')",
    ),
    "SmoothL1LossBackward0": ("F.smooth_l1_loss(x,y)",),
    "HuberLossBackward0": ("F.huber_loss(x,y)",),
    "MeanBackward0": (
        "F.l1_loss(x,y)",
        "F.kl_div(x,y)",
    ),
    "BinaryCrossEntropyBackward0": ("F.binary_cross_entropy(x.sigmoid(),y)",),
    "BinaryCrossEntropyWithLogitsBackward0": ("F.binary_cross_entropy_with_logits(x,y)",),
    "NllLossBackward0": (
        "F.nll_loss(x,c)",
        "F.cross_entropy(x,c)",
    ),
    "NllLoss2DBackward0": ("F.cross_entropy(i.view(1,2,36),c.repeat(18)[None],weight=y[0,:2])",),
    "MultiMarginLossBackward0": ("F.multi_margin_loss(x,c)",),
    "ConvolutionBackward0": (
        "F.conv2d(i,w,y[0,:2])",
        "F.conv2d(i,w)",
        "F.conv1d(r,w[0:1,:,0])",
        "F.conv_transpose2d(i,w)",
        "F.conv3d(v,w[:,:,None])",
        "F.conv_transpose3d(v,w[:,:,None])",
    ),
    "MaxPool2DWithIndicesBackward0": ("F.max_pool2d(i,2)",),
    "MaxPool3DWithIndicesBackward0": ("F.max_pool3d(v,2)",),
    "AvgPool2DBackward0": ("F.avg_pool2d(i,2)",),
    "AvgPool3DBackward0": ("F.avg_pool3d(v,2)",),
    "AdaptiveAvgPool2DBackward0": ("F.adaptive_avg_pool2d(i,2)",),
    "MeanBackward1": (
        "F.adaptive_avg_pool2d(i,1)",
        "x.mean(0)",
    ),
    "AdaptiveMaxPool2DBackward0": ("F.adaptive_max_pool2d(i,2)",),
    "Im2ColBackward0": ("F.unfold(i,2)",),
    "NativeBatchNormBackward0": (
        "F.batch_norm(i,None,None,training=True)",
        "F.batch_norm(i,y[0,:2],y[0,:2])",
    ),
    "NativeLayerNormBackward0": ("F.layer_norm(x,(4,))",),
    "NativeGroupNormBackward0": ("F.group_norm(i,1)",),
    "UpsampleNearest2DBackward0": ("F.interpolate(i,scale_factor=2)",),
    "UpsampleBilinear2DBackward0": ("F.interpolate(i,scale_factor=2,mode='bilinear')",),
    "UpsampleBicubic2DBackward0": ("F.interpolate(i,scale_factor=2,mode='bicubic')",),
    "UpsampleLinear1DBackward0": ("F.interpolate(r,scale_factor=2,mode='linear')",),
    "UpsampleNearestExact3DBackward0": ("F.interpolate(v,scale_factor=2,mode='nearest-exact')",),
    "ConstantPadNdBackward0": ("F.pad(i,(1,1))",),
    "ReflectionPad2DBackward0": ("F.pad(i,(1,1,1,1),mode='reflect')",),
    "ReplicationPad1DBackward0": ("F.pad(r,(1,1),mode='replicate')",),
    "PixelShuffleBackward0": ("F.pixel_shuffle(i.expand(1,2,6,6).repeat(1,2,1,1),2)",),
    "LeakyReluBackward0": ("F.leaky_relu(x)",),
    "ReluBackward0": ("F.relu(x)",),
    "HardtanhBackward0": (
        "F.relu6(x)",
        "F.hardtanh(x)",
    ),
    "GeluBackward0": ("F.gelu(x,approximate='tanh')",),
    "EluBackward0": ("F.selu(x)",),
    "CeluBackward0": ("F.celu(x)",),
    "GluBackward0": ("F.glu(x)",),
    "PreluKernelBackward0": ("F.prelu(x,y[0,:1])",),
    "SoftplusBackward0": ("F.softplus(x)",),
    "MishBackward0": ("F.mish(x)",),
    "HardswishBackward0": ("F.hardswish(x)",),
    "LogSigmoidBackward0": ("F.logsigmoid(x)",),
    "SoftmaxBackward0": (
        "F.softmax(x,0)",
        "x.softmax(-1)",
    ),
    "LogSoftmaxBackward0": ("F.log_softmax(i,1)",),
    "MmBackward0": ("F.linear(x,y)",),
    "AddmmBackward0": (
        "F.linear(x,y,y[:,0])",
        "torch.addmm(x.t()[:2,:2],x,y.t())",
        "torch.addmm(x.t()[:2,:2],x,y.t(),beta=2)",
    ),
    "UnsafeViewBackward0": (
        "F.linear(i,torch.ones(3, 6, device=x.device))",
        "i @ i",
        "x.t().reshape(-1)",
    ),
    "ViewBackward0": (
        "F.linear(i,torch.ones(3, 6, device=x.device),torch.ones(3, device=x.device))",
        "x.view(-1)",
        "x.view(4,2)",
        "x.reshape(-1)",
        "x.flatten()",
        "x.unflatten(1,(2,2))",
        "x.view_as(y)",
    ),
    "SqueezeBackward4": ("x[0] @ y.t()",),
    "AddcmulBackward0": ("torch.addcmul(x,y,y)",),
    "SumBackward0": ("x.sum()",),
    "SumBackward1": (
        "x.sum(1)",
        "F.cosine_similarity(x,y)",
    ),
    "ProdBackward1": ("x.prod(1)",),
    "ClampBackward1": (
        "x.clamp(min=0)",
        "x.clamp(0,1)",
        "x.clamp(max=1)",
    ),
    "CumsumBackward0": ("x.cumsum(0)",),
    "CumprodBackward0": ("x.cumprod(1)",),
    "FlipBackward0": ("x.flip(0)",),
    "TrilBackward0": ("x.tril()",),
    "TriuBackward0": ("x.triu()",),
    "GatherBackward0": ("x.gather(1,c[:,None])",),
    "IndexSelectBackward0": ("x.index_select(0,c)",),
    "MaskedFillBackward0": ("x.masked_fill(y>1,0.)",),
    "MaskedSelectBackward0": ("x.masked_select(y>0)",),
    "SortBackward0": (
        "x.sort()[0]",
        "x.sort(0)[0]",
    ),
    "TopkBackward0": ("x.topk(2)[0]",),
    "KthvalueBackward0": ("x.kthvalue(2)[0]",),
    "LogsumexpBackward0": ("x.logsumexp(0)",),
    "IndexAddBackward0": ("x.index_add(0,c,y)",),
    "ScatterBackward0": ("x.scatter(1,c[:,None],y)",),
    "ScatterAddBackward0": ("x.scatter_add(1,c[:,None],y)",),
    "Log1PBackward0": ("x.log1p()",),
    "PowBackward0": ("x.square()",),
    "AddBackward0": ("torch.add(x,y,alpha=2)",),
    "SubBackward0": ("torch.sub(x,y,alpha=2)",),
    "RepeatBackward0": ("x.repeat(2,1)",),
    "RollBackward0": ("x.roll(1,0)",),
    "DivBackward2": ("torch.div(x,y,rounding_mode='floor')",),
    "TakeBackward0": ("x.take(c)",),
    "TraceBackward0": ("x.trace()",),
    "SelectBackward0": (
        "x[0]",
        "x[0,1]",
        "x[:,0]",
        "x[...,0]",
        "x[0,...]",
        "x[1:,0]",
        "x.select(1,0)",
    ),
    "SliceBackward0": (
        "x[0,:]",
        "x[1:]",
        "x[:,1:]",
        "x[::2]",
        "x[0,1:]",
        "x.narrow(1,0,2)",
    ),
    "UnsqueezeBackward0": (
        "x[None]",
        "x.unsqueeze(0)",
        "x.unsqueeze(dim=1)",
        "torch.atleast_3d(x)",
    ),
    "AliasBackward0": ("x[...]",),
    "TBackward0": ("x.t()",),
    "PermuteBackward0": (
        "x.T",
        "i.permute(0,2,3,1)",
        "i.movedim(1,2)",
    ),
    "TransposeBackward0": (
        "x.mT",
        "i.transpose(1,2)",
        "i.swapaxes(1,2)",
        "x.adjoint()",
    ),
    "SqueezeBackward0": ("i.squeeze()",),
    "SqueezeBackward1": (
        "i.squeeze(0)",
        "i.squeeze(dim=0)",
        "x.squeeze(0)",
    ),
    "SqueezeBackward2": ("i.squeeze((0,))",),
    "ExpandBackward0": (
        "x.expand(3,2,4)",
        "x.expand_as(y)",
        "torch.broadcast_to(x,(3,2,4))",
    ),
    "SplitBackward0": (
        "x.split(2,1)[0]",
        "x.split(4,1)[0]",
        "x.chunk(2,1)[1]",
    ),
    "SplitWithSizesBackward0": ("x.split([1,3],1)[0]",),
    "UnbindBackward0": ("x.unbind()[0]",),
    "DiagonalBackward0": ("x.diagonal()",),
    "UnfoldBackward0": ("x.unfold(1,2,1)",),
    "AsStridedBackward0": ("x.as_strided((2,),(1,))",),
}
"""Names that PyTorch 2.6 prints of what made a tensor, and expressions."""


@pytest.mark.parametrize("name", PRINTED)
def test_what_made_a_tensor_is_printed_by_torchs_name(name: str, device: str) -> None:
    at: Any = {"dtype": cuplug.float32, "device": device}
    given = {
        "torch": cuplug,
        "F": cuplug.nn.functional,
        "x": cuplug.ones(2, 4, **at, requires_grad=True),
        "i": cuplug.ones(1, 2, 6, 6, **at, requires_grad=True),
        "v": cuplug.ones(1, 2, 4, 4, 4, **at, requires_grad=True),
        "r": cuplug.ones(1, 2, 6, **at, requires_grad=True),
        "w": cuplug.ones(2, 2, 3, 3, **at),
        "y": cuplug.full((2, 4), 0.5, **at),
        "c": cuplug.tensor([0, 1], device=device),
    }
    for text in PRINTED[name]:
        assert repr(eval(text, given)).endswith(f"grad_fn=<{name}>)"), text


def test_what_a_function_hands_on_keeps_the_name_of_what_made_it(device: str) -> None:
    F = cuplug.nn.functional
    x = cuplug.ones(2, 4, device=device, requires_grad=True).exp()
    for handed in (F.pad(x, (), "reflect"), F.alpha_dropout(x, 0.5, training=False), F.hardtanh(x, inplace=True)):
        assert handed is x
    y = cuplug.ones(2, 4, device=device, requires_grad=True).exp()
    F.pad(y, (0, 0), "reflect")
    F.softmax(y, 1)
    assert y.grad_fn.name() == "ExpBackward0"


def test_a_view_whose_base_was_written_to_is_printed_as_by_torch(device: str) -> None:
    base = cuplug.ones(2, 4, device=device, requires_grad=True) * 2
    row = base[0]
    base.add_(1)
    assert row.grad_fn.name() == "AsStridedBackward0"
    with cuplug.no_grad():
        assert base.t().grad_fn is None


@pytest.mark.parametrize("shape", [(4,), (4, 3)])
def test_adding_at_no_indices_leaves_values_a_gradient_of_zeros(shape: tuple[int, ...], device: str) -> None:
    nowhere = cuplug.zeros(0, dtype=cuplug.int64, device=device)
    for target in (cuplug.zeros(shape, device=device), cuplug.zeros(shape[::-1], device=device).t()):
        values = cuplug.ones((), device=device, requires_grad=True)
        made = target.index_put((nowhere,), values, accumulate=True)
        made.sum().backward()
        assert values.grad.tolist() == 0


def test_views_print_the_same_name_each_time(device: str) -> None:
    x = cuplug.zeros(3, 1, 4, device=device, requires_grad=True)
    for _ in range(2):
        assert x.squeeze(1).grad_fn.name() == "SqueezeBackward1"
        assert x.squeeze().grad_fn.name() == "SqueezeBackward0"
        assert x.squeeze((1,)).grad_fn.name() == "SqueezeBackward2"
        assert x.squeeze(dim=1).grad_fn.name() == "SqueezeBackward1"
        assert x.flatten(1).grad_fn.name() == x.view(-1).grad_fn.name() == "ViewBackward0"
        assert x[:, 0].grad_fn.name() == x[0].grad_fn.name() == "SelectBackward0"
        assert x[:, :, 1:].grad_fn.name() == x[1:].grad_fn.name() == "SliceBackward0"
        assert [each.grad_fn.name() for each in x.split(2)] == ["SplitBackward0"] * 2
        assert [each.grad_fn.name() for each in x.unbind()] == ["UnbindBackward0"] * 3
