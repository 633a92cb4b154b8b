"""Files that commands write stand whole or not at all; what goes wrong with any output is one line, and a status."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cuplug.tools import trace as door
from cuplug.tools.console import UsageError
from cuplug.tools.outputs import whole_output

from .conftest import Command

needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


def run(command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    line = f"{shlex.join([sys.executable, str(door.__file__)])} {command}"
    return subprocess.run(
        ["sh", "-c", line], cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("ending", [UsageError, KeyboardInterrupt, MemoryError])
def test_a_failed_or_interrupted_output_leaves_what_was_there(tmp_path: Path, ending: type[BaseException]) -> None:
    path = tmp_path / "out"
    path.write_text("before")

    def write() -> None:
        with whole_output(path) as file:
            file.write("half")
            file.flush()
            raise ending("now")

    with pytest.raises(ending):
        write()
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_an_output_takes_its_place_with_the_rights_and_through_the_link_of_what_was_there(tmp_path: Path) -> None:
    path, link = tmp_path / "out", tmp_path / "link"
    path.write_text("before")
    path.chmod(0o640)
    link.symlink_to(path)
    with whole_output(link) as file:
        file.write("after é")
        assert path.read_text() == "before"
    assert path.read_text(encoding="utf-8") == "after é"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert link.is_symlink()


def test_what_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    for path, says in ((tmp_path / "none" / "x", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(UsageError, match=f"cannot write {path}: {says}"), whole_output(path):
            pass


@needs_dev_full
@pytest.mark.parametrize("form", ["chrome", "pytorch", "csv"])
def test_a_device_is_written_to_and_stays(command: Command, small_trace: Path, tmp_path: Path, form: str) -> None:
    device = tmp_path / "full"
    device.symlink_to("/dev/full")
    result = command("export", small_trace, "-o", device, "--format", form)
    assert result.exit_code == 2
    assert result.stderr == f"cuplug-trace: cannot write {device}: No space left on device\n"
    assert stat.S_ISCHR(device.stat().st_mode)


def test_parquet_goes_to_the_same_place_as_the_others(command: Command, small_trace: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    device = tmp_path / "null"
    device.symlink_to("/dev/null")
    assert command("export", small_trace, "-o", device, "--format", "parquet").exit_code == 0
    assert stat.S_ISCHR(device.stat().st_mode)


def test_a_device_is_no_place_for_a_trace(command: Command, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("")
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    result = command("record", "-d", "sim", "-o", link, tmp_path / "program.py")
    assert result.exit_code == 2
    assert "it is not a regular file" in result.stderr
    assert stat.S_ISCHR(link.stat().st_mode)


COMMANDS = ("summary {}", "summary --json {}", "dump {}", "allocators", "--help", "fit -a direct -j 1 {}")


@needs_dev_full
@pytest.mark.parametrize("words", COMMANDS)
def test_a_full_standard_output_is_one_line_and_status_2(small_trace: Path, tmp_path: Path, words: str) -> None:
    done = run(f"{words.format(small_trace)} > /dev/full", tmp_path)
    assert (done.returncode, done.stderr) == (
        2, "cuplug-trace: cannot write to standard output: No space left on device\n",
    )  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS[::2])  # as full ones, which all commands meet
def test_a_closed_standard_output_is_one_line_and_status_2(small_trace: Path, tmp_path: Path, words: str) -> None:
    done = run(f"{words.format(small_trace)} >&-", tmp_path)
    assert (done.returncode, done.stderr) == (2, "cuplug-trace: cannot write to standard output: it is closed\n")


def test_a_command_that_prints_nothing_needs_no_standard_output(small_trace: Path, tmp_path: Path) -> None:
    done = run(f"export {small_trace} -o out.csv >&-", tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "program.py").write_text("import sys; print('lost'); assert sys.stdout is None")
    assert run("record -d sim program.py >&-", tmp_path).stderr.startswith("The program did not use cuplug")


@pytest.mark.parametrize("words", ["advise -j 1 {}", "replay -j 1 {}", "summary {}", "dump {}", "allocators"])
def test_an_output_that_lacks_characters_shows_others_for_them(small_trace: Path, tmp_path: Path, words: str) -> None:
    done = run(words.format(small_trace), tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_bytes_of_names_are_passed_on_where_python_does_and_other_characters_are_not(
    small_trace: Path, tmp_path: Path
) -> None:
    os.symlink(small_trace, os.fsencode(tmp_path) + b"/odd\xe9")
    passed = run("summary odd* | cat -v", tmp_path, PYTHONIOENCODING="ascii:surrogateescape")
    assert passed.stdout.startswith("oddM-i\n"), passed.stdout + passed.stderr
    shown = run("replay -j 1 odd* 2>&1 | cat -v", tmp_path, PYTHONIOENCODING="ascii:surrogateescape")
    assert "? requested" in shown.stdout, shown.stdout
