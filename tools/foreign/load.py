"""Opens whatever holds a trace, by its content."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

import numpy as np

from ...allocators.errors import TraceError
from ...plugins.tracing.format import is_trace
from ...plugins.tracing.reader import read_trace
from ...plugins.tracing.trace_in_memory import Trace
from .addresses import is_address, local_copy
from .nsight_export import is_sqlite, read_nsight_export
from .profiler_trace import is_json, read_profiler_trace
from .rmm_log import is_rmm_log, read_rmm_log
from .safe_pickles import is_pickle
from .snapshot_reader import GZIP_MAGIC, XZ_MAGIC, read_snapshot

_FAMILIAR = (
    (b"PK\3\4", "is a zip archive, as torch.save writes one too: unpack it, and name the pickle in it"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd: decompress it first, with zstd -d"),
    (b"BZh", "is compressed with bzip2: decompress it first, with bunzip2"),
    (b"PAR1", "is a Parquet table, which is for other tools: name the trace that it was exported from"),
    (b"version ", "looks like a pointer of Git LFS: fetch the file itself with git lfs pull"),
    (b"<", "is a page (HTML or XML): name the trace or the snapshot that it was made from"),
)
"""How files begin that people give in place of a trace, and what to do with each."""


def load(path: str | os.PathLike[str]) -> Trace:
    """Read a history: a cuplug trace, a PyTorch memory snapshot (pickle, also compressed with gzip or xz), RMM's CSV
    log, an SQLite export of Nsight Systems, or a Chrome trace of PyTorch's profiler.

    A path with a protocol, such as ``s3://bucket/run.cuplug``, is opened with ``fsspec``.

    Raises:
        TraceError: there is no such file, or it is neither, or damaged. The message is one line.
    """
    path = os.fspath(path)
    if is_address(path):
        return _at_address(path)
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
    if is_sqlite(head):
        return read_nsight_export(path)
    if is_json(head) or (head.startswith(GZIP_MAGIC) and is_json(_unzipped(path))):
        return read_profiler_trace(path)
    if is_pickle(head) or head.startswith((XZ_MAGIC, GZIP_MAGIC)):
        return read_snapshot(path)
    if is_trace(head):
        return read_trace(path)
    if is_rmm_log(head):
        return read_rmm_log(path)
    for beginning, what in _FAMILIAR:
        if head.lstrip().startswith(beginning):
            raise TraceError(f"{path} {what}")
    raise TraceError(
        f"{path} is neither a cuplug trace nor a PyTorch memory snapshot (.pickle, .pickle.xz, .pickle.gz) "
        "nor a CSV log of RMM's, an SQLite export of Nsight Systems or a Chrome trace of PyTorch's profiler: "
        f"it begins with {head!r}"
    )


def _unzipped(path: str) -> bytes:
    """The first bytes of what a compressed file holds; none where it is damaged."""
    try:
        with gzip.open(path) as file:
            return file.read(8)
    except (OSError, EOFError, zlib.error):
        return b""


def _at_address(address: str) -> Trace:
    with local_copy(address) as path:
        try:
            trace = load(path)
            trace.events = np.array(trace.events)  # of a file that goes with the block
        except TraceError as error:
            raise TraceError(str(error).replace(path, address)) from None
    trace.path = address
    return trace
