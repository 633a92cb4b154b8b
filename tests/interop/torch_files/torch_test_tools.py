"""What PyTorch's own test files import of PyTorch's tools for tests, small enough to stand on cuplug, too.

The files of ``pytorch/test`` import ``torch.testing._internal.common_utils`` and its kin, which need the whole of
PyTorch. These stand in for them, under both libraries alike: cases that compare by tolerance, parameters, types of
elements, one device (the CPU). A tool that is not here skips the tests that need it, under both libraries, so that they
are not counted.
"""

# ruff: noqa: PT009 - the cases are unittest's, and their comparison goes by tolerance

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import io
import itertools
import math
import os
import random
import sys
import tempfile
import textwrap
import types
import unittest
import unittest.mock
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Marker", "TestCase", "install", "loading"]

loading = {"now": True}
"""Whether a file of tests is being read: what is missing may then be named, and is refused when a test uses it."""

SEED = 1234
_numbers = np.random.default_rng(SEED)


class Marker:
    """Stands for a name that is not there while a file is read; a test that uses it ends as ``refuse`` says."""

    __spec__, __name__ = None, "a name that is not there"  # what the import system asks of a module

    def __init__(self, name: str, refuse: Callable[[str], BaseException]) -> None:
        self.name, self._refuse = name, refuse

    def _used(self, name: str | None = None) -> Any:
        if not loading["now"]:
            raise self._refuse(name or self.name)
        return Marker(name or self.name, self._refuse)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._used(f"{self.name}.{name}")

    def __call__(self, *given: Any, **named: Any) -> Any:
        if loading["now"] and len(given) == 1 and not named and inspect.isfunction(given[0]):
            return self._instead_of(given[0])  # it was to decorate a test, or to make a decorator
        return self._used()

    def _instead_of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def refused(*given: Any, **named: Any) -> Any:
            raise self._refuse(self.name)

        return refused

    def __repr__(self) -> str:
        return f"{self.name} is not part of cuplug"  # what an error says that names an argument

    def __mro_entries__(self, bases: object) -> tuple[type, ...]:
        marker = self

        class Refused:
            def __init__(self, *given: Any, **named: Any) -> None:
                raise marker._refuse(marker.name)

        return (Refused,)

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        if not loading["now"]:
            raise self._refuse(self.name)
        return iter(())

    def __add__(self, other: Any) -> Any:
        return other

    __radd__ = __or__ = __ror__ = __add__


def _tool_is_not_here(name: str) -> Marker:
    return Marker(name, lambda name: unittest.SkipTest(f"needs {name} of PyTorch's tools for tests"))


def _as_it_is(*given: Any, **_: Any) -> Any:
    """A decorator that changes nothing, with arguments or without: what it asks for does not concern a CPU."""
    if len(given) == 1 and (inspect.isfunction(given[0]) or inspect.isclass(given[0])):
        return given[0]
    return lambda function: function


def _left_out(why: str) -> Callable[..., Any]:
    """A decorator that skips, with arguments or without."""

    def decorate(*given: Any, **_: Any) -> Any:
        if len(given) == 1 and (inspect.isfunction(given[0]) or inspect.isclass(given[0])):
            return unittest.skip(why)(given[0])
        return unittest.skip(why)

    return decorate


# Comparing


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
        with _warn_always(True), self.assertWarnsRegex(category, regex):
            yield

    @contextlib.contextmanager
    def maybeWarnsRegex(self, category: Any, regex: str = "") -> Iterator[None]:
        with warnings.catch_warnings(record=True):
            yield

    @contextlib.contextmanager
    def _no_warning(self) -> Iterator[None]:
        with warnings.catch_warnings(record=True) as seen, _warn_always(True):
            warnings.simplefilter("always")
            yield
        self.assertEqual([str(each.message) for each in seen], [])

    def assertNotWarn(self, function: Callable[[], Any], msg: str = "") -> None:
        with self._no_warning():
            function()


@contextlib.contextmanager
def _warn_always(always: bool) -> Iterator[None]:
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


# Parameters of tests


