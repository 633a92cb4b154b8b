"""Exports of Nsight Systems and profiles of PyTorch's profiler as traces."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cuplug.allocators.errors import TraceError
from cuplug.allocators.events import EventKind as Kind
from cuplug.plugins.tracing.trace_in_memory import Trace
from cuplug.tools.analysis.summarize import summarize
from cuplug.tools.foreign.load import load

from ..conftest import Command

MIB = 1 << 20
PID, OTHER = 0x1000000000, 0x2000000000
DEVICE, PINNED = 2, 1
ALLOCATION, DEALLOCATION = 0, 1


def export(path: Path, rows: list[tuple[Any, ...]], table: str = "CUDA_GPU_MEMORY_USAGE_EVENTS") -> Path:
    """Rows of start, process, device, address, bytes, kind, operation, stream, pool."""
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            f"CREATE TABLE {table} (start INTEGER NOT NULL, globalPid INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
            "contextId INTEGER NOT NULL, address INTEGER NOT NULL, pc INTEGER NOT NULL, bytes INTEGER NOT NULL, "
            "memKind INTEGER NOT NULL, memoryOperationType INTEGER NOT NULL, name TEXT, correlationId INTEGER, "
            "streamId INTEGER, localMemoryPoolAddress INTEGER, localMemoryPoolSize INTEGER)"
        )
        database.executemany(
            f"INSERT INTO {table} (start, globalPid, deviceId, contextId, address, pc, bytes, memKind, "
            "memoryOperationType, streamId, localMemoryPoolAddress) VALUES (?, ?, ?, 1, ?, 0, ?, ?, ?, ?, ?)",
            rows,
        )
        database.commit()
    return path


ROWS = [
    (200, PID, 0, 4096, MIB, DEVICE, ALLOCATION, 7, None),
    (100, PID, 0, 1 << 20, 2 * MIB, DEVICE, ALLOCATION, None, None),
    (300, PID, 0, 9999, 50 * MIB, PINNED, ALLOCATION, None, None),
    (400, PID, 1, 1 << 30, 3 * MIB, DEVICE, ALLOCATION, 8, 1 << 40),
    (450, OTHER, 0, 4096, 70 * MIB, DEVICE, ALLOCATION, None, None),
    (500, PID, 0, 1 << 20, 2 * MIB, DEVICE, DEALLOCATION, None, None),
]


def test_what_nsight_saw_of_the_driver_is_allocated_and_reserved(tmp_path: Path, command: Command) -> None:
    path = export(tmp_path / "r.sqlite", ROWS)
    trace = load(path)
    assert [(int(event["time"]), int(event["device"]), Kind(event["kind"]).name) for event in trace.events] == [
        (100, 0, "SEGMENT_RESERVE"), (100, 0, "ALLOCATE"),
        (200, 0, "SEGMENT_RESERVE"), (200, 0, "ALLOCATE"),
        (400, 1, "ALLOCATE"),
        (500, 0, "FREE"), (500, 0, "SEGMENT_RELEASE"),
    ]  # fmt: skip
    first, second = summarize(trace).devices
    assert (first.requested.nbytes, first.reserved.nbytes, first.live_bytes) == (3 * MIB, 3 * MIB, MIB)
    assert (second.requested.nbytes, second.reserved.nbytes) == (3 * MIB, 0)
    assert "1 events of pinned and managed memory are left out" in trace.note
    assert "1 other processes of the export are left out" in trace.note
    assert "memory pools" in trace.note
    told = command("summary", path)
    assert "an export of Nsight Systems" in told.stdout
    assert command("replay", path, "-j", 1).exit_code == 0


USAGE = (
    "start INTEGER NOT NULL, globalPid INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, "
    "address INTEGER NOT NULL, pc INTEGER NOT NULL, bytes INTEGER NOT NULL, memKind INTEGER NOT NULL, "
    "memoryOperationType INTEGER NOT NULL, name TEXT, correlationId INTEGER"
)
"""The table's columns up to Nsight Systems 2021, as its documentation lists them."""
NEWER_USAGE = (
    f"{USAGE}, streamId INTEGER, localMemoryPoolAddress INTEGER, localMemoryPoolReleaseThreshold INTEGER, "
    "localMemoryPoolSize INTEGER, localMemoryPoolUtilizedSize INTEGER, importedMemoryPoolAddress INTEGER, "
    "importedMemoryPoolProcessId INTEGER"
)
"""As an export of 2024.6 has them (its schema 3.16; the user guide of 2025 lists the same)."""
NEWER_POOLS = (
    "start INTEGER NOT NULL, globalPid INTEGER NOT NULL, deviceId INTEGER NOT NULL, address INTEGER NOT NULL, "
    "operationType INTEGER NOT NULL, poolType INTEGER NOT NULL, correlationId INTEGER, minBytesToKeep INTEGER, "
    "localMemoryPoolReleaseThreshold INTEGER, localMemoryPoolSize INTEGER, localMemoryPoolUtilizedSize INTEGER"
)
POOL, HOLDS = 0x7F00_0000, 32 * MIB
CREATED, DESTROYED, TRIMMED = 1, 2, 3


