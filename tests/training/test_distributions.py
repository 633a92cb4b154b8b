"""Distributions beside PyTorch's: densities, entropies, divergences and gradients; and what is drawn."""

from __future__ import annotations

from typing import Any

import cuplug
import numpy as np
import pytest

MADE = (
    "Normal(a, b.exp())",
    "Normal(0.5, 2.0)",
    "Normal(a, 1.5)",
    "Bernoulli(a.sigmoid())",
    "Bernoulli(logits=a)",
    "Bernoulli(0.25)",
    "Categorical(b.exp())",
    "Categorical(logits=a)",
    "Categorical(torch.tensor([0.0, 0.25, 0.75]))",
)
VALUES = {
    "Normal": "torch.tensor([[-1.0, 0.0, 2.5]])",
    "Bernoulli": "torch.tensor([[1.0, 0.0, 1.0]])",
    "Categorical": "torch.tensor([[2], [1], [1]])",
}
PAIRS = (
    ("Normal(a, b.exp())", "Normal(b, 0.5)"),
    ("Bernoulli(a.sigmoid())", "Bernoulli(logits=b)"),
    ("Bernoulli(torch.tensor([0.0, 1.0, 0.5]))", "Bernoulli(torch.tensor([0.5, 0.0, 1.0]))"),
    ("Categorical(logits=a)", "Categorical(logits=b)"),
    ("Categorical(torch.tensor([0.5, 0.5, 0.0]))", "Categorical(torch.tensor([0.25, 0.0, 0.75]))"),
)


def given(torch: Any, device: str) -> dict[str, Any]:
    values = np.random.default_rng(5).normal(size=(2, 2, 3)).astype(np.float32)
    a, b = (torch.tensor(each, device=device, requires_grad=True) for each in values)
    return {"torch": torch, "a": a, "b": b}


def figures(torch: Any, text: str, device: str) -> list[Any]:
    names = given(torch, device)
    distribution = eval(f"torch.distributions.{text}", names)
    value = eval(VALUES[text.partition("(")[0]], names).to(distribution.mean.device)
    found = [distribution.log_prob(value), distribution.entropy(), distribution.perplexity()]
    found += [distribution.mean, distribution.variance, distribution.stddev, distribution.mode]
    if text.startswith("Normal"):
        found.append(distribution.cdf(value))
    else:
        found += [distribution.probs, distribution.logits]
        found += [distribution.enumerate_support(), distribution.enumerate_support(expand=False)]
    if found[0].requires_grad:
        (found[0].sum() + found[1].sum()).backward()
        found += [names[name].grad for name in "ab" if names[name].grad is not None]
    return [each.detach().cpu().numpy() for each in found]


@pytest.mark.needs_torch
@pytest.mark.parametrize("text", MADE)
def test_figures_and_gradients_are_pytorchs(text: str, device: str) -> None:
    import torch

    theirs = figures(torch, text, "cpu")
    ours = figures(cuplug, text, device)
    assert len(ours) == len(theirs)
    for found, expected in zip(ours, theirs, strict=True):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.needs_torch
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_divergences_are_pytorchs(first: str, second: str, device: str) -> None:
    import torch

    def divergence(torch: Any, device: str) -> Any:
        names = given(torch, device)
        p, q = (eval(f"torch.distributions.{text}", names) for text in (first, second))
        return torch.distributions.kl_divergence(p, q).detach().cpu().numpy()

    np.testing.assert_allclose(divergence(cuplug, device), divergence(torch, "cpu"), rtol=2e-5, atol=1e-6)


