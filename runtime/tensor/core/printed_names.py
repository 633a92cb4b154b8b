"""By which name things of the package print themselves."""

from __future__ import annotations

import sys

__all__ = ["package_name"]

_PACKAGE = __name__.partition(".")[0]


def package_name() -> str:
    """``torch`` where cuplug stands in its place, else ``cuplug``.

    Programs written for torch take such texts apart: ``str(x.dtype).replace("torch.", "")``.
    """
    return "torch" if sys.modules.get("torch") is sys.modules[_PACKAGE] else _PACKAGE
