"""Where tensors live: devices by name, placement of results, mismatches and their exceptions, memory's origin."""

from __future__ import annotations

import contextlib
import copy
import pickle
import sys
from typing import Any

import cuplug
import pytest


@pytest.mark.one_schedule
def test_devices_are_named_as_in_torch() -> None:
    device = cuplug.device
    assert device("cuda:1") == device("cuda", 1) == device(1) == device(device("cuda:1"))
    assert device("cuda") != device("cuda:0")
    assert (device("cuda").type, device("cuda").index) == ("cuda", None)
    assert str(device("cuda:2")) == "cuda:2"
    assert repr(device("cpu")) == "device(type='cpu')"
    assert {device("cuda", 1): "x"}[device("cuda:1")] == "x"
    assert pickle.loads(pickle.dumps(device("cuda:3"))) is device("cuda:3")
    for wrong in ("gpu", "cuda:x", "cuda:-1", "", "cuda:"):
        with pytest.raises(ValueError, match="device"):
            device(wrong)
    with pytest.raises(TypeError, match="named by text"):
        device(1.5)
    with pytest.raises(AttributeError, match="cannot be changed"):
        device("cpu").index = 1


@pytest.mark.one_schedule
def test_dtypes_are_single_objects_through_pickle_and_copy() -> None:
    for kind in (cuplug.float32, cuplug.bfloat16, cuplug.int64):
        assert pickle.loads(pickle.dumps(kind)) is kind
        assert copy.deepcopy(kind) is kind
    assert cuplug.long is cuplug.int64
    assert cuplug.float is cuplug.float32
    assert cuplug.bfloat16.itemsize == 2


@pytest.mark.one_schedule
def test_without_a_gpu_everything_works_on_the_cpu_and_cuda_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycuda", None)
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)
    monkeypatch.delenv("CUPLUG_DRIVER", raising=False)
    cuplug.init(driver="auto")
    try:
        assert not cuplug.cuda.is_available()
        assert cuplug.cuda.device_count() == 0
        device = cuplug.device("cuda" if cuplug.cuda.is_available() else "cpu")
        x = cuplug.randn(5, 5).to(device)
        assert ((x @ x.t()).trunc() + 1).shape == (5, 5)
        cuplug.cuda.manual_seed_all(1)
        for wrong in (
            lambda: x.cuda(),
            lambda: cuplug.ones(2, device="cuda"),
            lambda: cuplug.cuda.FloatTensor(1),
            lambda: x.pin_memory(),
        ):
            with pytest.raises(cuplug.CuplugError, match=r"there is no CUDA device.*CUPLUG_DRIVER=sim"):
                wrong()
    finally:
        cuplug.shutdown()


def test_results_live_where_their_operands_do_whatever_is_current(torch3: Any) -> None:
    torch = torch3
    x = torch.ones(4, device="cuda:2")
    with torch.cuda.device(1):
        results = [
            x + 1,
            2 * x,
            x.sum(),
            x.exp(),
            x[1:],
            x.reshape(2, 2) @ x.reshape(2, 2),
            x.clone(),
            x > 0,
            x.max(0)[1],
        ]
        results += [torch.zeros_like(x), x.new_ones(3), x.normal_(), x[torch.tensor([0, 1])], x.to(torch.int32)]
        assert torch.ones(1, device="cuda").get_device() == 1
    assert {each.get_device() for each in results} == {2}
    assert torch.cuda.current_device() == 0


def test_operands_on_different_devices_are_refused_by_name(torch3: Any) -> None:
    torch = torch3
    a, b, c = torch.ones(2), torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1")
    for first, second, names in ((b, c, "cuda:0.*cuda:1"), (c, b, "cuda:1.*cuda:0"), (a, b, "cpu.*cuda:0")):
        for operation in (
            lambda x, y: x + y,
            lambda x, y: x.add_(y),
            lambda x, y: torch.cat([x, y]),
            lambda x, y: x @ y,
            lambda x, y: torch.where(x > 0, x, y),
            lambda x, y: torch.add(x, x, out=y),
        ):
            with pytest.raises(torch.DeviceMismatchError, match=names):
                operation(first, second)


def test_copies_between_devices_are_exempt(torch3: Any) -> None:
    torch = torch3
    x = torch.arange(6.0, device="cuda:0").reshape(2, 3)
    y = torch.zeros(3, 2, dtype=torch.float64, device="cuda:1").t()
    y.copy_(x)
    assert y.tolist() == x.tolist()
    assert x.to("cuda:2").cuda(1).cpu().tolist() == x.tolist()
    y[0] = torch.tensor([7.0, 8.0, 9.0])
    assert y[0].tolist() == [7, 8, 9]
    y[1].copy_(x[:1, 1].expand(3))
    assert y.tolist() == [[7, 8, 9], [1, 1, 1]]


