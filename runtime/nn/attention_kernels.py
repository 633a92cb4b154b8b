"""``cuplug.nn.attention``: torch's choice of the kernels that compute attention.

cuplug has two: cuDNN's fused kernel, on CUDA, and operations one after the other, which torch calls ``MATH``. Where the
fused kernel cannot compute an attention, the operations do, whatever was chosen.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from ..tensor.core.tensor_errors import AssertedError


class SDPBackend(enum.IntEnum):
    """Torch's kinds of kernels. All but ``MATH`` and ``ERROR`` mean the fused kernel."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


is_fused_allowed = True
"""Whether attention may be computed by the fused kernel."""


@contextmanager
def sdpa_kernel(backends: SDPBackend | Collection[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """A context, or a decorator, within which attention is computed by the kernels of ``backends``.

    ``SDPBackend.MATH`` alone keeps attention from the fused kernel. ``set_priority`` makes no difference: where both
    kernels are allowed, the fused one comes first.

    Raises:
        AssertionError: ``backends`` holds something else. Also a ValueError.
    """
    global is_fused_allowed
    del set_priority
    wanted = frozenset(backends if isinstance(backends, (list, tuple, set, frozenset)) else [backends])
    if not all(isinstance(each, SDPBackend) for each in wanted):
        raise AssertedError(f"sdpa_kernel: Backend must be an SDPBackend or a list of them, not {backends!r}")
    before = is_fused_allowed
    is_fused_allowed = not wanted <= {SDPBackend.MATH, SDPBackend.ERROR}
    try:
        yield
    finally:
        is_fused_allowed = before
