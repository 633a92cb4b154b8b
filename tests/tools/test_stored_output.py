"""What every command prints, at 80 columns and into a pipe, compared with what is stored in ``data/outputs``.

After a change that is meant: ``CUPLUG_STORE_OUTPUTS=1 pytest tests/tools/test_stored_output.py``, and read the
difference.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from cuplug.allocators.events import EventKind
from cuplug.plugins.tracing.reader import read_trace
from cuplug.plugins.tracing.writer import write_trace
from cuplug.tools.commands import app
from cuplug.tools.replaying.replayer import ReplayResult
from rich.cells import cell_len

from .conftest import Command

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
}
SUBCOMMANDS = sorted(one.name or one.callback.__name__ for one in app.registered_commands if one.callback)


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
    monkeypatch.chdir(small_trace.parent)
    if columns == "piped":
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    result = command(*COMMANDS[name].split())
    assert result.exit_code == 0, result.output
    for line in result.stdout.splitlines():
        assert line == line.rstrip(), repr(line)
    path = STORED / f"{name}.{columns}.txt"
    found = result.stdout
    for others in ("\ncaching\n", "\nsim\n"):  # of allocators and drivers those that hardly ever change
        found = found.partition(others)[0]
    if os.environ.get("CUPLUG_STORE_OUTPUTS"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


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
