"""One network on two devices: ``DataParallel`` and what it is made of."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug import nn
from cuplug.cuda import comm
from cuplug.nn.parallel import gather, parallel_apply, replicate, scatter
from cuplug.runtime.autograd import backward_pass, gradient_streams
from cuplug.runtime.nn.parallel import replica_gradients

pytestmark = pytest.mark.usefixtures("_two_devices")


@pytest.fixture
def _two_devices(running: str) -> None:
    if cuplug.cuda.device_count() < 2:
        pytest.skip("needs two devices")


class Net(nn.Module):
    """Convolution, statistics of batches, a weight used twice, and a keyword argument."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3, padding=1)
        self.norm = nn.GroupNorm(1, 3)
        self.once = nn.Linear(12, 12)
        self.twice = self.once

    def forward(self, x: Any, *, factor: Any = 1.0) -> Any:
        x = self.norm(self.conv(x)).flatten(1)
        return self.twice(nn.functional.gelu(self.once(x))) * factor


def two() -> tuple[Any, Any]:
    cuplug.manual_seed(0)
    one = Net().double().cuda()
    other = Net().double().cuda()
    other.load_state_dict(one.state_dict())
    return one, nn.DataParallel(other)


def test_losses_and_gradients_are_those_of_one_device(running: str) -> None:
    one, both = two()
    steps = [cuplug.optim.AdamW(each.parameters(), lr=0.05) for each in (one, both)]
    x = cuplug.randn(5, 1, 2, 2, dtype=cuplug.float64)
    factor = cuplug.rand(5, 1, dtype=cuplug.float64)
    for _ in range(3):  # each step writes to the parameters, which are then sent again
        losses = []
        for net, step in zip((one, both), steps, strict=True):
            step.zero_grad()
            made = net(x.cuda(), factor=factor.cuda())
            assert made.device == cuplug.device("cuda:0")
            loss = (made**2).mean()
            loss.backward()
            losses.append(loss.item())
        assert losses[1] == pytest.approx(losses[0], rel=1e-12)
        for (name, expected), found in zip(one.named_parameters(), both.module.parameters(), strict=True):
            np.testing.assert_allclose(found.grad.cpu().numpy(), expected.grad.cpu().numpy(), 1e-9, 1e-12, err_msg=name)
        for step in steps:
            step.step()


