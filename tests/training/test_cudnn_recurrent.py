"""Recurrent layers by cuDNN: what the library is asked for, and that its results are those of single steps.

On the simulator a stand-in takes the library's place; ``--driver cuda`` runs the library itself.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import product
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.backends import cudnn
from cuplug.runtime.tensor.backends.libraries.cudnn import Dnn, DnnError, typed
from cuplug.runtime.tensor.backends.libraries.cudnn_kernels import recurrent_kernel
from cuplug.runtime.tensor.backends.on_host.sim_place import SimPlace

from .stand_in_cudnn import StandInCudnn


class _PlaceWithCudnn(SimPlace):
    """A simulated device that has the stand-in."""

    def __init__(self, runtime: Any, ordinal: int) -> None:
        super().__init__(runtime, ordinal)
        self.stand_in = StandInCudnn(self.submit)
        self.dnn = Dnn(typed(self.stand_in), self)
        self.kernels: dict[Any, Any] = {}

    def recurrent(self, work: Any, kind: Any) -> Any:
        if (work, kind) not in self.kernels:
            self.kernels[work, kind] = recurrent_kernel(self.dnn, work, kind)
        return self.kernels[work, kind]


@pytest.fixture(scope="module")
def library(request: pytest.FixtureRequest) -> Iterator[StandInCudnn | None]:
    """The stand-in of device 0 of a simulator; on a GPU None, and the library itself."""
    if request.config.getoption("--driver") != "sim":
        if not cudnn.is_available():
            pytest.skip("cuDNN is not installed")
        cuplug.init(driver=request.config.getoption("--driver"))
        with cudnn.flags(enabled=True, allow_tf32=False):
            yield None
        cuplug.shutdown()
        return
    runtime = cuplug.init(driver="sim:devices=1,schedule=random,seed=3")
    place = runtime.device(0).objects["tensor.place"] = _PlaceWithCudnn(runtime, 0)
    with cudnn.flags(enabled=True):
        yield place.stand_in
    cuplug.shutdown()
    assert not place.stand_in.handles


@pytest.fixture
def stand_in(library: StandInCudnn | None) -> StandInCudnn:
    """The stand-in."""
    if library is None:
        pytest.skip("a stand-in on the simulator: run with --driver sim")
    cuplug.cuda.synchronize()  # what the tests before have queued
    for each in (library.runs, library.kept, library.chosen):
        each.clear()
    return library


LAYERS = {
    "RNN": (3, 5),
    "RNN with relu, no biases": (3, 5, 2, "relu", False),
    "LSTM": (3, 4, 2),
    "LSTM in both directions": (3, 4, 2, True, False, 0.0, True),
    "LSTM with a projection": (3, 4, 2, True, False, 0.0, True, 2),
    "GRU, batch first": (3, 4, 2, True, True, 0.0, True),
    "GRU": (3, 5),
}
TYPES = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 4e-2, "float64": 1e-11}


def _layer(case: str, kind: str) -> Any:
    cuplug.manual_seed(5)
    return getattr(cuplug.nn, case.split()[0].rstrip(","))(*LAYERS[case]).to(getattr(cuplug, kind))


def _trained(layer: Any, device: str, form: str, *, with_states: bool = True) -> dict[str, Any]:
    """Results and gradients, as arrays of float64."""
    layer = layer.to(device)
    layer.zero_grad()
    kind = next(layer.parameters()).dtype
    random = np.random.default_rng(2)
    value = cuplug.tensor(random.standard_normal((4, 4, 3))).to(kind).to(device).requires_grad_()
    given = value
    if form == "packed":
        pack = cuplug.nn.utils.rnn.pack_padded_sequence
        given = pack(value, [2, 4, 1, 4], layer.batch_first, enforce_sorted=False)
    deep, shown = layer.num_layers * (2 if layer.bidirectional else 1), layer.proj_size or layer.hidden_size
    widths = (shown, layer.hidden_size)[: 2 if layer.mode == "LSTM" else 1]
    before = [cuplug.tensor(random.standard_normal((deep, 4, width))).to(kind).to(device) for width in widths]
    before = [each.requires_grad_() for each in before]
    output, after = layer(given, (tuple(before) if len(before) > 1 else before[0]) if with_states else None)
    parts = [output.data if form == "packed" else output, *(after if len(widths) > 1 else (after,))]
    sum(((number + 1) * part.double().sin()).sum() for number, part in enumerate(parts)).backward()
    found = {f"part {number}": part for number, part in enumerate(parts)} | {"input": value.grad}
    found |= {f"state {number}": each.grad for number, each in enumerate(before) if with_states}
    found |= {name: each.grad for name, each in layer.named_parameters()}
    return {name: each.detach().double().cpu().numpy() for name, each in found.items()}


def _agree(found: dict[str, Any], wanted: dict[str, Any], tolerance: float) -> None:
    assert found.keys() == wanted.keys()
    for name, each in wanted.items():
        limit = tolerance * max(1.0, abs(each).max())
        np.testing.assert_allclose(found[name], each, rtol=0, atol=limit, err_msg=name)


@pytest.mark.parametrize(
    ("case", "form", "kind"),
    [*product(LAYERS, ["whole", "packed"], ["float64"]), *product(["LSTM", "GRU"], ["packed"], list(TYPES)[:3])],
)
def test_recurrent_layers_and_their_gradients_are_the_librarys(
    library: StandInCudnn | None, case: str, form: str, kind: str
) -> None:
    if library is not None:
        library.runs.clear()
    layer = _layer(case, kind)
    found = _trained(layer, "cuda", form)
    if library is not None:
        assert library.runs == ["forward", "data", "weights"]
    wanted = _trained(layer.double() if kind not in ("float32", "float64") else layer, "cpu", form)
    _agree(found, wanted, TYPES[kind])


def test_without_states_they_begin_with_zeros(library: StandInCudnn | None) -> None:
    layer = _layer("LSTM", "float64")
    found = _trained(layer, "cuda", "whole", with_states=False)
    _agree(found, _trained(layer, "cpu", "whole", with_states=False), 1e-11)


def test_without_gradients_nothing_is_kept_and_weights_that_want_none_get_none(stand_in: StandInCudnn) -> None:
    layer = _layer("LSTM", "float32").to("cuda")
    data = cuplug.randn(3, 2, 3, device="cuda")
    with cuplug.no_grad():
        layer(data)
    assert stand_in.runs == ["forward"]
    cuplug.cuda.synchronize()
    assert not stand_in.kept
    layer.requires_grad_(False)
    layer(data.requires_grad_())[0].sum().backward()
    assert stand_in.runs == ["forward", "forward", "data"]


def test_what_drops_between_layers_is_cuplugs_on_every_device(library: StandInCudnn | None) -> None:
    layer = cuplug.nn.GRU(3, 4, 3, dropout=0.4, bidirectional=True)
    data, found = cuplug.randn(5, 2, 3), []
    for device in ("cuda", "cpu"):
        cuplug.manual_seed(11)
        made, last = layer.to(device)(data.to(device))
        layer.zero_grad()
        (made.square().mean() + last.sum()).backward()
        found.append({name: each.grad.cpu().numpy() for name, each in layer.named_parameters()})
        found[-1] |= {"made": made.detach().cpu().numpy(), "last": last.detach().cpu().numpy()}
    _agree(*found, 1e-5)


def test_a_result_that_nobody_uses_has_no_gradient(library: StandInCudnn | None) -> None:
    layer, data = _layer("LSTM", "float64"), cuplug.randn(3, 2, 3, dtype=cuplug.float64)
    for pick in (lambda made: made[0], lambda made: made[1][0], lambda made: made[1][1]):
        found = []
        for device in ("cuda", "cpu"):
            layer.to(device).zero_grad()
            pick(layer(data.to(device))).sum().backward()
            found.append({name: each.grad.cpu().numpy() for name, each in layer.named_parameters()})
        _agree(*found, 1e-11)


def test_a_graph_that_is_kept_gives_the_same_gradients_again(library: StandInCudnn | None) -> None:
    layer = _layer("GRU", "float64").to("cuda")
    loss = layer(cuplug.randn(3, 2, 3, dtype=cuplug.float64, device="cuda"))[0].square().sum()
    first, second = (cuplug.autograd.grad(loss, list(layer.parameters()), retain_graph=True) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a.cpu().numpy(), b.cpu().numpy(), rtol=1e-12)


def test_gradients_of_gradients_are_made_of_single_steps(library: StandInCudnn | None) -> None:
    layer, data, found = _layer("LSTM", "float64"), cuplug.randn(3, 2, 3, dtype=cuplug.float64), []
    for device in ("cuda", "cpu"):
        layer.to(device).zero_grad()
        given = data.to(device).requires_grad_()
        (first,) = cuplug.autograd.grad(layer(given)[0].square().sum(), given, create_graph=True)
        first.square().sum().backward()
        found.append({name: each.grad.cpu().numpy() for name, each in layer.named_parameters()})
    _agree(*found, 1e-10)


def test_weights_that_changed_since_are_an_error(library: StandInCudnn | None) -> None:
    layer = _layer("GRU", "float32").to("cuda")
    made = layer(cuplug.randn(3, 2, 3, device="cuda"))[0].sum()
    with cuplug.no_grad():
        layer.weight_hh_l0.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        made.backward()


def test_mixed_precision_runs_in_the_fast_type(library: StandInCudnn | None) -> None:
    layer, data = _layer("LSTM", "float32"), cuplug.randn(3, 2, 3)
    wanted = layer(data)[0].detach().numpy()
    layer.to("cuda")
    with cuplug.autocast("cuda", dtype=cuplug.float16):
        made, _ = layer(data.to("cuda"))
    assert made.dtype is cuplug.float16
    made.float().sum().backward()
    assert layer.weight_ih_l0.grad.dtype is cuplug.float32
    np.testing.assert_allclose(made.detach().float().cpu().numpy(), wanted, atol=4e-3)


def test_checkpoints_compute_what_the_library_keeps_again(library: StandInCudnn | None) -> None:
    layer, data, found = _layer("LSTM", "float64").to("cuda"), cuplug.randn(3, 2, 3, dtype=cuplug.float64), []
    for kept in (False, True):
        layer.zero_grad()
        given = data.to("cuda").requires_grad_()
        run = cuplug.utils.checkpoint.checkpoint
        made = layer(given)[0] if kept else run(lambda value: layer(value)[0], given, use_reentrant=False)
        made.square().sum().backward()
        found.append({name: each.grad.cpu().numpy() for name, each in layer.named_parameters()})
    _agree(*found, 1e-11)


def test_memory_that_is_kept_for_gradients_is_let_go_with_them(stand_in: StandInCudnn) -> None:
    layer, data = _layer("LSTM", "float32").to("cuda"), cuplug.randn(3, 2, 3, device="cuda")
    gc.collect()  # what the tests before have left
    gc.disable()
    try:
        before = cuplug.cuda.memory_allocated()
        layer(data)[0].sum().backward()
        layer.zero_grad(set_to_none=True)
        assert cuplug.cuda.memory_allocated() == before
    finally:
        gc.enable()


def test_descriptors_are_made_once_for_batches_of_the_same_lengths(stand_in: StandInCudnn) -> None:
    layer, data = _layer("GRU", "float32").to("cuda"), cuplug.randn(3, 2, 3, device="cuda")
    layer(data)
    held = len(stand_in.recurrent)
    for _ in range(3):
        layer(data)[0].sum().backward()
    assert len(stand_in.recurrent) == held
    layer(data[:2])
    assert len(stand_in.recurrent) == held + 3


def test_the_algorithm_is_chosen_by_sizes_and_another_one_where_the_device_has_it_not(stand_in: StandInCudnn) -> None:
    standard, persistent, small = 0, 1, 3
    cases = [
        (cuplug.nn.LSTM(3, 128), 2, small),
        (cuplug.nn.LSTM(3, 129), 2, standard),
        (cuplug.nn.LSTM(3, 8, proj_size=4), 2, standard),
        (cuplug.nn.RNN(3, 256, 2), 2, small),
        (cuplug.nn.LSTM(128, 256).half(), 8, persistent),
        (cuplug.nn.LSTM(128, 256).half(), 9, standard),
        (cuplug.nn.LSTM(128, 256), 8, standard),
        (cuplug.nn.GRU(128, 256).half(), 8, standard),
    ]
    with cuplug.no_grad():
        for layer, rows, _ in cases:
            layer.cuda()(cuplug.zeros(2, rows, layer.input_size, device="cuda", dtype=layer.weight_ih_l0.dtype))
        assert stand_in.chosen == [wanted for *_, wanted in cases]
        layer, packed = cases[0][0], cuplug.nn.utils.rnn.pack_sequence([cuplug.zeros(2, 3), cuplug.zeros(1, 3)])
        layer(packed.cuda())
        stand_in.refused = (small,)
        try:
            layer(cuplug.zeros(2, 5, 3, device="cuda"))
        finally:
            del stand_in.refused
        layer(cuplug.zeros(2, 5, 3, device="cuda"))  # what was refused once is not asked for again
    assert stand_in.chosen[-3:] == [standard] * 3


def test_layers_that_the_library_is_not_asked_for(stand_in: StandInCudnn) -> None:
    layer, data = _layer("GRU", "float32").to("cuda"), cuplug.randn(3, 2, 3, device="cuda")
    with cudnn.flags(enabled=False):
        layer(data)
    with cudnn.flags(enabled=True, deterministic=True):
        layer(data)
    layer(data[:, :0])
    layer.cpu()(data.cpu())
    assert not stand_in.runs


def test_gates_that_lie_apart_are_a_refusal_that_is_told(stand_in: StandInCudnn) -> None:
    layer, data = cuplug.nn.LSTM(3, 6).to("cuda"), cuplug.randn(3, 2, 3, device="cuda")
    wanted = layer.cpu()(data.cpu())[0].detach().numpy()
    layer.to("cuda")
    stand_in.apart = True
    try:
        with pytest.warns(RuntimeWarning, match=r"refused recurrent layers \(float32; mode LSTM, taken 3, .*apart"):
            found = layer(data)[0]
    finally:
        del stand_in.apart
    assert not stand_in.runs
    np.testing.assert_allclose(found.detach().cpu().numpy(), wanted, atol=1e-6)


def test_a_failure_of_the_library_is_one_clear_error(stand_in: StandInCudnn) -> None:
    layer, data = _layer("LSTM", "float32").to("cuda"), cuplug.randn(3, 2, 3, device="cuda")
    layer(data)
    stand_in._wrong = lambda *_: "nothing works today"  # type: ignore[method-assign]
    try:
        with pytest.raises(DnnError, match=r"cudnnRNNForward failed on cuda:0: CUDNN_STATUS_2000 \(nothing works"):
            layer(data)
    finally:
        del stand_in._wrong
