"""``cuplug.cuda``: the default runtime, with the names and meanings of ``torch.cuda``."""

from typing import TYPE_CHECKING, Any

from .arena import arena
from .buffer import Buffer
from .copies import memcpy, memset
from .default_runtime import alloc
from .device import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    disable_peer_access,
    enable_peer_access,
    get_device_capability,
    get_device_name,
    get_device_properties,
    is_available,
    set_device,
    synchronize,
)
from .memory_stats import (
    empty_cache,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from .native_functions import allocator_functions, allocator_handle
from .pinned import PinnedBuffer, alloc_pinned
from .stream import Event, ExternalStream, Stream, StreamContext, current_stream, default_stream, set_stream, stream

__all__ = [
    "Buffer",
    "Event",
    "ExternalStream",
    "PinnedBuffer",
    "Stream",
    "StreamContext",
    "alloc",
    "alloc_pinned",
    "allocator_functions",
    "allocator_handle",
    "arena",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "disable_peer_access",
    "empty_cache",
    "enable_peer_access",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "is_available",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memcpy",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "memset",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "set_device",
    "set_per_process_memory_fraction",
    "set_stream",
    "stream",
    "synchronize",
]


if TYPE_CHECKING:
    from .tensor.ops.legacy_types import LegacyType

    BFloat16Tensor: LegacyType
    BoolTensor: LegacyType
    ByteTensor: LegacyType
    CharTensor: LegacyType
    DoubleTensor: LegacyType
    FloatTensor: LegacyType
    HalfTensor: LegacyType
    IntTensor: LegacyType
    LongTensor: LegacyType
    ShortTensor: LegacyType

    def initial_seed() -> int: ...
    def manual_seed(seed: int) -> None: ...
    def manual_seed_all(seed: int) -> None: ...
    def seed() -> None: ...

    __all__ += [
        "BFloat16Tensor",
        "BoolTensor",
        "ByteTensor",
        "CharTensor",
        "DoubleTensor",
        "FloatTensor",
        "HalfTensor",
        "IntTensor",
        "LongTensor",
        "ShortTensor",
        "initial_seed",
        "manual_seed",
        "manual_seed_all",
        "seed",
    ]

else:
    # Hidden from type checkers, which would take every name to exist.

    def __getattr__(name):
        """What needs tensors, imported at first use: the legacy constructors (``FloatTensor``, ...) and seeds."""
        # The import system asks for names with underscores, which must not import tensors.
        found = None if name.startswith("__") else _of_tensors().get(name)
        if found is None:
            raise AttributeError(f"module 'cuplug.cuda' has no attribute {name!r}")
        return found

    def __dir__():
        return sorted({*__all__, *_of_tensors()})


def _of_tensors() -> dict[str, Any]:
    from .tensor.ops.legacy_types import LEGACY
    from .tensor.ops.random_numbers import CUDA_FUNCTIONS

    return {**LEGACY["cuda"], **CUDA_FUNCTIONS}
