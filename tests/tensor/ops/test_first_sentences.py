"""Errors that programs read, or people look up, begin as PyTorch's do (2.13, from the same calls)."""

from __future__ import annotations

from typing import Any

import cuplug
import pytest
from cuplug.nn import functional

SENTENCES = {
    "a + ones(4)": "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
    "a @ a": "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)",
    "functional.linear(ones(2, 5, 3), ones(4, 7))": "mat1 and mat2 shapes cannot be multiplied (10x3 and 7x4)",
    "a @ ones(4)": "size mismatch, got input (2), mat (2x3), vec (4)",
    "b.dot(ones(4))": "inconsistent tensor size, expected tensor [3] and src [4] to have the same number of elements",
    "cuplug.dot(a, a)": "1D tensors expected, but got 2D and 2D tensors",
    "cuplug.bmm(ones(2, 3, 4), ones(2, 3, 4))": "Expected size for first two dimensions of batch2 tensor to be: [2, 4]"
    " but got: [2, 3].",
    "a @ a.double().t()": "expected m1 and m2 to have the same dtype, but got: ",
    "a.view(4)": "shape '[4]' is invalid for input of size 6",
    "a.sum(5)": "Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "a[5]": "index 5 is out of bounds for dimension 0 with size 2",
    "a[0, 0, 0]": "too many indices for tensor of dimension 2",
    "ones(())[0]": "invalid index of a 0-dim tensor. Use `tensor.item()`",
    "a.item()": "a Tensor with 6 elements cannot be converted to Scalar",
    "functional.cross_entropy(a, b.long() * 0 + 7)": "Expected target size [2], got [3]: classes for an input of shape",
    "functional.cross_entropy(a.cpu(), cuplug.tensor([0, 7]))": "Target 7 is out of bounds: there are 3 classes",
    "functional.cross_entropy(a, cuplug.tensor([0.0, 2.0]))": "expected target dtype to be Long, or probabilities "
    "for an input of shape [2, 3], but got cuplug.float32 of shape [2]",
    "functional.binary_cross_entropy(a, b)": "Target size (cuplug.Size([3])) must be the same as input size "
    "(cuplug.Size([2, 3]))",
    "functional.binary_cross_entropy_with_logits(a, b)": "Target size (cuplug.Size([3])) must be the same as",
    "cuplug.nn.BatchNorm2d(3)(a)": "expected 4D input (got 2D input)",
    "cuplug.nn.InstanceNorm1d(3)(ones(3))": "expected 2D or 3D input (got 1D input)",
    "cuplug.nn.Parameter(b.long())": "Only Tensors of floating point and complex dtype can require gradients",
    "a.to('gpu')": "device('gpu'): there are devices of the types 'cpu' and 'cuda' only",
    "bool(a)": "Boolean value of Tensor with more than one value is ambiguous",
    "bool(a[:0])": "Boolean value of Tensor with no values is ambiguous",
    "cuplug.cat([a, b])": "Tensors must have same number of dimensions: got 2 and 1",
    "cuplug.cat([a, ones(1, 4)])": "Sizes of tensors must match except in dimension 0. Expected size 3 but got size "
    "4 for tensor number 1 in the list.",
    "cuplug.cat([ones(()), ones(())])": "zero-dimensional tensor (at position 0) cannot be concatenated",
    "cuplug.stack([b, ones(4)])": "stack expects each tensor to be equal size, but got [3] at entry 0 and [4] at",
    "functional.conv2d(ones(2, 3, 8, 8), ones(4, 5, 3, 3))": "Given groups=1, weight of size [4, 5, 3, 3], expected "
    "input[2, 3, 8, 8] to have 5 channels, but got 3 channels instead",
    "functional.layer_norm(a, (4,))": "Given normalized_shape=[4], expected input with shape [*, 4], but got",
    "functional.batch_norm(ones(1, 3), None, None, training=True)": "Expected more than 1 value per channel when",
    "b.expand(2, 4)": "The expanded size of the tensor (4) must match the existing size (3) at non-",
    "a.sum((0, 0))": "dim 0 appears multiple times in the list of dims",
    "ones(0).view(-1, 0)": "cannot reshape tensor of 0 elements into shape [-1, 0] because the unspecified dimension",
    "a.chunk(0)": "chunk expects `chunks` to be greater than 0, got: 0",
    "a.movedim((1, 0), (0,))": "movedim: Invalid source or destination dims:",
    "a.movedim((0, 0), (0, 1))": "movedim: repeated dim in `source`",
    "ones(()).tensor_split(1)": "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims",
    "a.tensor_split(cuplug.ones(3))": "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
    "Float",
    "a.tensor_split(cuplug.ones(1, 1).long())": "tensor_split expected tensor_indices_or_sections to be a "
    "zero-dimensional or one-dimensional tensor, but got a tensor with 2 dims",
    "a.tensor_split(0)": "number of sections must be larger than 0, got 0",
    "a.clamp()": "torch.clamp: At least one of 'min' or 'max' must not be None",
    "cuplug.fliplr(b)": "Input must be >= 2-d.",
    "cuplug.flipud(ones(()))": "Input must be >= 1-d.",
    "cuplug.tensor([1, -1]).bincount()": "bincount only supports 1-d non-negative integral inputs",
    "b.__setitem__(b > 0, ones(2))": "shape mismatch: value tensor of shape [2] cannot be broadcast to indexing result "
    "of shape [3]",
    "a.__setitem__([0, 1], ones(4))": "shape mismatch: value tensor of shape [4] cannot be broadcast to indexing "
    "result of shape [2, 3]",
    "a[[0, 1], [0, 1, 2]]": "shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3]",
    "ones(3, 0)[:, [0]]": "index is out of bounds for dimension with size 0",
    "cuplug.take_along_dim(a, b.long(), 0)": "torch.take_along_dim(): input and indices should have the same num",
    "ones(2, 0).amax(1)": "amax(): Expected reduction dim 1 to have non-zero size.",
    "cuplug.all(a, 0, out=ones(3))": "all only supports bool tensor for result, got",
    "cuplug.nonzero(a, out=ones(3))": "nonzero: Expected out tensor to have scalar type Long but got",
    "cuplug.max(a, 0, out=(b.int(), b.long()))": "Expected out tensor to have dtype ",
    "a.int().add_(1.5)": "result type ",
    "cuplug.add(a.int(), 1, alpha=1.1)": "For integral input tensors, argument alpha must not be a floating",
    "cuplug.add(a.int(), 1, alpha=True)": "Boolean alpha only supported for Boolean results",
    "cuplug.addcdiv(*[cuplug.tensor(1)] * 3)": "Integer division with addcdiv is no longer supported",
    "functional.max_pool2d(ones(1, 1, 4, 4), 2, 0)": "stride should not be zero",
    "functional.embedding(cuplug.tensor([-1]), cuplug.ones(3, 2))": "index out of range in self",
    "b.new_ones(2, dtype=cuplug.int64, requires_grad=True)": "Only Tensors of floating point and complex dtype can",
    "ones(3).hsplit(2)": "torch.hsplit attempted to split along dimension 0, but the size of the dimension 3 is not",
    "b.vsplit(1)": "torch.vsplit requires a tensor with at least 2 dimension",
    "b.random_(3, 1)": "random_ expects 'from' to be less than 'to', but got from=3 >= to=1",
    "b.to(cuplug.int8).random_(-500, 5)": "from is out of bounds for ",
    "b.uniform_(2, 1)": "uniform_ expects to return a [from, to) range, but found from=2 > to=1",
    "b.uniform_(-3e38, 3e38)": "uniform_ expects to-from <= ",
    "cuplug.normal(b, -b)": "normal expects all elements of std >= 0.0",
    "cuplug.arange(-5, float('nan'))": "unsupported range: -5 -> nan",
    "cuplug.arange(5, 1)": "upper bound and lower bound inconsistent with step sign",
    "cuplug.arange(1, 5, 0)": "step must be nonzero",
    "b.unfold(0, -1, 1)": "size is -1 but must be >= 0",
    "b.unfold(0, 1, -1)": "step is -1 but must be > 0",
    "b.unfold(0, 4, 1)": "maximum size for tensor at dimension 0 is 3 but size is 4",
    "cuplug.eye(-1)": "n must be greater or equal to 0, got -1",
    "cuplug.eye(1, -1)": "m must be greater or equal to 0, got -1",
    "a.roll((1, 2), (0,))": "shifts and dimensions must align. shifts: 2",
    "cuplug.empty([0, 4, 2**61])": "Stride calculation overflowed",
    "cuplug.empty([8, 4, 2**61])": "Storage size calculation overflowed",
    "b.expand(2, 3).add_(1)": "unsupported operation: ",
    "b.expand(2, 3).copy_(a)": "unsupported operation: ",
    "b.expand(2, 3).uniform_()": "unsupported operation: ",
    "cuplug.asarray(a, dtype=cuplug.float64, copy=False)": "can't alias tensor with dtype ",
    "b.normal_(0, -1)": "normal expects std >= 0.0, but found std -1",
    "cuplug.meshgrid(a)": "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got",
    "b.roll((), ())": "`shifts` required",
    "b.as_strided((2,), ())": "mismatch in length of strides and shape",
    "b.requires_grad_().mul(2).backward(ones(2))": "Mismatch in shape: grad_output[0] has a shape of ",
}


