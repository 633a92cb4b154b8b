"""Selection strings, ``name:option=value,option=value``, and how a factory's parameters become options."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from ..allocators.errors import CuplugError, PluginError
from ..allocators.sizes import parse_size

__all__ = ["Option", "Selection", "build", "convert_options", "needed_options", "options_of", "parse_selection"]

_HELP = "help"
REQUIRED = inspect.Parameter.empty
"""The default of an option that has none."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What somebody chose: a name, and options as text."""

    name: str
    options: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        options = ",".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.name}:{options}" if options else self.name


def parse_selection(text: str) -> Selection:
    """Read ``name`` or ``name:option=value,option=value``. Blanks around the parts do not count.

    A value may hold anything but a comma (``schedule=random:7``). ``name:help`` asks what the options are: whoever
    makes the thing then raises that list.

    Raises:
        PluginError: the text has no such form, or gives an option twice.
    """
    if not isinstance(text, str):
        raise PluginError(f"a selection is a string such as 'caching' or 'name:option=value', not {text!r}")
    name, colon, rest = text.partition(":")
    name = name.strip()
    if not name or "=" in name or "," in name:
        raise PluginError(f"{text!r} does not start with a name; write name or name:option=value,option=value")
    options: dict[str, str] = {}
    for part in rest.split(",") if colon else ():
        option, equals, value = part.partition("=")
        option = option.strip()
        if part.strip() == _HELP:
            options[_HELP] = ""
            continue
        if not equals or not option.isidentifier():
            raise PluginError(f"{text!r}: {part!r} is not option=value; write name:option=value,option=value")
        if option in options:
            raise PluginError(f"{text!r} gives the option {option!r} twice")
        options[option] = value.strip()
    return Selection(name, options)


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a factory, as a selection string gives it."""

    name: str
    annotation: Any
    """The type, or what stands in its place where a plugin's annotation cannot be read."""
    default: Any
    """The value without it; ``inspect.Parameter.empty`` where it must be given."""
    description: str = ""

    @property
    def required(self) -> bool:
        """Whether a selection must give it."""
        return self.default is REQUIRED

    @property
    def type_name(self) -> str:
        """The type for people: ``int``, ``int | None``, ``eager | lazy``."""
        return _type_name(self.annotation)

    def convert(self, text: str) -> Any:
        """The value that ``text`` means. Ints accept sizes such as ``2MiB``.

        Raises:
            ValueError: it is no value of the option's type, or the type is none that text can give.
        """
        return _convert(text, self.annotation)


def options_of(factory: Callable[..., Any]) -> dict[str, Option]:
    """The options of ``factory``: its keyword-only parameters, in order.

    Raises:
        PluginError: it has no readable signature.
    """
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError, ImportError) as error:
        raise PluginError(f"the options of {factory!r} cannot be read: {error}") from error
    names = _namespace(factory)
    return {
        parameter.name: Option(parameter.name, *_annotation(parameter, names))
        for parameter in parameters
        if parameter.kind is parameter.KEYWORD_ONLY
    }


def needed_options(factory: Callable[..., Any], known: Container[str]) -> tuple[str, ...]:
    """Of the options that the factory's ``needs_one_of`` names, those that are ``known``: one of them must be given.

    A subclass may give them itself, and offer none.
    """
    return tuple(option for option in getattr(inspect.unwrap(factory), "needs_one_of", ()) if option in known)


def build(
    kind: str, name: str, factory: Callable[..., Any], options: Mapping[str, str], *positional: Any, plugin: str = ""
) -> Any:
    """Call ``factory(*positional, **options)`` with the options converted from text.

    Args:
        kind: what the factory makes, for messages: ``allocator``, ``driver``.
        name: the name under which it was selected, for messages.
        factory: see ``AllocatorFactory`` and ``DriverFactory``.
        options: from ``parse_selection``.
        positional: passed on unchanged.
        plugin: who contributed the factory, for messages.

    Raises:
        PluginError: an unknown, missing or wrong option; or the factory failed.
        CuplugError: the factory raised it (out of memory, no such device).
    """
    values = convert_options(kind, name, factory, options, plugin=plugin)
    try:
        return factory(*positional, **values)
    except CuplugError:
        raise
    except Exception as error:
        given = ", ".join(f"{option}={text}" for option, text in options.items()) or "no options"
        who = _who(kind, name, plugin)
        raise PluginError(f"{who}, with {given}, cannot be made: {type(error).__name__}: {error}") from error


