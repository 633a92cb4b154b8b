"""By what ranks' elements are reduced."""

from enum import Enum


class ReduceOp(Enum):
    """How ranks' elements become one, as NCCL numbers it."""

    SUM = 0
    PRODUCT = 1
    MAX = 2
    MIN = 3
    AVG = 4
