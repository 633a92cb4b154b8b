"""Growth is told from fragmentation, and idle memory is put down to the streams and pools that keep it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from cuplug.tools.analysis.findings import Finding, findings
from cuplug.tools.analysis.ranks import job_of
from cuplug.tools.analysis.summarize import summarize
from cuplug.tools.foreign.load import load
from cuplug.tools.replaying.rank_files import rank_of_file

from ..conftest import Command
from ..made_snapshots import BASE, MIB, MadeSnapshot, Place, saved, snapshot_of

KEEP = (("predict", "/home/u/evaluate.py", 31), ("<module>", "/home/u/evaluate.py", 60))
WORK = (("forward", "/home/u/model.py", 10), ("<module>", "/home/u/evaluate.py", 60))


def steps(count: int, *, keeps: bool) -> MadeSnapshot:
    """Steps of 60 MiB, of which each keeps 9 MiB, or frees what the step before has left."""
    made = MadeSnapshot()
    made.reserve(BASE, 64 * MIB)
    for step in range(count):
        made.allocate(BASE, 60 * MIB, *WORK)
        at = BASE + (1 + step) * 128 * MIB
        made.reserve(at, 20 * MIB)
        made.allocate(at, 9 * MIB, *KEEP)
        if step and not keeps:
            made.free(at - 128 * MIB)
        made.free(BASE)
    return made


def found(path: Path) -> list[Finding]:
    (device,) = summarize(load(path)).devices
    return findings(device, str(path))


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_leak_is_growth_by_so_much_a_step_and_no_fragmentation(command: Command, tmp_path: Path) -> None:
    path = saved(tmp_path / "leak.pickle", snapshot_of(steps(100, keeps=True)))
    first = found(path)[0]
    assert first.kind == "bad"
    assert "grows steadily, by 9.00 MiB a step, for 100 steps, asked for at predict (evaluate.py:31)" in first.what
    assert "another allocator only puts it off" in first.do
    assert not any("Try other allocators" in one.do for one in found(path))
    assert "by 9.00 MiB a step" in flat(command("summary", path).stdout)
    told = flat(command("advise", path, "--memory", "8GiB").stdout)
    assert "by 9.00 MiB a step" in told
    assert "low:" not in told
    assert "setting is enough" not in told
    assert "First stop that growth. What follows only puts it off: Set in the environment" in told
    assert "by 9.00 MiB a step" in json.loads(command("advise", path, "--json").stdout)["verdict"]


def test_what_comes_and_goes_is_no_leak(command: Command, tmp_path: Path) -> None:
    path = saved(tmp_path / "steady.pickle", snapshot_of(steps(100, keeps=False)))
    assert not any("grows" in one.what for one in found(path))
    told = command("advise", path).stdout
    assert "grows" not in told
    assert "growth" not in told


def test_the_activations_of_one_forward_pass_over_many_layers_are_no_leak(tmp_path: Path) -> None:
    made = MadeSnapshot()
    outside = (("forward", "/home/u/model.py", 40), ("<module>", "/home/u/train.py", 60))
    for layer in range(100):
        made.reserve(BASE + layer * 128 * MIB, 20 * MIB)
        made.allocate(BASE + layer * 128 * MIB, 9 * MIB, ("attention", "/home/u/model.py", 12), *outside)
        scratch = BASE + (1000 + layer) * 128 * MIB
        made.reserve(scratch, 20 * MIB)
        made.allocate(scratch, 10 * MIB, ("softmax", "/home/u/model.py", 20), *outside)
        made.free(scratch)
    path = saved(tmp_path / "forward.pickle", snapshot_of(made))
    assert not any("grows" in one.what for one in found(path))


def test_the_growth_of_a_line_that_frees_other_blocks_is_told_whole(tmp_path: Path) -> None:
    """Every step asks for two blocks at one line, and keeps one of them."""
    made = MadeSnapshot()
    made.reserve(BASE, 64 * MIB)
    for step in range(120):
        made.allocate(BASE, 60 * MIB, *KEEP)
        made.reserve(BASE + (1 + step) * 128 * MIB, 20 * MIB)
        made.allocate(BASE + (1 + step) * 128 * MIB, 9 * MIB, *KEEP)
        made.free(BASE)
    path = saved(tmp_path / "both.pickle", snapshot_of(made))
    (growth,) = [one.growth for one in summarize(load(path)).devices if one.growth is not None]
    assert growth.times in (119, 120)  # the last may still be freed
    assert growth.each == 9 * MIB


@pytest.mark.parametrize("inside", [True, False], ids=["in Python", "in C++"])
def test_a_line_that_keeps_two_blocks_in_every_step_is_told_by_the_step(tmp_path: Path, inside: bool) -> None:
    """It calls two functions of a library, each of which asks for a block: ``losses.append(loss_of(net(x)))``."""
    made = MadeSnapshot()
    made.reserve(BASE, 64 * MIB)
    for step in range(60):
        made.allocate(BASE, 60 * MIB, *WORK)
        for number, size in enumerate((9, 3)):
            address = BASE + (1 + 2 * step + number) * 128 * MIB
            made.reserve(address, 20 * MIB)
            library = [(f"relu{number}", "/usr/lib/python3/site-packages/nn.py", 7)] * inside
            made.allocate(address, size * MIB, *library, *KEEP)
        made.free(BASE)
    text = next(one.what for one in found(saved(tmp_path / "two.pickle", snapshot_of(made))))
    assert "by 12.00 MiB a step, for 60 steps, asked for at predict (evaluate.py:31): 720.00 MiB in all" in text


@pytest.mark.parametrize("blocks", [2, 3])
def test_blocks_that_follow_each_other_in_a_step_are_kept_by_one_run_of_their_line(tmp_path: Path, blocks: int) -> None:
    """Of equal size and with one call stack: ``kept += [loss.clone(), loss.clone()]``. Two layers share a line."""
    made = MadeSnapshot()
    made.reserve(BASE, 64 * MIB)
    for step in range(60):
        for frames in (WORK, WORK, (("step", "/home/u/train.py", 50),)):
            made.allocate(BASE, 60 * MIB, *frames)
            made.free(BASE)
        for number in range(blocks):
            address = BASE + (1 + blocks * step + number) * 128 * MIB
            made.reserve(address, 20 * MIB)
            made.allocate(address, 9 * MIB, *KEEP)
    text = next(one.what for one in found(saved(tmp_path / "equal.pickle", snapshot_of(made))))
    assert f"by {9 * blocks}.00 MiB a step, for 60 steps, asked for at predict (evaluate.py:31)" in text


def test_growth_that_is_no_step_is_told_with_the_time_that_was_seen_and_not_extrapolated(tmp_path: Path) -> None:
    made = MadeSnapshot()
    made.reserve(BASE, 64 * MIB)
    for step in range(90):
        made.allocate(BASE, 60 * MIB, *WORK)
        if not step % 3:
            made.reserve(BASE + (1 + step) * 128 * MIB, 20 * MIB)
            made.allocate(BASE + (1 + step) * 128 * MIB, 9 * MIB, *KEEP)
        made.free(BASE)
    text = next(one.what for one in found(saved(tmp_path / "third.pickle", snapshot_of(made))))
    assert (
        "by 9.00 MiB each time, 30 times, asked for at predict (evaluate.py:31): 270.00 MiB in all within 0.0" in text
    )


def test_of_a_line_that_many_call_the_call_is_named_from_which_it_keeps_memory(tmp_path: Path) -> None:
    helper = ("empty", "/home/u/helpers.py", 6)
    made = MadeSnapshot()
    made.reserve(BASE, 64 * MIB)
    for step in range(90):
        made.allocate(BASE, 60 * MIB, helper, *WORK)
        made.reserve(BASE + (1 + step) * 128 * MIB, 20 * MIB)
        made.allocate(BASE + (1 + step) * 128 * MIB, 9 * MIB, helper, *KEEP)
        made.free(BASE)
    text = next(one.what for one in found(saved(tmp_path / "helper.pickle", snapshot_of(made))))
    assert "asked for at empty (helpers.py:6), called at predict (evaluate.py:31): 810.00 MiB in all" in text


def test_of_two_lines_that_keep_memory_both_are_named(tmp_path: Path) -> None:
    made = MadeSnapshot()
    made.reserve(BASE, 64 * MIB)
    for step in range(90):
        made.allocate(BASE, 60 * MIB, *WORK)
        for number, frames in enumerate((KEEP, (("log", "/home/u/metrics.py", 4),))):
            address = BASE + (1 + 2 * step + number) * 128 * MIB
            made.reserve(address, 20 * MIB)
            made.allocate(address, (9 - number) * MIB, *frames)
        made.free(BASE)
    text = next(one.what for one in found(saved(tmp_path / "both.pickle", snapshot_of(made))))
    assert "by 9.00 MiB a step, for 90 steps, asked for at predict (evaluate.py:31): 810.00 MiB in all, and " in text
    assert "720.00 MiB asked for at log (metrics.py:4). That is a leak" in text


def test_a_known_device_says_after_how_many_steps_it_is_full(tmp_path: Path) -> None:
    made = steps(100, keeps=True)
    made.entry("oom", 0, 100 * MIB, device_free=90 * MIB)
    path = saved(tmp_path / "leak.pickle", snapshot_of(made))
    assert any("The device is full after 10 more." in one.what for one in found(path))


def keep(made: MadeSnapshot, number: int, nbytes: int, *frames: Place) -> int:
    """Another block in a segment of its own. Its address."""
    address = BASE + (1 + number) * 1024 * MIB
    made.reserve(address, nbytes)
    made.allocate(address, nbytes, *frames)
    return address


def work(made: MadeSnapshot, *frames: Place) -> None:
    """A block comes and goes."""
    made.allocate(BASE, 60 * MIB, *(frames or WORK))
    made.free(BASE)


@pytest.mark.parametrize("steady", [50, 70, 78])
def test_a_leak_that_begins_in_the_middle_of_a_run_is_told(tmp_path: Path, steady: int) -> None:
    """What comes and goes is asked for in its first part as well, at the line that leaks later."""
    made = MadeSnapshot()
    made.reserve(BASE, 64 * MIB)
    for step in range(100):
        work(made)
        address = keep(made, step, 9 * MIB, *KEEP)
        if step < steady:
            made.free(address)
    first = found(saved(tmp_path / "late.pickle", snapshot_of(made)))[0]
    assert f"for {100 - steady} steps" in first.what or f"for {99 - steady} steps" in first.what
    assert "by 9.00 MiB a step" in first.what


def test_a_queue_that_grows_is_told_though_all_that_it_held_at_first_is_gone(tmp_path: Path) -> None:
    made = MadeSnapshot()
    made.reserve(BASE, 64 * MIB)
    waits: list[int] = []
    for step in range(60):
        work(made)
        waits += [keep(made, 2 * step + number, 9 * MIB, *KEEP) for number in range(2)]
        made.free(waits.pop(0))
    text = found(saved(tmp_path / "queue.pickle", snapshot_of(made)))[0].what
    assert "by 9.00 MiB each time" in text
    assert "asked for at predict (evaluate.py:31)" in text


def test_batches_of_a_validation_that_keep_memory_are_no_steps(tmp_path: Path) -> None:
    made = MadeSnapshot()
    made.reserve(BASE, 64 * MIB)
    for epoch in range(6):
        for _ in range(10):
            for _ in range(3):
                work(made)
        for number in range(5):
            work(made, ("forward", "/home/u/model.py", 10), *KEEP[1:])
            keep(made, 5 * epoch + number, 9 * MIB, *KEEP)
    text = found(saved(tmp_path / "validation.pickle", snapshot_of(made)))[0].what
    assert "by 9.00 MiB each time, 30 times, asked for at predict (evaluate.py:31)" in text


def test_a_loop_over_layers_that_keep_their_activations_is_told_by_the_step(tmp_path: Path) -> None:
    made = MadeSnapshot()
    made.reserve(BASE, 64 * MIB)
    for step in range(40):
        work(made, ("forward", "/home/u/model.py", 8), *KEEP[1:])
        for layer in range(6):
            net = (("forward", "/home/u/model.py", 9), *KEEP[1:])
            work(made, ("forward", "/home/u/layer.py", 2), *net)
            keep(made, 6 * step + layer, 2 * MIB, ("forward", "/home/u/layer.py", 3), *net)
    text = found(saved(tmp_path / "layers.pickle", snapshot_of(made)))[0].what
    assert "by 12.00 MiB a step, for 40 steps, asked for at forward (layer.py:3)" in text


def test_what_is_loaded_before_the_work_or_after_it_is_no_growth(tmp_path: Path) -> None:
    for name, begins in (("first", 0), ("last", 200)):
        made = MadeSnapshot()
        made.reserve(BASE, 64 * MIB)
        for number in range(260):
            if begins <= number < begins + 60:
                keep(made, number, 9 * MIB, *KEEP)
            else:
                work(made)
        assert not any("grows" in one.what for one in found(saved(tmp_path / f"{name}.pickle", snapshot_of(made))))


def test_what_fills_and_is_emptied_is_no_growth_while_it_fills_once_more(tmp_path: Path) -> None:
    made = MadeSnapshot()
    made.reserve(BASE, 64 * MIB)
    first = []
    for step in range(380):
        for _ in range(5):
            work(made)
        address = keep(made, step, 2 * MIB, *KEEP)
        if step < 200:
            first.append(address)
        if step == 199:
            for address in first:
                made.free(address)
    assert not any("grows" in one.what for one in found(saved(tmp_path / "fills.pickle", snapshot_of(made))))


def test_what_grows_in_the_middle_of_a_run_and_comes_to_rest_is_no_growth(tmp_path: Path) -> None:
    made = MadeSnapshot()
    made.reserve(BASE, 64 * MIB)
    for step in range(400):
        work(made)
        if 200 <= step < 310:
            keep(made, step, 2 * MIB, *KEEP)
    assert not any("grows" in one.what for one in found(saved(tmp_path / "rests.pickle", snapshot_of(made))))


def test_what_was_loaded_first_is_not_what_grows_where_blocks_are_exchanged_for_larger_ones(tmp_path: Path) -> None:
    """Without call stacks the weights are of the same site as what grows."""
    made = MadeSnapshot()
    made.reserve(BASE, 64 * MIB)
    for number in range(40):
        keep(made, number, 4 * MIB)
    last = keep(made, 40, MIB)
    for step in range(100):
        work(made)
        new = keep(made, 41 + step, (2 + step) * MIB)
        made.free(last)
        last = new
    assert not any("40 times" in one.what for one in found(saved(tmp_path / "larger.pickle", snapshot_of(made))))


def test_where_growth_filled_the_device_nothing_else_is_said_to_have_made_the_request_fit(
    command: Command, tmp_path: Path
) -> None:
    made = MadeSnapshot()
    made.reserve(BASE, 110 * MIB)
    for step in range(100):
        work(made)
        made.reserve(BASE + (1 + step) * 128 * MIB, 10 * MIB)
        made.allocate(BASE + (1 + step) * 128 * MIB, 9 * MIB, *KEEP)
    made.allocate(BASE, 10 * MIB, *WORK, offset=50 * MIB)
    made.entry("oom", 0, 105 * MIB, device_free=50 * MIB)
    told = flat(command("summary", saved(tmp_path / "leak.pickle", snapshot_of(made))).stdout)
    assert "Without that growth the request would fit." in told
    assert "Without that, the request would fit." not in told


def test_growth_up_to_a_limit_is_told_with_the_limit_and_the_device_is_not_said_to_be_full(tmp_path: Path) -> None:
    made = MadeSnapshot()
    made.reserve(BASE, 64 * MIB)
    for step in range(100):
        made.allocate(BASE, 60 * MIB, *WORK)
        made.reserve(BASE + (1 + step) * 128 * MIB, 10 * MIB)
        made.allocate(BASE + (1 + step) * 128 * MIB, 9 * MIB, *KEEP)
        made.free(BASE)
    made.entry("oom", 0, 60 * MIB, device_free=4096 * MIB)
    told = found(saved(tmp_path / "limit.pickle", snapshot_of(made)))
    assert not any("The device is full" in one.what for one in told)
    (ran_out,) = [one.do for one in told if one.what.startswith("Out of memory")]
    assert ran_out.startswith("Without that growth the request would fit. The device had enough free")
    assert "set_per_process_memory_fraction" in ran_out


def test_what_a_private_pool_keeps_below_a_limit_is_told_with_the_limit(tmp_path: Path) -> None:
    made = MadeSnapshot()
    made.reserve(BASE, 400 * MIB, pool=(0, 1))
    made.allocate(BASE, 400 * MIB)
    made.free(BASE)
    made.entry("oom", 0, 300 * MIB, device_free=4096 * MIB)
    (told,) = [one for one in found(saved(tmp_path / "pool.pickle", snapshot_of(made))) if "Out of memory" in one.what]
    assert "400.00 MiB lay idle in private pools" in told.verdict
    assert told.do.startswith("Let graphs share a pool")
    assert "set_per_process_memory_fraction" in told.do


def test_what_lies_idle_for_other_streams_is_told(tmp_path: Path) -> None:
    made = MadeSnapshot()
    for number in range(12):
        at = BASE + number * 4096 * MIB
        made.reserve(at, 2048 * MIB, stream=1000 + number)
        made.allocate(at, 2048 * MIB, stream=1000 + number)
        made.free(at)
    path = saved(tmp_path / "streams.pickle", snapshot_of(made))
    assert any("22.00 GiB lie idle in the pools of 11 other streams" in one.what for one in found(path))


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """4 GiB freed in a graph's pool, then 4 GiB outside of it."""
    made = MadeSnapshot()
    made.reserve(BASE, 4096 * MIB, pool=(0, 1))
    made.allocate(BASE, 4096 * MIB)
    made.free(BASE)
    made.reserve(BASE + 8192 * MIB, 4096 * MIB)
    made.allocate(BASE + 8192 * MIB, 4096 * MIB)
    return saved(tmp_path / "graph.pickle", snapshot_of(made))


