"""The whole extension, with its binding to Python, under the compiler's sanitizers: thorough tests only.

Python itself is built without them. The sanitizer's library is loaded before it, so that memory, locks and threads are
seen; objects come from malloc one by one. ThreadSanitizer knows of Python's own accesses nothing, so that it judges
those of the extension by themselves.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from . import native_core as core

PROGRAM = Path(__file__).with_name("binding_under_sanitizers.py")
LIBRARIES = {"address,undefined": ("libasan.so", "libubsan.so"), "thread": ("libtsan.so",)}
ALONE: dict[str, list[str]] = {"address,undefined": [], "thread": ["alone"]}


def library(name: str) -> str:
    """The path of a library of the compiler's; skips where there is none."""
    found = subprocess.run(
        ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not os.path.isabs(found):
        pytest.skip(f"the compiler has no {name}")
    return found


def rooms() -> list[str]:
    """The folders of the extension's sources, as ``setup.py`` lists them."""
    for statement in ast.parse((core.ROOT / "setup.py").read_text()).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "CORE":
            return list(ast.literal_eval(statement.value))
    raise LookupError("setup.py has no CORE")


def extension(folder: Path, sanitizers: str) -> Path:
    """The extension, built with the sanitizers."""
    flags = [flag for flag in core.FLAGS if not flag.startswith("-W")]
    flags += [f"-I{sysconfig.get_paths()['include']}", "-O1", "-g1", f"-fsanitize={sanitizers}"]
    flags += ["-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
    sources = [path for room in rooms() for path in sorted((core.ROOT / room).glob("*.cpp"))]
    objects = [folder / f"{path.stem}.o" for path in sources]

    def compile_(source: Path, made: Path) -> None:
        subprocess.run(["g++", *flags, "-c", str(source), "-o", str(made)], check=True)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_, sources, objects))
    made = folder / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
    linked = [*map(str, objects), "-ldl", "-pthread", "-Wl,-Bsymbolic-functions", "-o", str(made)]
    subprocess.run(["g++", "-shared", f"-fsanitize={sanitizers}", *linked], check=True)
    return made


@pytest.mark.skipif(os.environ.get("CUPLUG_THOROUGH") != "1", reason="compiles for minutes: CUPLUG_THOROUGH=1")
@pytest.mark.parametrize("sanitizers", LIBRARIES)
def test_the_binding_keeps_the_sanitizers_quiet(tmp_path: Path, sanitizers: str) -> None:
    if core.compiler() is None or not sys.platform.startswith("linux"):
        pytest.skip("there is no C++ compiler")
    preload = [library(name) for name in (*LIBRARIES[sanitizers], "libstdc++.so.6")]
    environment = os.environ | {
        "LD_PRELOAD": " ".join(preload),
        "PYTHONMALLOC": "malloc",
        "OPENBLAS_NUM_THREADS": "1",
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",  # Python keeps what it has made until its end
        "TSAN_OPTIONS": "halt_on_error=1:report_signal_unsafe=0",
    }
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(extension(tmp_path, sanitizers)), str(tmp_path), *ALONE[sanitizers]],
        env=environment, capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "went well\n"), done.stderr[-6000:]
