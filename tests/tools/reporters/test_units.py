"""Numbers as tables show them."""

from __future__ import annotations

import pytest
from cuplug.tools.reporters.units import NO_SHARE, driver_time, share


@pytest.mark.parametrize(
    ("fraction", "shown"),
    [
        (0.0, "0.0 %"), (0.438, "43.8 %"), (1.0, "100.0 %"), (0.0162, "1.6 %"), (0.01, "1.0 %"), (0.0024, "0.24 %"),
        (0.00996, "1.00 %"), (0.000238, "0.024 %"), (0.0000012, "0.0001 %"), (-0.0024, "-0.24 %"),
    ],
)  # fmt: skip
def test_a_share_has_two_digits_that_say_something(fraction: float, shown: str) -> None:
    assert share(fraction) == shown


@pytest.mark.parametrize("run_seconds", [0.0, 0.0001])
def test_no_share_stands_where_no_time_is_known_or_the_calls_take_longer(run_seconds: float) -> None:
    assert driver_time(192.0, run_seconds) == ("192.0 µs", NO_SHARE)
