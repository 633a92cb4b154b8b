"""What scikit-cuda finds in the place of CUDA's own libraries, which the simulator has not: it imports, products of
matrices and vectors are computed by NumPy, and other functions that would call a library are refused by name.

scikit-cuda itself is the installed one. ``pip install --no-deps scikit-cuda`` does that where PyCUDA cannot be built.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from functools import partial
from os import PathLike
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from .device_arithmetic import Region, queue
from .device_contexts import current_ordinal
from .linear_memory import address_of, from_device

LIBRARIES = {
    **dict.fromkeys(("skcuda.cuda", "skcuda.cudart", "skcuda.cudadrv"), "CUDA's runtime"),
    "skcuda.cublas": "cuBLAS",
    "skcuda.cufft": "cuFFT",
    "skcuda.cusolver": "cuSOLVER",
    "skcuda.cusparse": "cuSPARSE",
}
"""The modules of scikit-cuda that load a library when they are imported, and which."""
_CONSTANTS = {
    "CUFFT_R2C": 0x2A,
    "CUFFT_C2R": 0x2C,
    "CUFFT_C2C": 0x29,
    "CUFFT_D2Z": 0x6A,
    "CUFFT_Z2D": 0x6C,
    "CUFFT_Z2Z": 0x69,
    "CUFFT_FORWARD": -1,
    "CUFFT_INVERSE": 1,
    "CUFFT_COMPATIBILITY_NATIVE": 0,
    "CUFFT_COMPATIBILITY_FFTW_PADDING": 1,
    "CUFFT_COMPATIBILITY_FFTW_ASYMMETRIC": 2,
    "CUFFT_COMPATIBILITY_FFTW_ALL": 3,
}
_HANDLES = ("cublasCreate", "cublasDestroy", "cusolverDnCreate", "cusolverDnDestroy")
"""What ``skcuda.misc.init`` and ``shutdown`` call: there is nothing to prepare, nor to give up."""


def library(name: str) -> ModuleType:
    """A module in the place of one of ``LIBRARIES``. Raises AttributeError for what is asked of it and is no name of
    CUDA's.
    """
    module = ModuleType(name, f"In the place of scikit-cuda's {name}, which calls {LIBRARIES[name]}.")

    def find(wanted: str) -> Any:
        if wanted in _CONSTANTS:
            return _CONSTANTS[wanted]
        if wanted in _HANDLES:
            return lambda *_: 1
        if wanted == "cudaGetDevice":
            return current_ordinal
        if wanted in _PRODUCTS:
            return partial(_PRODUCTS[wanted], wanted)
        if wanted.endswith(("ERROR", "Error")):
            return type(wanted, (Exception,), {})
        if wanted.startswith(("cu", "CU")):
            return _refusing(f"{name}.{wanted}", LIBRARIES[name])
        raise AttributeError(f"cuplug has no {wanted!r} in the place of {name}")

    module.__getattr__ = find  # type: ignore[method-assign]
    return module


def _matrix(pointer: Any, kind: str, shape: tuple[int, int], apart: int) -> Region:
    """A matrix as cuBLAS has them: columns one behind the other, ``apart`` elements from one to the next."""
    dtype = np.dtype(kind)
    return Region(address_of(pointer), shape, dtype, (dtype.itemsize, int(apart) * dtype.itemsize))


def _gemm(
    name: str,
    handle: Any,  # noqa: ARG001 - as scikit-cuda's
    transa: str,
    transb: str,
    m: int,
    n: int,
    k: int,
    alpha: Any,
    a: Any,
    lda: int,
    b: Any,
    ldb: int,
    beta: Any,
    c: Any,
    ldc: int,
) -> None:
    """``c = alpha op(a) op(b) + beta c``. Raises DriverError if the device had failed before."""
    kind, ways = _KINDS[name[6]], (transa.lower(), transb.lower())
    left = _matrix(a, kind, (m, k) if ways[0] == "n" else (k, m), lda)
    right = _matrix(b, kind, (k, n) if ways[1] == "n" else (n, k), ldb)

    def work(out: Any, x: Any, y: Any) -> None:
        x, y = (_TURNED[way](each) for way, each in zip(ways, (x, y), strict=True))
        out[...] = alpha * (x @ y) + (beta * out if beta else 0)

    queue(name, work, [_matrix(c, kind, (m, n), ldc)], [left, right])


def _dot(name: str, handle: Any, n: int, x: Any, incx: int, y: Any, incy: int) -> Any:  # noqa: ARG001 - as scikit-cuda's
    """The product of two vectors, once all that was queued is done. Raises LaunchError for what that did."""
    kind = _KINDS[name[6]]
    rows = [from_device(each, (int(n) - 1) * apart + 1, kind)[::apart] for each, apart in ((x, incx), (y, incy))]
    return (np.vdot if name.endswith("c") else np.dot)(*rows)


_KINDS = {"S": "float32", "D": "float64", "C": "complex64", "Z": "complex128"}
_TURNED: dict[str, Callable[[Any], Any]] = {"n": np.asarray, "t": np.transpose, "c": lambda each: each.conj().T}
_PRODUCTS: dict[str, Callable[..., Any]] = {f"cublas{letter}gemm": _gemm for letter in _KINDS}
_PRODUCTS |= dict.fromkeys(
    ("cublasSdot", "cublasDdot", "cublasCdotu", "cublasCdotc", "cublasZdotu", "cublasZdotc"), _dot
)


def _refusing(name: str, of: str) -> Any:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(
            f"{name} calls {of}, which the simulator has not: compute it with NumPy, with cuplug's tensors, or on a GPU"
        )

    return refuse


class StandInDistribution(importlib.metadata.Distribution):
    """What ``importlib.metadata`` is told of PyCUDA where the stand-in is in its place."""

    def __init__(self, version: str) -> None:
        self._version = version

    def read_text(self, filename: str) -> str | None:
        """The file ``METADATA``; there are no others."""
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: pycuda\nVersion: {self._version}\nSummary: cuplug's stand-in\n"

    def locate_file(self, path: str | PathLike[str]) -> Any:
        """Nowhere: it is a part of cuplug."""
        return path

    @classmethod
    def found_as(cls, name: str | None, version: str) -> Iterator[StandInDistribution]:
        """It, if it is asked for by name, or everything is."""
        if name is None or name.lower() == "pycuda":
            yield cls(version)


def note_version(version: str) -> None:
    """Let ``pkg_resources`` know PyCUDA's version, too: scikit-cuda asks it for its own, and that of what it needs."""
    try:
        import pkg_resources  # type: ignore[import-not-found, unused-ignore]
    except ImportError:  # not installed, or a setuptools that has it no more
        return
    if "pycuda" not in pkg_resources.working_set.by_key:
        pkg_resources.working_set.add(
            pkg_resources.Distribution(project_name="pycuda", version=version, location=sys.prefix)
        )
