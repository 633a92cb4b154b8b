"""What ``grad_fn`` prints: the names that PyTorch gives to what made a tensor."""

from __future__ import annotations

from typing import Any

import cuplug
import pytest


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
