"""Rows of a table at indices: what limits them, what their gradient is divided by, what is refused. Values are
PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuplug
import pytest
from cuplug.nn import functional as F


def test_rows_that_are_taken_are_scaled_in_the_table_where_their_norm_is_too_large(device: str) -> None:
    table = cuplug.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0], [0.0, 2.0]], device=device)
    layer = cuplug.nn.Embedding.from_pretrained(table, max_norm=1.0)
    made = layer(cuplug.tensor([[0, 1], [3, 0]], device=device))
    wanted = cuplug.tensor([[0.6, 0.8], [0.3, 0.4], [6.0, 8.0], [0.0, 1.0]])
    assert cuplug.allclose(table.cpu(), wanted)  # row 2 was not asked for
    assert cuplug.allclose(made.cpu(), wanted[cuplug.tensor([[0, 1], [3, 0]])])


def test_the_norm_is_of_the_order_that_is_asked_for() -> None:
    table = cuplug.arange(1.0, 7.0).view(2, 3)
    layer = cuplug.nn.EmbeddingBag.from_pretrained(table, max_norm=2.0, norm_type=0.5, mode="max")
    made = layer(cuplug.tensor([[0, 1]]))
    assert cuplug.allclose(table.norm(0.5, 1), cuplug.tensor([2.0, 2.0]))
    assert made.equal(table.max(0, keepdim=True).values)


def test_a_limit_takes_no_part_in_the_gradient() -> None:
    table = (cuplug.ones(4, 2) * 3).requires_grad_()
    F.embedding(cuplug.tensor([0, 1, 2, 2]), table, max_norm=1.0).sum().backward()
    assert table.grad is not None
    assert table.grad[:, 0].tolist() == [1, 1, 2, 0]


@pytest.mark.parametrize(
    ("taken", "wanted"),
    [
        (lambda index, table: F.embedding(index, table, scale_grad_by_freq=True), [1, 0, 1, 1]),
        (lambda index, table: F.embedding(index, table, 2, scale_grad_by_freq=True), [1, 0, 0, 1]),
        (
            lambda index, table: F.embedding_bag(index.view(2, 2), table, scale_grad_by_freq=True, mode="sum"),
            [1, 0, 1, 1],
        ),
        (lambda index, table: F.embedding_bag(index.view(2, 2), table, scale_grad_by_freq=True), [0.5, 0, 0.5, 0.5]),
    ],
)
def test_a_gradient_may_be_divided_by_how_often_its_row_is_taken(
    taken: Callable[[Any, Any], Any], wanted: list[float], device: str
) -> None:
    table = cuplug.randn(4, 2, device=device, requires_grad=True)
    taken(cuplug.tensor([0, 2, 2, 3], device=device), table).sum().backward()
    assert table.grad is not None
    assert table.grad[:, 1].tolist() == wanted


def test_bags_without_indices_give_a_gradient_of_zeros(device: str) -> None:
    for mode in ("sum", "mean", "max"):
        table = cuplug.randn(4, 2, device=device, requires_grad=True)
        none = cuplug.zeros(0, dtype=cuplug.int64, device=device)
        made = F.embedding_bag(none, table, cuplug.zeros(3, dtype=cuplug.int64, device=device), mode=mode)
        made.sum().backward()
        assert table.grad is not None
        assert table.grad.tolist() == [[0, 0]] * 4
    empty = cuplug.nn.Embedding(0, 0)
    empty(cuplug.zeros(0, dtype=cuplug.int64)).sum().backward()
    assert empty.weight.grad is not None
    assert empty.weight.grad.shape == (0, 0)


def test_a_row_of_padding_may_count_from_the_end_of_a_bags_table() -> None:
    table = cuplug.ones(4, 2)
    assert F.embedding_bag(cuplug.tensor([[0, 3]]), table, mode="sum", padding_idx=-1).tolist() == [[1, 1]]
    assert cuplug.nn.EmbeddingBag(4, 2, padding_idx=-1).padding_idx == 3


def test_there_is_a_row_for_padding_and_a_table_of_that_shape_or_an_assertion_fails() -> None:
    for layer in (cuplug.nn.Embedding, cuplug.nn.EmbeddingBag):
        for row in (4, -5):
            with pytest.raises(AssertionError, match="padding_idx must be within num_embeddings"):
                layer(4, 2, padding_idx=row)
    with pytest.raises(AssertionError, match="padding_idx must be within"):
        F.embedding(cuplug.tensor([0]), cuplug.ones(4, 2), padding_idx=4)
    with pytest.raises(RuntimeError, match="padding_idx must be within the number of embeddings, -4 through 3"):
        F.embedding_bag(cuplug.tensor([[0]]), cuplug.ones(4, 2), padding_idx=4)
    with pytest.raises(AssertionError, match="Shape of weight does not match"):
        cuplug.nn.Embedding(4, 2, _weight=cuplug.ones(4, 3))


def test_a_table_has_two_dimensions() -> None:
    with pytest.raises(RuntimeError, match="'weight' must be 2-D"):
        F.embedding(cuplug.tensor([0]), cuplug.ones(1, 1, 1))
    with pytest.raises(ValueError, match="weight has to be a 2D Tensor, but got Tensor of dimension 3"):
        F.embedding_bag(cuplug.tensor([[0]]), cuplug.ones(1, 1, 1))


ROW, BAGS = cuplug.tensor([1, 0, 1]), cuplug.tensor([[1, 0], [0, 0]])


@pytest.mark.parametrize(
    ("index", "given", "kind", "match"),
    [
        (ROW, {}, ValueError, "offsets has to be a 1D Tensor but got None"),
        (ROW, {"offsets": cuplug.tensor([[0]])}, ValueError, "offsets has to be a 1D Tensor"),
        (ROW, {"offsets": cuplug.tensor([1, 2])}, RuntimeError, r"offsets\[0\] has to be 0"),
        (ROW, {"offsets": cuplug.tensor([0, 4])}, RuntimeError, "can not be greater than input's length: 3"),
        (BAGS, {"offsets": cuplug.tensor([0])}, ValueError, "if input is 2D, then offsets has to be None"),
        (BAGS.view(1, 2, 2), {}, ValueError, "input has to be 1D or 2D Tensor"),
        (BAGS, {"mode": "min"}, ValueError, "mode has to be one of sum, mean or max"),
        (BAGS, {"mode": "max", "scale_grad_by_freq": True}, ValueError, "does not support scaling the gradient"),
        (BAGS, {"mode": "max", "sparse": True}, ValueError, "does not support sparse weights"),
        (BAGS, {"per_sample_weights": cuplug.ones(2, 2)}, NotImplementedError, "only supported for mode='sum'"),
        (BAGS, {"mode": "sum", "per_sample_weights": cuplug.ones(4)}, ValueError, "same shape as the input"),
        (
            BAGS,
            {"mode": "sum", "per_sample_weights": cuplug.ones(2, 2).double()},
            RuntimeError,
            "to have the same type as",
        ),
    ],
)
def test_bags_that_mean_nothing_are_refused(
    index: Any, given: dict[str, Any], kind: type[Exception], match: str
) -> None:
    with pytest.raises(kind, match=match):
        F.embedding_bag(index, cuplug.ones(2, 3), **given)


def test_layers_tell_what_is_not_as_usual() -> None:
    nn = cuplug.nn
    assert repr(nn.Embedding(4, 2)) == "Embedding(4, 2)"
    told = nn.Embedding(4, 2, -1, 1.0, 1.5, True, True)
    assert (
        repr(told)
        == "Embedding(4, 2, padding_idx=3, max_norm=1.0, norm_type=1.5, scale_grad_by_freq=True, sparse=True)"
    )
    assert repr(nn.EmbeddingBag(4, 2, max_norm=1.0, padding_idx=1)) == (
        "EmbeddingBag(4, 2, max_norm=1.0, mode='mean', padding_idx=1)"
    )


@pytest.mark.parametrize(
    "written",
    [
        lambda z, none, rows: z.index_add(0, none, rows),
        lambda z, none, rows: z.index_copy(0, none, rows),
        lambda z, none, rows: z.scatter(0, none.view(0, 1).expand(0, 2), rows),
        lambda z, none, rows: z.scatter_add(0, none.view(0, 1).expand(0, 2), rows),
        lambda z, none, rows: z.scatter_reduce(0, none.view(0, 1).expand(0, 2), rows, "amax"),
        lambda z, none, rows: z.masked_scatter(z > 1, rows),
    ],
)
def test_what_writes_no_elements_of_a_tensor_gives_it_a_gradient_of_zeros(written: Any, device: str) -> None:
    x = cuplug.randn(4, 2, device=device, requires_grad=True)
    none = cuplug.zeros(0, dtype=cuplug.int64, device=device)
    made = written(cuplug.zeros(3, 2, device=device), none, x[none])
    assert made.tolist() == [[0, 0]] * 3
    made.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[0, 0]] * 4
