"""``host_tags=optimizer``: the states of PyTorch's optimisers lie on the host, whatever the program.

What else the option names stands in ``host_copies.py``.

PyTorch calls what is registered here before and after each step of each optimiser. An optimiser makes its states in
``_init_group``, in its first step as a rule; what that allocates is tagged so that it lies in the host's memory
(``memory_tag(..., where="host")``). What a step allocates besides, and throws away, stays on the device.
"""

from __future__ import annotations

from typing import Any

from ....allocators.errors import CuplugError
from ....allocators.tags import memory_tag
from ....plugins.selection import parse_selection
from ...machine.settings import AllocatorChoice
from .host_copies import GRADIENTS, Gradients, Modules, bytes_on_host, say

OPTION = "host_tags"
_OPTIMIZER, _MODULE = "optimizer", "module:"
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
        if tag not in (_OPTIMIZER, GRADIENTS) and (not tag.startswith(_MODULE) or tag == _MODULE):
            raise CuplugError(
                f"{OPTION}={tag} in {allocator!r} names nothing that is known; known: {_OPTIMIZER}, {GRADIENTS} and "
                f"{_MODULE}NAME, such as {_MODULE}*.embed, with + between them"
            )
    if chosen.options.get("host", "0") == "0":
        raise CuplugError(
            f"{allocator!r} is to put memory on the host and may take none there; say how much, for example "
            f"{chosen.name}:host=64GiB,{OPTION}={tags[0]}"
        )
    return str(chosen), tags


def keep_on_host(tags: tuple[str, ...]) -> None:
    """Let what ``tags`` name, from now on in this process, lie on the host."""
    from torch.nn.modules import module
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    if _OPTIMIZER in tags:
        register_optimizer_step_pre_hook(_begins)
        register_optimizer_step_post_hook(_has_ended)
    if GRADIENTS in tags:
        gradients = Gradients()
        module.register_module_parameter_registration_hook(gradients.parameter_comes)
        register_optimizer_step_pre_hook(gradients.step_begins)
    names = [tag.removeprefix(_MODULE) for tag in tags if tag.startswith(_MODULE)]
    if names:
        module.register_module_forward_pre_hook(Modules(names).is_called)


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
        states = (value for state in optimizer.state.values() if isinstance(state, dict) for value in state.values())
        said = f"has states of {bytes_on_host(value for value in states if hasattr(value, 'is_cuda'))}"
    say(f"{_OPTIMIZER}: {kind.__module__}.{kind.__qualname__} {said}")
