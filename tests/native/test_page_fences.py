"""An upstream that can mark the work of all streams is asked to before pages are unmapped, and only then."""

from typing import Any

from cuplug.allocators.upstreams.null import NullUpstream

from .native_core import Core

MIB = 1 << 20


class Marking(NullUpstream):
    """Counts the fences of each kind. At each ``unmap`` the work of all streams has to have been marked."""

    def __init__(self, total_bytes: int) -> None:
        super().__init__(total_bytes)
        self.plain = self.everywhere = self.unmapped = 0
        virtual: Any = self.virtual
        unmap = virtual.unmap

        def unmap_marked(address: int, nbytes: int) -> None:
            assert self.everywhere
            self.unmapped += 1
            unmap(address, nbytes)

        virtual.unmap = unmap_marked

    def fence(self, stream: int) -> Any:
        self.plain += 1
        return super().fence(stream)

    def fence_everything(self, stream: int) -> Any:
        self.everywhere += 1
        return super().fence(stream)


def test_pages_move_to_another_stream_behind_the_work_of_all_streams() -> None:
    upstream = Marking(256 * MIB)
    core = Core("expandable", upstream, aliases=0)
    blocks = [core.allocate(32 * MIB, 1) for _ in range(4)]
    for block in blocks:
        core.free(block)
    core.allocate(120 * MIB, 2)
    assert upstream.unmapped
    assert not upstream.plain
    core.close()
    core.destroy()


def test_what_record_stream_waits_for_is_the_work_of_that_stream() -> None:
    upstream = Marking(256 * MIB)
    core = Core("expandable", upstream)
    block = core.allocate(32 * MIB, 1)
    core.record_stream(block, 2)
    core.free(block)
    assert upstream.plain == 1
    core.close()
    core.destroy()
