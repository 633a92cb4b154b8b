"""Which devices a process sees: the environment variable ``CUDA_VISIBLE_DEVICES``."""

from __future__ import annotations


def device_uuid(index: int) -> str:
    """The UUID of the simulated device at this place in the machine."""
    return f"GPU-5ca1ab1e-0000-4000-8000-{index:012x}"


def visible_devices(value: str | None, count: int) -> list[int]:
    """The indices of the ``count`` devices that ``CUDA_VISIBLE_DEVICES`` shows, in its order.

    Entries are indices, or (beginnings of) UUIDs that only one device has. The first invalid entry ends the list; a
    device named twice leaves none. Unset shows all (CUDA C++ Programming Guide, "CUDA Environment Variables").
    """
    if value is None:
        return list(range(count))
    found: list[int] = []
    for entry in value.split(","):
        index = _index(entry.strip(), count)
        if index is None:
            break
        if index in found:
            return []
        found.append(index)
    return found


def _index(entry: str, count: int) -> int | None:
    if entry.isascii() and entry.isdigit():
        return int(entry) if int(entry) < count else None
    if not entry.startswith("GPU-"):
        return None
    matching = [index for index in range(count) if device_uuid(index).startswith(entry)]
    return matching[0] if len(matching) == 1 else None
