"""The operations that ``bench_operations`` measures: as Python source, for tensors and for NumPy's arrays.

Operands by name: ``x y z w`` are float32 of the size at hand, ``half`` and ``double`` other types, ``i j`` int64 from 1
to 8, ``mask other`` bool, ``index`` int64 within the size, ``number`` has no dimensions; ``a b`` are square matrices
with about as many elements, ``square`` is one of bool, ``p q`` are batches of four; ``column vector line picks``
belong to the matrices. ``host`` is on the CPU, ``array`` is NumPy's, ``values`` a list, ``picked`` is ``y[mask]``,
``total`` a sum. ``m`` is the library, ``device`` where the tensors are; ``n``, ``side`` and ``shape`` are sizes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...runtime.tensor.places.tables_with_gradients.elementwise_table import TABLE, Elementwise, TypeRule


@dataclass(frozen=True)
class Row:
    """One operation."""

    ours: str
    numpy: str
    dimensions: int = 0
    """How many dimensions the operands need."""
    most: int = 1_000_000
    """The largest size that is sensible."""

    def fits(self, size: int) -> bool:
        """Whether there are operands of this size: one element stands for tensors without dimensions."""
        return size <= self.most and not (self.dimensions and size == 1)


_NUMPYS = {
    "abs": "np.abs(x)",
    "frac": "x - np.trunc(x)",
    "round": "np.rint(x)",
    "rsqrt": "1 / np.sqrt(x)",
    "sigmoid": "1 / (1 + np.exp(-x))",
    "relu": "np.maximum(x, 0)",
    "lerp": "x + z * (y - x)",
    "where": "np.where(mask, x, y)",
}
"""Where NumPy has no function of that name, and the operation's own is none of NumPy's."""
_ABSENT = {"erf", "erfc"}
"""What NumPy does not have at all."""


def _of_table(operation: Elementwise) -> Iterator[Row]:
    """A line of the table of element-wise operations: as a new result, in place and with a number."""
    name = operation.name
    operands = "ij" if operation.rule in (TypeRule.INTEGER, TypeRule.WHOLE) else "xyz"
    first, others = operands[0], ", ".join(operands[1 : operation.arity])
    own = operation.numpy.__name__ if isinstance(operation.numpy, np.ufunc) else name
    numpy = _NUMPYS.get(name) or f"np.{own}({', '.join(operands[: operation.arity])})"
    if operation.rule is TypeRule.SELECT:
        yield Row("m.where(mask, x, y)", numpy)
        return
    yield Row(f"{first}.{name}({others})", numpy)
    if operation.in_place and operation.rule is not TypeRule.TEST:
        writes = name not in _NUMPYS
        yield Row(f"{first}.{name}_({others})", f"{numpy[:-1]}, out={first})" if writes else f"{first}[...] = {numpy}")
    if operation.numbers and operation.arity == 2:
        yield Row(f"{first}.{name}(2)", re.sub(rf"\b{others}\b", "2", numpy))


def _reductions() -> Iterator[Row]:
    for name in ("sum", "prod", "mean", "var", "std", "amax", "amin", "any", "all", "argmax", "argmin"):
        numpy = name.removeprefix("a") if name in ("amax", "amin") else name
        ddof = "ddof=1" if name in ("var", "std") else ""
        yield Row(f"x.{name}()", f"x.{numpy}({ddof})")
        for axis in (0, 1):
            yield Row(f"a.{name}({axis})", f"a.{numpy}({', '.join(filter(None, (str(axis), ddof)))})", 2)
    for name in ("max", "min"):
        yield Row(f"a.{name}(1)", f"a.{name}(1), a.arg{name}(1)", 2)
        yield Row(f"x.{name}()", f"x.{name}()")


def _same(*sources: str, dimensions: int = 0) -> Iterator[Row]:
    """What is written alike in both."""
    return (Row(source, source, dimensions) for source in sources)


ROWS: tuple[Row, ...] = (
    *(row for operation in TABLE if operation.public and operation.name not in _ABSENT for row in _of_table(operation)),
    # operators, mixed types, broadcasting
    *_same("x + y", "x + number", "1 - x", "2.0 / x", "x ** 2", "2.0 ** x", "-x", "abs(x)"),
    *_same("~mask", "mask & other", "mask | True", "x > 0.5", "x == y", "i + j", "i + 1", "i // j", "i % 3", "i << 2"),
    *_same("half + half", "double + double", "double * 2", "i == 3", "(x > 0.5) & mask", "x * y + z"),
    *_same("x += y", "x *= 1.0"),
    Row("i / j", "np.true_divide(i, j, dtype=np.float64).astype(np.float32)"),
    Row("i * 2.5", "i.astype(np.float32) * 2.5"),
    Row("x + i", "x + i.astype(np.float32)"),
    Row("x + double", "x + double"),
    Row("mask * 2", "mask * np.int64(2)"),
    *_same("a + column", "a + vector", "a + b.T", "a[::2] + b[::2]", "a.T + 1", dimensions=2),
    Row("m.add(x, y, out=z)", "np.add(x, y, out=z)"),
    Row("m.exp(x, out=z)", "np.exp(x, out=z)"),
    Row("x.add(y, alpha=2)", "x + 2 * y"),
    Row("m.where(mask, x, 0)", "np.where(mask, x, np.float32(0))"),
    Row("m.where(x > 0.5, x, 0)", "np.where(x > 0.5, x, np.float32(0))"),
    Row("x.clamp(0.2, 0.8)", "np.clip(x, np.float32(0.2), np.float32(0.8))"),
    Row("x.clamp_(0.2, 0.8)", "np.clip(x, np.float32(0.2), np.float32(0.8), out=x)"),
    Row("x.clamp(min=0.2)", "np.maximum(x, np.float32(0.2))"),
    Row("x.div(y, rounding_mode='floor')", "np.floor_divide(x, y)"),
    *_reductions(),
    Row("x.norm()", "np.linalg.norm(x)", 1),
    Row("x.count_nonzero()", "np.count_nonzero(x)"),
    Row("mask.sum()", "mask.sum()"),
    Row("mask.any()", "mask.any()"),
    Row("a.sum((0, 1), keepdim=True)", "a.sum((0, 1), keepdims=True)", 2),
    Row("m.sum(a, 1, out=vector)", "np.sum(a, 1, out=vector)", 2),
    # products of matrices
    *_same("a @ b", "a @ vector", "vector @ vector", "a @ b.T", "p @ q", dimensions=2),
    # views
    *_same("x.reshape(-1)", "x[None]", "x[...]"),
    *_same("x[0]", "x[-1]", "x[1:]", "x[::2]", "x[:, None]", "len(x)", dimensions=1),
    *_same(
        "a.T", "a[0]", "a[0, 0]", "a[:, 1:]", "a[..., None, :]", "a.reshape(-1, 1)", "a.swapaxes(0, 1)", dimensions=2
    ),
    *_same("a.reshape(-1)", "a.T.reshape(-1)", "a.diagonal()", "a.ravel()", dimensions=2),
    Row("x[::-1]", "x[::-1].copy()", 1),
    Row("a[..., ::-1]", "a[..., ::-1].copy()", 2),
    Row("x.view(-1)", "x.reshape(-1)"),
    Row("a.t()", "a.T", 2),
    Row("a.permute(1, 0)", "a.transpose(1, 0)", 2),
    Row("a.transpose(0, 1)", "a.swapaxes(0, 1)", 2),
    Row("a.unsqueeze(0)", "np.expand_dims(a, 0)", 2),
    Row("column.squeeze()", "column.squeeze()", 2),
    Row("column.expand(-1, 7)", "np.broadcast_to(column, (column.shape[0], 7))", 2),
    Row("a.narrow(0, 1, 2)", "a[1:3]", 2),
    Row("a.select(0, 1)", "a[1]", 2),
    Row("a.flatten()", "a.reshape(-1)", 2),
    Row("a.chunk(2)", "np.array_split(a, 2)", 2),
    Row("a.split(2)", "np.array_split(a, range(2, len(a), 2))", 2, most=1_000),
    Row("a.unbind()", "tuple(a)", 2, most=1_000),
    Row("a.flip(0)", "np.flip(a, 0).copy()", 2),
    Row("a.movedim(0, 1)", "np.moveaxis(a, 0, 1)", 2),
    Row("x.detach()", "x.view()"),
    Row("x.positive()", "x.view()"),
    # indexing
    *_same("x[mask]", "x[mask] = 0", "x[index]", "x[index] = 0", "x[x > 0.5]", "x[x > 0.5] = 0", dimensions=1),
    *_same("x[index] = y", "x[1:] = y[1:]", "x[...] = y", "x[:] = 1", "x[0] = 1", "x[::2] = 0", dimensions=1),
    Row("x[mask] = y[mask]", "x[mask] = y[mask]", 1),
    Row("x[mask] = number", "x[mask] = number", 1),
    Row("x[mask] = picked", "x[mask] = picked", 1),
    Row("i[mask] += 1", "i[mask] += 1", 1),
    *_same("a[square]", "a[square] = 0", "a[line]", "a[line] = 0", "a[picks]", "a[:, picks]", dimensions=2),
    *_same("a[picks, picks]", "a[picks, picks] = 0", "a[picks] = b", "a[:, picks] = 0", "a[0] = vector", dimensions=2),
    *_same("a[:, line]", "a[picks[:, None], picks]", "a[[0, 1]]", "a[0, picks]", "a.T[square]", dimensions=2),
    Row("x.masked_fill(mask, 0)", "np.where(mask, np.float32(0), x)"),
    Row("x.masked_fill_(mask, 0)", "np.putmask(x, mask, 0)"),
    Row("a.masked_fill_(line, 0)", "np.copyto(a, 0, where=line)", 2),
    Row("x.masked_select(mask)", "x[mask]", 1),
    Row("a.masked_select(line)", "a[np.broadcast_to(line, a.shape)]", 2),
    Row("x.index_select(0, index)", "x.take(index, 0)", 1),
    Row("mask.nonzero()", "np.argwhere(mask)", 1),
    Row("square.nonzero(as_tuple=True)", "square.nonzero()", 2),
    Row("m.where(mask)", "np.where(mask)", 1),
    # factories and fills
    Row("m.empty(shape, device=device)", "np.empty(shape, np.float32)"),
    Row("m.zeros(shape, device=device)", "np.zeros(shape, np.float32)"),
    Row("m.ones(shape, device=device)", "np.ones(shape, np.float32)"),
    Row("m.full(shape, 2.5, device=device)", "np.full(shape, 2.5, np.float32)"),
    Row("m.empty_like(x)", "np.empty_like(x)"),
    Row("m.zeros_like(x)", "np.zeros_like(x)"),
    Row("m.full_like(x, 2)", "np.full_like(x, 2)"),
    Row("x.new_zeros(3)", "np.zeros(3, np.float32)"),
    Row("m.arange(n, device=device)", "np.arange(n)", 1),
    Row("m.arange(0.0, n, device=device)", "np.arange(0.0, n, dtype=np.float32)", 1),
    Row("m.linspace(0, 1, n, device=device)", "np.linspace(0, 1, n, dtype=np.float32)", 1),
    Row("m.eye(side, device=device)", "np.eye(side, dtype=np.float32)", 2),
    Row("m.tensor(3.5, device=device)", "np.array(3.5, np.float32)", most=1),
    Row("m.tensor([1, 2, 3], device=device)", "np.array([1, 2, 3])", most=10),
    Row("m.tensor(values, device=device)", "np.array(values, np.float32)", 1, most=100_000),
    Row("m.tensor(array, device=device)", "np.array(array)"),
    Row("x.fill_(1)", "x.fill(1)"),
    Row("x.zero_()", "x.fill(0)"),
    # random numbers
    Row("x.normal_()", "generator.standard_normal(out=x, dtype=np.float32)"),
    Row("x.normal_(1, 2)", "x[...] = generator.normal(1, 2, shape)"),
    Row("double.normal_()", "generator.standard_normal(out=double)"),
    Row("x.uniform_()", "generator.random(out=x, dtype=np.float32)"),
    Row("x.uniform_(-1, 1)", "x[...] = generator.uniform(-1, 1, shape)"),
    Row("double.uniform_()", "generator.random(out=double)"),
    Row("i.random_(9)", "i[...] = generator.integers(0, 9, shape)"),
    Row("m.rand(n, device=device)", "generator.random(n, np.float32)", 1),
    Row("m.randn(n, device=device)", "generator.standard_normal(n, np.float32)", 1),
    Row("m.randint(9, (n,), device=device)", "generator.integers(9, size=n)", 1),
    Row("m.randperm(n, device=device)", "generator.permutation(n)", 1),
    # joining
    Row("m.cat((x, y))", "np.concatenate((x, y))", 1),
    Row("m.cat((x, y, z, w))", "np.concatenate((x, y, z, w))", 1),
    Row("m.cat((a, b), 1)", "np.concatenate((a, b), 1)", 2),
    Row("m.stack((x, y))", "np.stack((x, y))"),
    Row("m.stack((a, b), 2)", "np.stack((a, b), 2)", 2),
    # copies and conversions
    Row("x.clone()", "x.copy()"),
    Row("a.T.contiguous()", "np.ascontiguousarray(a.T)", 2),
    Row("x.contiguous()", "np.ascontiguousarray(x)", 1),
    Row("x.copy_(y)", "np.copyto(x, y)"),
    Row("x.copy_(double)", "np.copyto(x, double, casting='unsafe')"),
    Row("a.copy_(vector)", "np.copyto(a, vector)", 2),
    Row("a.copy_(b.T)", "np.copyto(a, b.T)", 2),
    Row("x.double()", "x.astype(np.float64)"),
    Row("x.half()", "x.astype(np.float16)"),
    Row("x.long()", "x.astype(np.int64)"),
    Row("x.int()", "x.astype(np.int32)"),
    Row("x.bool()", "x.astype(bool)"),
    Row("i.float()", "i.astype(np.float32)"),
    Row("mask.float()", "mask.astype(np.float32)"),
    Row("x.to(m.float64)", "x.astype(np.float64)"),
    Row("x.type_as(double)", "x.astype(np.float64)"),
    Row("x.to(device)", "np.asarray(x)"),
    Row("x.float()", "np.asarray(x, np.float32)"),
    Row("x.cpu()", "x.copy()"),
    Row("x.cpu().numpy()", "x.copy()"),
    Row("host.cuda()", "host.copy()"),
    Row("x.copy_(host)", "np.copyto(x, host)"),
    Row("host.copy_(x)", "np.copyto(host, x)"),
    Row("m.from_numpy(array)", "array.view()"),
    Row("m.as_tensor(array, device=device)", "array.copy()"),
    Row("x.tolist()", "x.tolist()"),
    Row("x.sum().item()", "x.sum().item()"),
    *_same("total.item()", "float(total)", "bool(total)"),
)
