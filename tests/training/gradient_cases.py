"""Expressions whose gradients are compared: with PyTorch's, and with differences. One at least for each table's line.

``x`` and ``y`` have the shape (3, 4), neither 0 nor equal. ``p`` and ``q`` are positive, ``u`` lies within (-1, 1).
``v`` has the shape (4,), ``n`` is a view that is not contiguous, ``z`` has zeros. All these require gradients. ``i``,
``j``, ``k`` and ``w`` have indices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["CASES", "operands", "value_of"]

_UNARY_ANY = (
    "neg positive abs sign square floor ceil trunc round frac exp exp2 expm1 sin cos sinh cosh tanh asinh atan erf"
)
_UNARY_ANY += " erfc deg2rad rad2deg sigmoid relu reciprocal tan"
_UNARY_POSITIVE = "log log2 log10 log1p sqrt rsqrt"

CASES: tuple[str, ...] = (
    *(f"torch.{name}(x)" for name in _UNARY_ANY.split()),
    *(f"torch.{name}(p)" for name in _UNARY_POSITIVE.split()),
    *(f"torch.{name}(u)" for name in ("asin", "acos", "atanh")),
    "torch.acosh(p + 2)", "torch.nn.functional.gelu(x)", "torch.nn.functional.gelu(x, approximate='tanh')",
    "torch.nn.functional.silu(x)",
    "x + y", "x - v", "x * v", "x / p", "v / x[:1]", "n * x.t()", "2 - x", "3 / p", "x * 2.5", "x + x",
    "torch.add(x, y, alpha=3)", "torch.sub(x, v, alpha=0.5)", "torch.div(x, p, rounding_mode='floor')",
    "torch.div(x, p, rounding_mode='trunc')", "x % p", "torch.fmod(x, p)", "p ** y", "p ** 2.5", "x ** 2", "x ** 0",
    "2 ** x", "z ** 3", "torch.maximum(x, y)", "torch.minimum(x, v)", "torch.maximum(z, z * 1)", "torch.fmax(x, y)",
    "torch.fmin(x, y)", "torch.clamp(x, -0.5, 0.5)", "torch.clamp(x, min=0.1)", "torch.clamp(x, max=0.1)",
    "torch.clamp(x, u, p)", "torch.clamp(x, min=u)", "torch.clamp(x, max=u)", "torch.atan2(x, y)",
    "torch.hypot(x, y)", "torch.copysign(x, y)", "torch.lerp(x, y, 0.3)", "torch.lerp(x, y, 0.8)",
    "torch.lerp(x, y, u)", "torch.where(x > 0, x, v)", "torch.where(x > 0, y, 2.0)", "x.sum()", "x.sum(0)",
    "x.sum((0, 1), True)", "n.sum(1)", "x.mean()", "x.mean(1, True)", "x.prod()", "x.prod(1)", "z.prod(1)",
    "z.prod()", "x.var()", "x.var(1)", "x.var(0, unbiased=False)", "x.std()", "x.std(1)", "x.norm()",
    "x.norm(2, 1)", "x.norm(1, 1)", "x.norm(3, 0)", "x.norm(1.5)", "x.norm(float('inf'), 1)",
    "x.amax(1)", "x.amin((0, 1))", "x.max()", "x.max(1).values", "x.min(0, keepdim=True).values", "z.amax(1)",
    "torch.var_mean(x, 1)[0]", "torch.aminmax(x).max", "torch.nansum(x, 1)", "torch.nanmean(x, 0)", "x.cumsum(1)",
    "x.cumsum(0)", "x.cumprod(1)", "z.cumprod(1)", "z.cumprod(0)", "x.logcumsumexp(1)", "x.cummax(1).values",
    "x.cummin(0).values", "x.sort(1).values", "x.sort(0, descending=True).values", "x.topk(2, 1).values",
    "x.kthvalue(2, 1).values",
    "(torch.linspace(-1, 1, 5000, dtype=torch.float64, device=x.device) * x[0, 0]).kthvalue(7, 0).values",
    "x.median(1).values", "x.median()", "x.softmax(1)", "n.softmax(0)",
    "x.log_softmax(1)", "x.logsumexp(1)", "x.logsumexp((0, 1))", "x @ y.t()", "x @ v", "v @ x.t()", "v @ v",
    "n @ x", "x.view(1, 3, 4) @ y.t()", "x.view(3, 1, 2, 2) @ y.view(1, 3, 2, 2)",
    "x.view(3, 2, 2) @ y[0].view(2, 2)", "torch.mm(x, y.t())", "torch.mv(x, v)",
    "torch.bmm(x.view(3, 2, 2), y.view(3, 2, 2))", "torch.addmm(x[:, :3], x, y.t(), beta=0.5, alpha=2)",
    "torch.addmm(v[:3], x, y.t())", "torch.addmm(v[:3], x.detach(), y.t())", "torch.addmm(v[:3], x, y.detach().t())",
    "sum(each.sum() * k for k, each in enumerate(x.split([1, 1, 2], 1)))", "pieces_written(torch, x, y)",
    "x.split([3, 1], 1)[0].view(3, 1, 3).transpose(1, 2) * y[:, :3, None]", "x[:, :2].view(3, 2, 1) * x[:, 1:3, None]",
    "x.view(3, 2, 2)[:, :, :0] @ y[:0, :2]",
    "x[:0].prod(1)", "x[:, :0].prod(0)", "x.clone().cumprod_(1)", "z.clone().nan_to_num_(0.5)", "x.clone().tril_()",
    "torch.index_fill(x, 1, i, y[0, 0])", "torch.index_fill(x[0, 0], 0, i[:1], y[0, 0])",
    "x.clone().index_fill_(0, i, y[0, 0])", "torch.normal(x, p) * 0 + x",
    "torch.outer(v, x[0])", "torch.einsum('ij,kj->ik', x, y)", "torch.einsum('ij,ij->i', x, y)",
    "torch.addcmul(x, y, v, value=2)", "torch.addcdiv(x, y, p, value=2)",
    "torch.baddbmm(x.view(3, 2, 2), x.view(3, 2, 2), y.view(3, 2, 2))", "torch.cat([x, y, v.view(1, 4)], 0)",
    "torch.stack([x, y], 1)", "torch.hstack([x, y])", "torch.vstack([x, v])", "x.t() * 2",
    "x.transpose(0, 1).reshape(2, 6)", "x.view(2, 6)[:, 1:4]", "x.permute(1, 0).contiguous()", "x[1]", "x[1:, ::2]",
    "x[:, None].expand(3, 2, 4) * 2", "x.unsqueeze(1).squeeze()", "x.narrow(1, 1, 2)", "x.select(0, 1)",
    "x.unbind(1)[2]", "torch.cat([each * 2 for each in x.split(2, 1)], 0)", "x.chunk(2, 0)[1]", "x.diagonal()",
    "x.unfold(1, 2, 1)", "x.movedim(0, 1)", "x.flatten()", "x.unflatten(1, (2, 2))",
    "x.as_strided((2, 2), (1, 2), 1)", "x[:1].expand(3, 4).transpose(0, 1)[1:, :2]", "x.repeat(2, 3)",
    "x.repeat(1, 1)", "x.tile(2)", "x.flip(0, 1)", "x.roll(1, 0)", "x.repeat_interleave(2, 1)",
    "torch.diag_embed(x)", "torch.diag(v)", "x.tril()", "x.triu(1)", "x.trace()", "x[i]", "x[:, i]", "x[i, i]",
    "x[i[:, None], i]", "x[x > 0]", "x.index_select(1, i)", "x.masked_select(x > 0)", "x.masked_fill(x > 0, 2.0)",
    "x.gather(1, j)", "x.take(i)", "torch.take_along_dim(x, j, 1)", "x.scatter(1, j, y[:, :2])",
    "x.scatter(1, j, 2.0)", "x.scatter_add(1, j, y[:, :2])", "x.scatter_reduce(1, j, y[:, :2], 'prod')",
    "x.scatter_reduce(1, k, z, 'prod')", "x.scatter_reduce(1, k, y, 'amax')",
    "x.scatter_reduce(1, k, y, 'amin', include_self=False)", "x.scatter_reduce(1, k, y, 'mean')",
    "x.index_add(0, i, y)", "x.index_copy(0, w, y)", "x.index_fill(0, i, 2.0)", "x.index_put((i, i), v[:3])",
    "x.index_put((i, i), v[:3], accumulate=True)", "x.masked_scatter(x > 0, y)", "x.clone() + x.detach()",
    "x.nan_to_num()", "x.float().double()", "x.to(torch.float32).sum().double()", "x.double() * 2",
    "(x * 1).mul_(y)", "(x * 1).exp_()", "(x * 1).add_(y, alpha=2).sub_(v)", "(x * 1).div_(p)",
    "(x * 1).masked_fill_(x > 0, 3.0)", "(x * 1).fill_(2.0) * x", "(x * 1).zero_() + y", "(x * 1).copy_(v) * y",
    "(x * 1).clamp_(-0.5, 0.5)", "(x * 1).unsqueeze_(0)", "assigned(torch, x, y, v)", "through_views(torch, x, y)",
    "into_zeros(torch, x, y, i)", "(x * 1).t_()", "torch.meshgrid(v, v, indexing='ij')[0]",
    "x.new_zeros(3, 4).copy_(x)",
)  # fmt: skip


def assigned(torch: Any, x: Any, y: Any, v: Any) -> Any:
    """Elements assigned by views, by masks, and in place through an index."""
    out = x * 1
    out[1] = y[0] * 2
    out[0, 0] = 3.0
    out[:, 2] *= y[:, 1]
    out[out > 1] = 0.5
    out[0] += v
    return out * x


def pieces_written(torch: Any, x: Any, y: Any) -> Any:
    """One of several pieces of a tensor is changed in place, where the library lets it be."""
    whole = x * y
    first, second = whole.split(2, 1)
    if torch.__name__ == "torch":  # torch forbids it for pieces that were made at once
        first, second = whole[:, :2], whole[:, 2:]
    first.mul_(y[:, 2:])
    return whole * second.sum()


def through_views(torch: Any, x: Any, y: Any) -> Any:
    """Changes through a view of a view, seen by the base and by views made before."""
    out = x * 1
    before = out.t()
    view = out.view(2, 6)
    view[0, :3].mul_(y[0, :3])
    before[1:3].add_(y.t()[1:3])
    return out * before.t() * view.reshape(3, 4)


def into_zeros(torch: Any, x: Any, y: Any, i: Any) -> Any:
    """What requires gradients written to tensors that did not."""
    out = torch.zeros(3, 4, dtype=x.dtype, device=x.device)
    out[i] = y[i] * 2
    out[1, 1:] = x[0, 1:]
    other = torch.empty_like(out)
    other.copy_(out)
    return other * y


def operands(torch: Any, device: str = "cpu") -> dict[str, Any]:
    """The operands, by name, as tensors of a library."""
    random = np.random.default_rng(3)
    arrays = {name: random.permutation(np.linspace(-1.9, 2.1, 12)).reshape(3, 4) for name in ("x", "y")}
    arrays["y"] = arrays["y"] * 0.93
    arrays |= {name: random.uniform(0.3, 2.0, (3, 4)) for name in "pq"}
    arrays["u"] = random.uniform(-0.9, 0.9, (3, 4))
    arrays["v"] = random.uniform(0.4, 1.5, 4)
    arrays["z"] = np.array([[1.5, 0.0, -2.0, 0.5], [0.0, 1.0, 0.0, 3.0], [2.0, -1.0, 0.7, 1.1]])
    wide = random.standard_normal((4, 6))
    made = {name: torch.tensor(value.tolist(), dtype=torch.float64, device=device) for name, value in arrays.items()}
    made["n"] = torch.tensor(wide.tolist(), dtype=torch.float64, device=device)[:, ::2]
    for each in made.values():
        each.requires_grad_()
    whole = {
        "i": [0, 2, 0],
        "w": [2, 0, 1],
        "j": [[0, 1], [3, 1], [2, 0]],
        "k": [[0, 1, 1, 2], [0, 0, 0, 0], [3, 2, 3, 1]],
    }
    return made | {name: torch.tensor(value, device=device) for name, value in whole.items()}


def value_of(torch: Any, case: str, given: dict[str, Any]) -> Any:
    """The value of an expression."""
    functions = {
        "assigned": assigned,
        "pieces_written": pieces_written,
        "through_views": through_views,
        "into_zeros": into_zeros,
    }
    return eval(case, {"torch": torch, **functions, **given})
