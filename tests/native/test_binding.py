"""The native allocators as Python sees them: types, blocks, owners."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from cuplug.allocators.base import Allocator
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.errors import CuplugError, DriverError, InvalidFreeError, OutOfMemoryError
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.native import is_available, why_not
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.plugins.manager import default_manager
from cuplug.runtime.machine.owner import Owner

if not is_available():
    pytest.skip(f"the native allocators are not used: {why_not()}", allow_module_level=True)

from cuplug.allocators.native.strategies import NativeCaching, NativeExpandable

MIB = 1 << 20
FORMS = [CachingAllocator, NativeCaching]
each_form = pytest.mark.parametrize("make", FORMS, ids=["python", "native"])
both = pytest.mark.parametrize("make", [NativeCaching, NativeExpandable])


# --- types


@both
def test_a_native_allocator_is_an_allocator(make: Any) -> None:
    assert isinstance(make(NullUpstream()), Allocator)


@pytest.mark.parametrize(
    ("native", "python"), [(NativeCaching, CachingAllocator), (NativeExpandable, ExpandableAllocator)]
)
def test_the_options_are_those_of_the_specification(native: Any, python: Any) -> None:
    assert inspect.signature(native) == inspect.signature(python)
    with pytest.raises(TypeError, match="unknown"):
        native(NullUpstream(), unknown=1)


@pytest.mark.parametrize(
    "options",
    [
        {"memory_limit": 0},
        {"memory_fraction": 0.0},
        {"memory_fraction": 1.5},
        {"garbage_collection_threshold": 1.0},
        {"max_split_size": MIB},
        {"roundup_power2_divisions": 3},
    ],
)
def test_wrong_options_are_refused_in_the_same_words(options: dict[str, Any]) -> None:
    messages = []
    for make in FORMS:
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the messages are compared
            make(NullUpstream(), **options)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_expandable_says_what_it_lacks_as_in_python() -> None:
    messages = []
    for make in (ExpandableAllocator, NativeExpandable):
        with pytest.raises(DriverError) as caught:
            make(NullUpstream(virtual=False))
        messages.append(str(caught.value))
        with pytest.raises(ValueError, match="slack is -1; it must be zero or more bytes"):
            make(NullUpstream(), slack=-1)
    assert messages[0] == messages[1]


def test_a_selection_makes_the_native_form() -> None:
    allocator = default_manager().make_allocator("caching:preset=torch,memory_limit=1MiB", NullUpstream())
    assert isinstance(allocator, NativeCaching)
    assert allocator.memory_limit == MIB


@each_form
def test_a_block_is_read_as_in_python(make: Any) -> None:
    block = make(NullUpstream()).allocate(1000, stream=3)
    assert (block.nbytes, block.requested, block.stream, block.live, block.orphan) == (1024, 1000, 3, True, False)
    assert int(block) == block.address
    assert repr(block) == f"<Block {block.address:#x} 1000 of 1024 bytes, stream 0x3, live>"
    assert weakref.ref(block)() is block


@each_form
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_block_cannot_be_copied(make: Any, duplicate: Callable[[Any], Any]) -> None:
    block = make(NullUpstream()).allocate(1000, stream=0)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        duplicate(block)


def test_native_blocks_are_for_reading() -> None:
    block: Any = NativeCaching(NullUpstream()).allocate(1000, stream=0)
    with pytest.raises(AttributeError):
        block.live = False
    with pytest.raises(TypeError):
        type(block)()


@each_form
def test_wrong_arguments_are_told_by_the_functions_name(make: Any) -> None:
    allocator = make(NullUpstream())
    with pytest.raises(TypeError, match=r"allocate\(\).*stream"):
        allocator.allocate(1000)
    with pytest.raises(TypeError):
        allocator.allocate("much", stream=0)
    with pytest.raises(ValueError, match="cannot allocate -5 bytes: a size is zero or more"):
        allocator.allocate(-5, stream=0)
    assert allocator.allocate(nbytes=10, stream=0).requested == 10


@each_form
def test_more_than_any_device_has_is_out_of_memory(make: Any) -> None:
    with pytest.raises(OutOfMemoryError):
        make(NullUpstream()).allocate(1 << 80, stream=0)


# --- blocks that are dropped, and those that are asked for


@each_form
def test_a_block_that_is_dropped_stays_allocated(make: Any) -> None:
    allocator = make(NullUpstream())
    address = allocator.allocate(1000, stream=7).address
    (found,) = allocator.live_blocks()
    assert (found.address, found.requested, found.stream, found.live) == (address, 1000, 7, True)
    allocator.free(found)
    assert allocator.live_blocks() == []


@each_form
def test_live_blocks_are_the_very_objects_that_the_program_holds(make: Any) -> None:
    allocator = make(NullUpstream())
    blocks = [allocator.allocate(1000, stream=0) for _ in range(200)]
    allocator.free(blocks.pop(50))
    found = allocator.live_blocks()
    assert len(found) == 199
    assert all(one is other for one, other in zip(found, sorted(blocks, key=int), strict=True))


@each_form
def test_a_block_of_no_bytes_counts_nowhere(make: Any) -> None:
    allocator = make(NullUpstream())
    block = allocator.allocate(0, stream=0)
    assert (block.address, block.nbytes, block.live) == (0, 0, True)
    assert allocator.live_blocks() == []
    allocator.free(block)
    with pytest.raises(InvalidFreeError):
        allocator.free(block)
    del block
    allocator.allocate(0, stream=0)  # dropped
    assert allocator.statistics().all.allocation.allocated == 0


@each_form
def test_blocks_of_others_are_refused(make: Any) -> None:
    first, second = make(NullUpstream()), make(NullUpstream())
    block = first.allocate(1000, stream=0)
    with pytest.raises(InvalidFreeError, match="belongs to another allocator"):
        second.free(block)
    with pytest.raises(InvalidFreeError, match="belongs to another allocator"):
        second.record_stream(block, 1)
    first.free(block)
    with pytest.raises(InvalidFreeError, match="was freed before"):
        first.free(block)
    with pytest.raises(InvalidFreeError, match="was freed before"):
        first.record_stream(block, 1)


@each_form
def test_once_closed_blocks_are_not_live_and_free_does_nothing(make: Any) -> None:
    upstream = NullUpstream()
    allocator = make(upstream)
    block = allocator.allocate(1000, stream=0)
    allocator.close()
    allocator.close()
    assert not block.live
    assert upstream.used_bytes == 0
    allocator.free(block)
    with pytest.raises(CuplugError, match="this allocator cannot be used: it was closed"):
        allocator.allocate(1000, stream=0)
    with pytest.raises(CuplugError, match="this allocator cannot be used: it was closed"):
        allocator.allocate(0, stream=0)
    with pytest.raises(CuplugError, match="this allocator cannot be used: it was closed"):
        allocator.release_cached()
    assert allocator.segments() == []


@each_form
def test_blocks_of_a_destroyed_stream_are_orphans(make: Any) -> None:
    allocator = make(NullUpstream())
    block, other = allocator.allocate(1000, stream=1), allocator.allocate(1000, stream=2)
    allocator.forget_stream(1)
    assert (block.orphan, other.orphan) == (True, False)


class RefusesTheSecondFence(NullUpstream):
    def fence(self, stream: int) -> Any:
        if self.fences == 1:
            self.fences += 1
            raise DriverError(700, "CUDA_ERROR_ILLEGAL_ADDRESS", "cuEventRecord")
        return super().fence(stream)


@each_form
def test_a_use_is_told_after_forgetting_a_stream_has_failed_behind_its_blocks(make: Any) -> None:
    allocator = make(RefusesTheSecondFence())
    block = allocator.allocate(1000, stream=1)
    with pytest.raises(DriverError):
        allocator.forget_stream(1)
    assert block.orphan
    seen: list[Any] = []
    allocator.attach(lambda kind, _time, _thread, stream, *_: seen.append((kind.name, stream)))
    allocator.record_stream(block, 1)
    assert seen == [("RECORD_STREAM", 1)]


@each_form
def test_the_memory_limit_can_be_changed(make: Any) -> None:
    allocator = make(NullUpstream(), memory_limit=4 * MIB)
    with pytest.raises(OutOfMemoryError, match=r"The allocator's limit is 4\.00 MiB"):
        allocator.allocate(6 * MIB, stream=0)
    allocator.memory_limit = None
    allocator.allocate(6 * MIB, stream=0)
    allocator.memory_limit = 7 * MIB
    with pytest.raises(OutOfMemoryError, match=r"The allocator's limit is 7\.00 MiB"):
        allocator.allocate(8 * MIB, stream=0)


def test_both_forms_say_the_same_when_memory_is_short() -> None:
    messages = []
    for make in FORMS:
        allocator = make(NullUpstream(64 * MIB))
        held = [allocator.allocate(5 * MIB, stream=0) for _ in range(8)]
        for block in held[::2]:
            allocator.free(block)
        with pytest.raises(OutOfMemoryError) as caught:
            allocator.allocate(40 * MIB, stream=5)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


# --- owners


class Held(Owner):
    __slots__ = ()


@each_form
def test_an_owner_gives_back_what_it_has_when_it_goes(make: Any) -> None:
    allocator = make(NullUpstream())
    owner = Held.allocate(allocator, 1000, stream=0)
    (block,) = allocator.live_blocks()
    assert owner._block is block
    assert int(owner) == block.address
    assert not owner.closed
    del owner
    assert not block.live
    assert allocator.live_blocks() == []
    owner = Held.allocate(allocator, 1000, stream=0)
    owner.close()
    owner.close()
    assert owner.closed
    assert allocator.statistics().all.allocation.current == 0


@each_form
def test_an_owner_survives_its_allocators_end(make: Any) -> None:
    allocator = make(NullUpstream())
    first, second = Held.allocate(allocator, 1000, stream=0), Held.allocate(allocator, 1000, stream=0)
    allocator.close()
    assert first.closed
    first.close()
    del allocator, second
    gc.collect()


@each_form
def test_an_owner_whose_allocation_fails_owns_nothing(make: Any) -> None:
    allocator = make(NullUpstream(MIB))
    with pytest.raises(OutOfMemoryError):
        Held.allocate(allocator, 4 * MIB, stream=0)
    assert Held().closed


def test_an_allocator_goes_with_the_last_of_its_blocks() -> None:
    upstream = NullUpstream()
    allocator = NativeCaching(upstream)
    gone = weakref.ref(allocator)
    block = allocator.allocate(1000, stream=0)
    del allocator
    gc.collect()
    assert gone() is not None
    del block
    gc.collect()
    assert gone() is None


def test_an_allocator_that_its_hook_refers_to_is_collected() -> None:
    def make() -> weakref.ref[NativeCaching]:
        allocator = NativeCaching(NullUpstream())
        allocator.on_out_of_memory = lambda nbytes, stream: allocator is None
        allocator.attach(lambda *event: allocator)
        return weakref.ref(allocator)

    gone = make()
    gc.collect()
    assert gone() is None
