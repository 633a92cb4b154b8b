"""The core on ARM64: compiled by a cross compiler, and run by QEMU. Debian has both: ``g++-aarch64-linux-gnu`` and
``qemu-user``."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from . import native_core as core

COMPILER, EMULATOR = shutil.which("aarch64-linux-gnu-g++"), shutil.which("qemu-aarch64")

pytestmark = [
    pytest.mark.skipif("CUPLUG_THOROUGH" not in os.environ, reason="it takes minutes: CUPLUG_THOROUGH=1 runs it"),
    pytest.mark.skipif(COMPILER is None or EMULATOR is None, reason="needs a cross compiler and QEMU"),
]


def test_random_programs_keep_the_rules_on_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "compiler", lambda: COMPILER)
    made = core.build(tmp_path / "fuzz", "-O1", "-static", program=Path(__file__).with_name("fuzz.cpp"))
    for strategy, threads in (("caching", 1), ("expandable", 1), ("expandable", 4)):
        command = [str(EMULATOR), str(made), strategy, "3", str(threads), "200"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "3 programs went well\n"
