"""``pycuda.autoprimaryctx``: the device's primary context for the program, when this is imported."""

from __future__ import annotations

import atexit

from .device_contexts import Device, init
from .pycuda_tools import chosen_device, clear_context_caches

__all__ = ["context", "device"]

init()
device = Device(chosen_device() or 0)
context = device.retain_primary_context()
context.push()


@atexit.register
def _leave() -> None:
    if context.get_current() is context:
        context.pop()
    clear_context_caches()
