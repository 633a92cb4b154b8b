"""The self-test of the bridge: what a child process finds out is told in one line, and kept."""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cuplug.allocators.native import is_available
from cuplug.runtime.interop.torch import self_test as module
from cuplug.runtime.interop.torch.self_checks import can_capture
from cuplug.runtime.interop.torch.self_test import Verdict, self_test

pytestmark = pytest.mark.skipif(not is_available(), reason="needs the native allocators")

NO_DEVICE = SimpleNamespace(cuda=SimpleNamespace(device_count=lambda: 0))


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Verdict]:
    """Runs the self-test on a machine that seems to have a driver."""
    monkeypatch.setenv("CUPLUG_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(module, "_machine", lambda: ["driver 1", "a device"])
    monkeypatch.setattr(module, "_why_no_cuda", lambda: "")
    monkeypatch.setattr(module, "bridge_key", lambda torch: "key")

    def run(put_under: Callable[[str], object], **options: Any) -> Verdict:
        return self_test(NO_DEVICE, "caching", put_under, **options)

    return run


def test_what_goes_wrong_in_the_child_is_a_failure_in_one_line(tried: Callable[..., Verdict]) -> None:
    def put_under(_strategy: str) -> None:
        raise RuntimeError("no room\nand more")

    verdict = tried(put_under)
    assert (verdict.state, verdict.text, verdict.kept) == ("failed", "no room", False)


def test_a_child_that_dies_is_a_failure(tried: Callable[..., Verdict]) -> None:
    verdict = tried(lambda _strategy: os.kill(os.getpid(), 9))
    assert (verdict.state, verdict.text) == ("failed", "the test was ended by signal 9")


def test_a_child_that_hangs_is_ended(tried: Callable[..., Verdict], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.2)
    reader, _writer = os.pipe()
    verdict = tried(lambda _strategy: os.read(reader, 1))
    assert verdict.state == "failed"
    assert "did not end within" in verdict.text


def test_what_was_found_is_kept_until_it_is_asked_again(
    tried: Callable[..., Verdict], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "run_checks", lambda torch: ("passed", ""))
    assert tried(lambda _strategy: None) == Verdict("passed", "", tried(lambda _strategy: 1 / 0).seconds, kept=False)
    assert tried(lambda _strategy: 1 / 0).kept
    assert tried(lambda _strategy: 1 / 0, again=True).state == "failed"
    assert tried(lambda _strategy: None).state == "failed"
    monkeypatch.setattr(module, "_machine", lambda: ["driver 2", "a device"])
    assert tried(lambda _strategy: None).state == "passed"


def test_what_could_not_be_tried_is_not_kept(tried: Callable[..., Verdict]) -> None:
    for _ in range(2):
        verdict = tried(lambda _strategy: None)
        assert (verdict.state, verdict.text, verdict.kept) == ("untested", "there is no CUDA device", False)


def test_nothing_is_forked_where_there_is_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_machine", lambda: None)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("it forked"))
    assert self_test(NO_DEVICE, "caching", lambda _strategy: None).state == "untested"


def test_without_cudas_runtime_nothing_can_be_captured() -> None:
    if hasattr(ctypes.CDLL(None), "cudaMalloc"):
        pytest.skip("this process has CUDA's runtime")
    assert "cudaMalloc" in can_capture()