def newer_export(path: Path, usage: list[dict[str, Any]], pools: list[dict[str, Any]]) -> Path:
    usual = {"globalPid": PID, "deviceId": 0, "contextId": 1, "pc": 0, "memKind": DEVICE}
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS ({NEWER_USAGE})")
        database.execute(f"CREATE TABLE CUDA_GPU_MEMORY_POOL_EVENTS ({NEWER_POOLS})")
        for table, rows in (("USAGE", usage), ("POOL", pools)):
            for row in rows:
                found = (
                    {**usual, **row} if table == "USAGE" else {"globalPid": PID, "deviceId": 0, "poolType": 1, **row}
                )
                places = ", ".join("?" * len(found))
                words = f"INSERT INTO CUDA_GPU_MEMORY_{table}_EVENTS ({', '.join(found)}) VALUES ({places})"
                database.execute(words, list(found.values()))
        database.commit()
    return path


def of_pool(start: int, address: int, nbytes: int, operation: int, holds: int | None) -> dict[str, Any]:
    return {
        "start": start, "address": address, "bytes": nbytes, "memoryOperationType": operation, "streamId": 13,
        "localMemoryPoolAddress": POOL, "localMemoryPoolSize": holds,
    }  # fmt: skip


def test_newer_exports_say_what_cudas_pools_hold_and_it_is_reserved(tmp_path: Path, command: Command) -> None:
    path = newer_export(
        tmp_path / "r.sqlite",
        [
            of_pool(100, 4096, 3 * MIB, ALLOCATION, HOLDS),
            of_pool(200, 1 << 30, 40 * MIB, ALLOCATION, 3 * HOLDS),
            of_pool(300, 4096, 3 * MIB, DEALLOCATION, 3 * HOLDS),
            of_pool(400, 1 << 30, 40 * MIB, DEALLOCATION, 3 * HOLDS),
            {"start": 600, "address": 1 << 40, "bytes": MIB, "memoryOperationType": ALLOCATION},
        ],
        [
            {"start": 50, "address": POOL, "operationType": CREATED, "localMemoryPoolSize": 0},
            {"start": 500, "address": POOL, "operationType": TRIMMED, "localMemoryPoolSize": HOLDS},
            {"start": 700, "address": POOL, "operationType": DESTROYED},
            {"start": 10, "globalPid": OTHER, "address": POOL, "operationType": CREATED, "localMemoryPoolSize": HOLDS},
        ],
    )
    trace = load(path)
    assert [(int(one["time"]), Kind(one["kind"]).name, int(one["nbytes"])) for one in trace.events] == [
        (100, "PAGE_CREATE", HOLDS), (100, "ALLOCATE", 3 * MIB),
        (200, "PAGE_CREATE", 2 * HOLDS), (200, "ALLOCATE", 40 * MIB),
        (300, "FREE", 3 * MIB), (400, "FREE", 40 * MIB),
        (500, "PAGE_RELEASE", 2 * HOLDS),
        (600, "SEGMENT_RESERVE", MIB), (600, "ALLOCATE", MIB),
        (700, "PAGE_RELEASE", HOLDS),
    ]  # fmt: skip
    (device,) = summarize(trace).devices
    assert (device.requested.nbytes, device.reserved.nbytes) == (43 * MIB, 3 * HOLDS)
    assert trace.note == ""
    told = " ".join(command("summary", path).stdout.split())
    assert "reserved from the device 100663296 96.00 MiB" in told
    assert command("report", path, "-o", tmp_path / "page.html").exit_code == 0


