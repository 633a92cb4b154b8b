"""Several processes that train one network: ``distributed`` and ``nn.parallel.DistributedDataParallel``."""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug import distributed, nn
from cuplug.runtime.distributed import tcp_store
from cuplug.runtime.distributed.connections import Connections
from cuplug.runtime.distributed.process_group import store_of_ranks
from cuplug.runtime.distributed.tcp_store import TCPStore, received

RANKS = Path(__file__).with_name("distributed_ranks.py")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def ranks(*names: str, where: str = "cpu", statuses: tuple[int, ...] = (0, 0)) -> list[dict[str, list[str]]]:
    """What each of several processes prints, line by line, by the name of what it does. They end with ``statuses``."""
    size = len(statuses)
    environment = {**os.environ, "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    command = [sys.executable, str(RANKS), *names, where]
    processes = [
        subprocess.Popen(command, env={**environment, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(size)
    ]
    try:
        printed = [each.communicate(timeout=200)[0] for each in processes]
    finally:
        for each in processes:
            each.kill()
    assert tuple(each.returncode for each in processes) == statuses
    parts = [[part.splitlines() for part in each.split("--- ")[1:]] for each in printed]
    return [{part[0]: part[1:] for part in each} for each in parts]


@pytest.fixture(scope="module")
def on_cpu() -> list[dict[str, list[str]]]:
    """Two processes on the CPU that do one thing after the other: starting them takes longest."""
    return ranks("collectives", "training", "buffers", "unused", "different", "disagree")


@pytest.fixture(scope="module", params=["cpu", "cuda"])
def anywhere(request: pytest.FixtureRequest) -> list[dict[str, list[str]]]:
    """Two processes on the CPU, and two with a simulated device each."""
    if request.param == "cpu":
        found: list[dict[str, list[str]]] = request.getfixturevalue("on_cpu")
        return found
    return ranks("collectives", "training", where="cuda")


def test_collectives_give_all_ranks_what_torch_says(anywhere: Any) -> None:
    assert [each["collectives"] for each in anywhere] == [["all right"]] * 2


def test_two_processes_train_as_one_with_both_batches(anywhere: Any) -> None:
    first, second = (each["training"] for each in anywhere)
    assert first == second  # bit by bit
    found = {words[0]: [float.fromhex(each) for each in words[1:]] for words in map(str.split, first)}
    for name, expected in trained_alone().items():
        np.testing.assert_allclose(found[name], expected, 1e-9, 1e-12, err_msg=name)


def trained_alone() -> dict[str, Any]:
    """The same steps in one process, with all ranks' batches."""
    spec: dict[str, Any] = {"__name__": "ranks"}
    before = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE")}
    os.environ.update(RANK="0", WORLD_SIZE="2")
    try:
        exec(compile(RANKS.read_text(), str(RANKS), "exec"), spec)
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    cuplug.manual_seed(0)
    net = spec["Net"]().double().eval()
    step = cuplug.optim.AdamW(net.parameters(), lr=0.05)
    for number in range(4):
        step.zero_grad()
        x, y = (cuplug.tensor(each) for each in spec["batches"](number))
        for _ in range(2 if number == 2 else 1):
            nn.functional.mse_loss(net(x), y).backward()
        step.step()
    return {name: each.detach().numpy().reshape(-1) for name, each in net.named_parameters()}


def test_each_pass_begins_with_the_buffers_of_rank_0(on_cpu: Any) -> None:
    assert [each["buffers"] for each in on_cpu] == [["2.0 1", "2.0 2"], ["4.0 1", "4.0 2"]]


def test_parameters_without_gradients_are_an_error_or_are_found(on_cpu: Any) -> None:
    for each in on_cpu:
        error, untouched, other = each["unused"]
        assert error.startswith("DistributedDataParallel: the pass before ended without gradients of extra.bias, extra")
        assert "find_unused_parameters=True" in error
        assert untouched == "None"
        assert other.startswith("True [")
    assert on_cpu[0]["unused"][1:] == on_cpu[1]["unused"][1:]


def test_networks_that_differ_are_refused(on_cpu: Any) -> None:
    for rank, each in enumerate(on_cpu):
        assert f"the parameters of ranks [{1 - rank}] have other names, types or shapes" in each["different"][0]


def test_ranks_that_make_different_calls_are_told_and_can_begin_again(on_cpu: Any) -> None:
    found = [each["disagree"][0] for each in on_cpu]
    assert any("all ranks have to make the same calls" in each for each in found)
    assert all("all ranks have to make the same calls" in each or "has ended or died" in each for each in found)


def test_a_rank_that_dies_is_named() -> None:
    first, other, dead = (each["dies"] for each in ranks("dies", statuses=(0, 0, 3)))
    assert dead == []
    for found in (first, other):
        assert "has ended or died; see its output" in found[0]
        assert found[1].startswith("the process group cannot be used any more")


def test_a_rank_that_comes_back_before_rank_0_has_left_waits_for_the_next_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = TCPStore("127.0.0.1", 0, is_master=True, timeout=60)
    old.add("met", 2)
    closed, close = threading.Event(), TCPStore.close
    found: list[TCPStore] = []

    def note(store: TCPStore) -> None:
        close(store)
        closed.set()

    monkeypatch.setattr(TCPStore, "close", note)
    rank = threading.Thread(target=lambda: found.append(store_of_ranks("127.0.0.1", old.port, 1, 60)))
    rank.start()
    assert closed.wait(60)  # it has seen the old one
    old.close()
    new = TCPStore("127.0.0.1", old.port, is_master=True, timeout=60)
    rank.join(60)
    new.set("where", "here")
    assert found[0].get("where") == b"here"
    for each in (*found, new):
        each.close()


def test_a_group_that_rank_0_does_not_leave_is_an_error() -> None:
    store = TCPStore("127.0.0.1", 0, is_master=True, timeout=60)
    store.add("met", 2)
    with pytest.raises(
        cuplug.CuplugError, match=r"have met without this process, rank 1, and rank 0 has not left .* within 0\.1 s"
    ):
        store_of_ranks("127.0.0.1", store.port, 1, 0.1)
    store.close()


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="RANK is not set: start the program with torchrun"):
        distributed.init_process_group("gloo")
    monkeypatch.setenv("MASTER_PORT", "1")
    with pytest.raises(ValueError, match="MASTER_ADDR not set"):
        distributed.init_process_group("gloo", rank=0, world_size=2)
    with pytest.raises(ValueError, match="there is no backend 'mpi'"):
        distributed.init_process_group("mpi", rank=0, world_size=2)
    with pytest.raises(ValueError, match="rank 2 of 2 processes"):
        distributed.init_process_group("gloo", rank=2, world_size=2)
    with pytest.raises(cuplug.CuplugError, match=r"nobody answers at 127\.0\.0\.1"):
        distributed.init_process_group(
            "gloo", init_method=f"tcp://127.0.0.1:{free_port()}", rank=1, world_size=2, timeout=0
        )
    with pytest.raises(cuplug.CuplugError, match="in no group"):
        distributed.all_reduce(cuplug.ones(1))
    assert not distributed.is_initialized()
    assert (distributed.get_rank(), distributed.get_world_size()) == (-1, -1)
    with pytest.raises(cuplug.CuplugError, match="in no group"):
        nn.parallel.DistributedDataParallel(nn.Linear(1, 1))


def test_strangers_are_forgotten_while_ranks_are_waited_for() -> None:
    """One leaves at once, one in the middle of a word, one knows no token, one says nothing at all."""
    store = TCPStore("127.0.0.1", 0, is_master=True, timeout=60)
    made: dict[int, Connections] = {}
    first = threading.Thread(target=lambda: made.update({0: Connections(store, 0, 2, 60)}))
    first.start()
    other = TCPStore("127.0.0.1", store.port, timeout=60)
    host, port = other.get("address/0").decode().split()
    strangers = [socket.create_connection((host, int(port))) for _ in range(6)]
    strangers[0].close()
    strangers[1].sendall(b"GET /")
    strangers[1].close()
    strangers[2].sendall(b"GET / HTTP/1.1\r\nHost: somebody\r\n\r\n")
    strangers[3].sendall(other.get("token") + struct.pack("<I", 0))  # nobody else is rank 0
    strangers[4].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    strangers[4].close()  # without the usual words of parting
    for refused in (2, 3):
        with suppress(ConnectionResetError):
            assert strangers[refused].recv(1) == b""
    made[1] = Connections(other, 1, 2, 60)
    first.join()
    heard = bytearray(5)
    sending = threading.Thread(target=made[1].exchange, args=("greeting", {0: b"hello"}, {}))
    sending.start()
    made[0].exchange("greeting", {}, {1: memoryview(heard)})
    sending.join()
    assert heard == b"hello"
    with suppress(ConnectionResetError):
        assert strangers[5].recv(1) == b""  # nobody keeps the one who says nothing
    for each in (*made.values(), other, store, *strangers):
        each.close()


def test_what_another_thread_has_read_meanwhile_is_no_sign_of_death(monkeypatch: pytest.MonkeyPatch) -> None:
    """``poll`` says that something has come, and the thread that exchanges takes it before this one looks."""
    store = TCPStore("127.0.0.1", 0, is_master=True, timeout=60)
    other = TCPStore("127.0.0.1", store.port, timeout=60)
    made: dict[int, Connections] = {}
    first = threading.Thread(target=lambda: made.update({0: Connections(store, 0, 2, 60)}))
    first.start()
    made[1] = Connections(other, 1, 2, 60)
    first.join()

    class Said:
        def __init__(self) -> None:
            self._all: list[socket.socket] = []

        def register(self, connection: socket.socket, _: int) -> None:
            self._all.append(connection)

        def poll(self, _: int) -> Any:
            return [(each.fileno(), select.POLLIN) for each in self._all]

    monkeypatch.setattr(select, "poll", Said)
    made[0].check("all_reduce")
    made[0].raise_if_broken()
    made[1].close()
    with pytest.raises(cuplug.CuplugError, match="rank 1 has ended or died"):
        made[0].check("all_reduce")
    for each in (made[0], other, store):
        each.close()


def test_a_group_of_one_needs_nobody() -> None:
    distributed.init_process_group(rank=0, world_size=1, init_method=f"tcp://127.0.0.1:{free_port()}")
    try:
        x = cuplug.ones(3)
        distributed.all_reduce(x)
        assert x.tolist() == [1.0] * 3
        with pytest.raises(cuplug.CuplugError, match="destroy_process_group"):
            distributed.init_process_group(rank=0, world_size=1)
    finally:
        distributed.destroy_process_group()
    assert not distributed.is_initialized()


def test_a_store_listens_where_it_was_asked_to() -> None:
    store = TCPStore("127.0.0.1", 0, 1, True, timeout=5)
    assert store._server is not None
    assert store._server._listener.getsockname()[0] == "127.0.0.1"
    assert store.address == "127.0.0.1"
    store.close()


def test_strangers_get_no_further_than_their_first_bytes(capfd: pytest.CaptureFixture[str]) -> None:
    store = TCPStore("127.0.0.1", 0, 1, True, timeout=5)
    request = struct.pack("<BIQd", 1, 3, 0, float("nan")) + b"zzz"
    strangers = [socket.create_connection(("127.0.0.1", store.port), timeout=60) for _ in range(300)]
    for number, each in enumerate(strangers):
        with suppress(OSError):  # the oldest have been ended
            each.sendall(os.urandom(64) if number % 2 else request.ljust(32, b"x"))
    other = TCPStore("127.0.0.1", store.port, timeout=5)
    other.set("key", "value")
    assert store.get("key") == b"value"
    for each in strangers:
        with suppress(OSError):
            while each.recv(64):  # the greeting, and that it was refused; then the end
                pass
        each.close()
    assert store.add("count", 2) == 2
    other.close()
    store.close()
    assert capfd.readouterr() == ("", "")


def test_requests_of_ranks_are_bounded() -> None:
    store = TCPStore("127.0.0.1", 0, 1, True, timeout=5)
    with pytest.raises(ValueError, match="a value 67,108,864"):
        store.set("key", bytes((1 << 26) + 1))
    with pytest.raises(ValueError, match="not negative"):
        TCPStore("127.0.0.1", store.port, timeout=float("nan"))
    for what, key, value, wait in ((1, 3, 0, float("nan")), (0, 1 << 20, 0, 1.0), (0, 3, 1 << 62, 1.0), (2, 3, 3, 1.0)):
        rank = socket.create_connection(("127.0.0.1", store.port), timeout=60)
        greeting = received(rank, len(tcp_store._MAGIC) + 16)
        rank.sendall(tcp_store._proof(greeting[-16:]))
        assert received(rank, 1) == b"\1"
        rank.sendall(struct.pack("<BIQd", what, key, value, wait) + b"keyodd")
        with suppress(ConnectionResetError):
            assert rank.recv(1) == b""
        rank.close()
    store.close()


def test_a_store_of_another_job_says_so() -> None:
    store = TCPStore("127.0.0.1", 0, 1, True, timeout=5)
    program = f"from cuplug.distributed import TCPStore; TCPStore('127.0.0.1', {store.port}, timeout=20)"
    environment = {**os.environ, "CUPLUG_JOB_TOKEN": "another"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300)
    assert "serves another job: CUPLUG_JOB_TOKEN" in done.stderr
    store.close()
