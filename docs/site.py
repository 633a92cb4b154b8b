"""A hook of MkDocs: the pages that are made when the site is built, its links to the repository, and its version.

For each command of ``cuplug-trace`` there is a page: what its help says, and an example with what it prints, which
``tests/tools/test_stored_output.py`` compares with what the command prints today.
"""

from __future__ import annotations

import configparser
import importlib.util
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent


def on_config(config: Any) -> Any:
    """Take the repository's address from ``setup.cfg``, where alone it stands, and the version from the package."""
    told = configparser.ConfigParser()
    told.read(ROOT / "setup.cfg")
    address = told.get("metadata", "url", fallback="")
    if address:
        config.repo_url, config.edit_uri = address, "edit/main/docs/"
    text = (ROOT / "__init__.py").read_text("utf-8")
    found = re.search(r'__version__ = "(.*)"', text)
    config.copyright = f"cuplug {found[1]}" if found else None
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Add a page for each command, and one that lists them."""
    stored = importlib.util.spec_from_file_location("pages_of_commands", Path(__file__).with_name("commands.py"))
    assert stored is not None
    assert stored.loader is not None
    made = importlib.util.module_from_spec(stored)
    stored.loader.exec_module(made)
    for name, text in made.pages().items():
        files.append(File.generated(config, f"commands/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let what links to the fields of a command's JSON lead to the command's page.

    That page exists on the site alone. In a checkout, the link leads to the file in which the fields are written.
    """
    return re.sub(r"\]\(((?:\.\./)*)\.\./tools/reporters/json_fields\.py#([a-z]+)\)", r"](\1commands/\2.md)", markdown)
