"""The documentation as readers see it: built, and opened in Chromium, as wide as a phone, a laptop and a screen."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ..tools.commands.browser import CHROMIUM, Browser

ROOT = Path(__file__).resolve().parents[2]
WIDTHS = (400, 1280, 1920)
REFERENCES = ("reference/optim/index.html", "reference/allocator-contract/index.html")
"""They stand for the others, which are made in the same way."""

pytestmark = [
    pytest.mark.skipif("CUPLUG_THOROUGH" not in os.environ, reason="takes a minute: CUPLUG_THOROUGH=1"),
    pytest.mark.skipif(find_spec("material") is None, reason="needs the documentation's tools: pip install '.[docs]'"),
    pytest.mark.xdist_group("site"),
]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *told: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The folder of the built site, and the address at which it is served."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    made = Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


OVERFLOWS = """(() => {
  const page = document.documentElement, wide = page.clientWidth, found = [];
  const all = (names) => document.querySelectorAll(names.split(' ').map((name) => `.md-content ${name}`));
  if (page.scrollWidth > wide) found.push(`the page is ${page.scrollWidth} wide`);
  for (const it of all('h1 p li pre table img')) {
    const at = it.getBoundingClientRect();
    if (at.width && !it.closest('.md-typeset__scrollwrap') && (at.right > wide + 1 || at.left < -1))
      found.push(`${it.tagName} ${it.textContent.slice(0, 40)} ends at ${at.right}`);
  }
  if (wide >= 1280)
    for (const code of all('pre>code'))
      if (code.scrollWidth > code.clientWidth + 1) found.push(`code is cut: ${code.textContent.slice(0, 40)}`);
  for (const part of all('td>code'))
    if (part.getClientRects().length > 1 && !/[ ,]/.test(part.textContent))
      found.push(`a word is broken: ${part.textContent}`);
  for (const picture of all('img'))
    if (picture.complete && !picture.naturalWidth) found.push(`no picture at ${picture.src}`);
  return found })()"""


def test_no_page_is_cut_off_at_any_width(site: tuple[Path, str], browser: Browser) -> None:
    folder, address = site
    pages = sorted(page.relative_to(folder).as_posix() for page in folder.rglob("index.html"))
    assert len(pages) > 60
    found = []
    for page in pages:
        if page.startswith("reference/") and page not in REFERENCES:
            continue
        browser.open(address + page.removesuffix("index.html"), "document.readyState === 'complete'")
        for width in WIDTHS:
            browser.resize(width)
            found += [f"{page} at {width}: {problem}" for problem in browser.run(OVERFLOWS)]
    assert found == []
    assert [each for each in browser.requests if not each.startswith((address, "data:", "about:"))] == []


def test_the_first_screen_has_name_purpose_and_picture(site: tuple[Path, str], browser: Browser) -> None:
    _, address = site
    browser.resize(1280)
    browser.open(address, "document.readyState === 'complete'")
    browser.settle()
    shown = browser.run(
        "[...document.querySelectorAll('.md-content h1, .md-content p strong, .md-content img')]"
        ".filter((it) => it.getBoundingClientRect().top < 900).map((it) => it.tagName + ' ' + it.textContent)"
    )
    assert "H1 cuplug" in shown[0]
    assert any("CUDA runtime for Python" in each for each in shown)
    assert any(each.startswith("IMG") for each in shown)


def test_the_page_can_be_dark(site: tuple[Path, str], browser: Browser) -> None:
    _, address = site
    browser.open(address, "document.readyState === 'complete'")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = browser.run(colour)
    browser.run("document.querySelector('[data-md-color-scheme=slate][name=__palette]').click()")
    browser.settle()
    assert browser.run("document.body.dataset.mdColorScheme") == "slate"
    assert browser.run(colour) != light


@pytest.mark.parametrize(
    ("words", "title"),
    [
        ("CUDA out of memory", "CUDA out of memory: what now?"),
        ("CUPLUG_CACHE_DIR", "Environment variables"),
        ("cuplug-trace advise", "cuplug-trace advise"),
    ],
)
def test_the_search_finds_what_people_type(site: tuple[Path, str], browser: Browser, words: str, title: str) -> None:
    _, address = site
    browser.resize(1280)
    browser.open(address, "document.readyState === 'complete'")
    browser.run("document.querySelector('input.md-search__input').focus()")
    browser.call("Input.insertText", text=words)
    titles = (
        "new Promise((done, fail) => { const at = setInterval(() => { const found = "
        "[...document.querySelectorAll('.md-search-result__item h1')].map((it) => it.textContent.trim());"
        "if (found.length) { clearInterval(at); done(found) } }, 20);"
        "setTimeout(() => fail('nothing is found'), 60000) })"
    )
    assert title in browser.run(titles)[:3]
