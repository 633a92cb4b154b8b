"""Random expressions evaluated by PyTorch (on the CPU) and by cuplug, side by side.

``python tests/tensor/ops/beside_torch.py 20000 cpu`` tries so many, on ``cpu``, on ``cuda`` (the simulator unless
``CUPLUG_DRIVER`` says otherwise: with ``cuda`` PyTorch computes there, too) or on ``kernels``: a simulated device that
runs generated kernels. It prints every difference that ``KNOWN`` does not name, and counts
those that it does. A test runs a few where PyTorch is
installed.
"""

from __future__ import annotations

import os
import random
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

Drawn = random.Random
TYPES = ("float32", "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
SHAPES = ((), (0,), (1,), (5,), (7,), (2, 3), (3, 3), (0, 3), (3, 0), (2, 1, 4), (2, 3, 4), (1, 3, 1, 2))


class Case(NamedTuple):
    """Statements, of which the last is an expression; and the tensors in them: values, type, how they lie."""

    text: str
    tensors: dict[str, tuple[Any, str, str]]


def operand(
    draw: Drawn, shape: Any = None, kind: str | None = None, low: int = -4, high: int = 5
) -> tuple[Any, str, str]:
    """A tensor's values, its type and how it lies in memory."""
    shape = draw.choice(SHAPES) if shape is None else shape
    kind = kind or draw.choice(TYPES)
    count = int(np.prod(shape))
    values = np.array([draw.randrange(low, high) for _ in range(count)], np.float64).reshape(shape)
    if "float" in kind:
        values = values + np.array([draw.choice((0, 0, 0.5, 0.25)) for _ in range(count)]).reshape(shape)
        if draw.random() < 0.15 and count:
            values.flat[draw.randrange(count)] = draw.choice((np.nan, np.inf, -np.inf, -0.0))
    elif kind == "uint8":
        values = abs(values)
    elif kind == "bool":
        values = values > 0
    return values, kind, draw.choice(("plain", "plain", "turned", "stepped"))


def made(torch: Any, given: tuple[Any, str, str], device: str) -> Any:
    """The tensor that ``operand`` describes."""
    values, kind, form = given
    tensor = torch.tensor(values.tolist(), dtype=getattr(torch, kind), device=device).reshape(values.shape)
    if form == "turned" and tensor.ndim > 1:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if form == "stepped" and tensor.ndim:
        wide = torch.zeros(*tensor.shape[:-1], tensor.shape[-1] * 2, dtype=tensor.dtype, device=device)
        wide[..., ::2] = tensor
        return wide[..., ::2]
    return tensor


# --- what is tried


def dim_of(draw: Drawn, shape: Any) -> int:
    """A dimension, once in a while one that is not there."""
    ndim = len(shape) or 1
    return draw.randrange(-ndim, ndim) if draw.random() < 0.97 else ndim


def _along(names: str, extra: Callable[[Drawn], str] = lambda _: "") -> Callable[[Drawn], Case]:
    def case(draw: Drawn) -> Case:
        x = operand(draw)
        name = draw.choice(names.split())
        return Case(f"torch.{name}(x, {dim_of(draw, x[0].shape)}{extra(draw)})", {"x": x})

    return case


def _alone(names: str, extra: Callable[[Drawn], str] = lambda _: "") -> Callable[[Drawn], Case]:
    def case(draw: Drawn) -> Case:
        return Case(f"torch.{draw.choice(names.split())}(x{extra(draw)})", {"x": operand(draw)})

    return case


def _two(names: str) -> Callable[[Drawn], Case]:
    def case(draw: Drawn) -> Case:
        x = operand(draw)
        y = operand(draw, x[0].shape if draw.random() < 0.7 else None)
        name = draw.choice(names.split())
        if draw.random() < 0.15:
            return Case(f"x.{name}_(y); x", {"x": x, "y": y})
        if draw.random() < 0.15:
            return Case(f"torch.{name}(x, {draw.choice((2, -1, 0.5, True, 2.3, -0.1))})", {"x": x})
        return Case(f"torch.{name}(x, y)", {"x": x, "y": y})

    return case


def _indexed(draw: Drawn) -> Case:
    x = operand(draw)
    shape = x[0].shape
    dim = draw.randrange(len(shape) or 1)
    length = shape[dim] if shape else 1
    lengths = tuple(draw.randrange(0, each + 1) if draw.random() < 0.5 else each for each in shape)
    if shape and draw.random() < 0.5:
        lengths = (*lengths[:dim], draw.randrange(0, 5), *lengths[dim + 1 :])
    if not length:  # no index is in range, and on a device one out of range is the end of it
        lengths = (*lengths[:dim], 0, *lengths[dim + 1 :])
    index = operand(draw, lengths, "int64", 0, max(length, 1))
    source = operand(draw, lengths if draw.random() < 0.8 else shape, x[1])
    name = draw.choice(("gather", "scatter", "scatter_add", "scatter_reduce", "scatter_value", "take_along_dim"))
    tensors = {"x": x, "i": index, "s": source}
    if name in ("gather", "take_along_dim"):
        return Case(f"torch.{name}(x, {f'{dim}, i' if name == 'gather' else f'i, {dim}'})", {"x": x, "i": index})
    # What goes to one place twice has no order: places are all different.
    count = lengths[dim] if shape else 1
    if name in ("scatter", "scatter_value") and count > length:
        return Case("torch.numel(x)", {"x": x})
    if name in ("scatter", "scatter_value") and shape and count:
        order = np.argsort(
            np.random.default_rng(draw.randrange(1000)).random((*lengths[:dim], length, *lengths[dim + 1 :])), dim
        )
        tensors["i"] = (np.take(order, range(count), dim), "int64", "plain")
    if name == "scatter_value":
        return Case(f"torch.scatter(x, {dim}, i, 3)", {"x": x, "i": tensors["i"]})
    more = ""
    if name == "scatter_reduce":
        more = f", {draw.choice(('sum', 'prod', 'mean', 'amax', 'amin'))!r}, include_self={draw.choice((True, False))}"
    if draw.random() < 0.3:
        return Case(f"x.{name}_({dim}, i, s{more}); x", tensors)
    return Case(f"torch.{name}(x, {dim}, i, s{more})", tensors)


def _positions(draw: Drawn) -> Case:
    x = operand(draw)
    shape = x[0].shape
    dim = draw.randrange(len(shape) or 1)
    length = shape[dim] if shape else 1
    count = draw.randrange(0, length + 1)
    places = np.array(draw.sample(range(length), count), np.float64)
    source = operand(draw, (*shape[:dim], count, *shape[dim + 1 :]) if shape else (count,), x[1])
    tensors = {"x": x, "i": (places, "int64", "plain")}
    name = draw.choice(("index_add", "index_copy", "index_fill", "index_select", "index_put", "take"))
    if name == "index_fill":
        return Case(f"torch.index_fill(x, {dim}, i, 2)", tensors)
    if name == "index_select":
        return Case(f"torch.index_select(x, {dim}, i)", tensors)
    if name == "take":
        return Case("torch.take(x, i)", tensors)
    if name == "index_put":
        if dim:  # its index is one of the first dimension
            return Case(f"torch.index_fill(x, {dim}, i, 2)", tensors)
        values = operand(draw, (count, *shape[1:]) if shape else (count,), x[1])
        return Case(f"torch.index_put(x, (i,), v, {draw.choice((True, False))})", {**tensors, "v": values})
    return Case(f"torch.{name}(x, {dim}, i, s)", {**tensors, "s": source})


def _products(draw: Drawn) -> Case:
    kind = draw.choice(("float32", "float64", "int64"))
    n, k, m, b = (draw.randrange(0, 4) for _ in range(4))

    def matrix(*shape: int) -> tuple[Any, str, str]:
        return operand(draw, shape, kind)

    return draw.choice(
        (
            lambda: Case("torch.outer(x, y)", {"x": matrix(n), "y": matrix(m)}),
            lambda: Case("torch.addmm(z, x, y)", {"x": matrix(n, k), "y": matrix(k, m), "z": matrix(m)}),
            lambda: Case(
                "torch.addmm(z, x, y, beta=2, alpha=3)", {"x": matrix(n, k), "y": matrix(k, m), "z": matrix(n, m)}
            ),
            lambda: Case("torch.addmv(z, x, y)", {"x": matrix(n, k), "y": matrix(k), "z": matrix(n)}),
            lambda: Case("torch.addr(z, x, y)", {"x": matrix(n), "y": matrix(m), "z": matrix(n, m)}),
            lambda: Case("torch.baddbmm(z, x, y)", {"x": matrix(b, n, k), "y": matrix(b, k, m), "z": matrix(b, n, m)}),
            lambda: Case("torch.einsum('ij,jk->ik', x, y)", {"x": matrix(n, k), "y": matrix(k, m)}),
            lambda: Case("torch.einsum('bij,bjk->bik', x, y)", {"x": matrix(b, n, k), "y": matrix(b, k, m)}),
            lambda: Case("torch.einsum('ij->ji', x)", {"x": matrix(n, k)}),
            lambda: Case("torch.einsum('ii->i', x)", {"x": matrix(n, n)}),
            lambda: Case("torch.einsum('ij,j', x, y)", {"x": matrix(n, k), "y": matrix(k)}),
            lambda: Case("torch.einsum('i,j->ij', x, y)", {"x": matrix(n), "y": matrix(m)}),
            lambda: Case("torch.einsum('...ij,...jk', x, y)", {"x": matrix(b, n, k), "y": matrix(k, m)}),
            lambda: Case("torch.inner(x, y)", {"x": matrix(n, k), "y": matrix(m, k)}),
        )
    )()


def _joined(draw: Drawn) -> Case:
    shape = draw.choice(SHAPES)
    tensors = {"x": operand(draw, shape), "y": operand(draw, shape)}
    name = draw.choice(
        ["hstack", "vstack", "dstack", "column_stack", "cat", "stack", "atleast_1d", "atleast_2d", "atleast_3d"]
    )
    return Case(f"torch.{name}([x, y])", tensors)


def _turned(draw: Drawn) -> Case:
    x = operand(draw)
    d, e = dim_of(draw, x[0].shape), dim_of(draw, x[0].shape)
    n = draw.randrange(-3, 4)
    return Case(
        draw.choice(
            (
                f"torch.roll(x, {n})",
                f"torch.roll(x, {n}, {d})",
                f"torch.movedim(x, {d}, {e})",
                f"torch.swapaxes(x, {d}, {e})",
                f"torch.flip(x, ({d},))",
                f"torch.tile(x, (2, {abs(n)}))",
                f"torch.tril(x, {n})",
                f"torch.triu(x, {n})",
                f"x.tril_({n}); x",
                f"torch.diagonal(x, {n})",
                f"torch.diag(x, {n})",
                f"torch.diag_embed(x, {n})",
                f"torch.diagflat(x, {n})",
                "torch.trace(x)",
                f"torch.repeat_interleave(x, {abs(n)})",
                f"torch.repeat_interleave(x, {abs(n)}, {d})",
                f"torch.tensor_split(x, {abs(n)}, {d})",
                f"torch.tensor_split(x, (1, {n}), {d})",
                f"x.unfold({d}, {abs(n)}, {max(abs(n), 1)})",
                "torch.fliplr(x)",
                "torch.flipud(x)",
                "x.clone().resize_(0).shape",
                "torch.hsplit(x, 1)",
                f"torch.unflatten(x, {d}, (-1, 1))",
                "torch.ravel(x)",
                "reversed(x)",
            )
        ),
        {"x": x},
    )


def _chosen(draw: Drawn) -> Case:
    x = operand(draw)
    d = dim_of(draw, x[0].shape)
    k = draw.randrange(0, 4)
    more = draw.choice(
        ("", ", return_inverse=True", ", return_counts=True", ", return_inverse=True, return_counts=True")
    )
    return Case(
        draw.choice(
            (
                f"torch.sort(x, stable=True, dim={d}, descending={draw.choice((True, False))})",
                f"torch.argsort(x, dim={d}, stable=True)",
                f"torch.topk(x, {k}, {d})[0]",
                f"torch.topk(x, {k}, {d}, largest=False)[0]",
                f"torch.kthvalue(x, {k}, {d})[0]",
                f"torch.median(x, {d})[0]",
                "torch.median(x)",
                f"torch.nanmedian(x, {d})[0]",
                f"torch.unique(x{more})",
                f"torch.unique_consecutive(x{more})",
                f"torch.unique(x, dim={d}{more})",
                f"torch.unique_consecutive(x, dim={d}{more})",
                "torch.msort(x)",
                f"torch.histc(x, {k + 1}, -2, 3)",
                f"torch.bincount(x, minlength={k})",
                "torch.isin(x, torch.tensor([1, 2], device=x.device))",
                "torch.isin(x, 1)",
                "torch.searchsorted(torch.tensor([-1, 0, 2], device=x.device), x)",
                "torch.bucketize(x, torch.tensor([-1., 0., 2.], device=x.device), right=True)",
                "torch.nonzero(x)",
                "torch.aminmax(x)",
                f"torch.aminmax(x, dim={d})",
                f"torch.count_nonzero(x, {d})",
            )
        ),
        {"x": x},
    )


def _masked(draw: Drawn) -> Case:
    x = operand(draw)
    mask = operand(draw, x[0].shape, "bool")
    source = operand(draw, (30,), x[1])
    return Case(
        draw.choice(("x.masked_scatter_(m, s); x", "torch.masked_select(x, m)", "torch.masked_fill(x, m, 2)")),
        {"x": x, "m": mask, "s": source},
    )


def _grid(draw: Drawn) -> Case:
    kind = draw.choice(TYPES)
    x, y = operand(draw, (draw.randrange(0, 4),), kind), operand(draw, (draw.randrange(0, 4),), kind)
    return Case(f"torch.meshgrid(x, y, indexing={draw.choice(('ij', 'xy'))!r})", {"x": x, "y": y})


def _three(draw: Drawn) -> Case:
    shape = draw.choice(SHAPES)
    x, y, z = (operand(draw, shape) for _ in range(3))
    text = draw.choice(
        (
            "torch.addcmul(x, y, z)",
            "torch.addcmul(x, y, z, value=2)",
            "torch.addcdiv(x, y, z)",
            "torch.where(x > 0, y, z)",
            "torch.clamp(x, y, z)",
            "torch.lerp(x, y, z)",
        )
    )
    return Case(text, {"x": x, "y": y, "z": z})


def _normed(draw: Drawn) -> Case:
    x = operand(draw, kind=draw.choice(("float32", "float64", "float16", "bfloat16", "int64")))
    p, d = draw.choice(("2", "1", "0", "3", "0.5", "float('inf')", "float('-inf')")), dim_of(draw, x[0].shape)
    keep = draw.choice(("", ", keepdim=True"))
    return Case(
        draw.choice(
            (
                f"torch.linalg.vector_norm(x, {p})",
                f"torch.linalg.vector_norm(x, {p}, {d}{keep})",
                f"torch.linalg.vector_norm(x, {p}, dtype=torch.float64)",
                f"torch.norm(x, {p}, {d}{keep})",
                f"torch.norm(x, {p}, dtype=torch.float64)",
                "torch.linalg.norm(x)",
                f"torch.linalg.norm(x, dim={d}{keep})",
            )
        ),
        {"x": x},
    )


def _strided(draw: Drawn) -> Case:
    x = operand(draw)
    count = x[0].size
    size = tuple(draw.randrange(0, 4) for _ in range(draw.randrange(0, 3)))
    steps = tuple(draw.randrange(0, 3) for _ in size)
    offset = draw.randrange(0, max(count, 1))
    text = draw.choice(
        (
            f"torch.as_strided(x, {size}, {steps}, {offset})",
            f"x.clone().resize_({size}).shape",
            f"torch.clone(x).as_strided_({size}, {steps}, {offset})",
            "x.set_(x.clone()); x",
            "torch.clip(x, -1, 2)",
            "torch.clip(x, max=1)",
            "torch.clamp_(x, 0, 2)",
            "torch.ravel(x)",
            "x.mT",
            "x.H",
            "x.contiguous(memory_format=torch.channels_last).stride()",
        )
    )
    return Case(text, {"x": (x[0], x[1], "plain")})


_KEEP = lambda draw: draw.choice(("", ", keepdim=True"))  # noqa: E731
MAKERS: dict[str, Callable[[Drawn], Case]] = {
    "scan": _along("cumsum cumprod cummax cummin logcumsumexp"),
    "soft": _along("softmax log_softmax"),
    "logsumexp": _along("logsumexp", _KEEP),
    "reduce": _along("sum prod mean amax amin any all argmax argmin max min nansum nanmean norm", lambda _: ""),
    "spread": _along("std var std_mean var_mean", lambda draw: draw.choice(("", ", correction=0"))),
    "total": _alone("sum prod mean max min argmax argmin any all nansum nanmean std var count_nonzero median"),
    "alone": _alone("abs neg sign exp sqrt floor round trunc nan_to_num square isnan logical_not sigmoid reciprocal"),
    "rounded": _alone("round", lambda draw: f", decimals={draw.randrange(-1, 3)}"),
    "two": _two("add sub mul div floor_divide remainder fmod pow eq lt ge bitwise_and logical_or atan2"),
    "pairs": _two("maximum minimum fmax fmin"),
    "indexed": _indexed,
    "positions": _positions,
    "products": _products,
    "joined": _joined,
    "turned": _turned,
    "chosen": _chosen,
    "masked": _masked,
    "grid": _grid,
    "three": _three,
    "normed": _normed,
    "strided": _strided,
}
_OUT = re.compile(r"^torch\.([\w.]+)\((.*)\)$")


def with_out(draw: Drawn, case: Case) -> Case:
    """The same with ``out=``: empty, of the result's shape, with gaps, of another shape; sometimes of another type."""
    found = _OUT.match(case.text)
    if found is None:
        return case
    call = f"torch.{found[1]}({found[2]}, out=o)"
    if found[1] in WITH_TWO_OUTS:
        made = "(torch.empty(0, dtype=r[0].dtype, device=x.device), torch.empty(0, dtype=r[1].dtype, device=x.device))"
        return Case(f"r = {case.text}; o = {made}; torch.{found[1]}({found[2]}, out=o); o", case.tensors)
    if found[1] not in WITH_OUT:
        return case
    kind = f"torch.{draw.choice(TYPES)}" if draw.random() < 0.3 else "r.dtype"
    shape, part = draw.choice((("0", ""), ("r.shape", ""), ("(*r.shape, 2)", "[..., 0]"), ("(2, *r.shape)", "")))
    made = f"torch.zeros({shape}, dtype={kind}, device=x.device){part}"
    return Case(f"r = {case.text}; o = {made}; {call}; o", case.tensors)


WITH_TWO_OUTS = frozenset(["aminmax", "cummax", "cummin", "kthvalue", "median", "nanmedian", "sort", "topk"])
WITH_OUT = frozenset(
    [
        "cumsum",
        "cumprod",
        "logcumsumexp",
        "softmax",
        "log_softmax",
        "logsumexp",
        "sum",
        "prod",
        "mean",
        "amax",
        "amin",
        "any",
        "all",
        "argmax",
        "argmin",
        "nansum",
        "norm",
        "std",
        "var",
        "abs",
        "neg",
        "exp",
        "sqrt",
        "floor",
        "square",
        "add",
        "sub",
        "mul",
        "div",
        "pow",
        "eq",
        "gather",
        "scatter",
        "scatter_add",
        "take",
        "index_select",
        "tril",
        "triu",
        "diag",
        "hstack",
        "vstack",
        "cat",
        "stack",
        "msort",
        "outer",
        "addmm",
        "baddbmm",
        "nan_to_num",
        "searchsorted",
        "bucketize",
        "isin",
        "histc",
        "linalg.vector_norm",
        "round",
        "maximum",
        "fmin",
        "clip",
        "where",
        "lerp",
        "addcmul",
        "amin",
        "index_copy",
        "index_add",
        "scatter_reduce",
        "masked_select",
        "nonzero",
        "diag",
        "inner",
        "roll",
    ]
)


def cases(count: int, seed: int, only: str = "") -> Iterator[tuple[int, Case]]:
    """Cases by their number, from which each follows."""
    names = [name for name in MAKERS if not only or name in only.split(",")]
    for number in range(seed, seed + count):
        draw = Drawn(number)
        case = MAKERS[draw.choice(names)](draw)
        yield number, with_out(draw, case) if draw.random() < 0.15 else case


# --- comparison


def outcome(torch: Any, case: Case, device: str) -> Any:
    """What a library makes of a case: the error that it raises, or types, shapes and values."""
    names: dict[str, Any] = {"torch": torch}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, given in case.tensors.items():
                names[name] = made(torch, given, device)
            *before, last = case.text.split("; ")
            for line in before:
                exec(line, names)
            return shown(torch, eval(last, names))
    except Exception as error:
        return error


def shown(torch: Any, value: Any) -> Any:
    """A result as types, shapes and values that NumPy compares."""
    if isinstance(value, torch.Tensor):
        # Strides count only where elements are: a dimension of length 1 has any.
        kind = str(value.dtype).split(".")[1]
        wide = value.cpu().to(torch.float64) if kind in ("float16", "bfloat16") else value.cpu()
        return kind, tuple(value.shape), wide.numpy().copy()
    if isinstance(value, (tuple, list)):
        return tuple(shown(torch, each) for each in value)
    return value


TOLERANCE = {"float16": 4e-3, "bfloat16": 4e-2, "float32": 2e-5}


def alike(mine: Any, theirs: Any, tolerance: float = 1e-7) -> bool:
    """Whether two outcomes are the same, up to rounding to the types of operands and results."""
    if isinstance(mine, Exception) or isinstance(theirs, Exception):
        return isinstance(mine, Exception) and isinstance(theirs, Exception)
    if isinstance(theirs, tuple) and len(theirs) == 3 and isinstance(theirs[2], np.ndarray):
        if mine[:2] != theirs[:2]:
            return False
        close = max(tolerance, TOLERANCE.get(theirs[0], 0))
        return bool(np.allclose(mine[2], theirs[2], rtol=close, atol=close, equal_nan=True))
    if isinstance(theirs, tuple):
        return len(mine) == len(theirs) and all(
            alike(one, other, tolerance) for one, other in zip(mine, theirs, strict=True)
        )
    return bool(mine == theirs)


def described(value: Any) -> str:
    """An outcome in one line."""
    if isinstance(value, Exception):
        return f"! {type(value).__name__}: {str(value)[:150]}".replace("\n", " ")
    return str(value).replace("\n", " ")[:200]


class Difference(NamedTuple):
    """A case whose outcomes differ; and torch, to be asked further."""

    torch: Any
    device: str
    case: Case
    theirs: Any
    mine: Any

    def refused(self, message: str) -> bool:
        """Whether torch alone raises, such an error."""
        found = isinstance(self.theirs, Exception) and not isinstance(self.mine, Exception)
        return found and re.search(message, f"{type(self.theirs).__name__}: {self.theirs}") is not None

    def accepted(self, message: str) -> bool:
        """Whether cuplug alone raises, such an error."""
        found = isinstance(self.mine, Exception) and not isinstance(self.theirs, Exception)
        return found and re.search(message, str(self.mine)) is not None

    def kinds(self, pattern: str) -> bool:
        """Whether the types of all operands match."""
        return all(re.fullmatch(pattern, kind) for _, kind, _ in self.case.tensors.values())

    def holds(self, what: Callable[[Any], Any]) -> bool:
        """Whether the first operand has such an element."""
        return bool(np.any(what(self.case.tensors["x"][0])))

    def is_what_torch_makes(self, text: str = "", kind: str | None = None, device: str = "") -> bool:
        """Whether ours is what torch makes of this text (the case's own), with operands of this type, converted, on
        this device (the case's own)."""
        text = text or (re.sub(r"dtype=torch\.\w+", "dtype=r.dtype", self.case.text) if kind else self.case.text)
        *before, last = text.split("; ")
        mine = self.mine
        last = f"({last}).to(torch.{mine[0]})"
        tensors = {name: (values, kind or own, form) for name, (values, own, form) in self.case.tensors.items()}
        theirs = outcome(self.torch, Case("; ".join([*before, last]), tensors), device or self.device)
        return alike(mine, theirs, 1e-7)


class Known(NamedTuple):
    """A difference that is meant: where the text matches and the condition holds. The page names it."""

    why: str
    text: str
    holds: Callable[[Difference], bool]


def _as_mean(it: Difference) -> bool:
    """Whether the mean beside a variance is that of ``mean``, and the variance torch's."""
    text = re.sub(r"torch\.\w+\((x(, -?\d+)?).*", r"torch.mean(\1)", it.case.text)
    tolerance = TOLERANCE.get(it.case.tensors["x"][1], 1e-7)
    means = it._replace(mine=it.mine[1]).is_what_torch_makes(text)
    return it.holds(np.isinf) and alike(it.mine[0], it.theirs[0], tolerance) and means


def _without_dim(it: Difference) -> bool:
    """Whether ours is what torch makes with every dimension named; or, where it takes one only, without ``out=``."""
    named = re.sub(r"((?:nan)?sum)\(x, out", r"\1(x, tuple(range(x.ndim)), out", it.case.text)
    named = re.sub(r"prod\(x, out=o\); o$", "prod(x, dtype=o.dtype)", named)
    text = named if "sum(" in named or "prod(x, dtype" in named else it.case.text.split(";")[0] + "; r"
    return it.refused("invalid combination of arguments|Unsupported dtype") and it.is_what_torch_makes(text)


def _root_of_minus_infinity(it: Difference) -> bool:
    """Whether torch's nan is where -inf is, ours is inf there, and nothing else differs."""
    values, kind, form = it.case.tensors["x"]
    turned = {**it.case.tensors, "x": (np.where(values == -np.inf, np.inf, values), kind, form)}
    return it.holds(np.isneginf) and alike(it.mine, outcome(it.torch, it.case._replace(tensors=turned), it.device))


def _slices_in_another_order(it: Difference) -> bool:
    mine, theirs = (each if isinstance(each[0], str) else each[0] for each in (it.mine, it.theirs))
    found = re.search(r"dim=(-?\d+)", it.case.text)
    if found is None or mine[0] != theirs[0] or not it.holds(np.isnan):
        return False
    ours, others = ([str(row.tolist()) for row in np.moveaxis(each[2], int(found[1]), 0)] for each in (mine, theirs))
    whole = [row for row in ours if "nan" not in row]
    # Torch's order has no place for NaN: equal slices on both of its sides are not found to be equal.
    return set(ours) == set(others) and ("consecutive" in it.case.text or len(whole) == len(set(whole)))


def _zero_divisor(it: Difference) -> bool:
    """Whether integers were divided by zero: torch on the CPU raises, and elsewhere nothing is left out."""
    if "y" not in it.case.tensors or it.kinds(".*float.*") or isinstance(it.mine, Exception):
        return False
    values, kind, form = it.case.tensors["y"]
    kept = {**it.case.tensors, "y": (np.where(values == 0, 1, values), kind, form)}
    right = outcome(it.torch, it.case._replace(tensors=kept), it.device)
    if isinstance(right, Exception) or right[:2] != it.mine[:2]:
        return False
    zero = np.broadcast_to(values == 0, right[1])
    return bool(zero.any() and (it.mine[2] == right[2])[~zero].all())


KNOWN = (
    Known(
        "`round(x, decimals=0)` of integers",
        r"torch\.round\(x, decimals=0",
        lambda it: (
            it.refused("not implemented for '(Byte|Char|Short|Int|Long)'") and it.is_what_torch_makes("", "float64")
        ),
    ),
    Known(
        "`isin`, `topk` and `kthvalue` of bool",
        r"torch\.(isin|topk|kthvalue)\(x",
        # What PyTorch on CUDA makes of no elements of a tensor without dimensions is no measure: see below.
        lambda it: (
            it.refused("Bool|bool")
            and (it.is_what_torch_makes("", "uint8") or it.is_what_torch_makes("", "uint8", device="cpu"))
        ),
    ),
    Known(
        "`trace` of bool and of halves",
        r"torch\.trace",
        lambda it: (
            it.refused("not implemented for '(Bool|Half|BFloat16)'")
            and it.is_what_torch_makes("", "int64" if it.kinds("bool") else "float32")
        ),
    ),
    Known(
        "`out=` where PyTorch wants `dim` beside it",
        r"torch\.(sum|prod|nansum|std|var)\(x, out=",
        _without_dim,
    ),
    Known(
        "`out=` takes wider types than in PyTorch",
        r"torch\.(var|std|norm|linalg\.vector_norm)\(.*out=",
        lambda it: (
            it.refused("std_var.*Unsupported dtype (Half|BFloat16)|Expected out tensor to have dtype")
            and it.is_what_torch_makes(it.case.text.split(";")[0] + "; r")
        ),
    ),
    Known("Beside an infinity the mean of `var_mean` and `std_mean` is that of `mean`", "(var|std)_mean", _as_mean),
    Known("slices with NaN in another order", r"unique(_consecutive)?\(x, dim=", _slices_in_another_order),
    Known(
        "`prod` of halves multiplies in float32",
        r"torch\.prod\(x",
        lambda it: it.kinds("b?float16") and it.is_what_torch_makes("", "float32"),
    ),
    Known(
        "A number beside halves keeps its digits in remainders",
        r"torch\.(remainder|fmod)\(x, -?\d\.\d",
        lambda it: it.kinds("b?float16") and it.is_what_torch_makes("", "float32"),
    ),
    Known(
        "`histc` takes halves and integers, and limits beyond those of uint8",
        r"torch\.histc\(x",
        lambda it: (
            it.refused("HalfTensor|BFloat16|Half|histogram_cpu|without overflow")
            and it.kinds("b?float16|u?int.*")
            and it.is_what_torch_makes("", "float32")
        ),
    ),
    Known(
        "the median of no integers is 0",
        r"torch\.median\(x",
        lambda it: it.kinds("u?int.*") and it.case.tensors["x"][0].size == 0 and it.mine[2] == 0,
    ),
    Known(
        "Bool has no powers",
        r"torch\.pow|pow_",
        lambda it: it.kinds("bool") and it.accepted(r"does not take elements of cuplug.bool"),
    ),
    Known(
        "`lerp` is of floating-point tensors, also where no operand has dimensions",
        r"torch\.lerp",
        lambda it: it.accepted("floating-point") and not any(values.ndim for values, _, _ in it.case.tensors.values()),
    ),
    Known(
        "a dimension that is not there is refused, of no elements, too",
        r"torch\.(cummax|cummin|roll)",
        lambda it: it.accepted("dimension .* was asked for") and it.case.tensors["x"][0].size == 0,
    ),
    Known(
        "the power of one half is exact at both ends",
        r"torch\.pow\(x, 0\.5\)",
        _root_of_minus_infinity,
    ),
    Known(
        "`out=` of another kind is refused, of no elements, too",
        r"torch\.(nansum|cumsum|cumprod|index_select|histc)\(.*out=",
        lambda it: (
            it.accepted("cannot be stored in|gives floating-point numbers|cannot be of cuplug.bool")
            and any(values.size == 0 for values, _, _ in it.case.tensors.values())
        ),
    ),
    Known(
        "PyTorch on CUDA refuses products of integer matrices and bool combined at indices",
        r"addmm|addmv|baddbmm|inner|einsum|addr|scatter_reduce",
        lambda it: (
            it.device == "cuda"
            and it.refused("(mm|mv|dot|addr)\\w*\" not implemented for 'Long'|scatter_gather.* for 'Bool'")
            and it.is_what_torch_makes(device="cpu")
        ),
    ),
    Known(
        "PyTorch on CUDA leaves `topk` of 0 of a tensor without dimensions as memory was",
        r"torch\.topk\(x, 0, ",
        lambda it: it.device == "cuda" and not it.case.tensors["x"][0].ndim and it.is_what_torch_makes(device="cpu"),
    ),
    Known(
        "PyTorch on CUDA writes `histc` to `out=` of any type",
        r"torch\.histc\(.*out=",
        lambda it: it.device == "cuda" and it.accepted("cannot be stored in"),
    ),
    Known(
        "Integers divided by zero are an error on the CPU, and undefined on devices",
        "fmod|remainder|floor_divide",
        _zero_divisor,
    ),
    Known(
        "PyTorch on CUDA takes `logcumsumexp` of integers, and `median` and `abs` of bool",
        r"logcumsumexp|median|abs",
        lambda it: it.device == "cuda" and it.kinds("u?int.*|bool") and isinstance(it.mine, Exception),
    ),
)
"""What differs knowingly; a test finds each on the page *Differences from torch*."""


def known(difference: Difference) -> Known | None:
    """Which of ``KNOWN`` a difference is, if one."""
    found = (each for each in KNOWN if re.search(each.text, difference.case.text) and each.holds(difference))
    return next(found, None)


def differences(
    torch: Any,
    cuplug: Any,
    count: int,
    seed: int,
    device: str,
    only: str = "",
    torchs: str = "cpu",
    left_out: Counter[str] | None = None,
) -> Iterator[str]:
    """What PyTorch, on the device ``torchs``, and cuplug make different, as text; what is known is counted."""
    for number, case in cases(count, seed, only):
        with np.errstate(all="ignore"):
            theirs, mine = outcome(torch, case, torchs), outcome(cuplug, case, device)
        tolerance = max((TOLERANCE.get(kind, 0) for _, kind, _ in case.tensors.values()), default=0)
        if not alike(mine, theirs, max(tolerance, 1e-7)):
            meant = known(Difference(torch, torchs, case, theirs, mine))
            if meant is not None:
                if left_out is not None:
                    left_out[meant.why] += 1
                continue
            given = ", ".join(
                f"{name}: {kind} {list(values.shape)} {form} {values.ravel().tolist()[:12]}"
                for name, (values, kind, form) in case.tensors.items()
            )
            yield f"{number} {case.text}\n    {given}\n    torch  {described(theirs)}\n    cuplug {described(mine)}"


def main() -> None:
    """Try as many expressions as the first argument says, on the device that the second names."""
    import cuplug
    import torch

    count, device = int(sys.argv[1]), sys.argv[2]
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    chosen = os.environ.get("CUPLUG_DRIVER")
    cuplug.init(driver=(chosen or "sim:devices=2") if device != "cpu" else "auto")
    torchs = "cuda" if chosen == "cuda" and torch.cuda.is_available() else "cpu"
    if device == "kernels":
        from cuplug.runtime.tensor.backends.cuda_place import CudaPlace

        runtime = cuplug.default_runtime()
        runtime.device(1).objects["tensor.place"] = CudaPlace(runtime, 1)
        device = "cuda:1"
    kinds: Counter[str] = Counter()
    meant: Counter[str] = Counter()
    only = sys.argv[4] if len(sys.argv) > 4 else ""
    for text in differences(torch, cuplug, count, seed, device, only, torchs, meant):
        print(text, flush=True)
        kinds[text.split(" ", 1)[1].split("(")[0]] += 1
    for why, times in meant.most_common():
        print(f"{times} known: {why}")
    print(f"{count} expressions, {meant.total()} known differences, {kinds.total()} others: {kinds.most_common()}")


if __name__ == "__main__":
    main()
