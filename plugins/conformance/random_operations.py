"""Random operations on several streams against the bench's model, found and shrunk by hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from ...allocators.errors import OutOfMemoryError
from ...runtime.drivers.sim import SimDriver
from .event_sums import EventSums
from .rules import ContractBrokenError
from .workbench import SIZES, Bench, Drivers, Factory, Lane, Live

_sizes = st.sampled_from(SIZES) | st.integers(1, 5000) | st.integers(1, 6 << 20)
_PLENTY = 192 << 20
_anyone = st.integers(0, 1 << 16)
F = TypeVar("F", bound=Callable[..., Any])


def check_random_operations(factory: Factory, drivers: Drivers = SimDriver, *, profile: settings | None = None) -> None:
    """Random operations keep the contract. ``profile`` says how many (default: hypothesis's current profile)."""
    run_state_machine_as_test(
        make_machine(factory, drivers),
        settings=settings(
            profile or settings(), deadline=None, suppress_health_check=list(HealthCheck), report_multiple_bugs=False
        ),
    )


def make_machine(factory: Factory, drivers: Drivers = SimDriver) -> type[RuleBasedStateMachine]:
    """The state machine for one allocator on one driver."""

    class Machine(_Machine):
        def make_bench(self) -> Bench:
            return Bench(factory, drivers, capacity=_PLENTY)

    Machine.__qualname__ = Machine.__name__ = getattr(factory, "__name__", "Allocator")
    return Machine


def _operation(method: F) -> F:
    """Remember a failure: what comes after it would only hide it."""

    @wraps(method)
    def guarded(self: _Machine, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except ContractBrokenError as broken:
            self.bench.lost = True
            self.bench.tell(broken)
            raise
        except BaseException:
            self.bench.lost = True
            raise

    return guarded  # type: ignore[return-value]


class _Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = self.make_bench()
        self.bench.__enter__()
        self.replay: EventSums | None = None

    def make_bench(self) -> Bench:
        raise NotImplementedError

    def lane(self, number: int) -> Lane:
        return self.bench.lanes[number % len(self.bench.lanes)]

    def block(self, number: int) -> Live:
        return self.bench.live[number % len(self.bench.live)]

    @rule(nbytes=_sizes, lane=_anyone, used=st.booleans())
    @_operation
    def allocate(self, nbytes: int, lane: int, used: bool) -> None:
        with suppress(OutOfMemoryError):  # the bench has seen to it that it was justified
            live = self.bench.allocate(nbytes, self.lane(lane))
            if used:
                self.bench.touch(live)

    @precondition(lambda self: self.bench.live)
    @rule(block=_anyone, lane=_anyone)
    @_operation
    def use(self, block: int, lane: int) -> None:
        self.bench.touch(self.block(block), self.lane(lane))

    @precondition(lambda self: self.bench.live)
    @rule(block=_anyone)
    @_operation
    def free(self, block: int) -> None:
        self.bench.free(self.block(block))

    @precondition(lambda self: self.bench.live)
    @rule(block=_anyone, users=st.lists(_anyone, max_size=3), lane=_anyone)
    @_operation
    def use_free_and_allocate_as_much(self, block: int, users: list[int], lane: int) -> None:
        live = self.block(block)
        for user in users:
            self.bench.touch(live, self.lane(user))
        self.bench.free(live)
        with suppress(OutOfMemoryError):
            again = self.lane(lane) if lane % 2 or live.lane.destroyed else live.lane
            self.bench.touch(self.bench.allocate(live.requested, again))

    @rule(number=st.integers(1, 3), leave_a_block=st.booleans())
    @_operation
    def replace_stream(self, number: int, leave_a_block: bool) -> None:
        lane = self.lane(number)
        left = next((live for live in self.bench.live if live.lane is lane), None) if leave_a_block else None
        if left is not None:
            self.bench.touch(left)
            self.bench.free(left)
        self.bench.replace(lane)
        if left is not None:
            with suppress(OutOfMemoryError):
                self.bench.touch(self.bench.allocate(left.requested, self.lane(number)))

    @rule(what=st.sampled_from(("release cached", "synchronize", "start over", "verify", "observe")))
    @_operation
    def now_and_then(self, what: str) -> None:
        if what == "release cached":
            self.bench.release_cached()
        elif what == "synchronize":
            self.bench.synchronize()
        elif what == "start over":
            self.bench.start_over()
        elif what == "verify":
            self.bench.verify()
        elif self.replay is None:
            self.replay = EventSums(self.bench.allocator)
        else:
            self.replay.verify()
            self.replay.detach()
            self.replay = None

    @rule(nbytes=st.sampled_from((None, 0, 1 << 20, 8 << 20, 24 << 20)))
    @_operation
    def make_memory_scarce_or_plentiful(self, nbytes: int | None) -> None:
        self.bench.upstream.capacity = _PLENTY if nbytes is None else self.bench.upstream.held + nbytes

    @invariant()
    @_operation
    def events_add_up(self) -> None:
        if self.replay is not None:
            self.replay.verify()

    def teardown(self) -> None:
        lost = self.bench.lost
        try:
            if not lost:
                self.bench.verify()
        except BaseException:
            self.bench.lost = True
            raise
        finally:
            self.bench.__exit__(None, None, None)
