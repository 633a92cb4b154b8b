"""Puts cuplug under PyTorch: what is checked first, and what happens when."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

from ....allocators.errors import CuplugError
from ....allocators.native import is_available, why_not
from ...machine.process import leave_open
from ...machine.settings import AllocatorChoice
from ...memory.native_functions import allocator_handle
from ..installations import check_same, import_library, note_installed, runtime_for
from .alloc_conf import follow
from .host_tags import keep_on_host, without_host_tags

if TYPE_CHECKING:
    from ...machine.runtime import Runtime
    from .self_test import Verdict

VARIABLE = "CUPLUG_TORCH"
"""The environment variable that names the allocator to put under PyTorch in any program, without a change to it."""

_library: ctypes.CDLL | None = None
_find: Any = None  # the callback, which has to live as long as the process
_installed_with: AllocatorChoice | None = None  # what was asked for, or its default


def is_installed() -> bool:
    """Whether PyTorch allocates from cuplug in this process."""
    return _library is not None


def check(allocator: AllocatorChoice | None = None) -> None:
    """Find out whether PyTorch can be put on cuplug's memory now; changes nothing and starts no device.

    Args:
        allocator: the selection that ``install`` is to be given.

    Raises:
        CuplugError: PyTorch is not installed, has no CUDA, or has used CUDA already; or cuplug's native allocators are
            not there; or torch_memory_saver hooks memory that cuplug does not ask for; or PyTorch is on cuplug's memory
            with another allocator.
    """
    if is_installed():
        check_same("PyTorch", _installed_with, allocator)
        return
    if "torch_memory_saver" in os.environ.get("LD_PRELOAD", ""):
        raise CuplugError(
            "torch_memory_saver is loaded over cudaMalloc (LD_PRELOAD), which cuplug never calls: it would save "
            "nothing. Choose its other mode (torch_memory_saver.hook_mode = 'torch'), or let tensors made within "
            "cuplug.cuda.memory_tag sleep by cuplug.cuda.sleep"
        )
    if not is_available():
        raise CuplugError(f"PyTorch needs cuplug's native allocators, which are not used here: {why_not()}")
    torch = import_library("torch", "PyTorch", "torch")
    if torch.version.cuda is None:
        raise CuplugError(
            f"this PyTorch ({torch.__version__}) has no CUDA, so that cuplug cannot serve it; install one that has: "
            "https://pytorch.org/get-started/locally"
        )
    if torch.cuda.is_initialized():
        raise CuplugError(
            "PyTorch has used CUDA already, and its memory cannot be taken over: install cuplug before the first CUDA "
            f"tensor, or set {VARIABLE} when the program starts"
        )


def install(allocator: AllocatorChoice | None = None) -> None:
    """Put PyTorch on cuplug's memory, for the rest of the process.

    The first time for a version of PyTorch, this compiles the bridge to it, which takes some ten seconds and needs a
    C++ compiler; and it tries the bridge in a child process, which takes about two. Where PyTorch does not do there
    what it has to, its own allocator stays, and a warning says why. Else no device is touched: cuplug's runtime starts
    with PyTorch's first CUDA memory. What ``PYTORCH_CUDA_ALLOC_CONF`` says is followed as far as the allocator can; one
    warning names the rest.

    Args:
        allocator: ``expandable`` or ``caching``, with options as everywhere (``caching:memory_limit=8GiB``). By default
            what ``CUPLUG_ALLOCATOR`` says, else ``expandable``. With ``expandable:host=64GiB,host_tags=optimizer``
            the states of PyTorch's optimisers lie in the host's memory; ``gradients`` and ``module:NAME`` can be
            named, too, with + between them. Called again with the same choice, or none, it does nothing.

    Raises:
        CuplugError: as ``check``; or the bridge does not compile for this PyTorch.
        UnknownAllocatorError: no plugin contributes the allocator.
    """
    global _installed_with
    check(allocator)
    if is_installed():
        return
    asked = allocator or os.environ.get("CUPLUG_ALLOCATOR") or "expandable"
    choice, host_tags = _check_choice(asked)
    idle = ""
    if isinstance(choice, str):
        followed, idle = follow(choice, os.environ)
        choice, _ = _check_choice(followed or choice)
    strategy = "caching" if str(choice).partition(":")[0] == "caching" else "expandable"
    verdict = try_out(strategy)
    if verdict.state == "failed":
        _warn(
            "PyTorch keeps its own allocator, since it does not run on cuplug's memory here: "
            f"{verdict.text}. To try again: cuplug-trace doctor --torch"
        )
        return
    if idle:
        _warn(idle)
    from ...drivers.cuda.availability import has_pycuda  # it brings the whole driver

    if has_pycuda() or not isinstance(choice, str):
        _put_under(lambda device: _handle(device, choice), strategy=strategy)
        import torch

        torch.cuda._lazy_call(lambda: _start(torch._C._cuda_getDevice(), choice))
    else:
        if os.environ.get("CUPLUG_TRACE"):
            _warn("no trace is written, which needs PyCUDA: pip install 'cuplug[cuda]'")
        _put_under(lambda device: core_handle(device, choice), strategy=strategy)
    if host_tags:
        keep_on_host(host_tags)
    _installed_with = asked


def try_out(strategy: str, *, again: bool = False) -> Verdict:
    """Whether PyTorch runs here on cuplug's allocator ``strategy``, ``caching`` or ``expandable``: what is known of it,
    or what a child process finds out, in about two seconds.

    Args:
        strategy: the allocator, without options.
        again: whether to find out although it is known.

    Raises:
        CuplugError: as ``check``; or the bridge does not compile for this PyTorch.
    """
    from .compilation import bridge_library
    from .self_test import self_test

    def put_under(name: str) -> None:
        _put_under(lambda device: core_handle(device, name), strategy=name)

    torch = import_library("torch", "PyTorch", "torch")
    bridge_library()
    return self_test(torch, strategy, put_under, again=again)


def _check_choice(allocator: AllocatorChoice) -> tuple[AllocatorChoice, tuple[str, ...]]:
    """The allocator that is meant, and what is to lie on the host. Raises what is wrong with them."""
    allocator, host_tags = without_host_tags(allocator)
    if isinstance(allocator, str):
        from ....plugins.manager import default_manager

        default_manager().check_allocator(allocator)
        if allocator.partition(":")[0] in ("direct", "bump"):
            raise CuplugError(
                f"the allocator {allocator!r} runs in Python, which PyTorch cannot use; choose expandable or caching"
            )
    return allocator, host_tags


def _put_under(find: Any, *, strategy: str | None = None) -> None:
    """Put a bridge in place that asks ``find`` for the handle of a device's allocator, once for each device.

    ``strategy``: what that will be, made as PyTorch's settings say. Where it is not known, a warning names those
    settings that have no effect then, and the allocators may have pages: whether they do is asked of each.
    """
    global _library, _find
    if strategy is None:
        idle = follow(None, os.environ)[1]
        if idle:
            _warn(idle)
    from ....allocators import _native
    from .compilation import bridge_library

    library = bridge_library()

    def answer(device: int, message: int, room: int) -> int:
        try:
            handle: int = find(device)
        except BaseException as error:
            text = str(error).encode()[: room - 1] + b"\0"
            ctypes.memmove(message, text, len(text))
            return 0
        return handle

    callback = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(answer)
    message = ctypes.create_string_buffer(1024)
    core, has_pages = str(_native.__file__).encode(), int(strategy != "caching")
    if library.cuplug_torch_install(core, callback, has_pages, message, len(message)):
        raise CuplugError(f"PyTorch refuses cuplug's memory: {message.value.decode(errors='replace')}")
    _library, _find = library, callback
    atexit.register(_end, library)


def _end(library: ctypes.CDLL) -> None:
    """The interpreter exits: the bridge keeps the daemon threads that ask for memory. Python would end them where they
    take its lock again, and that is in destructors of PyTorch's, which end the process by an abort."""
    threads = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    # Threads of other libraries' own, such as autograd's, are waited for by these.
    daemons = [
        thread.native_id or 0 for thread in threads if thread.daemon and not isinstance(thread, threading._DummyThread)
    ]
    library.cuplug_torch_end((ctypes.c_int * len(daemons))(*daemons), ctypes.c_size_t(len(daemons)))


