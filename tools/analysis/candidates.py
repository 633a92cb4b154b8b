"""Which selections of the installed allocators are worth trying on a history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...plugins.manager import Description

REFERENCE = "direct"
"""One call of the driver for every block: it reserves the least that can be, and takes the longest. It bounds the
others and is no candidate."""

RMM_POOL = "rmm-pool"
"""What RMM's own pool would reserve: for logs of RMM's it is one more row, and no candidate."""

_VALUES: dict[str, tuple[str, ...]] = {
    "roundup_power2_divisions": ("4", "16"),
    "max_split_size": ("64MiB", "256MiB"),
    "garbage_collection_threshold": ("0.8",),
}
"""Sensible values of options that are numbers, by the option's name, whichever allocator has it."""

_IN_VAIN = {("expandable", "roundup_power2_divisions")}
"""Options that save nothing: where free pages move, sizes need not be alike. (PyTorch's own do not move.)"""

_ALONE = {"learn": "3"}
"""Values of options that make an allocator complete which its name alone does not."""

_TYPES = {"int", "float", "str", "bool", "None"}


def candidates(entries: Iterable[Description], *, limited: bool) -> list[str]:
    """Every allocator as it comes, each choice that it offers, and sensible values of its numbers, one at a time;
    and those that need an option to be complete, with that.

    Args:
        entries: what is installed.
        limited: whether memory is limited. Without that, options that act under pressure change nothing.
    """
    found: dict[str, None] = {}
    for entry in entries:
        found.update(dict.fromkeys(_completed(entry)))
        if entry.name == REFERENCE or not _usable(entry):
            continue
        found[entry.name] = None
        for name, value in _settings(entry):
            if (entry.name, name) not in _IN_VAIN and (limited or name != "garbage_collection_threshold"):
                found[f"{entry.name}:{name}={value}"] = None
    return list(found)


def defaults(entries: Iterable[Description]) -> list[str]:
    """Every allocator as it comes, with the option that it needs to be complete, and its presets."""
    found: list[str] = []
    for entry in entries:
        found += _completed(entry)
        if _usable(entry):
            found.append(entry.name)
            found += [f"{entry.name}:{name}={value}" for name, value in _settings(entry) if name == "preset"]
    return found


def _usable(entry: Description) -> bool:
    return not entry.problem and entry.stands_alone


def _completed(entry: Description) -> list[str]:
    """The selections of one that its name alone does not select."""
    if entry.problem or entry.stands_alone:
        return []
    return [f"{entry.name}:{name}={_ALONE[name]}" for name in entry.needs_one_of if name in _ALONE]


def _settings(entry: Description) -> Iterator[tuple[str, str]]:
    for option in entry.options:
        parts = [part.strip() for part in option.type_name.split("|")]
        if option.type_name == "bool":
            yield option.name, "no" if option.default else "yes"
        elif option.name in _VALUES:
            yield from ((option.name, value) for value in _VALUES[option.name])
        elif len(parts) > 1 and not _TYPES & set(parts):
            yield from ((option.name, part) for part in parts if part != str(option.default))
