"""``cuplug-trace advise`` and ``fit``: the ranking is by what was measured, and the least memory is the least."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cuplug.allocators.events import EventKind
from cuplug.plugins.tracing.reader import read_trace
from cuplug.plugins.tracing.writer import TraceWriter, write_trace
from cuplug.tools.replaying.least_memory import FitWork, fit_one
from cuplug.tools.replaying.one_replay import Work, run

from ..conftest import Command
from ..made_snapshots import BASE, MadeSnapshot, saved, snapshot_of, split_for_small_blocks

MIB = 1 << 20
INSTALL = "A PyTorch program needs cuplug beside it:  pip install '.[tools,torch]'"


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Blocks of growing sizes, each freed when the next but one comes: what caches badly."""
    path = tmp_path / "mixed.cuplug"
    writer = TraceWriter(path, {})
    held: list[tuple[int, int]] = []
    time = 0
    for number in range(60):
        nbytes = (3 + number % 17 * 2) * MIB
        address = (number + 1) << 30
        time += 1_000_000
        writer.append(EventKind.ALLOCATE, 0, time, 0, 0, address, nbytes, nbytes, 0)
        held.append((address, nbytes))
        if len(held) > 2:
            address, nbytes = held.pop(0)
            writer.append(EventKind.FREE, 0, time, 0, 0, address, nbytes, nbytes, 0)
    writer.close()
    return path


def test_what_advise_names_reserves_the_least_of_all_it_tried(command: Command, mixed: Path) -> None:
    result = command("advise", mixed, "--json", "--jobs", 1)
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    peaks = {entry["allocator"]: entry["peak_reserved_bytes"] for entry in found["tried"]}
    assert {"caching", "caching:preset=torch", "caching:roundup_power2_divisions=4", "bump"} <= set(peaks)
    assert peaks[found["recommended"]] == min(peaks.values())
    assert list(peaks.values()) == sorted(peaks.values())
    assert found["environment"] == f"CUPLUG_ALLOCATOR={found['recommended']}"
    assert found["reference"]["allocator"] == "direct"
    assert "direct" not in peaks


def test_advise_prints_the_line_to_put_into_the_program(command: Command, mixed: Path) -> None:
    text = command("advise", mixed, "--jobs", 1).stdout
    assert "cuplug.init(allocator=" in text
    assert "CUPLUG_ALLOCATOR=" in text


def test_with_too_little_memory_advise_says_so_and_fails(command: Command, mixed: Path) -> None:
    result = command("advise", mixed, "--memory", "16MiB", "--jobs", 1)
    assert result.exit_code == 1
    assert "None completes this history" in result.stdout
    assert re.search(r"runs out at \d+ %", result.stdout)


def test_memory_sorts_those_that_fail_behind_those_that_complete(command: Command, mixed: Path) -> None:
    found = json.loads(command("advise", mixed, "--memory", "128MiB", "--json", "--jobs", 1).stdout)
    failed = [bool(entry.get("failure")) for entry in found["tried"]]
    assert failed == sorted(failed)
    assert any(failed)
    assert not all(failed)


@pytest.mark.parametrize("allocator", ["caching", "caching:preset=torch", "direct"])
def test_fit_agrees_with_replays_just_above_and_just_below(mixed: Path, allocator: str) -> None:
    fit = fit_one(FitWork(str(mixed), allocator))
    assert fit is not None
    assert fit.step == 2 * MIB
    assert fit.least >= fit.peak_requested
    for memory, completes in ((fit.least - fit.step, False), (fit.least, True), (fit.least + fit.step, True)):
        assert (not run(Work(str(mixed), allocator, memory)).result.failure) is completes, memory


def test_fit_ranks_allocators_by_the_memory_they_need(command: Command, mixed: Path) -> None:
    result = command("fit", mixed, "-a", "caching:preset=torch", "-a", "direct", "--json", "--jobs", 1)
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert [entry["allocator"] for entry in found] == ["direct", "caching:preset=torch"]
    assert "direct" in command("fit", mixed, "-a", "direct", "--jobs", 1).stdout


