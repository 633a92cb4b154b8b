"""``cuplug-trace replay``: its table, its JSON, its exit status."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from cuplug.tools import trace as door
from cuplug.tools.replaying.one_replay import Work, run
from cuplug.tools.replaying.worker_pool import in_parallel

from ..conftest import Command

HISTORY = Path(door.__file__).parent / "data" / "resnet_multiscale.pickle.xz"
KEYS = [
    "trace", "allocator", "events", "peak_requested_bytes", "peak_allocated_bytes", "peak_reserved_bytes",
    "reserved_over_requested", "driver_calls", "driver_time_us", "driver_time_share",
    "out_of_memory_events", "seconds", "events_per_second",
]  # fmt: skip


def test_the_json_has_one_object_for_each_file_and_allocator(command: Command, small_trace: Path) -> None:
    second = small_trace.with_name("copy")
    second.write_bytes(small_trace.read_bytes())
    result = command("replay", small_trace, second, small_trace, "-a", "caching", "-a", "direct", "--json", "--jobs", 1)
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert [entry["allocator"] for entry in found] == ["caching", "direct"] * 2
    for entry in found:
        assert list(entry) == KEYS
    assert [entry["trace"] for entry in found] == [str(small_trace)] * 2 + [str(second)] * 2


def test_direct_reserves_what_was_requested_rounded_to_512(command: Command, small_trace: Path) -> None:
    (entry,) = json.loads(command("replay", small_trace, "-a", "direct", "--json").stdout)
    # device 0: 1000 waits for a stream beside 4000; device 1: 2000
    assert entry["peak_requested_bytes"] == 5000 + 2000
    assert entry["peak_reserved_bytes"] == 1024 + 4096 + 2048
    assert entry["driver_calls"] == {"cuMemAlloc": 4, "cuMemFree": 2}


def test_pytorch_preset_reserves_what_pytorch_did_on_a_real_history(command: Command) -> None:
    result = command("replay", HISTORY, "-a", "caching:preset=torch", "--json")
    (entry,) = json.loads(result.stdout)
    assert entry["peak_reserved_bytes"] == 8_667_529_216
    assert entry["peak_requested_bytes"] == 6_036_082_576


def test_too_little_memory_gives_status_1_and_names_the_event(command: Command, small_trace: Path) -> None:
    result = command("replay", small_trace, "-a", "direct", "--memory", "4KiB")
    assert result.exit_code == 1
    assert "event 2, allocating 4000 bytes of stream 0x5 on device 0" in result.stderr
    (entry,) = json.loads(command("replay", small_trace, "-a", "direct", "--memory", "4KiB", "--json").stdout)
    assert entry["out_of_memory_events"] == 1
    assert "event 2" in entry["failure"]


@pytest.mark.parametrize("allocator", ["caching", "direct"])
def test_the_simulator_makes_the_calls_that_the_null_upstream_counts(
    command: Command, small_trace: Path, allocator: str
) -> None:
    found = [
        json.loads(command("replay", small_trace, "-a", allocator, "-d", driver, "--json").stdout)[0]
        for driver in ("null", "sim")
    ]
    for key in ("peak_requested_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "driver_calls"):
        assert found[0][key] == found[1][key], key


def test_memory_limits_the_simulator_too(command: Command, small_trace: Path) -> None:
    result = command("replay", small_trace, "-a", "direct", "-d", "sim", "--memory", "4KiB")
    assert result.exit_code == 1
    assert "event 2" in result.stderr


def test_processes_in_parallel_find_the_same(command: Command, small_trace: Path) -> None:
    words = ["replay", small_trace, "-a", "caching", "-a", "direct", "--json", "--jobs"]
    alone, together = (json.loads(command(*words, jobs).stdout) for jobs in (1, 2))
    for one, other in zip(alone, together, strict=True):
        for key in KEYS[:-2]:
            assert one[key] == other[key], key


def test_what_a_process_raises_arrives(refused: Callable[..., str], tmp_path: Path, small_trace: Path) -> None:
    (tmp_path / "odd").write_bytes(b"x")
    assert "neither a cuplug trace" in refused("replay", tmp_path / "odd", small_trace, "--jobs", 2)


def test_results_keep_the_order_of_the_items() -> None:
    assert in_parallel(abs, [-3, 2, -1], jobs=2, description="") == [3, 2, 1]


def test_what_cannot_be_done_is_refused_in_one_line(refused: Callable[..., str], small_trace: Path) -> None:
    assert "'cashing'; known are" in refused("replay", small_trace, "-a", "cashing")
    assert "'much' is not a size" in refused("replay", small_trace, "--memory", "much")
    assert "more than nothing" in refused("replay", small_trace, "--memory", "0")
    assert "--memory 13 would be 13 bytes; write 13GiB" in refused("replay", small_trace, "--memory", "13")
    assert "'simm'" in refused("replay", small_trace, "--driver", "simm")
    assert "events of device 1" in refused("replay", small_trace, "--driver", "sim:devices=1")


def test_a_table_for_people(command: Command, small_trace: Path) -> None:
    result = command("replay", small_trace, "-a", "caching")
    assert result.exit_code == 0
    told = " ".join(result.stdout.split())  # where lines break depends on how long the file's name is
    assert "11 events, 7000 bytes requested at the peak" in told
    assert "÷ requested" in told


def test_a_replay_that_fails_says_how_far_it_came_in_figures_of_the_history(command: Command) -> None:
    result = command("replay", HISTORY, "-a", "caching:preset=torch", "--memory", "5GiB")
    assert result.exit_code == 1
    told = " ".join(result.stderr.split())
    how_far = r"after ([\d.]+) % of the history; until then its program holds (.*?) at most, at its peak (.*?)\.$"
    found = re.search(how_far, told)
    assert found, told
    assert 0 < float(found[1]) < 100
    assert "6036082576" in found[3]
    assert "6036082576 bytes requested at the peak" in result.stdout  # not of the part that was replayed


def test_the_most_that_a_history_holds_is_what_a_replay_that_completes_counts(small_trace: Path) -> None:
    for file in (small_trace, HISTORY):
        result = run(Work(str(file), "direct")).result
        assert result.history_peak_bytes == result.peak_requested_bytes
