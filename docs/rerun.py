"""Carries out a recorded run's allocations, as the program that was recorded made them.

Which allocator and driver carry them out, ``cuplug-trace record`` or the environment says.
"""

import sys

import cuplug
from cuplug.tools.foreign.load import load
from cuplug.tools.replaying.program import decode

(program,) = decode(load(sys.argv[1]))
streams = {}
held = {}
for step in program.steps:
    if step > 0:
        handle = program.streams[step - 1]
        if handle not in streams:
            streams[handle] = cuplug.cuda.Stream() if handle else cuplug.cuda.default_stream()
        held[step] = cuplug.cuda.alloc(program.sizes[step - 1], stream=streams[handle])
    else:
        del held[-step]
