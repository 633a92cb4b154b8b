"""``host_tags=optimizer``: the states of PyTorch's optimisers lie on the host, whatever the program.

PyTorch calls what is registered here before and after each step of each optimiser. An optimiser makes its states in
``_init_group``, in its first step as a rule; what that allocates is tagged so that it lies in the host's memory
(``memory_tag(..., where="host")``). What a step allocates besides, and throws away, stays on the device.
"""

from __future__ import annotations

import sys
from typing import Any

from ....allocators.errors import CuplugError
from ....allocators.tags import memory_tag
from ....plugins.selection import parse_selection
from ...machine.settings import AllocatorChoice
from ..installations import runtime_of

__all__ = ["OPTION", "keep_states_on_host", "without_host_tags"]

OPTION = "host_tags"
_KNOWN = ("optimizer",)
_told: set[type] = set()


def without_host_tags(allocator: AllocatorChoice) -> tuple[AllocatorChoice, tuple[str, ...]]:
    """An allocator as it was chosen, without the option, and what the option says is to lie on the host.

    Raises:
        CuplugError: the option names something unknown, or host memory is not to be taken (``host=``).
    """
    if not isinstance(allocator, str) or f"{OPTION}=" not in allocator:
        return allocator, ()
    chosen = parse_selection(allocator)
    tags = tuple(chosen.options.pop(OPTION).split("+"))
    for tag in tags:
        if tag not in _KNOWN:
            raise CuplugError(
                f"{OPTION}={tag} in {allocator!r} names nothing that is known; known: {', '.join(_KNOWN)}"
            )
    if chosen.options.get("host", "0") == "0":
        raise CuplugError(
            f"{allocator!r} is to put memory on the host and may take none there; say how much, for example "
            f"{chosen.name}:host=64GiB,{OPTION}={tags[0]}"
        )
    return str(chosen), tags


def keep_states_on_host() -> None:
    """Let the states of all optimisers of this process, from now on, lie on the host."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    register_optimizer_step_pre_hook(_begins)
    register_optimizer_step_post_hook(_has_ended)


def _begins(optimizer: Any, *_arguments: Any) -> None:
    vars(optimizer).pop("_init_group", None)  # a step that raised has left it
    make = getattr(optimizer, "_init_group", None)
    if make is None:
        return

    def on_host(*arguments: Any, **options: Any) -> Any:
        with memory_tag("optimizer", where="host"):
            return make(*arguments, **options)

    optimizer._init_group = on_host


def _has_ended(optimizer: Any, *_arguments: Any) -> None:
    wrapped = vars(optimizer).pop("_init_group", None)
    kind = type(optimizer)
    if kind in _told:
        return
    _told.add(kind)
    if wrapped is None:
        said = "makes its states in a way of its own: they lie where they come to lie"
    else:
        nbytes, there = _bytes_of_states(optimizer)
        said = f"has states of {nbytes >> 20:,} MiB on devices"
        if runtime_of("torch") is not None:  # else only the core knows, without PyCUDA
            said += f", {there >> 20:,} MiB of them in the host's memory"
    print(f"cuplug: {OPTION}=optimizer: {kind.__module__}.{kind.__qualname__} {said}", file=sys.stderr)


def _bytes_of_states(optimizer: Any) -> tuple[int, int]:
    """The bytes of an optimiser's states on CUDA devices, and those of them that lie on the host."""
    runtime = runtime_of("torch")
    nbytes = there = 0
    on_host: dict[int, list[tuple[int, int]]] = {}
    for state in optimizer.state.values():
        for value in state.values() if isinstance(state, dict) else ():
            if not getattr(value, "is_cuda", False):
                continue
            ordinal = value.device.index
            if ordinal not in on_host:
                allocator = None if runtime is None else runtime.find_allocator(ordinal)
                segments = () if allocator is None else allocator.segments()
                on_host[ordinal] = [(s.address, s.address + s.nbytes) for s in segments if s.host]
            size, address = value.untyped_storage().nbytes(), value.data_ptr()
            nbytes += size
            there += size * any(start <= address < end for start, end in on_host[ordinal])
    return nbytes, there
