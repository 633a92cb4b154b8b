"""Prints what ``doctor`` found."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from ..analysis.checkup import Check
from .tables import print_facts


def print_checkup(checks: Sequence[Check], console: Console) -> None:
    """Print a line for each check: whether it is fine, what was found, and else what to do."""
    width = max(len(check.name) for check in checks)
    print_facts(console, [(f"{check.state:<6}  {check.name:<{width}}", _told(check)) for check in checks])


def _told(check: Check) -> str:
    return f"{check.found}: {check.advice}" if check.advice else check.found
