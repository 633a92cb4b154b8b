"""Names of torch by which programs set what does not exist here: they can be set, and change nothing.

There are no convolutions for cuDNN to choose among.
"""

from __future__ import annotations

from types import SimpleNamespace

__all__ = ["backends"]

backends = SimpleNamespace(
    cudnn=SimpleNamespace(
        allow_tf32=True,
        benchmark=False,
        deterministic=False,
        enabled=True,
        is_available=lambda: False,
        version=lambda: None,
    )
)
"""``torch.backends``: ``backends.cudnn.benchmark = True`` and the like."""
