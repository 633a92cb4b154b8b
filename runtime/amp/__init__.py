"""Mixed precision, with torch's names: ``cuplug.amp``, ``cuplug.autocast`` and ``cuplug.cuda.amp``."""

from .autocasting import autocast
from .gradient_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]
