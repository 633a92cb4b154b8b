"""``Module``: what networks are made of. Parameters, buffers and other modules are attributes, and found by name."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from ...plugins.tracing.training_scope import scope
from ..autograd import no_grad
from ..autograd.graph import RemovableHandle
from ..facade import eager_compiler
from ..tensor.core.dtypes import bfloat16, float16, float32, float64
from ..tensor.core.tensor import Tensor
from ..tensor.ops.arguments.facts import typename
from .module_calls import (
    OF_ALL_ALWAYS_CALLED,
    OF_ALL_WITH_KWARGS,
    called_with_hooks,
    name_the_layer,
    register_in,
    what_is_no_tensor,
)
from .module_state import IncompatibleKeys, LoadHook, load_own, load_parts, save_own, save_parts
from .parameter import Parameter

__all__ = ["IncompatibleKeys", "Module", "register_module_forward_hook", "register_module_forward_pre_hook"]


# Hooks that are called for every module, by torch's names: a program forgets them by putting other tables here.
_global_forward_pre_hooks: dict[int, Callable[..., Any]] = {}
_global_forward_hooks: dict[int, Callable[..., Any]] = {}


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, result)`` after the ``forward`` of every module, before hooks of its own; it may return
    another result.

    Args:
        hook: the function.
        with_kwargs: whether the hook is called with the keywords, too, before the result.
        always_call: whether also where ``forward`` or another hook raises an error; the result may then be None.
    """
    marks = [*([OF_ALL_WITH_KWARGS] if with_kwargs else []), *([OF_ALL_ALWAYS_CALLED] if always_call else [])]
    return register_in(_global_forward_hooks, hook, *marks)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before the ``forward`` of every module, before hooks of its own; it may return other
    arguments."""
    return register_in(_global_forward_pre_hooks, hook)


class Module:
    """A part of a network. A subclass makes its parts in ``__init__`` and computes in ``forward``."""

    training: bool
    dump_patches: ClassVar[bool] = False
    _told: ClassVar[tuple[str, ...]] = ()
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _transient: set[str]
    """The names of buffers that are no part of the state."""
    _forward_hooks: dict[int, Callable[..., Any]]
    _forward_pre_hooks: dict[int, Callable[..., Any]]
    # Tables that few modules have are made when they are needed.
    _forward_hooks_with_kwargs: dict[int, bool] = {}  # noqa: RUF012
    _forward_hooks_always_called: dict[int, bool] = {}  # noqa: RUF012
    _forward_pre_hooks_with_kwargs: dict[int, bool] = {}  # noqa: RUF012
    _backward_hooks: dict[int, Callable[..., Any]] | None = None
    _backward_pre_hooks: dict[int, Callable[..., Any]] | None = None
    _state_dict_hooks: dict[int, tuple[Callable[..., Any], bool]] | None = None
    """With whether it was registered by torch's public function, whose hooks return nothing."""
    _state_dict_pre_hooks: dict[int, Callable[..., Any]] | None = None
    _load_state_dict_pre_hooks: dict[int, LoadHook] | None = None
    _load_state_dict_post_hooks: dict[int, Callable[..., Any]] | None = None
    _version: int = 1
    """What a subclass sets to a higher number when its state changes; ``_load_from_state_dict`` is given the number of
    the state's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take no arguments, and name the class that is given some.

        Raises:
            TypeError: there are arguments.
        """
        if args or kwargs:
            call = f"{type(self).__name__}.__init__()"
            if kwargs:
                raise TypeError(f"{call} got an unexpected keyword argument '{next(iter(kwargs))}'")
            raise TypeError(f"{call} takes 1 positional argument but {len(args) + 1} were given")
        super().__setattr__("training", True)
        fields = self.__dict__
        for name in ("_parameters", "_buffers", "_modules"):
            fields[name] = {}
        fields["_transient"] = set()
        fields["_forward_hooks"], fields["_forward_pre_hooks"] = {}, {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result.

        Raises:
            NotImplementedError: a subclass has to say how.
        """
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """``forward``, with hooks around it."""
        modules, outer = scope.modules, scope.known_path
        depth = len(modules)
        try:  # a signal's exception may come behind each call
            scope.known_path = None
            modules.append(self)
            own = self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks
            if own or _global_forward_hooks or _global_forward_pre_hooks:
                return called_with_hooks(self, args, kwargs, _global_forward_pre_hooks, _global_forward_hooks)
            return self.forward(*args, **kwargs)
        except AttributeError as error:
            wrong = what_is_no_tensor(self, args)
            if wrong:
                raise TypeError(wrong) from error
            raise
        except TypeError as error:
            name_the_layer(self, error)
            raise
        finally:
            scope.known_path = outer
            del modules[depth:]

    # --- attributes

    def __setattr__(self, name: str, value: Any) -> None:
        fields = self.__dict__
        if "_parameters" not in fields:
            if isinstance(value, (Parameter, Module)):
                raise AttributeError(f"{type(self).__name__}: call super().__init__() before parts are assigned")
            super().__setattr__(name, value)
            return
        for kind, table in ((Parameter, "_parameters"), (Module, "_modules")):
            if isinstance(value, kind) or (value is None and name in fields[table]):
                for other in ("_parameters", "_modules", "_buffers"):
                    if other != table:
                        fields[other].pop(name, None)
                fields.pop(name, None)
                fields[table][name] = value
                return
        if name in fields["_buffers"] and (value is None or isinstance(value, Tensor)):
            fields["_buffers"][name] = value
            return
        if name in fields["_parameters"] or name in fields["_buffers"] or name in fields["_modules"]:
            kinds = {"parameter": "Parameter", "buffer": "Tensor", "module": "Module"}
            part = next(each for each in kinds if name in fields[f"_{each}s"])
            raise TypeError(f"cannot assign {typename(value)!r} as {part} {name!r} ({kinds[part]} or None expected)")
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__
        if "_parameters" in fields:
            if name in fields["_parameters"]:
                return fields["_parameters"][name]
            if name in fields["_modules"]:
                return fields["_modules"][name]
            if name in fields["_buffers"]:
                return fields["_buffers"][name]
        if name in _ABSENT:
            raise AttributeError(f"Module.{name} is not part of cuplug; use {_ABSENT[name]}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter as attribute ``name``. With None the name is known, and holds nothing.

        Raises:
            KeyError: the name is empty or has a dot, or another attribute has it.
            TypeError: it is no parameter, or the name is no text.
        """
        if not isinstance(name, str) or name not in self._parameters:
            self._check_name("parameter", name)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign {typename(param)!r} object to parameter {name!r}: a Parameter or None is required"
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is not trained; unless ``persistent`` it is no part of the state.

        Raises:
            KeyError: the name is empty or has a dot, or another attribute has it.
            TypeError: it is no tensor, or the name is no text.
        """
        if not isinstance(name, str) or name not in self._buffers:
            self._check_name("buffer", name)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign {typename(tensor)!r} object to buffer {name!r}: a tensor or None is required"
            )
        self._buffers[name] = tensor
        if persistent:
            self._transient.discard(name)
        else:
            self._transient.add(name)

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a module as attribute ``name``: as ``register_parameter``, which says what it raises."""
        if module is not None and not isinstance(module, Module):
            call = f": call it, {module.__name__}(...)" if isinstance(module, type) else ""
            raise TypeError(f"{typename(module)} is not a Module subclass{call}")
        if not isinstance(name, str) or name not in self._modules:
            self._check_name("module", name)
        self._modules[name] = module

    add_module = register_module

    def _check_name(self, kind: str, name: Any) -> None:
        """For a name that the table of its kind has not yet."""
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        fields = self.__dict__
        if (  # hasattr(self, name), but for the exception that is raised inside: 0.15 us for 0.78
            name in fields
            or ((hasattr(type(self), name) or type(self).__getattr__ is not Module.__getattr__) and hasattr(self, name))
            or name in fields["_parameters"]
            or name in fields["_modules"]
            or name in fields["_buffers"]
        ):
            raise KeyError(f"attribute '{name}' already exists")
        if not name or "." in name:
            raise KeyError(f'{kind} name can\'t contain "." or be empty, got: {name!r}')

    def get_submodule(self, target: str) -> Module:
        """The module at a path such as ``layer2.0.conv1``.

        Raises:
            AttributeError: there is none.
        """
        found = self
        for name in target.split(".") if target else ():
            found = getattr(found, name)
            if not isinstance(found, Module):
                raise AttributeError(f"{target}: {name} is no module")  # noqa: TRY004 - torch's
        return found

    def get_buffer(self, target: str) -> Any:
        """The buffer at a path such as ``layer1.norm.running_mean``; None if the name is known, and holds nothing.

        Raises:
            AttributeError: there is none.
        """
        path, _, name = target.rpartition(".")
        buffers = self.get_submodule(path)._buffers
        if name not in buffers:
            raise AttributeError(f"{target} is no buffer")
        return buffers[name]

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path.

        Raises:
            AttributeError: there is none.
        """
        path, _, name = target.rpartition(".")
        found = getattr(self.get_submodule(path), name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"{target} is no parameter")  # noqa: TRY004 - torch's
        return found

    # --- parts by name

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all within it, with their paths; each once."""
        seen = set() if memo is None else memo
        if self in seen:
            return
        if remove_duplicate:
            seen.add(self)
        yield prefix, self
        for name, each in self._modules.items():
            if each is not None:
                yield from each.named_modules(seen, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module and all within it, at any depth; each once."""
        return (each for _, each in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly within this one, with their names; each once."""
        seen = set()
        for name, each in self._modules.items():
            if each is not None and each not in seen:
                seen.add(each)
                yield name, each

    def children(self) -> Iterator[Module]:
        """The modules directly within this one."""
        return (each for _, each in self.named_children())

    def _named(self, table: str, prefix: str, recurse: bool, once: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        parts = self.named_modules(prefix=prefix) if recurse else iter([(prefix, self)])
        for path, module in parts:
            for name, each in getattr(module, table).items():
                if each is None or (once and id(each) in seen):
                    continue
                seen.add(id(each))
                yield f"{path}.{name}" if path else name, each

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Pairs of a path such as ``layer2.0.weight`` and a parameter.

        Args:
            prefix: what stands before each path.
            recurse: whether those of modules within this one are included.
            remove_duplicate: whether a parameter that has several paths comes once.
        """
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, each once; without ``recurse`` only those of this module itself."""
        return (each for _, each in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Pairs of a path such as ``layer2.1.running_mean`` and a buffer. Arguments are those of
        ``named_parameters``."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, each once; without ``recurse`` only those of this module itself."""
        return (each for _, each in self.named_buffers(recurse=recurse))

    # --- state

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """All parameters and persistent buffers by path, sharing their memory.

        Args:
            args: the three arguments by position, as torch still takes them.
            destination: a dictionary to add to.
            prefix: what stands before each path.
            keep_vars: whether parameters are given themselves, instead of without gradients.
        """
        given: tuple[Any, ...] = (*args, *(destination, prefix, keep_vars)[len(args) :])
        destination, prefix, keep_vars = given
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        return save_parts(self, destination, prefix, keep_vars)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        save_own(self, destination, prefix, keep_vars)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy the elements of a state's tensors, or of NumPy's arrays, into the parameters and buffers of these paths.

        Args:
            state_dict: by path.
            strict: whether missing and unexpected paths are an error.
            assign: whether to take the tensors themselves, instead of their elements.

        Raises:
            TypeError: the state is no mapping.
            CuplugError: paths or shapes differ; what fits was loaded.
        """
        return load_parts(self, state_dict, strict, assign)

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: Mapping[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        load_own(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def get_extra_state(self) -> Any:
        """What a subclass wants to have in its state beside tensors.

        Raises:
            NotImplementedError: a subclass that sets an extra state has to say how.
        """
        raise NotImplementedError(f"{type(self).__name__} has no get_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Take what ``get_extra_state`` gave.

        Raises:
            NotImplementedError: a subclass that gives an extra state has to say how.
        """
        raise NotImplementedError(f"{type(self).__name__} has no set_extra_state")

    def _has_extra_state(self, function: str) -> bool:
        return getattr(type(self), function) is not getattr(Module, function)

    # --- changes of all parts

    def apply(self, fn: Callable[[Module], Any]) -> Any:
        """Call ``fn`` with every module within this one, and with this. Returns the module."""
        for each in self.children():
            each.apply(fn)
        fn(self)
        return self

    def _apply(self, change: Callable[[Tensor], Tensor]) -> Any:
        for each in self.children():
            each._apply(change)
        with no_grad():
            for parameter in self._parameters.values():
                if parameter is None:
                    continue
                made = change(parameter.detach())
                gradient = parameter.grad
                if made._storage is not parameter._storage:
                    parameter.grad = None
                    parameter.data = made
                    if gradient is not None:
                        parameter.grad = change(gradient)
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = change(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Move and convert all parameters and buffers, in place; only floating-point ones are converted.

        ``to(device)``, ``to(dtype)``, ``to(device, dtype)``, ``to(tensor)``; ``memory_format=`` is for those of four
        dimensions (``channels_last``) or five. Returns the module.

        Raises:
            CuplugError: there is no such device.
        """
        from ..tensor.ops.copying.copying import destination

        form = kwargs.pop("memory_format", None)
        if form is not None and not args and not kwargs:
            return self._apply(lambda tensor: tensor.to(memory_format=form) if tensor.ndim in (4, 5) else tensor)

        def change(tensor: Tensor) -> Tensor:
            place, kind, non_blocking = destination(tensor, args, kwargs)
            made = tensor.to(place.device, kind if tensor.is_floating_point() else None, non_blocking=non_blocking)
            return made if form is None or tensor.ndim not in (4, 5) else made.to(memory_format=form)

        return self._apply(change)

    def cuda(self, device: Any = None) -> Any:
        """Move all parameters and buffers to a CUDA device, by default the current one. Returns the module.

        Raises:
            CuplugError: there is no CUDA device.
        """
        return self._apply(lambda tensor: tensor.cuda(device))

    def cpu(self) -> Any:
        """Move all parameters and buffers to the CPU. Returns the module."""
        return self._apply(lambda tensor: tensor.cpu())

    def share_memory(self) -> Any:
        """Move all parameters and buffers to memory that other processes can see. Returns the module.

        Raises:
            OSError: there is no memory.
        """
        return self._apply(lambda tensor: tensor.share_memory_())

    def type(self, dst_type: Any) -> Any:
        """Convert all parameters and buffers to the element type ``dst_type``. Returns the module."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def _floats(self, kind: Any) -> Any:
        return self._apply(lambda tensor: tensor.to(kind) if tensor.is_floating_point() else tensor)

    def half(self) -> Any:
        """Convert floating-point parameters and buffers to float16. Returns the module."""
        return self._floats(float16)

    def bfloat16(self) -> Any:
        """Convert floating-point parameters and buffers to bfloat16. Returns the module."""
        return self._floats(bfloat16)

    def float(self) -> Any:
        """Convert floating-point parameters and buffers to float32. Returns the module."""
        return self._floats(float32)

    def double(self) -> Any:
        """Convert floating-point parameters and buffers to float64. Returns the module."""
        return self._floats(float64)

    def train(self, mode: bool = True) -> Any:
        """Let this module and all within it be trained, or evaluated. Returns the module."""
        for each in self.modules():
            each.training = bool(mode)
        return self

    def eval(self) -> Any:
        """Let this module and all within it be evaluated: no dropout, statistics as they are. Returns the module."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Let gradients be computed for all parameters, or not. Returns the module."""
        for each in self.parameters():
            each.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Take the gradients of all parameters away; or, unless ``set_to_none``, fill them with 0."""
        for each in self.parameters():
            if each.grad is not None:
                if set_to_none:
                    each.grad = None
                else:
                    each.grad.detach_().zero_()

    # --- hooks and text

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, result)`` after ``forward``; it may return another result.

        Args:
            hook: the function.
            prepend: whether before the hooks that are there.
            with_kwargs: whether the hook is called with the keywords, too, before the result.
            always_call: whether also where ``forward`` or another hook raises an error; the result may then be None.
        """
        return register_in(
            self._forward_hooks,
            hook,
            *([self._table("_forward_hooks_with_kwargs")] if with_kwargs else []),
            *([self._table("_forward_hooks_always_called")] if always_call else []),
            first=prepend,
        )

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before ``forward``; it may return other arguments.

        Args:
            hook: the function.
            prepend: whether before the hooks that are there.
            with_kwargs: whether the hook is called with the keywords, too; then it may return both.
        """
        marks = [self._table("_forward_pre_hooks_with_kwargs")] if with_kwargs else []
        return register_in(self._forward_pre_hooks, hook, *marks, first=prepend)

    def _table(self, name: str) -> dict[int, Any]:
        """One of the tables that are made when they are needed."""
        table: dict[int, Any] = self.__dict__.setdefault(name, {})
        return table

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before ``state_dict`` takes this module's state."""
        return register_in(self._table("_state_dict_pre_hooks"), hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` once this module's state is taken; it may change
        it, and returns None. ``state_dict`` raises CuplugError if it does not."""
        return RemovableHandle(self._table("_state_dict_hooks"), (hook, True))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The same, for a hook that may return another state."""
        return RemovableHandle(self._table("_state_dict_hooks"), (hook, False))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Before this module loads its state, call ``hook(module, state_dict, prefix, local_metadata, strict,
        missing_keys, unexpected_keys, error_msgs)``, which may change what it is given."""
        return self._register_load_state_dict_pre_hook(hook, True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return RemovableHandle(self._table("_load_state_dict_pre_hooks"), LoadHook(hook, with_module))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` once this module and all within it have loaded their state. It may
        change the lists, and returns None."""
        return register_in(self._table("_load_state_dict_post_hooks"), hook)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, gradients of arguments, gradients of results)`` once the gradients of the arguments are
        computed; it may return others for the arguments.

        Both are tuples, with None for what is no tensor or has no gradient. Only positional arguments count, and
        results that are a tensor or a tuple. ``prepend``: before the hooks that are there. The backward pass raises
        CuplugError if the hook returns another number of gradients.
        """
        return register_in(self._table("_backward_hooks"), hook, first=prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, gradients of results)`` before the backward pass of this module; it may return others.

        ``prepend``: before the hooks that are there. The backward pass raises CuplugError if the hook returns another
        number of gradients.
        """
        return register_in(self._table("_backward_pre_hooks"), hook, first=prepend)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """As ``cuplug.compile`` of this module, whose calls stay as they are: nothing is compiled.

        Args:
            args: none.
            kwargs: those of ``cuplug.compile``, which raises what this raises.
        """
        eager_compiler.compile(self, *args, **kwargs)

    def extra_repr(self) -> str:
        """What the module's text shows between its parentheses: the settings that ``_told`` names."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._told)

    def __repr__(self) -> str:
        inner = [f"({name}): " + repr(each).replace("\n", "\n  ") for name, each in self._modules.items()]
        head = self.extra_repr()
        if not inner and "\n" not in head:
            return f"{type(self).__name__}({head})"
        lines = "\n  ".join([*(head.split("\n") if head else []), *inner])
        return f"{type(self).__name__}(\n  {lines}\n)"


_ABSENT = {
    "_orig_mod": "the module itself, which compile gives back as it is",
    "register_backward_hook": "register_full_backward_hook",
    "set_submodule": "setattr on get_submodule's result",
    "to_empty": "to(device)",
    "xpu": "cuda()",
}
"""What torch's modules have and these have not, and what to use instead."""