@pytest.mark.parametrize("allocator", ["caching:preset=torch", "caching", "expandable"])
def test_a_graphs_pool_serves_nothing_else_in_replays_and_fit(command: Command, graph: Path, allocator: str) -> None:
    (result,) = json.loads(command("replay", graph, "-a", allocator, "--json").stdout)
    assert result["peak_reserved_bytes"] == 8192 * MIB
    (fit,) = json.loads(command("fit", graph, "-a", allocator, "--json").stdout)
    assert fit["least"] == 8192 * MIB


def test_a_graphs_pool_has_a_name_and_what_it_keeps_is_told(command: Command, graph: Path) -> None:
    what = "The private pool graph (0, 1) keeps 4.00 GiB, of which 4.00 GiB are idle"
    assert any(what in one.what for one in found(graph))
    told = flat(command("summary", graph).stdout)
    assert "4.00 GiB 4294967296 4.00 GiB 4.00 GiB graph (0, 1)" in told
    assert "4.00 GiB 4294967296 0 B all else" in told
    assert "empty_cache() would give back 0 B" in told
    advice = command("advise", graph).stdout
    assert "No allocator can reserve less" not in advice


def test_of_pages_that_grow_only_those_with_blocks_are_pinned(command: Command, tmp_path: Path) -> None:
    """PyTorch tells of ten pages of 20 MiB at once, and gives back nine of them; five it has given back already."""
    made = MadeSnapshot()
    made.reserve(BASE, 300 * MIB)
    made.segments[BASE]["is_expandable"] = True
    made.entries[-1]["action"] = "segment_map"
    made.allocate(BASE, 290 * MIB)
    made.free(BASE)
    made.entry("segment_unmap", BASE + 200 * MIB, 100 * MIB)
    made.segments[BASE]["total_size"] = 200 * MIB
    made.allocate(BASE, 5 * MIB, *KEEP)
    told = flat(command("summary", saved(tmp_path / "pages.pickle", snapshot_of(made))).stdout)
    assert "idle at the end 195.00 MiB of what is reserved, of which empty_cache() would give back 180.00 MiB" in told
    assert "One segment of 200.00 MiB, 15.00 MiB of it unused, is pinned by a block of 5.00 MiB, asked" in told


