"""Mixed precision, with torch's names: ``cuplug.amp`` and ``cuplug.cuda.amp``."""

from .autocasting import autocast
from .gradient_scaler import GradScaler
from .own_functions import custom_bwd, custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
