"""cuplug on the workers of a Dask cluster: the same allocator, a trace of each, libraries put under it.

``install(client, allocator="expandable", trace="traces")`` sets every worker up, also those that join later;
``statistics(client)`` and ``gather(client, "here")`` bring figures and traces back. A GPU for each worker is what
``dask-cuda`` gives, or ``CUDA_VISIBLE_DEVICES``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ...allocators.errors import CuplugError

__all__ = ["gather", "install", "statistics"]


def install(
    client: Any,
    *,
    allocator: str | None = None,
    driver: str | None = None,
    trace: str | os.PathLike[str] | None = None,
    libraries: Sequence[str] = (),
) -> None:
    """Start cuplug in every worker of a cluster, and in those that come later, before they get work.

    Args:
        client: a ``distributed.Client``.
        allocator: the selection, such as ``expandable``; by default what each worker's environment says.
        driver: the selection, such as ``sim``; the same by default.
        trace: a folder on the workers' machines, which is made, relative to each worker's working directory. A worker
            whose name is the number 3 records ``rank3.cuplug`` in it, any other a file called after its name or
            address. None for no traces.
        libraries: what allocates from cuplug there: names out of ``cuplug.interop.LIBRARIES``.

    Raises:
        CuplugError: Dask is not installed, or a worker cannot be set up: what ``cuplug.init`` raised there.
    """
    worker = _worker_module()
    folder = None if trace is None else os.fspath(trace)
    setup = worker.WorkerSetup(allocator=allocator, driver=driver, trace=folder, libraries=tuple(libraries))
    client.register_plugin(setup)


def statistics(client: Any) -> dict[str, dict[int, dict[str, int]]]:
    """What ``cuplug.cuda.memory_stats`` says on each worker, by the worker's name and the device's ordinal.

    Raises:
        CuplugError: ``install`` was not called, or Dask is not installed.
    """
    return _of_each(client, _worker_module().statistics)


def gather(client: Any, folder: str | os.PathLike[str]) -> list[Path]:
    """Bring the workers' traces here, as far as they are written.

    Args:
        client: a ``distributed.Client``.
        folder: where to, made if need be. A trace keeps its name.

    Returns:
        The files, by the workers' names: ``cuplug-trace summary FOLDER`` compares them.

    Raises:
        CuplugError: no traces were asked for, ``install`` was not called, or Dask is not installed.
        OSError: a file cannot be written.
    """
    found = _of_each(client, _worker_module().recorded)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in sorted(found, key=lambda name: (not name.isdecimal(), int(name) if name.isdecimal() else 0, name)):
        path = target / found[name][0]
        path.write_bytes(found[name][1])
        paths.append(path)
    return paths


def _worker_module() -> Any:
    try:
        import_module("distributed")
    except ModuleNotFoundError:
        raise CuplugError("cuplug.interop.dask needs Dask: pip install 'cuplug[dask]'") from None
    return import_module(".dask_worker", __package__)


def _of_each(client: Any, ask: Any) -> dict[str, Any]:
    """What a function, called with the worker, gives on each of them, by its name."""
    return dict(client.run(ask).values())
