"""What the simulator can be told, and which devices it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cuplug.runtime.drivers.sim import SimDriver
from cuplug.runtime.drivers.sim.visible import device_uuid, visible_devices

pytestmark = pytest.mark.needs_sim


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        ("-1", []),
        ("2", [2]),
        ("3,1", [3, 1]),
        (" 1 , 0 ", [1, 0]),
        ("1,-1,2", [1]),
        ("0,9,1", [0]),
        ("0,x,1", [0]),
        ("1,1", []),
        (device_uuid(2), [2]),
        (f"{device_uuid(3)},0", [3, 0]),
        ("GPU-5ca1", []),
        ("GPU-nothing", []),
    ],
)
def test_cuda_visible_devices_selects_and_orders(value: str | None, shown: list[int]) -> None:
    assert visible_devices(value, 4) == shown


def test_hidden_devices_keep_their_identity(
    monkeypatch: pytest.MonkeyPatch, make_sim: Callable[..., SimDriver]
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    uuids = [make_sim(devices=3).device_properties(ordinal).uuid for ordinal in range(3)]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    driver = make_sim(devices=3)
    assert [driver.device_properties(ordinal).uuid for ordinal in range(driver.device_count())] == [uuids[2], uuids[0]]


def test_a_machine_may_have_no_device(make_sim: Callable[..., SimDriver]) -> None:
    assert make_sim(devices=0).device_count() == 0


def test_options_show_in_the_properties(make_sim: Callable[..., SimDriver]) -> None:
    driver = make_sim(memory=5 << 20, compute_capability="8.6", virtual_memory=False)
    properties = driver.device_properties(0)
    assert (properties.major, properties.minor) == (8, 6)
    assert properties.total_memory == driver.mem_info()[1] == 4 << 20
    assert not properties.virtual_memory
    assert driver.virtual_memory(0) is None
    assert make_sim(schedule="random", seed=5).schedule == "random:5"


@pytest.mark.parametrize(
    "options",
    [
        {"devices": -1},
        {"devices": 65},
        {"memory": 1 << 20},
        {"memory": 1 << 50},
        {"compute_capability": "nine"},
        {"seed": -1},
        {"schedule": "random:-3"},
    ],
)
def test_bad_options_are_refused_with_what_was_given(options: dict[str, Any]) -> None:
    (value,) = options.values()
    with pytest.raises(ValueError, match=str(value)):
        SimDriver(**options)