class subtest:
    """The values of one test among several of ``parametrize``, with a name and decorators of its own."""

    def __init__(self, arg_values: Any, name: str | None = None, decorators: Iterable[Any] | None = None) -> None:
        self.arg_values, self.name, self.decorators = arg_values, name, list(decorators or ())


class parametrize:
    """Make one test for each of these values. Several multiply."""

    def __init__(self, arg_str: str, arg_values: Any, name_fn: Callable[..., str] | None = None) -> None:
        self._names = [each.strip() for each in arg_str.split(",") if each.strip()]
        self._values, self._name = arg_values, name_fn

    def __call__(self, function: Any) -> Any:
        function.parameters = [self, *getattr(function, "parameters", ())]
        return function

    def each(self) -> Iterator[tuple[str, dict[str, Any], list[Any]]]:
        for number, value in enumerate(self._values):
            decorators, name = [], None
            if isinstance(value, subtest):
                value, decorators, name = value.arg_values, value.decorators, value.name
            values = list(value) if len(self._names) > 1 else [value]
            if name is None and self._name is not None:
                name = self._name(*values)
            if name is None:
                name = "_".join(self._shown(*pair, number) for pair in zip(self._names, values, strict=True))
            yield name, dict(zip(self._names, values, strict=True)), decorators

    @staticmethod
    def _shown(name: str, value: Any, number: int) -> str:
        if isinstance(value, (bool, int, float, str)) or value is None or isinstance(value, Marker):
            return f"{name}_{value.name if isinstance(value, Marker) else value}".replace(".", "_")
        torch = sys.modules["torch"]
        if isinstance(value, torch.dtype):
            return f"{name}_{str(value).rpartition('.')[2]}"
        return f"{name}_{value.__name__}" if inspect.isclass(value) else f"{name}{number}"


def _each_of(function: Any) -> Iterator[tuple[str, dict[str, Any], list[Any]]]:
    """For each test that parameters make of one: what is added to its name, its arguments and its decorators."""
    for found in itertools.product(*(each.each() for each in getattr(function, "parameters", ()))):
        names = [name for name, _, _ in found if name]
        yield (
            "".join(f"_{name}" for name in names),
            {key: value for _, arguments, _ in found for key, value in arguments.items()},
            [each for _, _, decorators in found for each in decorators],
        )


def _bound(function: Any, name: str, decorators: list[Any], **named: Any) -> Any:
    @functools.wraps(function)
    def test(self: Any) -> Any:
        return function(self, **named)

    test.__name__ = name
    del test.__wrapped__  # type: ignore[attr-defined] # its arguments are not the test's any more
    for each in decorators:
        test = each(test)
    return test


def instantiate_parametrized_tests(cls: Any) -> Any:
    """Replace each test of the class that has parameters by those that they make of it."""
    for name, function in list(vars(cls).items()):
        if name.startswith("test") and getattr(function, "parameters", None):
            delattr(cls, name)
            for suffix, named, decorators in _each_of(function):
                setattr(cls, name + suffix, _bound(function, name + suffix, decorators, **named))
    return cls


def _of_types(attribute: str) -> Callable[..., Any]:
    def decorator(*given: Any) -> Any:
        def decorate(function: Any) -> Any:
            setattr(function, attribute, list(given))
            return function

        return decorate

    return decorator


_ALIASES = {"cfloat": "complex64", "cdouble": "complex128", "chalf": "complex32"}


def _type_name(dtype: Any) -> str:
    if isinstance(dtype, (tuple, list)):
        return "_".join(map(_type_name, dtype))
    name = dtype.name if isinstance(dtype, Marker) else str(dtype)
    return _ALIASES.get(name.rpartition(".")[2], name.rpartition(".")[2])