def test_advice_says_first_why_memory_ran_out(command: Command, tmp_path: Path) -> None:
    made = MadeSnapshot()
    made.reserve(BASE, 4000 * MIB)
    made.allocate(BASE, 4000 * MIB, *WORK)
    made.entry("oom", 0, 1000 * MIB, device_free=10 * MIB)
    path = saved(tmp_path / "oom.pickle", snapshot_of(made))
    told = flat(command("advise", path).stdout)
    assert "where 1000.00 MiB were asked for: it needs more than there is." in told
    assert "No allocator or setting makes it fit" in told
    assert "Stay with" not in told
    assert "Set in" not in told
    assert json.loads(command("advise", path, "--json").stdout)["recommended"] is None
    assert "needs more than there is" in json.loads(command("advise", path, "--json").stdout)["ran_out"]


def refused(path: Path, wanted: int, *, used: int, reserved: int, free: int) -> Path:
    """8 segments, each with a block at its beginning; then a request fails. Sizes in MiB."""
    made = MadeSnapshot()
    for number in range(8):
        made.reserve(BASE + number * 8192 * MIB, reserved * MIB)
        made.allocate(BASE + number * 8192 * MIB, used * MIB, *WORK)
    made.entry("oom", 0, wanted * MIB, device_free=free * MIB)
    return saved(path, snapshot_of(made))


