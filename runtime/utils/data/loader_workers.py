"""The workers of a loader, as the program sees them: what they are asked for, their answers, and their end.

What a worker does in its own process is in ``loader_process.py``. One that has died is noticed when its next answer is
waited for: its process has ended, or its pipe is broken.
"""

from __future__ import annotations

import multiprocessing
import secrets
import sys
from collections.abc import Callable, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from ....allocators.errors import CuplugError
from ..wrapped_exceptions import ExceptionWrapper
from .loader_process import Finished, Task, discard, load, receive, to_its_end

_OPEN: set[Connection] = set()
"""The program's ends of all workers' pipes, of all loaders. A fork copies each that is open, and while a copy is open
no worker sees its pipe closed."""


class LoaderWorkers:
    """The workers of a loader, each a process with a pipe of its own."""

    def __init__(self, tasks: Sequence[Callable[[str], Task]], *, context: Any, timeout: float) -> None:
        """Start a worker for each task.

        Args:
            tasks: make what a worker is told, of what the names of its blocks of shared memory begin with.
            context: makes the processes, as a context of ``multiprocessing`` or its name; if None by a fork on Linux,
                as torch's, so that data sets need not be picklable, and as Python does elsewhere.
            timeout: how long a batch may take, in seconds; 0 for any time.
        """
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context or ("fork" if sys.platform == "linux" else None))
        forks = context.get_start_method() == "fork"
        resource_tracker.ensure_running()  # one for all: a worker's own would remove its blocks when the worker ends
        self._timeout = timeout
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        self._asked: list[int] = []
        """By worker: how many batches were asked for."""
        self._taken: list[int] = []
        """By worker: how many of its answers were taken; the blocks of the others' shared memory may still be there."""
        self._blocks = f"cu{secrets.token_hex(5)}"  # some systems' names have 30 letters at most
        try:
            for number, task in enumerate(tasks):
                own, theirs = context.Pipe()
                _OPEN.add(own)
                inherited = list(_OPEN) if forks else []
                told = (task(self._named(number)), theirs, inherited)
                process = context.Process(target=load, args=told, daemon=True)
                process.start()
                theirs.close()
                self._pipes.append(own)
                self._processes.append(process)
                self._asked.append(0)
                self._taken.append(0)
        except BaseException:
            self.close()
            raise

    @property
    def processes(self) -> list[Any]:
        """One for each worker."""
        return list(self._processes)

    def _named(self, worker: int) -> str:
        return f"{self._blocks}-{worker}"

    def begin(self) -> None:
        """Let each worker begin an epoch."""
        for pipe in self._pipes:
            pipe.send(None)

    def first_of(self, order: Sequence[int]) -> int:
        """Of workers that are to answer, the first that has done so, or ended."""
        asked = {self._pipes[each]: each for each in dict.fromkeys(order)}
        ends = {self._processes[each].sentinel: each for each in asked.values()}
        ready = wait([*asked, *ends], self._timeout or None)
        return next((each for key, each in (*asked.items(), *ends.items()) if key in ready), order[0])

    def send(self, worker: int, asked: Any) -> None:
        """Ask a worker for a batch.

        Raises:
            CuplugError: it has ended by itself.
        """
        self._asked[worker] += 1
        try:
            self._pipes[worker].send(asked)
        except (BrokenPipeError, OSError):
            raise self._lost(worker) from None

    def answer(self, worker: int) -> Any:
        """What a worker answers next.

        Raises:
            CuplugError: it ended by itself, or made no batch in time.
        """
        pipe, process = self._pipes[worker], self._processes[worker]
        if not wait([pipe, process.sentinel], self._timeout or None):
            process.terminate()  # whoever closes the loader now would wait for it again
            raise CuplugError(f"DataLoader timed out after {self._timeout} seconds: worker {worker} has made no batch")
        try:
            answer = pipe.recv()
        except (EOFError, OSError):
            raise self._lost(worker) from None
        if isinstance(answer, (ExceptionWrapper, Finished)):
            self._taken[worker] += 1
        return answer

    def receive(self, worker: int, answer: Any) -> Any:
        """The batch of a worker's answer."""
        batch = receive(answer)
        self._taken[worker] += 1
        return batch

    def _lost(self, worker: int) -> CuplugError:
        process = self._processes[worker]
        process.join(1)
        return CuplugError(
            f"worker {worker} of a DataLoader, process {process.pid}, ended by itself with exit code "
            f"{process.exitcode}; a negative one is the number of the signal that killed it"
        )

    def close(self) -> None:
        """End the workers. Batches that nobody took leave no memory. An interrupt meanwhile is raised afterwards."""
        to_its_end(self._end)

    def _end(self) -> None:
        while self._pipes or self._processes:
            self._end_one()

    def _end_one(self) -> None:
        """Close a pipe, which ends its worker; once there is none any more, wait for a process, and remove what it
        left. Can be repeated where it was interrupted."""
        if self._pipes:
            self._pipes[-1].close()
            _OPEN.discard(self._pipes.pop())
            return
        process, worker = self._processes[-1], len(self._processes) - 1
        process.join(5)
        if process.is_alive():
            process.terminate()
            process.join()
        if worker < len(self._asked):  # else it was interrupted while it began
            for answer in range(self._taken[worker], self._asked[worker]):
                discard(self._named(worker), answer + 1)
        self._processes.pop()

    def __del__(self) -> None:
        if self._pipes or self._processes:
            self.close()