def instantiate_device_type_tests(generic: Any, scope: dict[str, Any], only_for: Any = None, **_: Any) -> None:
    """In place of a class whose tests take a device and types, one whose tests have them: for the CPU."""
    del scope[generic.__name__]
    if only_for is not None and "cpu" not in ([only_for] if isinstance(only_for, str) else only_for):
        return
    made: dict[str, Any] = {"__module__": generic.__module__}
    for name in dir(generic):
        function = getattr(generic, name)
        if not name.startswith("test") or not callable(function):
            continue
        made[name] = None
        types_ = getattr(function, "dtypes_of_cpu", None) or getattr(function, "dtypes_of_all", None) or [None]
        for (suffix, named, decorators), dtype in itertools.product(_each_of(function), types_):
            if dtype is not None:
                named = {**named, "dtypes" if isinstance(dtype, (tuple, list)) else "dtype": dtype}
            full = f"{name}{suffix}_cpu" + ("" if dtype is None else f"_{_type_name(dtype)}")
            for one, value in (("device", "cpu"), ("devices", ["cpu"])):
                if one in inspect.signature(function).parameters:
                    named = {one: value, **named}
            checked = _refusing_markers(_with_tolerances(function, dtype), dtype)
            made[full] = _bound(checked, full, decorators, **named)
    made["get_primary_device"] = classmethod(lambda cls: "cpu")
    made["get_all_devices"] = classmethod(lambda cls: ["cpu"])
    scope[f"{generic.__name__}CPU"] = type(f"{generic.__name__}CPU", (generic,), made)


def _refusing_markers(function: Any, dtype: Any) -> Any:
    missing = [each for each in (dtype if isinstance(dtype, (tuple, list)) else [dtype]) if isinstance(each, Marker)]
    if not missing:
        return function
    return functools.wraps(function)(lambda *_, **__: missing[0]())


def _with_tolerances(function: Any, dtype: Any) -> Any:
    precision = getattr(function, "precision_overrides", {}).get(dtype) if not isinstance(dtype, list) else None
    both = getattr(function, "tolerance_overrides", {}).get(dtype) if not isinstance(dtype, list) else None
    if precision is None and both is None:
        return function

    @functools.wraps(function)
    def test(self: Any, *given: Any, **named: Any) -> Any:
        self.precision, self.rel_tol = (both.atol, both.rtol) if both is not None else (precision, precision)
        return function(self, *given, **named)

    return test


class tol(NamedTuple):
    """The tolerances of one type of elements."""

    atol: float
    rtol: float


def _overriding(attribute: str) -> Callable[..., Any]:
    def decorator(table: Any) -> Any:
        def decorate(function: Any) -> Any:
            setattr(function, attribute, table)
            return function

        return decorate

    return decorator


def deviceCountAtLeast(count: int) -> Any:
    """The test takes the list of devices; here there is one."""
    return _left_out("there is one device") if count > 1 else _as_it_is


# Values


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


def _assert_close(actual: Any, expected: Any, **how: Any) -> None:
    how["exact_dtype"] = how.pop("check_dtype", True)
    how.setdefault("equal_nan", False)
    TestCase().assertEqual(actual, expected, how.pop("msg", None), **how)


def _types(*names: str) -> tuple[Any, ...]:
    torch = sys.modules["torch"]
    return tuple(getattr(torch, name) for name in names)


def _common_dtypes() -> dict[str, Any]:
    floating, complex_ = _types("float32", "float64"), _types("complex64", "complex128")
    integral = _types("uint8", "int8", "int16", "int32", "int64")
    half, bfloat16, bool_ = _types("float16", "bfloat16", "bool")
    groups = {
        "floating_types": floating,
        "complex_types": complex_,
        "integral_types": integral,
        "all_types": floating + integral,
        "floating_and_complex_types": floating + complex_,
        "all_types_and_complex": floating + integral + complex_,
        "double_types": (floating[1], complex_[1]),
    }
    found: dict[str, Any] = {name: functools.partial(tuple, group) for name, group in groups.items()}
    for name, group in groups.items():
        found[f"{name}_and"] = functools.partial(lambda group, *more: tuple(group) + more, group)
    found["floating_types_and_half"] = lambda: (*floating, half)

    def every(
        include_half: bool = True,
        include_bfloat16: bool = True,
        include_bool: bool = True,
        include_complex: bool = True,
        include_complex32: bool = False,
    ) -> list[Any]:
        assert not include_complex32, "no test asks for it"
        wanted = [*integral, *floating, *((bool_,) if include_bool else ()), *((half,) if include_half else ())]
        return [*wanted, *((bfloat16,) if include_bfloat16 else ()), *(complex_ if include_complex else ())]

    found["get_all_dtypes"] = every
    found["get_all_math_dtypes"] = lambda device: [*integral, *floating, *complex_]
    found["get_all_int_dtypes"] = lambda: list(integral)
    found["get_all_complex_dtypes"] = lambda: list(complex_)
    found["get_all_fp_dtypes"] = lambda: [*floating, half, bfloat16]
    return found


