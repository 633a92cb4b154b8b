"""The native core under random programs and the compiler's sanitizers. ``CUPLUG_FUZZ_SEEDS`` makes it longer, and looks
at everything that the sanitizers can see."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from . import native_core as core

SEEDS = int(os.environ.get("CUPLUG_FUZZ_SEEDS", "25"))
LEFT_OUT = [] if "CUPLUG_FUZZ_SEEDS" in os.environ else ["-fno-sanitize=null,alignment,object-size,vptr"]
"""Checks at every use of a pointer take a third of the time. A null pointer ends a program anyway."""
FUZZER = Path(__file__).with_name("fuzz.cpp")


def fuzzer(folder: Path, sanitizers: str) -> Path:
    """The fuzzer, built with the sanitizers."""
    if core.compiler() is None:
        pytest.skip("there is no C++ compiler")
    probe = folder / "probe.cpp"
    probe.write_text("int main() {}\n")
    flags = [f"-fsanitize={sanitizers}", *LEFT_OUT, "-fno-sanitize-recover=all"]
    linked = subprocess.run(
        [str(core.compiler()), *flags, str(probe), "-o", str(folder / "probe")], check=False, capture_output=True
    )
    if linked.returncode:
        pytest.skip(f"the compiler has no {sanitizers} sanitizer")
    return core.build(folder / "fuzz", "-O0", "-g1", *flags, program=FUZZER)


@pytest.mark.parametrize(("sanitizers", "threads"), [("address,undefined", 1), ("thread", 4)])
def test_random_programs_keep_the_rules_and_the_sanitizers_quiet(tmp_path: Path, sanitizers: str, threads: int) -> None:
    made = fuzzer(tmp_path, sanitizers)
    for strategy, longer in (("caching", 1), ("expandable", 1), ("planned", 2)):
        seeds, operations = (SEEDS, 300 * longer) if threads == 1 else (max(1, SEEDS // 8), 1000 * longer)
        done = subprocess.run(
            [str(made), strategy, str(seeds), str(threads), str(operations)],
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{seeds} programs went well\n"
