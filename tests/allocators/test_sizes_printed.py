"""Sizes as people write them, what a shortage says of them, and limits as parts of the memory."""

from __future__ import annotations

import pytest
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.core_choice import is_available
from cuplug.allocators.errors import OutOfMemoryError
from cuplug.allocators.out_of_memory import shortage_message
from cuplug.allocators.sizes import parse_size
from cuplug.allocators.upstreams.null import NullUpstream


@pytest.mark.parametrize("text", ["23.69GiB", "23.69 GiB"])
def test_a_size_with_two_decimals_is_the_nearest_whole_number_of_bytes(text: str) -> None:
    assert parse_size(text) == round(23.69 * (1 << 30))


def test_a_fraction_of_a_byte_is_no_size() -> None:
    with pytest.raises(ValueError, match="whole number of bytes"):
        parse_size("1.5")


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("64KB", 64_000),
        ("64K", 65_536),
        ("64KiB", 65_536),
        ("64Ki", 65_536),
        ("3mb", 3_000_000),
        ("2GB", 2 * 10**9),
        ("1t", 1 << 40),
        ("13Gi", 13 << 30),
    ],
)
def test_decimal_and_binary_units_are_told_apart(text: str, nbytes: int) -> None:
    assert parse_size(text) == nbytes


def test_the_message_of_a_shortage_has_every_figure_in_its_place() -> None:
    message = shortage_message(1024, 7, 768, 3072, 4096, 5120, 6144, 7168, 256, 512)
    assert message == (
        "CUDA out of memory. Tried to allocate 1.00 KiB (1024 bytes) on stream 0x7. "
        "The device has 3.00 KiB (3072 bytes), of which 768 bytes are free. "
        "The allocator's limit is 4.00 KiB (4096 bytes). The program holds 5.00 KiB (5120 bytes) "
        "(6.00 KiB (6144 bytes) requested) and the allocator has reserved 7.00 KiB (7168 bytes); "
        "its largest free block has 256 bytes, and 512 bytes are lost to fragmentation. "
        "Free something, use a smaller batch, or choose a larger device."
    )


@pytest.mark.parametrize(
    ("free", "limit", "lost", "in_pieces"),
    [(300, None, 724, True), (300, None, 723, False), (2048, 1024, 512, False), (2048, 1024 + 512, 512, True)],
)
def test_a_shortage_is_fragmentation_where_what_is_free_would_do_in_one_piece(
    free: int, limit: int | None, lost: int, in_pieces: bool
) -> None:
    message = shortage_message(1024, 0, free, 4096, limit, 512, 512, 1024, 256, lost)
    assert ("in pieces (fragmentation)" in message) == in_pieces
    assert ("use a smaller batch" in message) != in_pieces


@pytest.mark.parametrize(("free", "told"), [(2048, "raise the limit."), (1000, "choose a larger device.")])
def test_a_shortage_below_a_limit_says_to_raise_it_where_the_device_has_more(free: int, told: str) -> None:
    assert shortage_message(1024, 0, free, 4096, 1024, 512, 512, 1024, 256, 512).endswith(f"smaller batch, or {told}")


def test_fragmentation_is_told_with_what_is_free_outside_and_within() -> None:
    message = shortage_message(1024, 0, 300, 4096, None, 512, 512, 1024, 256, 800)
    assert "in pieces (fragmentation), 300 bytes outside of what is reserved and 800 bytes within:" in message


@pytest.mark.parametrize(("room", "rounding"), [(1023, False), (1024, True)])
@pytest.mark.parametrize("by_limit", [False, True])
def test_a_shortage_is_rounding_where_the_request_itself_could_be_reserved(
    room: int, rounding: bool, by_limit: bool
) -> None:
    free, limit = (4096, 1024 + room) if by_limit else (room, None)
    message = shortage_message(1024, 0, free, 8192, limit, 512, 512, 1024, 256, 512)
    assert ("(rounding)" in message) == rounding
    assert ("may still reserve 1.00 KiB (1024 bytes), which is enough for the request" in message) == rounding
    assert ("in pieces (fragmentation)" in message) != rounding


def test_a_free_block_that_is_large_enough_is_not_called_pieces() -> None:
    message = shortage_message(1024, 0, 0, 4096, None, 512, 512, 2048, 1024, 1536)
    assert "in pieces" not in message
    assert "kept for another stream or pool, or is less than the size to which" in message


@pytest.mark.parametrize("native", [True, False])
def test_an_allocator_that_rounds_to_more_than_there_is_says_so(native: bool) -> None:
    if native and not is_available():
        pytest.skip("it is the native core's")
    if native:
        from cuplug.allocators.native.strategies import NativeCaching as Strategy
    else:
        Strategy = CachingAllocator
    allocator = Strategy(NullUpstream(16 << 20), preset="torch")
    with pytest.raises(OutOfMemoryError, match=r"may still reserve 16\.00 MiB .* \(rounding\), unless"):
        allocator.allocate(5 << 20, stream=0)  # PyTorch then reserves 20 MiB
    allocator.close()


@pytest.mark.parametrize("native", [True, False])
def test_a_fraction_of_the_memory_is_one_of_the_whole_device(native: bool) -> None:
    if native and not is_available():
        pytest.skip("it is the native core's")
    upstream = NullUpstream(64 << 20, page_granularity=2 << 20)
    upstream.reserve(32 << 20)  # somebody else's
    if native:
        from cuplug.allocators.native.strategies import NativeCaching as Strategy
    else:
        Strategy = CachingAllocator
    allocator = Strategy(upstream, memory_fraction=0.25)
    assert allocator.memory_limit == 16 << 20
    allocator.free(allocator.allocate(16 << 20, stream=0))
