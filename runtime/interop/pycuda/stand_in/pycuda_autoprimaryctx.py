"""``pycuda.autoprimaryctx``: the device's primary context for the program, when this is imported."""

from .device_contexts import Device, init
from .pycuda_tools import chosen_device, leave_at_exit

__all__ = ["context", "device"]

init()
device = Device(chosen_device() or 0)
context = device.retain_primary_context()
context.push()
leave_at_exit(context)
