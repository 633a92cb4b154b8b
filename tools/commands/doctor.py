"""``cuplug-trace doctor``."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from ..analysis.checkup import check_bridge, check_machine
from ..console import out
from ..reporters.checkup_text import print_checkup


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list instead of text.")] = False,
    torch: Annotated[
        bool, typer.Option("--torch", help="Try PyTorch on cuplug's memory, too, and keep what is found.")
    ] = False,
) -> None:
    """What this machine has: each line fine, or what to do. Exits with 1 if something is there and does not work."""
    tried = (
        check_bridge() if torch else []
    )  # first: the rest starts CUDA, which children of this process cannot use then
    checks = [*check_machine(), *tried]
    if as_json:
        typer.echo(json.dumps([asdict(check) for check in checks]))
    else:
        print_checkup(checks, out())
    if any(check.state == "wrong" for check in checks):
        raise typer.Exit(1)
