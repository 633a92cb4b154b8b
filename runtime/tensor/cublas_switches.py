"""``cuplug.backends.cuda``: torch's switches of products of matrices on CUDA."""

from __future__ import annotations

from .core.switches import switches

__all__ = ["matmul"]


class _Products:
    """``backends.cuda.matmul``."""

    __slots__ = ()

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 matrices may round their operands to TF32: as
        ``set_float32_matmul_precision("high")``."""
        return switches.precision != "highest"

    @allow_tf32.setter
    def allow_tf32(self, wanted: bool) -> None:
        switches.precision = "high" if wanted else "highest"


matmul = _Products()
