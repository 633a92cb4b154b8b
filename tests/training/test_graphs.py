"""The graph that gradients are computed by: hooks, versions of tensors, modes, and what is kept until when."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug import nn
from cuplug.runtime.autograd import view_gradients

# --- hooks


def test_a_hook_of_a_leaf_may_replace_its_gradient_and_be_taken_away(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    seen = []
    handle = x.register_hook(lambda gradient: seen.append(gradient.tolist()) or gradient * 10)
    (x * 3).sum().backward()
    handle.remove()
    (x * 3).sum().backward()
    assert seen == [[3.0, 3.0]]
    assert x.grad.tolist() == [33.0, 33.0]


def test_hooks_of_a_result_run_in_order_before_its_gradient_goes_on(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    y = x * 2
    y.register_hook(lambda gradient: gradient + 1)
    y.register_hook(lambda gradient: gradient * 5)
    y.retain_grad()
    y.sum().backward()
    assert y.grad.tolist() == [10.0, 10.0]
    assert x.grad.tolist() == [20.0, 20.0]


def test_a_hook_after_accumulation_sees_the_gradient_in_place(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    seen = []
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.tolist()))
    (x * 3).sum().backward()
    (x * 3).sum().backward()
    assert seen == [[3.0, 3.0], [6.0, 6.0]]


def test_hooks_of_nodes_see_gradients_of_results_and_of_operands(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    y = x * 4
    seen = []
    y.grad_fn.register_prehook(lambda results: seen.append(("of results", results[0].tolist())))
    y.grad_fn.register_hook(lambda operands, results: seen.append(("of operands", operands[0].tolist())))
    y.sum().backward()
    assert seen == [("of results", [1.0, 1.0]), ("of operands", [4.0, 4.0])]


def test_what_requires_no_gradient_takes_no_hook(device: str) -> None:
    with pytest.raises(cuplug.CuplugError, match="requires no gradients"):
        cuplug.ones(2, device=device).register_hook(print)


def test_hooks_of_modules_change_arguments_and_results(running: str) -> None:
    layer = nn.Linear(2, 2)
    first = layer.register_forward_pre_hook(lambda module, args: (args[0] * 0,))
    second = layer.register_forward_hook(lambda module, args, result: result + 1)
    x = cuplug.ones(1, 2)
    assert cuplug.equal(layer(x), (layer.bias + 1).unsqueeze(0))
    first.remove()
    second.remove()
    assert not cuplug.equal(layer(x), (layer.bias + 1).unsqueeze(0))


# --- versions


def test_each_change_in_place_counts_and_views_share_the_count(device: str) -> None:
    x = cuplug.zeros(4, device=device)
    view = x[:2]
    before = x._version
    assert view._version == before
    x.add_(1)
    view.mul_(2)
    x[0] = 5
    assert x._version == view._version == x.detach()._version == before + 3
    other = x.clone()
    start = other._version
    x.add_(1)
    assert other._version == start


def test_a_change_through_data_of_what_is_needed_is_an_error_that_says_so(device: str) -> None:
    w = cuplug.ones(2, device=device, requires_grad=True)
    made = (w * cuplug.ones(2, device=device, requires_grad=True)).sum()
    w.data *= 2
    with pytest.raises(cuplug.CuplugError, match=r"one through \.data counts, too, which PyTorch overlooks"):
        made.backward()


def test_an_operand_that_is_needed_and_was_changed_is_an_error(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    y = x * 2
    made = (y * y).sum()
    y.add_(1)
    with pytest.raises(
        cuplug.CuplugError,
        match=r"modified by an inplace operation: .*by MulBackward0, was changed in place: it is at version 1, and 0",
    ):
        made.backward()


def test_a_result_that_is_needed_and_was_changed_is_an_error(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    y = x.exp()
    y.mul_(2)
    with pytest.raises(cuplug.CuplugError, match=r"by ExpBackward0, was changed in place"):
        y.sum().backward()


def test_a_change_through_a_view_or_without_recording_is_noticed_too(device: str) -> None:
    for change in (lambda y: y[0].zero_(), lambda y: y.detach().add_(1)):
        x = cuplug.ones(2, device=device, requires_grad=True)
        y = x * 2
        made = (y * y).sum()
        change(y)
        with pytest.raises(cuplug.CuplugError, match="changed in place"):
            made.backward()


def test_what_is_not_needed_may_be_changed(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    y = x * 2
    made = (y + 1).sum()
    y.add_(1)
    made.backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_leaf_cannot_be_changed_in_place_while_gradients_are_recorded(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    for target in (x, x[0:1]):
        with pytest.raises(
            cuplug.CuplugError, match="leaf Variable that requires grad is being used in an in-place operation"
        ):
            target.add_(1)
    with cuplug.no_grad():
        x.add_(1)
    assert x.tolist() == [2.0, 2.0]


# --- modes


def test_modes_nest_and_are_left_after_exceptions(running: str) -> None:
    with cuplug.no_grad():
        assert not cuplug.is_grad_enabled()
        with pytest.raises(KeyError), cuplug.enable_grad():
            {True: {}}[cuplug.is_grad_enabled()]["absent"]
        assert not cuplug.is_grad_enabled()
    assert cuplug.is_grad_enabled()


def test_inference_mode_records_nothing_and_can_be_switched_off(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    with cuplug.inference_mode():
        assert cuplug.is_inference_mode_enabled()
        assert not cuplug.is_grad_enabled()
        made = x * 2
        assert not made.requires_grad
        assert made.grad_fn is None
        with cuplug.inference_mode(False):
            assert not cuplug.is_inference_mode_enabled()
            assert (x * 2).requires_grad
    assert not cuplug.is_inference_mode_enabled()
    assert (x * made).requires_grad  # what was made within is an ordinary tensor


def test_inference_mode_decorates_functions_and_generators(running: str) -> None:
    @cuplug.inference_mode()
    def asked() -> Any:
        return cuplug.is_inference_mode_enabled(), cuplug.is_grad_enabled()

    @cuplug.no_grad()
    def steps() -> Any:
        yield cuplug.is_grad_enabled()
        yield cuplug.is_grad_enabled()

    assert asked() == (True, False)
    found = []
    for each in steps():
        found.append((each, cuplug.is_grad_enabled()))
    assert found == [(False, True), (False, True)]


def test_the_mode_is_the_threads_own(running: str) -> None:
    import threading

    seen = []
    with cuplug.inference_mode():
        thread = threading.Thread(target=lambda: seen.append(cuplug.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


# --- what is kept


def test_what_gradients_need_is_freed_as_the_pass_goes(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    y = x.exp()
    kept = weakref.ref(y.grad_fn)
    alive = []
    middle = y * 1
    x.register_hook(lambda gradient: alive.append(kept() is not None and kept().kept is not None))
    made = middle.sum()
    made.backward()
    assert alive == [False]
    with pytest.raises(cuplug.CuplugError, match="second time"):
        made.backward()


def test_a_graph_that_nobody_holds_is_gone(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    gc.disable()
    try:
        made = (x.exp() * x).sum()
        node = weakref.ref(made.grad_fn)
        del made
        assert node() is None  # without the collector: there are no circles
        result = x.exp()  # which its gradient needs
        node = weakref.ref(result.grad_fn)
        del result
        assert node() is None
    finally:
        gc.enable()


def test_a_leaf_takes_a_gradient_that_nobody_else_has_and_copies_others(device: str) -> None:
    for keep in (False, True):
        kept: list[Any] = []
        places: list[int] = []

        class Twice(cuplug.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

            @staticmethod
            def backward(ctx: Any, gradient: Any) -> Any:
                made = gradient * 2
                places.append(made.data_ptr())  # noqa: B023 - called in this turn
                if keep:  # noqa: B023
                    kept.append(made)  # noqa: B023
                return made

        x = cuplug.ones(3, device=device, requires_grad=True)
        Twice.apply(x).sum().backward()
        assert (x.grad.data_ptr() == places[0]) is not keep
        assert x.grad.tolist() == [2.0] * 3


def test_gradients_of_pieces_are_joined_and_those_of_views_of_pieces_seen_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def scattered(*_: object) -> None:
        raise AssertionError("a gradient was written into zeros")

    monkeypatch.setattr(view_gradients, "_unshown", scattered)
    x = cuplug.arange(18.0).view(3, 6).requires_grad_()
    first, second, third = x.split([4, 1, 1], 1)
    assert first.grad_fn is second.grad_fn is third.grad_fn
    (first.view(3, 2, 2) * cuplug.tensor([1.0, 2.0])).sum().backward(retain_graph=True)
    assert x.grad.tolist() == [[1.0, 2.0, 1.0, 2.0, 0.0, 0.0]] * 3
    (third * 3).sum().backward()
    assert x.grad.tolist() == [[1.0, 2.0, 1.0, 2.0, 0.0, 3.0]] * 3


def test_a_row_added_to_a_product_is_one_node() -> None:
    row, a, b = (cuplug.ones(*shape, requires_grad=True) for shape in ((2,), (3, 4), (4, 2)))
    node = cuplug.addmm(row, a, b).grad_fn
    assert node.name() == "AddmmBackward0"
    assert {each.variable for each, _ in node.next_functions} == {row, a, b}


def test_a_change_in_place_that_was_done_before_asks_anew_whether_it_is_recorded(device: str) -> None:
    x = cuplug.tensor([-1.0, 2.0], device=device, requires_grad=True)
    for _ in range(2):
        y = x * 3
        y.mul_(x)
        y.sub_(4).relu_()
        (gradient,) = cuplug.autograd.grad(y.sum(), x)
        assert gradient.tolist() == [0.0, 12.0]
        with pytest.raises(cuplug.CuplugError, match="leaf"):
            x.mul_(x)
        with cuplug.no_grad():
            z = y.mul_(x)
        assert z.tolist() == [0.0, 16.0]
        with pytest.raises(cuplug.CuplugError, match="leaf"):
            x.relu_()


def test_a_module_of_convolutions_that_ran_before_asks_anew_for_what_its_tensors_are(device: str) -> None:
    cuplug.manual_seed(3)
    net = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3), nn.ReLU(inplace=True)).to(device)
    x = cuplug.randn(4, 2, 5, 5, device=device)
    found = []
    for kind in (cuplug.float32, cuplug.float64, cuplug.float32):
        net.to(kind).zero_grad()
        given = x.to(kind).transpose(2, 3).requires_grad_()  # not as it lies in memory
        net(given).pow(2).sum().backward()
        found.append([given.grad.to(cuplug.float32), *[each.grad.to(cuplug.float32) for each in net.parameters()]])
        with cuplug.no_grad():
            assert not net(given).requires_grad
        assert given.grad.dtype is kind
    for one, other in zip(found[0], found[1], strict=True):
        assert cuplug.allclose(one, other, rtol=1e-3, atol=1e-3)
    for one, other in zip(found[0], found[2], strict=True):
        assert cuplug.allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("operation", "most"),
    [
        pytest.param(lambda y, b: y + b, 3, id="keeps nothing"),
        pytest.param(lambda y, _: y.exp(), 7, id="keeps its result"),
        pytest.param(lambda y, b: y * b, 8, id="keeps its operands"),
    ],
)
def test_a_recorded_operation_leaves_few_objects_to_the_interpreters_collector(operation: Any, most: int) -> None:
    """Each is looked at by collections until the backward pass, and brings a full one nearer."""
    x, b = cuplug.ones(4, requires_grad=True), cuplug.ones(4, requires_grad=True)

    def chain(count: int) -> Any:
        y = x
        for _ in range(count):
            y = operation(y, b)
        return y

    chain(3)
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        before = len(gc.get_objects())
        kept = chain(100)
        after = len(gc.get_objects())
    finally:
        if enabled:
            gc.enable()
    assert kept.requires_grad
    assert (after - before) / 100 < most + 0.5


def test_a_network_that_holds_its_own_result_is_freed_once_it_is_collected(device: str) -> None:
    def train() -> list[Any]:
        network = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)).to(device)
        network.last = network(cuplug.ones(3, 2, device=device)).sum()
        network.last.register_hook(lambda gradient: network.last * gradient)
        network.last.backward(retain_graph=True)
        return [weakref.ref(each) for each in (network, network.last, network.last.grad_fn)]

    gone = train()
    gc.collect()
    assert [each() for each in gone] == [None, None, None]


@pytest.mark.parametrize("shape", [(4,), (4, 3)])
def test_adding_at_no_indices_leaves_values_a_gradient_of_zeros(shape: tuple[int, ...], device: str) -> None:
    nowhere = cuplug.zeros(0, dtype=cuplug.int64, device=device)
    for target in (cuplug.zeros(shape, device=device), cuplug.zeros(shape[::-1], device=device).t()):
        values = cuplug.ones((), device=device, requires_grad=True)
        made = target.index_put((nowhere,), values, accumulate=True)
        made.sum().backward()
        assert values.grad.tolist() == 0


def test_what_gradients_need_is_kept_as_hooks_pack_it(device: str) -> None:
    x = cuplug.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    packed: list[Any] = []

    def pack(tensor: Any) -> Any:
        packed.append(tensor)
        return (tensor * 10).tolist()

    with cuplug.autograd.graph.saved_tensors_hooks(pack, lambda kept: cuplug.tensor(kept, device=device) / 10):
        y = (x * x).exp()
    after = y * x  # kept as it is
    assert [each.requires_grad for each in packed] == [True, True, False]  # a result is shown without its history
    (first,) = cuplug.autograd.grad(after.sum(), x, create_graph=True)
    (second,) = cuplug.autograd.grad(first.sum(), x)
    v = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(first.tolist(), (2 * v * v + 1) * np.exp(v * v), rtol=1e-5)
    np.testing.assert_allclose(second.tolist(), (4 * v**3 + 6 * v) * np.exp(v * v), rtol=1e-5)


def test_a_hook_that_changes_what_it_packs_is_refused(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    hooks = cuplug.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.mul_(2), lambda kept: kept)
    with hooks, pytest.raises(RuntimeError, match="pack hook is modifying its input in place"):
        _ = x * x


def test_a_hook_that_unpacks_no_tensor_is_named() -> None:
    x = cuplug.ones(2, requires_grad=True)
    with cuplug.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda kept: 1):
        y = (x * x).sum()
    with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor, not <class 'int'>"):
        y.backward()


@pytest.mark.parametrize("pinned", [False, True])
def test_what_gradients_need_can_wait_in_host_memory(running: str, pinned: bool) -> None:
    held, gradients = [], []
    for hooks in (contextlib.nullcontext(), cuplug.autograd.graph.save_on_cpu(pinned)):
        x = cuplug.arange(100000.0, device="cuda").requires_grad_()
        before = cuplug.cuda.memory_allocated()
        with hooks:
            y = (x * 1e-5).exp().tanh().sin().sum()
        held.append(cuplug.cuda.memory_allocated() - before)
        y.backward()
        gradients.append(x.grad)
        del x, y
    assert cuplug.equal(*gradients)
    assert held[0] > 2 * 400000 > 4096 > held[1]  # the results of exp and tanh


def test_a_number_on_the_left_is_recorded_as_on_the_right() -> None:
    x = cuplug.ones(2, requires_grad=True)
    for made in (2 * x, 2 + x, x * 2, x + 2):
        (leaf, number), nothing = made.grad_fn.next_functions
        assert (leaf.variable, number, nothing) == (x, 0, (None, 0))
