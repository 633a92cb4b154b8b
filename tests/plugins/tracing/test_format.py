"""The file: what is written is read, and what is missing is said."""

from __future__ import annotations

import json
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
from cuplug.allocators.errors import TraceError
from cuplug.allocators.events import EventKind
from cuplug.plugins.tracing import format as layout
from cuplug.plugins.tracing.reader import read_trace
from cuplug.plugins.tracing.trace_in_memory import EVENT_DTYPE, NO_DEVICE, Frame, Header, Trace
from cuplug.plugins.tracing.writer import TraceWriter, write_trace

HEADER = 4096


def write(path: Path, count: int = 3, *, close: bool = True) -> TraceWriter:
    writer = TraceWriter(path, {"driver": "sim"})
    thread = writer.thread("MainThread")
    for number in range(count):
        writer.append(EventKind.ALLOCATE, 0, 1000 + number, thread, 7, 512 * number, 512, 100 + number, 0)
    if close:
        writer.close()
    return writer


def test_every_field_of_an_event_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "t.cuplug"
    writer = TraceWriter(path)
    writer.append(EventKind.FREE, 254, 2**62, 65535, 2**64 - 1, 2**64 - 512, 2**62, 2**61, 2**32 - 1)
    writer.close()
    trace = read_trace(path)
    assert trace.complete
    assert trace.note == ""
    assert trace.events.dtype == EVENT_DTYPE
    assert trace.events.tolist() == [
        (2**62, 2**64 - 512, 2**62, 2**61, 2**64 - 1, 2**32 - 1, 65535, 254, EventKind.FREE)
    ]


def test_the_header_describes_the_process_and_the_run(tmp_path: Path) -> None:
    path = tmp_path / "t.cuplug"
    writer = TraceWriter(path, {"driver": "sim:devices=2"})
    writer.describe(allocators={"0": "direct"}, devices=[{"ordinal": 0, "name": "simulated", "total_memory": 1 << 34}])
    writer.describe(allocators={"1": "caching"})
    writer.close()
    header = read_trace(path).header
    assert header.version == layout.FORMAT_VERSION
    assert header.source == "cuplug"
    assert header.driver == "sim:devices=2"
    assert header.allocators == {0: "direct", 1: "caching"}
    assert header.devices == [{"ordinal": 0, "name": "simulated", "total_memory": 1 << 34}]
    assert {"pid", "argv", "clock", "python", "cuplug"} <= set(header.fields)
    assert header.wall_offset_ns > 0


def test_names_stacks_and_threads_come_back(tmp_path: Path) -> None:
    path = tmp_path / "t.cuplug"
    writer = TraceWriter(path)
    stack = [("a.py", 3, "inner"), ("käse/" * 50 + ".py", 70_000, "outer"), ("a.py", 3, "inner")]
    number, again = writer.stack(stack), writer.stack(stack)
    name, longest = writer.name("iteration 1"), writer.name("x" * 10_000)
    thread = writer.thread("worker")
    writer.close()
    trace = read_trace(path)
    assert number == again
    assert trace.stack(number) == tuple(Frame(*entry) for entry in stack)
    assert trace.name(name) == "iteration 1"
    assert trace.name(longest) == "x" * 10_000
    assert trace.threads == {thread: "worker"}
    assert trace.stack(99) == ()
    assert "missing" in trace.name(99)


def test_numpy_reads_the_records_without_parsing(tmp_path: Path) -> None:
    path = tmp_path / "t.cuplug"
    write(path, 50_000)
    records = np.fromfile(path, EVENT_DTYPE, offset=HEADER)
    events = records[records["kind"] < 240]
    assert len(events) == 50_000
    assert events["requested"].sum() == read_trace(path).events["requested"].sum()


def test_a_trace_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "t.cuplug"
    writer = write(path, 30_000, close=False)
    trace = read_trace(path)
    assert len(trace.events) == 30_000
    assert not trace.complete
    assert "not closed" in trace.note
    writer.close()
    assert read_trace(path).complete


def test_closing_twice_and_writing_after_it_do_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.cuplug"
    writer = write(path)
    writer.close()
    writer.append(EventKind.FREE, 0, 1, 0, 0, 0, 0, 0, 0)
    writer.name("late")
    writer.flush()
    assert len(read_trace(path).events) == 3


