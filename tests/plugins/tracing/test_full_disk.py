"""A full disk: the trace says that it is cut off, the program goes on, and what was there before stays."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cuplug.allocators.errors import TraceError
from cuplug.allocators.events import EventKind
from cuplug.plugins.tracing import writer as writing
from cuplug.plugins.tracing.reader import read_trace
from cuplug.plugins.tracing.trace_in_memory import EVENT_DTYPE, Header, Trace
from cuplug.plugins.tracing.writer import TraceWriter, write_trace

WINDOW = 20_480


def full(*_arguments: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def append(writer: TraceWriter, number: int) -> None:
    writer.append(EventKind.ALLOCATE, 0, number, 0, 0, 512 * number, 512, 500, 0)


@pytest.fixture
def in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but Python's writer lets the file grow. ``test_native_log.py`` has the core's."""
    monkeypatch.setattr(writing.native, "is_available", lambda: False)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.usefixtures("in_python")
def test_a_trace_that_the_disk_cuts_off_says_so_while_it_is_written_and_when_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = TraceWriter(tmp_path / "t.cuplug")
    monkeypatch.setattr(os, "posix_fallocate", full)
    for number in range(WINDOW):
        append(writer, number)
    with pytest.raises(TraceError, match="No space left on device; what comes from here on is missing"):
        append(writer, WINDOW)
    monkeypatch.undo()
    for _ in range(2):
        trace = read_trace(tmp_path / "t.cuplug")
        assert not trace.complete
        assert "cut off here, since the disk had no room for more" in trace.note
        assert trace.events["time"].tolist() == list(range(WINDOW))
        append(writer, 0)  # room or not: what comes behind a gap must not look as if it followed
        writer.name("late")
        writer.close()


@pytest.mark.usefixtures("in_python")
def test_the_events_of_threads_that_were_held_up_still_find_their_places_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = TraceWriter(tmp_path / "t.cuplug")
    place = next(writer.places)
    for number in range(1, 2 * WINDOW):
        append(writer, number)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(TraceError):
        append(writer, 2 * WINDOW)
    begin, _, view = writer.window_for(place)
    assert view is not None
    writer.EVENT.pack_into(view, place - begin, 0, 0, 512, 500, 0, 0, 0, 0, EventKind.ALLOCATE)
    writer.close()
    assert read_trace(tmp_path / "t.cuplug").events["time"].tolist() == list(range(2 * WINDOW))


PROGRAM = """
import resource, sys, warnings
import cuplug
if len(sys.argv) > 2:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), -1))
warnings.simplefilter("ignore")
cuplug.init(driver="sim", trace=sys.argv[1])
for _ in range(100_000):
    cuplug.cuda.alloc(1000)
cuplug.shutdown()
print("went on")
"""


def run_the_program(*words: object) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, words)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "went on\n"), done.stderr  # and was not killed by a bus error


def test_a_program_on_a_full_disk_goes_on_and_its_trace_says_that_it_is_cut_off(small_disk: Path) -> None:
    run_the_program(small_disk / "t.cuplug")
    trace = read_trace(small_disk / "t.cuplug")
    assert not trace.complete
    assert "cut off here" in trace.note
    assert 10_000 < len(trace.events) < 100_000


def test_a_limit_on_the_size_of_files_cuts_a_trace_off_as_a_full_disk_does(tmp_path: Path) -> None:
    run_the_program(tmp_path / "t.cuplug", 3 << 20)
    trace = read_trace(tmp_path / "t.cuplug")
    assert not trace.complete
    assert "cut off here" in trace.note
    assert 10_000 < len(trace.events) < 100_000


def test_on_a_disk_that_has_no_room_for_a_new_trace_the_older_one_stays(small_disk: Path) -> None:
    path = small_disk / "t.cuplug"
    writer = TraceWriter(path)
    append(writer, 7)
    writer.close()
    (small_disk / "rest").write_bytes(bytes((4 << 20) - (100 << 10)))
    with pytest.raises(TraceError, match="No space left on device"):
        TraceWriter(path)
    assert read_trace(path).events["time"].tolist() == [7]
    assert sorted(entry.name for entry in small_disk.iterdir()) == ["rest", "t.cuplug"]


@pytest.mark.usefixtures("in_python")
def test_a_trace_that_cannot_be_written_to_its_end_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.cuplug"
    few, many = (Trace(Header(), np.ones(count, EVENT_DTYPE)) for count in (3, 2 * WINDOW))
    write_trace(few, path)
    before = writing.allocate
    monkeypatch.setattr(
        writing, "allocate", lambda file, has, size: full() if has > 1 << 19 else before(file, has, size)
    )
    with pytest.raises(TraceError, match="No space left on device"):
        write_trace(many, path)
    assert len(read_trace(path).events) == 3
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.cuplug"]


def test_where_space_cannot_be_set_aside_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_arguments: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    writer = TraceWriter(tmp_path / "t.cuplug")
    taken = os.stat(writer.path).st_blocks * 512
    assert taken >= os.stat(writer.path).st_size  # no hole that a full disk could not fill
    append(writer, 1)
    writer.close()
    assert read_trace(writer.path).complete
