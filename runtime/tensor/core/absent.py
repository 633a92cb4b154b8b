"""What cuplug will not have, though torch does: each such name says so, and what to use instead."""

from __future__ import annotations

from typing import NoReturn

from ...facade.absent_modules import ABSENT_MODULES

_TRANSFORMS = "transformations of functions", "autograd.grad"
_COMPLEX = "complex numbers", "two tensors, of real and of imaginary parts"
_SPARSE = "sparse tensors", "index tensors with gather and scatter_add"
_QUANTISED = "quantised and 8-bit floating-point types", "int8 or uint8 with a scale of your own"
_COMPILED = "compilers of Python", "SourceModule, for kernels in CUDA C"
_ALGEBRA = "decompositions of matrices", "numpy.linalg on .cpu().numpy()"
_FOURIER = "Fourier transforms", "numpy.fft on .cpu().numpy()"
_SPECIAL = "special functions beyond those here", "scipy.special on .cpu().numpy()"
_NETWORKS = "functions of networks at the top", "cuplug.nn.functional"
_STATISTICS = "statistics beyond those here", "sort, cumsum and histc, or NumPy on .cpu().numpy()"
_RARE = "operations that few programs call", "those of the reference, or NumPy on .cpu().numpy()"
_DRAWN = "further distributions", "uniform_, normal_ and exponential_, or numpy.random"
_WINDOWS = "windows of signals", "scipy.signal.windows"
_SETTINGS = "switches of PyTorch's kernels", "what cuplug.backends has"
_STORAGES = "classes of storages", "Tensor.storage() and Tensor.untyped_storage()"

_RARE_OF_TENSORS = (
    *("apply_", "argwhere", "as_strided_scatter", "cross", "diagonal_scatter", "diff", "dist"),
    *("fill_diagonal_", "float_power", "float_power_", "frexp", "gcd", "gcd_", "ger", "heaviside", "heaviside_"),
    *("index_reduce", "index_reduce_", "isneginf", "isposinf", "isreal", "kron", "lcm", "lcm_", "ldexp", "ldexp_"),
    *("logaddexp", "logaddexp2", "map_", "map2_", "matrix_exp", "matrix_power", "narrow_copy", "nextafter"),
    *("nextafter_", "nonzero_static", "put", "renorm", "renorm_", "rot90", "select_scatter", "sgn", "sgn_"),
    *("slice_scatter", "split_with_sizes", "sum_to_size"),
)
_SPECIAL_NAMES = (
    *("digamma", "erfinv", "i0", "igamma", "igammac", "lgamma", "logit", "mvlgamma", "polygamma", "sinc", "xlogy"),
)
_STATISTICS_NAMES = "corrcoef", "cov", "histogram", "mode", "nanquantile", "quantile"
_DRAWN_NAMES = "cauchy_", "geometric_", "log_normal_"
_ALGEBRA_NAMES = (
    *("cholesky", "cholesky_inverse", "cholesky_solve", "det", "eig", "geqrf", "inverse", "logdet", "lstsq", "lu"),
    *("lu_solve", "orgqr", "ormqr", "pinverse", "qr", "slogdet", "solve", "svd", "symeig", "triangular_solve"),
)

