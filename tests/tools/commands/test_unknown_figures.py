"""No command prints a figure that cannot be known, and what is of one GPU is told of one GPU."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from ..conftest import Command
from ..made_snapshots import BASE, MIB, MadeSnapshot, saved, snapshot_of


@pytest.fixture
def state_alone(tmp_path: Path) -> Path:
    """Half of what is reserved is idle, and nobody knows what was before."""
    made = MadeSnapshot()
    for number in range(2):
        made.reserve(BASE + number * 8192 * MIB, 6000 * MIB)
    made.allocate(BASE, 6000 * MIB - 100)
    snapshot = snapshot_of(made)
    snapshot["device_traces"] = [[]]
    return saved(tmp_path / "state.pickle", snapshot)


@pytest.fixture
def untimed(tmp_path: Path) -> Path:
    made = MadeSnapshot()
    made.reserve(BASE, 200 * MIB)
    made.allocate(BASE, 200 * MIB)
    made.free(BASE)
    for entry in made.entries:
        del entry["time_us"]
    return saved(tmp_path / "untimed.pickle", snapshot_of(made))


@pytest.fixture
def three_gpus(tmp_path: Path) -> Path:
    devices = [MadeSnapshot(number) for number in range(3)]
    for made, size in zip(devices, (2000, 500, 100), strict=True):
        made.reserve(BASE, size * MIB)
        made.allocate(BASE, size * MIB)
    return saved(tmp_path / "gpus.pickle", snapshot_of(*devices))


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", ["advise", "fit"])
def test_a_state_without_a_history_has_no_peak_so_no_least_memory_and_no_advice(
    command: Command, state_alone: Path, name: str
) -> None:
    result = command(name, state_alone)
    assert result.exit_code == 1
    told = flat(result.stdout)
    assert "its peak, and the least memory that it needs, are not known" in told
    assert "empty_cache() would give 5.86 GiB back" in told
    assert "No allocator can reserve less" not in told
    assert "least memory" not in result.stdout.replace("the least memory that", "")


def test_a_state_says_what_is_idle_and_no_times(command: Command, state_alone: Path) -> None:
    told = flat(command("summary", state_alone).stdout)
    assert "At that moment" in told
    assert "idle 5.86 GiB of what is reserved, of which empty_cache() would give back 5.86 GiB" in told
    assert "lifetimes" not in told
    assert "allocated, as rounded 6291456000" in told


@pytest.mark.parametrize("last", ["free_completed", "snapshot"])
def test_one_entry_of_a_history_is_none_and_it_is_said_how_more_are_kept(
    command: Command, state_alone: Path, tmp_path: Path, last: str
) -> None:
    """``_record_memory_history(True)`` keeps the last entry alone."""
    snapshot = pickle.loads(state_alone.read_bytes())
    entry = {"action": last, "addr": BASE + 8192 * MIB, "size": 512, "stream": 0, "frames": []}
    snapshot["device_traces"] = [[entry], [{**entry, "action": "snapshot"}]]
    path = saved(tmp_path / "one.pickle", snapshot)
    told = flat(command("summary", path).stdout)
    assert "there is no history, only the state of 1 block " in told
    assert (
        "of the history one entry was kept, as _record_memory_history(True), enabled='state' and max_entries=1 do"
        in told
    )
    assert "requested by the program 6291455900" in told
    assert command("advise", path).exit_code == 1
    assert "6291455900 bytes live at that moment" in flat(command("replay", path, "-a", "direct").stdout)
    command("export", path, "-o", tmp_path / "again.pickle")
    assert pickle.loads((tmp_path / "again.pickle").read_bytes())["device_traces"] == snapshot["device_traces"]


def test_without_times_nothing_is_a_share_of_the_runs_time(command: Command, untimed: Path) -> None:
    told = command("advise", untimed).stdout
    assert "of the run" not in told.lower()
    assert "%" not in flat(told).replace("at most 2 % more", "")
    assert json.loads(command("replay", untimed, "--json").stdout)[0]["driver_time_share"] is None
    told = flat(command("summary", untimed).stdout)
    assert "4 without times" not in told
    assert "events 4, without times" in told
    assert "on average" not in told
    assert "lifetimes" not in told


def test_fit_is_of_each_gpu_by_itself(command: Command, three_gpus: Path) -> None:
    fits = json.loads(command("fit", three_gpus, "--allocator", "caching", "--json").stdout)
    assert [(one["device"], one["least"], one["peak_requested"]) for one in fits] == [
        (number, size * MIB, size * MIB) for number, size in enumerate((2000, 500, 100))
    ]
    told = command("fit", three_gpus, "--device", 1, "--allocator", "caching").stdout
    assert "500.00 MiB" in told
    assert "1.95 GiB" not in told


def test_a_page_tells_no_times_where_none_are_known(
    command: Command, untimed: Path, state_alone: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    command("report", untimed, "-o", page)
    told = page.read_text()
    assert "device 0, 4 events without times" in told
    assert '"axis": "events"' in told
    assert "<h2>Lifetimes</h2>" not in told
    command("report", state_alone, "-o", page)
    told = page.read_text()
    assert "device 0, the state at one moment" in told
    assert '"seconds": 1e-09, "axis": "moment"' in told  # what lasts no time at all is not drawn
    assert "At this moment 11.72 GiB are reserved for 5.86 GiB asked for; what was before is not known." in told


def test_what_fit_says_of_the_hosts_memory_stands_with_each_gpus_allocators(command: Command, three_gpus: Path) -> None:
    words = (three_gpus, "-a", "expandable", "-a", "caching", "--memory", "1GiB", "--json")
    found = json.loads(command("fit", *words).stdout)
    assert len(found) == 6
    assert {one["device"]: one["on_host"]["host"] > 0 for one in found} == {0: True, 1: False, 2: False}
    assert all(one["on_host"]["device"] == one["device"] for one in found)


def test_sums_over_gpus_say_so_and_one_gpu_can_be_chosen(command: Command, three_gpus: Path) -> None:
    for name in ("advise", "replay"):
        assert "sums over 3 GPUs" in command(name, three_gpus).stdout
        assert "sums over" not in command(name, three_gpus, "--device", 2).stdout
    (one,) = json.loads(command("replay", three_gpus, "--device", 2, "--json").stdout)
    assert one["peak_requested_bytes"] == 100 * MIB
    (row,) = json.loads(command("compare", three_gpus, "--device", 1, "--json").stdout)
    assert row["requested"] == 500 * MIB
    found = json.loads(command("diff", three_gpus, three_gpus, "--device", 1, "--json").stdout)
    assert [device["device"] for device in found] == [1]


def test_one_gpu_is_exported(command: Command, three_gpus: Path, tmp_path: Path) -> None:
    assert command("export", three_gpus, "--device", 1, "-o", tmp_path / "one.pickle").exit_code == 0
    (device,) = json.loads(command("summary", tmp_path / "one.pickle", "--json").stdout)["devices"]
    assert (device["device"], device["requested"]["nbytes"]) == (1, 500 * MIB)


@pytest.mark.parametrize("name", ["advise", "fit", "replay"])
def test_a_gpu_that_is_not_there_is_refused(refused: Command, three_gpus: Path, name: str) -> None:
    assert "no allocations of device 7; it has of: 0, 1, 2" in str(refused(name, three_gpus, "--device", 7))


@pytest.fixture
def blocks_alone(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(
        "Thread,Time,Action,Pointer,Size,Stream\n"
        "1,10:00:00:000001,allocate,0x1000,1024,0x0\n1,10:00:00:000002,allocate,0x2000,2000,0x0\n"
        "1,10:00:00:000003,free,0x1000,1024,0x0\n"
    )
    return path


def test_a_log_of_blocks_alone_does_not_tell_what_is_reserved(
    command: Command, blocks_alone: Path, tmp_path: Path
) -> None:
    told = flat(command("summary", blocks_alone).stdout)
    assert "reserved from the device unknown unknown" in told
    told = flat(command("compare", blocks_alone, "-a", "direct").stdout)
    assert "as recorded 3 3024 unknown unknown" in told
    (row,) = json.loads(command("compare", blocks_alone, "--json").stdout)
    assert (row["requested"], row["reserved"]) == (3024, None)
    assert "reserved" not in command("diff", blocks_alone, blocks_alone).stdout
    page = tmp_path / "page.html"
    command("report", blocks_alone, "-o", page)
    assert "Fragmentation" not in page.read_text()
    command("compare", blocks_alone, "-o", page)
    assert "<td>3024</td><td>unknown</td><td>unknown</td><td></td>" in page.read_text()


def test_processes_of_which_is_not_known_what_they_reserve_are_told_by_what_they_request(
    command: Command, blocks_alone: Path, tmp_path: Path
) -> None:
    other = tmp_path / "log2.csv"
    other.write_text(blocks_alone.read_text().replace(",2000,", ",9000,"))
    told = command("summary", blocks_alone, other).stdout
    assert "log.csv 2.95 KiB unknown 1.95 KiB 0 B 0" in flat(told)
    job = told.partition("recorded")[0]
    assert "peak requested" in flat(job).partition("Over all")[2]
    assert "reserved" not in flat(job).partition("Over all")[2]
    found = json.loads(command("summary", blocks_alone, other, "--json").stdout)["job"]
    assert found["worst"] == "log2.csv"
    assert "log2.csv requests the most" in found["findings"][0]["what"]
