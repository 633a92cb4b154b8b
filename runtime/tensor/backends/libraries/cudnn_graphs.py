"""Graphs of operations that cuDNN runs: which of its engines does it, and the kernel that this makes.

cuDNN ranks the engines that can run a graph, the best first by its own estimate. The first that suits is taken, or with
``benchmark`` the fastest of the first few by the clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from ....streams.stream import Event
from ...core.shapes import Shape
from ...core.tensor import Tensor
from ...places.tables_with_gradients.library_table import Choosing
from .cudnn import Dnn, DnnError
from .cudnn_descriptors import DATA_TYPES, Attribute, Descriptor, Kind, Named, Packs

ALIGNMENT = 16
"""Bytes: the addresses that the engines are told of are multiples of it."""
_RANKED, _LAST_RESORT = 3, 2  # cudnnBackendHeurMode_t: mode A, and the fallback
_DOWN_CONVERTS, _NOT_DETERMINISTIC, _TENSOR_CORE = 1, 4, 0  # cudnnBackendNumericalNote_t
_MOST_WORKSPACE = 1 << 30
"""Bytes that an algorithm may use while it runs, unless all want more."""
_TIMED, _RUNS = 8, 3
"""How many algorithms ``benchmark`` times, and how often."""


def described(dnn: Dnn, number: int, kind: str, shape: Shape, strides: Shape) -> Descriptor:
    """The descriptor of a tensor in memory, which the graph knows by this number.

    Raises:
        DnnError: cuDNN does not take it so.
    """
    return Descriptor(
        dnn,
        Kind.TENSOR,
        {
            Named.TENSOR_DATA_TYPE: [DATA_TYPES[kind]],
            Named.TENSOR_DIMENSIONS: shape,
            Named.TENSOR_STRIDES: strides,
            Named.TENSOR_UNIQUE_ID: [number],
            Named.TENSOR_BYTE_ALIGNMENT: [ALIGNMENT],
        },
    )


class GraphKernel:
    """Runs a graph whose tensors are numbered from 1 on, with tensors in this order.

    A plan must not serve two threads at once, so each thread has its own; the algorithm is chosen once.
    """

    def __init__(
        self, dnn: Dnn, operations: Sequence[Descriptor], count: int, choosing: Choosing, *, single: bool
    ) -> None:
        """Choose an algorithm.

        Args:
            dnn: cuDNN on the device.
            operations: of the graph.
            count: the tensors in memory.
            choosing: by which rule.
            single: whether they are of float32.

        Raises:
            DnnError: cuDNN has none.
        """
        self._dnn, self._place = dnn, dnn.place
        self._packs = Packs(dnn, count)
        self._local = threading.local()
        with self._place.runtime.on_device(self._place.ordinal):
            handle = dnn.handle(self._place.stream_handle())
            graph = {Named.OPERATIONGRAPH_HANDLE: [handle], Named.OPERATIONGRAPH_OPS: operations}
            self._graph = Descriptor(dnn, Kind.OPERATIONGRAPH, graph)
            found = self._plans(handle, choosing, single)
        self._local.plan = found[0]
        self._engine = found[0].engine
        self._to_time = found if len(found) > 1 else []

    def __call__(self, *tensors: Tensor) -> None:
        """``run`` with tensors."""
        self.run([each._address for each in tensors])

    def run(self, addresses: Sequence[int]) -> None:
        """Run it on the current stream. The addresses must be multiples of ``ALIGNMENT``.

        Raises:
            DnnError: cuDNN failed.
            OutOfMemoryError: there is no memory for what the algorithm needs while it runs.
        """
        place = self._place
        current = place.runtime.current
        try:
            ready = self._local.ready
        except AttributeError:
            ready = None
        if ready is not None and current.device == place.ordinal:  # the most usual case, in fewer steps
            run, workspace = ready
            # Of our allocator, and free for what follows on this stream.
            scratch = place.allocate(workspace, current) if workspace else None
            run(self._dnn.handle(place.stream_handle()), 0 if scratch is None else scratch.address, *addresses)
        else:
            with place.runtime.on_device(place.ordinal):
                self._run_first(addresses)
        place.launched()

    def _run_first(self, addresses: Sequence[int]) -> None:
        """As ``run``, where the device is current: also choose and make the plan, if this thread has none."""
        handle = self._dnn.handle(self._place.stream_handle())
        if self._to_time:
            self._take_fastest(handle, addresses)
        try:
            plan = self._local.plan
        except AttributeError:
            plan = self._local.plan = _Plan(self._dnn, handle, self._engine)
        try:
            ready = self._local.ready
        except AttributeError:
            ready = self._local.ready = self._packs.runner(plan.descriptor), plan.workspace
        self._run(ready, handle, addresses)

    def _run(self, ready: tuple[Callable[..., None], int], handle: int, addresses: Sequence[int]) -> None:
        run, workspace = ready
        scratch = self._place.allocate(workspace) if workspace else None
        run(handle, 0 if scratch is None else scratch.address, *addresses)

    def _take_fastest(self, handle: int, addresses: Sequence[int]) -> None:
        """By the clock, each after a run that loads its kernels."""
        found, self._to_time = self._to_time, []
        times = []
        for plan in found:
            start, end = (Event(enable_timing=True, runtime=self._place.runtime) for _ in range(2))
            ready = self._packs.runner(plan.descriptor), plan.workspace
            try:
                self._run(ready, handle, addresses)
                start.record(self._place.stream())
                for _ in range(_RUNS):
                    self._run(ready, handle, addresses)
                end.record(self._place.stream())
            except DnnError:  # the estimate was wrong: this one cannot run here
                continue
            end.synchronize()
            times.append((start.elapsed_time(end), plan))
        if times:
            plan = min(times, key=lambda each: each[0])[1]
            self._local.plan, self._engine = plan, plan.engine

    # --- choosing

    def _plans(self, handle: int, choosing: Choosing, single: bool) -> list[_Plan]:
        """Those of the best engines that suit, the best first: one, or as many as are to be timed."""
        wanted = _TIMED if choosing.benchmark else 1
        found: list[_Plan] = []
        greedy: list[_Plan] = []
        refusal = DnnError("it has no algorithm that the switches of backends.cudnn allow")
        for mode in (_RANKED, _LAST_RESORT):
            try:
                ranked = self._ranked(mode)
            except DnnError as error:
                refusal = error
                continue
            for engine in ranked:
                if not _suits(engine, choosing, single):
                    continue
                try:
                    plan = _Plan(self._dnn, handle, engine)
                except DnnError as error:
                    refusal = error
                    continue
                (greedy if plan.workspace > _MOST_WORKSPACE else found).append(plan)
                if len(found) == wanted:
                    return found
            if found:
                return found
        if not greedy:
            raise refusal
        return greedy[:1]

    def _ranked(self, mode: int) -> list[Descriptor]:
        asked: dict[Attribute, list[Any]] = {
            Named.ENGINEHEUR_OPERATION_GRAPH: [self._graph],
            Named.ENGINEHEUR_MODE: [mode],
        }
        heuristics = Descriptor(self._dnn, Kind.ENGINEHEUR, asked)
        return heuristics.parts(Named.ENGINEHEUR_RESULTS, Kind.ENGINECFG)


def _suits(engine: Descriptor, choosing: Choosing, single: bool) -> bool:
    """Whether what cuDNN notes of an engine's numbers is what the switches allow."""
    notes = engine.parts(Named.ENGINECFG_ENGINE, Kind.ENGINE)[0].notes(Named.ENGINE_NUMERICAL_NOTE)
    if choosing.deterministic and _NOT_DETERMINISTIC in notes:
        return False
    return not (single and (_DOWN_CONVERTS in notes or (not choosing.allow_tf32 and _TENSOR_CORE in notes)))


class _Plan:
    """An engine made ready to run, and how many bytes it needs meanwhile."""

    def __init__(self, dnn: Dnn, handle: int, engine: Descriptor) -> None:
        self.engine = engine
        asked: dict[Attribute, list[Any]] = {
            Named.EXECUTION_PLAN_HANDLE: [handle],
            Named.EXECUTION_PLAN_ENGINE_CONFIG: [engine],
        }
        self.descriptor = Descriptor(dnn, Kind.EXECUTION_PLAN, asked)
        self.workspace = self.descriptor.number(Named.EXECUTION_PLAN_WORKSPACE_SIZE)
