"""Lines of text made with NumPy are those that Python's own formatting makes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from cuplug.tools.foreign.text_columns import Digits, Texts, lines


@pytest.mark.parametrize("longest", [5, 200])
@pytest.mark.parametrize("most", [1, 9, 10, 1 << 32, (1 << 63) - 1])
def test_lines_are_those_of_python(most: int, longest: int) -> None:
    choose = random.Random(most)
    numbers = [choose.randint(0, most) for _ in range(300)] + [0, most]
    signed = [choose.choice((-1, 1)) * number for number in numbers]
    large = [(1 << 64) - 1 - number for number in numbers]
    texts = ["".join(choose.choice('abc,"{}ü') for _ in range(choose.randint(0, longest))) + "\n" for _ in range(7)]
    places = [choose.randrange(7) for _ in numbers]
    made = lines(
        [
            b"<", np.array(numbers), b"|", np.array(signed), b"|", np.array(large, np.uint64), b".",
            Digits(np.array(numbers) % 1000, 3), b">", Texts(np.array(places), [text.encode() for text in texts]),
        ],
        len(numbers),
    )  # fmt: skip
    told = zip(numbers, signed, large, places, strict=True)
    assert made.decode() == "".join(f"<{a}|{b}|{c}.{a % 1000:03}>{texts[d]}" for a, b, c, d in told)


def test_no_rows_are_no_text() -> None:
    assert lines([b"x", np.zeros(0, np.int64)], 0) == b""
