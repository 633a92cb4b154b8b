from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from cuplug import CuplugError, DriverError, Runtime
from cuplug.runtime.machine.device import current_device, device, device_index, set_device

pytestmark = pytest.mark.one_schedule


def test_the_first_device_is_current_at_first(cuda: Any) -> None:
    assert cuda.current_device() == 0
    assert cuda.device_count() >= 2
    assert cuda.is_available()


def test_the_device_context_switches_and_comes_back(cuda: Any) -> None:
    with cuda.device(1):
        assert cuda.current_device() == 1
        with cuda.device(0):
            assert cuda.current_device() == 0
        assert cuda.current_device() == 1
    assert cuda.current_device() == 0


def test_the_device_context_comes_back_after_an_exception(cuda: Any) -> None:
    with pytest.raises(KeyError), cuda.device(1):
        raise KeyError
    assert cuda.current_device() == 0


def test_one_device_context_can_be_entered_inside_itself(cuda: Any) -> None:
    one = cuda.device(1)
    with one:
        with cuda.device(0), one:
            assert cuda.current_device() == 1
        assert cuda.current_device() == 1
    assert cuda.current_device() == 0


def test_the_driver_has_the_same_device_current_for_other_libraries(make_runtime: Any) -> None:
    runtime = make_runtime(devices=2)
    driver = runtime.driver
    with device(1, runtime=runtime):
        assert driver.current_device() == 1
    assert driver.current_device() is None
    runtime.alloc(100)
    assert driver.current_device() == 0
    with device(1, runtime=runtime):
        assert driver.current_device() == 1
    assert driver.current_device() == 0


@pytest.mark.needs_sim
def test_a_device_that_is_not_used_gets_no_context(make_runtime: Any) -> None:
    runtime = make_runtime(devices=2)
    with device(1, runtime=runtime):
        runtime.alloc(100)
    assert list(runtime.driver._devices.made) == [1]


def test_threads_start_with_the_device_that_another_library_had_chosen_before(make_driver: Any) -> None:
    driver = make_driver(devices=2)
    driver.set_device(1)
    with Runtime(driver=driver) as runtime:
        seen = [current_device(runtime=runtime), runtime.alloc(100).device]
        thread = threading.Thread(target=lambda: seen.append(current_device(runtime=runtime)))
        thread.start()
        thread.join()
        assert seen == [1, 1, 1]
    driver.set_device(None)


def test_each_thread_has_its_own_current_device(cuda: Any) -> None:
    seen = []

    def work() -> None:
        seen.append(cuda.current_device())
        cuda.set_device(0)

    cuda.set_device(1)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [0]
    assert cuda.current_device() == 1
    cuda.set_device(0)


@pytest.mark.parametrize(
    "named", [1, "cuda:1", SimpleNamespace(type="cuda", index=1), SimpleNamespace(index=1), SimpleNamespace(id=1)]
)
def test_a_device_may_be_named_in_many_ways(cuda: Any, named: Any) -> None:
    assert device_index(named) == 1
    with cuda.device(named):
        assert cuda.current_device() == 1


@pytest.mark.parametrize("named", [None, "cuda", SimpleNamespace(type="cuda", index=None)])
def test_a_device_without_a_number_is_the_current_one(cuda: Any, named: Any) -> None:
    with cuda.device(1):
        assert device_index(named) == 1
        with cuda.device(named):
            assert cuda.current_device() == 1


def test_a_negative_number_changes_nothing(cuda: Any) -> None:
    with cuda.device(1), cuda.device(-1):
        cuda.set_device(-1)
        assert cuda.current_device() == 1


@pytest.mark.parametrize("named", ["cpu", "cuda:x", "gpu", SimpleNamespace(type="cpu", index=0)])
def test_what_is_no_cuda_device_is_refused(cuda: Any, named: Any) -> None:
    with pytest.raises(ValueError, match="is not a CUDA device"):
        device_index(named)


@pytest.mark.parametrize("named", [1.5, object(), True])
def test_what_is_no_device_at_all_is_refused(cuda: Any, named: Any) -> None:
    with pytest.raises(TypeError, match="is not a device"):
        device_index(named)


@pytest.mark.needs_sim
def test_a_device_that_does_not_exist_is_refused_and_changes_nothing(make_runtime: Any) -> None:
    runtime = make_runtime(devices=2)
    with (
        pytest.raises(DriverError, match=r"there is no device 5; devices 0 to 1 are visible"),
        device(5, runtime=runtime),
    ):
        pass
    with pytest.raises(DriverError) as caught:
        set_device("cuda:2", runtime=runtime)
    assert caught.value.name == "CUDA_ERROR_INVALID_DEVICE"
    assert current_device(runtime=runtime) == 0


def test_properties_names_and_capabilities_agree(cuda: Any) -> None:
    properties = cuda.get_device_properties(1)
    assert cuda.get_device_name("cuda:1") == properties.name != ""
    assert cuda.get_device_capability(1) == (properties.major, properties.minor)
    assert properties.total_memory == cuda.mem_get_info(1)[1]


def test_peers_can_be_enabled_twice_and_disabled_once(cuda: Any) -> None:
    assert not cuda.can_device_access_peer(0, 0)
    if not cuda.can_device_access_peer(0, 1):
        pytest.skip("these devices cannot be peers")
    cuda.enable_peer_access(0, 1)
    cuda.enable_peer_access(0, 1)
    cuda.disable_peer_access(0, 1)
    with pytest.raises(DriverError, match="PEER_ACCESS_NOT_ENABLED"):
        cuda.disable_peer_access(0, 1)


def test_leaving_a_device_context_after_a_shutdown_is_harmless(make_runtime: Any) -> None:
    runtime = make_runtime(devices=2)
    with device(1, runtime=runtime):
        runtime.close()
    with pytest.raises(CuplugError, match="shut down"):
        current_device(runtime=runtime)
