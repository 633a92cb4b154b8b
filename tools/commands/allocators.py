"""``cuplug-trace allocators``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ...plugins.manager import default_manager
from ..console import out
from ..reporters.catalogue import print_catalogue


def allocators(
    drivers: Annotated[bool, typer.Option("--drivers", help="List the drivers instead.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list instead of text.")] = False,
) -> None:
    """What is installed, and the options of each."""
    manager = default_manager()
    found = manager.describe_drivers() if drivers else manager.describe_allocators()
    if as_json:
        typer.echo(
            json.dumps(
                [
                    {
                        "name": entry.name,
                        "plugin": entry.plugin,
                        "summary": entry.summary,
                        "problem": entry.problem,
                        "form": entry.form,
                        "options": [
                            {
                                "name": option.name,
                                "type": option.type_name,
                                "default": None if option.required else _plain(option.default),
                                "required": option.required,
                                "description": option.description,
                            }
                            for option in entry.options
                        ],
                    }
                    for entry in found
                ]
            )
        )
    else:
        print_catalogue(found, out())


def _plain(value: object) -> object:
    return value if isinstance(value, bool | int | float | str | None) else str(value)
