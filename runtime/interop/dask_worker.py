"""What runs inside Dask's workers: see ``dask.py``. Importing this imports Dask."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from ...allocators.errors import CuplugError
from ..machine.default_runtime import default_runtime, init, shutdown
from ..memory.memory_stats import memory_stats

_WorkerPlugin: Any = import_module("distributed").WorkerPlugin


class WorkerSetup(_WorkerPlugin):  # type: ignore[misc]
    """Starts cuplug when a worker starts, and ends it with the worker, which makes its trace whole."""

    name = "cuplug"
    idempotent = False

    def __init__(
        self, *, allocator: str | None, driver: str | None, trace: str | None, libraries: tuple[str, ...]
    ) -> None:
        self.allocator = allocator
        self.driver = driver
        self.trace = trace
        self.libraries = libraries
        self.path: str | None = None

    def setup(self, worker: Any) -> None:
        """Called by Dask in each worker.

        Raises:
            CuplugError: what ``cuplug.init`` and ``cuplug.interop.install`` raise.
        """
        if self.trace is not None:
            Path(self.trace).mkdir(parents=True, exist_ok=True)
            self.path = str(Path(self.trace).absolute() / file_name(str(worker.name)))
        init(allocator=self.allocator, driver=self.driver, trace=self.path)
        if self.libraries:
            from . import install

            install(*self.libraries, allocator=self.allocator)

    def teardown(self, worker: Any) -> None:  # noqa: ARG002 - as Dask calls it
        """Called by Dask when the worker ends, or when another set-up takes this one's place."""
        shutdown()


def file_name(worker: str) -> str:
    """What a worker's trace is called: ``rank3.cuplug`` for worker 3, else after its name or address."""
    kept = "".join(letter if letter.isalnum() else "-" for letter in worker).strip("-")
    return f"rank{kept}.cuplug" if worker.isdecimal() else f"{kept}.cuplug"


def statistics(dask_worker: Any) -> tuple[str, dict[int, dict[str, int]]]:
    """A worker's name, and its devices' statistics.

    Raises:
        CuplugError: cuplug was not started there.
    """
    _own_setup(dask_worker)
    runtime = default_runtime()
    return str(dask_worker.name), {
        device: memory_stats(device, runtime=runtime) for device in range(runtime.driver.device_count())
    }


def recorded(dask_worker: Any) -> tuple[str, tuple[str, bytes]]:
    """A worker's name, and its trace so far: the file's name, and what it holds.

    Raises:
        CuplugError: cuplug was not started there, or records no trace.
    """
    path = _own_setup(dask_worker).path
    if path is None:
        raise CuplugError("there are no traces: cuplug.interop.dask.install was called without trace=FOLDER")
    return str(dask_worker.name), (Path(path).name, Path(path).read_bytes())


def _own_setup(worker: Any) -> WorkerSetup:
    setup = worker.plugins.get(WorkerSetup.name)
    if setup is None:
        raise CuplugError("cuplug was not started on this cluster's workers: call cuplug.interop.dask.install first")
    found: WorkerSetup = setup
    return found
