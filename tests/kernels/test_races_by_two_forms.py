"""``check="races"``: strips and shortcuts say of random programs what the simple form of the check says."""

from __future__ import annotations

import os
import random
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from cuplug.runtime.kernels.compile.compile_cache import default_cache
from cuplug.runtime.kernels.simulator import code_lines
from cuplug.runtime.kernels.simulator.engine import Fault, HostKernel, HostModule, engine
from cuplug.runtime.kernels.simulator.host_compiler import compile_for_host

pytestmark = [pytest.mark.needs_sim, pytest.mark.one_schedule]

SOURCE = Path(__file__).parent / "sources" / "steps.cu"
WORDS, THREADS, BLOCKS, STEPS = 2048, 72, 3, 10
POISON = 0xCB
PROGRAMS = 600 if "CUPLUG_THOROUGH" in os.environ else 150
PLAIN, ALL, YIELD = range(12), range(20), 19


def draw_step(draw: random.Random, operations: range) -> tuple[int, ...]:
    """One step: which operation, on ``by_thread * thread + by_block * block + offset``, and by which threads."""
    operation = draw.choice(operations)
    width = {4: 2, 5: 2, 6: 4, 7: 4}.get(operation, 1)
    by_thread = draw.choice((width, width, width, width, 0, 2 * width, 3))
    by_block = draw.choice((by_thread * THREADS, by_thread * THREADS, 0, 256))
    offset = draw.choice((0, 0, 0, width, 512, 1000, draw.randrange(64)))
    first = draw.choice((0, 0, 0, draw.randrange(THREADS)))
    return operation, by_thread, by_block, offset, first, draw.choice((THREADS, THREADS, first + 1, first + 20))


def draw_program(draw: random.Random, operations: range) -> bytes:
    steps = [draw_step(draw, operations) for _ in range(draw.randrange(1, STEPS + 1))]
    if draw.random() < 0.5:  # the same places again, in another way
        steps[-1] = (draw.choice(operations), *steps[0][1:4], *steps[-1][4:])
    if YIELD in operations and draw.random() < 0.5:  # so that threads take turns
        steps[draw.randrange(len(steps))] = (YIELD, 0, 0, 0, 0, THREADS)
    return as_bytes(steps)


def as_bytes(steps: list[tuple[int, ...]]) -> bytes:
    words = [len(steps), *(word for step in steps for word in step)]
    return np.array(words + [0] * (1 + 6 * STEPS - len(words)), np.int32).tobytes()


class Forms:
    """A module, and memory that its kernels run on."""

    def __init__(self) -> None:
        cache = default_cache()
        entry = compile_for_host(SOURCE.read_text(), races=True, cache=cache)
        names = entry.facts["parameters"]
        self.engine = engine(cache)
        self.module = HostModule(self.engine, entry.payload, names, source="", checked=True, races=True)
        room = np.zeros(4 * WORDS + 4096, np.uint8)
        start = -room.ctypes.data % 4096
        self.memory = room[start : start + 4 * WORDS]

    def run(self, kernel: HostKernel, program: bytes, form: int) -> tuple[Fault | None, bytes]:
        """What a program does by a form of the check: 1 as it is, 2 the simple one."""
        self.memory[:] = 0
        self.memory[3 * WORDS :] = POISON  # which nobody has written
        kernel.records.clear()
        self.module.races = form
        address = self.memory.ctypes.data
        fault, _ = self.engine.run(
            kernel,
            (BLOCKS, 1, 1),
            (THREADS, 1, 1),
            shared=0,
            shared_limit=48 << 10,
            parameters=program + b"\0" * (-len(program) % 8) + address.to_bytes(8, "little"),
            ranges=array("Q", [address, len(self.memory)]),
            workers=1,
        )
        return fault, self.memory.tobytes()


@pytest.fixture(scope="module")
def forms(quick_compiler: None) -> Iterator[Forms]:
    """One module for all tests. Its lines are looked up once: hundreds of faults are in the same few, and each look
    takes a process, and more time than both forms of the check."""
    forms, known = Forms(), dict[int, dict[int, str]]()

    def look_up_once(image: bytes, offsets: Sequence[int]) -> dict[int, str]:
        assert image == forms.module.image
        for offset in offsets:
            if offset not in known:
                known[offset] = code_lines.lines_of(image, [offset])
        return {place: line for offset in offsets for place, line in known[offset].items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cuplug.runtime.kernels.simulator.engine.lines_of", look_up_once)
        yield forms


@pytest.mark.parametrize(("kernel", "operations"), [("apart", PLAIN), ("together", ALL), ("in_shared", ALL)])
def test_both_forms_say_the_same_of_random_programs(forms: Forms, kernel: str, operations: range) -> None:
    draw = random.Random(4)
    silent = found = 0
    for number in range(PROGRAMS):
        program = draw_program(draw, operations)
        simple, fast = (forms.run(forms.module.kernels[kernel], program, form) for form in (2, 1))
        assert fast == simple, f"program {number}: {np.frombuffer(program, np.int32)}"
        silent += simple[0] is None
        found += simple[0] is not None
    assert min(silent, found) > PROGRAMS // 8, "programs of one kind only show little"


READ, WRITE, READ_TWO, MEET_WARP, FENCE, EXCHANGE = 0, 1, 4, 13, 14, 16
TURNS = {  # a thread writes what others have read meanwhile, each step by operation and offset, and by which thread
    "a write to what others have read": [(READ, 4, 0), (YIELD, 0, 0), (READ, 4, 40), (WRITE, 4, 0)],
    "the last reader among several": [(READ, 4, 0), (YIELD, 0, 0), (READ, 4, 20), (READ, 4, 40), (WRITE, 4, 0)],
    "two cells that different threads have read": [
        *((READ, 4, 0), (YIELD, 0, 0), (READ, 4, 40), (READ, 5, 40), (READ_TWO, 4, 0), (WRITE, 4, 0)),
    ],
    "a reader behind a warp function, which takes the first one's place": [
        *((READ, 4, 0), (MEET_WARP, 0, 0), (READ, 4, 1), (READ, 4, 2), (WRITE, 4, 2)),
    ],
    "a reader behind a release and an acquire, which takes the first one's place": [
        *((READ, 4, 0), (FENCE, 0, 0), (EXCHANGE, 8, 0), (EXCHANGE, 8, 40), (READ, 4, 40)),
        *((EXCHANGE, 8, 41), (READ, 4, 41), (WRITE, 4, 41)),
    ],
}


@pytest.mark.parametrize("kernel", ["together", "in_shared"])
@pytest.mark.parametrize("turns", TURNS)
def test_both_forms_find_races_of_threads_that_take_turns(forms: Forms, kernel: str, turns: str) -> None:
    steps = [(operation, 0, 0, offset, thread, thread + 1) for operation, offset, thread in TURNS[turns]]
    simple, fast = (forms.run(forms.module.kernels[kernel], as_bytes(steps), form) for form in (2, 1))
    assert fast == simple
    assert simple[0] is not None
    assert "race on" in simple[0].text
