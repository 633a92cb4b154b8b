"""Who imports whom within the package, read from the sources: at the top, for annotations and in functions alike."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Graph", "circles", "import_graph", "imports"]

Graph = dict[str, set[str]]
"""The modules that each module imports, by their names within the package. The package itself is ``""``."""


def import_graph(root: Path, floors: tuple[str, ...]) -> Graph:
    """The imports of all modules below ``root`` that belong to ``floors``, and of the package itself."""
    files = {"": root / "__init__.py"}
    for floor in floors:
        for path in sorted((root / floor).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {
        name: set(imports(path.read_text(), name, set(files), is_package=path.name == "__init__.py"))
        for name, path in files.items()
    }


def imports(source: str, name: str, known: set[str], *, is_package: bool = False) -> Iterator[str]:
    """The modules, of those ``known``, that the module called ``name`` imports if ``source`` is what it says."""
    folder = name.split(".") if name else []
    if not is_package:
        folder = folder[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            start = [*folder[: len(folder) - node.level + 1]] if node.level else None
            written = [*(start or []), *(node.module.split(".") if node.module else [])]
            targets = [[*written, alias.name] for alias in node.names]
        elif isinstance(node, ast.Import):
            start, targets = None, [alias.name.split(".") for alias in node.names]
        else:
            continue
        for target in targets:
            if start is None:
                if target[0] != "cuplug":
                    continue
                target = target[1:]
            while ".".join(target) not in known:  # a name in a module, or in the package
                target = target[:-1]
            yield ".".join(target)


def circles(graph: Graph) -> list[list[str]]:
    """The sets of modules that reach each other, each in order of names (Tarjan's strongly connected components)."""
    found: list[list[str]] = []
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        path.append(module)
        for other in sorted(graph[module]):
            if other not in number:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in path:
                lowest[module] = min(lowest[module], number[other])
        if lowest[module] == number[module]:
            start = path.index(module)
            if len(path) - start > 1:
                found.append(sorted(path[start:]))
            del path[start:]

    for module in sorted(graph):
        if module not in number:
            visit(module)
    return found
