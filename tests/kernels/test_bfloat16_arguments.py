"""How a number becomes a bfloat16 argument of a kernel."""

from __future__ import annotations

import numpy as np
import pytest
from cuplug.runtime.kernels.launch.arguments import _bfloat16

pytestmark = pytest.mark.one_schedule


def test_a_bfloat16_argument_is_rounded_to_the_nearest_and_a_tie_to_the_even() -> None:
    def of(bits: int) -> float:
        return float(np.array(bits, np.uint32).view(np.float32))

    assert _bfloat16(of(0x3F808000)) == 0x3F80  # a tie: down to the even
    assert _bfloat16(of(0x3F818000)) == 0x3F82  # a tie: up to the even
    assert _bfloat16(of(0x3F807FFF)) == 0x3F80
    assert _bfloat16(of(0x3F808001)) == 0x3F81
