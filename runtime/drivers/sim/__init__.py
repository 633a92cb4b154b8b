"""A deterministic simulator of CUDA devices: ``driver="sim:devices=2,memory=4GiB,schedule=random,seed=7"``.

It exists so that programs, and above all allocators, can be tested without a GPU and harder than a GPU tests them.
What goes wrong on hardware once in a million runs goes wrong here from a seed, and again from the same seed.

**Addresses.** Device memory is memory of this process, and device addresses are its addresses: host code may follow
them. They depend on nothing but what the program does, as long as it closes its drivers: the first device of the
process lies at 0x200000000000. Memory is taken from the system only where it is written, so that a device of 140 GiB
costs nothing by itself. Fresh memory is filled with the byte ``POISON``, pages of virtual memory when a copy, memset,
``view`` or declared range first touches them.

**Capacity.** Physical memory is counted in pages of 2 MiB, as GPUs do: allocations of up to 1 MiB share pages, larger
ones have their own. ``mem_info`` says what is left. Freed addresses are given out again as soon as they fit.

**Schedules.** Streams are queues. ``eager`` runs work when it is queued; ``lazy`` only when something waits for it,
and then only what is needed; ``random:SEED`` runs some legal next operations at every driver call. A query makes at
most one operation of progress under ``lazy``. The legacy stream waits for all blocking streams and they for it;
non-blocking streams do neither. Whoever waits runs the work, on its own thread. Automatic garbage collection pauses
during calls, so that finalisers run between them, as with a driver that is not written in Python.

**Errors.** Addresses are checked when work runs, not when it is queued. A bad one (outside what is allocated, or mapped
and made accessible) is a sticky error: the next call that waits raises it, and then every call on that device. What a
call can see at once, it raises at once: a missing current device, a bad handle, a double free. After a fork the child
gets ``CUDA_ERROR_NOT_INITIALIZED`` from every call.

**Interrupts.** Whatever exception arrives in whatever call, Ctrl-C above all: a call that raises has changed nothing.
What a call gives back is gone when it returns; the system gets its memory in the next call. A Python function that runs
as a kernel is not cut short by signals: they arrive once it has ended, and a second Ctrl-C at once.

**Waiting.** ``mem_free`` and ``host_free`` wait for the device, as CUDA's do. Unmapping virtual memory does not.

**Clock.** Operations take simulated time, a fixed start and bytes at a fixed rate; what ``event_elapsed_ms`` says
depends on the program alone and not on the schedule.

Beyond the ``Driver`` protocol, ``SimDriver`` runs Python functions as kernels (``launch_host``), shows memory
(``view``), says which queued work touches memory (``pending_access``), what is left over (``live``), what ran
(``log``), and fails on request (``fail_next``). It needs Linux.
"""

from .driver import SimDriver
from .inspection import LiveHandles, PendingAccess
from .mapping import POISON
from .modules import ModuleLoader

__all__ = ["POISON", "LiveHandles", "ModuleLoader", "PendingAccess", "SimDriver"]
