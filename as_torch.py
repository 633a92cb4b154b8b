"""``python -m cuplug.as_torch PROGRAM``: a program written for torch runs on cuplug, as it is.

``cuplug.as_torch()`` does the same within a program; so the module itself can be called.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING

# By the full name: this file is run as the main program too.
from cuplug.runtime.interop.torch_programs import as_torch, main

__all__ = ["as_torch", "main"]


class _Callable(ModuleType):
    def __call__(self) -> None:
        as_torch()


if not TYPE_CHECKING:
    sys.modules[__name__].__class__ = _Callable

if __name__ == "__main__":
    main()
