"""Something is run before one line of code, in a process of its own: where it goes wrong, CPython dies."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from types import FrameType

from cuplug.plugins.conformance.stepping import run_at_line

PROGRAM = """
import gc
import sys
from cuplug.plugins.conformance.stepping import run_at_line

class Finalised:
    def __del__(self):
        nothing = 1

class Code:
    def __contains__(self, frame):
        return frame.f_code is Finalised.__del__.__code__

def call():
    return [1]

def operation():
    for _ in range(30):
        garbage = Finalised()
        garbage.itself = garbage
        del garbage
        call()

def strike(frame):
    raise KeyError("struck")

sys.unraisablehook = lambda _: None
struck = 0
for threshold in range(1, 60):
    gc.set_threshold(threshold, 2, 2)  # collections begin here and there, also while CPython tells of a call
    for _ in range(5):
        struck += run_at_line(Code(), operation, 0, strike)
print(struck > 0)
"""


def test_what_strikes_a_finaliser_while_a_call_is_told_of_leaves_the_trace_function_alive() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(PROGRAM)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr[-2000:]


class Everything:
    def __contains__(self, frame: FrameType) -> bool:
        return True


def test_only_what_runs_before_the_line_is_traced() -> None:
    traced = []

    def operation() -> None:
        traced.append(sys.gettrace())
        traced.append(sys.gettrace())

    before = sys.gettrace()
    assert run_at_line(Everything(), operation, 1, lambda _: None)  # type: ignore[arg-type]
    assert [each is not before for each in traced] == [True, False]
    assert not run_at_line(Everything(), operation, 2, lambda _: None)  # type: ignore[arg-type]
    assert sys.gettrace() is before
