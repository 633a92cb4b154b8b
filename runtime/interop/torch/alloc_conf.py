"""What ``PYTORCH_CUDA_ALLOC_CONF`` tells PyTorch's own allocator, and what cuplug's allocators make of it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ....allocators.sizes import parse_size
from ....plugins.selection import Selection, parse_selection

VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""The variables that PyTorch looks at; the first that is set counts, as in its CUDA settings."""

_PYTORCHS_OWN = ("per_process_memory_fraction", "pinned_")
"""What holds for every selection: the bridge asks PyTorch for the first, and pinned memory stays PyTorch's."""


def read_settings(environment: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The variable that counts, and the settings in it by name; an empty name where none is set."""
    variable = next((name for name in VARIABLES if environment.get(name)), "")
    pairs = re.findall(r"([^\s:,\[\]]+)\s*:\s*(\[[^\]]*\]|[^,]*)", environment.get(variable, ""))
    return variable, {name: value.strip() for name, value in pairs}


def follow(selection: str | None, environment: Mapping[str, str]) -> tuple[str | None, str]:
    """Take PyTorch's settings over into a selection, as far as its allocator has the same options.

    Args:
        selection: an allocator with its options, which count for more; None for an allocator that is made elsewhere.
        environment: where the settings are looked for.

    Returns:
        The selection with the options added, and one sentence that names the settings without effect, or nothing.
    """
    variable, settings = read_settings(environment)
    chosen = parse_selection(selection) if selection is not None else None
    has_pages = chosen is not None and chosen.name != "caching"
    added: dict[str, str] = {}
    idle: list[str] = []
    for name, value in settings.items():
        option = _as_option(name, value) if chosen is not None and not has_pages else None
        if option is not None and option[0] not in chosen.options:  # type: ignore[union-attr]
            added[option[0]] = option[1]
        elif not _holds_already(name, value, has_pages=has_pages if chosen else None):
            idle.append(f"{name}:{value}")
    if added and chosen is not None:
        selection = str(Selection(chosen.name, {**chosen.options, **added}))
    if not idle:
        return selection, ""
    who = f"the allocator {chosen.name}" if chosen is not None else "its allocators"
    return selection, (
        f"of {variable}, cuplug does not follow {', '.join(idle)}: memory is that of {who}, whose options stand in the "
        "selection (CUPLUG_TORCH=caching:max_split_size=64MiB)"
    )


def _as_option(name: str, value: str) -> tuple[str, str] | None:
    """The option of ``caching`` that means the same."""
    if name == "max_split_size_mb" and value.isdigit():
        return "max_split_size", str(parse_size(f"{value}MiB"))
    if name == "roundup_power2_divisions" and value.isdigit():  # not PyTorch's list of divisions by size
        return name, value
    if name == "garbage_collection_threshold":
        return name, value
    return None


def _holds_already(name: str, value: str, *, has_pages: bool | None) -> bool:
    if name.startswith(_PYTORCHS_OWN) or (name == "backend" and value == "native"):
        return True
    return name == "expandable_segments" and has_pages is not None and has_pages == (value == "True")
