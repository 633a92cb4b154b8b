"""What PyTorch and Python call wherever cuplug is installed, in any program, as the environment says.

``import torch`` calls ``autoload``, an entry point of the group ``torch.backends``.

With ``CUPLUG_TORCH=expandable`` in the environment (or ``caching``, with options), it puts PyTorch on cuplug's memory,
in any program and in every process that it starts, also under ``torchrun``. Without the variable it does nothing, and
imports nothing of cuplug: that is why it stands beside the package. ``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` keeps PyTorch
from calling it.

Python calls ``put_shadow_first`` when it starts with ``CUPLUG_AS_TORCH=1``: ``import torch`` then means cuplug.
"""

import os
import sys

__all__ = ["autoload", "put_shadow_first"]


def autoload() -> None:
    """Install what ``CUPLUG_TORCH`` names, unless cuplug is installed already."""
    allocator = os.environ.get("CUPLUG_TORCH")
    if not allocator:
        return
    from cuplug.interop import torch

    if not torch.is_installed():
        torch.install(allocator)


def put_shadow_first() -> None:
    """Let ``import torch`` find the file that lets cuplug take the name: before PyTorch, where that is installed."""
    from importlib.util import find_spec

    found = find_spec("cuplug")
    if found is not None and found.origin is not None:
        sys.path.insert(0, os.path.join(os.path.dirname(found.origin), "runtime", "interop", "torch_shadow"))