def test_a_trace_without_allocations_is_refused(refused: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "none.cuplug"
    TraceWriter(path, {}).close()
    for name in ("advise", "fit", "replay"):
        assert "has no allocations to replay" in refused(name, path, "--jobs", 1)


def test_advice_ends_with_the_command_lines_for_a_pytorch_program_and_for_a_plan(command: Command, mixed: Path) -> None:
    told = json.loads(command("advise", mixed, "--json", "--jobs", 1).stdout)
    native = [one["allocator"] for one in told["tried"] if one["allocator"].startswith(("caching", "expandable"))]
    assert told["command"] == f"cuplug-trace run --torch -a {native[0]} train.py"
    text = command("advise", mixed, "--jobs", 1).stdout.rstrip()
    assert text.endswith("-o run.plan")  # the sizes come three times, so that a plan serves them
    assert text.splitlines()[-3].endswith(told["command"])
    assert text.splitlines()[-2].endswith(INSTALL)


def recorded_on(allocator: str, mixed: Path) -> Path:
    """The same history, of a program that ran on an allocator."""
    trace = read_trace(mixed)
    fields = {**trace.header.fields, "allocators": {"0": allocator}}
    path = mixed.with_name("ran.cuplug")
    write_trace(replace(trace, header=replace(trace.header, fields=fields)), path)
    return path


def test_what_the_history_ran_on_is_not_recommended(command: Command, mixed: Path) -> None:
    best = json.loads(command("advise", mixed, "--json", "--jobs", 1).stdout)["recommended"]
    ran = recorded_on(best, mixed)
    told = json.loads(command("advise", ran, "--json", "--jobs", 1).stdout)
    assert told["recommended"] is None
    assert told["environment"] is None
    assert told["ran_on"] == best
    text = " ".join(command("advise", ran, "--jobs", 1).stdout.split())
    assert f"Stay with {best}, on which this ran already: none that was tried reserves noticeably less." in text
    assert "CUPLUG_ALLOCATOR=" not in text
    two = shutil.copy(ran, ran.with_name("rank1.cuplug"))
    job = command("advise", ran, two, "--jobs", 1).stdout
    assert f"Stay with {best}" in job
    assert "CUPLUG_ALLOCATOR=" not in job
    assert json.loads(command("advise", ran, two, "--json", "--jobs", 1).stdout)["recommended"] is None


def test_a_program_of_pytorchs_is_told_how_pytorch_selects_it(command: Command, tmp_path: Path) -> None:
    path = saved(tmp_path / "split.pickle", split_for_small_blocks())
    told = json.loads(command("advise", path, "--json", "--jobs", 1).stdout)
    chosen = told["recommended"]
    assert "preset=torch" not in chosen
    assert chosen.partition(":")[0] in ("caching", "expandable")
    assert told["environment"] == f"CUPLUG_TORCH={chosen}"
    assert told["program"] is None
    text = " ".join(command("advise", path, "--jobs", 1).stdout.split())
    assert (
        "Set in the environment: PYTORCH_ALLOC_CONF=max_split_size_mb:128 Or on cuplug's memory (900.00 MiB):" in text
    )
    assert f"train.py {' '.join(INSTALL.split())}" in text
    assert "Use " not in text
    assert "it would reserve 900.00 MiB, so that this setting is enough." in text
    job = " ".join(command("advise", path, shutil.copy(path, tmp_path / "rank1.pickle"), "--jobs", 1).stdout.split())
    assert (
        f"Use {chosen} in every process, in the environment: CUPLUG_TORCH={chosen} {' '.join(INSTALL.split())}" in job
    )


def test_where_nothing_reserves_noticeably_less_pytorchs_own_allocator_stays(command: Command, tmp_path: Path) -> None:
    made = MadeSnapshot()
    made.reserve(BASE, 600 * MIB)
    made.allocate(BASE, 600 * MIB)
    path = saved(tmp_path / "full.pickle", snapshot_of(made))
    told = json.loads(command("advise", path, "--json", "--jobs", 1).stdout)
    assert (told["recommended"], told["environment"], told["command"]) == (None, None, None)
    assert told["tried"][0]["allocator"] == "caching:preset=torch"  # of equals, what ran
    text = " ".join(command("advise", path, "--jobs", 1).stdout.split())
    assert "nothing that was tried reserves noticeably less than PyTorch's own allocator, on which this ran." in text
    assert "train.py" not in text
    job = command("advise", path, shutil.copy(path, tmp_path / "rank1.pickle"), "--jobs", 1).stdout
    assert "Stay with PyTorch's own allocator" in job


@pytest.fixture
def split(tmp_path: Path) -> Path:
    """900 MiB at its peak, and on PyTorch's allocator 1200."""
    return saved(tmp_path / "split.pickle", split_for_small_blocks())


def told(command: Command, *words: object) -> str:
    return " ".join(command("advise", *words, "--jobs", 1).stdout.split())


def test_without_a_limit_a_snapshot_without_a_failed_request_asks_for_the_memory(command: Command, split: Path) -> None:
    text = told(command, split)
    assert "It is little history, 8 events. No request failed in this file." in text
    assert "If your job died, give --memory SIZE: allocators behave differently near the limit" in text
    assert "less 0.3 to 1 GiB for the CUDA context and the libraries" in text


def test_with_a_limit_the_cause_is_fragmentation_where_enough_is_free_in_pieces(command: Command, split: Path) -> None:
    text = told(command, split, "--memory", "900MiB")
    assert (
        "It was fragmentation: on 900.00 MiB, PyTorch without settings fails when 600.00 MiB are asked for and 600.00 "
        "MiB are free, but in pieces: 300.00 MiB outside of what it has reserved, 300.00 MiB within." in text
    )
    assert "so that this setting is enough, but tight (0.0 % spare)." in text
    assert "Or on cuplug's memory (900.00 MiB, 0.0 % spare): cuplug-trace run --torch -a caching" in text
    assert "If your job died" not in text
    pressed = json.loads(command("advise", split, "--memory", "900MiB", "--json", "--jobs", 1).stdout)
    assert pressed["cause"] in text


@pytest.mark.parametrize(("memory", "fits"), [("900MiB", False), ("1250MiB", False), ("4GiB", True)])
def test_where_the_program_fits_as_it_is_that_is_said_before_what_reserves_less(
    command: Command, split: Path, memory: str, fits: bool
) -> None:
    text = told(command, split, "--memory", memory)
    assert ("This history fits as it is. To reserve less: Set in the environment" in text) == fits
    assert "Set in the environment" in text


def test_with_a_limit_the_cause_is_rounding_where_the_request_itself_could_be_reserved(
    command: Command, tmp_path: Path
) -> None:
    made = MadeSnapshot()
    made.reserve(BASE, 20 * MIB)
    made.allocate(BASE, 5 * MIB)
    text = told(command, saved(tmp_path / "small.pickle", snapshot_of(made)), "--memory", "16MiB")
    assert (
        "It is too tight for the rounding of sizes: on 16.00 MiB, PyTorch without settings fails when 5.00 MiB are "
        "asked for and 16.00 MiB are free, 16.00 MiB of them outside of what it has reserved, but it rounds the "
        "request to more than that." in text
    )
    assert "fragmentation:" not in text


def test_the_two_forms_of_an_allocator_lack_the_same(split: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(str(split), "caching:preset=torch", 900 * MIB, stop_at_failure=True)
    native = run(work).result.shortage
    monkeypatch.setattr("cuplug.tools.replaying.one_replay.runs_in_the_core", lambda selection: False)
    assert run(work).result.shortage == native
    assert native is not None
    assert (native.requested, native.active, native.reserved, native.done) == (600 * MIB, 300 * MIB, 600 * MIB, 0.75)


def test_with_a_limit_below_the_peak_the_program_itself_needs_more(command: Command, tmp_path: Path) -> None:
    made = MadeSnapshot()
    made.reserve(BASE, 600 * MIB)
    made.allocate(BASE, 600 * MIB, ("forward", "/home/u/model.py", 39))
    text = told(command, saved(tmp_path / "large.pickle", snapshot_of(made)), "--memory", "512MiB")
    assert "it holds 600.00 MiB at its peak, asked for above all at forward (model.py:39), and there are 512.00" in text
    assert "No allocator helps" in text


def test_with_enough_memory_the_program_is_said_to_complete(command: Command, split: Path) -> None:
    text = told(command, split, "--memory", "2GiB")
    assert "PyTorch without settings completes this history on 2.00 GiB, with 41.4 % of it to spare." in text


def test_a_failure_is_one_line_of_the_table_and_its_message_is_for_verbose(command: Command, split: Path) -> None:
    words = ("advise", split, "--memory", "900MiB", "--jobs", 1)
    short, long = command(*words).stdout, command(*words, "--verbose").stdout
    assert re.search(r"(?m)^ *-  PyTorch without settings .*runs out at 75 %$", short)
    assert "Tried to allocate" not in short
    assert "PyTorch without settings: event" in long
    assert "Tried to allocate 600.00 MiB" in long


def test_at_80_columns_what_is_reserved_and_the_risk_stay(
    command: Command, split: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = command("advise", split, "--memory", "900MiB", "--jobs", 1).stdout
    table = text.partition("\n\n")[0]
    lines = table.splitlines()
    header = next(line for line in lines if "Allocator" in line)
    assert header.split("  ")[-1] == "risk of OOM"
    assert "peak reserved" in header
    assert "driver time" not in text.replace("One call", "").lower()
    assert max(len(line) for line in lines if str(split) not in line) <= 80  # whose path may be longer
    assert re.search(r"(?m)  PyTorch max_split_size_mb:128, .*\n +garbage_collection_threshold:0.8$", table)


def test_of_a_job_those_that_fail_have_no_figure_and_the_cause_is_told(command: Command, split: Path) -> None:
    other = shutil.copy(split, split.with_name("other.pickle"))
    text = command("advise", split, other, "--memory", "900MiB", "--jobs", 1).stdout
    assert re.search(r"-  PyTorch without settings +(split +)?runs out of memory", text)
    assert "split: It was fragmentation: on 900.00 MiB" in text
    assert "A job of 2 processes, if these files belong together" in text
    alike = shutil.copy(split, split.with_name("split1.pickle"))
    assert "A job of 2 processes\n" in command("advise", split, alike, "--jobs", 1).stdout


def test_of_a_log_of_rmms_advise_says_what_rmms_pool_would_reserve_and_does_not_recommend_it(
    command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    lines = ["Thread,Time,Action,Pointer,Size,Stream", "1,10:00:00:000001,allocate,0x1000,1048576,0x0"]
    path.write_text("\n".join(lines) + "\n")
    found = json.loads(command("advise", path, "--json").stdout)
    peaks = {entry["allocator"]: entry["peak_reserved_bytes"] for entry in found["tried"]}
    assert peaks["rmm-pool"] == min(peaks.values()) == MIB
    assert found["recommended"] != "rmm-pool"
    told = " ".join(command("advise", path, "-a", "rmm-pool:initial_pool_size=64MiB").stdout.split())
    assert "rmm-pool: what RMM's pool_memory_resource would reserve, grown from nothing" in told
    assert "rmm-pool:initial_pool_size=64MiB 67108864 64.00 MiB" in told
    assert "Use rmm-pool" not in told
    other = shutil.copy(path, path.with_name("log1.csv"))
    job = " ".join(command("advise", path, other, "--jobs", 1).stdout.split())
    assert "rmm-pool: what RMM's pool_memory_resource would reserve" in job
    assert "Use rmm-pool" not in job
