"""``pycuda.autoinit``: a context for the program, when this is imported."""

from .device_contexts import init
from .pycuda_tools import leave_at_exit, make_default_context

__all__ = ["context", "device"]

init()
context = make_default_context()
device = context.get_device()
leave_at_exit(context)
