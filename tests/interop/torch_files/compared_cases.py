"""Cases that compare tensors by tolerance, and tensors of numbers that are the same under both libraries."""

# ruff: noqa: PT009 - the cases are unittest's, and their comparison goes by tolerance

from __future__ import annotations

import contextlib
import math
import random
import sys
import textwrap
import unittest
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

__all__ = ["TestCase", "assert_close", "make_tensor", "warn_always"]

SEED = 1234
_numbers = np.random.default_rng(SEED)


def _tolerances(*dtypes: Any) -> tuple[float, float]:
    """Relative and absolute, as ``torch.testing.assert_close`` documents them; the larger ones of several types."""
    table = {
        "float16": (1e-3, 1e-5),
        "bfloat16": (1.6e-2, 1e-5),
        "float32": (1.3e-6, 1e-5),
        "complex64": (1.3e-6, 1e-5),
        "float64": (1e-7, 1e-7),
        "complex128": (1e-7, 1e-7),
    }
    found = [table.get(str(each).rpartition(".")[2], (0.0, 0.0)) for each in dtypes]
    return max(each[0] for each in found), max(each[1] for each in found)


def _array(value: Any) -> Any:
    torch = sys.modules["torch"]
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    value = value.detach()
    if getattr(value, "is_quantized", False):
        value = value.dequantize()
    if getattr(value, "is_sparse", False):
        value = value.to_dense()
    value = value.cpu()
    if value.dtype.is_complex:
        return value.resolve_conj().resolve_neg().numpy()
    return (value.double() if value.dtype.is_floating_point else value).numpy()


def _dtype_name(value: Any) -> str:
    return str(value.dtype).rpartition(".")[2]


class _Comparison:
    """Whether two values are equal to a test, and in what they are not."""

    def __init__(self, rtol: float | None, atol: float | None, least: tuple[float, float], exact: bool, nan: bool):
        if (rtol is None) != (atol is None):
            raise ValueError("rtol and atol are given both or neither")
        self._given = None if rtol is None or atol is None else (rtol, atol)
        self._least, self._exact, self._nan = least, exact, nan

    def difference(self, x: Any, y: Any, stride: bool = False) -> str | None:
        torch = sys.modules["torch"]
        arrays = (torch.Tensor, np.ndarray, np.generic)
        if isinstance(x, arrays) and isinstance(y, arrays):
            return self._tensors(x, y, self._exact, stride)
        for one, other in ((x, y), (y, x)):
            if isinstance(one, arrays) and isinstance(other, (Number, Sequence)) and not isinstance(other, str):
                if isinstance(other, Number) and _array(one).size == 1:
                    return self._tensors(_array(x).reshape(()), _array(y).reshape(()), False, False)
                other_array = np.asarray([_array(each) for each in other] if isinstance(other, Sequence) else other)
                return self._tensors(one, other_array, False, False)
        if isinstance(x, (str, bytes, bool)) or isinstance(y, (str, bytes, bool)):
            return None if x == y else f"{x!r} is not {y!r}"
        if isinstance(x, Number) and isinstance(y, Number):
            return self._tensors(np.asarray(x), np.asarray(y), False, False)
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            if set(x) != set(y):
                return f"keys {list(x)} are not {list(y)}"
            return next(filter(None, (self.difference(x[key], y[key]) for key in x)), None)
        if isinstance(x, Sequence) and isinstance(y, Sequence):
            if len(x) != len(y):
                return f"{len(x)} items, not {len(y)}: {x!r} and {y!r}"
            return next(filter(None, (self.difference(*pair) for pair in zip(x, y, strict=True))), None)
        return None if x == y else f"{x!r} is not {y!r}"

    def _tensors(self, x: Any, y: Any, exact: bool, stride: bool) -> str | None:
        if exact and _dtype_name(x) != _dtype_name(y):
            return f"dtype {x.dtype} is not {y.dtype}"
        if tuple(x.shape) != tuple(y.shape):
            return f"shape {tuple(x.shape)} is not {tuple(y.shape)}"
        if stride and x.stride() != y.stride():
            return f"stride {x.stride()} is not {y.stride()}"
        rtol, atol = self._given or _tolerances(x.dtype, y.dtype)
        rtol, atol = max(rtol, self._least[0]), max(atol, self._least[1])
        a, b = _array(x), _array(y)
        if a.dtype.kind not in "fciub" or b.dtype.kind not in "fciub":
            return None if np.array_equal(a, b) else f"{x!r} is not {y!r}"
        if not rtol and not atol:
            alike = np.equal(a, b) | (self._nan & np.not_equal(a, a) & np.not_equal(b, b))
        else:
            alike = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=self._nan)
        if np.all(alike):
            return None
        return f"{np.size(alike) - np.count_nonzero(alike)} of {np.size(alike)} values differ: {x!r} and {y!r}"


