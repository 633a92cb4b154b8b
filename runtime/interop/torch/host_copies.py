"""``host_tags=gradients`` and ``host_tags=module:NAME``: gradients, and what named modules hold, lie on the host.

PyTorch makes gradients in the operations of a backward pass, which do not know that they make one. So a gradient is
copied to the host's memory once it is there, and its memory on the device is free for the next. Parameters are known by
PyTorch's hook for their registration; what a module got in another way (a deep copy) is found at the optimiser's step.

Modules have names within their root alone, which is the outermost one that is called. At its first call what the named
ones hold is copied to the host's memory, and the parameters are the objects that they were.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from ....allocators.tags import memory_tag
from ..installations import runtime_of

GRADIENTS = "gradients"


class Gradients:
    """Sees to it that gradients of parameters lie on the host."""

    def __init__(self) -> None:
        self._seen: dict[int, weakref.ref[Any]] = {}
        self._copied: dict[int, int] = {}
        """By parameter: where its gradient lies that was copied."""
        self._refused: dict[str, int] = {}
        """Why gradients were left on the device, and how many."""
        self._told = False

    def parameter_comes(self, _module: Any, _name: str, parameter: Any) -> None:
        """A module registers a parameter: PyTorch's hook. It answers nothing, so that it is registered as it is."""
        if parameter is not None and parameter.requires_grad and parameter.is_leaf:
            self._hook(parameter)

    def step_begins(self, optimizer: Any, *_arguments: Any) -> None:
        """An optimiser's step begins: PyTorch's hook. What came in another way is hooked here."""
        late = 0
        for parameter in (each for group in optimizer.param_groups for each in group["params"]):
            if parameter.requires_grad and parameter.is_leaf and not self._knows(parameter):
                self._hook(parameter)
                late += 1
                if parameter.grad is not None:
                    self.gradient_is_there(parameter)
        if self._told:
            return
        self._told = True
        parameters = (each for group in optimizer.param_groups for each in group["params"])
        told = bytes_on_host(each.grad for each in parameters if each.grad is not None)
        left = "".join(f"; {count} stay there, since {why}" for why, count in sorted(self._refused.items()))
        seen_late = f"; {late} parameters were seen at this step only" if late else ""
        say(f"{GRADIENTS}: gradients of {told}{left}{seen_late}")

    def gradient_is_there(self, parameter: Any) -> None:
        """The gradient of ``parameter`` has been added up: PyTorch's hook."""
        gradient = parameter.grad
        if gradient is None or not _is_on_device(gradient) or self._copied.get(id(parameter)) == gradient.data_ptr():
            return
        why = _why_not(gradient)
        if why:
            self._refused[why] = self._refused.get(why, 0) + 1
            return
        with memory_tag(GRADIENTS, where="host"):
            there = _copy_of(gradient)
        self._copied[id(parameter)] = there.data_ptr()
        parameter.grad = there

    def _knows(self, parameter: Any) -> bool:
        seen = self._seen.get(id(parameter))
        return seen is not None and seen() is parameter

    def _hook(self, parameter: Any) -> None:
        if self._knows(parameter):
            return
        number = id(parameter)

        def forget(gone: Any) -> None:
            if self._seen.get(number) is gone:
                del self._seen[number]
                self._copied.pop(number, None)

        self._seen[number] = weakref.ref(parameter, forget)
        parameter.register_post_accumulate_grad_hook(self.gradient_is_there)


class Modules:
    """Sees to it that what named modules hold lies on the host."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()

    def is_called(self, module: Any, _inputs: Any) -> None:
        """A module is about to be called: PyTorch's hook. One that is part of none that was called is a root."""
        if module in self._seen:
            return
        kind = type(module).__name__
        found = {path.replace("_orig_mod.", ""): one for path, one in module.named_modules()}
        self._seen.update(found.values())
        for name in self._names:
            chosen = {path: one for path, one in found.items() if path and _is_named(name, path, kind)}
            copied, left = self._copy_held(name, chosen.values())
            if not chosen and len(found) > 1:
                known = ", ".join([path for path in found if path][:8])
                say(f"module:{name} names no module of {kind}; it has {known}{', ...' if len(found) > 9 else ''}")
            elif chosen:
                shown = ", ".join(list(chosen)[:4]) + (", ..." if len(chosen) > 4 else "")
                others = f"; {left} tensors are on no device, or parts of others" if left else ""
                say(f"module:{name}: {shown} have {bytes_on_host(copied)}{others}")

    @staticmethod
    def _copy_held(name: str, modules: Iterable[Any]) -> tuple[list[Any], int]:
        """Copy what the modules hold. What was copied, and how many tensors were not."""
        held = {id(one): one for module in modules for one in (*module.parameters(), *module.buffers())}
        copied, left = [], 0
        for tensor in held.values():
            if not _is_on_device(tensor) or _why_not(tensor):
                left += 1
                continue
            with memory_tag(f"module:{name}", where="host"):
                there = _copy_of(tensor)
            tensor.data = there
            copied.append(tensor)
        return copied, left


def _is_named(name: str, path: str, kind: str) -> bool:
    """Whether ``name`` means the module at ``path`` in a root of that class, which may stand before it."""
    return fnmatchcase(path, name) or fnmatchcase(f"{kind}.{path}", name)


def bytes_on_host(tensors: Iterable[Any]) -> str:
    """How many bytes ``tensors`` have on CUDA devices, and how many of them lie on the host, in words."""
    runtime = runtime_of("torch")
    nbytes = there = 0
    on_host: dict[int, list[tuple[int, int]]] = {}
    for tensor in tensors:
        if not _is_on_device(tensor):
            continue
        ordinal = tensor.device.index
        if ordinal not in on_host:
            allocator = None if runtime is None else runtime.find_allocator(ordinal)
            segments = () if allocator is None else allocator.segments()
            on_host[ordinal] = [(s.address, s.address + s.nbytes) for s in segments if s.host]
        size, address = tensor.untyped_storage().nbytes(), tensor.data_ptr()
        nbytes += size
        there += size * any(start <= address < end for start, end in on_host[ordinal])
    said = f"{nbytes >> 20:,} MiB on devices"
    if runtime is not None:  # else only the core knows, without PyCUDA
        said += f", {there >> 20:,} MiB of them in the host's memory"
    return said


def say(what: str) -> None:
    """Tell the user what was put where."""
    print(f"cuplug: host_tags={what}", file=sys.stderr)


def _is_on_device(tensor: Any) -> bool:
    return bool(tensor.is_cuda)


def _why_not(tensor: Any) -> str:
    """Why a tensor cannot be replaced by a copy; empty where it can."""
    if str(tensor.layout) != "torch.strided":
        return "they are sparse"
    if tensor.grad_fn is not None:
        return "they are part of a graph themselves"
    if tensor._is_view():
        return "they are parts of another tensor"
    return ""


def _copy_of(tensor: Any) -> Any:
    import torch

    with torch.no_grad():
        return torch.empty_like(tensor.detach()).copy_(tensor.detach())
