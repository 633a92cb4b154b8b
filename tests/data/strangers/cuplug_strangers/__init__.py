"""Two allocators of somebody else, written from the documentation for authors of allocators alone."""

from __future__ import annotations

from cuplug.plugins.specs import hookimpl


@hookimpl
def cuplug_allocators():
    from .buddy import BuddyAllocator
    from .slab import SlabAllocator

    return {"buddy": BuddyAllocator, "slab": SlabAllocator}
