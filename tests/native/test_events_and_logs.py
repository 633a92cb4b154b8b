"""What carries events, by itself: the order of their times, and logs that many threads write into."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from . import native_core as core

HERE = Path(__file__).parent


def _built(folder: Path, program: str, part: str, *flags: str) -> Path:
    compiler = core.compiler()
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    made = folder / "program"
    files = [str(HERE / program), str(core.ROOT / part)]
    done = subprocess.run(
        [compiler, *core.FLAGS, *flags, *files, "-pthread", "-o", str(made)], capture_output=True, text=True
    )
    if done.returncode and "sanitize" in done.stderr:
        pytest.skip("the compiler lacks this sanitizer")
    assert done.returncode == 0, done.stderr
    return made


def test_times_never_go_back_where_threads_push_in_another_order(tmp_path: Path) -> None:
    made = _built(tmp_path, "exchanged_clocks.cpp", "allocators/native/events.cpp")
    done = subprocess.run([made], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["300", "300", "300", "500", "500", "600"]


@pytest.mark.parametrize("sanitizers", ["thread", "address,undefined"])
def test_a_log_may_be_closed_while_new_threads_write(tmp_path: Path, sanitizers: str) -> None:
    flags = (f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all", "-g1")
    made = _built(tmp_path, "log_and_threads.cpp", "plugins/tracing/native/trace_log.cpp", *flags)
    done = subprocess.run([made, tmp_path / "log", "100"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "went well\n"), done.stderr[-3000:]
