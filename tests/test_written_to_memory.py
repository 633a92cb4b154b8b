"""What tests write goes to memory only where that has room, may hold programs and nobody has named another folder."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from .conftest import write_to_memory


@pytest.fixture(autouse=True)
def _as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pytest's own folder is made before
    monkeypatch.setattr(tempfile, "tempdir", "as it was")
    monkeypatch.setenv("TMPDIR", "as it was")  # so that it is brought back
    monkeypatch.delenv("TMPDIR")


def offer(monkeypatch: pytest.MonkeyPatch, *, flags: int = 0, room: int = 4 << 30) -> None:
    """Let any file system have these flags, and so many bytes of room."""
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=flags, f_frsize=4096, f_bavail=room // 4096))


def test_a_folder_of_the_users_own_in_memory_is_where_processes_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch)
    write_to_memory(tmp_path)
    (folder,) = tmp_path.iterdir()
    assert os.environ["TMPDIR"] == tempfile.gettempdir() == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("what", [{"flags": os.ST_NOEXEC}, {"flags": os.ST_RDONLY}, {"room": (4 << 30) - 4096}])
def test_a_file_system_that_is_not_fit_for_it_is_left_alone(
    what: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, **what)
    write_to_memory(tmp_path)
    assert tempfile.gettempdir() == "as it was"
    assert not list(tmp_path.iterdir())


def test_a_folder_that_was_named_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch)
    monkeypatch.setenv("TMPDIR", "/named")
    write_to_memory(tmp_path)
    assert (os.environ["TMPDIR"], tempfile.gettempdir()) == ("/named", "as it was")


def test_where_memory_has_no_file_system_nothing_changes(tmp_path: Path) -> None:
    write_to_memory(tmp_path / "none")
    assert tempfile.gettempdir() == "as it was"


def _file_of_another(folder: Path) -> None:
    folder.touch()


def _link_of_another(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir()
    folder.symlink_to(folder.parent / "elsewhere")


@pytest.mark.parametrize("put_there", [_file_of_another, _link_of_another])
def test_a_name_that_is_taken_is_left_alone(
    put_there: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch)
    put_there(tmp_path / f"tests-of-cuplug-{os.getuid()}")
    write_to_memory(tmp_path)
    assert "TMPDIR" not in os.environ
    assert tempfile.gettempdir() == "as it was"


def test_what_a_killed_run_left_goes_after_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch)
    folder = tmp_path / f"tests-of-cuplug-{os.getuid()}"
    for name, hours in (("old", 25), ("new", 23)):
        (folder / name).mkdir(parents=True)
        for at in (folder / name / "file", folder / f"{name} file"):
            at.touch()
            os.utime(at, (time.time() - hours * 3600,) * 2)
        os.utime(folder / name, (time.time() - hours * 3600,) * 2)
    write_to_memory(tmp_path)
    assert sorted(at.name for at in folder.iterdir()) == ["new", "new file"]
