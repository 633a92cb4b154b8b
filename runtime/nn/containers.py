"""Modules that hold modules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import index
from typing import Any

from ..tensor.core.tensor_errors import ArgumentError
from ..tensor.ops.arguments.facts import typename
from .module import Module
from .parameter import Parameter


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
            return self._of(dict(list(self._modules.items())[position]))
        return self._modules[self._position(position)]

    def _of(self, named: dict[str, Any]) -> Any:
        """Another container of this kind, of some of these modules."""
        return type(self)(list(named.values()))

    def __setitem__(self, position: Any, module: Module) -> None:
        self.add_module(self._position(position), module)

    def __delitem__(self, position: Any) -> None:
        names = list(self._modules)[position] if isinstance(position, slice) else [self._position(position)]
        for name in names:
            del self._modules[name]
        rest = list(self._modules.values())
        self._modules.clear()
        for number, each in enumerate(rest):
            self._modules[str(number)] = each

    def __iadd__(self, other: Any) -> Any:
        return self.extend(other)

    def pop(self, position: Any) -> Any:
        """Take the module at a position, or those of a slice, out; those behind it move up.

        Raises:
            IndexError: there is no such position.
        """
        found = self[position]
        del self[position]
        return found

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

    def _of(self, named: dict[str, Any]) -> Any:
        return type(self)(named)  # under their own names, by which their states are saved

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, Iterable):
            return NotImplemented
        return Sequential().extend([*self, *other])  # a subclass may be made of other arguments

    def __mul__(self, times: int) -> Any:
        if index(times) <= 0:
            raise ArgumentError(f"Non-positive multiplication factor {times} for {type(self)}")
        return Sequential().extend([*self] * index(times))

    __rmul__ = __mul__

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

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, Iterable):
            return NotImplemented
        return ModuleList([*self, *other])

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

    def pop(self, key: str) -> Any:
        """Take a module out.

        Raises:
            KeyError: there is none of that name.
        """
        return self._modules.pop(key)

    def clear(self) -> None:
        """Take all modules out."""
        self._modules.clear()

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

    def extend(self, values: Iterable[Any]) -> Any:
        """Add several at the end. Returns the list."""
        for each in values:
            self.append(each)
        return self

    def __iadd__(self, values: Iterable[Any]) -> Any:
        return self.extend(values)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._parameters.values()))

    def __getitem__(self, position: Any) -> Any:
        found = list(self._parameters.values())[position]
        return type(self)(found) if isinstance(position, slice) else found

    def __setitem__(self, position: int, value: Any) -> None:
        name = str(range(len(self))[position])
        self.register_parameter(name, value if isinstance(value, Parameter) else Parameter(value))

    def extra_repr(self) -> str:
        """Type, size and device of each parameter."""
        return _lines((str(number), each, str(each.dtype)) for number, each in enumerate(self))


class ParameterDict(Module):
    """Parameters by name, as a dictionary. Tensors that are none are made parameters."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        if parameters is not None:
            self.update(parameters)

    def update(self, parameters: Any) -> None:
        """Add the parameters of a mapping, or of pairs of a name and a parameter; those of the same names are
        replaced. Those of a plain dictionary come in the order of their names, as torch's: it numbers them for
        optimisers' states."""
        pairs = parameters.items() if isinstance(parameters, (Mapping, ParameterDict)) else parameters
        ordered = isinstance(parameters, (OrderedDict, ParameterDict)) or not isinstance(parameters, Mapping)
        for name, each in pairs if ordered else sorted(pairs, key=lambda pair: pair[0]):
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

    def extra_repr(self) -> str:
        """Type, size and device of each parameter."""
        return _lines((name, each, typename(each)) for name, each in self.items())

    def get(self, key: str, default: Any = None) -> Any:
        """The parameter of that name, or ``default``."""
        return self._parameters.get(key, default)

    def pop(self, key: str) -> Any:
        """Take a parameter out.

        Raises:
            KeyError: there is none of that name.
        """
        return self._parameters.pop(key)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The parameter of that name; if there is none, ``default``, which is then added."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Take all parameters out."""
        self._parameters.clear()

    def keys(self) -> Iterable[str]:
        """The parameters' names, in the order in which they were added."""
        return self._parameters.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Pairs of a name and a parameter, in the order in which they were added."""
        return self._parameters.items()

    def values(self) -> Iterable[Any]:
        """The parameters, in the order in which they were added."""
        return self._parameters.values()


def _lines(rows: Iterable[tuple[str, Any, str]]) -> str:
    """Named parameters as torch prints them, each with what its type is called."""
    lines = []
    for name, each, kind in rows:
        size = "x".join(map(str, each.shape))
        place = f" ({each.device})" if each.is_cuda else ""
        lines.append(f"  ({name}): Parameter containing: [{kind} of size {size}{place}]")
    return "\n".join(lines)