# Settings


def _restoring(get: Callable[[], Any], put: Callable[[Any], Any]) -> Callable[..., Any]:
    @contextlib.contextmanager
    def context(*value: Any) -> Iterator[None]:
        before = get()
        try:
            if value:
                put(value[0])
            yield
        finally:
            put(before)

    return context


class _Deterministic:
    def __init__(self, enabled: bool, *, warn_only: bool = False, **_: Any) -> None:
        self._wanted = enabled, warn_only

    def __enter__(self) -> None:
        torch = sys.modules["torch"]
        self._before = (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        )
        torch.use_deterministic_algorithms(self._wanted[0], warn_only=self._wanted[1])

    def __exit__(self, *_: object) -> None:
        sys.modules["torch"].use_deterministic_algorithms(self._before[0], warn_only=self._before[1])


@contextlib.contextmanager
def _temporary_file(*_: Any, **named: Any) -> Iterator[str]:
    handle, path = tempfile.mkstemp(**named)
    os.close(handle)
    try:
        yield path
    finally:
        os.unlink(path)


@contextlib.contextmanager
def _temporary_folder(suffix: str | None = None) -> Iterator[str]:
    with tempfile.TemporaryDirectory(suffix=suffix) as path:
        yield path


def _quietly(function: Any) -> Any:
    @functools.wraps(function)
    def quiet(*given: Any, **named: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*given, **named)

    return quiet


# Networks


