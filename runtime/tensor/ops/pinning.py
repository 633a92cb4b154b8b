"""Page-locked host memory as the storage of CPU tensors."""

from __future__ import annotations

from ...pinned import alloc_pinned
from ...runtime import Runtime
from ..core.storage import Storage
from ..places.place import Place

__all__ = ["pinned_storage"]


def pinned_storage(runtime: Runtime, place: Place, nbytes: int) -> Storage:
    """``nbytes`` bytes of page-locked memory. It serves others once the last array on it and the copies are done.

    Raises:
        CuplugError: there is no CUDA device.
    """
    return Storage(place, nbytes, alloc_pinned(nbytes, runtime=runtime).array, pinned=True)
