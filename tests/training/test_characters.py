"""A model of GPT's shape learns which character follows, on the CPU and on a device by the same curve.

By default it learns a text of the project in a few steps. ``CUPLUG_TEXTS`` names a folder of texts to learn instead,
``CUPLUG_CHARACTER_STEPS`` how many steps, and ``CUPLUG_CHARACTER_LOSS`` the loss that it then must be below: the
pages of ``test_page_blocks.py`` come to 2.1 in 600 steps, and 2.5 is stated for them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import cuplug
import pytest
from cuplug.tools.benchmarks.networks import gpt2

LENGTH, BATCH = 32, 16
STEPS = int(os.environ.get("CUPLUG_CHARACTER_STEPS", "25"))
STATED = float(os.environ.get("CUPLUG_CHARACTER_LOSS", "3.6"))
"""In nats for a character."""


def text() -> str:
    """What is learnt."""
    folder = os.environ.get("CUPLUG_TEXTS")
    if folder:
        return "\n".join(each.read_text(encoding="utf-8") for each in sorted(Path(folder).iterdir()))
    return (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def losses(device: str, steps: int, mixed: bool = False) -> list[float]:
    """The loss of each step, in nats for a character."""
    letters = text()
    known = sorted(set(letters))
    codes = cuplug.tensor([known.index(each) for each in letters])
    net = gpt2(cuplug, layers=2, size=32, heads=4, words=len(known), length=LENGTH).to(device)
    net.load_state_dict(first_values(net))  # drawn on the CPU: a device draws other random numbers
    optimiser = cuplug.optim.AdamW(net.parameters(), lr=1e-2 if steps < 100 else 3e-3)
    where = cuplug.Generator().manual_seed(1)
    found = []
    for _ in range(steps):
        starts = cuplug.randint(len(codes) - LENGTH - 1, (BATCH,), generator=where).tolist()
        rows = cuplug.stack([codes[each : each + LENGTH + 1] for each in starts]).to(device)
        optimiser.zero_grad()
        with cuplug.autocast(device, cuplug.bfloat16, enabled=mixed):
            made = net(rows[:, :-1])
            loss = cuplug.nn.functional.cross_entropy(made.flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        cuplug.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        found.append(loss.item())
    return found


def first_values(net: Any) -> dict[str, Any]:
    """First values drawn on the CPU, of the shapes of the network's."""
    cuplug.manual_seed(2)
    made = {}
    for name, each in net.state_dict().items():
        drawn = cuplug.randn(*each.shape) * 0.02
        made[name] = drawn + 1 if name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight")) else drawn
    return made


@pytest.fixture(scope="module")
def on_cpu(running: str) -> list[float]:
    return losses("cpu", STEPS)


def test_the_loss_falls_below_the_stated_one(on_cpu: list[float]) -> None:
    assert on_cpu[0] > 4.0  # about the logarithm of the number of characters: it knows nothing
    assert sum(on_cpu[-5:]) / 5 < STATED


def test_a_device_learns_by_the_same_curve(on_cpu: list[float]) -> None:
    count = min(STEPS, 3)
    assert losses("cuda", count) == pytest.approx(on_cpu[:count], rel=1e-3)
    assert losses("cuda", count, mixed=True) == pytest.approx(on_cpu[:count], rel=0.03)
