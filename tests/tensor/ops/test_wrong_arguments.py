"""Each argument of each public function and method in turn is something else than it should be."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.runtime.tensor import PUBLIC

pytestmark = pytest.mark.usefixtures("running")

WRONG: tuple[Any, ...] = (np.ones((2, 2), np.float32), [1.0, 2.0], "abc", None, object())
MODULES = (cuplug.linalg, cuplug.nn.functional, cuplug.nn.init, cuplug.nn.utils, cuplug.nn.utils.rnn)
PLACES: dict[str, dict[str, Any]] = {
    "cuplug": PUBLIC,
    **{each.__name__: {name: getattr(each, name) for name in getattr(each, "__all__", dir(each))} for each in MODULES},
    "Tensor": vars(cuplug.Tensor),
}
ELSEWHERE = re.compile(r"(set_|load$|save$|seed|manual_seed|__deepcopy__|__getattr__|__setattr__)")
"""What changes the state of the process or reads files; and what Python calls itself."""
KINDS: tuple[tuple[str, Any], ...] = (
    (r"Sequence\[Tensor|Iterable\[Tensor", lambda: [cuplug.ones(2, 2), cuplug.ones(2, 2)]),
    ("Tensor", lambda: cuplug.ones(2, 2)),
    ("Callable", lambda: abs),
    ("Sequence|tuple|Size", lambda: (2, 2)),
    ("int", lambda: 1),
    ("float", lambda: 1.0),
    ("bool", lambda: False),
    ("str", lambda: "sum"),
    ("", lambda: cuplug.ones(2, 2)),
)
NAMED: dict[str, Any] = {
    **dict.fromkeys(("dim", "axis", "dim0"), lambda: 0),
    **dict.fromkeys(("index", "indices"), lambda: cuplug.zeros(2, 2, dtype=cuplug.int64)),
    **dict.fromkeys(("mask", "condition"), lambda: cuplug.zeros(2, 2, dtype=cuplug.bool)),
    **dict.fromkeys(("tensors", "operands"), lambda: [cuplug.ones(2, 2), cuplug.ones(2, 2)]),
}


def functions(place: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, each in sorted(PLACES[place].items()):
        inner = (name[0] == "_" and place != "Tensor") or re.match("_[a-z]", name) or ELSEWHERE.match(name)
        if inspect.isfunction(each) and not inner and ".runtime." in each.__module__:
            yield name, each


def calls(function: Callable[..., Any], given_self: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls with one wrong argument each: of the others those are given that have no default."""
    parameters = [each for each in inspect.signature(function).parameters.values() if each.kind is not each.VAR_KEYWORD]
    for wrong in parameters[given_self:]:
        for value in WRONG:
            args: list[Any] = []
            kwargs: dict[str, Any] = {}
            for each in parameters:
                if each is wrong:
                    given = value
                elif each.default is each.empty and each.kind is not each.VAR_POSITIONAL:
                    kinds = (make for kind, make in KINDS if re.search(kind, str(each.annotation)))
                    given = NAMED.get(each.name, next(kinds))()
                else:
                    continue
                by_position = each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL)
                if by_position or (each.kind is each.POSITIONAL_OR_KEYWORD and len(args) == parameters.index(each)):
                    args.append(given)
                else:
                    kwargs[each.name] = given
            yield f"{wrong.name}={value!r}", lambda args=args, kwargs=kwargs: function(*args, **kwargs)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", PLACES)
def test_no_error_of_a_wrong_argument_is_about_an_attribute_or_what_is_private(place: str) -> None:
    said = []
    count = 0
    for name, function in functions(place):
        for argument, call in calls(function, place == "Tensor"):
            try:
                call()
            except Exception as error:
                count += 1
                if isinstance(error, AttributeError) or re.search(r"(?<!\w)_[a-z]", str(error)):
                    said.append(f"{name}({argument}): {type(error).__name__}: {error}")
    assert count > 20
    assert not said


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda a, _: cuplug.sum(a), "sum(): argument 'input' (position 1) must be Tensor, not numpy.ndarray; from_"),
        (lambda a, t: t.mm(a), "mm(): argument 'mat2' (position 2) must be Tensor, not numpy.ndarray"),
        (lambda _, t: cuplug.exp(t, out=[1]), "exp(): argument 'out' must be Tensor, not list"),
        (lambda *_: cuplug.t("a"), "t(): argument 'input' (position 1) must be Tensor, not str"),
        (lambda a, t: cuplug.nn.functional.conv2d(t, a), "conv2d(): argument 'weight' (position 2) must be Tensor"),
        (lambda a, t: cuplug.einsum("ij,jk", t, a), "einsum(): argument 'operands' must be tuple of Tensors, but"),
        (lambda a, _: cuplug.randn(2, generator=a), "argument 'generator' must be Generator, not numpy.ndarray"),
        # The same number stands for a dimension, too.
        (lambda _, t: cuplug.gather(t, 0, 0), "gather(): argument 'index' (position 3) must be Tensor, not int"),
        (lambda _, t: t.index_fill(1, 1, 1), "index_fill(): argument 'index' (position 3) must be Tensor, not int"),
        (lambda _, t: cuplug.take_along_dim(t, 0, 0), "take_along_dim(): argument 'indices' (position 2) must be"),
        # What passes its arguments on is not the one that needs a tensor.
        (lambda _, t: t.addmm_(2.5, t), "addmm(): argument 'mat1' (position 2) must be Tensor, not float"),
        (lambda a, t: type(t).addmm_(a, t, t), "addmm_(): argument 'input' (position 1) must be Tensor, not numpy"),
        (lambda _, t: t.is_set_to(3), "is_set_to(): argument 'tensor' (position 2) must be Tensor, not int"),
        (
            lambda *_: cuplug.nn.functional.pad([1], (1, 1)),
            "pad(): argument 'input' (position 1) must be Tensor",
        ),
        (lambda _, t: cuplug.mv(t[0], [1]), "mv(): argument 'vec' (position 2) must be Tensor, not list"),
    ],
)
def test_the_function_and_the_argument_that_is_no_tensor_are_named(call: Callable[..., Any], text: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(text)}"):
        call(np.ones((2, 2), np.float32), cuplug.ones(2, 2))


def test_only_an_array_is_said_to_become_a_tensor() -> None:
    x = cuplug.ones(2, 2)
    with pytest.raises(TypeError, match=r"numpy\.ndarray; from_numpy\(\) makes a tensor of an array$"):
        cuplug.mm(x, np.ones((2, 2)))
    with pytest.raises(TypeError, match=r"not numpy\.float64$"):
        cuplug.mm(x, np.float64(2))