def _start(device: int, allocator: AllocatorChoice | None) -> None:
    """Start the runtime, and its driver on the device that PyTorch has current. PyTorch calls this once it has started
    CUDA: PyCUDA has to be imported, and to find the device's context, outside of an allocation of PyTorch's."""
    runtime = runtime_for("PyTorch", allocator)
    with runtime.on_device(device):
        _handle(device, allocator)


def _handle(device: int, allocator: AllocatorChoice | None) -> int:
    """The handle of a device's allocator, in the runtime that starts now if there is none."""
    runtime = runtime_for("PyTorch", allocator)
    handle = allocator_handle(device, runtime=runtime)
    _outlive(runtime)
    return handle


@cache
def _outlive(runtime: Runtime) -> None:
    """Leave the memory to the end of the process: what PyTorch and its libraries still do when the interpreter exits
    must find it where it was. Only a trace is closed then."""
    note_installed("torch", runtime)
    leave_open(runtime)
    recorder = runtime.recorder
    if recorder is not None:
        atexit.register(recorder.close)
        atexit.register(recorder.closing)


_core_allocators: dict[tuple[int, str], Any] = {}


def core_handle(device: int, selection: str) -> int:
    """The handle of an allocator of the core's own for a device, which lives as long as the process."""
    from .core_memory import make_core_allocator

    key = device, selection
    if key not in _core_allocators:
        _core_allocators[key] = make_core_allocator(selection, device)
    handle: int = _core_allocators[key]._core_handle()
    return handle


def _warn(text: str) -> None:
    warnings.warn_explicit(f"cuplug: {text}", RuntimeWarning, "cuplug", 0)  # one line, whoever calls
