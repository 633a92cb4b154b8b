"""Finds plugins, checks them, and makes what a selection string asks for."""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pluggy

from ..allocators.base import Allocator
from ..allocators.errors import CuplugError, OutOfMemoryError, PluginError, UnknownAllocatorError
from ..allocators.events import Observer
from ..allocators.upstream import Upstream
from ..runtime.drivers.base import Driver
from .bundled import Bundled
from .selection import Option, Selection, build, convert_options, needed_options, options_of, parse_selection
from .specs import PROJECT, AllocatorFactory, DriverFactory, Specifications

__all__ = ["Description", "PluginManager", "default_manager"]

_KINDS = {"allocator": "cuplug_allocators", "driver": "cuplug_drivers"}
"""What plugins contribute by name, and the hook that they do it with."""


@dataclass(frozen=True, slots=True)
class Description:
    """An allocator or a driver, for people."""

    name: str
    plugin: str
    summary: str
    """The first line of its documentation."""
    options: tuple[Option, ...]
    problem: str = ""
    """Why it cannot be looked into, where it cannot."""
    form: str = ""
    """In which form it runs, where there are several: native, or in Python and why."""
    needs_one_of: tuple[str, ...] = ()
    """Options without one of which it is not complete, though each of them may be left out."""
    only_replays: bool = False
    """Whether it stands for another library's allocator in replays (``Allocator.only_replays``)."""

    @property
    def stands_alone(self) -> bool:
        """Whether a program can allocate from it by its name alone."""
        return not self.only_replays and not self.needs_one_of and not any(option.required for option in self.options)


