"""What a process does to its runtimes: it exits, and it forks."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from typing import Protocol

from ...allocators.errors import CuplugError
from ...allocators.exiting import note_exit, wait_if_exiting
from ..drivers.forking import in_forked_child


class _Closable(Protocol):
    def close(self) -> None: ...

    def end_work(self) -> CuplugError | None: ...

    def abandon(self, why: str) -> None: ...


_open: set[_Closable] = set()
_left: set[_Closable] = set()
_pid = os.getpid()
_at_exit_registered = False
_exiting = False


def check_not_exiting() -> None:
    """Raise CuplugError once the interpreter exits: a thread that still runs then must not start anything."""
    if _exiting:
        wait_if_exiting()
        raise CuplugError("cuplug was closed, since the interpreter exits; end or join threads before that")


def register(runtime: _Closable) -> None:
    """Close ``runtime`` when the interpreter exits, and abandon it in a forked child."""
    global _at_exit_registered
    _open.add(runtime)
    if not _at_exit_registered:
        # After the driver was imported: what the driver's libraries do at exit, they do after this.
        atexit.register(_close_all)
        _at_exit_registered = True


def forget(runtime: _Closable) -> None:
    """The runtime was closed."""
    _open.discard(runtime)


def leave_open(runtime: _Closable) -> None:
    """Do not close ``runtime`` when the interpreter exits: another library may use its memory until the end."""
    _left.add(runtime)


def is_left_open(runtime: _Closable) -> bool:
    """Whether another library may use its memory until the process ends."""
    return runtime in _left


def _close_all() -> None:
    global _exiting
    _exiting = True
    note_exit()
    for runtime in list(_open):
        unseen = runtime.end_work()
        if unseen is not None and sys.stderr is not None:
            print(f"cuplug: work failed that the program did not wait for: {unseen}", file=sys.stderr, flush=True)
    for runtime in list(_open - _left):
        # What a device's work did was told.
        with contextlib.suppress(CuplugError):
            runtime.close()


@in_forked_child
def _abandon_all() -> None:
    global _pid
    parent, _pid = _pid, os.getpid()
    for runtime in _open:
        runtime.abandon(
            f"CUDA cannot be used in a process forked after its first use (in process {parent}, this is {_pid}); "
            "start workers with multiprocessing's 'spawn' or 'forkserver' method, or fork before the first use"
        )
