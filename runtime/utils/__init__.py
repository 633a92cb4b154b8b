"""What stands beside networks, with torch's names: ``cuplug.utils``."""

from . import data as data

__all__ = ["data"]
