"""Tests that are made of one test: for each of several values, types of elements and devices."""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from names_not_there import Marker, as_it_is, left_out

__all__ = [
    "deviceCountAtLeast",
    "instantiate_device_type_tests",
    "instantiate_parametrized_tests",
    "of_types",
    "overriding",
    "parametrize",
    "subtest",
    "tol",
]


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


def of_types(attribute: str) -> Callable[..., Any]:
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


def overriding(attribute: str) -> Callable[..., Any]:
    def decorator(table: Any) -> Any:
        def decorate(function: Any) -> Any:
            setattr(function, attribute, table)
            return function

        return decorate

    return decorator


def deviceCountAtLeast(count: int) -> Any:
    """The test takes the list of devices; here there is one."""
    return left_out("there is one device") if count > 1 else as_it_is
