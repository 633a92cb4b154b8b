"""Rows of the bench of tensors: reductions, scans, sorts, selections, indexing and more, as functions of a library.

cuplug and PyTorch share names, so one function is both; CuPy has its own, and no row where it has no such function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_WIDTH = 1024


@dataclass(frozen=True)
class Operands:
    """What the rows work on: made once for each library and size."""

    x: Any
    """Random floats of one dimension."""
    y: Any
    """The same of other values."""
    rows: Any
    """The floats of ``x`` as rows of 1,024, or one row."""
    index: Any
    """Each position once, in random order, as int64."""
    rows_index: Any
    """``index`` modulo the length of a row, in the shape of ``rows``."""
    counts: Any
    """Integers from 0 up to 1,023."""
    mask: Any
    """Whether each of ``x`` is greater than a half."""
    edges: Any
    """1,024 floats in order."""

    @classmethod
    def of(cls, library: Any, rand: Callable[[int], Any], count: int) -> Operands:
        """Operands of ``count`` elements, a multiple of 1,024, for a library with the given ``rand``."""
        x, y = rand(count), rand(count)
        index = library.argsort(rand(count))
        return cls(
            x=x,
            y=y,
            rows=x.reshape(-1, _WIDTH),
            index=index,
            rows_index=(index % _WIDTH).reshape(-1, _WIDTH),
            counts=index % _WIDTH,
            mask=x > 0.5,
            edges=library.linspace(0, 1, _WIDTH).to(x.device)
            if hasattr(library, "Tensor")
            else library.linspace(0, 1, _WIDTH, dtype=x.dtype),
        )


Run = Callable[[Any, Operands], Any]
"""A library and its operands, to what the library makes of them."""


@dataclass(frozen=True)
class Row:
    """One operation, in torch's names and in CuPy's."""

    name: str
    torch: Run
    cupy: Run | None = None
    large: bool = True
    """Whether it is measured with large operands, too."""


def _written(copy: Any, index: Any, values: Any) -> Any:
    copy[index] = values
    return copy


def _added(copy: Any, index: Any, values: Any) -> Any:
    import cupy

    cupy.add.at(copy, index, values)
    return copy


def _special(name: str) -> Run:
    def run(_: Any, o: Operands) -> Any:
        import cupyx.scipy.special as special

        return getattr(special, name)(o.rows, axis=1)

    return run


ROWS: tuple[Row, ...] = (
    # reductions
    Row("mean", lambda m, o: m.mean(o.x), lambda _, o: o.x.mean()),
    Row("prod", lambda m, o: m.prod(o.x), lambda _, o: o.x.prod()),
    Row("amax", lambda m, o: m.amax(o.x), lambda _, o: o.x.max()),
    Row("argmax", lambda m, o: m.argmax(o.x), lambda _, o: o.x.argmax()),
    Row("any", lambda m, o: m.any(o.mask), lambda _, o: o.mask.any()),
    Row("count_nonzero", lambda m, o: m.count_nonzero(o.mask), lambda m, o: m.count_nonzero(o.mask)),
    Row("nansum", lambda m, o: m.nansum(o.x), lambda m, o: m.nansum(o.x)),
    Row("nanmean", lambda m, o: m.nanmean(o.x), lambda m, o: m.nanmean(o.x)),
    Row("norm", lambda m, o: m.linalg.vector_norm(o.x), lambda m, o: m.linalg.norm(o.x)),
    Row("var_mean", lambda m, o: m.var_mean(o.x)),
    Row("std", lambda m, o: m.std(o.x), lambda _, o: o.x.std(ddof=1)),
    Row("aminmax", lambda m, o: m.aminmax(o.x)),
    Row("sum of rows", lambda m, o: m.sum(o.rows, 1), lambda _, o: o.rows.sum(axis=1)),
    Row("sum of columns", lambda m, o: m.sum(o.rows, 0), lambda _, o: o.rows.sum(axis=0)),
    Row("max of rows", lambda m, o: m.max(o.rows, 1)),
    Row("logsumexp of rows", lambda m, o: m.logsumexp(o.rows, 1), _special("logsumexp")),
    # scans
    Row("cumsum", lambda m, o: m.cumsum(o.x, 0), lambda _, o: o.x.cumsum()),
    Row("cumsum of rows", lambda m, o: m.cumsum(o.rows, 1), lambda _, o: o.rows.cumsum(axis=1)),
    Row("cumprod", lambda m, o: m.cumprod(o.x, 0), lambda _, o: o.x.cumprod()),
    Row("cummax", lambda m, o: m.cummax(o.x, 0)),
    Row("logcumsumexp", lambda m, o: m.logcumsumexp(o.x, 0)),
    # order
    Row("sort", lambda m, o: m.sort(o.x), lambda m, o: m.sort(o.x)),
    Row("argsort", lambda m, o: m.argsort(o.x), lambda m, o: m.argsort(o.x)),
    Row("sort of rows", lambda m, o: m.sort(o.rows, 1), lambda m, o: m.sort(o.rows, axis=1)),
    Row("sort of int64", lambda m, o: m.sort(o.index), lambda m, o: m.sort(o.index)),
    Row("topk of 10", lambda m, o: m.topk(o.x, 10)),
    Row("topk of 10 of rows", lambda m, o: m.topk(o.rows, 10, 1)),
    Row("median", lambda m, o: m.median(o.x), lambda m, o: m.median(o.x)),
    Row("unique", lambda m, o: m.unique(o.counts), lambda m, o: m.unique(o.counts)),
    Row("searchsorted", lambda m, o: m.searchsorted(o.edges, o.x), lambda m, o: m.searchsorted(o.edges, o.x)),
    Row("bucketize", lambda m, o: m.bucketize(o.x, o.edges), lambda m, o: m.digitize(o.x, o.edges)),
    Row("bincount", lambda m, o: m.bincount(o.counts), lambda m, o: m.bincount(o.counts)),
    Row("histc", lambda m, o: m.histc(o.x, 100, 0, 1), lambda m, o: m.histogram(o.x, 100, (0, 1))),
    Row("isin", lambda m, o: m.isin(o.counts, o.counts[:16]), lambda m, o: m.isin(o.counts, o.counts[:16])),
    # rows made probabilities
    Row("softmax", lambda m, o: m.softmax(o.rows, 1), _special("softmax")),
    Row("log_softmax", lambda m, o: m.log_softmax(o.rows, 1), _special("log_softmax")),
    # indexing
    Row(
        "gather",
        lambda m, o: m.gather(o.rows, 1, o.rows_index),
        lambda m, o: m.take_along_axis(o.rows, o.rows_index, 1),
    ),
    Row("index_select", lambda m, o: m.index_select(o.x, 0, o.index), lambda m, o: m.take(o.x, o.index)),
    Row("take", lambda m, o: m.take(o.x, o.index), lambda m, o: m.take(o.x, o.index)),
    Row("index_put_", lambda _, o: o.y.index_put_((o.index,), o.x), lambda _, o: _written(o.y, o.index, o.x)),
    Row("index_add_", lambda _, o: o.y.index_add_(0, o.index, o.x), lambda _, o: _added(o.y, o.index, o.x)),
    Row("scatter_", lambda _, o: o.y.scatter_(0, o.index, o.x), lambda _, o: _written(o.y, o.index, o.x)),
    Row("scatter_add_", lambda _, o: o.y.scatter_add_(0, o.index, o.x), lambda _, o: _added(o.y, o.index, o.x)),
    Row("masked_select", lambda _, o: o.x[o.mask], lambda _, o: o.x[o.mask]),
    Row("masked_fill_", lambda _, o: o.y.masked_fill_(o.mask, 0.5), lambda _, o: _written(o.y, o.mask, 0.5)),
    Row("nonzero", lambda m, o: m.nonzero(o.mask), lambda m, o: m.nonzero(o.mask)),
    Row("where", lambda m, o: m.where(o.mask, o.x, o.y), lambda m, o: m.where(o.mask, o.x, o.y)),
    # turned and joined
    Row("tril", lambda m, o: m.tril(o.rows), lambda m, o: m.tril(o.rows)),
    Row("roll", lambda m, o: m.roll(o.x, 17), lambda m, o: m.roll(o.x, 17)),
    Row("flip", lambda m, o: m.flip(o.x, (0,)), lambda m, o: m.ascontiguousarray(m.flip(o.x, 0))),
    Row("cat of two", lambda m, o: m.cat((o.x, o.y)), lambda m, o: m.concatenate((o.x, o.y))),
    Row("repeat_interleave", lambda m, o: m.repeat_interleave(o.x, 2), lambda m, o: m.repeat(o.x, 2)),
    Row("tile", lambda m, o: m.tile(o.x, (2,)), lambda m, o: m.tile(o.x, 2)),
    Row("clip", lambda m, o: m.clip(o.x, 0.2, 0.8), lambda m, o: m.clip(o.x, 0.2, 0.8)),
    Row("nan_to_num", lambda m, o: m.nan_to_num(o.x), lambda m, o: m.nan_to_num(o.x)),
    Row("lerp", lambda m, o: m.lerp(o.x, o.y, 0.5)),
    Row("addcmul", lambda m, o: m.addcmul(o.x, o.x, o.y)),
    # of small operands only
    Row("zeros", lambda m, o: m.zeros(len(o.x), device=o.x.device), lambda m, o: m.zeros(len(o.x)), large=False),
    Row("dot", lambda m, o: m.dot(o.x, o.y), lambda m, o: m.dot(o.x, o.y), large=False),
    Row("outer", lambda m, o: m.outer(o.x[:32], o.y[:32]), lambda m, o: m.outer(o.x[:32], o.y[:32]), large=False),
    Row(
        "einsum",
        lambda m, o: m.einsum("ij,kj->ik", o.rows, o.rows),
        lambda m, o: m.einsum("ij,kj->ik", o.rows, o.rows),
        large=False,
    ),
    Row("addmm", lambda m, o: m.addmm(o.x[:1], o.rows, o.rows.T), large=False),
    Row("view", lambda _, o: o.x.view(32, -1), lambda _, o: o.x.reshape(32, -1), large=False),
    Row("transpose", lambda _, o: o.rows.transpose(0, 1), lambda _, o: o.rows.transpose(1, 0), large=False),
    Row("slice", lambda _, o: o.x[1:-1], lambda _, o: o.x[1:-1], large=False),
    Row("add_", lambda _, o: o.y.add_(o.x), lambda _, o: o.y.__iadd__(o.x), large=False),
)
