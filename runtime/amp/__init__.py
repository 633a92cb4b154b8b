"""Mixed precision, with torch's names: ``cuplug.amp`` and ``cuplug.cuda.amp``."""

from .autocasting import autocast
from .gradient_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]
