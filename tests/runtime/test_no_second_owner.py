"""Objects that own something refuse to be copied: a second owner would hand the same memory out twice."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import cuplug
import pytest
from cuplug import Runtime
from cuplug.runtime.memory.pinned import alloc_pinned
from cuplug.runtime.streams.stream import Event, ExternalStream, Stream

pytestmark = pytest.mark.one_schedule

OWNERS: dict[str, Callable[[Runtime], Any]] = {
    "Buffer": lambda runtime: runtime.alloc(1000),
    "Stream": lambda runtime: Stream(runtime=runtime),
    "ExternalStream": lambda runtime: ExternalStream(0, 0, runtime=runtime),
    "Event": lambda runtime: Stream(runtime=runtime).record_event(),
    "PinnedBuffer": lambda runtime: alloc_pinned(1000, runtime=runtime),
    "PinnedMemory": lambda runtime: alloc_pinned(1000, runtime=runtime)._memory,
    "Runtime": lambda runtime: runtime,
    "DeviceState": lambda runtime: runtime.device(0),
    "Current": lambda runtime: runtime.current,
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle_{protocol}": lambda owner, p=protocol: pickle.dumps(owner, p) for protocol in range(6)},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", OWNERS)
def test_an_owner_refuses_to_be_copied_and_says_what_to_do(runtime: Runtime, kind: str, way: str) -> None:
    owner = OWNERS[kind](runtime)
    with pytest.raises(TypeError, match=rf"^{kind} objects cannot be copied or pickled, .+: [a-z]+ .+$"):
        WAYS[way](owner)


@pytest.mark.parametrize("way", [name for name in WAYS if name != "copy"])
@pytest.mark.parametrize("kind", OWNERS)
def test_an_owner_within_other_objects_is_not_copied_with_them(runtime: Runtime, kind: str, way: str) -> None:
    graph: dict[str, Any] = {"held": [(OWNERS[kind](runtime), 1)]}
    graph["itself"] = graph
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        WAYS[way](graph)


def test_a_refused_copy_leaves_one_owner(runtime: Runtime) -> None:
    buffer, event = runtime.alloc(1000), Event(runtime=runtime)
    event.record(Stream(runtime=runtime))
    for owner in (buffer, event):
        with pytest.raises(TypeError):
            copy.deepcopy([owner])
    address = buffer.address
    assert runtime.alloc(1000).address != address
    buffer.close()
    first, second = runtime.alloc(1000), runtime.alloc(1000)
    assert first.address != second.address


def test_tensors_are_copied_and_pickled_as_ever() -> None:
    cuplug.init(driver="sim")
    try:
        for device in ("cpu", "cuda"):
            tensor = cuplug.tensor([1.0, 2.0], device=device)
            for copied in (copy.copy(tensor), copy.deepcopy([tensor])[0], pickle.loads(pickle.dumps(tensor))):
                assert copied.tolist() == [1.0, 2.0]
                assert str(copied.device) == str(tensor.device)
    finally:
        cuplug.shutdown()
