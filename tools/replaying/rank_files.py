"""The processes of a job, read from their files side by side."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.ranks import Job, Rank, job_of, rank_of
from ..analysis.summarize import summarize
from ..foreign.load import load
from .worker_pool import in_parallel


def job_of_files(files: Sequence[str], *, jobs: int, scheduler: str | None = None) -> Job:
    """Compare the processes that wrote these files.

    Args:
        files: one for each process.
        jobs: how many processes to read them with.
        scheduler: what gives the work out (``in_parallel``).

    Raises:
        TraceError, UsageError: a file cannot be read.
    """
    return job_of(in_parallel(rank_of_file, files, jobs=jobs, description="reading", scheduler=scheduler))


def rank_of_file(file: str) -> Rank:
    """One process's figures beside those of the others.

    Raises:
        TraceError: the file cannot be read.
    """
    trace = load(file)
    return rank_of(trace, summarize(trace))