def test_threads_write_at_once_without_losing_an_event(tmp_path: Path) -> None:
    path = tmp_path / "t.cuplug"
    writer = TraceWriter(path)

    def work(device: int) -> None:
        for number in range(20_000):
            writer.append(EventKind.ALLOCATE, device, number, 0, 0, 0, 0, writer.name(f"{device} {number % 50}"), 0)

    threads = [threading.Thread(target=work, args=(device,)) for device in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    trace = read_trace(path)
    assert trace.complete
    for device in range(4):
        mine = trace.events[trace.events["device"] == device]
        assert mine["time"].tolist() == list(range(20_000))  # in order, each once
        assert trace.name(mine["requested"][7]) == f"{device} 7"


def test_a_thread_that_was_held_up_writes_its_own_record_and_leaves_the_others_their_window(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "t.cuplug")
    late = next(writer.places)
    for number in range(1, 50_000):
        writer.append(EventKind.FREE, 0, number, 0, 0, 0, 0, 0, 0)
    window = writer.window
    begin, end, view = writer.window_for(late)
    assert begin <= late < end <= late + 48
    writer.EVENT.pack_into(view, late - begin, 0, 0, 0, 0, 0, 0, 0, 0, EventKind.FREE)
    assert writer.window is window
    writer.close()
    trace = read_trace(tmp_path / "t.cuplug")
    assert trace.complete
    assert trace.events["time"].tolist() == list(range(50_000))


@pytest.mark.parametrize("cut", [1, 47, 48, 49, 100])
def test_a_cut_off_file_gives_all_whole_records_and_says_how_many(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "t.cuplug"
    write(path, 10)
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    trace = read_trace(path)
    left = 10 - -(-cut // 48)
    assert trace.events["requested"].tolist() == [100 + number for number in range(left)]
    assert not trace.complete
    assert f"cut off: {left + 1} of 11 whole records" in trace.note  # one more is the thread's name
    assert f"{left} events read" in trace.note


def test_a_record_that_was_not_wholly_written_is_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.cuplug"
    write(path, 10)
    data = bytearray(path.read_bytes())
    data[HEADER + 5 * 48 + 47] = 0  # the kind, which is written last
    path.write_bytes(data)
    trace = read_trace(path)
    assert trace.events["requested"].tolist() == [100, 101, 102, 103, 105, 106, 107, 108, 109]
    assert "1 not wholly written" in trace.note


def test_an_unknown_kind_is_damage_and_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.cuplug"
    write(path, 4)
    data = bytearray(path.read_bytes())
    data[HEADER + 2 * 48 + 47] = 99
    path.write_bytes(data)
    trace = read_trace(path)
    assert len(trace.events) == 3
    assert "1 damaged" in trace.note


def test_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t.cuplug"
    write(path)
    data = bytearray(path.read_bytes())
    ours = layout.FORMAT_VERSION
    data[8:12] = struct.pack("<I", ours + 1)
    path.write_bytes(data)
    with pytest.raises(TraceError, match=rf"trace format {ours + 1}, and this cuplug .* up to {ours}: upgrade"):
        read_trace(path)


def test_version_2_which_knows_no_emptied_caches_is_still_read(tmp_path: Path) -> None:
    path = tmp_path / "t.cuplug"
    write(path)
    wanted = read_trace(path)
    data = bytearray(path.read_bytes())
    data[8:12] = struct.pack("<I", 2)
    path.write_bytes(data)
    trace = read_trace(path)
    assert (trace.header.version, trace.complete) == (2, True)
    assert trace.events.tobytes() == wanted.events.tobytes()


def test_the_oldest_version_is_still_read(tmp_path: Path) -> None:
    """The file was written by the first release. It must be readable for good: never write it again."""
    trace = read_trace(Path(__file__).parent / "data" / "version_1.trace")
    assert trace.complete
    assert trace.header.version == 1
    assert trace.header.allocators == {0: "caching"}
    assert trace.events["kind"].tolist() == [12, 5, 1, 2, 6]
    assert trace.name(trace.events["requested"][0]) == "a marker"
    assert trace.stack(trace.events["context"][2]) == (
        Frame("train.py", 39, "step"),
        Frame("train.py", 123, "<module>"),
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"\x89", "cut off within its header"),
        (b"\x00", "is not a cuplug trace"),
        (b"#!/bin/sh\n" * 100, "is not a cuplug trace"),
        (layout.MAGIC, "cut off within its header"),
        (layout.MAGIC + bytes(20), "cut off within its header"),
        (layout.MAGIC + bytes(5000), "damaged header"),
        (layout.MAGIC + b"\xff" * 5000, "trace format 4294967295"),
        (layout.MAGIC + struct.pack("<IIIIIQ", 1, 4096, 48, 4000, 0, 0), "cut off within its header"),
        (layout.MAGIC + struct.pack("<IIIIIQ", 1, 4096, 48, 2, 0, 0) + b"{}" * 4096, "checksum"),
        (layout.MAGIC + struct.pack("<IIIIIQ", 1, 4096, 40, 2, 0, 0) + b"{}" * 4096, "damaged header"),
    ],
)
def test_what_is_no_trace_gives_one_clear_line(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "t.cuplug"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=says) as caught:
        read_trace(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_header_cut_off_anywhere_gives_an_error_and_after_it_an_empty_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.cuplug"
    write(path)
    data = path.read_bytes()
    with_fields = 36 + struct.unpack("<I", data[20:24])[0]
    for size in range(0, with_fields, 7):
        path.write_bytes(data[:size])
        with pytest.raises(TraceError, match=r"is empty|cut off within its header"):
            read_trace(path)
    for size in range(with_fields, HEADER, 61):
        path.write_bytes(data[:size])
        assert len(read_trace(path).events) == 0


def test_what_is_no_file_gives_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="does not exist"):
        read_trace(tmp_path / "nothing")
    with pytest.raises(TraceError, match="not a regular file"):
        read_trace(tmp_path)


def test_a_file_that_is_no_trace_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("print('mine')")
    with pytest.raises(TraceError, match="exists and is not a trace"):
        TraceWriter(path)
    assert path.read_text() == "print('mine')"


def test_an_older_trace_is_replaced_and_its_readers_keep_theirs(tmp_path: Path) -> None:
    path = tmp_path / "t.cuplug"
    write(path, 5)
    with path.open("rb") as reader:
        write(path, 2)
        assert len(reader.read()) == HEADER + 6 * 48
    assert len(read_trace(path).events) == 2


def test_a_closed_trace_may_be_replaced_while_somebody_still_has_a_part_of_it_mapped(tmp_path: Path) -> None:
    """A thread that was held up in the middle of an event: the open file and its lock live on with the map."""
    path = tmp_path / "t.cuplug"
    writer = write(path, 5, close=False)
    held = writer.window
    writer.close()
    write(path, 2)
    assert held[2] is not None
    assert len(read_trace(path).events) == 2


def test_a_trace_that_is_being_written_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "t.cuplug"
    writer = write(path, 5, close=False)
    with pytest.raises(TraceError, match=r"being written already.*\{pid\}"):
        TraceWriter(path)
    writer.close()
    assert len(read_trace(path).events) == 5


@pytest.mark.parametrize("path", ["missing/t.cuplug", "."])
def test_a_path_that_cannot_be_written_gives_a_clear_error(tmp_path: Path, path: str) -> None:
    with pytest.raises(TraceError, match=r"cannot write a trace to .*(No such file or directory|Is a directory)"):
        TraceWriter(tmp_path / path)


def test_a_trace_in_memory_is_written_and_read_unchanged(tmp_path: Path) -> None:
    events = np.zeros(3, EVENT_DTYPE)
    events["kind"] = [1, 2, 12]
    events["device"] = [0, 0, NO_DEVICE]
    trace = Trace(
        Header(fields={"source": "pytorch"}),
        events,
        names={4: "marker"},
        frames={9: Frame("a.py", 1, "f")},
        stacks={3: (9, 9)},
    )
    write_trace(trace, tmp_path / "t.cuplug")
    again = read_trace(tmp_path / "t.cuplug")
    assert again.canonical() == trace.canonical()
    assert again.header.fields == {"source": "pytorch"}
    assert again.devices == [0]


def test_headers_of_any_shape_are_read_without_failing() -> None:
    odd = {"devices": 5, "allocators": [1], "argv": {"a": 1}, "clock": "now", "driver": None}
    header = Header(fields=json.loads(json.dumps(odd)))
    assert (header.devices, header.allocators, header.argv, header.wall_offset_ns) == ([], {}, [], 0)
    assert header.driver == ""
