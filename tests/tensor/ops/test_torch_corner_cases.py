"""What torch's documentation and PyTorch say of corner cases, on the CPU and on a device."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import cuplug
import numpy as np
import pytest

pytestmark = pytest.mark.one_schedule


@pytest.mark.parametrize(
    "write",
    [
        lambda out, device: cuplug.add(cuplug.ones(2, 3, device=device), 1, out=out),
        lambda out, device: cuplug.exp(cuplug.zeros(2, 3, device=device), out=out),
        lambda out, device: cuplug.ones(2, 3, device=device, out=out),
        lambda out, device: cuplug.sum(cuplug.ones(4, 2, 3, device=device), 0, out=out),
        lambda out, device: cuplug.matmul(cuplug.ones(2, 1, device=device), cuplug.ones(1, 3, device=device), out=out),
        lambda out, device: cuplug.cat([cuplug.ones(1, 3, device=device)] * 2, out=out),
        lambda out, device: cuplug.clamp(cuplug.ones(2, 3, device=device), 0, 2, out=out),
    ],
)
def test_a_tensor_for_the_result_takes_its_shape(write: Any, device: str) -> None:
    expected = write(cuplug.empty(0, device=device), device).cpu()
    assert expected.shape == (2, 3)
    out = cuplug.empty(0, device=device)
    assert write(out, device) is out
    assert out.shape == (2, 3)
    for shape in ((7,), (3, 2), (2, 2, 3)):
        out = cuplug.zeros(shape, device=device)
        with pytest.warns(UserWarning, match="was resized"):
            write(out, device)
        assert out.shape == (2, 3)
        assert out.cpu().equal(expected)


def test_in_place_a_shape_stays(device: str) -> None:
    x = cuplug.ones(3, device=device)
    with pytest.raises(RuntimeError):
        x.add_(cuplug.ones(2, 3, device=device))
    with pytest.raises(RuntimeError):
        x.clamp_(cuplug.zeros(2, 3, device=device))


def test_interpolation_meets_both_ends(device: str) -> None:
    far, near = cuplug.tensor([1e8], device=device), cuplug.tensor([1.0], device=device)
    assert cuplug.lerp(far, near, 1.0).item() == 1
    assert cuplug.lerp(far, near, 0.0).item() == 1e8
    assert cuplug.lerp(near, cuplug.tensor([5.0], device=device), 0.25).item() == 2


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_each_element_is_interpolated_from_the_nearer_end(kind: str, device: str) -> None:
    def made(*values: float) -> cuplug.Tensor:
        return cuplug.tensor(values, dtype=getattr(cuplug, kind), device=device)

    inf, nan = float("inf"), float("nan")
    start, end = made(6e4, 6e4, 2, 2, inf, 1, 4), made(1, 1, 4, 4, 1, -inf, 8)
    weight = made(1, 0, 0.25, 0.5, 1, 0, nan)
    expected = [1, made(6e4).item(), 2.5, 3, nan, nan, nan]
    np.testing.assert_array_equal(cuplug.lerp(start, end, weight).double().cpu().numpy(), expected)
    np.testing.assert_array_equal(start.clone().lerp_(end, weight).double().cpu().numpy(), expected)
    ones_and_halves = cuplug.lerp(start[2:4], end[2:4, None], weight[1:3, None])
    assert ones_and_halves.tolist() == [[2, 2], [2.5, 2.5]]
    assert cuplug.lerp(start[2:4], end[2:4], weight[2:4, None]).tolist() == [[2.5, 2.5], [3, 3]]
    assert cuplug.lerp(start[2], end[2], weight[2:4]).tolist() == [2.5, 3]


def test_interpolating_many_elements_gives_each_what_it_gives_alone(device: str) -> None:
    start, end, weight = cuplug.rand(3, 100_000).unbind()
    whole = cuplug.lerp(start.to(device), end.to(device), weight.to(device)).cpu()
    for first in (0, 32_760, 65_530, 99_990):
        part = slice(first, first + 10)
        alone = cuplug.lerp(start[part].to(device), end[part].to(device), weight[part].to(device))
        assert whole[part].tolist() == alone.tolist()


def test_a_multiple_is_added_in_the_type_that_is_computed_in(device: str) -> None:
    x = cuplug.tensor([-60000.0], dtype=cuplug.float16, device=device)
    y = cuplug.tensor([60000.0], dtype=cuplug.float16, device=device)
    assert cuplug.add(x, y, alpha=2).item() == 60000
    assert cuplug.sub(y, y, alpha=2).item() == -60000
    assert x.add_(y, alpha=2).item() == 60000


def test_a_power_of_one_half_of_minus_infinity_is_infinite(device: str) -> None:
    x = cuplug.tensor([-np.inf, 4.0, -1.0, np.inf], device=device)
    np.testing.assert_array_equal((x**0.5).cpu().numpy(), [np.inf, 2, np.nan, np.inf])


def test_strides_of_empty_and_expanded_tensors(device: str) -> None:
    assert cuplug.ones(2, 0, 3, device=device)[0, :, ::2].is_contiguous()
    assert cuplug.zeros(5, device=device).expand(1, 5).stride() == (5, 1)
    assert cuplug.zeros(5, device=device).expand(3, 1, 5).stride() == (0, 5, 1)
    assert cuplug.ones(3, device=device)[3:].storage_offset() == 3
    flat = cuplug.arange(10, device=device)[::2].ravel()
    assert flat.is_contiguous()
    assert flat.tolist() == [0, 2, 4, 6, 8]


def test_integers_that_no_type_holds_are_refused() -> None:
    with pytest.raises(RuntimeError, match="beyond"):
        cuplug.tensor([2**63])
    assert cuplug.tensor([2**63], dtype=cuplug.float64).item() == 2.0**63


def test_random_integers_stay_below_their_limit(device: str) -> None:
    with pytest.warns(UserWarning, match="some are never drawn"):
        x = cuplug.empty(20_000, dtype=cuplug.float16, device=device).random_(3000)
    assert x.max().item() <= 2998  # 2999 is none of float16, and is rounded up to 3000
    assert x.min().item() >= 0


def test_empty_lists_are_indices(device: str) -> None:
    x = cuplug.ones(3, 4, device=device)
    assert x[[]].shape == (0, 4)
    assert x[[], []].shape == (0,)
    x[[]] = 5
    assert x.sum().item() == 12


def test_tensors_without_dimensions_are_sizes(device: str) -> None:
    three = cuplug.tensor(3)
    assert cuplug.ones(three, device=device).shape == (3,)
    x = cuplug.arange(6, device=device)
    assert x.view(three, 2).shape == (3, 2)
    assert x.reshape(three, -1).shape == (3, 2)
    assert x[:1].expand(three).shape == (3,)
    assert x[:1].repeat(three).shape == (3,)
    assert [len(each) for each in x.split(three)] == [3, 3]


def test_tensors_without_dimensions_are_ranks_and_offsets(device: str) -> None:
    x, one = cuplug.arange(6.0, device=device).reshape(2, 3), cuplug.tensor(1, device=device)
    assert x.kthvalue(one).values.tolist() == [0, 3]
    assert x.topk(one).values.tolist() == [[2], [5]]
    assert x.diagonal(one).tolist() == x.diag(one).tolist() == [1, 5]
    assert x[0].diagflat(one)[:3].tolist() == [[0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 2]]
    assert x.as_strided((2,), (2,), one).tolist() == [1, 3]
    with pytest.raises(TypeError):
        x.kthvalue(cuplug.tensor(1.0, device=device))


@pytest.mark.parametrize("one", [np.int64(1), cuplug.tensor(1)])
def test_where_dimensions_are_asked_one_of_another_kind_of_integer_is_one(one: Any, device: str) -> None:
    x = cuplug.arange(6.0, device=device).reshape(2, 3)
    for name in (
        "sum",
        "mean",
        "prod",
        "amax",
        "amin",
        "all",
        "any",
        "var",
        "std",
        "logsumexp",
        "count_nonzero",
        "flip",
    ):
        assert cuplug.equal(getattr(x, name)(one), getattr(x, name)(1)), name
    assert cuplug.equal(x.norm(2, one), x.norm(2, 1))
    assert cuplug.equal(x.aminmax(dim=one).max, x.amax(1))
    for name in ("max", "min"):
        assert cuplug.equal(getattr(x, name)(axis=one).indices, getattr(x, name)(1).indices)
        assert cuplug.equal(getattr(x, name)(one, keepdim=True).values, getattr(x, name)(1, True).values)
    assert cuplug.equal(x.roll(one), x.roll(1))
    assert cuplug.equal(x.roll(one, one), x.roll(1, 1))
    assert cuplug.equal(x.movedim(one, 0), x.T)
    assert x.reshape(6, 1).squeeze(one).shape == (6,)
    assert len(x.split(one)) == len(x.chunk(one + 1)) == len(x.tensor_split(one + 1)) == 2
    assert cuplug.nn.functional.avg_pool2d(x[None], one).shape == (1, 2, 3)
    assert cuplug.normal(cuplug.tensor(0.0), cuplug.tensor(1.0), (2, one)).shape == (2, 1)


@pytest.mark.parametrize("number", [np.int64, cuplug.tensor])
def test_pieces_and_strides_of_another_kind_of_integers_have_plain_ones(number: Any, device: str) -> None:
    x = cuplug.arange(6.0, device=device).reshape(2, 3)
    one, two = number(1), number(2)
    for made, expected in (
        (x.split([one, two], 1)[1], [[1, 2], [4, 5]]),
        (x.as_strided((two,), (one,), one), [1, 2]),
        (x.unfold(1, two, one)[0], [[0, 1], [1, 2]]),
        (cuplug.empty_strided((2, two), (one, two), device=device).fill_(7), [[7, 7], [7, 7]]),
        (x.new_empty(0).set_(x.untyped_storage(), one, (two,), (two,)), [1, 3]),
    ):
        assert made.tolist() == expected
        assert {type(each) for each in (*made.shape, *made.stride(), made.storage_offset())} == {int}


def test_a_tensor_that_names_dimensions_is_read_at_each_call() -> None:
    x, which = cuplug.arange(6.0).reshape(2, 3), cuplug.tensor([0])
    assert x.sum(which).tolist() == [3, 5, 7]
    which += 1
    assert x.sum(which).tolist() == x.sum((which[0],)).tolist() == [3, 12]


def test_dimensions_and_shifts_are_integers() -> None:
    x = cuplug.ones(2, 3)
    x.sum(1)
    for wrong in (lambda: x.sum(1.0), lambda: x.roll(1.5), lambda: x.roll("a"), lambda: x.flip(0.0)):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            wrong()
    with pytest.raises(TypeError, match="takes a size where"):
        cuplug.normal(cuplug.zeros(2), 1.0, (2,))


def test_a_stranger_beside_an_operator_is_asked() -> None:
    class Stranger:
        def __rmatmul__(self, other: Any) -> str:
            return "mine"

        def __radd__(self, other: Any) -> str:
            return "mine"

    x: Any = cuplug.ones(2)
    assert x @ Stranger() == "mine"
    assert x + Stranger() == "mine"
    with pytest.raises(TypeError):
        x @ 3
    with pytest.raises(TypeError):
        x += object()


def test_functions_pickle() -> None:
    for function in (cuplug.exp, cuplug.add, cuplug.sum, cuplug.cat, cuplug.randn):
        assert pickle.loads(pickle.dumps(function)) is function


def test_a_tensor_of_the_cpu_is_neither_updated_nor_indexed_by_one_of_a_device(running: str) -> None:
    there = cuplug.tensor(1.0, device="cuda")
    with pytest.raises(RuntimeError):
        cuplug.tensor(1.0).add_(there)
    with pytest.raises(RuntimeError):
        cuplug.ones(3)[cuplug.tensor([0], device="cuda")]
    with pytest.raises(RuntimeError):
        cuplug.ones(3)[cuplug.tensor([True, False, True], device="cuda")]


def test_a_generator_of_another_device_is_refused(running: str) -> None:
    with pytest.raises(RuntimeError, match="generator"):
        cuplug.rand(3, device="cuda", generator=cuplug.Generator())
    with pytest.raises(RuntimeError, match="pinned"):
        cuplug.empty(2, device="cuda", pin_memory=True)


def test_wrong_arguments_are_refused(device: str) -> None:
    with pytest.raises(RuntimeError):
        cuplug.full((2,), 1e5, dtype=cuplug.float16, device=device)
    with pytest.raises(TypeError):
        cuplug.ones(2, device=device).flip()
    with pytest.raises(RuntimeError):
        cuplug.ones(2, device=device).fill_(cuplug.tensor([2.0], device=device))
    with pytest.raises(RuntimeError):
        cuplug.ones(2, device=device).masked_select(cuplug.tensor([1, 0], dtype=cuplug.uint8, device=device))
    assert cuplug.full((2,), float("inf"), dtype=cuplug.float16, device=device).isinf().all()


def test_a_copy_to_the_cpu_that_does_not_wait_is_in_pinned_memory(running: str) -> None:
    x = cuplug.arange(5, device="cuda")
    there = x.to("cpu", non_blocking=True)
    assert there.is_pinned()
    cuplug.cuda.synchronize()
    assert there.tolist() == [0, 1, 2, 3, 4]
    assert not x.to("cpu").is_pinned()


def test_a_mask_of_uint8_is_warned_of(device: str) -> None:
    x = cuplug.arange(3, device=device)
    mask = cuplug.tensor([1, 0, 1], dtype=cuplug.uint8, device=device)
    with pytest.warns(UserWarning, match="use bool"):
        assert x[mask].tolist() == [0, 2]


def test_a_copy_has_its_own_gradient(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    (x * 3).sum().backward()
    y = copy.deepcopy(x)
    assert x.grad is not None
    assert y.grad is not None
    assert y.grad.tolist() == [3, 3]
    x.grad.zero_()
    assert y.grad.tolist() == [3, 3]


def test_an_index_lies_on_the_cpu_or_beside_the_tensor(running: str) -> None:
    if cuplug.cuda.device_count() < 2:
        pytest.skip(f"needs two devices of {running}")
    x, index = cuplug.ones(3, 4, device="cuda:0"), cuplug.tensor([2, 0], device="cuda:1")
    for refused in (lambda: x[index], lambda: x[:, index, None], lambda: x.__setitem__(index, 5)):
        with pytest.raises(RuntimeError, match=r"this one is on cuda:1.*\.to\('cuda:0'\)"):
            refused()
    assert x[index.cpu()].sum().item() == 8


def test_a_tensor_has_at_most_64_dimensions(device: str) -> None:
    assert cuplug.ones([1] * 64, device=device).sum().item() == 1
    with pytest.raises(RuntimeError, match="at most 64 dimensions"):
        cuplug.ones([1] * 65, device=device)
    assert cuplug.ones(1, device=device).item() == 1  # a kernel that failed would have stopped the device


def test_exponential_numbers_are_greater_than_0(device: str) -> None:
    for kind in (cuplug.float16, cuplug.bfloat16, cuplug.float32):
        drawn = cuplug.empty(100_000, dtype=kind, device=device).exponential_(2.0)
        assert drawn.min().item() > 0
        assert drawn.to(cuplug.float32).mean().item() == pytest.approx(0.5, rel=0.03)


def test_what_is_made_like_another_may_be_pinned(running: str) -> None:
    x = cuplug.zeros(2, 3)
    for made in (
        cuplug.empty_like(x, pin_memory=True),
        cuplug.zeros_like(x, pin_memory=True),
        cuplug.ones_like(x, pin_memory=True),
        cuplug.full_like(x, 4, pin_memory=True),
        cuplug.rand_like(x, pin_memory=True),
        cuplug.randn_like(x, pin_memory=True),
        cuplug.randint_like(x, 5, pin_memory=True),
    ):
        assert made.is_pinned()
        assert made.shape == (2, 3)


def test_a_move_may_name_the_order_in_memory(device: str) -> None:
    x = cuplug.ones(2, 3, 4, 5, device=device)
    assert x.cpu(memory_format=cuplug.channels_last).is_contiguous(memory_format=cuplug.channels_last)
    assert x.cpu().is_contiguous()
    if device != "cpu":
        assert x.cuda(memory_format=cuplug.channels_last).is_contiguous(memory_format=cuplug.channels_last)


def test_a_generator_serves_all_devices_of_its_kind() -> None:
    other = cuplug.Generator(device="cuda:1").manual_seed(3)
    made = cuplug.randint(100, (5,), device="cuda:0", generator=other)
    assert cuplug.randperm(5, device="cuda:0", generator=other).shape == (5,)
    again = cuplug.Generator(device="cuda:0").manual_seed(3)
    assert made.equal(cuplug.randint(100, (5,), device="cuda:0", generator=again))
    with pytest.raises(RuntimeError, match="generator of cpu"):
        cuplug.randperm(5, device="cuda:0", generator=cuplug.Generator())
    assert cuplug.randperm(0, device="cuda:0", generator=cuplug.Generator()).shape == (0,)


def test_a_device_is_not_asked_for_elements_that_are_not_there(device: str) -> None:
    x = cuplug.empty(10, 0, device=device)
    with pytest.raises(IndexError, match="dimension with size 0"):
        x[:, cuplug.tensor([0, 1], device=device)]
    with pytest.raises(IndexError, match="dimension with size 0"):
        x[:, cuplug.tensor([0], device=device)] = 5
    assert x[[], [1]].shape == (0,)
    assert cuplug.ones(1, device=device).item() == 1


def test_typename_is_torchs() -> None:
    class Own:
        def method(self) -> None: ...

    inner = f"{__name__}.test_typename_is_torchs.<locals>.Own"
    for given, name in (
        (cuplug.ones(1), "torch.FloatTensor"),
        (cuplug.ones(1, dtype=cuplug.int8), "torch.CharTensor"),
        (3, "int"),
        (None, "NoneType"),
        (len, "len"),
        (math, "math"),
        (math.floor, "math.floor"),
        (Own, inner),
        (Own(), inner),
        (Own().method, f"{inner}.method"),
    ):
        assert cuplug.typename(given) == name


@pytest.mark.parametrize(
    ("text", "alike"),
    [
        ("torch.dot(v, tensor=v)", "torch.dot(v, v)"),
        ("v.dot(tensor=v)", "torch.dot(v, v)"),
        ("torch.swapaxes(x, axis0=0, axis1=1)", "x.T"),
        ("x.swapaxes(axis0=0, axis1=1)", "x.T"),
        ("x.clone().swapaxes_(axis0=0, axis1=1)", "x.T"),
        ("x.repeat(repeats=(2, 1))", "x.repeat(2, 1)"),
        ("x.tile(dims=(2,))", "x.tile(2)"),
        ("x.broadcast_to(size=(1, 2, 3))", "x[None]"),
        ("x.view(size=(3, 2))", "x.view(3, 2)"),
        ("x.view(dtype=torch.int32)", "x.view(torch.int32)"),
        ("x.clone().resize_(size=(3, 2))", "x.view(3, 2)"),
        ("x.clone().resize_as_(the_template=x.T)", "x.view(3, 2)"),
        ("torch.cat(torch.split(x, split_size_or_sections=1))", "x"),
        ("torch.cat(torch.split(x, split_size_or_sections=[1, 1], dim=0))", "x"),
        ("torch.cat(x.tensor_split(sections=2))", "x"),
        ("torch.cat(x.tensor_split(indices=[1]))", "x"),
        ("torch.cat(x.hsplit(sections=3), 1)", "x"),
        ("torch.cat(x.vsplit(indices=[1]))", "x"),
        ("torch.from_dlpack(ext_tensor=v)", "v"),
        ("torch.tril_indices(2, 2, layout=torch.strided)", "torch.tril_indices(2, 2)"),
        ("x.new_zeros((2,), pin_memory=False)", "torch.zeros(2)"),
        ("x.new_full((2,), 1, pin_memory=False)", "torch.ones(2)"),
        ("torch.rand_like(x, generator=seeded())", "torch.rand(2, 3, generator=seeded())"),
        ("torch.randn_like(x, generator=seeded())", "torch.randn(2, 3, generator=seeded())"),
        ("torch.randint_like(x, 9, generator=seeded())", "torch.randint(9, (2, 3), generator=seeded()).float()"),
    ],
)
def test_arguments_are_taken_by_torchs_names(text: str, alike: str) -> None:
    names = {
        "torch": cuplug,
        "x": cuplug.arange(6.0).reshape(2, 3),
        "v": cuplug.arange(3.0),
        "seeded": lambda: cuplug.Generator().manual_seed(3),
    }
    assert cuplug.equal(eval(text, names), eval(alike, names))


def test_types_and_devices_are_taken_by_torchs_names() -> None:
    assert cuplug.can_cast(from_=cuplug.int8, to=cuplug.float16)
    assert cuplug.promote_types(type1=cuplug.int8, type2=cuplug.uint8) is cuplug.int16
    assert cuplug.result_type(tensor=cuplug.ones(1), other=2) is cuplug.float32
    assert cuplug.empty_strided((2,), (1,), pin_memory=False).shape == (2,)
    cuplug.set_default_device(device="cpu")
    cuplug.set_default_device(None)
    x = cuplug.arange(6).reshape(2, 3)
    for wrong in (lambda: x.split(1, split_size_or_sections=2), lambda: x.split(), lambda: x.tensor_split()):
        with pytest.raises(TypeError):
            wrong()


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_values_of_a_list_are_copied_to_a_device_without_memory_on_the_way(device: str) -> None:
    x = cuplug.zeros(4, device=device)
    before = cuplug.cuda.memory_stats()["allocation.all.allocated"]
    x[:2] = [1.0, 2.0]
    assert cuplug.cuda.memory_stats()["allocation.all.allocated"] == before
    assert x.tolist() == [1, 2, 0, 0]


def test_least_squares_are_numpys_for_each_matrix(device: str) -> None:
    a, b = cuplug.randn(2, 4, 3, device=device), cuplug.randn(2, 4, 2, device=device)
    found = cuplug.linalg.lstsq(a, b)
    assert found.solution.device == a.device
    assert found.rank.tolist() == [3, 3]
    for one, other, solution in zip(a.cpu(), b.cpu(), found.solution.cpu(), strict=True):
        expected = np.linalg.lstsq(one.numpy(), other.numpy(), None)[0]
        np.testing.assert_allclose(solution.numpy(), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="no gradients"):
        cuplug.linalg.lstsq(a.requires_grad_(), b)
    with pytest.raises(ValueError, match="do not fit"):
        cuplug.linalg.lstsq(b, b[:, :3])


@pytest.mark.parametrize("dims", [0, 1, 2, ([2, 1], [0, 1]), ([-1], [0])])
def test_products_summed_over_chosen_dimensions_are_numpys(dims: Any, device: str) -> None:
    b = cuplug.randn(*((4, 3, 5) if dims != 2 else (3, 4, 5)), device=device)
    a = cuplug.randn(2, 3, 4, device=device)
    expected = np.tensordot(a.cpu().numpy(), b.cpu().numpy(), dims)
    np.testing.assert_allclose(cuplug.tensordot(a, b, dims).cpu().numpy(), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="contracted dimensions need to match"):
        cuplug.tensordot(a, b, ([0], [0]))
    square = cuplug.ones(2, 2, device=device)
    for twice in (([0, 0], [0, 1]), ([0, 1], [1, -1])):
        with pytest.raises(ValueError, match="a dimension appears twice"):
            cuplug.tensordot(square, square, twice)


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("rows", [5, 30])
def test_distances_of_all_rows_are_norms_of_their_differences(rows: int, p: float, device: str) -> None:
    a, b = cuplug.randn(2, rows, 3, device=device, requires_grad=True), cuplug.randn(4, 3, device=device)
    made = cuplug.cdist(a, b, p)
    apart = a.detach().cpu().numpy()[:, :, None] - b.cpu().numpy()
    np.testing.assert_allclose(made.detach().cpu().numpy(), np.linalg.norm(apart, p, -1), rtol=1e-4, atol=1e-4)
    cuplug.cdist(a, a, p).sum().backward()
    assert a.grad.isfinite().all()  # a row's distance from itself is 0


def test_a_way_to_compute_distances_that_does_not_exist_is_refused() -> None:
    a = cuplug.arange(60.0).reshape(30, 2)
    for way in ("donot_use_mm_for_euclid_dist", "use_mm_for_euclid_dist", "use_mm_for_euclid_dist_if_necessary"):
        assert cuplug.allclose(cuplug.cdist(a, a, compute_mode=way), cuplug.cdist(a, a))
    for wrong in ("use_mm", None):
        with pytest.raises(ValueError, match=f"compute_mode is one of .*, not {wrong!r}"):
            cuplug.cdist(a, a, compute_mode=wrong)


def test_a_dimension_of_one_element_is_summed_with_each_of_the_others() -> None:
    a, b = cuplug.arange(6.0).reshape(2, 3), cuplug.arange(1.0, 4.0).reshape(1, 3)
    assert cuplug.tensordot(a, b, ([0], [0])).tolist() == [[3, 6, 9], [5, 10, 15], [7, 14, 21]]
    assert cuplug.tensordot(cuplug.ones(1, 4), a, ([0], [1])).tolist() == [[3, 12]] * 4
    with pytest.raises(ValueError, match="need to match"):
        cuplug.tensordot(a, cuplug.ones(2, 4), 1)
