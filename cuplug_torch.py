"""What ``import torch`` calls wherever cuplug is installed: an entry point of the group ``torch.backends``.

With ``CUPLUG_TORCH=expandable`` in the environment (or ``caching``, with options), it puts PyTorch on cuplug's memory,
in any program and in every process that it starts, also under ``torchrun``. Without the variable it does nothing, and
imports nothing of cuplug: that is why it stands beside the package. ``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` keeps PyTorch
from calling it.
"""

import os

__all__ = ["autoload"]


def autoload() -> None:
    """Install what ``CUPLUG_TORCH`` names, unless cuplug is installed already."""
    allocator = os.environ.get("CUPLUG_TORCH")
    if not allocator:
        return
    from cuplug.interop import torch

    if not torch.is_installed():
        torch.install(allocator)
