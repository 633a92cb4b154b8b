"""``Function``: a kernel that can be launched; ``PreparedLaunch``: the same with all but the arguments settled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias

from ....allocators.errors import CuplugError
from ...drivers.base import Dim3, Driver, FunctionAttributes
from ...machine.foreign_handles import stream_handle
from ...machine.runtime_upstream import PER_THREAD_KEY, driver_handle
from .arguments import Packer, Parameter
from .generated_calls import generate_call, generate_prepared_call
from .target import Target, launch

if TYPE_CHECKING:
    from typing_extensions import Self

    from ...machine.runtime import Runtime

_GEOMETRIES = 256
LoadKernel: TypeAlias = "Callable[[int], tuple[int, list[Parameter]]]"

# Both classes are kinds of `partial`, since instances of that pass keywords on as they come. Those of a class with a
# `__call__` in Python make a dictionary of them first (0.1 to 0.2 µs of a launch).


class Function(partial[None]):
    """A kernel of a ``SourceModule``. Calling it queues a launch on the current device, or on that of ``stream``::

        saxpy(a, x, y, grid=blocks, block=256)
        saxpy[blocks, 256](a, x, y)

    Arguments are buffers and device arrays (anything with ``__cuda_array_interface__``), NumPy scalars of the
    parameter's kind and size, plain Python numbers, which are converted, and for structures NumPy's structured
    scalars, ctypes structures or bytes. ``grid`` is the number of blocks, or up to three for x, y and z; ``block`` the
    threads of a block likewise; ``shared`` the bytes of dynamic shared memory of each block; ``stream`` where to queue
    it: a ``Stream``, another library's or a handle, by default the current one. With ``cooperative=True`` all blocks
    are resident at once and may wait for one another (``cooperative_groups::this_grid().sync()``).

    Raises:
        TypeError: the wrong number of arguments, or one of the wrong kind or size; the message names it.
        ValueError: grid, block or shared memory are beyond the device's limits; the message names the limit.
        DriverError: the launch failed, or the device is in a sticky error state; or
            ``CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE``: the device cannot hold all blocks at once.
    """

    name: str
    _kernel: _Kernel

    if TYPE_CHECKING:

        def __call__(
            self,
            *args: Any,
            grid: Any = 1,
            block: Any,
            shared: int = 0,
            stream: Any = None,
            cooperative: bool = False,
        ) -> None: ...

    def __new__(cls, runtime: Runtime, name: str, load: LoadKernel) -> Self:
        """A kernel, loaded on the current device.

        Args:
            runtime: whose devices it runs on.
            name: what the program calls it.
            load: loads it on a device, given by its ordinal, which is current then; returns the driver's handle and
                the parameters.
        """
        kernel = _Kernel(runtime, name, load)
        self = super().__new__(cls, kernel.call)
        self.name = name
        self._kernel = kernel
        generate_call(self, kernel.runtime, kernel.packer, kernel.targets)
        return self

    def __init__(self, runtime: Runtime, name: str, load: LoadKernel) -> None:
        pass

    def __getitem__(self, geometry: Any) -> PreparedLaunch:
        """``fn[grid, block]`` or ``fn[grid, block, shared, stream]``: see ``prepare``."""
        if not isinstance(geometry, tuple) or not 2 <= len(geometry) <= 4:
            raise TypeError(
                f"{self.name}[grid, block] takes grid and block, then shared memory and stream; got {geometry!r}"
            )
        return self.prepare(*geometry)

    def prepare(
        self, grid: Any, block: Any, shared: int = 0, stream: Any = None, *, cooperative: bool = False
    ) -> PreparedLaunch:
        """Settle everything but the arguments, for loops that launch again and again: ``launch = fn.prepare(...)``,
        then ``launch(*args)``. On the device that is current now, or that of ``stream``; without ``stream``, on the
        stream that is current at each launch. Raises as calling does.
        """
        kernel = self._kernel
        ordinal = kernel.runtime.current.device if stream is None else kernel.runtime.stream_device(stream)
        target = kernel.target(grid, block, shared, ordinal, cooperative=cooperative)
        return PreparedLaunch(self.name, target, kernel.packer, None if stream is None else stream_handle(stream))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The kernel's parameters."""
        return self._kernel.packer.parameters

    @property
    def attributes(self) -> FunctionAttributes:
        """What the driver knows of the kernel on the current device."""
        return self._kernel.attributes(self._kernel.runtime.current.device)

    def __repr__(self) -> str:
        return f"<Function {self.name}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled; its source can")