def test_older_exports_without_streams_and_pools_are_read(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS ({USAGE})")
        row = f"(100, {PID}, 0, 1, 4096, 0, {MIB}, {DEVICE}, {ALLOCATION}, NULL, NULL)"
        database.execute(f"INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES {row}")
        database.commit()
    trace = load(path)
    assert [Kind(kind).name for kind in trace.events["kind"]] == ["SEGMENT_RESERVE", "ALLOCATE"]
    assert trace.events["stream"].tolist() == [0, 0]


def test_blocks_from_another_processes_pool_are_not_taken_from_the_device(tmp_path: Path) -> None:
    row = {"start": 1, "address": 4096, "bytes": MIB, "memoryOperationType": ALLOCATION, "importedMemoryPoolAddress": 9}
    trace = load(newer_export(tmp_path / "r.sqlite", [row], []))
    assert [Kind(kind).name for kind in trace.events["kind"]] == ["ALLOCATE"]
    assert "memory pools" in trace.note


def test_an_export_whose_events_have_all_one_time_tells_no_times(tmp_path: Path, command: Command) -> None:
    path = export(
        tmp_path / "r.sqlite", [(0, PID, 0, number << 21, MIB, DEVICE, ALLOCATION, 7, None) for number in range(3)]
    )
    assert not load(path).header.timed
    assert "without times" in command("summary", path).stdout


@pytest.mark.parametrize("holds", [-1, 1 << 60, "many"])
def test_an_impossible_size_of_a_pool_is_one_line(tmp_path: Path, holds: Any) -> None:
    path = newer_export(tmp_path / "r.sqlite", [of_pool(1, 4096, MIB, ALLOCATION, holds)], [])
    with pytest.raises(TraceError, match=r"row 1 of CUDA_GPU_MEMORY_USAGE_EVENTS is out of range"):
        load(path)
    path = newer_export(
        tmp_path / "p.sqlite",
        [of_pool(1, 4096, MIB, ALLOCATION, HOLDS)],
        [{"start": 0, "address": POOL, "operationType": TRIMMED, "localMemoryPoolSize": holds}],
    )
    with pytest.raises(TraceError, match=r"a row of CUDA_GPU_MEMORY_POOL_EVENTS is out of range"):
        load(path)
    path = newer_export(
        tmp_path / "t.sqlite",
        [of_pool(1, 4096, MIB, ALLOCATION, HOLDS)],
        [{"start": "soon", "address": POOL, "operationType": TRIMMED}],
    )
    with pytest.raises(TraceError, match=r"a time in CUDA_GPU_MEMORY_POOL_EVENTS is no number"):
        load(path)


DAMAGED_EXPORTS: list[tuple[Callable[[Path], Any], str]] = [
    (lambda path: export(path, ROWS, table="SOMETHING"), "without the table CUDA_GPU_MEMORY_USAGE_EVENTS"),
    (lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(500)), "is a damaged database"),
    (lambda path: export(path, [(1, PID, 0, 5, -5, DEVICE, ALLOCATION, None, None)]), "row 1 .* is out of range"),
    (lambda path: export(path, [(1, PID, 900, 5, 5, DEVICE, ALLOCATION, None, None)]), "row 1 .* is out of range"),
    (lambda path: export(path, [(1, PID, 0, 5, 5, DEVICE, 9, None, None)]), "row 1 .* is out of range"),
    (lambda path: export(path, [(1, PID, 0, 5, 5, DEVICE, ALLOCATION, -3, None)]), "out of range"),
]


@pytest.mark.parametrize(("make", "why"), DAMAGED_EXPORTS)
def test_a_database_that_is_no_export_is_one_line(tmp_path: Path, make: Callable[[Path], Any], why: str) -> None:
    path = tmp_path / "r.sqlite"
    make(path)
    with pytest.raises(TraceError, match=why) as error:
        load(path)
    assert "\n" not in str(error.value)


def memory(ts: float, address: int, nbytes: int, allocated: int, reserved: int, **more: int) -> dict[str, Any]:
    args = {
        "Total Reserved": reserved, "Total Allocated": allocated, "Bytes": nbytes, "Addr": address, "Device Id": 0,
        "Device Type": 1, "Ev Idx": 3, **more,
    }  # fmt: skip
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "s": "t",
        "name": "[memory]",
        "pid": 1,
        "tid": 2,
        "ts": ts,
        "args": args,
    }


ENTRIES = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::empty", "ts": 1.0, "dur": 3.0, "pid": 1, "tid": 2, "args": {}},
    memory(30.5, 4096, -1024, 20 * MIB + 11_536, 22 * MIB),
    memory(10.0, 8192, 512, 12_560, 2 * MIB),
    memory(20.0, 1 << 30, 20 * MIB, 20 * MIB + 12_560, 22 * MIB),
    memory(25.0, 5, 77, 77, 77, **{"Device Type": 0}),
    memory(40.0, 1 << 30, -20 * MIB, 11_536, 2 * MIB),
]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("whole", [lambda entries: {"schemaVersion": 1, "traceEvents": entries}, list])
def test_a_profile_has_blocks_and_totals(
    tmp_path: Path, command: Command, pack: Callable[[bytes], bytes], whole: Callable[[list[Any]], Any]
) -> None:
    path = tmp_path / "p.pt.trace.json"
    path.write_bytes(pack(json.dumps(whole(ENTRIES)).encode()))
    trace = load(path)
    assert [(int(event["time"]), Kind(event["kind"]).name, int(event["nbytes"])) for event in trace.events] == [
        (10_000, "PAGE_CREATE", 2 * MIB), (10_000, "ALLOCATE", 1024),
        (10_000, "ALLOCATE", 512),
        (20_000, "PAGE_CREATE", 20 * MIB), (20_000, "ALLOCATE", 20 * MIB),
        (30_500, "FREE", 1024), (40_000, "FREE", 20 * MIB), (40_000, "PAGE_RELEASE", 20 * MIB),
    ]  # fmt: skip
    assert trace.begin == 2
    (device,) = summarize(trace).devices
    assert (device.requested.nbytes, device.reserved.nbytes) == (20 * MIB + 1536, 22 * MIB)
    assert "1 blocks are from before the profile" in trace.note
    assert "10.77 KiB (11024 bytes) that were allocated before it" in trace.note
    assert command("summary", path).exit_code == command("replay", path, "-j", 1).exit_code == 0


