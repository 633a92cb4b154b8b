"""How much memory the host can still give to a process, before memory is locked."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from ....allocators.errors import OutOfMemoryError
from ....allocators.sizes import format_size

LEFT_BYTES = 1 << 30
"""What is left to the system: where memory ends, Linux kills, while CUDA refuses."""
_GROUPS = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))
_ROOT = Path("/")
"""Below it the system tells of itself."""


def free_host_bytes() -> int:
    """What the system says that it can give, to this process and the group (container) that it belongs to."""
    with suppress(OSError):
        for line in (_ROOT / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return min(int(line.split()[1]) << 10, *map(_left_in_group, *zip(*_GROUPS, strict=True)))
    return 0


def check_host_room(nbytes: int) -> None:
    """Raise OutOfMemoryError if locking ``nbytes`` would leave the system, or this process's group, less than 1 GiB."""
    free = free_host_bytes()
    if nbytes > free - LEFT_BYTES:
        raise OutOfMemoryError(
            f"asked the host for {format_size(nbytes)}: it, or this process's group (cgroup), has {format_size(free)} "
            f"left, of which {format_size(LEFT_BYTES)} are not touched"
        )


def _left_in_group(limit: str, usage: str) -> int:
    try:
        most, used = ((_ROOT / "sys/fs/cgroup" / name).read_text().strip() for name in (limit, usage))
    except OSError:
        return sys.maxsize
    return sys.maxsize if most == "max" else int(most) - int(used)