def test_a_request_for_all_of_one_free_piece_failed_by_rounding_and_not_by_fragmentation(tmp_path: Path) -> None:
    for name, path in {
        "on the device": refused(tmp_path / "a.pickle", 9, used=12, reserved=12, free=9),
        "in a segment": refused(tmp_path / "b.pickle", 256, used=768, reserved=1024, free=0),
    }.items():
        failure = next(one for one in found(path) if one.what.startswith("Out of memory"))
        assert failure.verdict.endswith("MiB were free in one piece: too little once it is rounded up."), name
        assert "fragmentation" not in failure.told + failure.do


def test_a_request_for_all_that_is_free_in_pieces_failed_by_fragmentation(tmp_path: Path) -> None:
    path = refused(tmp_path / "pieces.pickle", 2048, used=768, reserved=1024, free=0)
    assert any("2.00 GiB were free, but in pieces: fragmentation." in one.verdict for one in found(path))


def test_below_a_limit_memory_in_pieces_is_fragmentation_and_the_limit_is_told(tmp_path: Path) -> None:
    path = refused(tmp_path / "below.pickle", 1024, used=600, reserved=1024, free=30000)
    failure = next(one for one in found(path) if one.what.startswith("Out of memory"))
    assert "3.31 GiB were free, but in pieces: fragmentation." in failure.verdict
    assert "look for a limit" in failure.do
    assert failure.memory == 8192 * MIB


