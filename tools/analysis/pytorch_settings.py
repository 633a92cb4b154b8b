"""What PyTorch's own allocator can be told (``PYTORCH_ALLOC_CONF``), as selections that predict it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ...allocators.sizes import parse_size
from ...plugins.selection import parse_selection

AS_IT_IS = "caching:preset=torch"
"""PyTorch's native allocator without settings."""

_EXPANDABLE = "expandable:preset=torch"
"""With ``expandable_segments:True``."""

_LEVERS = (
    _EXPANDABLE,
    f"{_EXPANDABLE},roundup_power2_divisions=8",
    f"{AS_IT_IS},max_split_size=128MiB",
    f"{AS_IT_IS},max_split_size=512MiB",
    f"{AS_IT_IS},roundup_power2_divisions=4",
    f"{AS_IT_IS},roundup_power2_divisions=8",
    f"{AS_IT_IS},max_split_size=512MiB,roundup_power2_divisions=8",
)
_UNDER_A_LIMIT = (
    f"{AS_IT_IS},garbage_collection_threshold=0.8",
    f"{AS_IT_IS},max_split_size=128MiB,garbage_collection_threshold=0.8",
)
"""These change something only where the program has set a limit, as a fraction of the device's memory."""
_THRESHOLD, _LIMIT = "garbage_collection_threshold", "memory_limit"

_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_NAMES = {"max_split_size_mb": "max_split_size"}
_SETTING = re.compile(r"(\w+):([^,\[]+|\[[^\]]*\])")


def levers(memory: int | None) -> list[str]:
    """PyTorch's settings to try, alone and together, on a device of ``memory`` bytes; None for without a limit."""
    return [*_LEVERS, *(f"{one},{_LIMIT}={memory}" for one in _UNDER_A_LIMIT if memory is not None)]


def needs_a_limit(selection: str) -> str:
    """What a program must do besides for PyTorch to do what the selection says, as a sentence; empty for nothing.

    PyTorch collects garbage only where ``set_per_process_memory_fraction`` (with less than 1) has set a limit
    (``CUDACachingAllocator.cpp``, since 1.12).
    """
    if not is_pytorchs(selection) or _THRESHOLD not in parse_selection(selection).options:
        return ""
    return (
        f"{_THRESHOLD} does nothing by itself: PyTorch heeds it only after "
        "torch.cuda.set_per_process_memory_fraction(F), with F below 1."
    )


def not_replayed(settings: Mapping[str, str]) -> str:
    """Which setting of a snapshot acts in no replay, and why, as a clause; empty for none."""
    selection = selection_of(settings)
    threshold = parse_selection(selection).options.get(_THRESHOLD)
    if threshold is None:
        return ""
    fraction = dict(_SETTING.findall(told(settings))).get("per_process_memory_fraction", "").strip()
    limit = (
        f"that is {fraction} of the device's memory, whose size the file does not tell"
        if fraction
        else "set_per_process_memory_fraction sets it, and the file does not tell"
    )
    return (
        f"its {_THRESHOLD}:{threshold} acts in replays, as in PyTorch, only below a limit ({limit}): "
        f"to replay with one, add -a {selection},{_LIMIT}=SIZE"
    )


def told(settings: Mapping[str, str]) -> str:
    """The settings of a snapshot as its environment said them; empty for none."""
    return next((settings[name] for name in _VARIABLES if settings.get(name)), "")


def selection_of(settings: Mapping[str, str]) -> str:
    """The selection that predicts PyTorch with the settings of a snapshot (``allocator_settings``).

    Settings that change no address are passed over, such as those of pinned memory; and those that no selection has:
    another backend, and divisions for each size by itself.
    """
    given = {name.lower(): value.strip() for name, value in _SETTING.findall(told(settings))}
    expandable = settings.get("expandable_segments", given.get("expandable_segments", "")).lower() == "true"
    options: dict[str, str] = {}
    if given.get("max_split_size_mb", "").isdigit() and not expandable:
        options["max_split_size"] = f"{given['max_split_size_mb']}MiB"
    if given.get("roundup_power2_divisions", "").isdigit():
        options["roundup_power2_divisions"] = given["roundup_power2_divisions"]
    threshold = given.get(_THRESHOLD, settings.get(_THRESHOLD, ""))
    if re.fullmatch(r"0?\.\d*[1-9]\d*", threshold) and not expandable:
        options[_THRESHOLD] = threshold
    base = _EXPANDABLE if expandable else AS_IT_IS
    return ",".join((base, *(f"{name}={value}" for name, value in options.items())))


def is_pytorchs(selection: str) -> bool:
    """Whether the selection does what PyTorch's own allocator does, with or without settings."""
    chosen = parse_selection(selection)
    return chosen.name in ("caching", "expandable") and chosen.options.get("preset") == "torch"


def in_pytorchs_words(selection: str) -> str:
    """What a selection is called in tables of a history of PyTorch's: its settings as the environment takes them."""
    if selection == AS_IT_IS:
        return "PyTorch without settings"
    settings = as_environment(selection).partition("=")[2]
    return f"PyTorch {settings}" if settings else selection


def in_selections_words(selections: Iterable[str]) -> str:
    """What to type for those of the selections that ``in_pytorchs_words`` calls by another name; empty for none."""
    named = {one: in_pytorchs_words(one) for one in dict.fromkeys(selections)}
    told = [f"{name} is -a {one}" for one, name in named.items() if name != one]
    return f"{'; '.join(told)}." if told else ""


def as_environment(selection: str) -> str:
    """The line that sets the same in PyTorch; empty for a selection that stands for no setting of PyTorch's."""
    chosen = parse_selection(selection)
    options = dict(chosen.options)
    if not is_pytorchs(selection):
        return ""
    options.pop("preset")
    options.pop(_LIMIT, None)
    said = ["expandable_segments:True"] if chosen.name == "expandable" else []
    for name, value in options.items():
        if name == "max_split_size":
            said.append(f"max_split_size_mb:{parse_size(str(value)) >> 20}")
        else:
            said.append(f"{name}:{value}")
    return f"PYTORCH_ALLOC_CONF={','.join(said)}" if said else ""
