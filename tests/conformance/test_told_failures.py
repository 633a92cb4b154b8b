"""A failure of the kit is short, says what was done last, and can be run again by what it prints."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MUTANTS = """
from example import ExampleAllocator
from cuplug.plugins.specs import hookimpl


class Strands(ExampleAllocator):
    def _forget_stream(self, stream):
        pass


class Trips(ExampleAllocator):
    def _release_cached(self):
        return self._cahced.clear()


class GivesAddresses(ExampleAllocator):
    def _allocate(self, requested, nbytes, stream):
        return super()._allocate(requested, nbytes, stream).address


class TakesNothing(ExampleAllocator):
    def __init__(self):
        super().__init__()


@hookimpl
def cuplug_allocators():
    return {"strands": Strands, "trips": Trips, "gives-addresses": GivesAddresses, "takes-nothing": TakesNothing}
"""


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs the kit where a package with broken allocators is installed: what it prints."""
    folder = tmp_path_factory.mktemp("kit")
    package = folder / "packages"
    (package / "mutants-1.0.dist-info").mkdir(parents=True)
    (package / "mutants.py").write_text(MUTANTS)
    shutil.copy(Path(__file__).with_name("example.py"), package)
    (package / "mutants-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: mutants\nVersion: 1.0\n")
    (package / "mutants-1.0.dist-info" / "entry_points.txt").write_text("[cuplug]\nmutants = mutants\n")

    def run(*arguments: str, ends_with: int = pytest.ExitCode.TESTS_FAILED) -> str:
        path = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
        words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        environment = dict(os.environ, PYTHONPATH=path, COLUMNS="80")
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == ends_with, done.stdout + done.stderr
        return done.stdout + done.stderr * (ends_with != pytest.ExitCode.TESTS_FAILED)

    return run


@pytest.fixture(scope="module")
def failure(kit: Any) -> str:
    chosen = ("--driver", "sim:schedule=lazy", "-k", "forgotten_streams")
    return kit("-p", "cuplug.plugins.conformance", "--allocator", "strands", *chosen)


def test_a_failure_has_the_rule_and_the_last_operations_and_nothing_of_the_kits_code(failure):
    said = failure.partition("= FAILURES =")[2].partition("= short test summary")[0]
    assert "what was cached for a forgotten stream is neither stranded nor unsafe [FORGET_STREAM]" in said
    assert "What was done last:" in said
    assert "forget and destroy stream 0x1000, and create another one\n  allocate 512 bytes on stream 0x1000" in said
    assert "def check_forgotten_streams" not in said
    assert len(said.splitlines()) < 30


def test_the_printed_line_runs_the_failed_test_alone(failure, kit):
    said = failure.partition("= short test summary")[0]  # which repeats a failure's whole text where CI is set
    (line,) = (line for line in said.splitlines() if "python -m pytest" in line)
    again = kit(*shlex.split(line)[3:])
    assert "[FORGET_STREAM]" in again
    assert again.splitlines()[-1].startswith("1 failed, ") or " 1 failed, " in again.splitlines()[-1]


def test_pytest_takes_the_name_that_it_has_printed(failure, kit):
    (line,) = (line for line in failure.splitlines() if line.startswith("FAILED "))
    name = line.removeprefix("FAILED ").partition(" - ")[0]
    assert Path(name.partition("::")[0]).name == "contract.py"
    again = kit("-p", "cuplug.plugins.conformance", "--allocator", "strands", name)
    assert "[FORGET_STREAM]" in again
    assert "passed" not in again.splitlines()[-1]


def test_an_error_in_the_allocators_code_is_told_with_its_line(kit):
    chosen = ("--allocator", "trips", "--driver", "sim:schedule=eager", "-k", "test_an_allocator_keeps and accounting")
    said = kit("-p", "cuplug.plugins.conformance", *chosen)
    assert "[ERRORS]" in said
    assert "mutants.py:13 in _release_cached: return self._cahced.clear()" in said


def test_who_chooses_a_style_of_tracebacks_has_all_frames(kit):
    chosen = ("--allocator", "trips", "--driver", "sim:schedule=eager", "-k", "test_an_allocator_keeps and accounting")
    assert "def check_accounting" in kit("-p", "cuplug.plugins.conformance", "--tb=long", *chosen)


def test_an_answer_that_is_no_block_is_named(kit: Any) -> None:
    chosen = ("--driver", "sim:schedule=eager", "-k", "keeps_its_contract and sizes")
    told = kit("-p", "cuplug.plugins.conformance", "--allocator", "gives-addresses", *chosen)
    assert "TypeError was raised: _allocate of GivesAddresses returned 35184372088832, which is no Block" in told


def test_an_allocator_that_cannot_be_made_is_one_line(kit: Any) -> None:
    chosen = ("-p", "cuplug.plugins.conformance", "--allocator", "takes-nothing")
    (told,) = kit(*chosen, ends_with=pytest.ExitCode.USAGE_ERROR).strip().splitlines()
    assert "allocator 'takes-nothing' of plugin 'mutants:mutants', with no options, cannot be made: TypeError" in told