@pytest.mark.parametrize("memory", [[], ["--memory", "34GiB"]])
def test_advice_ranks_nothing_where_a_limit_refused_what_the_device_had(
    command: Command, tmp_path: Path, memory: list[str]
) -> None:
    path = refused(tmp_path / "limit.pickle", 1024, used=1024, reserved=1024, free=30000)
    told = flat(command("advise", path, *memory).stdout)
    assert "a limit, not fragmentation." in told
    assert "No allocator or setting makes it fit into what it had, 8.00 GiB." in told
    assert "look for a limit" in told
    assert "expandable" not in told
    assert ("completes this history on 34.00 GiB" in told) == bool(memory)
    assert "expandable" in command("advise", path, *memory, "--verbose").stdout


def test_a_job_of_which_a_process_needs_more_than_there_is_is_not_told_to_stay(
    command: Command, tmp_path: Path
) -> None:
    refused(tmp_path / "rank0.pickle", 1024, used=64, reserved=64, free=40000)
    refused(tmp_path / "rank1.pickle", 1024, used=1024, reserved=1024, free=100)
    told = flat(command("advise", tmp_path).stdout)
    assert "rank0: It ran out of memory at 0.002 s, where 1.00 GiB were asked for and the device had" in told
    assert "rank1: It ran out of memory at 0.002 s, where 1.00 GiB were asked for: it needs more than there is." in told
    assert "makes it fit into what it had, 8.10 GiB." in told
    assert "Stay with" not in told
    assert json.loads(command("advise", tmp_path, "--json").stdout)["recommended"] is None


