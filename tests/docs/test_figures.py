"""Figures agree: what README and guide show is what replays of the recorded histories give."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RENEW = "renew it by: python docs/figures.py"


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    found = importlib.util.spec_from_file_location("documentation_figures", DOCS / "figures.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


NAMES = (
    "resnet_multiscale",
    "gpt2_varlen",
    "gpt2_fixed",
    "llama_ckpt",
    "llm_decode",
    "stream_prefetch",
    "serving",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_history_replays_to_the_stored_figures(figures: ModuleType, name: str) -> None:
    stored, _ = figures.stored_figures()
    assert set(stored) == set(NAMES)
    assert figures.replayed(name) == stored[name], RENEW


def test_pytorchs_native_allocator_is_predicted_to_the_byte(figures: ModuleType) -> None:
    stored, _ = figures.stored_figures()
    for name, (_, native, _) in figures.HISTORIES.items():
        assert stored[name]["caching:preset=torch"]["reserved"] == native, name


def test_the_page_on_histories_tells_the_calls_that_expandable_makes_in_serving(figures: ModuleType) -> None:
    from cuplug.tools.replaying.one_replay import Work, run

    result = run(Work(str(figures.path_of("serving")), "expandable")).result
    made, mapped = result.driver_calls["cuMemCreate"], result.driver_calls["cuMemMap"]
    page = " ".join((DOCS / "how" / "recorded-histories.md").read_text("utf-8").split())
    assert f"{result.driver_time_us / 1000:.1f} ms in a run of" in page
    assert f"creates {made} pages" in page
    assert f"moves pages {mapped - made} times" in page
    assert f"`expandable` reserves {result.reserved_over_requested:.3f} times" in page
    assert made * (2 << 20) == result.peak_reserved_bytes  # all pages have the smallest size, as the page says


def test_tables_charts_and_drawings_are_made_of_what_is_stored(figures: ModuleType) -> None:
    for name, text in figures.made(*figures.stored_figures()).items():
        assert (DOCS / name).read_text("utf-8") == text, f"{name}: renew it by: python docs/figures.py drawn"


def test_every_picture_is_shown_and_every_page_of_the_guide_has_one() -> None:
    pages = [*DOCS.glob("*/*.md"), *DOCS.glob("*.md")]
    shown = {
        Path(name).name for page in pages for name in re.findall(r"!\[[^\]]*\]\((\S+?)\)", page.read_text("utf-8"))
    }
    assert shown >= {path.name for path in (DOCS / "pictures").iterdir()}
    for page in [*DOCS.glob("guide/*.md"), *DOCS.glob("how/*.md"), *DOCS.glob("tutorials/*.md")]:
        assert re.search(r"!\[\w[^\]]*\]\(", page.read_text("utf-8")), f"{page.name} has neither picture nor chart"


def test_what_was_measured_says_on_what_and_by_which_command(figures: ModuleType) -> None:
    _, measured = figures.stored_figures()
    for name, chart in measured.items():
        assert chart["command"], name
        assert re.search(r"H200|Xeon|EPYC", chart["machine"]), name


def test_the_readme_shows_the_means(figures: ModuleType) -> None:
    stored, _ = figures.stored_figures()
    readme = (ROOT / "README.md").read_text("utf-8")
    shown = re.findall(r"(?m)^\| (.*?) \| (1\.\d{3}) \|$", readme)
    made = re.findall(r"(?m)^\| (.*?) \| (1\.\d{3}) \|$", (DOCS / "figures" / "means.md").read_text("utf-8"))
    assert shown == made, f"README.md: {figures.means(stored)}"


def test_the_run_of_the_guide_gives_the_figures_that_readme_guide_and_tutorial_show(tmp_path: Path) -> None:
    trace = tmp_path / "gpt2.cuplug"
    tool = [sys.executable, "-m", "cuplug.tools.trace"]
    program = ["docs/rerun.py", "tests/data/traces/gpt2_varlen.pickle.xz"]
    words = ["record", "-a", "caching:preset=torch", "-d", "sim:memory=13GiB", "-o", str(trace), *program]
    done = subprocess.run([*tool, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    run = (DOCS / "guide" / "a-run-that-fails.md").read_text("utf-8")
    said = re.search(r"Tried to allocate 1\.47 GiB \(\d+ bytes\)", run)
    assert said is not None
    assert said[0] in done.stderr
    assert re.search(r"(\d+) events recorded in gpt2", run)[1] in done.stderr  # type: ignore[index]
    advised = _advised(trace)
    for page in (DOCS / "guide" / "a-run-that-fails.md", DOCS / "tutorials" / "a-pytorch-job.md"):
        assert _not_printed(page, "cuplug-trace advise gpt2.cuplug --memory 13GiB", advised) == []


def test_the_readme_shows_what_advise_says_of_the_run_that_pytorch_recorded() -> None:
    advised = _advised(ROOT / "tests" / "data" / "traces" / "gpt2_varlen.pickle.xz")
    assert _not_printed(ROOT / "README.md", "cuplug-trace advise snapshot.pickle --memory 13GiB", advised) == []


def _advised(history: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "cuplug.tools.trace", "advise", str(history), "--memory", "13GiB"],
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def _not_printed(page: Path, command: str, printed: str) -> list[str]:
    """The lines that a page shows behind a command and that it does not print; an ellipsis stands for any more."""
    shown = page.read_text("utf-8").partition(f"$ {command}\n")[2]
    lines = re.split(r"(?m)^(?:\$|```)", shown)[0].splitlines()
    assert len(lines) > 4, page
    known = {" ".join(line.split()) for line in printed.splitlines()}
    parts = [" ".join(line.removesuffix("...").split()) for line in lines]
    return [
        part for part in parts if not any(one == part or ("..." in shown and one.startswith(part)) for one in known)
    ]
