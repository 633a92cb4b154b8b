"""What has to be put right in a forked child: the one place where the package asks Python to be told of forks.

The child has one thread, and a copy of everything. A lock that another thread held at the time of the fork would stay
locked in the child for ever, and what belongs to the parent (devices, files) must not be used there.
"""

from __future__ import annotations

import os
from collections.abc import Callable


def in_forked_child(put_right: Callable[[], None]) -> Callable[[], None]:
    """Call ``put_right`` in every child that this process forks, before anything else runs there.

    Modules register what they have in the order of their imports, and the children call it in that order: what a module
    builds upon is right before it is called. Nothing happens on systems that cannot fork.

    Returns:
        ``put_right``, so that this can be used as a decorator.
    """
    _registered.append(put_right)
    return put_right


def _put_everything_right() -> None:
    for put_right in _registered:
        put_right()


_registered: list[Callable[[], None]] = []
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_put_everything_right)