class PluginManager:
    """The registered plugins and what they contribute.

    Each plugin's hooks are called apart from the others', so that every error can name the plugin at fault. What a
    plugin contributes is asked for once, when it is registered.
    """

    def __init__(self) -> None:
        self._pluggy = pluggy.PluginManager(PROJECT)
        self._pluggy.add_hookspecs(Specifications)
        self._hooks = {name for name in vars(Specifications) if name.startswith(PROJECT)}
        self._contributed: dict[str, dict[str, tuple[str, Callable[..., Any]]]] = {kind: {} for kind in _KINDS}
        self._broken: dict[str, str] = {}
        self._asking = threading.local()
        """``memory``: whether the thread is in the middle of ``out_of_memory``."""

    # --- registration -----------------------------------------------------------------------------------------------

    def register(self, plugin: object, name: str | None = None) -> str:
        """Add a plugin: an object or a module with functions marked ``@hookimpl``. A failure changes nothing.

        Returns:
            The plugin's name.

        Raises:
            PluginError: the name is taken, a hook is misspelled or has arguments that it does not get, or what the
                plugin contributes is invalid or has the name of another plugin's.
        """
        name = name or self._pluggy.get_canonical_name(plugin)
        if self._pluggy.has_plugin(name):
            raise PluginError(f"plugin {name!r}: a plugin of this name is registered already")
        if self._pluggy.is_registered(plugin):
            raise PluginError(f"plugin {name!r} is registered already, as {self._pluggy.get_name(plugin)!r}")
        if inspect.isclass(plugin):
            raise PluginError(f"plugin {name!r} is a class; register an instance of it, {plugin.__name__}()")
        try:
            self._pluggy.register(plugin, name)
            self._check(plugin, name)
            contributed = {kind: self._contributions(kind, plugin, name) for kind in _KINDS}
        except Exception as error:
            self._roll_back(plugin, name)
            if isinstance(error, PluginError):
                raise
            raise PluginError(f"plugin {name!r} cannot be registered: {type(error).__name__}: {error}") from error
        except BaseException:
            self._roll_back(plugin, name)
            raise
        for kind, factories in contributed.items():
            self._contributed[kind].update({key: (name, factory) for key, factory in factories.items()})
        return name

    def unregister(self, name: str) -> None:
        """Remove a plugin and what it contributed.

        Raises:
            PluginError: no plugin has this name.
        """
        plugin = self._pluggy.get_plugin(name)
        if plugin is None:
            raise PluginError(f"there is no plugin {name!r}; registered are {_listed(self.plugins())}")
        self._pluggy.unregister(plugin)
        for kind, factories in self._contributed.items():
            self._contributed[kind] = {key: made for key, made in factories.items() if made[0] != name}

    def load_entry_points(self) -> None:
        """Register the plugins of installed packages: entry points of the group ``cuplug``.

        One that is broken is left out with a warning, and named again in the error when a selection is not found:
        a package that somebody else installed must not keep the others from working.
        """
        for point in sorted(entry_points(group=PROJECT), key=_plugin_name):
            name = _plugin_name(point)
            try:
                self._register_entry_point(point, name)
            except PluginError as error:
                self._broken[name] = str(error)
                warnings.warn(f"a cuplug plugin is left out: {error}", RuntimeWarning, stacklevel=2)

    def plugins(self) -> list[str]:
        """The names of the registered plugins, in order of registration."""
        return [name for name, plugin in self._pluggy.list_name_plugin() if plugin is not None]

    def broken(self) -> dict[str, str]:
        """The installed plugins that could not be registered, and why."""
        return dict(self._broken)

    def _register_entry_point(self, point: EntryPoint, name: str) -> None:
        try:
            plugin = point.load()
        except Exception as error:
            raise PluginError(
                f"plugin {name!r}: the entry point {point.name!r} = {point.value!r} of the distribution "
                f"{_distribution(point)!r} cannot be loaded: {type(error).__name__}: {error}; "
                "repair or uninstall that distribution"
            ) from error
        self.register(plugin, name)

    def _check(self, plugin: object, name: str) -> None:
        """Refuse what pluggy lets pass and nobody means."""
        implementations = [
            (caller.name, implementation)
            for caller in self._pluggy.get_hookcallers(plugin) or ()
            for implementation in caller.get_hookimpls()
            if implementation.plugin is plugin
        ]
        implemented = {hook for hook, _ in implementations}
        for hook, implementation in implementations:
            self._check_implementation(hook, implementation, name)
        self._pluggy.check_pending()
        unmarked = [hook for hook in sorted(self._hooks - implemented) if callable(getattr(plugin, hook, None))]
        if unmarked:
            raise PluginError(f"plugin {name!r}: {unmarked[0]} is not marked @hookimpl, so it would never be called")
        if not implemented & self._hooks:
            raise PluginError(f"plugin {name!r} implements no hook of cuplug; the hooks are {_listed(self._hooks)}")

    def _check_implementation(self, hook: str, implementation: pluggy.HookImpl, name: str) -> None:
        if hook not in self._hooks and not implementation.optionalhook:
            close = get_close_matches(hook, self._hooks, 1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise PluginError(
                f"plugin {name!r} implements {hook!r}, which is no hook of cuplug; the hooks are "
                f"{_listed(self._hooks)}.{hint}"
            )
        if implementation.wrapper or implementation.hookwrapper:
            raise PluginError(f"plugin {name!r}: {hook} is a wrapper; cuplug calls each plugin's hooks by themselves")
        for parameter in inspect.signature(implementation.function).parameters.values():
            if parameter.default is not parameter.empty or parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
                raise PluginError(
                    f"plugin {name!r}: the argument {str(parameter)!r} of {hook} would never be passed; "
                    "write plain names without defaults"
                )

    def _roll_back(self, plugin: object, name: str) -> None:
        if self._pluggy.get_plugin(name) is plugin:
            self._pluggy.unregister(plugin)
        for hook in set(vars(self._pluggy.hook)) - self._hooks:
            if not getattr(self._pluggy.hook, hook).get_hookimpls():
                delattr(self._pluggy.hook, hook)  # what a misspelled implementation has left

    # --- what plugins contribute ------------------------------------------------------------------------------------

    def allocators(self) -> dict[str, AllocatorFactory]:
        """The known allocators: a factory for each name."""
        return {name: factory for name, (_, factory) in self._contributed["allocator"].items()}

    def drivers(self) -> dict[str, DriverFactory]:
        """The known drivers: a factory for each name."""
        return {name: factory for name, (_, factory) in self._contributed["driver"].items()}

    def allocator_factory(self, selection: str) -> AllocatorFactory:
        """What makes the allocators that ``selection`` names; its options are not looked at.

        Raises:
            UnknownAllocatorError: no plugin contributes it.
            PluginError: the selection has no such form.
        """
        return self._find("allocator", selection)[2]

    def make_allocator(self, selection: str, upstream: Upstream) -> Allocator:
        """The allocator that ``selection`` asks for, over ``upstream``.

        Raises:
            UnknownAllocatorError: no plugin contributes it. The message lists the known names.
            PluginError: the selection has no such form, an option is unknown or wrong, or the plugin failed.
        """
        made = self._make("allocator", selection, upstream)
        if isinstance(made, Allocator) and hasattr(made, "upstream"):
            return made
        wrong = "which does not derive from cuplug.allocators.base.Allocator"
        if isinstance(made, Allocator):
            wrong = "whose __init__ does not call super().__init__(upstream)"
        _, plugin, _ = self._find("allocator", selection)
        raise PluginError(f"plugin {plugin!r}: the allocator {selection!r} is a {type(made).__name__}, {wrong}")

    def make_driver(self, selection: str) -> Driver:
        """The driver that ``selection`` asks for.

        Raises:
            PluginError: no plugin contributes it (the message lists the known names), the selection has no such form,
                an option is unknown or wrong, or the plugin failed.
        """
        driver: Driver = self._make("driver", selection)
        return driver

    def check_allocator(self, selection: str) -> None:
        """Check that ``selection`` names a known allocator and its options, without making one.

        Raises:
            UnknownAllocatorError, PluginError: as ``make_allocator``.
        """
        self._check_selection("allocator", selection)

    def check_driver(self, selection: str) -> None:
        """Check that ``selection`` names a known driver and its options, without making one.

        Raises:
            PluginError: as ``make_driver``.
        """
        self._check_selection("driver", selection)

    def describe_allocators(self) -> list[Description]:
        """Every allocator with its plugin, summary and options, in order of registration."""
        return [self._describe(name, *made) for name, made in self._contributed["allocator"].items()]

    def describe_drivers(self) -> list[Description]:
        """Every driver with its plugin, summary and options, in order of registration."""
        return [self._describe(name, *made) for name, made in self._contributed["driver"].items()]

    def observers(self, runtime: Any) -> list[Callable[[int], Observer]]:
        """What makes the observers of ``runtime``'s devices: each entry takes a device's ordinal.

        Raises:
            PluginError: a plugin failed, or answered something else.
        """
        makers: list[Callable[[int], Observer]] = []
        for name, answer in self._call("cuplug_observers", runtime=runtime):
            if answer is None:
                continue
            if not isinstance(answer, Sequence) or not all(map(callable, answer)):
                raise PluginError(
                    f"plugin {name!r}: cuplug_observers answered {answer!r}, not a sequence of callables that take a "
                    "device's ordinal"
                )
            makers.extend(_blaming(name, maker) for maker in answer)
        return makers

    def out_of_memory(self, device: int, nbytes: int, stream: int) -> bool:
        """Ask every plugin to free something; whether any says that ``nbytes`` bytes should be tried again.

        A hook must not need memory that is not there: its own allocation would ask all hooks again, and so on.

        Raises:
            PluginError: a plugin failed, or answered neither a bool nor None.
            OutOfMemoryError: it is a hook that this thread is asking already which allocates.
        """
        if getattr(self._asking, "memory", False):
            raise OutOfMemoryError(
                f"a cuplug_out_of_memory hook has itself asked for {nbytes} bytes of device {device}, and they are not "
                "there; a hook frees memory, or answers that it cannot"
            )
        self._asking.memory = True
        try:
            return self._out_of_memory(device, nbytes, stream)
        finally:
            self._asking.memory = False

    def _out_of_memory(self, device: int, nbytes: int, stream: int) -> bool:
        retry = False
        for name, answer in self._call("cuplug_out_of_memory", device=device, nbytes=nbytes, stream=stream):
            if answer is not None and not isinstance(answer, bool):
                raise PluginError(
                    f"plugin {name!r}: cuplug_out_of_memory answered {answer!r}; it must be a bool or None"
                )
            retry = retry or bool(answer)
        return retry

    def _contributions(self, kind: str, plugin: object, name: str) -> dict[str, Callable[..., Any]]:
        hook = _KINDS[kind]
        contributed: dict[str, Callable[..., Any]] = {}
        for _, answer in self._call(hook, only=plugin):
            if answer is None:
                continue
            if not isinstance(answer, Mapping):
                raise PluginError(f"plugin {name!r}: {hook} answered {answer!r}, not a mapping of names to factories")
            for key, factory in answer.items():
                self._check_contribution(kind, key, factory, name)
                contributed[key] = factory
        return contributed

    def _check_contribution(self, kind: str, key: object, factory: object, name: str) -> None:
        hook = _KINDS[kind]
        if not isinstance(key, str) or not key.strip() or key != key.strip() or set(key) & set(":=,"):
            raise PluginError(
                f"plugin {name!r}: {hook} gives the name {key!r}; a name is text without ':', '=' and ','"
            )
        if not callable(factory):
            raise PluginError(f"plugin {name!r}: {hook} gives {factory!r} for {key!r}, which cannot be called")
        other = self._contributed[kind].get(key)
        if other is not None:
            raise PluginError(
                f"plugins {other[0]!r} and {name!r} both contribute the {kind} {key!r}; rename it or uninstall one"
            )

    def _make(self, kind: str, selection: str, *positional: Any) -> Any:
        wanted, plugin, factory = self._find(kind, selection)
        return build(kind, wanted.name, factory, wanted.options, *positional, plugin=plugin)

    def _find(self, kind: str, selection: str) -> tuple[Selection, str, Callable[..., Any]]:
        wanted = parse_selection(selection)
        found = self._contributed[kind].get(wanted.name)
        if found is None:
            raise self._unknown(kind, wanted.name)
        return wanted, *found

    def _check_selection(self, kind: str, selection: str) -> None:
        wanted, plugin, factory = self._find(kind, selection)
        convert_options(kind, wanted.name, factory, wanted.options, plugin=plugin)

    def _unknown(self, kind: str, name: str) -> PluginError:
        known = self._contributed[kind]
        close = get_close_matches(name, known, 1)
        message = f"no installed plugin contributes the {kind} {name!r}; known are {_listed(known)}."
        message += f" Did you mean {close[0]!r}?" if close else ""
        for problem in self._broken.values():
            message += f" Left out: {problem}."
        return UnknownAllocatorError(message) if kind == "allocator" else PluginError(message)

    def _describe(self, name: str, plugin: str, factory: Callable[..., Any]) -> Description:
        try:
            summary = (inspect.getdoc(factory) or "").partition("\n")[0]
            options = options_of(factory)
            needed = needed_options(factory, options)
            strategy = inspect.unwrap(factory)
            form, only_replays = getattr(factory, "form", ""), getattr(strategy, "only_replays", False)
            return Description(name, plugin, summary, tuple(options.values()), "", form, needed, only_replays)
        except (PluginError, ImportError) as error:
            return Description(name, plugin, "", (), str(error))

    # --- calling ----------------------------------------------------------------------------------------------------

    def _call(self, hook: str, *, only: object = None, **arguments: Any) -> Iterator[tuple[str, Any]]:
        """Each plugin's name and answer, in the order in which pluggy calls them."""
        for implementation in getattr(self._pluggy.hook, hook).get_hookimpls()[::-1]:
            if only is not None and implementation.plugin is not only:
                continue
            try:
                answer = implementation.function(*(arguments[name] for name in implementation.argnames))
            except CuplugError as error:
                raise PluginError(f"plugin {implementation.plugin_name!r}: {hook} failed: {error}") from error
            except Exception as error:
                raise PluginError(
                    f"plugin {implementation.plugin_name!r}: {hook} failed: {type(error).__name__}: {error}"
                ) from error
            yield implementation.plugin_name, answer


_default: PluginManager | None = None
_default_lock = threading.Lock()


def default_manager() -> PluginManager:
    """The process's manager: the bundled plugin and those of installed packages, loaded at the first call."""
    global _default
    with _default_lock:
        if _default is None:
            manager = PluginManager()
            manager.register(Bundled(), PROJECT)
            manager.load_entry_points()
            _default = manager
        return _default


def _blaming(plugin: str, maker: Callable[[int], Any]) -> Callable[[int], Observer]:
    """``maker``, with errors that name its plugin."""

    def make(ordinal: int) -> Observer:
        try:
            observer = maker(ordinal)
        except Exception as error:
            raise PluginError(
                f"plugin {plugin!r} could not make the observer of device {ordinal}: {type(error).__name__}: {error}"
            ) from error
        if not callable(observer):
            raise PluginError(f"plugin {plugin!r}: the observer of device {ordinal}, {observer!r}, cannot be called")
        made: Observer = observer
        return made

    return make


def _plugin_name(point: EntryPoint) -> str:
    return f"{_distribution(point)}:{point.name}"


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "unknown"


def _listed(names: Any) -> str:
    return ", ".join(sorted(names)) or "none"