class TestCase(unittest.TestCase):
    """A case that compares tensors by tolerance, and begins with the same seeds."""

    precision = 0.0
    rel_tol = 0.0
    device_type = "cpu"
    maxDiff = None

    def setUp(self) -> None:
        global _numbers
        torch = sys.modules["torch"]
        torch.manual_seed(SEED)
        random.seed(SEED)
        np.random.seed(SEED)
        _numbers = np.random.default_rng(SEED)

    def _difference(
        self,
        x: Any,
        y: Any,
        *,
        atol: float | None = None,
        rtol: float | None = None,
        equal_nan: bool = True,
        exact_dtype: bool = True,
        exact_stride: bool = False,
        **_: Any,
    ) -> str | None:
        given = _Comparison(rtol, atol, (self.rel_tol, self.precision), exact_dtype, equal_nan)
        return given.difference(x, y, exact_stride)

    def assertEqual(self, first: Any, second: Any, msg: Any = None, **how: Any) -> None:
        found = self._difference(first, second, **how)
        if found:
            self.fail(f"{found} ({msg() if callable(msg) and not isinstance(msg, str) else msg})")

    def assertNotEqual(self, first: Any, second: Any, msg: Any = None, **how: Any) -> None:
        if self._difference(first, second, **how) is None:
            self.fail(msg or f"{first!r} equals {second!r}")

    def assertEqualTypeString(self, x: Any, y: Any) -> None:
        self.assertEqual(x.device, y.device)
        self.assertEqual(x.dtype, y.dtype)
        self.assertEqual(x.is_sparse, y.is_sparse)

    def assertEqualIgnoreType(self, *given: Any, **how: Any) -> None:
        self.assertEqual(*given, exact_dtype=False, **how)

    def assertEqualBroadcasting(self, x: Any, y: Any, *given: Any, **how: Any) -> None:
        torch = sys.modules["torch"]
        x = x if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=y.dtype)
        y = y if isinstance(y, torch.Tensor) else torch.tensor(y, dtype=x.dtype)
        self.assertEqual(*torch.broadcast_tensors(x, y), *given, **how)

    def assertExpectedInline(self, actual: Any, expect: str, skip: int = 0) -> None:
        shown = actual if isinstance(actual, str) else repr(actual)
        self.assertEqual(shown.strip(), textwrap.dedent(expect).strip())

    def assertObjectIn(self, member: Any, container: Iterable[Any]) -> None:
        self.assertTrue(any(each is member for each in container))

    def compare_with_numpy(
        self, torch_fn: Any, np_fn: Any, tensor_like: Any, device: Any = None, dtype: Any = None, **how: Any
    ) -> None:
        torch = sys.modules["torch"]
        if isinstance(tensor_like, torch.Tensor):
            tensor = tensor_like
        else:
            tensor = torch.tensor(tensor_like, device=device, dtype=dtype)
        plain = tensor.detach().cpu()
        array = (plain.float() if plain.dtype is torch.bfloat16 else plain).numpy()
        theirs, ours = np_fn(array), torch_fn(tensor).cpu()
        if isinstance(theirs, np.ndarray):
            theirs = torch.from_numpy(theirs.copy())
            if ours.dtype is torch.bfloat16 and theirs.dtype is torch.float:
                ours = ours.float()
        self.assertEqual(theirs, ours, **how)

    @contextlib.contextmanager
    def assertWarnsOnceRegex(self, category: Any, regex: str = "") -> Iterator[None]:
        with warn_always(True), self.assertWarnsRegex(category, regex):
            yield

    @contextlib.contextmanager
    def maybeWarnsRegex(self, category: Any, regex: str = "") -> Iterator[None]:
        with warnings.catch_warnings(record=True):
            yield

    @contextlib.contextmanager
    def _no_warning(self) -> Iterator[None]:
        with warnings.catch_warnings(record=True) as seen, warn_always(True):
            warnings.simplefilter("always")
            yield
        self.assertEqual([str(each.message) for each in seen], [])

    def assertNotWarn(self, function: Callable[[], Any], msg: str = "") -> None:
        with self._no_warning():
            function()


@contextlib.contextmanager
def warn_always(always: bool) -> Iterator[None]:
    torch = sys.modules["torch"]
    if not hasattr(torch, "set_warn_always"):
        yield
        return
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(always)
    try:
        yield
    finally:
        torch.set_warn_always(before)


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any = "cpu",
    low: Any = None,
    high: Any = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor of numbers that are the same under both libraries."""
    torch = sys.modules["torch"]
    size = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else tuple(shape)
    name = str(dtype).rpartition(".")[2]
    if dtype is torch.bool:
        values = _numbers.integers(0, 2, size).astype(bool)
    elif dtype.is_floating_point or dtype.is_complex:
        low, high = -9 if low is None else max(low, -1e30), 9 if high is None else min(high, 1e30)
        values = _numbers.uniform(low, high, size)
        if dtype.is_complex:
            values = values + 1j * _numbers.uniform(low, high, size)
    else:
        limits = torch.iinfo(dtype)
        low = math.ceil(max(limits.min, (-9 if limits.min else 0) if low is None else low))
        high = math.ceil(min(limits.max, 10 if high is None else high))
        values = _numbers.integers(low, max(high, low + 1), size)
    if exclude_zero:
        values = np.where(values == 0, values + 1, values)
    made = torch.tensor(values).to(dtype) if name == "complex32" else torch.tensor(values.tolist(), dtype=dtype)
    made = made.reshape(size).to(device)
    if noncontiguous and made.numel() > 1:
        made = torch.repeat_interleave(made, 2, dim=-1)[..., ::2]
    elif memory_format is not None:
        made = made.clone(memory_format=memory_format)
    return made.requires_grad_(requires_grad)


def assert_close(actual: Any, expected: Any, **how: Any) -> None:
    how["exact_dtype"] = how.pop("check_dtype", True)
    how.setdefault("equal_nan", False)
    TestCase().assertEqual(actual, expected, how.pop("msg", None), **how)
