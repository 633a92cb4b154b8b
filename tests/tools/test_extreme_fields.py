"""A trace of which one field of one record has an extreme value: every command reads it, or refuses it in one line, in
little memory. Each command runs in a process of its own, since the core may not crash either: a copy of one that has
imported the command line, which takes longer than most commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from cuplug.plugins.tracing.format import HEADER
from cuplug.plugins.tracing.trace_in_memory import EVENT_DTYPE
from cuplug.runtime.machine.runtime import Runtime
from cuplug.runtime.streams.stream import Stream

VALUES = (0, 1, 511, (1 << 31) - 1, 1 << 32, 1 << 47, 1 << 50, 1 << 61, (1 << 62) - 1, (1 << 63) - 512, (1 << 64) - 1)
"""Each is cut to the field's width; of signed ones the last are -512 and -1."""
COMMANDS = (
    *(f"replay -a {name} {{}}" for name in ("caching", "expandable", "planned:learn=3", "direct", "bump")),
    "summary {}", "report {} -o page.html", "advise {}", "fit {}", "watch --once {}", "compare {}", "diff {0} {0}",
    "export {} -o out.json", "dump {}", "plan {} -o run.plan", "pack {} -o packed.csv",
)  # fmt: skip
PROGRAM = """
import contextlib, io, json, os, resource, signal, sys, tempfile, traceback
from cuplug.tools.commands import app
from typer.main import get_command

command = get_command(app)


def run(folder, line, names):
    signal.alarm(1800)  # a command that hangs is ended
    os.chdir(folder)
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 30), resource.RLIM_INFINITY))
    for name in names:
        printed, said = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
            try:
                status = command.main(line.format(name).split(), prog_name="cuplug-trace")
            except SystemExit as end:
                status = end.code
        lines = said.getvalue().splitlines()
        assert status in (None, 0, 1) or (status == 2 and len(lines) == 1), (name, status, lines)
        assert "Traceback" not in said.getvalue(), (name, lines)


for asked in sys.stdin:
    with tempfile.TemporaryFile("w+") as said:
        child = os.fork()
        if not child:
            os.dup2(said.fileno(), 2)
            try:
                run(*json.loads(asked))
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
        status = os.waitpid(child, 0)[1]
        said.seek(0)
        print(json.dumps([status, said.read()]), flush=True)
"""


@pytest.fixture(scope="module")
def run_in_a_copy() -> Iterator[Callable[[Path, str, list[Path]], tuple[int, str]]]:
    """Runs a command on files, one after another, in a process that has imported it: how that ended, and what it said
    on standard error."""
    pytest.importorskip("typer")
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as it:
        assert it.stdin is not None
        assert it.stdout is not None

        def run(folder: Path, line: str, files: list[Path]) -> tuple[int, str]:
            print(json.dumps([str(folder), line, [*map(str, files)]]), file=it.stdin, flush=True)
            status, said = json.loads(it.stdout.readline())
            return status, said

        yield run
        it.stdin.close()


@pytest.fixture(scope="module")
def mutants(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Files named for what is in them, each with one value changed; of a block, in what takes and what frees it."""
    folder = tmp_path_factory.mktemp("mutants")
    with Runtime(driver="sim:memory=1GiB", allocator="caching", trace=folder / "whole") as runtime:
        other = Stream(runtime=runtime)
        kept = []
        for number in range(40):
            kept.append(runtime.alloc((number % 7 + 1) << 18, stream=other if number == 9 else None))
            if number % 3:
                freed = kept.pop(number % len(kept))
                freed.record_stream(other)
                freed.close()
        runtime.allocator(0).release_cached()
    whole = (folder / "whole").read_bytes()
    start = HEADER.unpack_from(whole)[2]
    records = np.frombuffer(whole[start:], EVENT_DTYPE)
    made = []
    for field in EVENT_DTYPE.names or ():
        for value in VALUES:
            for kind in np.unique(records["kind"][records["kind"] < 200]):
                changed = records.copy()
                place = np.flatnonzero(records["kind"] == kind)[len(made) % np.count_nonzero(records["kind"] == kind)]
                same = np.arange(len(records)) == place
                if kind <= 4 and field in ("nbytes", "requested"):
                    same = (records["address"] == records["address"][place]) & (records["kind"] <= 4)
                width = EVENT_DTYPE[field].itemsize
                changed[field][same] = np.frombuffer(value.to_bytes(8, "little")[:width], EVENT_DTYPE[field])[0]
                made.append(folder / f"{field}-{value:#x}-of-{kind}")
                made[-1].write_bytes(whole[:start] + changed.tobytes())
    return made


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
@pytest.mark.parametrize("line", COMMANDS)
def test_a_field_with_an_extreme_value_is_read_or_refused(
    mutants: list[Path], run_in_a_copy: Callable[..., tuple[int, str]], tmp_path: Path, line: str
) -> None:
    every = 1 if os.environ.get("CUPLUG_THOROUGH") == "1" else 48
    chosen = mutants[COMMANDS.index(line) % every :: every]
    status, said = run_in_a_copy(tmp_path, line, chosen)
    assert status == 0, said[-2000:]
