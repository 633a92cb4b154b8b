"""Whatever a file turns out to be, every command that reads one answers with one line and status 2."""

from __future__ import annotations

import gzip
import lzma
import os
import pickle
import sqlite3
import struct
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cuplug.plugins.tracing.format import FORMAT_VERSION, HEADER, MAGIC, RECORD_SIZE
from cuplug.plugins.tracing.writer import TraceWriter

COMMANDS = (
    "summary {}", "summary --json {}", "report {} -o page.html", "replay {}", "advise {}", "fit {}", "watch --once {}",
    "compare {}", "compare {} -o page.html", "diff {0} {0}", "export {} -o out.json", "export {} -o out.csv", "dump {}",
    "dump -f jsonl {}", "plan {} -o run.plan", "pack {} -o packed.csv",
)  # fmt: skip


class _Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("hostile",)


def _header(version: int = FORMAT_VERSION, text: bytes = b"{}", size: int = RECORD_SIZE) -> bytes:
    head = HEADER.pack(MAGIC, version, 4096, size, len(text), zlib.crc32(text), 0) + text
    return head.ljust(4096, b"\0")


def _nested(depth: int) -> Any:
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


def _deep_pickle() -> bytes:
    return b"\x80\x04" + b"(" * 20_000 + b"." + b"l" * 20_000 + b"."


def _database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE something (name TEXT)")
        database.commit()


INPUTS: dict[str, bytes | Callable[[Path], object]] = {
    "nothing there": lambda path: None,
    "a folder without traces": lambda path: path.mkdir(),
    "a pipe": lambda path: os.mkfifo(path),
    "a link to itself": lambda path: path.symlink_to(path),
    "an empty file": b"",
    "one byte": b"\x89",
    "random bytes": bytes(range(7, 250)) * 40,
    "text": b"Hello, world.\nThis is no trace.\n",
    "JSON of another kind": b'{"a": [1, 2, 3]}\n',
    "a table of another kind": b"name,size\nx,1\n",
    "a profile with damaged memory events": b'{"traceEvents": [{"name": "[memory]", "ts": 1, "args": {"Addr": -1}}]}',
    "a profile that is cut off": b'{"traceEvents": [{"name": "[mem',
    "a database that is cut off": b"SQLite format 3\0" + bytes(60),
    "a database of another kind": lambda path: _database(path),
    "an RMM log whose rows are broken": b"Thread,Time,Action,Pointer,Size,Stream\n1,2\n\xff\xfe,,,,\n",
    "a header that is cut off": MAGIC + b"\x01\x00",
    "a header of a newer version": _header(version=99),
    "a header with another checksum": _header().replace(b"{}", b"[]", 1),
    "a header that is no object": _header(text=b"[1]"),
    "a header of other records": _header(size=47),
    "a pickle that runs code": pickle.dumps(_Hostile()),
    "a pickle of something else": pickle.dumps([1, 2, 3]),
    "a pickle that is cut off": pickle.dumps({"device_traces": [[{"action": "alloc"}] * 50], "segments": []})[:60],
    "a pickle too deep": _deep_pickle(),
    "a broken archive": lzma.compress(b"x" * 5000)[:40] + struct.pack("<Q", 7),
    "an archive of nothing": gzip.compress(b""),
}


@pytest.mark.parametrize("line", COMMANDS)
def test_a_bad_file_is_one_line_and_status_2(
    refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, (what, made) in enumerate(INPUTS.items()):
        path = tmp_path / f"bad{number}"
        if isinstance(made, bytes):
            path.write_bytes(made)
        elif not path.exists() and not path.is_symlink():
            made(path)
        message = refused(*line.format(path.name).split())
        assert path.name in message, (what, message)
    assert not [entry.name for entry in tmp_path.iterdir() if not entry.name.startswith("bad")]


@pytest.mark.parametrize(
    "line", ["report {} -o page.html", "replay {}", "advise {}", "fit {}"], ids=lambda line: line.split()[0]
)
def test_a_trace_without_events_leaves_these_nothing_to_do(
    refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    TraceWriter(tmp_path / "empty.cuplug", {}).close()
    assert "empty.cuplug has no" in refused(*line.format("empty.cuplug").split())


@pytest.mark.parametrize("name", ["record", "run", *dict.fromkeys(word.split()[0] for word in COMMANDS), "allocators"])
def test_an_unknown_option_is_one_line_and_status_2(refused: Callable[..., str], name: str) -> None:
    assert "--nonsense" in refused(name, "--nonsense", "x")


@pytest.mark.parametrize("name", ["replay", "compare", "advise", "fit"])
def test_an_allocator_without_what_it_needs_is_refused_before_a_history_is_read(
    refused: Callable[..., str], name: str
) -> None:
    told = refused(name, "gone.cuplug", "-a", "caching", "-a", "planned")
    assert "needs plan=... (the file that cuplug-trace plan wrote) or learn=..." in told
    assert "gone.cuplug" not in told
