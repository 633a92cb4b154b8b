"""Runs one function over many items on Dask's workers: those of a cluster, or some started here for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, TypeVar

from ..console import UsageError

T = TypeVar("T")
R = TypeVar("R")

_RETRIES = 2
"""How often an item is tried again whose worker died."""
_PATIENCE = "15s"
"""How long a scheduler may take to answer."""


def on_dask(
    function: Callable[[T], R], items: list[T], scheduler: str, workers: int, done: Callable[[], None]
) -> list[R]:
    """``function`` of every item, in order.

    Args:
        function: a module's function, since workers import it. They find files where their own folder has them: name
            files by whole paths, or by addresses.
        items: what to give it. They and the results are pickled.
        scheduler: its address, such as ``tcp://host:8786``; or ``local``.
        workers: how many processes to start for ``local``.
        done: called after each item.

    Raises:
        UsageError: Dask is not installed, the scheduler does not answer, or workers die over an item.
        Exception: whatever ``function`` raises.
    """
    try:
        distributed: Any = import_module("distributed")
    except ModuleNotFoundError:
        raise UsageError("--scheduler needs Dask: pip install 'cuplug[dask]', or leave it out") from None
    with _client(distributed, scheduler, workers) as client:
        futures = client.map(function, items, pure=False, retries=_RETRIES)
        try:
            for future in distributed.as_completed(futures):
                if future.status != "finished":
                    future.result()  # raises
                done()
            results: list[R] = client.gather(futures)
        except distributed.KilledWorker:
            raise UsageError(
                f"workers of the Dask cluster {scheduler} died over the same work {_RETRIES + 1} times; if memory ran "
                "out, give them more, or use fewer"
            ) from None
        except BaseException:
            with suppress(Exception):
                client.cancel(futures)
            raise
    return results


@contextmanager
def _client(distributed: Any, scheduler: str, workers: int) -> Iterator[Any]:
    for name in ("distributed", "distributed.worker", "distributed.scheduler", "distributed.nanny", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what goes wrong is said in one line, here
    if scheduler == "local":
        with (
            distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,
            ) as cluster,
            distributed.Client(cluster) as client,
        ):  # fmt: skip
            yield client
        return
    try:
        client = distributed.Client(scheduler, timeout=_PATIENCE)
    except (OSError, ValueError, TimeoutError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(
            f"no Dask scheduler answers at {scheduler} ({why}): name one such as tcp://host:8786, or local"
        ) from None
    with client:
        yield client
