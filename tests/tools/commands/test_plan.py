"""``cuplug-trace plan``: from a recorded run to a plan, and a run that it serves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cuplug.allocators.events import EventKind
from cuplug.allocators.planned import PlannedAllocator
from cuplug.allocators.planning import Plan
from cuplug.allocators.sizes import format_size
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.plugins.manager import default_manager
from cuplug.plugins.specs import hookimpl
from cuplug.plugins.tracing.writer import TraceWriter
from cuplug.runtime.machine.runtime import Runtime
from cuplug.runtime.memory.memory_stats import memory_stats, memory_summary
from cuplug.tools.replaying import one_replay

from ..conftest import Command

SERVING = Path(__file__).parents[2] / "data" / "traces" / "serving.pickle.xz"
WEIGHTS = [100_000 * (1 + place) for place in range(10)]
BATCHES = [(3 << 18, 3 << 17), (7 << 18, 7 << 17), (2 << 18, 2 << 17), (9 << 18, 9 << 17)]


def program(iterations: int) -> list[tuple[EventKind, int, int]]:
    """Kind, bytes and the block's number: weights, and a loop in which two blocks live at a time."""
    steps = [(EventKind.ALLOCATE, nbytes, number) for number, nbytes in enumerate(WEIGHTS)]
    number = len(steps)
    for _ in range(iterations):
        for pair in BATCHES:
            steps += [(EventKind.ALLOCATE, nbytes, number + place) for place, nbytes in enumerate(pair)]
            steps += [(EventKind.FREE, nbytes, number + place) for place, nbytes in enumerate(pair)]
            number += 2
    return steps


