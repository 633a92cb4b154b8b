"""What stands beside networks, with torch's names: ``cuplug.utils``."""

from . import checkpoint as checkpoint
from . import data as data
from . import dlpack_exchange as dlpack

__all__ = ["checkpoint", "data", "dlpack"]
