"""Pages of the documentation: short, with one heading, and links that lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
REFERENCE = {"differences-from-torch.md", "changelog.md"}
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("*/*.md"))]
PAGES = [page for page in PAGES if page.parent.name != "figures"]
MOST_WORDS = 900


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_outside_the_reference_has_at_most_900_words_and_its_links_lead_to_files(page: Path) -> None:
    text = page.read_text("utf-8")
    if page.parent.name != "reference" and page.name not in REFERENCE:
        assert len(text.split()) <= MOST_WORDS
    for target in re.findall(r"\]\(((?!https?:|#)[^)\s]+?)(?:#[^)]*)?\)", text):
        known = (page.parent / target).exists() or (target.startswith(("commands/", "../commands/")))
        assert known, f"{page.name} links to {target}"


def test_every_page_is_in_the_navigation() -> None:
    named = set(re.findall(r"[\w-]+(?:/[\w-]+)*\.md", (ROOT / "mkdocs.yml").read_text("utf-8")))
    pages = {str(page.relative_to(DOCS)) for page in PAGES if page != ROOT / "README.md"}
    assert pages - named == set()
    assert {name for name in named if not name.startswith("commands/")} - pages == set()


def test_every_variable_that_users_may_set_is_on_its_page() -> None:
    told = (DOCS / "guide" / "environment-variables.md").read_text("utf-8")
    read = set()
    for folder in ("allocators", "plugins", "runtime", "tools"):
        for path in (ROOT / folder).rglob("*.py"):
            read |= set(re.findall(r'environ(?:\.get\(|\[)"(CUPLUG_\w+)"', path.read_text("utf-8")))
    for name in read - {"CUPLUG_TRACE_FAMILY"}:  # what processes of one program tell one another
        assert f"`{name}`" in told, name
