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
    from cuplug.allocators.errors import CuplugError
    from cuplug.interop import torch
    from cuplug.plugins.manager import default_manager
    from cuplug.runtime.interop.torch.host_tags import without_host_tags

    if torch.is_installed():
        return
    try:
        default_manager().check_allocator(str(without_host_tags(allocator)[0]))  # before PyTorch is asked anything
        torch.install(allocator)
    except CuplugError as error:  # PyTorch says first that it could not load this: one line beneath it is enough
        raise CuplugError(f"CUPLUG_TORCH={allocator}: {error}") from None


def put_shadow_first() -> None:
    """Let ``import torch`` find the file that lets cuplug take the name: before PyTorch, where that is installed."""
    from importlib.util import find_spec

    found = find_spec("cuplug")
    if found is not None and found.origin is not None:
        sys.path.insert(0, os.path.join(os.path.dirname(found.origin), "runtime", "interop", "torch_shadow"))