class Counted:
    """How often the driver was called, and how many bytes went between devices."""

    WAITS = ("synchronize", "stream_synchronize", "event_synchronize", "memcpy_dtoh")

    def __init__(self, driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: Counter[str] = Counter()
        self.sent: list[tuple[int, int, int]] = []
        """Of each copy between devices: from where, to where, and the bytes."""
        for name in ("memcpy_peer", "memcpy_htod", "event_record", "stream_wait_event", *self.WAITS):
            monkeypatch.setattr(driver, name, self._counting(name, getattr(driver, name)))

    def _counting(self, name: str, real: Any) -> Any:
        def called(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            if name == "memcpy_peer":
                self.sent.append((args[3], args[1], args[4]))
            return real(*args, **kwargs)

        return called

    def clear(self) -> None:
        self.calls.clear()
        self.sent.clear()


@pytest.fixture
def counted(_two_devices: None, monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(cuplug.default_runtime().driver, monkeypatch)


def test_parameters_stay_on_the_other_device_and_are_sent_again_only_when_written_to(counted: Counted) -> None:
    _, both = two()
    x = cuplug.ones(4, 1, 2, 2, dtype=cuplug.float64).cuda()
    batch = [(0, 1, 2 * 4 * 8), (1, 0, 2 * 12 * 8)]  # half the arguments there, half the results back
    with cuplug.no_grad():
        both(x)
        counted.clear()
        first = both(x)
        assert counted.sent == batch
        counted.clear()
        both.module.once.bias.add_(1.0)
        changed = both(x)
    assert sorted(counted.sent) == sorted([(0, 1, 12 * 8), *batch])
    assert not cuplug.equal(first[2:], changed[2:])


def test_what_a_replica_writes_to_its_copies_is_gone_the_next_time(running: str) -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", cuplug.zeros(1))

        def forward(self, x: Any) -> Any:
            if x.device.index:
                self.seen += 1
            return x + self.seen

    net = nn.DataParallel(Counts().cuda())
    for _ in range(3):
        assert net(cuplug.zeros(2, 1).cuda()).tolist() == [[0.0], [1.0]]


@pytest.mark.parametrize("layers", [2, 9])
def test_a_step_sends_all_parameters_at_once_and_waits_for_nothing(counted: Counted, layers: int) -> None:
    parts = [each for _ in range(layers) for each in (nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU())]
    net = nn.DataParallel(nn.Sequential(*parts).cuda())
    step = cuplug.optim.SGD(net.parameters(), lr=0.1)
    x = cuplug.randn(8, 16).cuda()
    for _ in range(2):
        counted.clear()
        step.zero_grad()
        net(x).sum().backward()
        step.step()
    assert [sum(counted.calls[name] for name in Counted.WAITS), counted.calls["memcpy_htod"]] == [0, 0]
    there = [nbytes for source, _, nbytes in counted.sent if source == 0]
    back = [nbytes for source, _, nbytes in counted.sent if source == 1]
    # There: the batch, parameters with buffers, the results' gradient. Back: the results, one bucket of gradients.
    assert (len(there), len(back)) == (3, 2)
    trained = sum(each.numel() * 4 for each in net.parameters())
    apart = 512 * (len(list(net.parameters())) + len(list(net.buffers())))
    assert trained <= max(back) <= trained + apart
    assert max(there) <= sum(each.nbytes for each in (*net.parameters(), *net.buffers())) + apart
    assert counted.calls["event_record"] <= 3 * len(counted.sent)  # and none for each parameter


def test_gradients_come_home_in_buckets_of_one_type(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_gradients, "BUCKET_BYTES", 1500)
    layers = [nn.Linear(16, 16, bias=False) for _ in range(6)]
    one = nn.Sequential(*layers).double().cuda()
    one[0].weight.data = one[0].weight.data.float()
    one[0].register_forward_pre_hook(lambda _, given: (given[0].float(),))
    one[0].register_forward_hook(lambda _, given, made: made.double())
    x = cuplug.randn(4, 16, dtype=cuplug.float64).cuda()
    one(x).sum().backward()
    expected = [each.grad.cpu().numpy() for each in one.parameters()]
    one.zero_grad()
    made = nn.DataParallel(one)(x).sum()
    counted.clear()
    made.backward()
    back = [nbytes for source, _, nbytes in counted.sent if source == 1]
    assert back == [2048] * 5 + [1024]
    for found, each in zip(one.parameters(), expected, strict=True):
        np.testing.assert_allclose(found.grad.cpu().numpy(), each, 1e-5, 1e-6)  # the first layer is float32


def test_backward_makes_the_other_device_current_for_many_operations_at_a_time(
    running: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    switches = []

    def on_stream(stream: Any) -> Any:
        switches.append(stream.device_index)
        return gradient_streams.on_stream(stream)

    monkeypatch.setattr(backward_pass, "on_stream", on_stream)
    both = nn.DataParallel(nn.Sequential(*[nn.Tanh() for _ in range(64)], nn.Linear(3, 3)).cuda())
    x = cuplug.ones(4, 3, device="cuda", requires_grad=True)
    both(x).sum().backward()
    assert x.grad is not None
    assert switches[:1] == [1]
    assert len(switches) < 64 // 4


def test_a_pass_is_gone_with_its_results(running: str) -> None:
    _, both = two()
    made = both(cuplug.ones(4, 1, 2, 2, dtype=cuplug.float64).cuda()).sum()
    found, waiting = [], [made.grad_fn]
    while waiting:
        node = waiting.pop()
        if node.name() in ("AddReplicasBackward0", "SendHomeBackward0"):
            found.append(weakref.ref(node))
        waiting += [each for each, _ in node.next_functions if each is not None]
    gc.disable()
    try:
        made.backward()
        del made, node
        assert found
        assert [each() for each in found] == [None] * len(found)  # and not when the collector comes
    finally:
        gc.enable()


def test_a_parameter_that_only_one_replica_uses_has_its_gradient(running: str) -> None:
    class Chooses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.here, self.there, self.nowhere = (nn.Linear(1, 1, bias=False) for _ in range(3))

        def forward(self, x: Any) -> Any:
            return self.there(x) if x.device.index else self.here(x)

    net = Chooses().cuda()
    nn.DataParallel(net)(cuplug.tensor([[2.0], [5.0]]).cuda()).sum().backward()
    assert net.here.weight.grad.tolist() == [[2.0]]
    assert net.there.weight.grad.tolist() == [[5.0]]
    assert net.nowhere.weight.grad is None


def test_gradients_of_gradients_come_home(running: str) -> None:
    one, both = two()
    x = cuplug.randn(4, 1, 2, 2, dtype=cuplug.float64).cuda()
    found = []
    for net in (one, both):
        parameters = list(net.parameters())
        first = cuplug.autograd.grad((net(x) ** 3).sum(), parameters, create_graph=True)
        sum((each**2).sum() for each in first).backward()
        found.append([each.grad.cpu().numpy() for each in parameters])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(theirs, mine, 1e-8, 1e-10)


def test_a_parameter_that_is_gone_leaves_no_copy(running: str) -> None:
    both = nn.DataParallel(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 5000)).cuda())
    x = cuplug.ones(4, 2).cuda()
    with cuplug.no_grad():
        both(x)
        before = cuplug.cuda.memory_allocated(1)
        both.module[1] = nn.Linear(2, 2).cuda()
        both(x)
    assert cuplug.cuda.memory_allocated(1) < before - 2 * 5000 * 4


def test_statistics_of_batches_are_those_of_the_first_devices_part(running: str) -> None:
    net = nn.DataParallel(nn.BatchNorm1d(2, momentum=1.0).cuda())
    x = cuplug.tensor([[1.0, 2.0], [3.0, 6.0], [100.0, 100.0], [200.0, 200.0]]).cuda()
    net(x)
    assert net.module.running_mean.tolist() == [2.0, 4.0]


def test_a_batch_shorter_than_devices_uses_fewer(running: str) -> None:
    one, both = two()
    x = cuplug.ones(1, 1, 2, 2, dtype=cuplug.float64).cuda()
    assert cuplug.equal(both(x), one(x))


def test_an_exception_in_a_replica_is_raised(running: str) -> None:
    class Failing(nn.Module):
        def forward(self, x: Any) -> Any:
            if x.device.index == 1:
                raise KeyError("not here")
            return x

    with pytest.raises(KeyError, match="not here") as caught:
        nn.DataParallel(Failing())(cuplug.ones(4).cuda())
    if hasattr(caught.value, "__notes__"):
        assert caught.value.__notes__ == ["It was raised in replica 1 on cuda:1."]


def test_what_is_set_for_the_thread_holds_in_replicas(running: str) -> None:
    seen = []

    class Asks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            made = self.linear(x)
            seen.append((cuplug.is_grad_enabled(), cuplug.cuda.current_device(), made.dtype))
            return made

    net = nn.DataParallel(Asks().cuda())
    with cuplug.no_grad(), cuplug.autocast("cuda", cuplug.bfloat16):
        net(cuplug.ones(4, 2).cuda())
    assert sorted(seen, key=lambda each: each[1]) == [(False, 0, cuplug.bfloat16), (False, 1, cuplug.bfloat16)]


def test_a_network_on_another_device_is_refused(running: str) -> None:
    with pytest.raises(cuplug.CuplugError, match="weight is on cpu, and the first of the devices is cuda:0"):
        nn.DataParallel(nn.Linear(2, 2))(cuplug.ones(4, 2).cuda())


def test_nested_arguments_and_results_are_divided_and_joined(running: str) -> None:
    given = {"pair": (cuplug.arange(4), [cuplug.arange(8).view(4, 2)]), "word": "same"}
    parts = scatter(given, [0, 1])
    assert [each["word"] for each in parts] == ["same", "same"]
    assert [each["pair"][0].device.index for each in parts] == [0, 1]
    joined = gather([each["pair"] for each in parts], 0)
    assert joined[0].tolist() == [0, 1, 2, 3]
    assert joined[1][0].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    with pytest.warns(UserWarning, match="vector"):
        assert gather([cuplug.tensor(1.0).cuda(0), cuplug.tensor(2.0).cuda(1)], "cpu").tolist() == [1.0, 2.0]


def test_replicas_send_gradients_home(running: str) -> None:
    net = nn.Linear(2, 1, bias=False).cuda()
    replicas = replicate(net, [0, 1])
    made = parallel_apply(replicas, [cuplug.ones(1, 2, device="cuda:0"), cuplug.full((1, 2), 3.0, device="cuda:1")])
    (made[0].cpu() + made[1].cpu()).sum().backward()
    assert net.weight.grad.tolist() == [[4.0, 4.0]]
    assert not replicate(net, [0, 1], detach=True)[1].weight.requires_grad


def test_old_constructors_take_a_device(running: str) -> None:
    assert cuplug.cuda.FloatTensor(1, device=1).device.index == 1
    with cuplug.cuda.device(1):
        assert cuplug.cuda.FloatTensor(1, device=0).device.index == 0
        assert cuplug.cuda.FloatTensor(1).device.index == 1


def test_the_functions_of_comm(running: str) -> None:
    x = cuplug.arange(6.0).cuda()
    sent = comm.broadcast(x, [0, 1])
    assert sent[0] is x
    assert [each.device.index for each in sent] == [0, 1]
    out = [cuplug.empty(6, device="cuda:1")]
    assert comm.broadcast(x, out=out)[0].tolist() == x.tolist()
    assert comm.broadcast_coalesced([x, x + 1], ["cuda:1"])[0][1].tolist() == (x + 1).tolist()
    total = comm.reduce_add([x, sent[1] * 2])
    assert total.tolist() == (x * 3).tolist()
    assert comm.reduce_add([x]) is not x
    assert comm.reduce_add([x, sent[1]], 1).device.index == 1
    assert [each.tolist() for each in comm.reduce_add_coalesced([[x, x], [sent[1], sent[1]]])] == [(x * 2).tolist()] * 2
    parts = comm.scatter(x, [1, 0], [4, 2])
    assert [each.tolist() for each in parts] == [[0, 1, 2, 3], [4, 5]]
    assert comm.gather(parts, destination=-1).tolist() == x.tolist()
    assert comm.gather(parts, out=cuplug.empty(6, device="cuda:1")).device.index == 1
    refused = (
        lambda: comm.broadcast(x),
        lambda: comm.broadcast(x, out=[cuplug.empty(6)]),
        lambda: comm.scatter(x, []),
        lambda: comm.scatter(x, out=[]),
        lambda: comm.scatter(x, out=[cuplug.empty(6)]),
        lambda: comm.scatter(x, out=[cuplug.empty(6, 1, device="cuda")]),
        lambda: comm.gather([]),
        lambda: comm.gather([x.cpu(), x]),
        lambda: comm.gather(parts, destination="cpu", out=cuplug.empty(6)),
    )
    for call in refused:
        with pytest.raises(ValueError, match=r"broadcast|scatter|gather"):
            call()
    last = cuplug.ones(4, 3, 2, 2).contiguous(memory_format=cuplug.channels_last)
    gathered = comm.gather(comm.scatter(last, [0, 1]))
    assert gathered.is_contiguous(memory_format=cuplug.channels_last)
    assert not gathered.is_contiguous()
    with pytest.raises(ValueError, match="shapes"):
        comm.reduce_add([x, x[:2]])
