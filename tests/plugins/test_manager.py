"""The plugin manager: registration, roll-back, entry points, and errors that name the plugin at fault."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest
from cuplug.allocators.base import Allocator
from cuplug.allocators.errors import PluginError, UnknownAllocatorError
from cuplug.allocators.upstreams import LimitedUpstream
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.plugins import manager as manager_module
from cuplug.plugins.bundled import Bundled
from cuplug.plugins.manager import PluginManager, default_manager
from cuplug.plugins.specs import hookimpl


class Plain(Allocator):
    """Hands nothing out."""

    _allocate = _free = _release_cached = _segments = None  # type: ignore[assignment]


def contributing(**hooks):
    """A plugin with these hooks, each answering what is given, or calling it if it is a function."""

    class Plugin:
        pass

    for name, answer in hooks.items():
        setattr(Plugin, name, hookimpl(answer if callable(answer) else answering(answer)))
    return Plugin()


def answering(answer):
    return lambda self: answer


class Good:
    def __init__(self, **allocators):
        self.answer = allocators or {"plain": Plain}

    @hookimpl
    def cuplug_allocators(self):
        return self.answer


def assert_refused_without_a_trace(plugin, match, *, manager=None):
    """Registering raises, and afterwards the manager is as before: the same plugin, repaired, would register."""
    manager = manager or PluginManager()
    before = manager.plugins(), manager.allocators(), manager.drivers()
    with pytest.raises(PluginError, match=match) as caught:
        manager.register(plugin, "theirs")
    assert "theirs" in str(caught.value)
    assert (manager.plugins(), manager.allocators(), manager.drivers()) == before
    manager.register(Good(another=Plain), "theirs")
    assert manager.out_of_memory(0, 1, 0) is False


def test_a_selected_allocator_is_made_over_the_upstream():
    manager = PluginManager()
    manager.register(Good(), "good")
    upstream = object()
    allocator = manager.make_allocator("plain:memory_limit=1KiB", upstream)
    assert (type(allocator), allocator.upstream, allocator.memory_limit) == (Plain, upstream, 1024)


def test_an_unknown_allocator_is_an_error_that_lists_the_known_ones():
    manager = PluginManager()
    manager.register(Bundled(), "cuplug")
    with pytest.raises(
        UnknownAllocatorError, match=r"'cachin'; known are bump, caching, direct.*Did you mean 'caching'"
    ):
        manager.make_allocator("cachin", None)
    with pytest.raises(PluginError, match=r"the driver 'opencl'; known are cuda, sim\.$"):
        manager.make_driver("opencl")


def test_a_misspelled_hook_is_refused_with_the_known_ones():
    class Plugin:
        @hookimpl
        def cuplug_alocators(self):
            return {}

    assert_refused_without_a_trace(Plugin(), r"'cuplug_alocators', which is no hook.*Did you mean 'cuplug_allocators'")


def test_a_hook_for_a_later_version_may_be_marked_optional():
    class Plugin(Good):
        @hookimpl(optionalhook=True)
        def cuplug_of_next_year(self):
            raise AssertionError

    manager = PluginManager()
    manager.register(Plugin(), "theirs")
    manager.register(Good(other=Plain), "ours")
    assert set(manager.allocators()) == {"plain", "other"}


def test_an_argument_with_a_default_is_refused():
    class Plugin:
        @hookimpl
        def cuplug_out_of_memory(self, device, nbytes=0):
            return True

    assert_refused_without_a_trace(Plugin(), r"the argument 'nbytes=0' of cuplug_out_of_memory would never be passed")


def test_keyword_only_and_star_arguments_are_refused():
    class Keyword:
        @hookimpl
        def cuplug_out_of_memory(self, *, device):
            return True

    class Star:
        @hookimpl
        def cuplug_out_of_memory(self, *everything):
            return True

    assert_refused_without_a_trace(Keyword(), "'device' of cuplug_out_of_memory would never be passed")
    assert_refused_without_a_trace(Star(), r"'\*everything' of cuplug_out_of_memory would never be passed")


def test_an_argument_that_the_hook_does_not_have_is_refused():
    class Plugin:
        @hookimpl
        def cuplug_out_of_memory(self, gadget):
            return True

    assert_refused_without_a_trace(Plugin(), "gadget")


def test_a_wrapper_is_refused():
    class Plugin:
        @hookimpl(wrapper=True)
        def cuplug_allocators(self):
            return (yield)

    assert_refused_without_a_trace(Plugin(), "cuplug_allocators is a wrapper")


def test_an_unmarked_hook_is_refused():
    class Plugin:
        def cuplug_allocators(self):
            return {}

    assert_refused_without_a_trace(Plugin(), "cuplug_allocators is not marked @hookimpl")


def test_a_plugin_without_hooks_is_refused():
    assert_refused_without_a_trace(object(), "implements no hook of cuplug; the hooks are cuplug_allocators")


def test_a_class_in_place_of_an_instance_is_refused():
    assert_refused_without_a_trace(Good, r"is a class; register an instance of it, Good\(\)")


def test_a_hook_that_raises_at_registration_is_rolled_back():
    def cuplug_allocators(self):
        raise KeyError("missing")

    assert_refused_without_a_trace(
        contributing(cuplug_allocators=cuplug_allocators), "cuplug_allocators failed: KeyError: 'missing'"
    )


def test_an_interrupt_at_registration_is_rolled_back_and_passed_on():
    def cuplug_allocators(self):
        raise KeyboardInterrupt

    manager = PluginManager()
    with pytest.raises(KeyboardInterrupt):
        manager.register(contributing(cuplug_allocators=cuplug_allocators), "theirs")
    assert manager.plugins() == []


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (["plain"], "not a mapping of names to factories"),
        ({"plain": 7}, "gives 7 for 'plain', which cannot be called"),
        ({7: Plain}, "gives the name 7"),
        ({"a:b": Plain}, "gives the name 'a:b'"),
        ({"": Plain}, "gives the name ''"),
    ],
)
def test_an_invalid_contribution_is_refused(answer, says):
    assert_refused_without_a_trace(contributing(cuplug_allocators=answer), f"cuplug_allocators .*{says}")


def test_two_plugins_with_one_name_are_an_error_that_names_both():
    manager = PluginManager()
    manager.register(Good(), "ours")
    assert_refused_without_a_trace(
        Good(plain=Plain), "plugins 'ours' and 'theirs' both contribute the allocator 'plain'", manager=manager
    )


def test_a_taken_plugin_name_leaves_the_first_plugin_alone():
    manager = PluginManager()
    good = Good()
    manager.register(good, "ours")
    with pytest.raises(PluginError, match="'ours': a plugin of this name is registered"):
        manager.register(Good(), "ours")
    with pytest.raises(PluginError, match="'again' is registered already, as 'ours'"):
        manager.register(good, "again")
    assert manager.plugins() == ["ours"]
    assert set(manager.allocators()) == {"plain"}


def test_an_unregistered_plugin_takes_its_contributions_along():
    manager = PluginManager()
    manager.register(Good(), "ours")
    manager.unregister("ours")
    assert (manager.plugins(), manager.allocators()) == ([], {})
    with pytest.raises(PluginError, match="there is no plugin 'ours'; registered are none"):
        manager.unregister("ours")


def test_a_factory_that_makes_no_allocator_is_named():
    manager = PluginManager()
    manager.register(Good(odd=lambda upstream: 7), "theirs")
    with pytest.raises(PluginError, match=r"'theirs': the allocator 'odd' is a int, which does not derive"):
        manager.make_allocator("odd", None)


def test_an_allocator_that_does_not_begin_as_the_base_class_does_is_named():
    class Hasty(Plain):
        def __init__(self, upstream):
            self.pieces = {}

    manager = PluginManager()
    manager.register(Good(hasty=Hasty), "theirs")
    with pytest.raises(PluginError, match=r"'hasty' is a Hasty, whose __init__ does not call super\(\).__init__\(up"):
        manager.make_allocator("hasty", None)


def test_observers_of_all_plugins_are_gathered_and_checked():
    def observer(*event):
        pass

    manager = PluginManager()
    manager.register(contributing(cuplug_observers=lambda self, runtime: [lambda ordinal: (observer, runtime)[0]]), "a")
    manager.register(contributing(cuplug_observers=lambda self: [lambda ordinal: 7, lambda ordinal: 1 // ordinal]), "b")
    manager.register(contributing(cuplug_observers=lambda self: None), "c")
    seven, failing, good = manager.observers("runtime")
    assert good(0) is observer
    with pytest.raises(PluginError, match="plugin 'b': the observer of device 0, 7, cannot be called"):
        seven(0)
    with pytest.raises(PluginError, match="plugin 'b' could not make the observer of device 0: ZeroDivisionError"):
        failing(0)
    manager.register(contributing(cuplug_observers=lambda self: observer), "d")
    with pytest.raises(PluginError, match=r"plugin 'd': cuplug_observers answered .*not a sequence"):
        manager.observers("runtime")


def test_every_plugin_is_asked_when_memory_is_short():
    asked = []
    manager = PluginManager()
    for answer in (True, None, False):
        manager.register(contributing(cuplug_out_of_memory=asking(asked, answer)), str(answer))
    assert manager.out_of_memory(1, 512, 7) is True
    assert asked == [(False, 1, 512), (None, 1, 512), (True, 1, 512)]
    manager.unregister("True")
    assert manager.out_of_memory(1, 512, 7) is False


def asking(asked, answer):
    def cuplug_out_of_memory(self, nbytes, device):
        asked.append((answer, device, nbytes))
        return answer

    return cuplug_out_of_memory


def test_an_out_of_memory_hook_that_answers_nonsense_or_raises_is_named():
    manager = PluginManager()
    manager.register(contributing(cuplug_out_of_memory=lambda self: "yes"), "theirs")
    with pytest.raises(PluginError, match="plugin 'theirs': cuplug_out_of_memory answered 'yes'; it must be a bool or"):
        manager.out_of_memory(0, 1, 0)
    manager = PluginManager()
    manager.register(contributing(cuplug_out_of_memory=lambda self, nbytes: nbytes // 0), "theirs")
    with pytest.raises(PluginError, match="plugin 'theirs': cuplug_out_of_memory failed: ZeroDivisionError"):
        manager.out_of_memory(0, 1, 0)


def test_allocators_are_described_with_their_options():
    manager = PluginManager()

    def unreadable(upstream):
        raise AssertionError

    unreadable.__signature__ = "none"
    manager.register(Good(plain=Plain, unreadable=unreadable), "theirs")
    plain, other = manager.describe_allocators()
    assert (plain.name, plain.plugin, plain.summary) == ("plain", "theirs", "Hands nothing out.")
    assert [(option.name, option.type_name, option.default) for option in plain.options] == [
        ("memory_limit", "int | None", None)
    ]
    assert "cannot be read" in other.problem


def test_what_stands_for_another_librarys_allocator_is_described_so_and_is_no_programs_to_choose():
    described = {entry.name: entry for entry in default_manager().describe_allocators()}
    assert described["rmm-pool"].only_replays
    assert not described["rmm-pool"].stands_alone
    assert not described["caching"].only_replays
    with pytest.raises(PluginError, match="no program can allocate from it"):
        default_manager().make_allocator("rmm-pool", LimitedUpstream(NullUpstream(), 1 << 20))


def point(name, value, monkeypatch):
    found = EntryPoint(name, value, "cuplug")
    monkeypatch.setattr(manager_module, "entry_points", lambda group: [found] if group == "cuplug" else [])


def test_an_entry_point_that_fails_to_import_is_left_out_with_a_warning(monkeypatch):
    point("theirs", "no_such_module:plugin", monkeypatch)
    manager = PluginManager()
    manager.register(Good(), "ours")
    with pytest.warns(RuntimeWarning, match="the entry point 'theirs' = 'no_such_module:plugin' of the distribution"):
        manager.load_entry_points()
    assert set(manager.allocators()) == {"plain"}
    assert "No module named 'no_such_module'" in manager.broken()["unknown:theirs"]
    with pytest.raises(UnknownAllocatorError, match=r"'their-allocator'; known are plain\. Left out: .*no_such_module"):
        manager.make_allocator("their-allocator", None)


def test_an_entry_point_joins(monkeypatch):
    monkeypatch.setitem(sys.modules, "theirs", SimpleNamespace(plugin=Good()))
    point("theirs", "theirs:plugin", monkeypatch)
    manager = PluginManager()
    manager.load_entry_points()
    assert manager.plugins() == ["unknown:theirs"]
    assert set(manager.allocators()) == {"plain"}


def test_the_default_manager_is_one_and_has_what_cuplug_brings():
    assert default_manager() is default_manager()
    assert {"direct", "bump", "caching"} <= set(default_manager().allocators())
    assert {"cuda", "sim"} <= set(default_manager().drivers())


def test_importing_cuplug_loads_no_plugin():
    loaded = "import cuplug, sys; print(*(name for name in ('pluggy', 'pycuda', 'pytest') if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("", "pluggy")
