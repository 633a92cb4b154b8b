"""Tagged memory that moves between a device and the host, at addresses that stay (``allocators/moving.py``)."""

from __future__ import annotations

from ...allocators.errors import CuplugError
from ...allocators.moving import Side, is_capturing, not_on_the_host
from ..machine.default_runtime import runtime_or_default
from ..machine.runtime import Runtime
from .memory_sleep import check_known_tag, name_in_trace, name_of_allocator
from .side_copies import SideCopies


def move(tag: str, to: Side, *, runtime: Runtime | None = None) -> int:
    """Let the memory of what was allocated within ``memory_tag(tag)`` lie on the ``host`` or on its ``device``.

    It waits for all work on these devices first; no other thread may use the memory meanwhile. Its addresses stay, so
    that buffers, tensors, views, arguments of prepared launches and captured graphs are valid as before. What lies
    there already is passed over. What is allocated with the tag later goes where its own ``memory_tag`` says.

    Where a device's memory is short, it is made as for an allocation: cached memory goes back, and the hooks for that
    case are asked. While it moves, both sides hold its contents.

    Args:
        tag: the name that ``memory_tag`` had.
        to: ``host``, whose memory the device reads and writes over the bus, or ``device``.
        runtime: the default runtime, if left out.

    Returns:
        The bytes taken there, on all devices together.

    Raises:
        OutOfMemoryError: there is no room, on a device or within ``host=`` and what the system leaves. Of that device
            all lies where it lay.
        CuplugError: the allocator takes no memory of the host (``expandable:host=64GiB`` does); the memory sleeps, or
            was shared with other processes; or work is being captured into a graph, which must not be waited for.
        DriverError: a device is in a sticky error state, or a call failed.
        ValueError: nothing was ever tagged so, or ``to`` is neither of the two.
        TypeError: ``tag`` is no name.
    """
    runtime = runtime_or_default(runtime)
    check_known_tag(tag)
    if to not in ("device", "host"):
        raise ValueError(f"memory moves to the 'device' or to the 'host', not to {to!r}")
    if is_capturing():
        raise CuplugError(
            f"memory tagged {tag!r} cannot move while work is being captured into a graph: that work must not be "
            "waited for; move it before or after the capture"
        )
    taken = 0
    for ordinal in range(runtime.device_count()):
        allocator = runtime.find_allocator(ordinal)
        if allocator is None:
            continue
        if not allocator.can_move:
            raise not_on_the_host(name_of_allocator(runtime))
        name_in_trace(runtime, tag)
        runtime.device(ordinal).synchronize()
        taken += allocator.move(tag, to, copier=SideCopies(runtime, ordinal))
    return taken