def test_what_is_drawn_has_the_distributions_mean(device: str) -> None:
    cuplug.manual_seed(3)
    D = cuplug.distributions
    probabilities = cuplug.tensor([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]], device=device)
    drawn = D.Categorical(probabilities).sample((2000,))
    assert (drawn.shape, drawn.dtype, drawn.device) == ((2000, 2), cuplug.int64, probabilities.device)
    shares = cuplug.nn.functional.one_hot(drawn, 3).float().mean(0).cpu().numpy()
    np.testing.assert_allclose(shares, probabilities.cpu().numpy(), atol=0.05)
    coins = D.Bernoulli(probabilities).sample((2000,))
    np.testing.assert_allclose(coins.mean(0).cpu().numpy(), probabilities.cpu().numpy(), atol=0.05)
    loc = cuplug.tensor([-1.0, 4.0], device=device, requires_grad=True)
    normal = D.Normal(loc, cuplug.tensor([0.5, 2.0], device=device))
    assert not normal.sample().requires_grad
    values = normal.rsample((2000,))
    np.testing.assert_allclose(values.detach().mean(0).cpu().numpy(), [-1, 4], atol=0.2)
    np.testing.assert_allclose(values.detach().std(0).cpu().numpy(), [0.5, 2], rtol=0.1)
    values.sum().backward()
    assert loc.grad is not None
    assert loc.grad.tolist() == [2000, 2000]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Normal(float('nan'), 1.0)", "real numbers"),
        ("Normal(0.0, 0.0)", "greater than 0"),
        ("Bernoulli(1.5)", "within"),
        ("Bernoulli()", "Either `probs` or `logits`"),
        ("Bernoulli(0.5, 0.5)", "not both"),
        ("Categorical(torch.tensor([-0.5, 1.5]))", "not below 0"),
        ("Categorical(torch.tensor(0.5))", "one dimension"),
        ("Categorical(torch.ones(3)).log_prob(torch.tensor(3))", "from 0 to 2"),
        ("Bernoulli(0.5).log_prob(torch.tensor(0.5))", "0 or 1"),
        ("Normal(torch.zeros(2), 1.0).log_prob(torch.zeros(3))", "do not go with"),
        ("Normal(torch.zeros(2), 1.0).log_prob(1.0)", "must be a Tensor"),
    ],
)
def test_what_is_out_of_the_range_is_refused(text: str, said: str) -> None:
    names = {"torch": cuplug}
    with pytest.raises(ValueError, match=said):
        eval(f"torch.distributions.{text}", names)


def test_what_is_out_of_the_range_passes_unchecked() -> None:
    D = cuplug.distributions
    D.Normal(0.0, -1.0, validate_args=False)
    D.Distribution.set_default_validate_args(False)
    try:
        D.Normal(0.0, -1.0)
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="greater than 0"):
        D.Normal(0.0, -1.0)


def test_distributions_that_have_no_divergence_or_path_say_so() -> None:
    D = cuplug.distributions
    with pytest.raises(NotImplementedError, match="of Normal from Bernoulli"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Bernoulli(0.5))
    with pytest.raises(NotImplementedError, match="rsample"):
        D.Bernoulli(0.5).rsample()
    with pytest.raises(AttributeError, match=r"distributions\.Beta is not part of cuplug.*use Categorical"):
        _ = D.Beta


def test_a_program_derives_distributions_whose_values_have_dimensions() -> None:
    class Steps(cuplug.distributions.Distribution):
        def __init__(self, start: cuplug.Tensor) -> None:
            self.start = start
            super().__init__(start.shape[:1], start.shape[1:], validate_args=False)

        def rsample(self, sample_shape: Any = ()) -> cuplug.Tensor:
            return self.start.expand(self._extended_shape(sample_shape))

    made = Steps(cuplug.zeros(3, 2))
    assert (made.batch_shape, made.event_shape, made._event_shape) == ((3,), (2,), (2,))
    assert made.sample((4,)).shape == (4, 3, 2)
    assert cuplug.distributions.Normal(0.0, cuplug.ones(3))._event_shape == ()


def test_a_distribution_is_printed_with_what_it_was_made_of() -> None:
    made = cuplug.distributions
    assert repr(made.Normal(0.0, 1.5)) == "Normal(loc: 0.0, scale: 1.5)"
    assert repr(made.Bernoulli(cuplug.tensor([0.25]))) == "Bernoulli(probs: tensor([0.2500]))"
    assert repr(made.Categorical(logits=cuplug.ones(2, 3))) == "Categorical(logits: cuplug.Size([2, 3]))"