def test_a_profile_without_addresses_tells_the_curve_alone(tmp_path: Path, command: Command) -> None:
    """As the first profiles with memory had it, in 2021: neither addresses nor totals."""
    path = tmp_path / "p.pt.trace.json"
    entries = []
    for ts, nbytes in ((10.0, 512), (20.0, 20 * MIB), (30.0, 512), (40.0, -20 * MIB), (50.0, -512), (60.0, -1024)):
        entry = memory(ts, 0, nbytes, 0, 0)
        entry["args"] = {"Device Type": 1, "Device Id": 0, "Bytes": nbytes}
        entries.append(entry)
    path.write_text(json.dumps({"traceEvents": entries}))
    trace = load(path)
    (device,) = summarize(trace).devices
    assert device.requested.nbytes == 20 * MIB + 1024 + 1024  # 1024 are from before: they are freed and never allocated
    assert device.live_bytes == 512
    assert (device.lifetimes.blocks, device.knows_reserved) == (0, False)
    assert "not which block is freed when" in trace.note
    told = " ".join(command("summary", path).stdout.split())
    assert "reserved from the device unknown" in told
    assert "median" not in told


def real_profile(path: Path) -> Trace:
    torch = pytest.importorskip("torch")
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        kept = torch.ones(100_000)
        for _ in range(3):
            gone = torch.ones(200_000)
            del gone
        del kept
    profile.export_chrome_trace(str(path))
    told = json.loads(path.read_text())
    for entry in told["traceEvents"]:
        if entry.get("name") == "[memory]":
            entry["args"]["Device Type"], entry["args"]["Device Id"] = 1, 0  # as if a GPU's
    path.write_text(json.dumps(told))
    return load(path)


@pytest.mark.filterwarnings("ignore:.*Profiler clears events at the end of each cycle")  # PyTorch 2.11's, of itself
def test_the_profiler_of_the_installed_pytorch_is_read(tmp_path: Path) -> None:
    trace = real_profile(tmp_path / "p.json")
    (device,) = summarize(trace).devices
    assert device.requested.nbytes == 4 * 300_000
    assert device.allocations == device.frees == 4
    assert device.live_bytes == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is damaged, or no Chrome trace"),
        ("[" * 100_000, "is damaged, or no Chrome trace"),
        ("{}", "has no 'traceEvents'"),
        ('{"traceEvents": 5}', "has no 'traceEvents'"),
        ("[]", r"has no events of a GPU's memory: record with .*profile_memory=True"),
        ('{"segments": [], "device_traces": []}', "is a memory snapshot written as JSON"),
        ('[{"segments": [], "device_traces": []}]', "is a memory snapshot written as JSON"),
        ('[{"address": 5, "total_size": 5, "blocks": []}]', "is a memory snapshot written as JSON"),
        ("[[1, 2], [[0, 5], [0, 7]]]", "is no Chrome trace: .*export_memory_timeline"),
        (json.dumps([memory(1.0, 5, 5, 5, 5, **{"Device Type": 0})]), "its 1 events of memory are of the CPU's"),
        (json.dumps([memory(1.0, -5, 5, 5, 5)]), r"a \[memory\] event in it is not as"),
        (json.dumps([memory(1e300, 5, 5, 5, 5)]), "is not as|out of range"),
        (json.dumps([{"name": "[memory]"}]), "is not as"),
        (json.dumps([{"name": "[memory]", "args": [], "ts": 1}]), "is not as"),
        (json.dumps([memory(1.0, 5, 5, 5, 1 << 90)]), "is not as|out of range"),
    ],
)
def test_a_damaged_profile_is_one_line(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(TraceError, match=why) as error:
        load(path)
    assert "\n" not in str(error.value)
