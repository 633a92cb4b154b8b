"""The check that blocks may be freed by finalisers, at any moment."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType

from ...runtime.drivers.sim import SimDriver
from .rules import ContractBrokenError, Rule
from .stepping import PATIENCE_S, Code, chosen_lines, run_at_line, run_threads
from .workbench import Bench, Drivers, Factory, Live


def check_free_at_any_moment(factory: Factory, drivers: Drivers = SimDriver, *, patience_s: float = PATIENCE_S) -> None:
    """A finaliser may free a block between any two lines of the allocator, in the middle of every operation."""
    with Bench(factory, drivers) as bench:
        run_threads([lambda: _free_everywhere(bench)], Rule.FINALISERS, patience_s)


def _free_everywhere(bench: Bench) -> None:
    bench.driver.set_device(0)
    lane, other = bench.lanes[1], bench.lanes[2]
    operations: list[Callable[[Live], object]] = [
        lambda _: bench.allocate(512, lane),
        lambda _: bench.allocate(3 << 20, other),
        bench.free,
        lambda block: bench.touch(block, other),
        lambda _: bench.allocator.statistics(),
        lambda _: bench.allocator.segments(),
        lambda _: bench.allocator.release_cached(),
    ]
    for nbytes in (512, 3 << 20):  # peaks that are not reached again: a free in the middle of an allocation
        for _ in range(8):  # may come before or after it is counted
            bench.allocate(nbytes, lane)
    bench.start_over()
    bench.allocator.release_cached()
    code = Code(bench.allocator)
    for operation in operations:
        for recorded in (False, True):
            for moment in [-1, *_moments(bench, code, operation, recorded)]:
                _free_in_the_middle(bench, code, operation, moment, recorded)


def _moments(bench: Bench, code: Code, operation: Callable[[Live], object], recorded: bool) -> list[int]:
    kept, _ = _blocks(bench, recorded)
    moments = chosen_lines(code, lambda: operation(kept))
    _tidy_up(bench)
    return moments


def _free_in_the_middle(
    bench: Bench, code: Code, operation: Callable[[Live], object], moment: int, recorded: bool
) -> None:
    """Free a block before the ``moment``-th line that runs in ``operation``."""
    kept, victim = _blocks(bench, recorded)
    where = ""
    problem: Exception | None = None

    def free_it(frame: FrameType) -> None:
        nonlocal where, problem
        where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        try:
            bench.free(victim)
        except Exception as error:
            problem = error

    try:
        run_at_line(code, lambda: operation(kept), moment, free_it)
    except ContractBrokenError:
        raise
    except Exception as error:
        problem = problem or error
    if problem is not None:
        raise ContractBrokenError(Rule.FINALISERS, f"a block was freed at {where}: {problem!r}") from problem
    _tidy_up(bench)


def _blocks(bench: Bench, recorded: bool) -> tuple[Live, Live]:
    kept, victim = bench.allocate(512, bench.lanes[1]), bench.allocate(512, bench.lanes[1])
    if recorded:
        bench.touch(victim, bench.lanes[2])
    return kept, victim


def _tidy_up(bench: Bench) -> None:
    bench.start_over()
    bench.synchronize()  # each moment finds the same state, or the operation might grow as fast as they come
    bench.verify()
