"""Makes small memory snapshots of the shapes that PyTorch's users have."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

MIB, GIB = 1 << 20, 1 << 30
Place = tuple[str, str, int]
"""A frame: function, file, line."""
BASE = 0x7F00_0000_0000
_START_US = 1_700_000_000_000_000


class MadeSnapshot:
    """One device's history, and the segments that it ends in. Every segment holds one block at most."""

    def __init__(self, device: int = 0) -> None:
        self.device = device
        self.now = 0
        self.entries: list[dict[str, Any]] = []
        self.segments: dict[int, dict[str, Any]] = {}

    def entry(self, action: str, address: int, size: int, **more: Any) -> None:
        """Something happens, 100 us after what happened last."""
        self.now += 100
        told = {"action": action, "addr": address, "size": size, "stream": more.pop("stream", 0), "frames": []}
        self.entries.append({**told, "time_us": _START_US + self.now, **more})

    def reserve(self, address: int, size: int, *, pool: tuple[int, int] = (0, 0), stream: int = 0) -> None:
        """PyTorch takes a segment from the device."""
        self.entry("segment_alloc", address, size, stream=stream)
        self.segments[address] = {
            "device": self.device, "address": address, "total_size": size, "stream": stream, "segment_type": "large",
            "segment_pool_id": pool, "is_expandable": False, "allocated_size": 0, "active_size": 0, "frames": [],
            "requested_size": 0, "blocks": [],
        }  # fmt: skip
        self._state(address, 0)

    def release(self, address: int) -> None:
        """PyTorch gives a segment back."""
        self.entry("segment_free", address, self.segments.pop(address)["total_size"])

    def allocate(self, address: int, size: int, *frames: Place, stream: int = 0, offset: int = 0) -> None:
        """The program asks for a block, so far into the segment at ``address``. Frames are (function, file, line)."""
        named = [{"name": name, "filename": file, "line": line} for name, file, line in frames]
        self.entry("alloc", address + offset, size, frames=named, stream=stream)
        self._state(address, size, named, offset)

    def free(self, address: int) -> None:
        """The block that lies there is freed."""
        size = self.segments[address]["requested_size"]
        self.entry("free_requested", address, size)
        self.entry("free_completed", address, size)
        self.is_free(address)

    def is_free(self, address: int) -> None:
        """Nothing lies in that segment any more."""
        self._state(address, 0)

    def _state(self, address: int, size: int, frames: list[Any] | None = None, offset: int = 0) -> None:
        segment = self.segments[address]
        segment["requested_size"] = size
        segment["allocated_size"] = segment["active_size"] = rounded = -(-size // 512) * 512
        used = {"state": "active_allocated", "size": rounded, "requested_size": size, "frames": frames or []}
        before = {"state": "inactive", "size": offset, "requested_size": 0, "frames": []}
        rest = {**before, "size": segment["total_size"] - offset - rounded}
        at, blocks = address, []
        for block in (before, used, rest):
            if block["size"]:
                blocks.append({"address": at, **block})
                at += int(str(block["size"]))
        segment["blocks"] = blocks


def snapshot_of(*devices: MadeSnapshot, settings: dict[str, Any] | None = None) -> dict[str, Any]:
    """The snapshot of all devices, as PyTorch makes it."""
    return {
        "segments": [segment for device in devices for segment in device.segments.values()],
        "device_traces": [device.entries for device in devices],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, **(settings or {})},
        "external_annotations": [],
    }


def split_for_small_blocks(settings: dict[str, Any] | None = None) -> dict[str, Any]:
    """600 MiB are freed and cut for 300, so that on PyTorch's allocator the next 600 need a segment of their own."""
    made = MadeSnapshot()
    for number, (size, kept) in enumerate(((600, False), (300, True), (600, True))):
        made.reserve(BASE + number * 1024 * MIB, size * MIB)
        made.allocate(BASE + number * 1024 * MIB, size * MIB)
        if not kept:
            made.free(BASE + number * 1024 * MIB)
    return snapshot_of(made, settings=settings)


def saved(path: Path, snapshot: object) -> Path:
    """The path of a file that holds the snapshot."""
    path.write_bytes(pickle.dumps(snapshot))
    return path
