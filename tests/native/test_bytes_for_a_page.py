"""What the core takes of the host's memory for each page of a large request."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cuplug.allocators.native import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="the native core was not built")

PROGRAM = """
import os
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.plugins.manager import default_manager

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

allocator = default_manager().make_allocator("expandable", NullUpstream())
before = resident()
block = allocator.allocate(64 << 30, stream=0)
print((resident() - before) // (32 << 10))
"""


def test_a_page_takes_a_few_kilobytes_at_most() -> None:
    """A request of some terabytes, as wrong shapes make it, has millions of pages, and is replayed all the same."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout) < 4096
