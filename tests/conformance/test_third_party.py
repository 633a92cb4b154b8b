"""A real package of somebody else: installed into an environment of its own, selected by name, tested by the kit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[1] / "data"
ALL = os.environ.get("CUPLUG_STRANGERS") == "all"
CHOSEN = () if ALL else ("-k", "not interrupted and not meet")
"""Interrupts and threads at every line take a minute: ``CUPLUG_STRANGERS=all`` has them too."""
FEWER = (
    CHOSEN if ALL or "CUPLUG_THOROUGH" in os.environ else ("-k", f"{CHOSEN[1]} and not random_operations and not grows")
)
"""So do random operations and measurements of work, in these allocators in Python."""


@pytest.fixture(scope="module")
def environment(make_environment) -> Any:
    return make_environment(DATA / "third_party")


def test_an_installed_package_joins_and_is_selected_by_name(environment):
    program = """
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.plugins.manager import default_manager

manager = default_manager()
print(*manager.plugins())
allocator = manager.make_allocator("hoard:grain=64KiB", NullUpstream())
print(type(allocator).__module__, allocator.allocate(1, stream=0).nbytes)
described = {one.name: one for one in manager.describe_allocators()}["hoard"]
print(described.plugin, [(option.name, option.type_name, option.description) for option in described.options][0])
"""
    done = environment.run("-c", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "cuplug cuplug-hoard:hoard",
        "cuplug_hoard 65536",
        "cuplug-hoard:hoard ('grain', 'int', 'sizes are multiples of this many bytes')",
    ]


def test_a_wrong_option_of_an_installed_package_is_refused_by_name(environment):
    program = """
from cuplug.allocators.errors import PluginError
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.plugins.manager import default_manager

for selection in ("hoard:grian=1", "hoard:grain=100"):
    try:
        default_manager().make_allocator(selection, NullUpstream())
    except PluginError as error:
        print(error)
"""
    done = environment.run("-c", program)
    unknown, wrong = done.stdout.splitlines()
    assert "'hoard' of plugin 'cuplug-hoard:hoard' has no option 'grian'; its options are grain (int)" in unknown
    assert "with grain=100, cannot be made: ValueError: grain is 100; it must be a multiple of 512" in wrong


def test_one_command_runs_the_contract_of_an_installed_package(environment):
    kit = ("-m", "pytest", "-p", "cuplug.plugins.conformance", "-p", "no:cacheprovider")
    done = environment.run(*kit, *CHOSEN, "--allocator", "hoard:grain=1KiB", "--driver", "sim:schedule=random,seed=7")
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout.splitlines()[-1]
    assert not {"failed", "skipped", "error"} & set(done.stdout.splitlines()[-1].split())


def test_an_installed_package_joins_the_matrix(environment):
    kit = ("-m", "pytest", "-p", "cuplug.plugins.conformance", "-p", "no:cacheprovider")
    done = environment.run(*kit, "--collect-only", "-q")
    assert done.returncode == 0, done.stdout
    for allocator in ("hoard", "caching", "direct", "bump"):
        assert f"schedule=lazy-{allocator}" in done.stdout


def test_the_kit_names_an_unknown_allocator_and_the_known_ones(environment):
    done = environment.run("-m", "pytest", "-p", "cuplug.plugins.conformance", "--allocator", "horde")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "'horde'; known are" in done.stderr
    assert "Did you mean 'hoard'?" in done.stderr


def test_a_value_that_the_allocator_refuses_is_one_error(environment):
    done = environment.run("-m", "pytest", "-p", "cuplug.plugins.conformance", "--allocator", "planned:plan=nowhere")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    (said,) = done.stderr.strip().splitlines()
    assert "nowhere" in said


def test_the_kit_says_which_library_is_missing(environment):
    program = "import sys; sys.modules['hypothesis'] = None; import cuplug.plugins.conformance"
    done = environment.run("-c", program)
    assert done.stderr.splitlines()[-1].endswith(
        "cuplug's conformance kit needs hypothesis, which is not installed: pip install 'cuplug[test]'"
    )


def test_a_broken_installed_package_leaves_the_others_working(environment):
    broken = environment.root / "broken" / "cuplug_broken-1.0.dist-info"
    broken.mkdir(parents=True)
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: cuplug-broken\nVersion: 1.0\n")
    (broken / "entry_points.txt").write_text("[cuplug]\nbroken = no_such_module\n")
    program = """
import warnings, cuplug
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.plugins.manager import default_manager

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    manager = default_manager()
print(*(one.message for one in caught))
print(type(manager.make_allocator("hoard", NullUpstream())).__name__)
try:
    manager.make_allocator("broken", NullUpstream())
except Exception as error:
    print(error)
"""
    done = environment.run("-c", program, PYTHONPATH=str(broken.parent))
    assert done.returncode == 0, done.stderr
    warned, made, error = done.stdout.splitlines()
    assert "of the distribution 'cuplug-broken' cannot be loaded: ModuleNotFoundError" in warned
    assert made == "HoardAllocator"
    assert "known are bump, caching, direct, expandable, hoard, planned, rmm-pool. Left out: plugin" in error
    assert "'cuplug-broken:broken'" in error


def test_allocators_written_from_the_documentation_alone_pass(make_environment):
    environment = make_environment(DATA / "strangers")
    kit = ("-m", "pytest", "-p", "cuplug.plugins.conformance", "-p", "no:cacheprovider", "-q")
    both = ("--allocator", "buddy", "--allocator", "slab")
    done = environment.run(*kit, *both, *FEWER, "--driver", "sim:schedule=random,seed=7")
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout.splitlines()[-1]
