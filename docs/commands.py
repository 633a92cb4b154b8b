"""Makes the page of each command of ``cuplug-trace``: its help, and an example with what it prints."""

from __future__ import annotations

import ast
import os
from pathlib import Path

from cuplug.tools.commands import app
from cuplug.tools.console import PlainCommand
from cuplug.tools.reporters.json_fields import AFTER, JSON_FIELDS
from typer.main import get_command
from typer.testing import CliRunner

__all__ = ["pages"]

ROOT = Path(__file__).resolve().parent.parent
OUTPUTS = ROOT / "tests" / "tools" / "data" / "outputs"


_ABOUT = """# Commands

`cuplug-trace COMMAND`, and `-h` for help. The histories that commands take are cuplug's traces, PyTorch's memory
snapshots, logs of RMM's, exports of Nsight Systems and profiles of PyTorch's; patterns and folders, too."""

_STATUSES = """Exit status: 0 all went well; 1 a replay failed, nothing fits, or something does not work (of `record`
and `run`: the program's own); 2 what was asked for, or a file, is wrong; 130 interrupted; 141 the reader of
the output has gone."""


def examples() -> dict[str, str]:
    """By the name of what is stored: the words of the command, as the test of stored outputs carries it out."""
    tree = ast.parse((ROOT / "tests" / "tools" / "test_stored_output.py").read_text("utf-8"))
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "COMMANDS":
            found: dict[str, str] = ast.literal_eval(statement.value)
            return found
    raise LookupError("test_stored_output.py has no COMMANDS")


def pages() -> dict[str, str]:
    """By the name of a command its page in Markdown, and ``index``, which lists them."""
    os.environ["COLUMNS"] = "80"
    commands = get_command(app).commands  # type: ignore[attr-defined]
    shown = {name: one for name, one in commands.items() if isinstance(one, PlainCommand) and not one.hidden}
    known = examples()
    made = {"index": _index(shown)}
    for name, one in shown.items():
        told = CliRunner().invoke(app, [name, "--help"], prog_name="cuplug-trace").stdout
        parts = [f"# cuplug-trace {name}", one.short_help or "", f"```text\n{told.rstrip()}\n```"]
        for title, words in known.items():
            if words.split()[0] == name:
                output = (OUTPUTS / f"{title}.80.txt").read_text("utf-8").rstrip()
                parts += ["## Example", f"```console\n$ cuplug-trace {words}\n{output}\n```"]
        if name in JSON_FIELDS:
            parts += _json(name)
        made[name] = "\n\n".join(parts) + "\n"
    return made


def _json(name: str) -> list[str]:
    """What the fields of a command's JSON mean."""
    rows = [f"| `{field}` | {meaning} |" for field, meaning in JSON_FIELDS[name].items()]
    told = ["## JSON", "`--json` prints a list of objects. Sizes are bytes."]
    return [*told, "\n".join(["| field | |", "| --- | --- |", *rows]), *filter(None, [AFTER.get(name)])]


def _index(shown: dict[str, PlainCommand]) -> str:
    groups: dict[str, list[str]] = {}
    for name, one in shown.items():
        row = f"| [`{name}`]({name}.md) | {one.short_help} |"
        groups.setdefault(str(getattr(one, "rich_help_panel", "")), []).append(row)
    text = [_ABOUT, "![From a snapshot to the line to change](../pictures/three-answers.svg)", _STATUSES]
    for group, rows in groups.items():
        text += [f"## {group}", "\n".join(["| command | |", "| --- | --- |", *rows])]
    return "\n\n".join(text) + "\n"
