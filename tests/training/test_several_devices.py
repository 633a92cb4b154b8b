"""One network on two devices: ``DataParallel`` and what it is made of."""

from __future__ import annotations

from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug import nn
from cuplug.cuda import comm
from cuplug.nn.parallel import gather, parallel_apply, replicate, scatter

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


def test_parameters_stay_on_the_other_device_and_are_sent_again_only_when_written_to(running: str) -> None:
    _, both = two()
    x = cuplug.ones(4, 1, 2, 2, dtype=cuplug.float64).cuda()
    with cuplug.no_grad():
        both(x)
        before = [each.made for each in both._copies._copies.values()]
        versions = [each._version for each in before]
        first = both(x)
        assert [each._version for each in before] == versions
        both.module.once.bias.add_(1.0)
        changed = both(x)
    assert [each.made for each in both._copies._copies.values()] == before
    assert sum(each._version - old for each, old in zip(before, versions, strict=True)) == 1
    assert not cuplug.equal(first[2:], changed[2:])


def test_a_parameter_that_is_gone_leaves_no_copy(running: str) -> None:
    _, both = two()
    x = cuplug.ones(4, 1, 2, 2, dtype=cuplug.float64).cuda()
    with cuplug.no_grad():
        both(x)
    count = len(both._copies._copies)
    both.module.conv = nn.Conv2d(1, 3, 3, padding=1).double().cuda()
    assert len(both._copies._copies) == count - 2


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
    with pytest.raises(ValueError, match="either devices or out"):
        comm.broadcast(x)
    with pytest.raises(ValueError, match="shapes"):
        comm.reduce_add([x, x[:2]])
