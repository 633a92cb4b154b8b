"""The reference covers what users import."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cuplug.runtime.facade.public_paths import PATHS

ROOT = Path(__file__).resolve().parents[2]
SHOWN = {
    found
    for page in (ROOT / "docs" / "reference").glob("*.md")
    for found in re.findall(r"^::: cuplug\.runtime\.(\S+)$", page.read_text(), re.MULTILINE)
}
ELSEWHERE = {"backends", "nn.parameter", "utils"}
"""What holds other modules alone, or one class that ``nn`` shows."""


@pytest.mark.parametrize("path", sorted(PATHS.keys() - ELSEWHERE))
def test_each_module_that_users_import_has_a_reference(path: str) -> None:
    assert PATHS[path] in SHOWN, f"docs/reference has no page with ::: cuplug.runtime.{PATHS[path]}"


def test_each_page_of_the_reference_is_in_the_navigation() -> None:
    pages = {f"reference/{page.name}" for page in (ROOT / "docs" / "reference").glob("*.md")}
    assert pages == set(re.findall(r"reference/\S+\.md", (ROOT / "mkdocs.yml").read_text()))
