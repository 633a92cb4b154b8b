"""``expandable`` on the histories of real programs: against PyTorch's ``expandable_segments``, and in little memory."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import pytest
from cuplug.tools.replaying.replayer import ReplayResult

# What the program asked for at its peak, what PyTorch reserved with expandable_segments, and the seconds that it ran.
HISTORIES = {
    "resnet_multiscale": (6_036_082_576, 6_117_392_384, 4.7),
    "gpt2_varlen": (13_133_827_724, 14_050_918_400, 9.6),
    "llm_decode": (1_257_947_788, 1_388_314_624, 20.5),
    "stream_prefetch": (2_360_344_023, 2_527_068_160, 6.3),
    "serving": (766_050_304, 843_055_104, 0.4),
}


@pytest.fixture(scope="module")
def replays(replayed: Callable[..., ReplayResult]) -> dict[str, ReplayResult]:
    return {name: replayed(name, "expandable") for name in HISTORIES}


@pytest.mark.parametrize("name", HISTORIES)
def test_it_reserves_less_than_pytorchs_expandable_segments(name: str, replays: dict[str, ReplayResult]) -> None:
    requested, expandable, _ = HISTORIES[name]
    result = replays[name]
    assert (result.failure, result.out_of_memory_events, result.peak_requested_bytes) == ("", 0, requested)
    assert result.peak_reserved_bytes < expandable


def test_it_reserves_hardly_more_than_is_asked_for(replays: dict[str, ReplayResult]) -> None:
    ratios = [result.reserved_over_requested for result in replays.values()]
    assert prod(ratios) ** (1 / len(ratios)) <= 1.03


@pytest.mark.parametrize("name", HISTORIES)
def test_its_driver_calls_take_little_of_the_programs_time(name: str, replays: dict[str, ReplayResult]) -> None:
    seconds = HISTORIES[name][2]
    assert replays[name].driver_time_us / 1e6 <= (0.05 if name == "serving" else 0.03) * seconds


@pytest.mark.parametrize("name", HISTORIES)
def test_programs_complete_in_hardly_more_memory_than_they_ask_for(
    name: str, replayed: Callable[..., ReplayResult]
) -> None:
    memory = HISTORIES[name][0] * (110 if name == "serving" else 105) // 100
    result = replayed(name, "expandable", memory=memory)
    assert (result.failure, result.out_of_memory_events) == ("", 0)
