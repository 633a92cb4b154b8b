"""PyTorch's memory snapshots as traces; hostile ones run nothing."""

from __future__ import annotations

import gzip
import lzma
import pickle
import random
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cuplug.allocators.errors import TraceError
from cuplug.allocators.events import EventKind as Kind
from cuplug.plugins.tracing.trace_in_memory import Frame, Trace
from cuplug.tools.foreign import safe_pickles, snapshot_reader
from cuplug.tools.foreign.load import load
from cuplug.tools.replaying.demonstration import HISTORY

REAL = Path(snapshot_reader.__file__).parents[1] / "data" / HISTORY


def event(action: str, addr: int = 4096, size: int = 1000, **more: Any) -> dict[str, Any]:
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": 7, **more}


def imported(tmp_path: Path, *traces: list[dict[str, Any]], **more: Any) -> Trace:
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": list(traces), **more}))
    return load(path)


def test_a_real_snapshot_keeps_every_event_in_order() -> None:
    trace = load(REAL)
    assert len(trace.events) == 50_642 + 96  # and the profiler's annotations
    assert trace.header.source == "pytorch"
    assert trace.devices == [0]
    first, second = trace.events[:2]
    assert (first["kind"], first["nbytes"]) == (Kind.SEGMENT_RESERVE, 2 << 20)
    assert (second["kind"], second["requested"], second["nbytes"]) == (Kind.ALLOCATE, 37_632, 37_888)
    assert second["address"] == first["address"]


def test_every_action_becomes_its_event(tmp_path: Path) -> None:
    trace = imported(
        tmp_path,
        [
            event("segment_alloc", size=2 << 20),
            event("alloc"),
            event("free_requested"),
            event("free_completed"),
            event("segment_free", size=2 << 20),
            event("segment_map", size=4 << 20),
            event("segment_unmap", size=4 << 20),
            {"action": "oom", "size": 5000, "stream": 3, "time_us": 8, "device_free": 4000},
            event("snapshot", size=0),
            event("user_defined", size=0, user_metadata="step 1"),
            event("something PyTorch adds one day"),
        ],
    )
    assert [Kind(kind).name for kind in trace.events["kind"]] == [
        "SEGMENT_RESERVE",
        "ALLOCATE",
        "FREE",
        "FENCE_PASSED",
        "SEGMENT_RELEASE",
        "PAGE_MAP",
        "PAGE_UNMAP",
        "OUT_OF_MEMORY",
        "MARKER",
        "MARKER",
    ]
    assert trace.events["requested"].tolist()[:8] == [2 << 20, 1000, 1000, 1000, 2 << 20, 0, 0, 5000]
    assert trace.events["nbytes"].tolist()[:8] == [2 << 20, 1024, 1024, 1024, 2 << 20, 4 << 20, 4 << 20, 4000]
    assert [trace.name(number) for number in trace.events["requested"][8:]] == ["snapshot", "step 1"]
    assert set(trace.events["time"]) == {7000, 8000}


