"""The command line ``cuplug-trace``. Also ``python tools/trace.py``, from a checkout that is not installed."""

from __future__ import annotations

import importlib
import sys

_EXTRAS = ("typer", "rich")


def main() -> None:
    """Run the command line and exit with its status."""
    for name in _EXTRAS:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            print(f"cuplug-trace: {name} is not installed: pip install typer rich", file=sys.stderr)
            sys.exit(2)
    from .commands import app

    app(prog_name="cuplug-trace")


def _adopt_checkout() -> None:
    """Make the checkout that this file lies in the package ``cuplug``, whatever its folder is called."""
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    root = Path(__file__).resolve().parent.parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != root / "tools"]  # ``trace`` is stdlib
    spec = spec_from_file_location("cuplug", root / "__init__.py", submodule_search_locations=[str(root)])
    if spec is None or spec.loader is None:
        sys.exit(f"cuplug-trace: {root} is no checkout of cuplug")
    package = sys.modules["cuplug"] = module_from_spec(spec)
    spec.loader.exec_module(package)


if __name__ in ("__main__", "__mp_main__"):  # the second: in a process that replays for the first
    _adopt_checkout()
if __name__ == "__main__":
    importlib.import_module("cuplug.tools.trace").main()
