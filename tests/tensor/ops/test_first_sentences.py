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
    "bool(a)": "Boolean value of Tensor with more than one value is ambiguous",
    "cuplug.cat([a, b])": "Tensors must have same number of dimensions: got 2 and 1",
    "cuplug.cat([a, ones(1, 4)])": "Sizes of tensors must match except in dimension 0. Expected size 3 but got size "
    "4 for tensor number 1 in the list.",
    "cuplug.cat([ones(()), ones(())])": "zero-dimensional tensor (at position 0) cannot be concatenated",
    "cuplug.stack([b, ones(4)])": "stack expects each tensor to be equal size, but got [3] at entry 0 and [4] at",
    "functional.conv2d(ones(2, 3, 8, 8), ones(4, 5, 3, 3))": "Given groups=1, weight of size [4, 5, 3, 3], expected "
    "input[2, 3, 8, 8] to have 5 channels, but got 3 channels instead",
    "functional.layer_norm(a, (4,))": "Given normalized_shape=[4], expected input with shape [*, 4], but got",
    "functional.batch_norm(ones(1, 3), None, None, training=True)": "Expected more than 1 value per channel when",
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
