"""New tensors: factories, methods that make others, legacy constructors, conversions."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from typing import Any

import cuplug
import numpy as np
import pytest

pytestmark = pytest.mark.one_schedule


def test_tensor_copies_what_it_is_given(device: str) -> None:
    array = np.arange(3)
    x = cuplug.tensor(array, device=device)
    array[0] = 9
    assert x.tolist() == [0, 1, 2]
    assert x.dtype is cuplug.int64
    y = cuplug.tensor(x, dtype=cuplug.float32, device=device)
    assert (y.dtype, y.device) == (cuplug.float32, x.device)
    assert cuplug.tensor([[x[0], 5], [x[1], x[2]]]).tolist() == [[0, 5], [1, 2]]
    assert cuplug.tensor(np.float64(2.5)).dtype is cuplug.float64
    assert cuplug.tensor([True, False], device=device).dtype is cuplug.bool


def test_tensor_refuses_what_is_no_array_of_numbers() -> None:
    arrays = [np.ones((3, 3)), np.ones((3, 2))]
    uneven_ranges = [range(3), range(2)], [[1, 2, 3], range(2)], [array("i", [1, 2, 3]), array("i", [1, 2])]
    said_of_ranges = [(each, "3 at dim 1 (got 2)") for each in uneven_ranges]
    for ragged, said in (([[1, 2], [3]], "2 at dim 1 (got 1)"), ([arrays], "3 at dim 3 (got 2)"), *said_of_ranges):
        with pytest.raises(ValueError, match=rf"^expected sequence of length {re.escape(said)}$"):
            cuplug.tensor(ragged)
    for uneven, said in (([[1], 2], "not a sequence: int at dim 1"), ([1.0, [2]], "must be real number, not list")):
        with pytest.raises(TypeError, match=f"^{said}"):
            cuplug.tensor(uneven)
    for wrong in (["a"], [None], [[1], [None]]):
        with pytest.raises(TypeError, match="must be numbers"):
            cuplug.tensor(wrong)
    with pytest.raises(TypeError, match="complex128 is not part of cuplug"):
        cuplug.tensor([1j])
    with pytest.raises(TypeError, match="no element type"):
        cuplug.tensor([1], dtype="complex64")


def test_what_numpy_refuses_for_a_reason_of_its_own_is_told_as_it_is() -> None:
    class Unreadable:
        def __array__(self, *_: object, **__: object) -> None:
            raise ValueError("the file is closed")

    with pytest.raises(ValueError, match=r"^the file is closed$"):
        cuplug.tensor([Unreadable(), Unreadable()])


def test_factories_take_shapes_in_every_form_and_refuse_others(device: str) -> None:
    for made in (cuplug.zeros(2, 3, device=device), cuplug.zeros((2, 3), device=device), cuplug.zeros([2, 3])):
        assert made.shape == cuplug.Size([2, 3])
        assert made.sum().item() == 0
    assert cuplug.zeros((), device=device).item() == 0
    assert cuplug.empty(cuplug.Size([4, 0]), device=device).numel() == 0
    assert cuplug.full((2,), 2.5, device=device).tolist() == [2.5, 2.5]
    with pytest.raises(ValueError, match="negative"):
        cuplug.zeros(2, -1)
    with pytest.raises(TypeError, match="integers"):
        cuplug.zeros(2.5)


def test_ranges_are_numpys(device: str) -> None:
    for arguments in ((5,), (2, 9), (2, 9, 3), (9, 2, -2), (0.0, 1.0, 0.1), (1, 2, 0.25), (3, 3)):
        expected = np.arange(*arguments)
        found = cuplug.arange(*arguments, device=device)
        np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-6)
    with pytest.raises(ValueError, match="no way"):
        cuplug.arange(0, 5, -1)
    for arguments in ((0, 1, 5), (3, -3, 7), (2, 2, 1), (0, 1, 0)):
        np.testing.assert_allclose(
            cuplug.linspace(*arguments, device=device).cpu().numpy(), np.linspace(*arguments), atol=1e-6
        )
    np.testing.assert_array_equal(cuplug.eye(3, 5, device=device).cpu().numpy(), np.eye(3, 5))


def test_like_and_new_methods_keep_type_and_device_unless_told_otherwise(device: str) -> None:
    x = cuplug.ones(2, 3, dtype=cuplug.float16, device=device)
    for made in (
        *(cuplug.zeros_like(x), cuplug.ones_like(x), cuplug.full_like(x, 2), cuplug.empty_like(x), cuplug.rand_like(x)),
        *(x.new_zeros(4), x.new_ones((4,)), x.new_full([4], 3), x.new_empty(4), x.new_tensor([1, 2]), x.new(4)),
    ):
        assert made.dtype is cuplug.float16
        assert made.device == x.device
    assert cuplug.zeros_like(x, dtype=cuplug.int8).dtype is cuplug.int8
    assert x.new_full((2,), 1, dtype=cuplug.int32, device="cpu").device == cuplug.device("cpu")
    assert cuplug.zeros_like(x.t()).stride() == x.t().stride()


def test_a_copy_of_a_tensor_has_no_history(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    assert not cuplug.tensor(x).requires_grad
    assert not cuplug.tensor(x * 2, dtype=cuplug.float64).requires_grad
    assert not cuplug.ones(1).new_tensor(x).requires_grad
    own = cuplug.tensor(x * 2, requires_grad=True)
    assert own.is_leaf
    own.sum().backward()
    assert own.grad is not None
    assert x.grad is None


def test_new_takes_a_device_of_the_tensors_kind_and_tensors_say_what_they_are_not(device: str) -> None:
    x = cuplug.ones(2, device=device)
    made = x.new([3], device=x.device)
    assert made.tolist() == [3.0]
    assert made.device == x.device
    other = "cuda" if x.is_cpu else "cpu"
    with pytest.raises(ValueError, match=f"not on {other}"):
        x.new(2, device=other)
    assert not any((x.is_sparse, x.is_quantized, x.is_meta, x.is_nested, x.is_mkldnn, x.is_mps, x.is_xpu))


def test_legacy_constructors_work_as_in_old_programs(running: str) -> None:
    assert cuplug.FloatTensor(2, 3).shape == (2, 3)
    assert cuplug.FloatTensor([2, 3]).tolist() == [2.0, 3.0]
    assert cuplug.FloatTensor(cuplug.Size([4])).shape == (4,)
    assert cuplug.FloatTensor().shape == (0,)
    assert cuplug.Tensor(8, 42).shape == (8, 42)
    assert cuplug.LongTensor([[1, 2]]).dtype is cuplug.int64
    there = cuplug.cuda.HalfTensor([1])
    assert there.is_cuda
    assert there.dtype is cuplug.float16
    assert there.type() == "torch.cuda.HalfTensor"
    assert isinstance(there, cuplug.cuda.HalfTensor)
    assert not isinstance(there, cuplug.HalfTensor)
    assert there.type("torch.LongTensor").type() == "torch.LongTensor"
    assert there.type(cuplug.cuda.FloatTensor).dtype is cuplug.float32
    assert there.type(cuplug.int32).is_cuda
    with pytest.raises(ValueError, match="no type"):
        there.type("torch.StrangeTensor")


def test_a_wrong_element_type_is_not_called_a_device() -> None:
    x = cuplug.ones(2)
    for convert in (x.type, lambda kind: x.to(dtype=kind), cuplug.nn.Linear(1, 1).type):
        with pytest.raises(TypeError, match=r"^'flaot32' is no element type"):
            convert("flaot32")
    with pytest.raises(TypeError, match="must be Tensor, not str"):
        x.type_as("flaot32")


def test_conversions_return_the_tensor_itself_where_nothing_changes(device: str) -> None:
    x = cuplug.ones(3, device=device)
    assert x.to(device) is x
    assert x.to(cuplug.float32) is x
    assert x.to(x) is x
    assert x.float() is x
    assert x.to(device, copy=True) is not x
    assert x.to(cuplug.int32).to(x).dtype is cuplug.float32
    assert x.to(device, cuplug.float16).dtype is cuplug.float16
    assert x.to(dtype=cuplug.bool, device=device).tolist() == [True] * 3
    assert [each.dtype.name for each in (x.half(), x.double(), x.long(), x.int(), x.byte(), x.bfloat16())] == [
        *("float16", "float64", "int64", "int32", "uint8", "bfloat16")
    ]
    with pytest.raises(TypeError, match="unexpected"):
        x.to(devise="cpu")
    with pytest.raises(ValueError, match="moves to a CUDA device"):
        x.cuda("cpu")


def test_one_element_is_a_number_and_several_are_not(device: str) -> None:
    x = cuplug.tensor([2.5], device=device)
    assert (x.item(), float(x), int(x), bool(x), f"{x[0]:.2f}") == (2.5, 2.5, 2, True, "2.50")
    assert [10, 20, 30][cuplug.tensor(2, device=device)] == 30
    y = cuplug.ones(2, device=device)
    for wrong in (lambda: y.item(), lambda: bool(y), lambda: float(y)):
        with pytest.raises(ValueError, match=r"converted to Scalar|ambiguous"):
            wrong()
    with pytest.raises(TypeError, match="integer tensors"):
        [1, 2][x]
    assert 1.0 in y
    assert len(cuplug.zeros(3, 2)) == 3
    assert [row.tolist() for row in cuplug.eye(2)] == [[1, 0], [0, 1]]


def test_views_are_refused_where_they_would_need_a_copy(device: str) -> None:
    x = cuplug.arange(6, device=device).reshape(2, 3)
    with pytest.raises(ValueError, match="without a copy"):
        x.t().view(6)
    assert x.t().reshape(6).tolist() == [0, 3, 1, 4, 2, 5]
    for wrong in (lambda: x.view(4), lambda: x.reshape(-1, -1), lambda: x.permute(0, 0), lambda: x.expand(3, 3)):
        with pytest.raises(ValueError):  # noqa: PT011 - each says something else
            wrong()
    for wrong in (lambda: x[2], lambda: x.transpose(0, 2), lambda: x.sum(2), lambda: x[0, 0, 0], lambda: x[..., ...]):
        with pytest.raises(IndexError):
            wrong()
    with pytest.raises(ValueError, match="does not lie in"):
        x.as_strided((10,), (1,))
    with pytest.raises(ValueError, match="no negative lengths"):
        x.as_strided((1, -1), (1, 1))
    for lengths in ((2, -2), (-2, 2, 1), (-2,)):
        with pytest.raises(ValueError, match="lengths are not negative"):
            x[:, :1].expand(*lengths) if len(lengths) > 1 else x[0, 0].expand(*lengths)
    with pytest.raises(ValueError, match="mean one element"):
        x[:1].expand(4, 3).add_(1)
    assert x.view(cuplug.float64).dtype is cuplug.float64


def test_an_in_place_operation_on_interleaved_views_reads_first(device: str) -> None:
    x = cuplug.arange(6, device=device)
    x[2::2] += x[:-2:2]
    assert x.tolist() == [0, 1, 2, 3, 6, 5]
    x.copy_(x.flip(0))
    assert x.tolist() == [5, 6, 3, 2, 1, 0]


def test_writing_over_what_is_read_is_refused_as_in_torch(device: str) -> None:
    x = cuplug.arange(8.0, device=device)
    square, two = x[:4].reshape(2, 2), cuplug.tensor([0, 1], device=device)
    ones, other = cuplug.ones(1, device=device).expand(6), cuplug.ones(2, device=device)
    refused: list[Callable[[], Any]] = [
        lambda: x[1:].add_(x[:-1]),
        lambda: x.__setitem__(slice(1, None), x[:-1]),
        lambda: cuplug.add(x[:4], 1, out=x[2:6]),
        lambda: cuplug.addcmul(x[:4], x[4:], x[4:], out=x[2:6]),
        lambda: square.t().copy_(square),
        lambda: square.add_(square[0]),
        lambda: x.mul_(x[0]),
        lambda: x.index_add_(0, two, x[2:4]),
        lambda: x.index_copy_(0, two, x[2:4]),
        lambda: x.index_put_((two,), x[2:4]),
        lambda: x.put_(two, x[2:4]),
        lambda: x.scatter_(0, two, x[2:4]),
        lambda: two.index_fill_(0, two, 0),
        lambda: ones.scatter_(0, two, other),
        lambda: ones.index_add_(0, two, other),
        lambda: ones.put_(two, other),
    ]
    for each in refused:
        with pytest.raises(RuntimeError, match="unsupported operation"):
            each()
    assert x.tolist() == [*range(8)]
    assert two.tolist() == [0, 1]
    assert cuplug.add(x[:4], 1, out=x[:4]).tolist() == [1, 2, 3, 4]
    assert x.fill_(x[1]).tolist() == [2] * 8
    assert x.masked_fill_(x > 1, x[0]).tolist() == [2] * 8
    for write in (lambda: ones.index_fill_(0, two, 3.0), lambda: ones.index_put_((two,), other)):
        with pytest.warns(UserWarning, match="on expanded tensors"):
            write()


def test_the_same_operation_on_the_same_layout_is_planned_once(device: str) -> None:
    x = cuplug.ones(3, 4, device=device)
    y = x + x
    plans = len(x._layout.plans)
    for _ in range(3):
        y = x + x
    assert len(x._layout.plans) == plans
    assert y._layout is x._layout
    assert cuplug.zeros(3, 4, device=device)._layout is x._layout


def test_results_of_ever_new_shapes_do_not_pile_plans_up(device: str) -> None:
    x = cuplug.arange(700, device=device)
    for count in range(700):
        assert x[x < count].numel() == count
    assert len(x._layout.plans) <= 600


def test_layouts_do_not_pile_up(device: str) -> None:
    from cuplug.runtime.tensor.core import layout

    place = cuplug.ones(1, device=device)._layout.place
    for length in range(0, 3 * layout._MOST_LAYOUTS, 7):
        layout.Layout.of(place, cuplug.float32, (length, length + 1))
    assert len(place.layouts) <= 2 * layout._MOST_LAYOUTS + 2


def test_numbers_of_numpy_have_no_memory_to_share() -> None:
    with pytest.raises(RuntimeError, match="can't alias NumPy scalars"):
        cuplug.asarray(np.float64(0.5), copy=False)
    with pytest.raises(ValueError, match="can't alias arbitrary sequence into a tensor"):
        cuplug.asarray([1, 2], copy=False)


@pytest.mark.parametrize("dim", range(4))
def test_images_whose_channels_all_lie_last_are_joined_so(dim: int, device: str) -> None:
    images = cuplug.arange(120, dtype=cuplug.float32, device=device).view(2, 3, 4, 5)
    last = images.contiguous(memory_format=cuplug.channels_last)
    made = cuplug.cat([last, last], dim)
    assert made.is_contiguous(memory_format=cuplug.channels_last)
    assert made.equal(cuplug.cat([images, images], dim))
    cut = cuplug.cat([last[:, :, ::2], last[:, :, ::2]], dim)
    assert cut.is_contiguous(memory_format=cuplug.channels_last)
    assert cut.equal(cuplug.cat([images[:, :, ::2], images[:, :, ::2]], dim))
    assert cuplug.cat([last, images], dim).is_contiguous()
    assert cuplug.cat([last, cuplug.empty(0, device=device)], dim).is_contiguous()
    volumes = cuplug.stack([images] * 3, 2)
    last = volumes.contiguous(memory_format=cuplug.channels_last_3d)
    made = cuplug.cat([last, last.double()], dim)
    assert made.is_contiguous(memory_format=cuplug.channels_last_3d)
    assert made.equal(cuplug.cat([volumes, volumes.double()], dim))


def test_a_range_says_that_it_resizes_what_it_is_written_to(device: str) -> None:
    out = cuplug.zeros(1, 49, device=device)
    with pytest.warns(UserWarning, match="The out tensor will be resized to a tensor of shape") as told:
        cuplug.arange(-1, 1, 2.0 / 49, out=out)
    assert len(told) == 1
    assert (out.ndim, out[0].item()) == (1, -1)


def test_resize_as_in_the_order_of_the_other_shows_the_elements_in_it(device: str) -> None:
    x = cuplug.arange(6.0, device=device).reshape(2, 3)
    x.resize_as_(cuplug.zeros(3, 2, device=device).t(), memory_format=cuplug.preserve_format)
    assert x.stride() == (1, 2)
    assert x.tolist() == (x + 0).tolist() == [[0, 2, 4], [1, 3, 5]]
