"""What ``watch`` shows in a browser, and tells Prometheus."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files

from ..analysis.live_state import DeviceNow


@dataclass(frozen=True)
class Watched:
    """What is known of a running program at one moment."""

    title: str
    running: bool
    devices: Sequence[DeviceNow] = field(default_factory=tuple)


def page() -> str:
    """The page, which asks for ``/state.json`` again and again."""
    return (files(__package__.rpartition(".")[0]) / "data" / "watch.html").read_text(encoding="utf-8")


def state_json(watched: Watched) -> str:
    """The state for the page."""
    devices = [{**asdict(device), "unused": device.unused} for device in watched.devices]
    return json.dumps({"title": watched.title, "running": watched.running, "devices": devices})


def metrics(watched: Watched) -> str:
    """The state in Prometheus' text format, version 0.0.4."""
    lines: list[str] = []

    def tell(name: str, kind: str, text: str, values: Iterable[tuple[str, float]]) -> None:
        lines.append(f"# HELP cuplug_{name} {text}")
        lines.append(f"# TYPE cuplug_{name} {kind}")
        lines.extend(f"cuplug_{name}{labels} {value:.17g}" for labels, value in values)

    devices = [(f'{{device="{one.device}"}}', one) for one in watched.devices]
    tell("running", "gauge", "Whether the program still writes its trace.", [("", int(watched.running))])
    for name, text, attribute in _GAUGES:
        tell(name, "gauge", text, [(labels, getattr(one, attribute)) for labels, one in devices])
    tell("allocations_total", "counter", "Allocations.", [(labels, one.allocations) for labels, one in devices])
    tell("out_of_memory_total", "counter", "Allocations that failed.",
         [(labels, one.out_of_memory) for labels, one in devices])  # fmt: skip
    tell("call_site_bytes", "gauge", "Requested bytes that live blocks hold, by the line that asked.",
         [(f'{{device="{one.device}",site="{_label(site.where)}"}}', site.nbytes)
          for one in watched.devices for site in one.sites])  # fmt: skip
    return "\n".join(lines) + "\n"


_GAUGES = (
    ("reserved_bytes", "Bytes held from the device.", "reserved"),
    ("reserved_bytes_peak", "The most bytes held from the device.", "peak_reserved"),
    ("host_bytes", "Of the bytes held, those of the host's memory.", "on_host"),
    ("host_bytes_peak", "The most bytes held of the host's memory.", "peak_on_host"),
    ("requested_bytes", "Bytes in the program's hands, as it asked.", "requested"),
    ("requested_bytes_peak", "The most bytes in the program's hands.", "peak_requested"),
    ("allocated_bytes", "Bytes in the program's hands, as the allocator rounded.", "allocated"),
    ("unused_ratio", "The share of the reserved memory that no live block uses.", "unused"),
)


def _label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