def convert_options(
    kind: str, name: str, factory: Callable[..., Any], options: Mapping[str, str], *, plugin: str = ""
) -> dict[str, Any]:
    """The values that ``options`` mean to ``factory``; see ``build``. One of the
    ``needed_options`` must be given.

    Raises:
        PluginError: an unknown, missing or wrong option.
    """
    who = _who(kind, name, plugin)
    known = options_of(factory)
    unknown = [option for option in options if option not in known]
    if unknown:
        raise PluginError(_unknown_option(who, unknown[0], known))
    missing = [option.name for option in known.values() if option.required and option.name not in options]
    if missing:
        raise PluginError(f"{who} needs the option {missing[0]!r}; {_listed(known)}")
    values = {option: _value(who, known, option, text) for option, text in options.items()}
    needed = needed_options(factory, known)
    if needed and all(values.get(option) is None for option in needed):
        choice = " or ".join(f"{option}=... ({known[option].description})" for option in needed)
        raise PluginError(f"{who} needs {choice}")
    return values


def _who(kind: str, name: str, plugin: str) -> str:
    return f"{kind} {name!r}" + (f" of plugin {plugin!r}" if plugin else "")


def _value(who: str, known: Mapping[str, Option], option: str, text: str) -> Any:
    try:
        return known[option].convert(text)
    except ValueError as error:
        raise PluginError(f"{who}: option {option}={text}: {error}; {_listed(known)}") from None


def _unknown_option(who: str, unknown: str, known: Mapping[str, Option]) -> str:
    if unknown == _HELP:
        width = max(map(len, known), default=0)
        lines = [f"  {it.name:{width}}  {it.type_name}: {it.description}".rstrip(": ") for it in known.values()]
        return "\n".join([f"{who}: {'its options are' if known else _listed(known)}", *lines])
    close = get_close_matches(unknown, known, 1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{who} has no option {unknown!r}; {_listed(known)}.{hint}"


def _listed(known: Mapping[str, Option]) -> str:
    if not known:
        return "it has no options"
    return "its options are " + ", ".join(f"{option.name} ({option.type_name})" for option in known.values())


# --- types ---------------------------------------------------------------------------------------------------


def _convert(text: str, annotation: Any) -> Any:
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return _convert_union(text, get_args(annotation))
    if origin is Literal:
        for value in get_args(annotation):
            if text == str(value):
                return value
        raise ValueError(f"it must be one of {', '.join(map(str, get_args(annotation)))}")
    if annotation is str:
        return text
    if annotation is bool:
        return _convert_bool(text)
    if annotation is int:
        return _convert_int(text)
    if annotation is float:
        return float(text)
    if annotation is type(None):
        if text.lower() in ("none", ""):
            return None
        raise ValueError(f"{text!r} is not none")
    raise ValueError(f"text cannot give its type, {_type_name(annotation)}; set it in a program")


def _convert_union(text: str, members: tuple[Any, ...]) -> Any:
    # None first, for "none" is a str as well; str last, for it takes anything.
    first, *rest = sorted(members, key=lambda member: (member is not type(None), member is str))
    if not rest:
        return _convert(text, first)
    try:
        return _convert(text, first)
    except ValueError:
        return _convert_union(text, tuple(rest))


def _convert_bool(text: str) -> bool:
    lowered = text.lower()
    if lowered in ("true", "yes", "on", "1"):
        return True
    if lowered in ("false", "no", "off", "0"):
        return False
    raise ValueError(f"{text!r} is neither true nor false")


def _convert_int(text: str) -> int:
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    try:
        return sign * parse_size(digits)
    except ValueError:
        raise ValueError(f"{text!r} is no whole number; write 64, say, or for a size 64KiB, 2MiB or 1.5GiB") from None


def _type_name(annotation: Any) -> str:
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return " | ".join(map(_type_name, get_args(annotation)))
    if origin is Literal:
        return " | ".join(map(str, get_args(annotation)))
    if annotation is type(None):
        return "None"
    if annotation is REQUIRED:
        return "no type"
    if isinstance(annotation, type) and origin is None:
        return annotation.__name__
    return str(annotation)


def _annotation(parameter: inspect.Parameter, names: dict[str, Any]) -> tuple[Any, Any, str]:
    """A parameter's type, default and description. Only its own annotation is evaluated: the others may name what
    the plugin imports for type checkers alone."""
    annotation, description = parameter.annotation, ""
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, names)
        except Exception:  # any expression may stand there
            annotation = parameter.annotation
    if get_origin(annotation) is Annotated:
        annotation, *notes = get_args(annotation)
        description = next((note for note in notes if isinstance(note, str)), "")
    return annotation, parameter.default, description


def _namespace(factory: Any) -> dict[str, Any]:
    """The names that the factory's annotations may use."""
    factory = inspect.unwrap(factory)
    while isinstance(factory, partial):
        factory = inspect.unwrap(factory.func)
    if inspect.isclass(factory):
        factory = factory.__init__
    elif not inspect.isroutine(factory):
        factory = type(factory).__call__
    factory = getattr(factory, "__func__", factory)
    return dict(getattr(inspect.unwrap(factory), "__globals__", {}))