def test_advice_ranks_below_a_limit_where_that_is_tried(command: Command, tmp_path: Path) -> None:
    path = refused(tmp_path / "limit.pickle", 1024, used=1024, reserved=1024, free=30000)
    told = flat(command("advise", path, "--memory", "8GiB").stdout)
    assert "None completes this history" in told


def test_a_pickled_list_of_segments_is_the_state_at_one_moment(command: Command, graph: Path, tmp_path: Path) -> None:
    segments = load(graph).kept["segments"]
    path = saved(tmp_path / "segments.pickle", segments)
    told = flat(command("summary", path).stdout)
    assert "At that moment" in told
    assert "requested by the program 4294967296" in told
    assert "graph (0, 1)" in told


def test_a_pickled_dict_of_segments_alone_is_that_too(command: Command, graph: Path, tmp_path: Path) -> None:
    segments = pickle.loads(graph.read_bytes())["segments"]
    path = saved(tmp_path / "segments.pickle", {"segments": segments})
    assert "what was before is not known" in flat(command("summary", path).stdout)


def test_segments_of_another_program_are_not_called_a_damaged_snapshot(command: Command, tmp_path: Path) -> None:
    for number, segments in enumerate(([], [{"id": 0, "text": "spoken"}])):
        path = saved(tmp_path / f"{number}.pickle", {"segments": segments})
        assert "is not a PyTorch memory snapshot: it has no 'device_traces'" in flat(command("summary", path).stderr)


