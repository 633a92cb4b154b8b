"""On which streams gradients are computed: each on that of its operation, which waits for those it takes from."""

from __future__ import annotations

from typing import Any

from ..streams.stream import Stream, stream
from ..tensor.core.layout import Layout
from ..tensor.core.tensor import Tensor
from ..tensor.places.place import place_at


def stream_at(layout: Layout) -> Stream | None:
    """The current stream of the device where tensors of a layout are; None on the CPU."""
    found: Stream | None = place_at(layout).stream()
    return found


def is_current(wanted: Stream) -> bool:
    """Whether work goes to ``wanted`` as it is, so that there is no need of ``on_stream``."""
    current = wanted._runtime.current
    return current.device == wanted.device_index and current.stream == wanted._handle


def on_stream(wanted: Stream) -> Any:
    """A context in which ``wanted`` is its device's current stream, and the device the current one."""
    return stream(wanted)


def hand_over(gradient: Tensor, source: Stream | None, target: Stream | None) -> None:
    """Let ``target`` use a gradient that ``source`` makes: wait for it, and keep its memory until then."""
    if source is None or target is None or source == target:
        return
    target.wait_stream(source)
    if gradient.is_cuda and gradient.device.index == target.device_index:
        gradient.record_stream(target)
