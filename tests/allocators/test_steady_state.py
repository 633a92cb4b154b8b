"""A program that repeats itself comes to rest: ``expandable`` moves no page any more, and takes little for that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from cuplug.allocators.native import is_available
from cuplug.tools.replaying.program import Program
from cuplug.tools.replaying.replayer import ReplayResult

PASSES = {"gpt2_varlen": (3315, 43077), "resnet_multiscale": (3198, 31840)}
"""The steps of the recorded history that are to be repeated: many iterations, each of another size."""


def repeated(program: Program, begin: int, end: int, before: int, after: int) -> Program:
    """``program`` up to ``end``, and what it did from ``begin`` on ``before`` times more as set-up, then ``after``
    times. Blocks that live on into the next time are freed there in place of their likes; others at once."""
    steps = program.steps[begin:end].tolist()
    sizes, streams = program.sizes.tolist(), program.streams.tolist()
    alive = {step for step in steps if step > 0} - {-step for step in steps}
    heirs: dict[int, int] = {}
    for step in (-step for step in steps if step < 0 and -step not in steps):
        heir = next((one for one in sorted(alive) if sizes[one - 1] == sizes[step - 1]), None)
        if heir is not None:
            heirs[step] = heir
            alive.remove(heir)
    done = program.steps[:end].tolist() + [-one for one in alive]
    latest = {one: one for one in heirs.values()}
    setup = 0
    for time in range(before + after):
        if time == before:
            setup = len(done)
        names: dict[int, int] = {}
        for step in steps:
            if step > 0:
                sizes.append(sizes[step - 1])
                streams.append(streams[step - 1])
                names[step] = len(sizes)
                done.append(names[step])
            elif -step in names:
                done.append(-names[-step])
            elif -step in heirs:
                done.append(-latest[heirs[-step]])
        done += [-names[one] for one in alive]
        latest = {one: names[one] for one in latest}
    return replace(
        program,
        steps=np.array(done, np.int64),
        sizes=np.array(sizes, np.int64),
        streams=np.array(streams, np.uint64),
        events=np.zeros(len(done), np.int64),
        setup=setup,
    )


@pytest.mark.skipif(not is_available(), reason="in Python it takes a minute; tests/native holds both forms together")
@pytest.mark.parametrize("name", PASSES)
def test_from_the_fourth_time_on_what_repeats_calls_the_driver_no_more(
    name: str, history: Callable[[str], list[Program]], replayed: Callable[..., ReplayResult]
) -> None:
    program = repeated(history(name)[0], *PASSES[name], before=2, after=2)
    result = replayed([program], "expandable")
    assert (result.failure, result.out_of_memory_events) == ("", 0)
    assert result.driver_calls == {}
    assert result.reserved_over_requested <= 1.03
