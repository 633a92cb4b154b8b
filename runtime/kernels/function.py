"""``Function``: a kernel that can be launched; ``PreparedLaunch``: the same with all but the arguments settled."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from operator import index
from typing import TYPE_CHECKING, Any

from ...allocators.errors import CuplugError, DriverError
from ..drivers.base import Dim3, Driver, FunctionAttributes
from ..foreign import stream_handle
from ..stream import ExternalStream, as_stream
from ..upstream import PER_THREAD_KEY, driver_handle
from .arguments import Packer, Parameter

if TYPE_CHECKING:
    from ..current import Current
    from ..runtime import Runtime
    from .module import SourceModule

__all__ = ["Function", "PreparedLaunch"]

Queue = Callable[[int, bytes], None]
"""Queues a kernel: ``queue(stream, parameters)``."""

_INVALID_CONTEXT = 201
_GEOMETRIES = 256


class _Loaded:
    """A kernel on one device."""

    __slots__ = ("handle", "packer")

    def __init__(self, handle: int, packer: Packer) -> None:
        self.handle = handle
        self.packer = packer


class Function:
    """A kernel of a ``SourceModule``. Calling it queues a launch::

        saxpy(a, x, y, grid=blocks, block=256)
        saxpy[blocks, 256](a, x, y)

    Arguments are buffers and device arrays (anything with ``__cuda_array_interface__``), NumPy scalars of the
    parameter's kind and size, plain Python numbers, which are converted, and for structures NumPy's structured
    scalars, ctypes structures or bytes.
    """

    def __init__(self, module: SourceModule, name: str) -> None:
        self.module = module
        self.name = name
        self._runtime: Runtime = module.runtime
        self._driver: Driver = module.runtime.driver
        self._loaded: dict[int, _Loaded] = {}
        self._targets: dict[tuple[Any, Any, Any, int], _Target] = {}

    def __call__(self, *args: Any, grid: Any = 1, block: Any, shared: int = 0, stream: Any = None) -> None:
        """Queue a launch on the current device, or on that of ``stream``.

        Args:
            args: the kernel's arguments.
            grid: blocks: a number, or up to three for x, y and z.
            block: threads of a block, as ``grid``.
            shared: bytes of dynamic shared memory of each block.
            stream: where to queue it: a ``Stream``, another library's or a handle; by default the current one.

        Raises:
            TypeError: the wrong number of arguments, or one of the wrong kind or size; the message names it.
            ValueError: grid, block or shared memory are beyond the device's limits; the message names the limit.
            DriverError: the launch failed, or the device is in a sticky error state.
        """
        current = self._runtime.current
        if stream is None:
            ordinal = current.device
            handle = current.stream
            if handle >= PER_THREAD_KEY:
                handle = driver_handle(handle)
        else:
            ordinal, handle = self._runtime.stream_device(stream), stream_handle(stream)
        try:
            target = self._targets[grid, block, shared, ordinal]
        except (KeyError, TypeError):
            target = self._target(grid, block, shared, ordinal)
        _launch(target, current, handle, args)

    def __getitem__(self, geometry: Any) -> PreparedLaunch:
        """``fn[grid, block]`` or ``fn[grid, block, shared, stream]``: see ``prepare``."""
        if not isinstance(geometry, tuple) or not 2 <= len(geometry) <= 4:
            raise TypeError(
                f"{self.name}[grid, block] takes grid and block, then shared memory and stream; got {geometry!r}"
            )
        return self.prepare(*geometry)

    def prepare(self, grid: Any, block: Any, shared: int = 0, stream: Any = None) -> PreparedLaunch:
        """Settle everything but the arguments, for loops that launch again and again: ``launch = fn.prepare(...)``,
        then ``launch(*args)``. On the device that is current now, or that of ``stream``; without ``stream``, on the
        stream that is current at each launch. Raises as calling does.
        """
        ordinal = self._runtime.current.device if stream is None else self._runtime.stream_device(stream)
        target = self._target(grid, block, shared, ordinal)
        return PreparedLaunch(self, target, None if stream is None else stream_handle(stream))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The kernel's parameters."""
        ordinal = self._runtime.current.device
        return (self._loaded.get(ordinal) or self._load(ordinal)).packer.parameters

    @property
    def attributes(self) -> FunctionAttributes:
        """What the driver knows of the kernel on the current device."""
        ordinal = self._runtime.current.device
        loaded = self._loaded.get(ordinal) or self._load(ordinal)
        with self._runtime.on_device(ordinal):
            return self._driver.function_attributes(loaded.handle)

    def __repr__(self) -> str:
        return f"<Function {self.name}>"

    def _load(self, ordinal: int) -> _Loaded:
        with self._runtime.on_device(ordinal):
            handle, parameters = self.module.load_function(self.name, ordinal)
        loaded = self._loaded[ordinal] = _Loaded(handle, Packer(self.name, parameters))
        return loaded

    def _target(self, grid: Any, block: Any, shared: int, ordinal: int) -> _Target:
        """Check the geometry, and settle all that it settles."""
        loaded = self._loaded.get(ordinal) or self._load(ordinal)
        geometry = self._geometry(loaded, grid, block, shared, ordinal)
        queue = _queue(self._driver, loaded.handle, *geometry)
        target = _Target(self._runtime, loaded.packer, geometry, ordinal, queue)
        if len(self._targets) >= _GEOMETRIES:
            self._targets.clear()
        with suppress(TypeError):  # a list, say
            self._targets[grid, block, shared, ordinal] = target
        return target

    def _geometry(self, loaded: _Loaded, grid: Any, block: Any, shared: int, ordinal: int) -> tuple[Dim3, Dim3, int]:
        blocks, threads = _dimensions("grid", grid), _dimensions("block", block)
        device = self._runtime.properties(ordinal)
        for what, sizes, limits, limit_name in (
            ("grid", blocks, device.max_grid_dim, "max_grid_dim"),
            ("block", threads, device.max_block_dim, "max_block_dim"),
        ):
            for axis, size, limit in zip("xyz", sizes, limits, strict=True):
                if not 1 <= size <= limit:
                    raise ValueError(
                        f"launch of {self.name}: {what} {sizes} has {size} in {axis}; it must be from 1 to {limit} "
                        f"(the device's {limit_name})"
                    )
        count = threads[0] * threads[1] * threads[2]
        if count > device.max_threads_per_block:
            raise ValueError(
                f"launch of {self.name}: block {threads} has {count} threads; a block may have "
                f"{device.max_threads_per_block} (the device's max_threads_per_block)"
            )
        with self._runtime.on_device(ordinal):
            most = self._driver.function_attributes(loaded.handle).max_threads_per_block
        if count > most:
            raise ValueError(
                f"launch of {self.name}: block {threads} has {count} threads; this kernel was compiled for at most "
                f"{most} (its __launch_bounds__ or registers: max_threads_per_block of its attributes)"
            )
        shared = index(shared)
        if not 0 <= shared <= device.shared_memory_per_block_optin:
            raise ValueError(
                f"launch of {self.name}: {shared} bytes of dynamic shared memory; a block may have "
                f"{device.shared_memory_per_block_optin} (the device's shared_memory_per_block_optin)"
            )
        return blocks, threads, shared


