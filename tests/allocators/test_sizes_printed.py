"""Sizes as PyTorch prints them are taken."""

from __future__ import annotations

import pytest
from cuplug.allocators.sizes import parse_size


@pytest.mark.parametrize("text", ["23.69GiB", "23.69 GiB"])
def test_a_size_with_two_decimals_is_the_nearest_whole_number_of_bytes(text: str) -> None:
    assert parse_size(text) == round(23.69 * (1 << 30))


def test_a_fraction_of_a_byte_is_no_size() -> None:
    with pytest.raises(ValueError, match="whole number of bytes"):
        parse_size("1.5")
