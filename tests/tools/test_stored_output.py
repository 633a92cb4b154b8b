"""What every command prints, at 80 columns and into a pipe, compared with what is stored in ``data/outputs``.

After a change that is meant: ``CUPLUG_STORE_OUTPUTS=1 pytest tests/tools/test_stored_output.py``, and read the
difference.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from cuplug.allocators.events import EventKind
from cuplug.plugins.tracing.reader import read_trace
from cuplug.plugins.tracing.writer import write_trace
from cuplug.tools.analysis.checkup import Check
from cuplug.tools.commands import app
from cuplug.tools.replaying.replayer import ReplayResult
from rich.cells import cell_len

from .conftest import Command, made_of
from .made_snapshots import BASE, MIB, MadeSnapshot, saved, snapshot_of

STORED = Path(__file__).parent / "data" / "outputs"

COMMANDS = {
    "summary": "summary run.cuplug",
    "summary-by-library": "summary --by library run.cuplug",
    "replay": "replay run.cuplug -a caching:max_split_size=256MiB -a direct -j 1",
    "advise": "advise run.cuplug -j 1 --memory 1GiB",
    "fit": "fit run.cuplug -a direct -a caching:roundup_power2_divisions=16 -j 1",
    "compare": "compare run.cuplug -a direct -j 1",
    "diff": "diff run.cuplug later.cuplug",
    "watch": "watch --once run.cuplug",
    "dump": "dump run.cuplug",
    "allocators": "allocators",
    "allocators-drivers": "allocators --drivers",
    "report": "report run.cuplug -o page.html",
    "export": "export run.cuplug -o run.json",
    "plan": "plan run.cuplug -o run.plan",
    "pack": "pack buffers.csv --capacity 4096 -o packed.csv",
    "record": "record -d sim -o recorded.cuplug program.py",
    "run": "run -d sim -a direct program.py",
    "demo": "demo -d sim -o traces",
    "doctor": "doctor",
}
STATUSES = {"plan": 1, "doctor": 1}
"""Of the commands that have something to complain of."""
IN_PROCESSES_OF_THEIR_OWN = ("record", "run")
PROGRAM = """
import cuplug

