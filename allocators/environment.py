"""Settings that are read from the environment: what a variable may be, and the one error that names it where it is not.

A setting with a misspelt value that is passed over in silence is worse than none: a run goes on with another allocator
form, number of threads or compiler than its user believes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from .errors import CuplugError


def wrong_value(name: str, found: str, expected: str) -> CuplugError:
    """The error for a variable whose value cannot be used.

    Args:
        name: the variable.
        found: its value.
        expected: what it may be, as the object of "set it to".
    """
    return CuplugError(f"the environment variable {name} is {found!r}; set it to {expected}, or unset it")


def read_choice(name: str, choices: Sequence[str]) -> str | None:
    """The variable's value, one of ``choices``; None where it is not set or empty.

    Raises:
        CuplugError: it is something else.
    """
    said = os.environ.get(name, "").strip()
    if said and said not in choices:
        raise wrong_value(name, said, " or ".join(choices))
    return said or None


def read_count(name: str, most: int) -> int | None:
    """The variable's value, a whole number from 1 to ``most``; None where it is not set or empty.

    Raises:
        CuplugError: it is something else.
    """
    said = os.environ.get(name, "").strip()
    if not said:
        return None
    if not said.isascii() or not said.isdecimal() or not 1 <= int(said) <= most:
        raise wrong_value(name, said, f"a whole number from 1 to {most}")
    return int(said)
