"""Dask's workers give the bytes that processes of one's own give."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cuplug.plugins.tracing.writer import TraceWriter
from cuplug.tools.console import UsageError
from cuplug.tools.replaying.work_on_dask import on_dask

from ..conftest import Command

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small histories."""
    folder = tmp_path_factory.mktemp("job")
    for rank in range(2):
        writer = TraceWriter(folder / f"rank{rank}.cuplug", {})
        for number in range(300):
            nbytes = (number * 7 % 13 + 1 + rank) << 20
            writer.append(1, 0, 1000 * number, 0, 0, (number + 1) << 30, nbytes, nbytes, 0)
            if number > 3:
                nbytes = ((number - 4) * 7 % 13 + 1 + rank) << 20
                writer.append(2, 0, 1000 * number + 1, 0, 0, (number - 3) << 30, nbytes, nbytes, 0)
        writer.close()
    return folder


def test_two_workers_started_here_give_the_bytes_of_two_processes(command: Command, folder: Path) -> None:
    compare_bytes(command, "local", ("fit", folder, "--json", "-a", "direct", "-a", "caching:preset=torch"))


def test_workers_of_a_cluster_give_the_bytes_of_two_processes(command: Command, folder: Path) -> None:
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    ) as cluster:
        for line in (
            ("advise", folder),
            ("advise", folder, "--json"),
            ("advise", folder / "rank1.cuplug", "--json"),
            ("compare", folder, "-a", "expandable"),
            ("fit", folder, "-a", "direct"),
        ):
            compare_bytes(command, cluster.scheduler_address, line)


def compare_bytes(command: Command, scheduler: str, line: tuple[object, ...]) -> None:
    own = command(*line, "--jobs", 2)
    others = command(*line, "--jobs", 2, "--scheduler", scheduler)
    assert own.exit_code == others.exit_code == 0, others.stderr
    assert others.stdout_bytes == own.stdout_bytes
    assert len(own.stdout_bytes) > 100


def test_a_scheduler_that_does_not_answer_is_one_line(
    refused: Callable[..., str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuplug.tools.replaying.work_on_dask._PATIENCE", "1s")
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in refused(
        "fit", folder, "-a", "direct", "--scheduler", "tcp://127.0.0.1:9"
    )
    assert "no Dask scheduler answers at nonsense" in refused("fit", folder, "-a", "direct", "--scheduler", "nonsense")


def test_without_dask_the_option_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("cuplug.tools.replaying.work_on_dask.import_module", missing)
    with pytest.raises(UsageError, match=r"pip install 'cuplug\[dask\]'"):
        on_dask(len, [""], "local", 1, lambda: None)
