"""The check of what a call upstream that fails leaves behind: nothing may be lost or counted wrongly by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from ...allocators.errors import DriverError
from ...runtime.drivers.sim import SimDriver
from .rules import ContractBrokenError, Rule, require
from .workbench import MIB, Bench, Drivers, Factory, Lane, Live

T = TypeVar("T")
_SIZES = (512, 4096, MIB, MIB + 1, 3 * MIB, 11 * MIB)
_MOST = 3
"""How many calls of a kind fail in turn: evenly chosen, the first and the last too."""


def check_failing_calls_lose_nothing(factory: Factory, drivers: Drivers = SimDriver) -> None:
    """Each kind of call upstream fails once, at several moments of one program, and nothing is lost by it.

    The operation that needed the call raises the driver's error, or does without. Figures, map and contents are right
    after it, every later operation works, and once all is freed everything goes back upstream.
    """
    made: Counter[str] = Counter()
    with Bench(factory, drivers) as bench:
        _Program(bench, made).run()
    for call, times in sorted(made.items()):
        for moment in sorted({round(step * (times - 1) / (_MOST - 1)) for step in range(_MOST)}):
            with Bench(factory, drivers) as bench:
                try:
                    _Program(bench, Counter(), call, moment).run()
                except ContractBrokenError as broken:
                    what = f"after call {moment + 1} of {times} of upstream's {call} failed: {broken.detail}"
                    raise ContractBrokenError(broken.rule, what) from broken


class _Program:
    """Blocks of all sizes on all streams, frees, a stream that is destroyed, and memory given back.

    Args:
        bench: where it runs.
        made: counts the calls by kind, those for looking at the allocator left out.
        call: the kind of upstream's call that fails; none by default.
        moment: how many of the kind succeed before.
    """

    def __init__(self, bench: Bench, made: Counter[str], call: str = "", moment: int = 0) -> None:
        self._bench = bench
        self._made = made
        self._call = call
        self._moment = moment
        self._has_failed = self._is_told = False
        bench.upstream.before_call = self._begin

    def run(self) -> None:
        bench = self._bench
        for index, nbytes in enumerate(_SIZES):
            self._allocate(nbytes, bench.lanes[index % 3])
        for live in bench.live[::2]:
            bench.touch(live, bench.lanes[3])
            self._free(live)
        self._verify()
        self._twice("forget_stream()", bench.replace, bench.lanes[1])
        for nbytes in _SIZES[::-2]:
            self._allocate(nbytes, bench.lanes[1])
        self._release_cached()
        self._verify()
        for live in bench.live[::2]:
            self._free(live)
        self._allocate(12 * MIB, bench.lanes[0])
        self._start_over()
        self._allocate(2 * MIB, bench.lanes[2])
        self._start_over()
        self._synchronize()
        self._release_cached()
        held = bench.upstream.held
        require(not held, Rule.NOTHING_LOST, f"{held} bytes are stranded after everything was freed")
        self._verify()

    def _begin(self, call: str) -> None:
        self._made[call] += 1
        if call == self._call and self._made[call] == self._moment + 1:
            self._has_failed = True
            raise DriverError(999, "CUDA_ERROR_UNKNOWN", f"{call} fails once, for the conformance kit")

    def _allocate(self, nbytes: int, lane: Lane) -> None:
        live = self._twice(f"an allocation of {nbytes} bytes", self._bench.allocate, nbytes, lane)
        self._bench.touch(live)

    def _release_cached(self) -> None:
        self._twice("release_cached()", self._bench.release_cached)
        self._bench.check_upstream()

    def _start_over(self) -> None:
        for live in list(self._bench.live):
            self._free(live)
        self._twice("reset()", self._bench.start_over)

    def _twice(self, operation: str, call: Callable[..., T], *arguments: object) -> T:
        """What a call gives: the second time, if it raises the failing call's error."""
        try:
            return call(*arguments)
        except DriverError as error:
            self._check(error, operation)
            return call(*arguments)

    def _synchronize(self) -> None:
        self._bench.synchronize()
        try:
            self._bench.allocator.segments()
        except DriverError as error:
            self._check(error, "segments()")

    def _verify(self) -> None:
        self._bench.upstream.before_call = None
        self._bench.verify()
        self._bench.upstream.before_call = self._begin

    def _free(self, live: Live) -> None:
        try:
            self._bench.free(live)
        except DriverError as error:
            require(False, Rule.STICKY_ERROR, f"free() raised {error!r}")

    def _check(self, error: DriverError, operation: str) -> None:
        """Look at everything after an operation that raised the failing call's error.

        That may be a later operation than the one that made the call, since ``free`` raises nothing; but one only.
        """
        fits = self._has_failed and not self._is_told
        require(fits, Rule.ERRORS, f"{operation} raised {error!r}, which no call upstream did that was not told yet")
        self._is_told = True
        self._verify()