class PreparedLaunch(partial[None]):
    """A kernel with its grid, block, shared memory and device settled. Calling it with arguments queues it, and raises
    as ``Function`` does for arguments.
    """

    name: str
    _target: Target

    def __new__(cls, name: str, target: Target, packer: Packer, handle: int | None) -> Self:
        """A launch on the stream ``handle``, or with None on the current one of the target's device."""

        def in_any_case(args: tuple[Any, ...]) -> None:
            current = target.runtime.current
            if handle is not None:
                key = handle
            elif current.device == target.ordinal:
                key = current.stream
            else:
                stream = current.streams.get(target.ordinal)
                key = 0 if stream is None else stream.cuda_stream
            launch(target, packer, current, key if key < PER_THREAD_KEY else driver_handle(key), args)

        self = super().__new__(cls, in_any_case)
        self.name = name
        self._target = target
        generate_prepared_call(self, packer, target, handle)
        return self

    def __init__(self, name: str, target: Target, packer: Packer, handle: int | None) -> None:
        pass

    def __repr__(self) -> str:
        grid, block, shared = self._target.geometry
        return f"<{self.name} with grid {grid}, block {block}, {shared} bytes of shared memory>"

    def __reduce__(self) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled; its source can")


class _Kernel:
    """What a ``Function`` knows."""

    def __init__(self, runtime: Runtime, name: str, load: LoadKernel) -> None:
        self.name = name
        self.runtime = runtime
        self.targets: dict[tuple[Any, Any, Any, int], Target] = {}
        self.cooperative: dict[tuple[Any, Any, Any, int], Target] = {}
        """The targets of cooperative launches."""
        self._load = load
        self._driver: Driver = runtime.driver
        self._handles: dict[int, int] = {}
        self.packer: Packer
        self._handle(self.runtime.current.device)

    def call(
        self, args: tuple[Any, ...], grid: Any, block: Any, shared: int, stream: Any, cooperative: bool = False
    ) -> None:
        """Launch in any case that the fast call leaves."""
        current = self.runtime.current
        if stream is None:
            ordinal, handle = current.device, current.stream
            if handle >= PER_THREAD_KEY:
                handle = driver_handle(handle)
        else:
            ordinal, handle = self.runtime.stream_device(stream), stream_handle(stream)
        if block is None:
            raise TypeError(f"kernel {self.name} needs block: call it as {self.name}(…, grid=blocks, block=threads)")
        target = None
        with suppress(KeyError, TypeError):
            target = (self.cooperative if cooperative else self.targets)[grid, block, shared, ordinal]
        if target is None:  # outside the block, so that errors do not tell of this one
            target = self.target(grid, block, shared, ordinal, cooperative=cooperative)
        launch(target, self.packer, current, handle, args)

    def target(self, grid: Any, block: Any, shared: int, ordinal: int, *, cooperative: bool = False) -> Target:
        """Check the geometry, and settle all that it settles."""
        geometry = self._geometry(grid, block, shared, ordinal)
        handle, nbytes = self._handle(ordinal), self.packer.nbytes
        target = Target(self.runtime, handle, geometry, ordinal, nbytes, cooperative=cooperative)
        targets = self.cooperative if cooperative else self.targets
        if len(targets) >= _GEOMETRIES:
            targets.clear()
        with suppress(TypeError):  # a list, say
            targets[grid, block, shared, ordinal] = target
        return target

    def attributes(self, ordinal: int) -> FunctionAttributes:
        """What the driver knows of the kernel on a device."""
        handle = self._handle(ordinal)
        with self.runtime.on_device(ordinal):
            return self._driver.function_attributes(handle)

    def _handle(self, ordinal: int) -> int:
        handle = self._handles.get(ordinal)
        if handle is None:
            with self.runtime.on_device(ordinal):
                handle, parameters = self._load(ordinal)
            if not self._handles:
                self.packer = Packer(self.name, parameters)
            self._handles[ordinal] = handle
        return handle

    def _geometry(self, grid: Any, block: Any, shared: int, ordinal: int) -> tuple[Dim3, Dim3, int]:
        blocks, threads = _dimensions("grid", grid), _dimensions("block", block)
        device = self.runtime.properties(ordinal)
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
        most = self.attributes(ordinal).max_threads_per_block
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


def _dimensions(what: str, value: Any) -> Dim3:
    try:
        parts = (index(value),) if not isinstance(value, (tuple, list)) else tuple(index(part) for part in value)
    except TypeError:
        parts = ()
    if not 1 <= len(parts) <= 3:
        raise CuplugError(f"{what} is {value!r}; give a whole number, or up to three for x, y and z")
    x, y, z = (*parts, 1, 1)[:3]
    return x, y, z
