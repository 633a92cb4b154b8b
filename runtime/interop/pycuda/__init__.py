"""``cuplug.interop.pycuda``: PyCUDA's programs on cuplug's memory, and on its simulator where there is no GPU.

On a GPU, PyCUDA itself allocates from cuplug. On the simulator a package of cuplug's stands in PyCUDA's place, which
need not be installed: programs run as they are.
"""

from __future__ import annotations

from ....plugins.selection import parse_selection
from ...machine.default_runtime import default_runtime, init, is_initialized
from ...machine.settings import AllocatorChoice, Settings
from ..installations import note_installed
from . import under_pycuda
from .under_pycuda import DeviceMemoryPool, allocator

__all__ = ["DeviceMemoryPool", "allocator", "check", "install"]


def check(allocator: AllocatorChoice | None = None) -> None:
    """Find out whether ``install`` can do its work; changes nothing.

    Args:
        allocator: the selection that ``install`` is to be given.

    Raises:
        CuplugError: on a GPU: PyCUDA is not installed, or allocates from cuplug with another allocator; or there is no
            device.
    """
    if not _simulated():
        under_pycuda.check(allocator)


def install(allocator: AllocatorChoice | None = None) -> None:
    """Serve programs that use PyCUDA, for the rest of the process.

    On a GPU PyCUDA allocates from cuplug: ``mem_alloc``, hence ``In``, ``Out``, ``GPUArray`` and ``to_gpu`` by default,
    and ``pycuda.tools.DeviceMemoryPool``. It has no current stream: memory belongs to cuplug's
    (``cuplug.cuda.stream``), by default the default stream; once freed it waits, without holding up the program, for
    every stream that waits for the default stream, as those of ``pycuda.driver.Stream`` do. Other streams that use it
    are named with its ``record_stream``.

    On the simulator (``cuplug.init(driver="sim")``, ``CUPLUG_DRIVER=sim``) cuplug's stand-in takes PyCUDA's place:
    ``import pycuda`` finds that one from now on. There it may be called again, as by a notebook's cell that is run
    again, or after ``cuplug.shutdown()`` and ``cuplug.init()``.

    Args:
        allocator: the selection; by default that of the runtime in use (``cuplug.interop.install``).

    Raises:
        CuplugError: as ``check``; or the runtime in use has another allocator; or PyCUDA itself was imported before,
            and the device is simulated.
        UnknownAllocatorError: no plugin contributes the allocator.
    """
    check(allocator)
    if not _simulated():
        under_pycuda.install(allocator)
        return
    from .shadowing import shadow  # it brings the stand-in

    runtime = init(allocator=allocator)
    shadow()
    runtime.keep_blocks_apart()
    note_installed("pycuda", runtime)


def _simulated() -> bool:
    """Whether the default runtime's device is simulated, or would be if it started now."""
    if is_initialized():
        runtime = default_runtime()
        return bool(runtime.device_count()) and runtime.driver.simulator is not None
    chosen = Settings().resolved().driver
    return isinstance(chosen, str) and parse_selection(chosen).name == "sim"
