"""``cuplug.cuda``: the default runtime, with the names and meanings of ``torch.cuda``."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..allocators.errors import OutOfMemoryError
from .facade import cuda_memory as memory
from .facade import profiler
from .facade.cuda_memory import (
    caching_allocator_alloc,
    caching_allocator_delete,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    memory_stats_as_nested_dict,
)
from .facade.management import (
    clock_rate,
    device_memory_used,
    list_gpu_processes,
    memory_usage,
    power_draw,
    temperature,
    utilization,
)
from .facade.profiler import CudaError, check_error, cudart
from .machine.buffer import Buffer
from .machine.checks import whole_number
from .machine.default_runtime import alloc, default_runtime, is_initialized
from .machine.device import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    disable_peer_access,
    enable_peer_access,
    get_device_capability,
    get_device_name,
    get_device_properties,
    is_available,
    set_device,
    synchronize,
)
from .memory.arena import arena
from .memory.copies import memcpy, memset
from .memory.managed import alloc_managed
from .memory.memory_moves import move
from .memory.memory_sleep import memory_tag, sleep, wake
from .memory.memory_stats import (
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
from .memory.native_functions import allocator_functions, allocator_handle
from .memory.pinned import PinnedBuffer, alloc_pinned
from .streams.stream import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

__all__ = [
    "Buffer",
    "CudaError",
    "Event",
    "ExternalStream",
    "OutOfMemoryError",
    "PinnedBuffer",
    "Stream",
    "StreamContext",
    "alloc",
    "alloc_managed",
    "alloc_pinned",
    "allocator_functions",
    "allocator_handle",
    "arena",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_device_access_peer",
    "check_error",
    "clock_rate",
    "cudart",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "disable_peer_access",
    "empty_cache",
    "enable_peer_access",
    "get_allocator_backend",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "get_stream_from_external",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "list_gpu_processes",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memcpy",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "memory_tag",
    "memory_usage",
    "memset",
    "move",
    "nvtx",
    "power_draw",
    "profiler",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "set_device",
    "set_per_process_memory_fraction",
    "set_stream",
    "sleep",
    "stream",
    "synchronize",
    "temperature",
    "utilization",
    "wake",
]


def init() -> None:
    """Start the default runtime, unless it runs. It starts by itself at the first use; see ``cuplug.init`` for choices.

    Raises:
        CuplugError: a setting in the environment cannot be met.
    """
    default_runtime()


def get_stream_from_external(data_ptr: int, device: Any = None) -> ExternalStream:
    """A stream that another library made, by its handle. It must exist for as long as memory allocated for it does.

    Raises:
        TypeError: ``data_ptr`` is no handle.
    """
    return ExternalStream(data_ptr, device)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current device computes with bfloat16: all do here, by way of float32.

    Args:
        including_emulation: whether that counts; otherwise the device must do so itself (compute capability 8.0).
    """
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported() -> bool:
    """Whether the current device multiplies matrices in TF32: from compute capability 8.0 on."""
    return is_available() and get_device_capability()[0] >= 8


def is_current_stream_capturing() -> bool:
    """Whether work on the current stream becomes part of a CUDA graph: never, cuplug captures none."""
    return False


def _sleep(cycles: int) -> None:
    """Keep the current stream busy for so many cycles of the device's clock (of the host's, on a simulated device).

    Raises:
        CuplugError: there is no device; or the kernel that waits cannot be compiled.
    """
    from .kernels.busy_wait import wait_for

    wait_for(default_runtime(), whole_number(cycles, "cycles"))


def ipc_collect() -> None:
    """Give back memory that other processes have let go of: none is shared with any."""


if TYPE_CHECKING:
    from .facade import nvtx as nvtx
    from .tensor.core.tensor import Tensor
    from .tensor.ops.making.legacy_types import LegacyType

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

    def get_rng_state(device: Any = "cuda") -> Tensor: ...
    def get_rng_state_all() -> list[Tensor]: ...
    def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None: ...
    def set_rng_state_all(new_states: Any) -> None: ...
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
        "get_rng_state",
        "get_rng_state_all",
        "initial_seed",
        "manual_seed",
        "manual_seed_all",
        "seed",
        "set_rng_state",
        "set_rng_state_all",
    ]

else:
    # Hidden from type checkers, which would take every name to exist.

    def __getattr__(name):
        """What needs tensors, imported at first use: the legacy constructors (``FloatTensor``, ...) and seeds."""
        # The import system asks for names with underscores, which must not import tensors.
        found = None if name.startswith("__") else _module(name) if name in _MODULES else _of_tensors().get(name)
        if found is None and name.startswith("__"):
            raise AttributeError(f"module 'cuplug.cuda' has no attribute {name!r}")
        if found is None:
            from .facade.public_paths import why_missing
            from .tensor.core.absent import ABSENT_OF_CUDA, why_absent

            raise AttributeError(why_absent(name, ABSENT_OF_CUDA) or why_missing("torch.cuda", f"cuda.{name}"))
        return found

    def __dir__():
        return sorted({*__all__, *_of_tensors()})


__path__: list[str] = []  # a package to the import system: ``import cuplug.cuda.amp``, see ``public_paths.py``


_MODULES = ("amp", "comm", "graphs", "nccl", "nvtx")


def _module(name: str) -> Any:
    if name == "amp":
        from . import amp

        return amp
    if name == "graphs":
        return import_module(f"{__package__.partition('.')[0]}.cuda.graphs")
    if name == "nvtx":
        from .facade import nvtx

        return nvtx
    from .tensor.ops.devices import communication, nccl_collectives

    return communication if name == "comm" else nccl_collectives


def _of_tensors() -> dict[str, Any]:
    from .tensor.ops.making.legacy_types import LEGACY
    from .tensor.ops.random.random_states import CUDA_FUNCTIONS

    return {**LEGACY["cuda"], **CUDA_FUNCTIONS}