def _create_basic_net() -> tuple[Any, Any, Any]:
    torch = sys.modules["torch"]
    nn = torch.nn

    class Layer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer_dummy_param = nn.Parameter(torch.empty(3, 5))
            self.register_buffer("layer_dummy_buf", torch.zeros(1, 3, 3, 7))

    class Net(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.l1 = Layer()
            self.dummy_param = nn.Parameter(torch.empty(3, 5))
            self.register_buffer("dummy_buf", torch.zeros(7, 3, 3, 1))

    net = Net()
    return Layer(), net, nn.Sequential(net, net)


def _with_empty_input(case: Any, module: Any, given: Any, check_size: bool = True, inference: bool = False) -> None:
    torch = sys.modules["torch"]
    given.requires_grad_(not inference)
    out = module(given)
    if check_size:
        case.assertEqual(out.size(), given.size())
    if not inference:
        out.backward(torch.rand_like(out))
        for each in (*(each for each in module.parameters() if each.requires_grad), given):
            case.assertEqual(each.grad, torch.zeros_like(each))


class _OfTheTable:
    """A test that PyTorch's table of modules describes: what runs these is not here."""

    _numbers = itertools.count()

    def __init__(self, **_: Any) -> None:
        self._number = next(self._numbers)

    def get_name(self) -> str:
        return f"test_of_the_table_{self._number}"

    def __call__(self, case: unittest.TestCase) -> None:
        case.skipTest("needs the table of modules")

    test_cuda = __call__


class _AbsentTools(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds each module of PyTorch's tools that has no stand-in: what is asked of it is a tool that is not here."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname.startswith("torch.testing._internal."):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _module(name: str, **names: Any) -> types.ModuleType:
    made = types.ModuleType(name)
    made.__dict__.update(names)
    made.__path__ = []
    made.__dict__["__getattr__"] = lambda missing: _absent_tool(name, missing)
    sys.modules[name] = made
    above, _, last = name.rpartition(".")
    setattr(sys.modules[above], last, made)
    return made


def _absent_tool(module: str, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return _tool_is_not_here(f"{module}.{name}".removeprefix("torch.testing._internal."))


_CHANGING_NOTHING = (
    *("gcIfJetson", "markDynamoStrictTest", "serialTest", "skipCUDAMemoryLeakCheckIf", "skipIfCrossRef", "skipIfMps"),
    *("skipIfNoLapack", "skipIfNotMiopenSuggestNHWC", "skipIfRocm", "skipIfRocmVersionLessThan", "skipIfTorchDynamo"),
    *("skipIfTorchInductor", "skipRocmIfTorchInductor", "xfailIfTorchDynamo", "wrapDeterministicFlagAPITest"),
    *("skipIfXpu", "xfailIf", "swap"),
)
_CHANGING_NOTHING_OF_DEVICES = (
    *("disableMkldnn", "disablecuDNN", "expectedFailureMeta", "expectedFailureXLA"),
    *("onlyCPU", "onlyNativeDeviceTypes", "skipCUDAIf", "skipCUDAIfCudnnVersionLessThan", "skipCUDAIfMiopen"),
    *("skipCUDAIfNoCudnn", "skipCUDAIfNoMiopen", "skipCUDAIfNotMiopenSuggestNHWC", "skipCUDAIfNotRocm"),
    *("skipCUDAIfRocm", "skipCUDAIfRocmVersionLessThan", "skipLazy", "skipMPS", "skipMeta", "skipXLA"),
    *("skipCPUIfNoLapack", "skipCUDAIfNoMagma", "skipMPSVersionIfLessThan", "expectedFailureMPS"),
)
_NOT_SO = (
    *("IS_CI", "IS_FBCODE", "IS_JETSON", "IS_MACOS", "IS_PPC", "IS_REMOTE_GPU", "IS_SANDCASTLE", "IS_WINDOWS"),
    *("NO_MULTIPROCESSING_SPAWN", "TEST_CUDA", "TEST_DILL", "TEST_PRIVATEUSE1", "TEST_WITH_ASAN", "TEST_WITH_CROSSREF"),
    *("TEST_WITH_ROCM", "TEST_WITH_TORCHDYNAMO", "TEST_WITH_TORCHINDUCTOR", "TEST_WITH_TSAN", "TEST_WITH_UBSAN"),
    *("TEST_MULTIGPU", "TEST_CUDNN", "TEST_MPS", "TEST_XPU", "TEST_MKL"),
)


def install(torch: Any) -> None:
    """Put the tools where the files of tests look for them, for the rest of the process."""
    numpy_types = {
        getattr(np, name): getattr(torch, name)
        for name in ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
    }
    numpy_types[np.bool_] = torch.bool
    numpy_types.update({np.complex64: torch.complex64, np.complex128: torch.complex128})
    random_states = _restoring(torch.get_rng_state, torch.set_rng_state)
    no_types = _of_types("dtypes_of_others")
    for name in [each for each in sys.modules if f"{each}.".startswith("torch.testing.")]:
        del sys.modules[name]  # PyTorch has loaded some of its tools by itself
    _module("torch.testing", make_tensor=make_tensor, assert_close=_assert_close)
    _module("torch.testing._internal")
    sys.meta_path.insert(0, _AbsentTools())
    _module(
        "torch.testing._internal.common_utils",
        **dict.fromkeys(_CHANGING_NOTHING, _as_it_is),
        **dict.fromkeys(_NOT_SO, False),
        TestCase=TestCase,
        run_tests=lambda *_, **__: None,
        load_tests=lambda loader, tests, pattern: tests,
        parametrize=parametrize,
        subtest=subtest,
        instantiate_parametrized_tests=instantiate_parametrized_tests,
        slowTest=_left_out("slow"),
        slowTestIf=lambda slow: _left_out("slow") if slow else _as_it_is,
        download_file=_tool_is_not_here("download_file"),
        make_tensor=make_tensor,
        gradcheck=lambda function, inputs, **how: torch.autograd.gradcheck(function, inputs, **_known(how)),
        gradgradcheck=lambda function, inputs, *more, **how: torch.autograd.gradgradcheck(
            function, inputs, *more, **_known(how)
        ),
        _assertGradAndGradgradChecks=lambda case, function, inputs, **how: (
            case.assertTrue(torch.autograd.gradcheck(function, inputs, **_known(how))),
            case.assertTrue(torch.autograd.gradgradcheck(function, inputs, **_known(how))),
        ),
        GRADCHECK_NONDET_TOL=0.0,
        dtype2prec_DONTUSE={torch.float32: 1e-5, torch.float64: 1e-5, torch.float16: 1e-2, torch.bfloat16: 1e-1},
        get_function_arglist=lambda function: inspect.getfullargspec(function).args,
        TEST_NUMPY=True,
        MACOS_VERSION=0.0,
        IS_FILESYSTEM_UTF8_ENCODING=True,
        TEST_SCIPY=importlib.util.find_spec("scipy") is not None,
        skipIfNoSciPy=unittest.skipIf(importlib.util.find_spec("scipy") is None, "no SciPy"),
        skipIfNoDill=_left_out("no dill"),
        numpy_to_torch_dtype_dict=numpy_types,
        torch_to_numpy_dtype_dict={theirs: name for name, theirs in numpy_types.items()},
        set_default_dtype=_restoring(torch.get_default_dtype, torch.set_default_dtype),
        freeze_rng_state=random_states,
        DeterministicGuard=_Deterministic,
        set_warn_always_context=_warn_always,
        suppress_warnings=_quietly,
        TemporaryFileName=_temporary_file,
        TemporaryDirectoryName=_temporary_folder,
        BytesIOContext=io.BytesIO,
        iter_indices=lambda tensor: itertools.product(*map(range, tensor.shape)),
        is_iterable_of_tensors=lambda given: all(isinstance(each, torch.Tensor) for each in given),
    )
    _module(
        "torch.testing._internal.common_device_type",
        **dict.fromkeys(_CHANGING_NOTHING_OF_DEVICES, _as_it_is),
        **dict.fromkeys(("dtypesIfCUDA", "dtypesIfMPS", "dtypesIfXPU", "dtypesIfHPU"), no_types),
        TEST_WITH_ROCM=False,
        PYTORCH_CUDA_MEMCHECK=False,
        instantiate_device_type_tests=instantiate_device_type_tests,
        dtypes=_of_types("dtypes_of_all"),
        dtypesIfCPU=_of_types("dtypes_of_cpu"),
        deviceCountAtLeast=deviceCountAtLeast,
        onlyCUDA=_left_out("needs CUDA"),
        onlyOn=lambda device: _as_it_is if "cpu" in device else _left_out("other devices"),
        onlyCUDAAndPRIVATEUSE1=_left_out("needs CUDA"),
        largeTensorTest=lambda *_, **__: unittest.skip("needs much memory"),  # the size may be a function
        skipCPUIfNoMkldnn=_left_out("needs oneDNN"),
        ops=_left_out("needs the database of operations"),
        precisionOverride=_overriding("precision_overrides"),
        toleranceOverride=_overriding("tolerance_overrides"),
        tol=tol,
        get_all_device_types=lambda: ["cpu"],
    )
    _module("torch.testing._internal.common_dtype", **_common_dtypes())
    _module(
        "torch.testing._internal.common_cuda",
        **dict.fromkeys(_NOT_SO, False),
        PLATFORM_SUPPORTS_FLASH_ATTENTION=False,
        _get_torch_cuda_version=lambda: (0, 0),
        _get_torch_rocm_version=lambda: (0, 0),
        tf32_is_not_fp32=lambda: False,
        tf32_on_and_off=_as_it_is,
        tf32_off=contextlib.nullcontext,
    )
    _module("torch.testing._internal.common_mkldnn", bf32_on_and_off=_as_it_is, reduced_f32_on_and_off=_as_it_is)
    _module(
        "torch.testing._internal.common_nn",
        NNTestCase=TestCase,
        _create_basic_net=_create_basic_net,
        _test_module_empty_input=_with_empty_input,
        freeze_rng_state=random_states,
        NewModuleTest=_OfTheTable,
        CriterionTest=_OfTheTable,
        criterion_tests=(),
        module_tests=(),
        new_module_tests=(),
    )
    for name in (
        "common_methods_invocations",
        "common_optimizers",
        "two_tensor",
        "common_modules",
        "opinfo",
        "jit_utils",
    ):
        _module(f"torch.testing._internal.{name}", optims=_left_out("needs the database of optimisers"))


def _known(how: dict[str, Any]) -> dict[str, Any]:
    """Arguments of ``gradcheck`` without those that choose how quickly it does its work."""
    return {name: value for name, value in how.items() if name not in ("fast_mode", "check_batched_grad", "nondet_tol")}