def record(path: Path, steps: list[tuple[EventKind, int, int]]) -> Path:
    """A trace of these steps."""
    writer = TraceWriter(path, {"driver": "sim", "argv": ["train.py"]})
    writer.describe(allocators={"0": "caching"})
    thread = writer.thread("MainThread")
    for time, (kind, nbytes, number) in enumerate(steps):
        rounded = -(-nbytes // 512) * 512
        writer.append(kind, 0, 1000 * time, thread, 0, (1 + number) << 24, rounded, nbytes, 0)
    writer.close()
    return path


@pytest.fixture
def repeating(tmp_path: Path) -> Path:
    return record(tmp_path / "run.cuplug", program(6))


def test_a_run_like_the_recorded_one_is_served_by_its_plan(command: Command, repeating: Path, tmp_path: Path) -> None:
    plan = tmp_path / "run.plan"
    result = command("plan", repeating, "-o", plan)
    assert result.exit_code == 0, result.stderr
    assert "8 requests repeat" in result.stderr
    assert "100.00% of their bytes" in result.stderr
    assert f"planned:plan={plan}" in result.stderr
    upstream = NullUpstream()
    allocator = PlannedAllocator(upstream, plan=str(plan))
    blocks = {}
    for kind, nbytes, number in program(10):
        if kind == EventKind.ALLOCATE:
            blocks[number] = allocator.allocate(nbytes, stream=0)
        else:
            allocator.free(blocks.pop(number))
    served = allocator.served()
    assert served.planned_requests == served.requests - len(WEIGHTS)
    # one range, of the size of the largest pair; the weights beside it
    assert allocator.statistics().all.reserved_bytes.peak <= sum(WEIGHTS) + sum(BATCHES[3]) + 8 * (2 << 20)


def test_limits_and_peaks_that_a_program_sets_anew_change_no_plan(command: Command, tmp_path: Path) -> None:
    plain = program(6)
    told = plain.copy()
    for place in (7, 20, 41):
        told[place:place] = [(EventKind.LIMIT, 1 << 30, -1), (EventKind.RESET_PEAKS, 0, -1)]
    plans = []
    for name, steps in (("plain", plain), ("told", told)):
        plan = tmp_path / f"{name}.plan"
        assert command("plan", record(tmp_path / f"{name}.cuplug", steps), "-o", plan).exit_code == 0
        plans.append(json.loads(plan.read_text())["cycles"])
    assert plans[0] == plans[1]


def test_replay_takes_a_plan(command: Command, repeating: Path, tmp_path: Path) -> None:
    plan = tmp_path / "run.plan"
    assert command("plan", repeating, "-o", plan).exit_code == 0
    result = command("replay", repeating, "-a", f"planned:plan={plan}")
    assert result.exit_code == 0, result.output


def test_what_a_plan_served_is_told_while_it_runs_in_its_trace_and_in_replays(
    command: Command, repeating: Path, tmp_path: Path
) -> None:
    plan, trace = tmp_path / "run.plan", tmp_path / "again.cuplug"
    assert command("plan", repeating, "-o", plan).exit_code == 0
    in_batches = 3 * sum(map(sum, BATCHES))
    told = (
        f"{in_batches / (in_batches + sum(WEIGHTS)):.1%} of the {format_size(in_batches + sum(WEIGHTS))} asked for, "
        "24 of 34 requests"
    )
    with Runtime(driver="sim", allocator=f"planned:plan={plan}", trace=trace) as runtime:
        allocator, blocks = runtime.allocator(0), {}
        for kind, nbytes, number in program(3):
            if kind == EventKind.ALLOCATE:
                blocks[number] = allocator.allocate(nbytes, stream=0)
            else:
                allocator.free(blocks.pop(number))
        stats = memory_stats(runtime=runtime)
        assert (stats["planned"], stats["planned_bytes"]) == (24, in_batches)
        assert f"served by a plan: {told}" in memory_summary(runtime=runtime)
    assert told in " ".join(command("summary", trace).stdout.split())
    [summary] = json.loads(command("summary", trace, "--json").stdout)["devices"]
    assert summary["served"]["planned_bytes"] == in_batches
    again = command("replay", trace, "-a", f"planned:plan={plan}", "-a", "expandable")
    assert again.stdout.count("its plan served") == 1
    assert told in " ".join(again.stdout.split())
    planned, other = json.loads(
        command("replay", trace, "-a", f"planned:plan={plan}", "-a", "expandable", "--json").stdout
    )
    assert planned["served"]["planned_requests"] == 24
    assert "served" not in other


@pytest.mark.parametrize("form", ["native", "in Python"])
def test_a_run_on_several_devices_has_one_plan_for_all(
    command: Command, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, plan = tmp_path / "run.cuplug", tmp_path / "run.plan"
    writer = TraceWriter(trace, {"driver": "sim", "argv": ["train.py"]})
    writer.describe(allocators={"0": "caching", "1": "caching"})
    thread = writer.thread("MainThread")
    for device in (0, 1):
        for time, (kind, nbytes, number) in enumerate(program(6)):
            nbytes *= 1 + device
            rounded = -(-nbytes // 512) * 512
            writer.append(kind, device, 1000 * time, thread, 0, (1 + number) << 24, rounded, nbytes, 0)
    writer.close()
    result = command("plan", trace, "-o", plan)
    assert "device 0, stream 0x0: 8 requests repeat" in result.stderr
    assert "device 1, stream 0x0: 8 requests repeat" in result.stderr
    if form == "in Python":
        monkeypatch.setattr(one_replay, "runs_in_the_core", lambda _allocator: False)
        selection = f"specified:plan={plan}"
        default_manager().register(Specified(), "specified")
    else:
        selection = f"planned:plan={plan}"
    try:
        served = one_replay.run(one_replay.Work(str(trace), selection)).result
    finally:
        if form == "in Python":
            default_manager().unregister("specified")
    in_ranges = sum(cycle.height for cycle in Plan.read(str(plan)).cycles)
    assert in_ranges == sum(BATCHES[3]) * 3
    assert served.peak_reserved_bytes <= 3 * sum(WEIGHTS) + in_ranges + 16 * (2 << 20)
    assert served.driver_calls["cuMemAddressReserve"] >= 4  # on each device a range of the plan's, and one beside


class Specified:
    @hookimpl
    def cuplug_allocators(self) -> dict[str, Any]:
        return {"specified": PlannedAllocator}


def test_a_run_in_which_nothing_repeats_gives_status_one_and_no_file(command: Command, tmp_path: Path) -> None:
    result = command("plan", SERVING, "-o", tmp_path / "none.plan")
    assert result.exit_code == 1
    assert "nothing repeats" in result.stderr
    assert not (tmp_path / "none.plan").exists()


def test_a_device_that_is_not_there_is_refused(refused: Callable[..., str], repeating: Path, tmp_path: Path) -> None:
    assert "of device 3" in refused("plan", repeating, "-o", tmp_path / "none.plan", "--device", 3)


def test_what_repeats_without_a_free_is_no_plan(command: Command, tmp_path: Path) -> None:
    trace = tmp_path / "run.cuplug"
    writer = TraceWriter(trace, {"driver": "sim", "argv": ["train.py"]})
    writer.describe(allocators={"0": "caching"})
    thread = writer.thread("MainThread")
    for number in range(4):
        writer.append(EventKind.ALLOCATE, 0, 1000 * number, thread, 0, (1 + number) << 24, 1 << 20, 1 << 20, 0)
    writer.close()
    result = command("plan", trace, "-o", tmp_path / "run.plan")
    assert result.exit_code == 1
    assert "nothing repeats" in result.stderr
    assert not (tmp_path / "run.plan").exists()


def test_a_plan_is_advised_and_fitted_only_where_something_repeats(command: Command, tmp_path: Path) -> None:
    long = record(tmp_path / "long.cuplug", program(30))
    other = [(EventKind.ALLOCATE, 1000 * (number * number % 499), number) for number in range(1, 250)]
    varied = record(tmp_path / "varied.cuplug", other)
    for trace in (long, varied):
        advised = command("advise", trace, "--json", "--jobs", 1)
        fitted = command("fit", trace, "--json", "--jobs", 1)
        assert (advised.exit_code, fitted.exit_code) == (0, 0)
        for tried in (json.loads(advised.stdout)["tried"], json.loads(fitted.stdout)):
            assert ("planned:learn=3" in {each["allocator"] for each in tried}) == (trace is long)
    assert f"cuplug-trace plan {long} -o run.plan" in command("advise", long, "--jobs", 1).stdout
    assert "cuplug-trace plan" not in command("advise", varied, "--jobs", 1).stdout
    named = command("fit", varied, "-a", "planned:learn=3", "--json", "--jobs", 1)
    assert [each["allocator"] for each in json.loads(named.stdout)] == ["planned:learn=3"]