blocks = [cuplug.cuda.alloc(1 << 20) for _ in range(4)]
print("what the program prints")
"""
MACHINE = [
    Check("Python", "fine", "3.12 (CPython, x86_64) /usr/bin/python3"),
    Check("CUDA driver", "absent", "no NVIDIA driver", "for a GPU, install NVIDIA's driver; else programs run on sim"),
    Check("settings", "wrong", "CUPLUG_DRIVER=simm: there is no driver 'simm'", "choose one of cuda and sim"),
]
SUBCOMMANDS = sorted(made_of(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("columns", ["80", "piped"])
@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_prints_is_what_is_stored(
    command: Command, small_trace: Path, monkeypatch: pytest.MonkeyPatch, name: str, columns: str
) -> None:
    shutil.copy(small_trace, small_trace.parent / "run.cuplug")
    trace = read_trace(small_trace)
    trace.events["requested"][trace.events["kind"] == EventKind.ALLOCATE] //= 2
    write_trace(trace, small_trace.parent / "later.cuplug")
    monkeypatch.setattr(ReplayResult, "events_per_second", 123456.0)  # it is measured
    monkeypatch.setattr(import_module("cuplug.tools.commands.doctor"), "check_machine", lambda: MACHINE)
    demo = import_module("cuplug.tools.commands.demo")
    monkeypatch.setattr(demo, "bundled_allocators", lambda: ["bump", "caching"])  # the others take seconds
    monkeypatch.chdir(small_trace.parent)
    Path("buffers.csv").write_text("id,lower,upper,size\na,0,3,1024\nb,1,2,2048\nc,2,4,1024\n", encoding="utf-8")
    Path("program.py").write_text(PROGRAM, encoding="utf-8")
    if columns == "piped":
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    words = COMMANDS[name].split()
    if name in IN_PROCESSES_OF_THEIR_OWN:
        status, found, complaints = _run_apart(words)
    else:
        result = command(*words)
        status, found, complaints = result.exit_code, result.stdout, result.stderr
    assert status == STATUSES.get(name, 0), complaints
    for line in found.splitlines():
        assert line == line.rstrip(), repr(line)
    path = STORED / f"{name}.{columns}.txt"
    if complaints:
        found += f"--- on standard error\n{complaints}"
    found = re.sub(r"(?m)^time .* m?s$", "time  (measured)", found)
    for others in ("\ncaching\n", "\nsim\n"):  # of allocators and drivers those that hardly ever change
        found = found.partition(others)[0]
    if os.environ.get("CUPLUG_STORE_OUTPUTS"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def _run_apart(words: list[str]) -> tuple[int, str, str]:
    """What a command that runs a program gives: its status, and what it writes to both outputs."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CUPLUG_")}
    done = subprocess.run(
        [sys.executable, "-m", "cuplug.tools.trace", *words], env=clean, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("path", sorted(STORED.glob("*.80.txt")), ids=lambda path: path.name)
def test_what_decides_is_shown_at_80_columns_and_no_column_is_explained_that_is_not_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for title, explained in (("driver time", "Driver time is"), ("share", "The share is")):
        assert (explained in text) == (re.search(rf"(?m)^.*÷ requested .*\b{title}\b", text) is not None), title


TO_COPY = re.compile(r"cuplug-trace |cuplug\.init|CUPLUG_|PYTORCH_")


@pytest.mark.parametrize(
    "words",
    [
        "summary", "advise -j 1", "advise -j 1 --memory 2GiB", "fit -j 1 -a caching", "export -o out.json",
        "replay -j 1 -a caching:preset=torch", "compare -j 1 -a direct", "dump --limit 20", "report -o page.html",
        "plan -o run.plan", "summary --by library",
    ],
)  # fmt: skip
def test_a_strangers_snapshot_is_told_of_in_80_columns(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str
) -> None:
    """Long names of files and functions, two streams, a private pool, a late beginning, and a request that failed."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    site = ("compute_scaled_dot_product_attention", "/home/u/models/attention_with_rotary_embeddings.py", 1234)
    made = MadeSnapshot()
    for number, (stream, pool) in enumerate(((0, (0, 0)), (5, (0, 0)), (0, (0, 1)))):
        made.reserve(BASE + number * 4096 * MIB, 2048 * MIB, stream=stream, pool=pool)
        made.allocate(BASE + number * 4096 * MIB, 1500 * MIB, site, ("<module>", "train.py", 3), stream=stream)
    made.free(BASE)
    made.entry("oom", 0, 3000 * MIB, device_free=1 << 29)
    del made.entries[:2]
    saved(tmp_path / "memory_snapshot_of_rank_0_after_step_1000.pickle", snapshot_of(made))
    name, *options = words.split()
    result = command(name, "memory_snapshot_of_rank_0_after_step_1000.pickle", *options)
    lines = [*result.stdout.splitlines(), *result.stderr.splitlines()]
    assert lines
    for line in lines:
        assert cell_len(line) <= 80 or TO_COPY.search(line), line


def test_the_output_of_every_command_is_stored() -> None:
    stored = {line.split()[0] for line in COMMANDS.values()}
    assert stored == set(SUBCOMMANDS) - {"top", "view"}  # an older name of watch; it serves until Ctrl-C


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_the_help_of_every_command_fits_80_columns_and_both_its_names_work(
    command: Command, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    short, long = command(name, "-h"), command(name, "--help")
    assert short.exit_code == 0
    assert short.stdout == long.stdout
    for line in short.stdout.splitlines():
        assert cell_len(line) <= 80, line


def test_the_help_lists_the_commands_and_tells_the_exit_statuses(command: Command) -> None:
    told = command("--help").stdout
    for name in set(SUBCOMMANDS) - {"top"}:  # an older name of watch
        assert re.search(rf"(?m)^  {name} ", told), name
    statuses = re.findall(r"(?:status:|;) (\d+) ", " ".join(told.split()))
    assert statuses == ["0", "1", "2", "130", "141"]
