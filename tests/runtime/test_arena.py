from __future__ import annotations

from typing import Any

import pytest
from cuplug import CuplugError, Runtime
from cuplug.runtime.memory.arena import arena

pytestmark = pytest.mark.one_schedule


@pytest.fixture
def bump(make_runtime: Any) -> Runtime:
    runtime: Runtime = make_runtime(allocator="bump:chunk_size=1MiB")
    return runtime


def test_what_an_arena_held_is_given_back_at_its_end(bump: Runtime) -> None:
    before = bump.alloc(1000)
    with arena(runtime=bump):
        first = bump.alloc(1000).address
    with arena(runtime=bump):
        assert bump.alloc(1000).address == first
    assert not before.closed


def test_arenas_may_be_nested(bump: Runtime) -> None:
    with arena(runtime=bump):
        outer = bump.alloc(1000)
        with arena(runtime=bump):
            inner = bump.alloc(1000).address
        assert bump.alloc(1000).address == inner
        del outer


def test_an_arena_is_not_reset_under_live_buffers(bump: Runtime) -> None:
    with pytest.raises(CuplugError, match="1 blocks since the mark are live"), arena(runtime=bump):
        held = bump.alloc(1000)
    assert held.nbytes == 1000


def test_an_arena_is_reset_under_live_buffers_when_told_to(bump: Runtime) -> None:
    with arena(force=True, runtime=bump):
        held = bump.alloc(1000)
    assert held.closed
    with pytest.raises(CuplugError, match="arena was reset under it"):
        int(held)
    held.close()


def test_an_arena_does_not_hide_the_error_that_ends_it(bump: Runtime) -> None:
    held = []

    def run() -> None:
        with arena(runtime=bump):
            held.append(bump.alloc(1000))
            raise KeyError

    with pytest.raises(KeyError):
        run()
    assert held[0].nbytes == 1000


def test_an_allocator_without_arenas_is_named(cuda: Any) -> None:
    with pytest.raises(CuplugError, match="the allocator 'caching' has no arenas; choose bump"), cuda.arena():
        pass
