"""``pycuda.autoinit``: a context for the program, when this is imported."""

from __future__ import annotations

import atexit

from .device_contexts import init
from .pycuda_tools import clear_context_caches, make_default_context

__all__ = ["context", "device"]

init()
context = make_default_context()
device = context.get_device()


@atexit.register
def _leave() -> None:
    if context.get_current() is context:
        context.pop()
    clear_context_caches()