ABSENT: dict[str, tuple[str, str]] = {
    **{path: reason for path, reason in ABSENT_MODULES.items() if "." not in path},
    "vmap": _TRANSFORMS,
    **dict.fromkeys(("complex", "complex32", "complex64", "complex128", "cfloat", "cdouble"), _COMPLEX),
    **dict.fromkeys(("polar", "view_as_real", "view_as_complex", "real", "imag", "angle"), _COMPLEX),
    **dict.fromkeys(("sparse_coo", "sparse_csr", "sparse_coo_tensor", "sparse_csr_tensor"), _SPARSE),
    **dict.fromkeys(("qint8", "quint8", "qint32", "quantize_per_tensor"), _QUANTISED),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), _QUANTISED),
    **dict.fromkeys(("ops", "classes"), _COMPILED),
    **dict.fromkeys((*_ALGEBRA_NAMES, "lobpcg", "lu_unpack", "pca_lowrank", "svd_lowrank"), _ALGEBRA),
    **dict.fromkeys(("stft", "istft"), _FOURIER),
    **dict.fromkeys(_SPECIAL_NAMES, _SPECIAL),
    **dict.fromkeys((*_STATISTICS_NAMES, "histogramdd"), _STATISTICS),
    **dict.fromkeys(("binomial", "poisson", "quasirandom"), _DRAWN),
    **dict.fromkeys([f"{each}_window" for each in ("bartlett", "blackman", "hamming", "hann", "kaiser")], _WINDOWS),
    **dict.fromkeys(
        (
            *(each for each in _RARE_OF_TENSORS if not each.endswith("_") and each != "sum_to_size"),
            *("block_diag", "cartesian_prod", "chain_matmul", "combinations"),
            *("cumulative_trapezoid", "fill", "gradient", "logspace", "pdist", "range", "rsub", "segment_reduce"),
            *("trapezoid", "trapz", "unravel_index", "vander"),
        ),
        _RARE,
    ),
    **dict.fromkeys(
        (
            *("adaptive_avg_pool1d", "adaptive_max_pool1d", "alpha_dropout", "avg_pool1d", "batch_norm", "bilinear"),
            *("celu", "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d"),
            *("conv_transpose3d", "cosine_similarity", "dropout", "embedding", "group_norm", "gru", "gru_cell"),
            *("hardshrink", "instance_norm", "layer_norm", "lstm", "lstm_cell", "max_pool1d", "max_pool2d"),
            *("max_pool3d", "pairwise_distance", "pixel_shuffle", "pixel_unshuffle", "prelu", "rms_norm", "rrelu"),
            *("selu", "threshold"),
        ),
        _NETWORKS,
    ),
    **dict.fromkeys(
        (
            *("get_num_threads", "set_num_threads", "set_flush_denormal"),
            *("set_default_tensor_type", "set_warn_always"),
        ),
        _SETTINGS,
    ),
    **dict.fromkeys(("TypedStorage", "FloatStorage", "ByteStorage", "UntypedStorage"), _STORAGES),
}
"""Names of the package: what they belong to, and what to use."""

ABSENT_OF_TENSORS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("real", "imag", "angle", "cfloat", "cdouble"), _COMPLEX),
    **dict.fromkeys(("to_sparse", "to_dense", "coalesce", "indices", "values", "sparse_mask"), _SPARSE),
    **dict.fromkeys([f"to_sparse_{each}" for each in ("bsc", "bsr", "coo", "csc", "csr")], _SPARSE),
    **dict.fromkeys(("is_coalesced", "sparse_dim", "dense_dim", "crow_indices", "col_indices"), _SPARSE),
    **dict.fromkeys(("dequantize", "q_scale", "q_zero_point", "int_repr"), _QUANTISED),
    **dict.fromkeys(_ALGEBRA_NAMES, _ALGEBRA),
    **dict.fromkeys(_SPECIAL_NAMES, _SPECIAL),
    **dict.fromkeys([f"{each}_" for each in _SPECIAL_NAMES], _SPECIAL),
    **dict.fromkeys(_STATISTICS_NAMES, _STATISTICS),
    **dict.fromkeys(_DRAWN_NAMES, _DRAWN),
    **dict.fromkeys(_RARE_OF_TENSORS, _RARE),
}
"""Attributes of tensors."""

ABSENT_OF_CUDA: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("CUDAGraph", "graph", "graph_pool_handle", "make_graphed_callables"),
        ("CUDA graphs", "prepared launches"),
    ),
    **dict.fromkeys(
        ("jiterator", "sparse", "tunable", "gds", "GreenContext", "green_contexts"),
        ("PyTorch's own extensions of CUDA", "SourceModule"),
    ),
    **dict.fromkeys(
        ("CUDAPluggableAllocator", "change_current_allocator", "MemPool", "use_mem_pool"),
        ("PyTorch's switches of allocators", "cuplug.init(allocator=...), or a plugin of your own"),
    ),
    **dict.fromkeys(
        ("get_sync_debug_mode", "set_sync_debug_mode"),
        ("warnings of calls that wait", 'the simulator with driver="sim:schedule=lazy"'),
    ),
    **dict.fromkeys(
        ("current_blas_handle", "current_solver_handle", "get_arch_list", "get_gencode_flags"),
        ("what PyTorch's own kernels were compiled for and with", "SourceModule, which compiles for the device"),
    ),
}
"""Names of ``cuplug.cuda``."""


class AbsentAttribute:
    """Stands in a class for an attribute that torch's has and cuplug's has not: whoever asks for it is told why.

    With a method ``__getattr__`` in its place the interpreter would look up each attribute of a tensor the slow way.
    """

    def __init__(self, name: str, table: dict[str, tuple[str, str]]) -> None:
        self._name, self._reason = name, why_absent(name, table)

    def __get__(self, owner: object, kind: type | None = None) -> NoReturn:
        raise AttributeError(self._reason, name=self._name, obj=kind if owner is None else owner)


def why_absent(name: str, table: dict[str, tuple[str, str]]) -> str:
    """Why a name is missing, as a sentence; empty if it is none of the table."""
    found = table.get(name)
    return "" if found is None else f"{name} is not part of cuplug: {found[0]} are left out; use {found[1]}"
