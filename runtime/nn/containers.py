"""Modules that hold modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import index
from typing import Any

from .module import Module
from .parameter import Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class _Numbered(Module):
    """Modules by their position."""

    def _position(self, position: Any) -> str:
        number = index(position)
        if not -len(self) <= number < len(self):
            raise IndexError(f"module {number} of {len(self)}")
        return list(self._modules)[number]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._modules.values()))

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return type(self)._of(list(self._modules.items())[position])
        return self._modules[self._position(position)]

    @classmethod
    def _of(cls, named: list[tuple[str, Any]]) -> Any:
        made = cls()
        for number, (_, each) in enumerate(named):
            made.add_module(str(number), each)
        return made

    def __setitem__(self, position: Any, module: Module) -> None:
        self._modules[self._position(position)] = module

    def __delitem__(self, position: Any) -> None:
        del self._modules[self._position(position)]
        rest = list(self._modules.values())
        self._modules.clear()
        for number, each in enumerate(rest):
            self._modules[str(number)] = each

    def append(self, module: Module) -> Any:
        """Add a module at the end. Returns the container."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add modules at the end. Returns the container."""
        for each in modules:
            self.append(each)
        return self

    def insert(self, position: int, module: Module) -> Any:
        """Add a module before a position. Returns the container."""
        rest = list(self._modules.values())
        rest.insert(position, module)
        self._modules.clear()
        return self.extend(rest)


class Sequential(_Numbered):
    """Modules that run one after the other, each on the result of the one before. Given as arguments, they are
    named by their numbers; given as one mapping, by its keys.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, each in args[0].items():
                self.add_module(name, each)
        else:
            self.extend(args)

    def forward(self, input: Any) -> Any:
        """Run all modules in order and return the last one's result; ``input`` itself if there are none."""
        for each in self:
            input = each(input)
        return input


class ModuleList(_Numbered):
    """A list of modules, named by their numbers. It is not called itself; its modules' parameters belong to it."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __iadd__(self, modules: Iterable[Module]) -> Any:
        return self.extend(modules)

    def __repr__(self) -> str:
        """Modules of one text that follow each other are one line, with the first and the last number."""
        lines = []
        for text, alike in groupby(enumerate(map(repr, self)), lambda pair: pair[1]):
            numbers = [number for number, _ in alike]
            shown = text.replace("\n", "\n  ")
            if len(numbers) > 1:
                lines.append(f"\n  ({numbers[0]}-{numbers[-1]}): {len(numbers)} x {shown}")
            else:
                lines.append(f"\n  ({numbers[0]}): {shown}")
        return f"{type(self).__name__}({''.join(lines)}" + ("\n)" if lines else ")")


class ModuleDict(Module):
    """Modules by name, as a dictionary. It is not called itself; its modules' parameters belong to it."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def update(self, modules: Any) -> None:
        """Add the modules of a mapping, or of pairs of a name and a module; those of the same names are replaced."""
        for name, each in modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules:
            self.add_module(name, each)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def keys(self) -> Iterable[str]:
        """The modules' names, in the order in which they were added."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Pairs of a name and a module, in the order in which they were added."""
        return self._modules.items()

    def values(self) -> Iterable[Any]:
        """The modules, in the order in which they were added."""
        return self._modules.values()


class ParameterList(Module):
    """A list of parameters, named by their numbers. Tensors that are none are made parameters."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        for each in values or ():
            self.append(each)

    def append(self, value: Any) -> Any:
        """Add a parameter, or a tensor that is made one, at the end. Returns the list."""
        made = value if isinstance(value, Parameter) else Parameter(value)
        self.register_parameter(str(len(self)), made)
        return self

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._parameters.values()))

    def __getitem__(self, position: int) -> Any:
        return list(self._parameters.values())[position]


class ParameterDict(Module):
    """Parameters by name, as a dictionary. Tensors that are none are made parameters."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        if parameters is not None:
            self.update(parameters)

    def update(self, parameters: Any) -> None:
        """Add the parameters of a mapping, or of pairs of a name and a parameter; those of the same names are
        replaced."""
        for name, each in parameters.items() if isinstance(parameters, (Mapping, ParameterDict)) else parameters:
            self[name] = each

    def __getitem__(self, key: str) -> Any:
        return self._parameters[key]

    def __setitem__(self, key: str, parameter: Any) -> None:
        self.register_parameter(key, parameter if isinstance(parameter, Parameter) else Parameter(parameter))

    def __delitem__(self, key: str) -> None:
        del self._parameters[key]

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __contains__(self, key: str) -> bool:
        return key in self._parameters

    def get(self, key: str, default: Any = None) -> Any:
        """The parameter of that name, or ``default``."""
        return self._parameters.get(key, default)

    def pop(self, key: str) -> Any:
        """Take a parameter out.

        Raises:
            KeyError: there is none of that name.
        """
        return self._parameters.pop(key)

    def keys(self) -> Iterable[str]:
        """The parameters' names, in the order in which they were added."""
        return self._parameters.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Pairs of a name and a parameter, in the order in which they were added."""
        return self._parameters.items()

    def values(self) -> Iterable[Any]:
        """The parameters, in the order in which they were added."""
        return self._parameters.values()
