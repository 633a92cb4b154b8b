"""The timers that other tests are cut short by."""

import signal

import pytest

from .timers import Cut

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")


def test_a_function_is_cut_short_though_its_first_signal_comes_in_a_finaliser(timer: Cut) -> None:
    reached = []

    class Endless:
        def __del__(self) -> None:
            reached.append("finaliser")
            while True:
                pass

    def call() -> None:
        Endless()
        reached.append("after it")
        while True:
            pass

    assert timer(call, 0.01)
    assert not timer(lambda: None, 10)
    assert reached == ["finaliser", "after it"]
