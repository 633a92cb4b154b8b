"""``cuplug.interop.torch``: PyTorch on cuplug's memory.

``install("expandable")`` before the first CUDA tensor, or without touching the program:
``python -m cuplug.interop.torch train.py``, or the environment variable ``CUPLUG_TORCH=expandable``, also under
``torchrun``. Everything of ``torch.cuda`` works as natively: statistics, snapshots and their call stacks, errors, CUDA
graphs, ``torch.compile``.

It is a C++ subclass of PyTorch's allocator, compiled for the PyTorch found at the first installation (some ten seconds)
and kept in cuplug's cache folder.
"""

from .installation import VARIABLE, check, install, is_installed

__all__ = ["VARIABLE", "check", "install", "is_installed"]