def test_annotations_of_a_device_without_memory_make_no_history_of_it(command: Command, tmp_path: Path) -> None:
    """PyTorch notes the device that is current, which the program need not use."""
    made = steps(100, keeps=False)
    noted = [{"name": "step", "stage": "START", "time_us": 1_700_000_000_000_500, "device": 0}]
    idle = {"segments": [], "device_traces": [[], made.entries], "external_annotations": noted}
    assert "Device 0" not in command("summary", saved(tmp_path / "other.pickle", idle)).stdout
    state = {**snapshot_of(made), "device_traces": [[]], "external_annotations": noted}
    told = flat(command("summary", saved(tmp_path / "state.pickle", state)).stdout)
    assert "what was before is not known" in told


def test_a_rank_with_more_to_hold_is_not_called_leaking(tmp_path: Path) -> None:
    ranks = []
    for number, size in enumerate((100, 100, 400)):
        made = MadeSnapshot()
        made.reserve(BASE, size * MIB)
        made.allocate(BASE, size * MIB, *KEEP)
        path = saved(tmp_path / f"rank{number}.pickle", snapshot_of(made))
        ranks.append(rank_of_file(str(path)))
    (told,) = [one for one in job_of(ranks).findings if "rank 2" in one.what and "live" not in one.what][1:]
    assert told.what.startswith("rank 2 holds more at its end")
    assert told.kind == "note"
    assert not any("leaks" in one.what for one in job_of(ranks).findings)