def test_several_devices_and_annotations_are_merged_by_time_and_keep_their_own_order(tmp_path: Path) -> None:
    trace = imported(
        tmp_path,
        [event("alloc", time_us=10), event("free_requested", time_us=5), event("alloc", time_us=30)],
        [],
        [event("alloc", time_us=1), event("alloc", time_us=20)],
        external_annotations=[{"name": "step", "stage": "START", "device": 2, "time_us": 15}],
    )
    assert [(int(entry["device"]), int(entry["time"]) // 1000) for entry in trace.events] == [
        (2, 1), (0, 10), (0, 5), (2, 15), (2, 20), (0, 30),
    ]  # fmt: skip
    assert trace.name(trace.events["requested"][3]) == "step START"
    assert trace.devices == [0, 2]


def reused_address() -> list[dict[str, Any]]:
    return [event(action) for action in ("alloc", "free_requested", "free_completed")] * 10


@pytest.mark.parametrize("skipped", ["free_requested", "free_completed"])
def test_one_half_of_every_free_may_be_left_out_of_a_history(tmp_path: Path, skipped: str) -> None:
    whole = imported(tmp_path, reused_address())
    trace = imported(tmp_path, [one for one in reused_address() if one["action"] != skipped])
    assert trace.events[["kind", "address", "nbytes"]].tolist() == whole.events[["kind", "address", "nbytes"]].tolist()


@pytest.mark.parametrize(("skipped", "says"), [("free", "has no frees"), ("alloc", "has no allocations")])
def test_a_history_without_frees_or_allocations_is_refused_as_what_was_live_is_not_known(
    tmp_path: Path, skipped: str, says: str
) -> None:
    with pytest.raises(TraceError, match=f"{says}, so that .*skip_actions"):
        imported(tmp_path, [one for one in reused_address() if not one["action"].startswith(skipped)])


@pytest.mark.parametrize("actions", [("free_requested", "free_completed"), ("alloc",), ("alloc", "free_requested")])
def test_a_short_history_of_frees_or_allocations_alone_is_read_as_it_is(
    tmp_path: Path, actions: tuple[str, ...]
) -> None:
    trace = imported(tmp_path, [event(action) for action in actions])
    assert len(trace.events) - trace.begin == len(actions)


def test_call_stacks_are_kept_once_each(tmp_path: Path) -> None:
    frames = [{"name": "f", "filename": "a.py", "line": 1}, {"name": "g", "filename": "b.py", "line": 2}]
    trace = imported(
        tmp_path, [event("alloc", frames=list(frames)), event("alloc", frames=list(frames)), event("alloc", frames=[])]
    )
    assert trace.events["context"].tolist() == [1, 1, 0]
    assert trace.stack(1) == (Frame("a.py", 1, "f"), Frame("b.py", 2, "g"))


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bytes])
def test_compression_is_recognised_by_content(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "named.anything"
    path.write_bytes(pack(pickle.dumps({"device_traces": [[event("alloc")]]})))
    assert len(load(path).events) == 1


class Hostile:
    """Its pickle asks for a command to be run."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple[Any, ...]:
        return subprocess.call, ([sys.executable, "-c", f"open({str(self.witness)!r}, 'w')"],)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("pack", [bytes, lzma.compress])
def test_a_hostile_pickle_runs_nothing(tmp_path: Path, protocol: int, pack: Callable[[bytes], bytes]) -> None:
    witness, path = tmp_path / "witness", tmp_path / "s.pickle"
    data = pickle.dumps({"device_traces": [[event("alloc")]], "segments": [Hostile(witness)]}, protocol)
    path.write_bytes(pack(data))
    with pytest.raises(TraceError) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert not witness.exists()
    pickle.loads(data)
    assert witness.exists()  # or the test would prove nothing


def test_the_unpickler_finds_no_class_by_itself(tmp_path: Path) -> None:
    """The barrier against code, without the walk over the instructions before it."""
    data = pickle.dumps(Hostile(tmp_path / "witness"))
    with pytest.raises(TraceError, match="which is not a builtin container"):
        safe_pickles._Unpickler(__import__("io").BytesIO(data)).load()
    assert not (tmp_path / "witness").exists()


@pytest.mark.parametrize(
    "code",
    [
        b"cos\nsystem\n.",
        b"\x80\x04\x82\x01.",
        b"\x80\x02(i__main__\nf\n.",
        b"\x80\x02Pid\n.",
        b"\x80\x02]Q.",
        b"\x80\x05\x97.",
    ],
)
def test_every_instruction_that_could_do_more_is_refused(code: bytes) -> None:
    with pytest.raises(TraceError):
        safe_pickles.loads(code, "it")


def test_everything_that_snapshots_are_made_of_is_read() -> None:
    value = [
        None, True, False, 0, 255, 70_000, -1, 1 << 40, 1 << 3000, 2.5, "", "é" * 300, "x" * 70_000, b"bytes", (), (1,),
        (1, 2, 3, 4), {"a": [1], 2: {}}, {1, 2}, frozenset([3]),
    ]  # fmt: skip
    value.append(value[11])
    for protocol in range(4, pickle.HIGHEST_PROTOCOL + 1):
        assert safe_pickles.loads(pickle.dumps(value, protocol), "it") == value
    plain = [[number, str(number), {str(number): number}] for number in range(2000)]
    for protocol in (2, 3):
        assert safe_pickles.loads(pickle.dumps(plain, protocol), "it") == plain


def test_an_object_number_beyond_all_reason_is_refused_before_memory_is_taken() -> None:
    with pytest.raises(TraceError, match="too large"):
        safe_pickles.loads(b"\x80\x04Nr\xff\xff\xff\x7f.", "it")


def test_of_several_pickles_in_a_file_none_is_taken_for_the_whole() -> None:
    one = pickle.dumps({"device_traces": [[]]})
    with pytest.raises(TraceError, match="it has a second pickle behind the first: write each into a file of its own"):
        safe_pickles.loads(one + one, "it")
    assert safe_pickles.loads(one + b"\n", "it") == {"device_traces": [[]]}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([], "no 'device_traces'"),
        ({"device_traces": 5}, "no 'device_traces'"),
        ([{"segments": [], "device_traces": [[]]}], "is a list with PyTorch memory snapshots in it: pickle each"),
        (({"segments": [], "device_traces": [[]]},), "is a tuple with PyTorch memory snapshots in it: pickle each"),
        ({"step": 3, "snapshot": {"device_traces": [[]]}}, "is a dict with PyTorch memory snapshots in it"),
        ({"device_traces": [5]}, "device 0 is not a list"),
        ({"device_traces": [[5]]}, "event 0 of device 0 is not a dictionary"),
        (
            {"device_traces": [[event("alloc"), event("alloc", time_us="now")]]},
            "event 1 of device 0 has no valid 'time_us'",
        ),
        ({"device_traces": [[event("alloc", size=-5)]]}, "event 0 of device 0 has no valid 'size'"),
        ({"device_traces": [[{"action": "alloc"}]]}, "event 0 of device 0 has no valid"),
        ({"device_traces": [[event("alloc", addr=1 << 70)]]}, "out of range"),
        ({"device_traces": [[event("alloc", frames=[{}])]]}, "damaged"),
        ({"device_traces": [[event("alloc")]], "external_annotations": [{"name": 1}]}, "annotations"),
    ],
)
def test_a_pickle_of_another_shape_is_refused_and_says_where(tmp_path: Path, value: object, says: str) -> None:
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps(value))
    with pytest.raises(TraceError, match=says):
        load(path)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bytes])
def test_a_cut_off_snapshot_is_refused_in_one_line(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "s"
    data = pack(pickle.dumps({"device_traces": [[event("alloc", addr=number) for number in range(50)]]}))
    for size in range(1, len(data), 7):
        path.write_bytes(data[:size])
        with pytest.raises(TraceError) as caught:
            load(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("pack", [partial(lzma.compress, preset=0), partial(gzip.compress, compresslevel=9)])
def test_a_small_file_that_grows_without_measure_is_refused_before_it_takes_memory(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "s.pickle.packed"
    path.write_bytes(pack(b"\x80\x04(" + b"N" * (100 << 20)))
    tracemalloc.start()
    try:
        with pytest.raises(TraceError, match=r"grows beyond \d+ bytes when decompressed, from \d+: no snapshot does"):
            load(path)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < 90 << 20


def test_a_small_file_that_holds_something_else_is_refused_at_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "s.pickle.xz"
    path.write_bytes(lzma.compress(bytes(40 << 20), preset=0))
    with pytest.raises(TraceError, match="is not a PyTorch memory snapshot: decompressed, it begins with"):
        load(path)


def test_a_pickle_of_empty_containers_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    path = tmp_path / "s.pickle"
    path.write_bytes(b"\x80\x04(" + b"]" * (2 << 20) + b"l.")
    tracemalloc.start()
    try:
        with pytest.raises(TraceError, match="hardly anything but empty containers"):
            load(path)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < 16 << 20


def test_a_snapshot_without_times_is_read_and_that_is_said(tmp_path: Path) -> None:
    entries = [event("alloc", addr=1), event("free_requested", addr=1)]
    for entry in entries:
        del entry["time_us"]
    trace = imported(tmp_path, entries)
    assert (trace.events["time"] - trace.events["time"][0]).tolist() == [0, 1000]
    assert "no times" in trace.note
    assert trace.complete


def test_several_compressed_streams_in_one_file_are_read_as_one(tmp_path: Path) -> None:
    data = pickle.dumps({"device_traces": [[event("alloc")]]})
    for pack in (lzma.compress, gzip.compress):
        path = tmp_path / "s.pickle.packed"
        path.write_bytes(pack(data[:20]) + pack(data[20:]))
        assert len(load(path).events) == 1


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_snapshots_of_every_protocol_are_read(tmp_path: Path, protocol: int) -> None:
    frames = [{"name": "f<'>", "filename": "a\nb é.py", "line": 1}]
    entries = [event("alloc", addr=1 << 40, frames=frames), event("free_requested", addr=1 << 40, frames=frames)]
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps({"device_traces": [entries], "segments": []}, protocol))
    trace = load(path)
    assert trace.events["address"].tolist() == [1 << 40] * 2
    assert trace.stack(trace.events["context"][0]) == (Frame("a\nb é.py", 1, "f<'>"),)


def test_mutated_pickles_are_read_or_refused_in_one_line(tmp_path: Path) -> None:
    choose = random.Random(5)
    frames = [{"name": "f", "filename": "a.py", "line": 1}]
    whole = pickle.dumps({"device_traces": [[event("alloc", addr=n, frames=frames) for n in range(6)]], "segments": []})
    path = tmp_path / "s.pickle"
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(choose.choice((1, 1, 2, 8))):
            at = choose.randrange(2, len(data))
            data[at : at + choose.randrange(3)] = choose.randbytes(choose.randrange(3))
        path.write_bytes(data)
        line = load_or_line(path)
        assert "\n" not in line


def load_or_line(path: Path) -> str:
    try:
        load(path)
    except TraceError as error:
        return str(error)
    return ""
