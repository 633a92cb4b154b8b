"""The enumerations of ``pycuda.driver``, with CUDA's values (``cuda.h``)."""

from __future__ import annotations

from enum import IntEnum, IntFlag

__all__ = [
    "TRSA_OVERRIDE_FORMAT",
    "TRSF_NORMALIZED_COORDINATES",
    "TRSF_READ_AS_INTEGER",
    "TR_DEFAULT",
    "address_mode",
    "array3d_flags",
    "array_format",
    "compute_mode",
    "ctx_flags",
    "device_attribute",
    "event_flags",
    "filter_mode",
    "func_cache",
    "function_attribute",
    "host_alloc_flags",
    "ipc_mem_flags",
    "limit",
    "mem_attach_flags",
    "mem_host_register_flags",
    "memory_type",
    "shared_config",
    "stream_flags",
]

TRSA_OVERRIDE_FORMAT = 1
TRSF_READ_AS_INTEGER = 1
TRSF_NORMALIZED_COORDINATES = 2
TR_DEFAULT = -1


class _Named(IntEnum):
    def __str__(self) -> str:
        return self.name


class ctx_flags(IntFlag):  # noqa: N801 - PyCUDA's names, here and below
    """How the host waits for a context."""

    SCHED_AUTO = 0
    SCHED_SPIN = 1
    SCHED_YIELD = 2
    SCHED_BLOCKING_SYNC = 4
    BLOCKING_SYNC = 4
    SCHED_MASK = 7
    MAP_HOST = 8
    LMEM_RESIZE_TO_MAX = 16
    FLAGS_MASK = 31


class event_flags(IntFlag):  # noqa: N801
    """What an event is for."""

    DEFAULT = 0
    BLOCKING_SYNC = 1
    DISABLE_TIMING = 2
    INTERPROCESS = 4


class stream_flags(IntFlag):  # noqa: N801
    """Whether a stream orders itself with the default stream."""

    DEFAULT = 0
    NON_BLOCKING = 1


class host_alloc_flags(IntFlag):  # noqa: N801
    """What page-locked memory is for."""

    PORTABLE = 1
    DEVICEMAP = 2
    WRITECOMBINED = 4


class mem_host_register_flags(IntFlag):  # noqa: N801
    """What registered memory is for."""

    PORTABLE = 1
    DEVICEMAP = 2


class mem_attach_flags(IntFlag):  # noqa: N801
    """Who sees managed memory."""

    GLOBAL = 1
    HOST = 2
    SINGLE = 4


class ipc_mem_flags(IntFlag):  # noqa: N801
    """How another process's memory is opened."""

    LAZY_ENABLE_PEER_ACCESS = 1


class array3d_flags(IntFlag):  # noqa: N801
    """What an array is for."""

    LAYERED = 1
    SURFACE_LDST = 2
    CUBEMAP = 4
    TEXTURE_GATHER = 8
    ARRAY3D_LAYERED = 1
    ARRAY3D_SURFACE_LDST = 2


class array_format(_Named):  # noqa: N801
    """The type of a channel of an array."""

    UNSIGNED_INT8 = 0x01
    UNSIGNED_INT16 = 0x02
    UNSIGNED_INT32 = 0x03
    SIGNED_INT8 = 0x08
    SIGNED_INT16 = 0x09
    SIGNED_INT32 = 0x0A
    HALF = 0x10
    FLOAT = 0x20


class address_mode(_Named):  # noqa: N801
    """What lies beyond a texture's edges."""

    WRAP = 0
    CLAMP = 1
    MIRROR = 2
    BORDER = 3


class filter_mode(_Named):  # noqa: N801
    """How a texture is read between its texels."""

    POINT = 0
    LINEAR = 1


class memory_type(_Named):  # noqa: N801
    """Kinds of memory."""

    HOST = 1
    DEVICE = 2
    ARRAY = 3
    UNIFIED = 4


class compute_mode(_Named):  # noqa: N801
    """Who may use a device."""

    DEFAULT = 0
    EXCLUSIVE = 1
    PROHIBITED = 2
    EXCLUSIVE_PROCESS = 3


class func_cache(_Named):  # noqa: N801
    """What a kernel would rather have."""

    PREFER_NONE = 0
    PREFER_SHARED = 1
    PREFER_L1 = 2
    PREFER_EQUAL = 3


class shared_config(_Named):  # noqa: N801
    """The width of shared memory's banks."""

    DEFAULT_BANK_SIZE = 0
    FOUR_BYTE_BANK_SIZE = 1
    EIGHT_BYTE_BANK_SIZE = 2


class limit(_Named):  # noqa: N801
    """Limits of a context."""

    STACK_SIZE = 0
    PRINTF_FIFO_SIZE = 1
    MALLOC_HEAP_SIZE = 2
    DEV_RUNTIME_SYNC_DEPTH = 3
    DEV_RUNTIME_PENDING_LAUNCH_COUNT = 4


class function_attribute(_Named):  # noqa: N801
    """What the driver knows of a kernel."""

    MAX_THREADS_PER_BLOCK = 0
    SHARED_SIZE_BYTES = 1
    CONST_SIZE_BYTES = 2
    LOCAL_SIZE_BYTES = 3
    NUM_REGS = 4
    PTX_VERSION = 5
    BINARY_VERSION = 6
    CACHE_MODE_CA = 7
    MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    PREFERRED_SHARED_MEMORY_CARVEOUT = 9


class device_attribute(_Named):  # noqa: N801
    """What is known of a device."""

    MAX_THREADS_PER_BLOCK = 1
    MAX_BLOCK_DIM_X = 2
    MAX_BLOCK_DIM_Y = 3
    MAX_BLOCK_DIM_Z = 4
    MAX_GRID_DIM_X = 5
    MAX_GRID_DIM_Y = 6
    MAX_GRID_DIM_Z = 7
    MAX_SHARED_MEMORY_PER_BLOCK = 8
    SHARED_MEMORY_PER_BLOCK = 8
    TOTAL_CONSTANT_MEMORY = 9
    WARP_SIZE = 10
    MAX_PITCH = 11
    MAX_REGISTERS_PER_BLOCK = 12
    REGISTERS_PER_BLOCK = 12
    CLOCK_RATE = 13
    TEXTURE_ALIGNMENT = 14
    GPU_OVERLAP = 15
    MULTIPROCESSOR_COUNT = 16
    KERNEL_EXEC_TIMEOUT = 17
    INTEGRATED = 18
    CAN_MAP_HOST_MEMORY = 19
    COMPUTE_MODE = 20
    CONCURRENT_KERNELS = 31
    ECC_ENABLED = 32
    PCI_BUS_ID = 33
    PCI_DEVICE_ID = 34
    TCC_DRIVER = 35
    L2_CACHE_SIZE = 38
    MAX_THREADS_PER_MULTIPROCESSOR = 39
    ASYNC_ENGINE_COUNT = 40
    UNIFIED_ADDRESSING = 41
    COMPUTE_CAPABILITY_MAJOR = 75
    COMPUTE_CAPABILITY_MINOR = 76
    MANAGED_MEMORY = 83
    MULTI_GPU_BOARD = 84
