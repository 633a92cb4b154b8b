"""cuplug on the workers of a Dask cluster: two processes here, on the simulator."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cuplug.allocators.errors import CuplugError
from cuplug.plugins.tracing.reader import read_trace
from cuplug.runtime.interop import dask

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_workers_get_allocator_driver_and_trace_and_give_figures_and_traces_back(client: Any, tmp_path: Path) -> None:
    def allocate(dask_worker: Any) -> int:  # inside the test, so that Dask sends the code along
        import cuplug.cuda

        dask_worker.kept = cuplug.cuda.alloc(1000 * (int(dask_worker.name) + 1))
        cuplug.cuda.alloc(5000).close()
        return int(dask_worker.kept.nbytes)

    def settings() -> tuple[str, str]:
        from cuplug.runtime.machine.default_runtime import default_runtime

        chosen = default_runtime().settings
        return str(chosen.allocator), str(chosen.driver)

    with pytest.raises(CuplugError, match=r"call cuplug\.interop\.dask\.install first"):
        dask.statistics(client)
    dask.install(client, allocator="expandable", driver="sim:devices=2", trace=tmp_path / "there")
    assert set(client.run(settings).values()) == {("expandable", "sim:devices=2")}
    assert sorted(client.run(allocate).values()) == [1000, 2000]
    told = dask.statistics(client)
    assert sorted(told) == ["0", "1"]
    for name, devices in told.items():
        assert sorted(devices) == [0, 1]
        assert devices[0]["requested_bytes.all.current"] == 1000 * (int(name) + 1)
        assert devices[0]["requested_bytes.all.peak"] == 1000 * (int(name) + 1) + 5000
        assert devices[1]["requested_bytes.all.peak"] == 0
    paths = dask.gather(client, tmp_path / "here")
    assert [path.name for path in paths] == ["rank0.cuplug", "rank1.cuplug"]
    for number, path in enumerate(paths):
        trace = read_trace(path)
        assert 1000 * (number + 1) in trace.events["requested"].tolist()
        assert trace.header.allocators[0] == "expandable"
    dask.install(
        client, allocator="caching", driver="sim"
    )  # another set-up ends the first, whose traces are whole then
    assert all(read_trace(path).complete for path in (tmp_path / "there").iterdir())
    with pytest.raises(CuplugError, match="without trace=FOLDER"):
        dask.gather(client, tmp_path / "here")


def test_what_a_worker_cannot_do_is_said(client: Any) -> None:
    with pytest.raises(CuplugError, match="nonsense"):
        dask.install(client, allocator="nonsense", driver="sim")
