"""The state of a module: how it is saved and loaded, part by part, with the hooks that stand before and after.

Every module saves and loads what is its own by ``_save_to_state_dict`` and ``_load_from_state_dict``, as in torch, so
that programs may override them; what goes from part to part stands here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...allocators.errors import CuplugError
from ..autograd import no_grad
from ..tensor.core.tensor import Tensor
from ..tensor.ops.making.from_values import as_tensor
from .parameter import Parameter

EXTRA = "_extra_state"
"""The name below which a module's ``get_extra_state`` is kept."""


class IncompatibleKeys(NamedTuple):
    """What ``load_state_dict`` found to differ: the names that were missing, and those that nothing has."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class LoadHook(NamedTuple):
    """What is called before a module loads its own state."""

    hook: Callable[..., Any]
    takes_module: bool


def save_parts(module: Any, destination: Any, prefix: str, keep_vars: bool) -> Any:
    """Write the state of a module and of all within it to ``destination``, which is returned, unless a hook returns
    another.

    Raises:
        CuplugError: a hook of ``register_state_dict_post_hook`` returned something.
    """
    about = {"version": module._version}
    if hasattr(destination, "_metadata"):
        destination._metadata[prefix[:-1]] = about
    for hook in list((module._state_dict_pre_hooks or {}).values()):
        hook(module, prefix, keep_vars)
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, each in module._modules.items():
        if each is not None:
            each.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for hook, public in list((module._state_dict_hooks or {}).values()):
        changed = hook(module, destination, prefix, about)
        if changed is not None and public:
            raise CuplugError("state_dict post-hook must return None")
        destination = destination if changed is None else changed
    return destination


def save_own(module: Any, destination: Any, prefix: str, keep_vars: bool) -> None:
    """Write a module's own parameters, persistent buffers and extra state to ``destination``."""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            destination[prefix + name] = parameter if keep_vars else parameter.detach()
    for name, buffer in module._buffers.items():
        if buffer is not None and name not in module._transient:
            destination[prefix + name] = buffer if keep_vars else buffer.detach()
    if module._has_extra_state("get_extra_state"):
        destination[prefix + EXTRA] = module.get_extra_state()


def load_parts(module: Any, state: Mapping[str, Any], strict: bool, assign: bool) -> IncompatibleKeys:
    """Load the state of a module and of all within it.

    Raises:
        TypeError: the state is no mapping.
        CuplugError: names differ and ``strict``, or shapes do.
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state)}.")
    found = IncompatibleKeys([], [])
    wrong: list[str] = []
    metadata = getattr(state, "_metadata", None) or {}

    _load(module, OrderedDict(state), "", metadata, assign, found, wrong)
    for names, which in ((found.unexpected_keys, "Unexpected"), (found.missing_keys, "Missing")):
        if names and strict:
            quoted = ", ".join(f'"{name}"' for name in names)
            wrong.insert(0, f"{which} key(s) in state_dict: {quoted}. ")
    if wrong:
        raise CuplugError("\n\t".join([f"Error(s) in loading state_dict for {type(module).__name__}:", *wrong]))
    return found


def _load(
    part: Any,
    state: Mapping[str, Any],
    prefix: str,
    metadata: Mapping[str, Any],
    assign: bool,
    found: IncompatibleKeys,
    wrong: list[str],
) -> None:
    about = dict(metadata.get(prefix[:-1], {}))
    if assign:
        about["assign_to_params_buffers"] = True
    part._load_from_state_dict(state, prefix, about, True, *found, wrong)
    for name, each in part._modules.items():
        if each is not None:
            inner = f"{prefix}{name}."
            its = OrderedDict(item for item in state.items() if item[0].startswith(inner))
            _load(each, its, inner, metadata, assign, found, wrong)
    for hook in list((part._load_state_dict_post_hooks or {}).values()):
        if hook(part, found) is not None:
            raise CuplugError("a hook of register_load_state_dict_post_hook changes the lists, and returns None")


def load_own(
    module: Any,
    state: Mapping[str, Any],
    prefix: str,
    about: Mapping[str, Any],
    strict: bool,
    missing: list[str],
    unexpected: list[str],
    wrong: list[str],
) -> None:
    """Load a module's own parameters, persistent buffers and extra state, and note what differs."""
    for hook, takes_module in list((module._load_state_dict_pre_hooks or {}).values()):
        hook(*((module,) if takes_module else ()), state, prefix, about, strict, missing, unexpected, wrong)
    buffers = {name: each for name, each in module._buffers.items() if name not in module._transient}
    own = {name: each for name, each in {**module._parameters, **buffers}.items() if each is not None}
    for name, each in own.items():
        if prefix + name in state:
            problem = _loaded(module, name, each, state[prefix + name], prefix, about)
            if problem is not None:
                wrong.append(problem)
        elif strict:
            missing.append(prefix + name)
    if module._has_extra_state("set_extra_state"):
        if prefix + EXTRA in state:
            module.set_extra_state(state[prefix + EXTRA])
        elif strict:
            missing.append(prefix + EXTRA)
    elif strict and prefix + EXTRA in state:
        unexpected.append(prefix + EXTRA)
    if strict:
        for key in state:
            first, dot, _ = key.removeprefix(prefix).partition(".")
            if key.startswith(prefix) and key != prefix + EXTRA and first not in (module._modules if dot else own):
                unexpected.append(key)


def _loaded(module: Any, name: str, own: Any, given: Any, prefix: str, about: Mapping[str, Any]) -> str | None:
    """Put a tensor where it belongs; or what forbids it."""
    if not hasattr(given, "shape"):
        return (
            f'While copying the parameter named "{prefix + name}", expected torch.Tensor or Tensor-like object from '
            f"checkpoint but received {type(given)}"
        )
    tensor = given if isinstance(given, Tensor) else as_tensor(given)
    if not own.ndim and tuple(tensor.shape) == (1,):
        tensor = tensor[0]
    if tuple(own.shape) != tuple(tensor.shape):
        return (
            f"size mismatch for {prefix + name}: copying a param with shape {tensor.shape!r} from checkpoint, "
            f"the shape in current model is {own.shape!r}."
        )
    with no_grad():
        if not about.get("assign_to_params_buffers"):
            try:
                own.copy_(tensor)
            except Exception as error:
                return (
                    f'While copying the parameter named "{prefix + name}", whose dimensions in the model are '
                    f"{own.shape!r} and whose dimensions in the checkpoint are {tensor.shape!r}, an exception "
                    f"occurred : {error.args}."
                )
        elif name in module._parameters:
            taken = tensor if isinstance(tensor, Parameter) else Parameter(tensor, own.requires_grad)
            module._parameters[name] = taken
        else:
            module._buffers[name] = tensor
    return None
