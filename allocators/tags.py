"""Names for what a program allocates, so that it can be put to sleep together (``sleeping.py``)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from .core_choice import is_available

if is_available():
    from . import _native

UNTAGGED = 0
"""The number of no tag."""
MOST_TAGS = (1 << 20) - 1
"""How many tags a process may have."""
ON_HOST = 1 << 20
"""Added to the number of a thread's tag where what it allocates is to lie in the host's memory."""


class _Thread(threading.local):
    tag = UNTAGGED


_names = [""]
"""By number, in the order in which they came. They last as long as the process."""
_numbers = {"": UNTAGGED}
_naming = threading.Lock()
here = _Thread()
"""``here.tag`` is the number of the calling thread's tag, ``UNTAGGED`` for none, with ``ON_HOST`` if it says so."""


@contextmanager
def memory_tag(name: str, *, where: Literal["device", "host"] = "device") -> Iterator[None]:
    """Tag what the calling thread allocates within as ``name``, on every device, for ``sleep`` and ``wake``.

    Of nested tags the innermost counts. Only allocators that can put memory to sleep look at tags; to others they mean
    nothing. With a tag and without, or with different ones, no two blocks share a page.

    Args:
        name: any text, such as ``weights``.
        where: ``host`` for the host's memory, under addresses of the device, where the allocator takes such
            (``expandable:host=64GiB``) and has room there; else it lies on the device.

    Raises:
        TypeError: ``name`` is no text.
        ValueError: ``name`` is empty, ``where`` is neither ``device`` nor ``host``, or the process has a million tags
            already.
    """
    if where not in ("device", "host"):
        raise ValueError(f"where is {where!r}; memory lies on the 'device' or on the 'host'")
    number = _number_for(check_tag_name(name))
    tag, before, has_core = number | ON_HOST if where == "host" else number, here.tag, is_available()
    try:
        here.tag = tag
        if has_core:
            _native.set_memory_tag(tag)
        yield
    finally:  # no function of Python's is called: a signal's exception may come at its beginning
        here.tag = before
        if has_core:
            _native.set_memory_tag(before)


def _number_for(name: str) -> int:
    found = _numbers.get(name)
    if found is None:
        with _naming:
            if name not in _numbers:
                if len(_names) > MOST_TAGS:
                    raise ValueError(f"a process may have {MOST_TAGS} memory tags; use fewer")
                _names.append(name)
                _numbers[name] = len(_names) - 1
            found = _numbers[name]
    return found


def check_tag_name(name: object) -> str:
    """``name``, if it can name a tag.

    Raises:
        TypeError: it is no text.
        ValueError: it is empty.
    """
    if not isinstance(name, str):
        raise TypeError(f"a memory tag is a name such as 'weights', not {name!r}")
    if not name:
        raise ValueError("a memory tag must have a name, such as 'weights'")
    return name


def tag_number(name: str) -> int | None:
    """The number of the tag ``name``; None if nothing was ever tagged so."""
    return _numbers.get(name)


def tag_name(number: int) -> str:
    """The tag of this number, empty for ``UNTAGGED``."""
    return _names[number] if 0 <= number < len(_names) else f"tag {number}"


def known_tags() -> list[str]:
    """The names of all tags, in the order of their first use."""
    return _names[1:]
