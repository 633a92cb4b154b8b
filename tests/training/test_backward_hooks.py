"""Hooks of a module's backward pass see, and replace, what PyTorch's do."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import cuplug
import pytest

WARNING = "Full backward hook is firing"


def shown(value: Any) -> Any:
    """Gradients as lists, None as it is."""
    if isinstance(value, (tuple, list)):
        return [shown(each) for each in value]
    return value if value is None or isinstance(value, (str, int)) else value.tolist()


def made(torch: Any) -> Any:
    """Two tensors that require gradients, a module of two arguments and two results, and a list for what is seen."""

    class Two(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([2.0, 3.0]))

        def forward(self, x: Any, scale: float, y: Any) -> Any:
            return x * self.weight * scale, "text", x * y

    x, y = (torch.tensor(values, requires_grad=True) for values in ([1.0, 4.0], [5.0, 6.0]))
    return SimpleNamespace(torch=torch, x=x, y=y, module=Two(), seen=[])


def ends(made: Any, *results: Any) -> Any:
    """What was seen, and the gradients after a backward pass from the results."""
    sum((each.sum() for each in results[1:]), results[0].sum()).backward()
    return shown([made.seen, made.x.grad, made.y.grad, made.module.weight.grad])


def gradients_are_seen(m: Any) -> Any:
    m.module.register_full_backward_hook(lambda module, given, results: m.seen.append((given, results)))
    first, text, second = m.module(m.x, 7, m.y)
    assert text == "text"
    return ends(m, first, second * 2)


def a_result_goes_unused(m: Any) -> Any:
    m.module.register_full_backward_hook(lambda module, given, results: m.seen.append((given, results)))
    return ends(m, m.module(m.x, 7, m.y)[0])


def gradients_of_arguments_are_replaced(m: Any) -> Any:
    m.module.register_full_backward_hook(lambda module, given, results: (given[0] * 10, None, given[2] * 100))
    m.module.register_full_backward_hook(lambda module, given, results: m.seen.append(given))
    first, _, second = m.module(m.x, 7, m.y)
    return ends(m, first, second)


def gradients_of_results_are_replaced(m: Any) -> Any:
    m.module.register_full_backward_pre_hook(lambda module, results: (results[0] * 10, None, results[2] * 100))
    m.module.register_full_backward_pre_hook(lambda module, results: m.seen.append(results))
    first, _, second = m.module(m.x, 7, m.y)
    return ends(m, first, second)


def hooks_come_in_order_and_go(m: Any) -> Any:
    for name, first in (("a", False), ("b", True), ("c", False)):
        m.module.register_full_backward_hook(lambda *_, name=name: m.seen.append(name), prepend=first)
        m.module.register_full_backward_pre_hook(lambda *_, name=name: m.seen.append(f"before {name}"), prepend=first)
    gone = m.module.register_full_backward_hook(lambda *_: m.seen.append("gone"))
    gone.remove()
    return ends(m, m.module(m.x, 7, m.y)[0])


def no_argument_requires_a_gradient(m: Any) -> Any:
    m.module.register_full_backward_hook(lambda module, given, results: m.seen.append((given, results)))
    first, _, second = m.module(m.x.detach(), 7, m.y.detach())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = ends(m, first, second + m.x + m.y)
    return [found, sum(WARNING in str(each.message) for each in caught)]


def layers_within_layers(m: Any) -> Any:
    torch = m.torch
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    with torch.no_grad():
        for each in net.parameters():
            each.fill_(0.5)
    for name, each in net.named_modules():
        each.register_full_backward_hook(
            lambda module, given, results, name=name: m.seen.append((name, *given, *results))
        )
    return ends(m, net(m.x) + m.module(m.x, 2, m.y)[0].sum())


def two_passes_from_one_call(m: Any) -> Any:
    m.module.register_full_backward_hook(lambda module, given, results: m.seen.append((given, results)))
    first, _, second = m.module(m.x, 7, m.y)
    first.sum().backward(retain_graph=True)
    return ends(m, first, second)


def nothing_is_recorded(m: Any) -> Any:
    m.module.register_full_backward_hook(lambda *_: m.seen.append("never"))
    with m.torch.no_grad():
        result, _, _ = m.module(m.x, 7, m.y)
    return shown([result, m.seen])


def another_number_is_an_error(m: Any) -> Any:
    m.module.register_full_backward_hook(lambda module, given, results: given[:1])
    first, _, _ = m.module(m.x, 7, m.y)
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 1, but expected 3"):
        first.sum().backward()


def another_number_before_is_an_error(m: Any) -> Any:
    m.module.register_full_backward_pre_hook(lambda module, results: results[:1])
    first, _, _ = m.module(m.x, 7, m.y)
    with pytest.raises(RuntimeError, match="invalid number of grad_output, got 1, but expected 3"):
        first.sum().backward()


def a_gradient_of_nothing_is_an_error(m: Any) -> Any:
    m.module.register_full_backward_hook(lambda module, given, results: (m.x, None, None))
    first, _, _ = m.module(m.x.detach(), 7, m.y)[:3]
    second, _, _ = m.module(m.x.detach(), 7, m.y.detach())
    first.sum().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="should always return None"):
            second.sum().backward()


CASES = [
    gradients_are_seen,
    a_result_goes_unused,
    gradients_of_arguments_are_replaced,
    gradients_of_results_are_replaced,
    hooks_come_in_order_and_go,
    no_argument_requires_a_gradient,
    layers_within_layers,
    two_passes_from_one_call,
    nothing_is_recorded,
    another_number_is_an_error,
    another_number_before_is_an_error,
    a_gradient_of_nothing_is_an_error,
]


@pytest.mark.needs_torch
@pytest.mark.parametrize("case", CASES, ids=[case.__name__ for case in CASES])
def test_hooks_of_the_backward_pass_are_pytorchs(case: Callable[[Any], Any]) -> None:
    import torch

    assert case(made(cuplug)) == case(made(torch))


def test_a_hook_sees_the_gradients_of_arguments_and_results() -> None:
    found = gradients_are_seen(made(cuplug))
    assert found[0] == [[[[24.0, 33.0], None, [2.0, 8.0]], [[1.0, 1.0], None, [2.0, 2.0]]]]


@pytest.mark.needs_torch
def test_sizes_by_private_names_are_pytorchs() -> None:
    ours, theirs = (import_module(f"{name}.nn.modules.utils") for name in ("cuplug", "torch"))
    assert cuplug.nn.utils.clip_grad_norm_

    for name in ("_single", "_pair", "_triple", "_quadruple"):
        for value in (3, (1, 2), [4, 5, 6], "ab", range(2)):
            assert getattr(ours, name)(value) == getattr(theirs, name)(value)
    assert ours._reverse_repeat_tuple((1, 2, 3), 2) == theirs._reverse_repeat_tuple((1, 2, 3), 2)
    for size, shape in ((4, (1, 2)), ((None, 3), (5, 6, 7)), ([2, None], (1, 5, 6, 7))):
        assert ours._list_with_default(size, shape) == theirs._list_with_default(size, shape)
    for module in (ours, theirs):
        with pytest.raises(ValueError, match="at least 3"):
            module._list_with_default((None, 1), (1, 2))
        state = {"module.a": 1, "b": 2}
        module.consume_prefix_in_state_dict_if_present(state, "module.")
        assert state == {"b": 2, "a": 1}


def test_files_of_layers_have_their_layers() -> None:
    from cuplug.nn.modules.module import Module
    from cuplug.nn.modules.padding import ReflectionPad2d

    assert (Module, ReflectionPad2d) == (cuplug.nn.Module, cuplug.nn.ReflectionPad2d)