class PreparedLaunch:
    """A kernel with its grid, block, shared memory and device settled. Calling it with arguments queues it."""

    __slots__ = ("_function", "_handle", "_target")

    def __init__(self, function: Function, target: _Target, handle: int | None) -> None:
        self._function = function
        self._target = target
        self._handle = handle

    def __call__(self, *args: Any) -> None:
        """Queue the kernel. Raises as ``Function`` does for arguments."""
        target = self._target
        current = target.runtime.current
        handle = self._handle
        if handle is None:
            if current.device == target.ordinal:
                handle = current.stream
            else:
                stream = current.streams.get(target.ordinal)
                handle = 0 if stream is None else stream.cuda_stream
            if handle >= PER_THREAD_KEY:
                handle = driver_handle(handle)
        _launch(target, current, handle, args)

    def __repr__(self) -> str:
        grid, block, shared = self._target.geometry
        return f"<{self._function.name} with grid {grid}, block {block}, {shared} bytes of shared memory>"


class _Target:
    """A kernel on one device with its geometry."""

    __slots__ = ("geometry", "ordinal", "packer", "plain", "queue", "runtime")

    def __init__(
        self, runtime: Runtime, packer: Packer, geometry: tuple[Dim3, Dim3, int], ordinal: int, queue: Queue
    ) -> None:
        self.runtime = runtime
        self.packer = packer
        self.plain = packer.plain
        self.geometry = geometry
        self.ordinal = ordinal
        self.queue = queue


def _launch(target: _Target, current: Current, handle: int, args: tuple[Any, ...]) -> None:
    pack = target.plain.get(tuple(map(type, args)))
    if pack is None:
        packer = target.packer
        plan = packer.plan(args)
        parameters = packer.pack(plan, args)
        if plan.foreign:
            _order(target, packer.streams(plan, args), handle)
    else:
        try:
            parameters = pack(*args)
        except (struct.error, OverflowError):
            target.packer.explain(args)
    ordinal, runtime = target.ordinal, target.runtime
    if current.device != ordinal:
        with runtime.on_device(ordinal):
            target.queue(handle, parameters)
    else:
        try:
            target.queue(handle, parameters)
        except DriverError as error:
            if error.code != _INVALID_CONTEXT:
                raise
            runtime.driver.set_device(ordinal)  # the first call of this thread that needs a device
            target.queue(handle, parameters)
    if runtime.launch_blocking:
        with runtime.on_device(ordinal):
            runtime.driver.stream_synchronize(handle)


def _order(target: _Target, streams: list[int], handle: int) -> None:
    """Wait for the streams on which other libraries make the contents of arguments."""
    for stream in streams:
        if stream != handle:
            queue = as_stream(ExternalStream(handle, target.ordinal, runtime=target.runtime), target.runtime)
            queue.wait_stream(ExternalStream(stream, target.ordinal, runtime=target.runtime))


def _queue(driver: Driver, function: int, grid: Dim3, block: Dim3, shared: int) -> Queue:
    """The driver's fastest way to launch a kernel again and again."""
    bind: Callable[..., Queue] | None = getattr(driver, "bind_launch", None)
    if bind is not None:
        return bind(function, grid, block, shared=shared)

    def queue(stream: int, parameters: bytes) -> None:
        driver.launch(function, grid, block, shared=shared, stream=stream, parameters=parameters)

    return queue


def _dimensions(what: str, value: Any) -> Dim3:
    try:
        parts = (index(value),) if not isinstance(value, (tuple, list)) else tuple(index(part) for part in value)
    except TypeError:
        parts = ()
    if not 1 <= len(parts) <= 3:
        raise CuplugError(f"{what} is {value!r}; give a whole number, or up to three for x, y and z")
    x, y, z = (*parts, 1, 1)[:3]
    return x, y, z
