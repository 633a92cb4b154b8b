"""Opens whatever holds a trace, by its content."""

from __future__ import annotations

import os
from pathlib import Path

from ...allocators.errors import TraceError
from ...plugins.tracing.contents import Trace
from ...plugins.tracing.format import is_trace
from ...plugins.tracing.reader import read_trace
from .rmm_log import is_rmm_log, read_rmm_log
from .safe_pickles import is_pickle
from .snapshot_reader import GZIP_MAGIC, XZ_MAGIC, read_snapshot

__all__ = ["load"]


def load(path: str | os.PathLike[str]) -> Trace:
    """Read a cuplug trace, a PyTorch memory snapshot (pickle, also compressed with gzip or xz), or RMM's CSV log.

    Raises:
        TraceError: there is no such file, or it is neither, or damaged. The message is one line.
    """
    path = os.fspath(path)
    try:
        if not Path(path).is_file():
            found = "is not a regular file" if Path(path).exists() else "does not exist"
            raise TraceError(f"{path} {found}: name a cuplug trace or a PyTorch memory snapshot")
        with open(path, "rb") as file:
            head = file.read(8)
    except (OSError, ValueError) as error:
        raise TraceError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if not head:
        raise TraceError(f"{path} is empty: no trace was written to it")
    if is_pickle(head) or head.startswith((XZ_MAGIC, GZIP_MAGIC)):
        return read_snapshot(path)
    if is_trace(head):
        return read_trace(path)
    if is_rmm_log(head):
        return read_rmm_log(path)
    raise TraceError(
        f"{path} is neither a cuplug trace nor a PyTorch memory snapshot (.pickle, .pickle.xz, .pickle.gz) "
        "nor a CSV log of RMM's: "
        f"it begins with {head!r}"
    )
