"""Bridges that a wheel carries: used where they fit exactly, and else passed over; no compiler is asked for then."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cuplug.allocators.errors import CuplugError
from cuplug.runtime.interop.torch import compilation, ready_made


def like(version: str = "2.11.0+cu130", git: str = "70d99e", cuda: str = "13.0") -> Any:
    return SimpleNamespace(__version__=version, version=SimpleNamespace(git_version=git, cuda=cuda))


def test_what_was_kept_is_found_for_the_same_pytorch_of_any_minor_cuda(tmp_path: Path) -> None:
    made = ready_made.keep_ready_made(like(), b"library\nof two lines", tmp_path)
    assert made.name.startswith("2.11.0-cu13-")
    for torch in (like(), like("2.11.0+cu132", cuda="13.2")):
        assert ready_made.find_ready_made(torch, tmp_path) == b"library\nof two lines"


@pytest.mark.parametrize(
    "torch",
    [like("2.12.0+cu130"), like(git="another commit"), like("2.11.0+cu128", cuda="12.8")],
    ids=["another version", "built from another commit", "another CUDA"],
)
def test_another_pytorch_gets_none(torch: Any, tmp_path: Path) -> None:
    ready_made.keep_ready_made(like(), b"library", tmp_path)
    assert ready_made.find_ready_made(torch, tmp_path) is None


def test_other_machines_and_other_sources_get_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ready_made.keep_ready_made(like(), b"library", tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(ready_made.platform, "machine", lambda: "riscv64")
        assert ready_made.find_ready_made(like(), tmp_path) is None
    with monkeypatch.context() as patch:
        patch.setattr(ready_made, "bridge_sources", lambda: ["bridge.cpp\nchanged"])
        assert ready_made.find_ready_made(like(), tmp_path) is None
    made.write_bytes(made.read_bytes()[:-20])
    assert ready_made.find_ready_made(like(), tmp_path) is None  # and what is not whole


def test_with_one_at_hand_the_key_needs_no_compiler_and_without_the_error_names_those_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready_made.keep_ready_made(like(), b"library", tmp_path)
    monkeypatch.setattr(compilation, "find_ready_made", lambda torch: ready_made.find_ready_made(torch, tmp_path))
    monkeypatch.setattr(compilation, "ready_made_versions", lambda: ready_made.ready_made_versions(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(compilation.shutil, "which", lambda name: None)
    assert len({compilation.bridge_key(like()), compilation.bridge_key(like("2.11.0"))}) == 1
    with pytest.raises(CuplugError, match=r"no C\+\+ compiler: install g\+\+.*for which there is a bridge: 2\.11\.0"):
        compilation.bridge_key(like("2.12.0"))
