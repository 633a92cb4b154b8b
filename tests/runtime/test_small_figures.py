"""Figures and orders that only a case made for them tells apart from their neighbours."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cuplug.runtime.kernels.launch.arguments import _bfloat16
from cuplug.runtime.nn.init import calculate_gain
from cuplug.tools.foreign.rmm_log import _nanoseconds

pytestmark = pytest.mark.one_schedule


def test_a_bfloat16_argument_is_rounded_to_the_nearest_and_a_tie_to_the_even() -> None:
    def of(bits: int) -> float:
        return float(np.array(bits, np.uint32).view(np.float32))

    assert _bfloat16(of(0x3F808000)) == 0x3F80  # a tie: down to the even
    assert _bfloat16(of(0x3F818000)) == 0x3F82  # a tie: up to the even
    assert _bfloat16(of(0x3F807FFF)) == 0x3F80
    assert _bfloat16(of(0x3F808001)) == 0x3F81


def test_the_gain_of_a_leaky_relu_has_torchs_slope_by_default() -> None:
    assert calculate_gain("leaky_relu") == math.sqrt(2 / (1 + 0.01**2))
    assert calculate_gain("leaky_relu", 0.5) == math.sqrt(2 / 1.25)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("00:00:01.5", 1_500_000_000), ("00:00:01.005", 1_005_000_000), ("01:02:03.000000007", 3_723_000_000_007)],
)
def test_a_fraction_of_a_second_has_as_many_digits_as_it_has(text: str, nanoseconds: int) -> None:
    assert _nanoseconds(text) == nanoseconds
