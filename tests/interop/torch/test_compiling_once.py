"""Of many processes that start at once, one compiles the bridge; a cache that cannot be written is said once."""

import fcntl
import os
import warnings
from pathlib import Path

import pytest
from cuplug.runtime.interop.torch import compilation


def test_who_makes_a_bridge_keeps_others_waiting_until_it_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CUPLUG_CACHE_DIR", str(tmp_path))
    with compilation.one_at_a_time():
        lock = os.open(tmp_path / "kernels" / "bridge.lock", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(lock)


def test_a_cache_that_cannot_be_written_is_said_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "kernels").write_text("no folder")
    monkeypatch.setenv("CUPLUG_CACHE_DIR", str(tmp_path))
    compilation._warn_unwritable.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            with compilation.one_at_a_time():
                pass
    assert ["CUPLUG_CACHE_DIR" in str(one.message) for one in caught] == [True]


def test_machines_that_share_a_home_have_keys_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    torch = SimpleNamespace(__version__="2.11.0", version=SimpleNamespace(git_version="0", cuda="13.0"))
    monkeypatch.setenv("CXX", "g++")
    keys = {compilation.bridge_key(torch)}  # type: ignore[arg-type]
    monkeypatch.setattr(compilation.platform, "machine", lambda: "aarch64x")
    keys.add(compilation.bridge_key(torch))  # type: ignore[arg-type]
    monkeypatch.setattr(compilation.platform, "libc_ver", lambda: ("musl", "1.2"))
    keys.add(compilation.bridge_key(torch))  # type: ignore[arg-type]
    assert len(keys) == 3
