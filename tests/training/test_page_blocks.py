"""The code blocks of the five pages run, word for word, with ``import cuplug as torch``: on devices, and without any.

Where ``CUPLUG_SEED_PAGES`` names the folder of the pages, it is checked that the blocks are theirs.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cuplug
import pytest

from .page_blocks import BLOCKS, Block

PAGES = os.environ.get("CUPLUG_SEED_PAGES")
STARTS = {
    "A": "# Cuda\n",
    "B": "---\ntitle: CUDA semantics",
    "C": ".. _cuda-semantics:",
    "D": "# Cuda语义",
    "E": "---\nhide",
}


@pytest.fixture(autouse=True)
def _the_same_arguments(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    cuplug.shutdown()  # of another file's tests
    yield
    cuplug.shutdown()


def run(block: Block) -> None:
    """Run a block between what completes it."""
    program = block.before + textwrap.dedent(block.text) + block.after
    program = re.sub(r"^( *)import torch\b(?!\.)", r"\1import cuplug as torch", program, flags=re.MULTILINE)
    program = re.sub(r"^( *)from torch\b", r"\1from cuplug", program, flags=re.MULTILINE)
    exec(compile(program, "<block>", "exec"), {"__name__": "__main__"})


def words(text: str) -> list[str]:
    """Printed numbers and words without the spaces, which changed between versions of torch."""
    return re.findall(r"[\w.:'=-]+|[\[\]()]", text.replace(",", " "))


@pytest.mark.parametrize("name", BLOCKS)
def test_the_block_runs_on_devices(name: str, request: pytest.FixtureRequest, capsys: Any) -> None:
    block = BLOCKS[name]
    driver = request.config.getoption("--driver")
    count = max(2, block.devices)
    cuplug.init(driver=f"sim:devices={count}" if driver == "sim" else driver, allocator="caching:preset=torch")
    if cuplug.cuda.device_count() < block.devices:
        pytest.skip(f"needs {block.devices} devices")
    if block.fails is not None:
        with pytest.raises(block.fails):
            run(block)
        return
    run(block)
    if block.shown is not None:
        assert words(capsys.readouterr().out) == words(block.shown)


@pytest.mark.parametrize("name", [name for name, block in BLOCKS.items() if not block.devices])
@pytest.mark.filterwarnings("ignore:.*CUDA is not available:UserWarning")
def test_the_block_runs_without_a_device(name: str, capsys: Any) -> None:
    if cuplug.cuda.is_available():
        pytest.skip("there is a GPU")
    run(BLOCKS[name])
    if BLOCKS[name].shown is not None:
        assert words(capsys.readouterr().out) == words(BLOCKS[name].shown or "")


@pytest.mark.skipif(PAGES is None, reason="CUPLUG_SEED_PAGES names no folder")
def test_the_blocks_are_those_of_the_pages() -> None:
    assert PAGES is not None
    texts = [path.read_text(encoding="utf-8") for path in Path(PAGES).iterdir()]
    pages = {page: next(text for text in texts if text.startswith(start)) for page, start in STARTS.items()}
    for name, block in BLOCKS.items():
        if block.page:
            wanted, found = block.text.splitlines(), [line.rstrip() for line in pages[block.page].splitlines()]
            assert "\n".join(line.rstrip() for line in wanted) in "\n".join(found), name
