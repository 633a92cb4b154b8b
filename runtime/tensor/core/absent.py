"""What cuplug will not have, though torch does: each such name says so, and what to use instead."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["ABSENT", "ABSENT_OF_TENSORS", "AbsentAttribute", "why_absent"]

_TRANSFORMS = "transformations of functions", "autograd.grad"
_COMPLEX = "complex numbers", "two tensors, of real and of imaginary parts"
_SPARSE = "sparse tensors", "index tensors with gather and scatter_add"
_QUANTISED = "quantised and 8-bit floating-point types", "int8 or uint8 with a scale of your own"
_COMPILED = "compilers of Python", "SourceModule, for kernels in CUDA C"
_SEVERAL = "several processes on several GPUs", "PyTorch on cuplug's memory: cuplug.interop"
_ALGEBRA = "decompositions of matrices", "numpy.linalg on .cpu().numpy()"
_FOURIER = "Fourier transforms", "numpy.fft on .cpu().numpy()"

ABSENT: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("func", "vmap"), _TRANSFORMS),
    **dict.fromkeys(("complex", "complex32", "complex64", "complex128", "cfloat", "cdouble"), _COMPLEX),
    **dict.fromkeys(("polar", "view_as_real", "view_as_complex", "real", "imag", "angle", "conj"), _COMPLEX),
    **dict.fromkeys(("sparse", "sparse_coo", "sparse_csr", "sparse_coo_tensor", "sparse_csr_tensor"), _SPARSE),
    **dict.fromkeys(("qint8", "quint8", "qint32", "quantize_per_tensor", "quantization", "ao"), _QUANTISED),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), _QUANTISED),
    **dict.fromkeys(("compile", "jit", "fx", "export", "onnx", "library", "ops", "classes", "_dynamo"), _COMPILED),
    **dict.fromkeys(("distributed", "multiprocessing"), _SEVERAL),
    **dict.fromkeys(("svd", "qr", "cholesky", "inverse", "det", "slogdet", "pinverse", "lu"), _ALGEBRA),
    **dict.fromkeys(("fft", "stft", "istft"), _FOURIER),
}
"""Names of the package: what they belong to, and what to use."""

ABSENT_OF_TENSORS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("real", "imag", "angle", "conj", "cfloat", "cdouble"), _COMPLEX),
    **dict.fromkeys(("to_sparse", "to_dense", "coalesce", "indices", "values", "sparse_mask"), _SPARSE),
    **dict.fromkeys(("dequantize", "q_scale", "q_zero_point", "int_repr"), _QUANTISED),
    **dict.fromkeys(("svd", "qr", "cholesky", "inverse", "det", "slogdet", "pinverse", "lu"), _ALGEBRA),
}
"""Attributes of tensors."""


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
