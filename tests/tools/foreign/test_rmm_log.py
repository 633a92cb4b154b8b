"""RMM's CSV log, read as a trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cuplug.allocators.errors import TraceError
from cuplug.allocators.events import EventKind
from cuplug.tools.foreign.load import load
from cuplug.tools.foreign.rmm_log import _nanoseconds

from ..conftest import Command

LOG = """Thread,Time,Action,Pointer,Size,Stream
4243,23:59:59:999000,allocate,0x7f0000000000,1000,0x0
4243,23:59:59.999500,allocate,0x7f0000001000,4000,0x5
4244,00:00:00:000500,free,0x7f0000000000,1000,0x0
4243,00:00:01:000000,allocate failure,(nil),9000,0
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(text)
    return path


def test_every_line_becomes_an_event(tmp_path: Path) -> None:
    trace = load(written(tmp_path, LOG))
    events = trace.events
    assert [EventKind(kind).name for kind in events["kind"]] == ["ALLOCATE", "ALLOCATE", "FREE", "OUT_OF_MEMORY"]
    assert events["requested"].tolist() == [1000, 4000, 1000, 9000]
    assert events["stream"].tolist() == [0, 5, 0, 0]
    assert events["thread"].tolist() == [0, 0, 1, 0]
    assert (events["time"] - events["time"][0]).tolist() == [0, 500_000, 1_500_000, 1_001_000_000]  # over midnight
    assert trace.complete


def test_the_commands_take_it(command: Command, tmp_path: Path) -> None:
    path = written(tmp_path, LOG)
    result = command("replay", path, "-a", "direct", "--json")
    assert result.exit_code == 0, result.stderr
    assert '"peak_requested_bytes": 13000' in result.stdout  # with what was asked for in vain
    assert "5000" in command("summary", path).stdout


@pytest.mark.parametrize(
    ("pointers", "streams"),
    [
        (("0x7f00000000a0", "0x100"), ("0x0", "0x1a")),
        (("00007F00000000A0", "100"), ("0", "1A")),
        (("256", "512"), ("0", "26")),
    ],
)
def test_numbers_are_read_with_and_without_0x(
    tmp_path: Path, pointers: tuple[str, str], streams: tuple[str, str]
) -> None:
    lines = [f"1,1:2:3:4,allocate,{pointer},20,{stream}\n" for pointer, stream in zip(pointers, streams, strict=True)]
    trace = load(written(tmp_path, LOG.splitlines()[0] + "\n" + "".join(lines)))
    base = 16 if "a" in "".join(pointers).lower() else 10
    assert trace.events["address"].tolist() == [int(pointer, base) for pointer in pointers]
    assert trace.events["stream"].tolist() == [0, 26]


def test_a_failure_is_told_as_one_of_which_the_free_memory_is_not_known(command: Command, tmp_path: Path) -> None:
    path = written(tmp_path, LOG)
    told = " ".join(command("summary", path).stdout.split())
    assert "9000 bytes asked for on stream 0x0, what was free on the device is not known" in told
    assert '"free": null' in command("summary", path, "--json").stdout
    assert command("report", path, "-o", tmp_path / "r.html").exit_code == 0
    assert "How much the device had free is not known" in (tmp_path / "r.html").read_text()


def test_a_log_that_breaks_off_gives_all_whole_lines(tmp_path: Path) -> None:
    trace = load(written(tmp_path, LOG + "4243,00:00:02:0000"))
    assert len(trace.events) == 4
    assert not trace.complete
    assert "breaks off" in trace.note


@pytest.mark.parametrize(
    "line", ["1,noon,allocate,0x1,2,0", "1,1:1:1:1,steal,0x1,2,0", "1,1:1:1:1,free,0x1", "1,1:1:1:1,free,0x1,-2,0"]
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(TraceError, match="line 6 is"):
        load(written(tmp_path, LOG + line + "\n"))


def test_other_csv_files_are_refused(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "its first line is not" in refused("summary", written(tmp_path, "Thread,Tide,Moon\n1,2,3\n"))


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("00:00:01.5", 1_500_000_000), ("00:00:01.005", 1_005_000_000), ("01:02:03.000000007", 3_723_000_000_007)],
)
def test_a_fraction_of_a_second_has_as_many_digits_as_it_has(text: str, nanoseconds: int) -> None:
    assert _nanoseconds(text) == nanoseconds
