"""Pages of the documentation: short, with one heading, and links that lead somewhere."""

from __future__ import annotations

import os
import re
import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest
from cuplug.tools.reporters.json_fields import JSON_FIELDS

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
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="needs the documentation's tools: pip install '.[docs]'")
@pytest.mark.parametrize("page", [page for page in PAGES if DOCS in page.parents], ids=lambda page: page.stem)
def test_on_the_site_a_link_stays_among_its_pages_and_one_to_json_fields_leads_to_the_commands_page(page: Path) -> None:
    hook = runpy.run_path(str(DOCS / "site.py"))["on_page_markdown"]
    before, text = page.read_text("utf-8"), hook(page.read_text("utf-8"), page=None)
    assert text.count("](") == before.count("](")
    made = {f"commands/{name}.md" for name in JSON_FIELDS}
    for target in re.findall(r"\]\(((?!https?:|#)[^)\s]+?)(?:#[^)]*)?\)", text):
        place = os.path.relpath(page.parent / target, DOCS)
        assert place in made or (DOCS in (page.parent / target).resolve().parents and (DOCS / place).exists()), place


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
