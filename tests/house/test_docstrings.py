"""What a user may call says what it does, and what it raises."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = [
    *(ROOT / "runtime").glob("*.py"),
    *(ROOT / "runtime" / "interop").rglob("*.py"),
    *(ROOT / "runtime" / "kernels").glob("*.py"),
    *(ROOT / "plugins" / "tracing").glob("*.py"),
    ROOT / "plugins" / "manager.py",
    ROOT / "plugins" / "specs.py",
    ROOT / "allocators" / "base.py",
]


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Public functions, and public methods and constructors of public classes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name, node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and (not inner.name.startswith("_") or inner.name == "__init__"):
                    yield f"{node.name}.{inner.name}", inner


def lacking(source: str) -> list[str]:
    """The functions that do not say what they do, or raise something and do not say so."""
    found = []
    for name, node in functions(ast.parse(source)):
        said = ast.get_docstring(node) or ""
        raises = any(isinstance(each, ast.Raise) and each.exc is not None for each in ast.walk(node))
        if (raises and "raise" not in said.lower()) or not (said or node.name == "__init__"):
            found.append(name)
    return found


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: str(path.relative_to(ROOT)))
def test_public_functions_say_what_they_do_and_raise(path):
    assert lacking(path.read_text()) == []


def test_one_that_does_not_is_found():
    assert lacking('def f(x):\n    """Do."""\n    raise ValueError(x)\n') == ["f"]
    assert lacking("class C:\n    def f(self): ...\n") == ["C.f"]