@pytest.mark.parametrize("call", SENTENCES)
def test_a_wrong_call_begins_as_in_torch(device: str, call: str) -> None:
    def ones(*shape: Any) -> cuplug.Tensor:
        return cuplug.ones(*shape, device=device)

    names = {"a": ones(2, 3), "b": ones(3), "ones": ones, "cuplug": cuplug, "functional": functional}
    with pytest.raises((RuntimeError, IndexError)) as raised:
        eval(call, names)
    assert str(raised.value).startswith(SENTENCES[call])


@pytest.mark.parametrize(
    ("call", "first"),
    [
        ("x.dot(y)", "Expected all tensors to be on the same device"),
        ("cuplug.add(x, x, out=y)", "Expected all tensors to be on the same device"),
        ("functional.embedding(y.long(), cuplug.outer(x, x))", "Expected all tensors to be on the same device"),
        ("x.index_select(0, y.long())", "Expected all tensors to be on the same device"),
        ("x.masked_select(y > 0)", "Expected all tensors to be on the same device"),
        ("y[x.long()]", "indices should be either on cpu or on the same device as the indexed tensor (cpu)"),
        ("(x.requires_grad_() * 2).backward(y)", "invalid gradient at index 0 - expected device cuda:0 but got cpu"),
    ],
)
def test_tensors_of_two_devices_are_refused_as_in_torch(running: str, call: str, first: str) -> None:
    del running
    names = {"x": cuplug.ones(3, device="cuda"), "y": cuplug.ones(3), "cuplug": cuplug, "functional": functional}
    with pytest.raises(cuplug.DeviceMismatchError) as raised:
        eval(call, names)
    assert str(raised.value).startswith(first)


def test_whole_channels_are_dropped_by_a_function_too(device: str) -> None:
    images = cuplug.ones(4, 50, 3, 3, device=device)
    made = functional.dropout2d(images, 0.5)
    assert {tuple(each.unique().tolist()) for each in made.reshape(200, 9)} == {(0.0,), (2.0,)}
    assert functional.dropout3d(images, 0.5, training=False) is images
