"""Recurrent layers and packed sequences: what they make beside PyTorch's and step by step, and what they refuse."""

from __future__ import annotations

from typing import Any

import cuplug
import numpy as np
import pytest

from .torch_layers import layer_of, tensor_of

RECURRENT = (
    "RNN(3, 4)",
    "RNN(3, 4, 2, nonlinearity='relu', bias=False)",
    "GRU(3, 4, 2, batch_first=True, bidirectional=True)",
    "LSTM(3, 4)",
    "LSTM(3, 4, 2, bidirectional=True, proj_size=2)",
)


@pytest.mark.needs_torch
@pytest.mark.parametrize("form", ["whole", "packed", "single"])
@pytest.mark.parametrize("text", RECURRENT)
def test_recurrent_layers_and_their_gradients_are_pytorchs(text: str, form: str, device: str) -> None:
    import torch

    array = np.random.default_rng(3).standard_normal((5, 5, 3))[:, : 1 if form == "single" else 5]

    def made(torch: Any, layer: Any, device: str) -> dict[str, Any]:
        value = tensor_of(torch, array, device).requires_grad_()
        given = value.squeeze(1) if form == "single" else value
        if form == "packed":
            given = torch.nn.utils.rnn.pack_padded_sequence(
                given, [2, 5, 1, 4, 2], layer.batch_first, enforce_sorted=False
            )
        output, states = layer(given)
        again = layer(given, states)[1]
        if form == "packed":
            output = torch.nn.utils.rnn.pad_packed_sequence(output, layer.batch_first, 0.5)[0]
        parts = (output, *((states, again) if isinstance(states, torch.Tensor) else (*states, *again)))
        sum((part.sin() * (number + 1)).sum() for number, part in enumerate(parts)).backward()
        found = {f"part {number}": part for number, part in enumerate(parts)} | {"input": value.grad}
        found |= {name: each.grad for name, each in layer.named_parameters()}
        return {name: each.detach().cpu().numpy() for name, each in found.items()}

    theirs, ours = layer_of(torch, text), layer_of(cuplug, text)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({name: each.numpy() for name, each in theirs.state_dict().items()})
    expected, found = made(torch, theirs, "cpu"), made(cuplug, ours.to(device), device)
    assert set(found) == set(expected)
    for name, each in expected.items():
        np.testing.assert_allclose(found[name], each, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_a_recurrent_layer_is_its_cell_step_by_step(name: str, running: str) -> None:
    layer, cell = getattr(cuplug.nn, name)(3, 4), getattr(cuplug.nn, f"{name}Cell")(3, 4)
    cell.load_state_dict({each.removesuffix("_l0"): value for each, value in layer.state_dict().items()})
    steps, state, made = cuplug.randn(6, 2, 3), None, []
    for step in steps:
        state = cell(step, state)
        made.append(state[0] if name == "LSTM" else state)
    np.testing.assert_allclose(layer(steps)[0].detach().numpy(), cuplug.stack(made).detach().numpy(), atol=1e-6)


def test_a_recurrent_layer_takes_no_rows_but_not_no_steps(running: str) -> None:
    layer = cuplug.nn.LSTM(3, 4, 2)
    made, (last, _) = layer(cuplug.zeros(5, 0, 3))
    assert (made.shape, last.shape) == ((5, 0, 4), (2, 0, 4))
    with pytest.raises(ValueError, match="Expected sequence length to be larger than 0 in RNN"):
        layer(cuplug.zeros(0, 2, 3))


def test_a_recurrent_layer_takes_weights_that_a_hook_computes(running: str) -> None:
    layer, data = cuplug.nn.GRU(3, 4), cuplug.randn(5, 2, 3)
    wanted = layer(data)[0]
    cuplug.nn.utils.weight_norm(layer, "weight_hh_l0")
    np.testing.assert_allclose(layer(data)[0].detach().numpy(), wanted.detach().numpy(), atol=1e-6)


def test_packed_sequences_give_what_each_gives_alone(running: str) -> None:
    rnn = cuplug.nn.utils.rnn
    layer = cuplug.nn.LSTM(3, 4, 2, bidirectional=True)
    sequences = [cuplug.randn(length, 3) for length in (3, 6, 1)]
    packed, (states, _) = layer(rnn.pack_sequence(sequences, enforce_sorted=False))
    for number, (sequence, made) in enumerate(zip(sequences, rnn.unpack_sequence(packed), strict=True)):
        alone, (last, _) = layer(sequence)
        np.testing.assert_allclose(made.detach().numpy(), alone.detach().numpy(), atol=1e-6)
        np.testing.assert_allclose(states[:, number].detach().numpy(), last.detach().numpy(), atol=1e-6)


def test_unpadded_sequences_are_tensors_of_their_own(device: str) -> None:
    padded = cuplug.zeros(3, 2, 4, device=device)
    made = cuplug.nn.utils.rnn.unpad_sequence(padded, cuplug.tensor([3, 2]))
    made[0].fill_(1)
    assert [each.view(-1).shape for each in made] == [(12,), (8,)]
    assert padded.sum().item() == 0


def test_lengths_that_are_not_sorted_or_too_long_are_refused(running: str) -> None:
    pack = cuplug.nn.utils.rnn.pack_padded_sequence
    with pytest.raises(ValueError, match="decreasing order"):
        pack(cuplug.zeros(3, 2, 1), [1, 3])
    with pytest.raises(ValueError, match="1 to 3"):
        pack(cuplug.zeros(3, 2, 1), [4, 1])


@pytest.mark.parametrize("lengths", [[2, 5, 3], cuplug.tensor([2, 5, 3])])
def test_sequences_are_packed_alike_whatever_the_default_device_is(lengths: Any, device: str) -> None:
    rnn = cuplug.nn.utils.rnn
    x = cuplug.arange(30.0).reshape(3, 5, 2).to(device)
    cuplug.set_default_device("cuda")
    try:
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        padded, counts = rnn.pad_packed_sequence(packed, batch_first=True)
    finally:
        cuplug.set_default_device(None)
    assert packed.batch_sizes.is_cpu
    assert packed.batch_sizes.tolist() == [3, 3, 2, 1, 1]
    assert counts.is_cpu
    assert counts.tolist() == [2, 5, 3]
    assert cuplug.equal(padded[1], x[1])
