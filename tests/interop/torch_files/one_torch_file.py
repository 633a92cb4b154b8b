"""Run the tests of one of PyTorch's own test files under PyTorch or under cuplug, and say of each how it ended.

``python one_torch_file.py LIBRARY FILE OUTCOMES``: a line of JSON for each test is added to OUTCOMES. Tests that have a
line there already are left out, so that a run that a test ended goes on behind it. ``run_torch_files.py`` starts this.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import json
import os
import re
import signal
import sys
import traceback
import types
import unittest
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from names_not_there import Marker, loading
from torch_test_tools import install

COMPUTED, WAITED = 30, 240
"""The seconds that a test may take of the processor, and in all: more would be a test that does not end. Other programs
of the machine count in all, so there is room for them."""

MISSING = re.compile(
    r"(?:is|are) not part of cuplug|module 'cuplug[\w.]*' has no attribute|type object '\w+' has no attribute"
    r"|'(?:Tensor|Parameter|dtype|device|finfo|iinfo|Generator)' object has no attribute"
)
"""What an error says where a name is not there."""


def _not_part(name: str) -> AttributeError:
    return AttributeError(f"{name} is not part of cuplug")


@contextlib.contextmanager
def _missing_names_are_noted(torch: Any) -> Iterator[None]:
    """While a file is read, a name that cuplug lacks is a marker: only the tests that use it shall fail."""
    absent = sys.modules["cuplug.runtime.facade.absent_modules"].AbsentModule
    paths: Any = sys.modules["cuplug.runtime.facade.public_paths"]
    refusal = paths._refusal
    asked, asked_of_absent, imported = torch.__dict__["__getattr__"], absent.__getattr__, builtins.__import__

    def marker_for(name: str) -> Any:
        try:
            return asked(name)
        except AttributeError:
            if name.startswith("__"):
                raise
            return Marker(name, _not_part)

    def marker_below(module: Any, name: str) -> Any:
        try:
            return asked_of_absent(module, name)
        except AttributeError:
            if name.startswith("__"):
                raise
            return Marker(f"{module.__name__}.{name}", _not_part)

    def marking(package: str, path: str) -> Callable[[str], Any]:
        """What a module below does that is asked for a name which it does not have."""
        refuse = refusal(package, path)

        def marker_in(name: str) -> Any:
            try:
                return refuse(name)
            except AttributeError:
                if name.startswith("__") or not loading["now"]:
                    raise
                return Marker(f"{path}.{name}", _not_part)

        return marker_in

    def stand_in_for(name: str) -> None:
        """Let ``import torch.x.y as z`` find a marker, where Python looks when ``torch.x`` has no ``y``."""
        module = torch
        for part in name.split(".")[1:]:
            if not hasattr(module, part):
                standing.append(f"{module.__name__}.{part}")
                sys.modules[standing[-1]] = Marker(name, _not_part)  # type: ignore[assignment]
                return
            module = getattr(module, part)

    standing: list[str] = []

    def import_or_marker(
        name: str,
        globals: Any = None,  # noqa: A002 - the names of Python's own
        locals: Any = None,  # noqa: A002
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        try:
            module = imported(name, globals, locals, fromlist, level)
        except ImportError:
            if name.partition(".")[0] != "torch":
                raise
            try:
                module = imported(name, globals, locals, ("__name__",), level)
            except ImportError:
                if fromlist:
                    module = Marker(name, _not_part)
                else:  # ``import torch.x`` binds ``torch``, and only what is asked of ``torch.x`` is missing
                    module = torch
                    stand_in_for(name)
        if name.partition(".")[0] != "torch" or not fromlist or isinstance(module, Marker):
            return module
        found = types.SimpleNamespace(__name__=name)
        for each in fromlist:
            try:
                value = getattr(module, each)
            except AttributeError:
                try:
                    value = importlib.import_module(f"{name}.{each}")
                except ImportError:
                    value = Marker(f"{name}.{each}", _not_part)
            setattr(found, each, value)
        return module if "*" in fromlist else found

    torch.__dict__["__getattr__"] = marker_for
    absent.__getattr__ = marker_below
    paths._refusal = marking
    for path, below in paths.PATHS.items():
        loaded = sys.modules.get(f"{torch.__name__}.runtime.{below}")
        if loaded is not None and getattr(loaded.__dict__.get("__getattr__"), "__module__", "") == paths.__name__:
            loaded.__dict__["__getattr__"] = marking(torch.__name__, path)
    builtins.__import__ = import_or_marker
    try:
        yield
    finally:
        torch.__dict__["__getattr__"] = asked
        absent.__getattr__ = asked_of_absent
        paths._refusal = refusal
        builtins.__import__ = imported
        for name in standing:
            del sys.modules[name]


class _Outcome(unittest.TestResult):
    """How one test ended: ``passed``, ``skipped``, ``missing`` (a name) or ``failed``, and what was said."""

    def __init__(self) -> None:
        super().__init__()
        self.kind, self.text = "passed", ""

    def _failed(self, error: Any) -> None:
        text = "".join(traceback.format_exception(*error))
        self.kind, self.text = ("missing" if MISSING.search(text) else "failed"), text

    def addError(self, test: Any, err: Any) -> None:
        self._failed(err)

    def addFailure(self, test: Any, err: Any) -> None:
        self._failed(err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None and self.kind != "failed":
            self._failed(err)

    def addSkip(self, test: Any, reason: str) -> None:
        if self.kind == "passed":
            self.kind, self.text = "skipped", reason

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.kind, self.text = "skipped", "is expected to fail"

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.kind, self.text = "failed", "was expected to fail"


def _took_too_long(number: int, *_: object) -> None:
    limit = f"{COMPUTED} s of the processor" if number == signal.SIGPROF else f"{WAITED} s"
    raise TimeoutError(f"took more than {limit}")


def _tests(module: Any) -> Iterator[tuple[str, unittest.TestCase]]:
    for name, cls in sorted(vars(module).items()):
        if isinstance(cls, type) and issubclass(cls, unittest.TestCase) and cls.__module__ == module.__name__:
            for test in sorted(dir(cls)):
                if test.startswith("test") and callable(getattr(cls, test)):
                    yield f"{name}.{test}", cls(test)


READ = "CUPLUG_TEST_FILE_READ"
"""What a process that a test starts anew reads in its turn: the library and the file, a line each."""


def _module_of(library: str, file: Path) -> Any:
    """The file of tests, read under a library."""
    root = next(each for each in file.parents if each.name == "test")
    sys.path[:0] = [str(file.parent), str(root)]
    guard: Any = contextlib.nullcontext()
    if library == "cuplug":
        import cuplug

        cuplug.as_torch()
        guard = _missing_names_are_noted(cuplug)
    import torch

    with guard:
        install(torch)
        found = importlib.util.spec_from_file_location(file.stem, file)
        assert found is not None
        assert found.loader is not None
        module = importlib.util.module_from_spec(found)
        sys.modules[file.stem] = module
        found.loader.exec_module(module)
    loading["now"] = False
    return module


def main() -> None:
    """Run what the command line says."""
    library, file, outcomes = sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3])
    sys.argv[1:] = []
    os.environ[READ] = f"{library}\n{file}"
    module = _module_of(library, file)
    import torch

    warnings.simplefilter("ignore")
    for each in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(each, _took_too_long)
    done = {json.loads(line)["test"] for line in outcomes.read_text().splitlines()} if outcomes.exists() else set()
    with outcomes.open("a") as lines:
        for name, test in _tests(module):
            if name in done:
                continue
            outcome = _Outcome()
            # Written before the test, for one that ends the process; the last line of a test counts.
            lines.write(json.dumps({"test": name, "kind": "failed", "text": "ended the process"}) + "\n")
            lines.flush()
            signal.alarm(WAITED)
            signal.setitimer(signal.ITIMER_PROF, COMPUTED)
            try:
                unittest.TestSuite([test]).run(outcome)
            except TimeoutError as error:
                outcome.kind, outcome.text = "failed", str(error)
            finally:
                signal.alarm(0)
                signal.setitimer(signal.ITIMER_PROF, 0)
                torch.set_default_dtype(torch.float32)
            lines.write(json.dumps({"test": name, "kind": outcome.kind, "text": outcome.text[-6000:]}) + "\n")
            lines.flush()


if __name__ == "__main__":
    main()
elif __name__ == "__mp_main__":  # a process that was started anew, not forked: what it is to do names the file
    _library, _file = os.environ[READ].split("\n")
    _module_of(_library, Path(_file))
