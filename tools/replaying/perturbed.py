"""Histories that nobody recorded, made by a seed of recorded ones: they show a policy that fits only the latter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .program import LIMITS, Program

Chance = np.random.Generator


def scaled(program: Program, factor: float) -> Program:
    """``program`` with all blocks larger by ``factor``."""
    return replace(program, sizes=np.maximum((program.sizes * factor).astype(np.int64), 1))


def dropped(program: Program, chance: Chance) -> Program:
    """Without a tenth of its blocks, each chosen by itself."""
    stays = np.concatenate([[True], chance.random(len(program.sizes)) >= 0.1])
    own = program.steps >= LIMITS
    return _with_steps(program, program.steps[~own | stays[np.abs(np.where(own, program.steps, 0))]])


def rescaled(program: Program, chance: Chance) -> Program:
    """All blocks larger, or smaller, by one factor from 0.3 to 2.4."""
    return scaled(program, chance.uniform(0.3, 2.4))


def jittered(program: Program, chance: Chance) -> Program:
    """Each size by a factor of its own, up to a quarter more or less: what was equal stays so."""
    sizes, places = np.unique(program.sizes, return_inverse=True)
    other = np.maximum((sizes * chance.uniform(0.8, 1.25, len(sizes))).astype(np.int64), 1)
    return replace(program, sizes=other[places])


def exchanged(program: Program, chance: Chance) -> Program:
    """A tenth of the steps each change places with the next one, unless both are about the same block."""
    steps = program.steps.copy()
    for place in np.flatnonzero(chance.random(len(steps) - 1) < 0.1).tolist():
        first, second = steps[place : place + 2]
        if min(first, second) >= LIMITS and abs(first) != abs(second):
            steps[place], steps[place + 1] = second, first
    return _with_steps(program, steps)


def on_another_stream(program: Program, chance: Chance) -> Program:
    """The blocks of one size in ten lie on a stream of their own."""
    sizes, places = np.unique(program.sizes, return_inverse=True)
    aside = (chance.random(len(sizes)) < 0.1)[places]
    return replace(program, streams=np.where(aside, np.uint64(0xA51DE), program.streams))


PERTURBATIONS: dict[str, Callable[[Program, Chance], Program]] = {
    "blocks dropped": dropped,
    "sizes scaled": rescaled,
    "sizes jittered": jittered,
    "neighbours exchanged": exchanged,
    "a stream changed": on_another_stream,
}


def followed_by(first: Program, second: Program) -> Program:
    """One program after another in one process. What the first still holds at its end is freed there."""
    own = first.steps[(first.steps >= LIMITS) & (first.steps != 0)]
    left = np.setdiff1d(own[own > 0], -own[own < 0])
    count = len(first.sizes)
    moved = np.where(second.steps >= LIMITS, second.steps + np.sign(second.steps) * count, second.steps)
    joined = replace(
        first,
        sizes=np.concatenate([first.sizes, second.sizes]),
        streams=np.concatenate([first.streams, second.streams]),
    )
    return _with_steps(joined, np.concatenate([first.steps, -left, moved]))


def repeated(program: Program, begin: int, end: int, before: int, after: int) -> Program:
    """``program`` up to the step ``end``, and what it did from ``begin`` on ``before`` times more as set-up, then
    ``after`` times. Blocks that live on into the next time are freed there in place of their likes; others at once."""
    steps = program.steps[begin:end].tolist()
    sizes, streams = program.sizes.tolist(), program.streams.tolist()
    here = set(steps)
    alive = {step for step in here if step > 0 and -step not in here}
    heirs: dict[int, int] = {}
    for step in (-step for step in steps if LIMITS <= step < 0 and -step not in here):
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
    longer = replace(program, sizes=np.array(sizes, np.int64), streams=np.array(streams, np.uint64), setup=setup)
    return _with_steps(longer, np.array(done, np.int64))


def _with_steps(program: Program, steps: np.ndarray) -> Program:
    return replace(program, steps=steps, events=np.zeros(len(steps), np.int64), pressed=program.pressed[:0])
