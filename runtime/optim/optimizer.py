"""``Optimizer``: what all optimisers are: groups of parameters with settings, and what is remembered of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import wraps
from typing import Any, ClassVar, TypeAlias

from ...allocators.errors import CuplugError
from ...plugins.tracing.training_scope import OPTIMISER, in_phase, iteration_done
from ..autograd import enable_grad, no_grad
from ..autograd.graph import RemovableHandle
from ..machine.callers import warn_program
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError
from ..tensor.ops.devices.optimizer_updates import update

ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
"""What optimisers take: parameters, groups of them, or parameters with names."""

Row = tuple[Tensor, Tensor, dict[str, Any]]
"""A parameter, its gradient, and what is remembered of the parameter. Nothing is recorded while they change."""


class Optimizer:
    """Changes parameters by their gradients. Subclasses say how, in ``_change``."""

    _has_stepped = False
    """Schedulers look at this: they are to step afterwards."""
    _repeats = False
    """Whether a group names a parameter twice: parameters are then changed one after the other."""
    _step_when_scheduled: Any = None
    """The ``step`` that the optimiser had of its own, and not of its class, when it was given its last scheduler."""
    _execution_settings: ClassVar[Sequence[str]] = ()
    """Those of torch's settings in ``_EXECUTION_DEFAULTS`` that this kind of optimiser takes."""
    # Optimisers that have hooks have tables of their own.
    _optimizer_step_pre_hooks: ClassVar[Mapping[int, Callable[..., Any]]] = {}
    _optimizer_step_post_hooks: ClassVar[Mapping[int, Callable[..., Any]]] = {}

    def __init__(self, params: Any, defaults: dict[str, Any], others: Mapping[str, Any] | None = None) -> None:
        """Take parameters, or groups: dictionaries with ``params`` and settings of their own.

        Args:
            params: the parameters.
            defaults: the settings of groups that have none of their own.
            others: given by cuplug's own optimisers, whose settings are checked then: settings of torch's that say how
                the work is done, and not what. Groups keep them, and they change nothing.

        Raises:
            ValueError: there are no parameters, one is in two groups, a setting is negative, a beta is not within
                [0, 1), a tensor as rate has several elements, only some parameters have names, or the optimiser is to
                be ``differentiable``, which would change what is done.
            TypeError: something is no tensor, or there is no such setting.
            RuntimeError: it is to be ``foreach`` and ``fused``.
        """
        if others is not None:
            defaults = self._checked(defaults, others)
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)  # optimisers of programs count on it
        self.param_groups: list[dict[str, Any]] = []
        if isinstance(params, Tensor):
            raise TypeError("an optimiser takes several parameters, as model.parameters(), not one tensor")
        given = list(params)
        if not given:
            raise ArgumentError(f"{type(self).__name__}: there are no parameters")
        for each in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(each)

    def _checked(self, defaults: dict[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
        """All settings of one of cuplug's own optimisers. Those of a program's may mean anything, as in torch."""
        for name in others:
            if name not in self._execution_settings:
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{name}'")
        settings = {**defaults, **{name: _EXECUTION_DEFAULTS[name] for name in self._execution_settings}, **others}
        if settings.get("fused") and settings.get("foreach"):
            raise CuplugError("`fused` and `foreach` cannot be `True` together.")
        if settings.get("differentiable"):
            raise ArgumentError(
                f"{type(self).__name__}: differentiable=True is not part of cuplug: steps of optimisers that gradients "
                "go through are left out; compute the new parameters by operations of your own"
            )
        if not all(0 <= beta < 1 for beta in settings.get("betas", ())):
            raise ArgumentError(f"{type(self).__name__}: betas are within [0, 1), not {settings['betas']}")
        for name in _NOT_NEGATIVE:
            if name in settings and not isinstance(settings[name], Tensor) and not settings[name] >= 0:
                raise ArgumentError(f"{type(self).__name__}: {name} is {settings[name]}, and must not be negative")
        if isinstance(settings.get("lr"), Tensor) and settings["lr"].numel() != 1:
            raise ArgumentError("Tensor lr must be 1-element")
        return settings

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with settings of their own.

        Raises:
            ValueError: a parameter is in another group, or is no leaf; or some parameters have names, and others none.
            TypeError: something is no tensor.
        """
        group = dict(param_group)
        listed = group["params"]
        found = [listed] if isinstance(listed, Tensor) else list(listed)
        names = [each[0] for each in found if isinstance(each, tuple)]
        if names:
            group["param_names"] = names
        named = "param_names" in group  # of groups of another optimiser, too
        if (names and len(names) != len(found)) or any(named != ("param_names" in each) for each in self.param_groups):
            raise ArgumentError("all optimizer params should be with/without names")
        found = [each[1] if isinstance(each, tuple) else each for each in found]
        known = {each for other in self.param_groups for each in other["params"]}
        for each in found:
            if not isinstance(each, Tensor):
                raise TypeError(f"an optimiser changes tensors, not {type(each).__name__}")
            if not each.is_leaf:
                raise ArgumentError("an optimiser changes leaves, and this tensor was made by an operation")
        if known & set(found):
            raise ArgumentError("some parameters appear in more than one parameter group")
        if len(set(found)) != len(found):
            self._repeats = True
            warn_program(
                "optimizer contains a parameter group with duplicate parameters: each step changes them as often as "
                "they are named; give each of them once, as model.parameters() does"
            )
        self.param_groups.append({**self.defaults, **group, "params": found})

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Take away the gradients of all parameters, or make them 0."""
        for group in self.param_groups:
            for each in group["params"]:
                state = each._gradient
                if state is not None and state.grad is not None:
                    if set_to_none:
                        state.grad = None
                    else:
                        state.grad.detach_().zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change all parameters that have gradients.

        Args:
            closure: computes the loss anew, with gradients; called first.

        Returns:
            What ``closure`` returns.
        """
        self._has_stepped = True
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad(), in_phase(OPTIMISER):
            for group in self.param_groups:
                rows = []
                for each in group["params"]:
                    state = each._gradient
                    if state is not None and state.grad is not None:
                        rows.append((each, state.grad, self.state.setdefault(each, {})))
                if rows:
                    self._change(rows, group)
        iteration_done()
        return loss

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each ``step``; it may return others, as a pair. ``args`` begins
        with the optimiser. ``step`` raises CuplugError if the hook returns something else."""
        return self._hook(_HOOKS[0], hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each ``step``."""
        return self._hook(_HOOKS[1], hook)

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles have no hooks, as torch's."""
        return {name: each for name, each in vars(self).items() if name not in _HOOKS}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take over attributes: of a copy, a pickle or ``load_state_dict``. Optimisers of programs add settings here
        that groups of earlier versions lack, as cuplug's own add those that PyTorch's once lacked."""
        self.__dict__.update(state)
        if self._execution_settings:
            later = {name: value for name, value in _LATER_SETTINGS.items() if name in self.defaults}
            for group in self.param_groups:
                group.update({name: value for name, value in later.items() if name not in group})

    def _hook(self, table: str, hook: Callable[..., Any]) -> RemovableHandle:
        kind: Any = type(self)
        if not hasattr(kind.step, "hooked"):  # only now: a class without hooks has its own function, which is quicker
            kind.step = _with_hooks(kind.step)
        return RemovableHandle(self.__dict__.setdefault(table, {}), hook)

    def _change(self, rows: Sequence[Row], group: Mapping[str, Any]) -> None:
        """Change the parameters of a group that have gradients, and what is remembered of each.

        Raises:
            NotImplementedError: a subclass has to say how.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how parameters change")

    def _update(self, name: str, rows: Sequence[Sequence[Tensor]], *numbers: float) -> None:
        """``update`` of the rows of a group: all at once, where none is there twice."""
        for each in [[row] for row in rows] if self._repeats else (rows,):
            update(name, each, *numbers)

    def state_dict(self) -> dict[str, Any]:
        """What is remembered, and the settings; parameters are numbered."""
        numbers: dict[Tensor, int] = {}
        groups = []
        for group in self.param_groups:
            for each in group["params"]:
                numbers.setdefault(each, len(numbers))
            packed = {name: value for name, value in group.items() if name != "params"}
            groups.append({**packed, "params": [numbers[each] for each in group["params"]]})
        state = {
            numbers[each] if isinstance(each, Tensor) else each: dict(kept) if isinstance(kept, dict) else kept
            for each, kept in self.state.items()
            if kept or not isinstance(each, Tensor)
        }
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what another optimiser of such parameters remembered, and the settings of its groups: those that
        they lack are not there afterwards, unless ``__setstate__`` adds them.

        Raises:
            ValueError: there are other groups, or groups of other lengths.
        """
        groups = deepcopy(list(state_dict["param_groups"]))
        own = [len(each["params"]) for each in self.param_groups]
        if [len(each["params"]) for each in groups] != own:
            raise ArgumentError(f"load_state_dict: groups of {[len(each['params']) for each in groups]} for {own}")
        by_number: dict[Any, Tensor] = {}
        for group, mine in zip(groups, self.param_groups, strict=True):
            by_number.update(zip(group["params"], mine["params"], strict=True))
            group["params"] = mine["params"]
            if "param_names" in mine:
                group.setdefault("param_names", mine["param_names"])
        state: defaultdict[Any, Any] = defaultdict(dict)
        for number, kept in state_dict["state"].items():
            if number in by_number:
                state[by_number[number]] = _like(kept, by_number[number])
            else:
                state[number] = kept  # of the optimiser as a whole
        self.__setstate__({"state": state, "param_groups": groups})

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            settings = sorted(name for name in group if name != "params")
            lines += [f"Parameter Group {number}", *(f"    {name}: {group[name]}" for name in settings), ""]
        lines[-1] = ")"
        return "\n".join(lines)


_EXECUTION_DEFAULTS = {"foreach": None, "capturable": False, "differentiable": False, "fused": None}
"""How torch would do the work, and what it does if nothing is said."""
_LATER_SETTINGS = {
    **dict.fromkeys(("amsgrad", "centered", "decoupled_weight_decay", "maximize", "nesterov"), False),
    "momentum": 0,
    **_EXECUTION_DEFAULTS,
}
"""Settings that groups in old files of PyTorch lack, and what they meant."""
_NOT_NEGATIVE = "lr", "weight_decay", "momentum", "eps", "lr_decay", "momentum_decay", "initial_accumulator_value"
_HOOKS = "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"
"""Torch's names of the tables of hooks."""


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """``step`` of a class, between the hooks of the optimiser that it is called for."""

    @wraps(step)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        optimizer = args[0]
        for hook in list(optimizer._optimizer_step_pre_hooks.values()):
            new = hook(optimizer, args, kwargs)
            if new is not None:
                if not isinstance(new, tuple) or len(new) != 2:
                    raise CuplugError(f"a hook must return None or a tuple of (new_args, new_kwargs), but got {new}.")
                args, kwargs = new
        result = step(*args, **kwargs)
        for hook in list(optimizer._optimizer_step_post_hooks.values()):
            hook(optimizer, args, kwargs)
        return result

    hooked.hooked = True  # type: ignore[attr-defined]
    return hooked


def _like(value: Any, parameter: Tensor, name: str = "") -> Any:
    """A copy of what was remembered of a parameter, on its device and of its type."""
    if isinstance(value, dict):
        return {inner: _like(each, parameter, inner) for inner, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_like(each, parameter) for each in value)
    if not isinstance(value, Tensor) or name == "step":
        return value
    return value.to(parameter.device, parameter.dtype if value.is_floating_point() else None, copy=True)