def test_a_cpu_tensor_without_dimensions_is_exempt(torch: Any) -> None:
    x = torch.ones(3, device="cuda")
    two = torch.tensor(2.0)
    assert (x * two).tolist() == [2, 2, 2]
    assert (two - x).tolist() == [1, 1, 1]
    assert (two - x).is_cuda
    assert x.mul_(two).tolist() == [2, 2, 2]
    assert (x + torch.tensor(1, dtype=torch.int64)).dtype == torch.float32
    with pytest.raises(torch.DeviceMismatchError):
        torch.ones(3) + torch.tensor(1.0, device="cuda")


def test_peer_access_lets_operands_of_two_devices_meet(torch3: Any) -> None:
    torch = torch3
    if not torch.cuda.can_device_access_peer(0, 1):
        pytest.skip("these devices cannot access each other")
    torch.cuda.enable_peer_access(0, 1)
    for _ in range(3):
        x, y = torch.ones(1000, device="cuda:0"), torch.full((1000,), 2.0, device="cuda:1")
        z = x + y
        y.fill_(100)  # after the sum, although on another device's stream
        assert z.device == torch.device("cuda:0")
        assert bool((z == 3).all().item())
    with pytest.raises(torch.DeviceMismatchError):
        y + x  # access is enabled one way only
    torch.cuda.disable_peer_access(0, 1)
    with pytest.raises(torch.DeviceMismatchError):
        x + y


@pytest.mark.parametrize("allocator", ["direct", "caching", "bump"])
def test_all_memory_comes_from_the_selected_allocator(allocator: str, make_driver: Any) -> None:
    runtime = cuplug.init(driver=make_driver(), allocator=allocator)
    try:
        x = cuplug.ones(1000, device="cuda")
        for derived in (x + 1, x.clone(), x.reshape(10, 100).t().contiguous(), x.sum(), x.to(cuplug.float64), x[x > 0]):
            assert derived.data_ptr() in {block.address for block in runtime.allocator(0).live_blocks()}
        assert cuplug.cuda.memory_allocated() == 4096 + 4096  # x and the last one
    finally:
        del x, derived
        cuplug.shutdown()


def test_views_share_memory_which_goes_back_with_the_last_of_them(torch: Any) -> None:
    x = torch.zeros(1000, device="cuda")
    used = torch.cuda.memory_allocated()
    view = x[10:20].reshape(2, 5).t()
    assert torch.cuda.memory_allocated() == used
    del x
    assert torch.cuda.memory_allocated() == used
    view.fill_(1)
    assert view.sum().item() == 10
    del view
    assert torch.cuda.memory_allocated() == used - 4096


def test_tensors_of_a_runtime_that_was_shut_down_are_an_error_not_a_crash(make_driver: Any) -> None:
    cuplug.init(driver=make_driver())
    x = cuplug.ones(3, device="cuda")
    y = x + 1
    cuplug.shutdown()
    with pytest.raises(cuplug.CuplugError):
        x + y
    with pytest.raises(cuplug.CuplugError):
        y.tolist()


def test_the_device_context_manager_places_factories(torch: Any) -> None:
    with torch.device("cuda"):
        assert torch.ones(2).is_cuda
        with torch.device("cpu"):
            assert torch.ones(2).is_cpu
        assert torch.tensor([1]).is_cuda
    assert torch.ones(2).is_cpu


def test_threads_work_on_their_own_streams_and_devices(torch: Any) -> None:
    import threading

    results: dict[int, list[float]] = {}

    def work(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.full((100,), float(number), device="cuda")
            for _ in range(20):
                x = x + 1
            results[number] = x.tolist()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: [number + 20.0] * 100 for number in range(4)}


@pytest.mark.needs_sim
@pytest.mark.one_schedule
def test_launch_blocking_makes_every_operation_wait() -> None:
    runtime = cuplug.init(driver="sim:schedule=lazy", launch_blocking=True)
    try:
        x = cuplug.ones(10, device="cuda") * 2
        assert cuplug.cuda.current_stream().query()
        del x
    finally:
        runtime.close()


@pytest.mark.needs_sim
@pytest.mark.one_schedule
def test_an_index_out_of_range_is_an_error_of_the_device() -> None:
    cuplug.init(driver="sim")
    try:
        x = cuplug.arange(5, device="cuda")
        with pytest.raises(cuplug.DriverError):
            x[cuplug.tensor([7], device="cuda")].tolist()
    finally:
        del x
        with contextlib.suppress(cuplug.CuplugError):
            cuplug.shutdown()
    with pytest.raises(IndexError):
        cuplug.arange(5)[cuplug.tensor([7])]


@pytest.mark.one_schedule
@pytest.mark.needs_sim
def test_work_on_a_tensor_whose_runtime_was_shut_down_is_refused_though_the_driver_lives_on(make_driver: Any) -> None:
    driver = make_driver()
    cuplug.init(driver=driver)
    x = cuplug.ones(3, device="cuda")
    x.add_(1)
    cuplug.shutdown()
    with pytest.raises(cuplug.CuplugError, match="shut down"):
        x.add_(1)
    assert driver.mem_info()[0] > 0  # no work has touched memory that is gone
