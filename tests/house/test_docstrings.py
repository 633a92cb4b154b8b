"""What a user may call says what it does, and what it raises."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = [
    *(ROOT / "runtime").glob("*.py"),
    *(ROOT / "runtime" / "interop").rglob("*.py"),
    *(ROOT / "runtime" / "kernels").glob("*.py"),
    *(ROOT / "runtime" / "tensor" / "core").glob("*.py"),
    *(ROOT / "runtime" / "tensor" / "ops").rglob("*.py"),
    *(ROOT / "runtime" / "drivers").glob("base.py"),
    *(
        path
        for floor in (
            "machine",
            "streams",
            "memory",
            "facade",
            "autograd",
            "distributed",
            "nn",
            "optim",
            "amp",
            "utils",
        )
        for path in (ROOT / "runtime" / floor).rglob("*.py")
    ),
    *(ROOT / "plugins" / "tracing").glob("*.py"),
    ROOT / "plugins" / "manager.py",
    ROOT / "plugins" / "specs.py",
    ROOT / "allocators" / "base.py",
]


UNITS = {
    "second": re.compile(r"(?:timeout|interval|delay|seconds|duration)(?:_s)?"),
    "byte": re.compile(r"memory|memory_limit|capacity|granularity|shared|pitch|chunk_size|total_bytes"),
}
"""By the unit that a docstring has to name: the parameters that are such quantities. ``nbytes`` names its own."""


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef, str]]:
    """Public functions, public methods and constructors of public classes, and what is said of each. A constructor's
    class may speak for it, and a property's getter for its setter."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name, node, ast.get_docstring(node) or ""
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for inner in node.body:
                if not isinstance(inner, ast.FunctionDef) or any(
                    isinstance(each, ast.Attribute) and each.attr in ("setter", "deleter")
                    for each in inner.decorator_list
                ):
                    continue
                said = ast.get_docstring(inner) or ""
                if inner.name == "__init__":
                    yield f"{node.name}.{inner.name}", inner, f"{ast.get_docstring(node) or ''}\n{said}"
                elif not inner.name.startswith("_"):
                    yield f"{node.name}.{inner.name}", inner, said


def lacking(source: str) -> list[str]:
    """The functions that do not say what they do; that raise something, or take a quantity, and do not say so."""
    found = []
    for name, node, said in functions(ast.parse(source)):
        raises = any(isinstance(each, ast.Raise) and each.exc is not None for each in ast.walk(node))
        if (raises and "raise" not in said.lower()) or not said.strip() or unitless(node, said):
            found.append(name)
    return found


def unitless(node: ast.FunctionDef, said: str) -> list[str]:
    """The parameters that are numbers of bytes or of seconds, of which neither docstring nor annotation says that."""
    if re.search(r"\b(?:See|as) ``|`` does", said):  # what another one says
        return []
    return [
        each.arg
        for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        for unit, names in UNITS.items()
        if names.fullmatch(each.arg)
        and each.annotation is not None
        and re.search(r"\b(?:int|float)\b", kind := ast.unparse(each.annotation))
        and unit not in f"{said} {kind}".lower()
    ]


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: str(path.relative_to(ROOT)))
def test_public_functions_say_what_they_do_take_and_raise(path):
    assert lacking(path.read_text()) == []


def test_one_that_does_not_is_found():
    assert lacking('def f(x):\n    """Do."""\n    raise ValueError(x)\n') == ["f"]
    assert lacking("class C:\n    def f(self): ...\n") == ["C.f"]
    assert lacking('class C:\n    """It."""\n    def __init__(self, x):\n        raise ValueError(x)\n') == [
        "C.__init__"
    ]
    assert lacking('def f(timeout: float):\n    """Wait."""\n') == ["f"]
    assert lacking('def f(timeout: float):\n    """Wait so many seconds."""\n') == []
