"""Histories that know the modules of a network and the phases of its training: ``--stacks modules``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cuplug
import pytest
from cuplug import nn
from cuplug.plugins.tracing.reader import read_trace
from cuplug.plugins.tracing.training_scope import ITERATION
from cuplug.tools.analysis.module_use import module_uses
from cuplug.tools.analysis.report_data import pack

from ..conftest import Command

WORDS, WIDTH, INNER = 10, 16, 64
LENGTHS = 5, 7, 6


class Block(nn.Module):
    """A part whose widest activation is what ``act`` gives."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.act, self.proj = nn.Linear(WIDTH, INNER), nn.Tanh(), nn.Linear(INNER, WIDTH)

    def forward(self, x: Any) -> Any:
        return x + self.proj(self.act(self.fc(x)))


class Net(nn.Module):
    """Two parts between an embedding and a layer for each word."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.h = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, x: Any) -> Any:
        x = self.embed(x)
        for each in self.h:
            x = each(x)
        return self.head(x)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Three iterations, the second of which has the longest texts."""
    path: Path = tmp_path_factory.mktemp("modules") / "trained.cuplug"
    cuplug.shutdown()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUPLUG_TRACE_STACKS", "modules")
        cuplug.init(driver=request.config.getoption("--driver"), trace=path)
        net = Net().cuda()
        optimiser = cuplug.optim.Adam(net.parameters())
        for length in LENGTHS:
            x = cuplug.randint(WORDS, (8, length)).cuda()
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x).flatten(0, 1), x.flatten()).backward()
            optimiser.step()
        cuplug.shutdown()
    return path


def test_the_layer_with_the_most_saved_activations_is_named_and_its_figure_follows_from_shapes(
    command: Command, trained: Path
) -> None:
    told = json.loads(command("summary", trained, "--by", "module", "--json").stdout)["devices"][0]["modules"]
    found = {each["module"]: each for each in told}
    positions = 8 * max(LENGTHS)
    assert told[0]["module"] in ("h.0.act", "h.1.act")
    assert found["h.0.act"]["saved_bytes"] == found["h.1.act"]["saved_bytes"] == 4 * positions * INNER
    assert found["embed"]["saved_bytes"] == found["h.0"]["saved_bytes"] == 4 * positions * WIDTH
    assert found["h.0.fc"]["saved_bytes"] == 0  # what tanh gave is kept, and what it was given is not
    assert {each["saved_iteration"] for each in told if each["saved_bytes"]} == {1}
    page = command("summary", trained, "--by", "module").stdout
    assert f"saves the most activations: {4 * positions * INNER} bytes" in " ".join(page.split())


def test_each_allocation_knows_module_phase_and_iteration(trained: Path) -> None:
    trace = read_trace(trained)
    stacks = Counter(str(trace.stack(number)[0]) for number in trace.events["context"] if trace.stack(number))
    assert {"h.1.fc (forward)", "h.1.fc (backward)", "outside modules (optimiser)"} <= set(stacks)
    assert [trace.name(one["requested"]) for one in trace.events if one["device"] == 255].count(ITERATION) == 3
    levels = next(trace.stack(number) for number in trace.events["context"] if len(trace.stack(number)) == 3)
    assert [each.function for each in levels] == [levels[0].function, levels[0].function.rpartition(".")[0], "h"]


def test_all_bytes_are_put_down_to_some_module_and_phase(trained: Path, command: Command) -> None:
    uses = module_uses(read_trace(trained), 0)
    whole = json.loads(command("summary", trained, "--json").stdout)["devices"][0]
    assert sum(use.allocations for use in uses) == whole["allocations"]
    assert sum(use.at_peak_bytes for use in uses) == whole["requested"]["nbytes"]
    by_phase = sum(use.forward_bytes + use.backward_bytes + use.optimiser_bytes + use.other_bytes for use in uses)
    assert by_phase == sum(one["nbytes"] for one in whole["sizes"])


def test_advise_names_the_layer_that_makes_the_peak(command: Command, trained: Path) -> None:
    said = " ".join(command("advise", trained).stdout.split())
    layer = max(
        (use for use in module_uses(read_trace(trained), 0) if use.module != "outside modules"),
        key=lambda use: use.at_peak_bytes,
    )
    assert f"the layer {layer.module} holds most: {layer.at_peak_bytes} bytes" in said


def test_the_report_knows_modules(trained: Path) -> None:
    packed = pack(read_trace(trained), 0)
    assert packed.meta["modules"]
    assert "h.0.act (forward)" in packed.meta["frames"]


def test_a_history_without_modules_is_refused(refused: Callable[..., str], small_trace: Path) -> None:
    said = refused("summary", small_trace, "--by", "module")
    assert said.endswith("knows no modules of networks; record it with cuplug-trace record --stacks modules")


def test_replicas_have_the_paths_of_what_they_replicate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPLUG_TRACE_STACKS", "modules")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)  # the simulator heeds it, too
    cuplug.shutdown()
    cuplug.init(driver="sim:devices=2", trace=tmp_path / "two.cuplug")
    net = nn.DataParallel(Block().cuda())
    net(cuplug.ones(4, WIDTH).cuda()).sum().backward()
    cuplug.shutdown()
    trace = read_trace(tmp_path / "two.cuplug")
    other = trace.events[trace.events["device"] == 1]
    seen = {str(trace.stack(number)[0]) for number in other["context"] if trace.stack(number)}
    assert {"module.fc (forward)", "module.act (backward)"} <= seen
