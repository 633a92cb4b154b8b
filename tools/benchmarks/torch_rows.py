"""Operations that NumPy does not have, as expressions of PyTorch's names: timed beside PyTorch alone."""

from __future__ import annotations

from .operation_rows import Row


def _alone(*sources: str, dimensions: int = 0, most: int = 1_000_000) -> tuple[Row, ...]:
    return tuple(Row(source, "", dimensions, most) for source in sources)


TORCH_ROWS: tuple[Row, ...] = (
    *_alone("m.erf(x)", "m.erfc(x)", "m.erf(double)", "m.erf(half)"),
    # activations
    *_alone(
        "f.gelu(x)", "f.gelu(x, approximate='tanh')", "f.silu(x)", "f.mish(x)", "f.elu(x)", "f.selu(x)", "f.celu(x)"
    ),
    *_alone("f.leaky_relu(x)", "f.relu(x)", "f.relu6(x)", "f.hardtanh(x)", "f.hardswish(x)", "f.hardsigmoid(x)"),
    *_alone(
        "f.softplus(x)", "f.softsign(x)", "f.logsigmoid(x)", "f.tanhshrink(x)", "f.softshrink(x)", "f.dropout(x, 0.1)"
    ),
    *_alone("f.glu(a[:, :2])", "f.prelu(x, vector[:1])", dimensions=2),
    # along dimensions
    *_alone(
        "f.softmax(a, -1)", "f.log_softmax(a, -1)", "f.softmax(a, 0)", "m.logsumexp(a, 1)", "m.sort(a)", "m.argsort(a)"
    ),
    *_alone(
        "m.sort(a, 0)", "m.topk(a, 5)", "m.topk(a, 1)", "m.topk(a, 5, largest=False)", "m.topk(a, 3, 0)", dimensions=2
    ),
    *_alone("m.topk(x, 10)", "m.kthvalue(x, 7)", "m.median(x)", "m.sort(x)", "m.sort(i)", "m.unique(i)", dimensions=2),
    *_alone(
        "m.kthvalue(a, 3)", "m.median(a, 1)", "m.nanmedian(a, 1)", "m.cumsum(a, 1)", "m.cumsum(a, 0)", dimensions=2
    ),
    *_alone(
        "m.cumprod(a, 1)", "m.cummax(a, 1)", "m.logcumsumexp(a, 1)", "m.aminmax(x)", "m.var_mean(a, 1)", dimensions=2
    ),
    *_alone(
        "m.gather(a, 1, picks[None])",
        "a.scatter(1, picks[None], 0.5)",
        "a.scatter_add(1, picks[None], a)",
        dimensions=2,
    ),
    *_alone("a.index_add(0, picks, a)", "a.index_copy(0, picks, a)", "a.index_fill(0, picks, 0.5)", dimensions=2),
    *_alone(
        "m.bincount(i)",
        "m.histc(x, 20)",
        "m.searchsorted(vector, x)",
        "m.bucketize(x, vector)",
        "m.isin(i, j[:5])",
        dimensions=2,
    ),
    *_alone(
        "m.tril(a)", "m.roll(a, 3, 0)", "a.repeat(2, 2)", "m.repeat_interleave(x, 2)", "m.tile(a, (2, 1))", dimensions=2
    ),
    *_alone(
        "m.multinomial(x, 5)",
        "m.bernoulli(x)",
        "x.exponential_()",
        "m.outer(vector, vector)",
        dimensions=2,
        most=100_000,
    ),
    # products
    *_alone("m.addmm(b, a, b)", "m.baddbmm(p, p, q)", "m.einsum('bij,bjk->bik', p, q)", "f.linear(a, b)", dimensions=2),
    *_alone("m.addcmul(x, y, z)", "m.addcdiv(x, y, z)", "m.lerp(x, y, 0.5)", "m.nan_to_num(x)", "m.hypot(x, y)"),
    # networks
    *_alone("f.layer_norm(a, (a.shape[1],))", "f.normalize(a)", "f.cosine_similarity(a, b)", dimensions=2),
    *_alone("f.rms_norm(a, (a.shape[1],))", "f.embedding(picks, a)", "f.one_hot(picks)", dimensions=2),
    *_alone("f.cross_entropy(a, picks)", "f.nll_loss(a, picks)", "f.mse_loss(x, y)", "f.l1_loss(x, y)", dimensions=2),
    *_alone("f.binary_cross_entropy(x, y)", "f.binary_cross_entropy_with_logits(x, y)", "f.smooth_l1_loss(x, y)"),
    *_alone("f.kl_div(x, y)", "f.huber_loss(x, y)"),
    *_alone(
        "f.batch_norm(image, None, None, training=True)",
        "f.group_norm(image, 2)",
        "f.instance_norm(image)",
        dimensions=2,
    ),
    *_alone("f.conv2d(image, filters)", "f.conv2d(image, filters, stride=2, padding=1)", dimensions=2),
    *_alone("f.conv_transpose2d(image, filters)", "f.conv1d(image[:, :, 0], filters[:, :, 0])", dimensions=2),
    *_alone("f.max_pool2d(image, 2)", "f.avg_pool2d(image, 2)", "f.adaptive_avg_pool2d(image, 1)", dimensions=2),
    *_alone(
        "f.adaptive_avg_pool2d(image, 3)", "f.max_pool2d(image, 3, 2, 1)", "f.pad(image, (1, 1, 1, 1))", dimensions=2
    ),
    *_alone("f.pad(image, (1, 1, 1, 1), mode='reflect')", "f.interpolate(image, scale_factor=2)", dimensions=2),
    *_alone("f.interpolate(image, scale_factor=2, mode='bilinear')", "f.pixel_shuffle(image, 2)", dimensions=2),
    *_alone("f.unfold(image, 3)", "f.scaled_dot_product_attention(p, q, q)", dimensions=2),
    *_alone("f.scaled_dot_product_attention(p, q, q, is_causal=True)", dimensions=2),
)
