"""Kernels of ``pycuda.driver``: modules, functions and the arguments that copy themselves."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ....kernels.launch.kernel_function import Function as CuplugFunction
from ....kernels.source_module import SourceModule
from ....machine.callers import warn_program
from .compiled_sources import unpack
from .device_contexts import current_ordinal, library_memory, runtime
from .driver_constants import function_attribute
from .driver_errors import LogicError, lacking, translated
from .element_types import warn_of_elements
from .linear_memory import DeviceAllocation, address_of, mem_alloc, memcpy_dtoh_async, memcpy_htod_async
from .page_locked import managed_base
from .queues import Event, Stream, handle_of
from .references import SurfaceReference, TextureReference

__all__ = ["ArgumentHandler", "Function", "In", "InOut", "Module", "Out", "module_from_buffer", "module_from_file"]

_MOST_SHARED = 48 << 10
"""Bytes of dynamic shared memory that a kernel may have without being told (``cuLaunchKernel``)."""
_COMPLEX = {"F": np.complex64, "D": np.complex128}


class ArgumentHandler:
    """A host array that a launch copies to the device, or back from it, or both."""

    to_device = from_device = False

    def __init__(self, array: Any) -> None:
        self.array = array
        self.dev_alloc: Any = None

    def get_device_alloc(self) -> Any:
        """The device memory of the array, allocated when it is first asked for."""
        if self.dev_alloc is None:
            self.dev_alloc = mem_alloc(self.array.nbytes)
        return self.dev_alloc

    def pre_call(self, stream: Stream | None) -> None:
        """What is to be copied before the launch."""
        if self.to_device:
            memcpy_htod_async(self.get_device_alloc(), self.array, stream)

    def post_call(self, stream: Stream | None) -> None:
        """What is to be copied after the launch."""
        if self.from_device:
            memcpy_dtoh_async(self.array, self.get_device_alloc(), stream)


class In(ArgumentHandler):
    """An array that is copied to the device before the launch."""

    to_device = True


class Out(ArgumentHandler):
    """An array that is copied back from the device after the launch."""

    from_device = True


class InOut(ArgumentHandler):
    """An array that is copied to the device before the launch, and back after it."""

    to_device = from_device = True


class Function:
    """A kernel. See ``__call__`` and ``prepare`` for the two ways to launch it."""

    def __init__(self, kernel: CuplugFunction, module: Module) -> None:
        self._kernel, self._module = kernel, module
        self._prepared: list[Callable[[Any], Any]] | None = None
        self._shared, self._most_shared = 0, _MOST_SHARED
        self._block = (1, 1, 1)
        self._arguments: tuple[Any, ...] = ()

    # --- with arguments that say what they are

    @translated
    def __call__(
        self,
        *args: Any,
        block: Sequence[int] | None = None,
        grid: Sequence[int] = (1,),
        stream: Stream | None = None,
        shared: int = 0,
        texrefs: Sequence[TextureReference] = (),
        time_kernel: bool = False,
    ) -> float | None:
        """Launch, with arguments of these kinds: NumPy's sized numbers, device memory, ``In``, ``Out`` and ``InOut``,
        device arrays, and buffers, which are passed as they are.

        Returns:
            With ``time_kernel`` the seconds that it took, of the simulated clock.

        Raises:
            TypeError: an argument is of no such kind, or does not fit its parameter.
            ValueError: no block is given.
            LogicError: grid, block or shared memory are beyond the device's limits.
            LaunchError: the device had failed before.
        """
        if block is None:
            raise ValueError("must specify block size: block=(threads in x, y, z)")
        handlers = [each for each in args if isinstance(each, ArgumentHandler)]
        values = [self._value(place, each) for place, each in enumerate(args)]
        for handler in handlers:
            handler.pre_call(stream)
        start, end = (Event(), Event()) if time_kernel else (None, None)
        if start:
            start.record(stream)
        self._launch(grid, block, stream, shared, texrefs, values)
        if end:
            end.record(stream)
        for handler in handlers:
            handler.post_call(stream)
        if handlers and stream is None:
            self._module.synchronize()
        if start is None or end is None:
            return None
        return end.synchronize().time_since(start) * 1e-3

    # --- with arguments whose types are settled before

    def prepare(
        self, arg_types: str | Iterable[Any], shared: int | None = None, texrefs: Sequence[TextureReference] = ()
    ) -> Function:
        """Settle the arguments' types: characters of ``struct``, with ``F`` and ``D`` for complex numbers, or NumPy's
        types; and the bytes of dynamic shared memory. Returns this function.

        Raises:
            TypeError: a character is unknown.
        """
        self._prepared = [_converter(each) for each in arg_types]
        self._shared = shared or 0
        self._texrefs = tuple(texrefs)
        return self

    def prepared_call(self, grid: Sequence[int], block: Sequence[int], *args: Any, shared_size: int = 0) -> None:
        """Launch with arguments as ``prepare`` has settled them. Raises LogicError without that, else as calling."""
        self.prepared_async_call(grid, block, None, *args, shared_size=shared_size)

    @translated
    def prepared_async_call(
        self, grid: Sequence[int], block: Sequence[int], stream: Stream | None, *args: Any, shared_size: int = 0
    ) -> None:
        """The same on a stream.

        Raises:
            LogicError: ``prepare`` was not called, or as calling.
            TypeError: there are too many arguments or too few, or as calling.
        """
        if self._prepared is None:
            raise LogicError(f"call prepare() of {self!r} before this: it settles the arguments' types")
        if len(args) != len(self._prepared):
            raise TypeError(f"{self!r} was prepared for {len(self._prepared)} arguments, and got {len(args)}")
        values = [self._value(place, value, self._prepared[place]) for place, value in enumerate(args)]
        self._launch(grid, block, stream, shared_size or self._shared, self._texrefs, values)

    def prepared_timed_call(
        self, grid: Sequence[int], block: Sequence[int], *args: Any, shared_size: int = 0
    ) -> Callable[[], float]:
        """The same as ``prepared_call``. Returns a function for the seconds that it took, of the simulated clock."""
        start, end = Event(), Event()
        start.record()
        self.prepared_call(grid, block, *args, shared_size=shared_size)
        end.record()
        return lambda: end.synchronize().time_since(start) * 1e-3

    # --- as programs of old do it

    def set_block_shape(self, x: int, y: int, z: int) -> None:
        """The block of ``launch`` and its kin."""
        self._block = (x, y, z)

    def set_shared_size(self, bytes: int) -> None:  # noqa: A002 - PyCUDA's name
        """The bytes of dynamic shared memory of ``launch`` and its kin."""
        self._shared = bytes

    def param_set(self, *args: Any) -> None:
        """The arguments of ``launch`` and its kin."""
        self._arguments = args

    def param_set_texref(self, texref: TextureReference) -> None:
        """Nothing: kernels find their textures by themselves."""

    def launch(self) -> None:
        """Launch one block."""
        self.launch_grid(1, 1)

    def launch_grid(self, width: int, height: int) -> None:
        """Launch a grid of blocks."""
        self.launch_grid_async(width, height, None)

    def launch_grid_async(self, width: int, height: int, stream: Stream | None) -> None:
        """Launch a grid of blocks on a stream."""
        self(*self._arguments, grid=(width, height), block=self._block, shared=self._shared, stream=stream)

    def param_set_size(self, bytes: int) -> None:  # noqa: A002, ARG002 - PyCUDA's name
        """Refused. Raises NotImplementedError."""
        lacking("Function.param_set_size", "use param_set")

    def param_seti(self, offset: int, value: int) -> None:  # noqa: ARG002 - as PyCUDA's
        """Refused. Raises NotImplementedError."""
        lacking("Function.param_seti", "use param_set")

    def param_setf(self, offset: int, value: float) -> None:  # noqa: ARG002 - as PyCUDA's
        """Refused. Raises NotImplementedError."""
        lacking("Function.param_setf", "use param_set")

    # --- what is known of it

    @translated
    def get_attribute(self, attr: function_attribute) -> int:
        """The value of an attribute."""
        known = self._kernel.attributes
        values = {
            "MAX_THREADS_PER_BLOCK": known.max_threads_per_block,
            "SHARED_SIZE_BYTES": known.shared_bytes,
            "CONST_SIZE_BYTES": known.const_bytes,
            "LOCAL_SIZE_BYTES": known.local_bytes,
            "NUM_REGS": known.num_regs,
            "MAX_DYNAMIC_SHARED_SIZE_BYTES": self._most_shared,
        }
        name = function_attribute(attr).name
        if name not in values:
            lacking(f"function_attribute.{name}")
        return values[name]

    def set_attribute(self, attr: function_attribute, value: int) -> None:
        """Set an attribute. Only the most dynamic shared memory counts on the simulator."""
        if function_attribute(attr).name == "MAX_DYNAMIC_SHARED_SIZE_BYTES":
            self._most_shared = int(value)

    def set_cache_config(self, fc: Any) -> None:
        """Nothing: the simulator has no caches."""

    def set_shared_config(self, sc: Any) -> None:
        """Nothing: the simulator's shared memory has no banks."""

    def __getattr__(self, name: str) -> Any:
        if name.upper() in function_attribute.__members__:
            return self.get_attribute(function_attribute[name.upper()])
        old = {"registers": "num_regs", "smem": "shared_size_bytes", "lmem": "local_size_bytes"}
        if name in old:
            return getattr(self, old[name])
        raise AttributeError(f"a kernel has no {name!r} in cuplug's stand-in for PyCUDA")

    def __repr__(self) -> str:
        return f"<pycuda.driver.Function {self._kernel.name}>"

    def _value(self, place: int, argument: Any, convert: Callable[[Any], Any] | None = None) -> Any:
        """What cuplug's launches take for an argument, by ``convert`` where its type was settled before."""
        parameters = self._kernel.parameters
        parameter = parameters[place] if place < len(parameters) else None
        is_pointer = parameter is not None and parameter.kind == "p"
        try:
            value = _value(place, argument, is_pointer) if convert is None else convert(argument)
        except LogicError as error:
            name = f", {parameter.name!r}" if parameter else ""
            raise LogicError(f"argument {place} of kernel {self._kernel.name}{name}: {error}") from None
        if isinstance(value, np.floating) and parameter and parameter.kind == "f" and value.nbytes != parameter.nbytes:
            raise TypeError(
                f"kernel {self._kernel.name}, parameter {place} ({parameter}) cannot be {type(value).__name__}: it has "
                f"{value.nbytes} bytes; pass numpy.float{8 * parameter.nbytes}(...)"
            )
        if parameter and is_pointer and not isinstance(argument, np.generic):
            array = argument.array if isinstance(argument, ArgumentHandler) else argument
            dtype = argument.holds if isinstance(argument, DeviceAllocation) else getattr(array, "dtype", None)
            warn_of_elements(self._kernel.name, place, parameter, dtype)
        return value

    def _launch(
        self, grid: Any, block: Any, stream: Stream | None, shared: int, texrefs: Iterable[Any], values: list[Any]
    ) -> None:
        current_ordinal()  # raises where there is no context
        self._module.bind(texrefs)
        # Whole numbers may come as floats, as from a division.
        asked = tuple(grid), tuple(block)
        blocks, threads = (tuple(int(size) for size in sizes) for sizes in asked)
        if (blocks, threads) != asked:
            raise TypeError(f"grid={asked[0]} and block={asked[1]} are whole numbers: divide by // and round up")
        if shared > self._most_shared:
            raise LogicError(
                f"launch of {self._kernel.name}: {shared} bytes of dynamic shared memory, which may have "
                f"{self._most_shared}: call set_attribute(function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, {shared}) "
                "of the kernel before"
            )
        try:
            self._kernel(*values, grid=blocks, block=threads, shared=int(shared), stream=handle_of(stream))
        except ValueError as error:
            raise LogicError(str(error)) from error


class Module:
    """Compiled kernels."""

    def __init__(self, module: SourceModule) -> None:
        self._compiled = module
        self._references: dict[str, TextureReference] = {}
        self._functions: dict[str, Function] = {}
        self._mangled: set[str] = set()
        """Kernels that a GPU knows by mangled names."""

    @translated
    def get_function(self, name: str) -> Function:
        """A kernel by its name: the same object each time.

        Raises:
            LogicError: there is none.
        """
        function = self._functions.get(name)
        if function is None:
            kernel = self._compiled.get_function(name)
            kernel.parameters  # noqa: B018 - raises where there is none
            if name in self._mangled:
                warn_program(
                    f"on a GPU, PyCUDA finds kernel {name} by its mangled name alone ('named symbol not found'): write "
                    'extern "C" before it'
                )
            function = self._functions[name] = Function(kernel, self)
        return function

    @translated
    def get_global(self, name: str) -> tuple[int, int]:
        """Address and size in bytes of a variable. Raises LogicError if there is none."""
        symbol = self._compiled.get_global(name)
        library_memory().note_variable(symbol.address, symbol.nbytes)
        return symbol.address, symbol.nbytes

    @translated
    def get_texref(self, name: str) -> TextureReference:
        """A texture reference by its name. Raises LogicError if there is none."""
        found = self._references.get(name)
        if found is None:
            found = self._references[name] = TextureReference(name, self._compiled.get_texref(name))
        return found

    @translated
    def get_surfref(self, name: str) -> SurfaceReference:
        """A surface reference by its name. Raises LogicError if there is none."""
        return SurfaceReference(name, self._compiled.get_global(name))

    def bind(self, texrefs: Iterable[TextureReference] = ()) -> None:
        """Let kernels see what the references were set to since the last launch. ``texrefs`` may be of other modules'.

        Raises:
            LogicError: one was set to nothing.
        """
        for reference in (*self._references.values(), *texrefs):
            reference.bind()

    def synchronize(self) -> None:
        """Wait for what was queued on the default stream. Raises LaunchError for what it did."""
        here = self._compiled.runtime
        with here.on_device(here.current.device):
            here.driver.stream_synchronize(0)


def module_from_file(filename: str) -> Module:
    """The kernels in a file that holds what ``compiler.compile`` gave. Code for GPUs raises NotImplementedError."""
    with open(filename, "rb") as file:
        return _module_of("module_from_file", file.read())


def module_from_buffer(buffer: Any, options: Any = (), message_handler: Any = None) -> Module:  # noqa: ARG001
    """The kernels that ``compiler.compile`` compiled. Code for GPUs raises NotImplementedError."""
    return _module_of("module_from_buffer", bytes(buffer))


@translated
def _module_of(name: str, image: bytes) -> Module:
    settings = unpack(image)
    if settings is None:
        lacking(name, "compiled code is for GPUs; give the source to pycuda.compiler.SourceModule, or to its compile")
    current_ordinal()  # raises where there is no context
    return Module(SourceModule(**settings, runtime=runtime()))


# --- arguments


def _value(place: int, argument: Any, is_pointer: bool = False) -> Any:
    """What cuplug's launches take for an argument. Arrays become addresses: PyCUDA does not look at their types."""
    if isinstance(argument, np.ndarray):
        managed = managed_base(argument)
        if managed is not None:
            return int(managed)
    if is_pointer and isinstance(argument, (np.void, np.ndarray)):
        raise TypeError(
            f"parameter #{place} (0-based) is a pointer to device memory, and this is a NumPy array, which is the "
            "host's: wrap it in In, Out or InOut, or copy it to the device"
        )
    if isinstance(argument, (np.void, np.ndarray)):
        return argument.tobytes()
    if isinstance(argument, np.generic):
        return argument
    if isinstance(argument, ArgumentHandler):
        return int(argument.get_device_alloc())
    if isinstance(argument, (bytes, bytearray, memoryview)):
        return bytes(argument)
    if not isinstance(argument, (int, float, complex, str)) and argument is not None:
        pointer = getattr(argument, "gpudata", argument)
        if hasattr(argument, "__cuda_array_interface__") or hasattr(type(pointer), "__int__"):
            return address_of(argument) if pointer is argument else int(pointer)
    kind = type(argument).__name__
    raise TypeError(
        f"invalid type on parameter #{place} (0-based): {kind}. Pass a number with a size (numpy.int32), device "
        "memory, In, Out or InOut of an array, or a device array"
    )


def _converter(kind: Any) -> Callable[[Any], Any]:
    if isinstance(kind, str):
        if kind == "P":
            return _pointer
        if kind in _COMPLEX:
            return _COMPLEX[kind]
        if kind == "?":
            return bool
        try:
            struct.calcsize(kind)
        except struct.error:
            raise TypeError(f"{kind!r} is no argument type: give characters of struct, or NumPy's types") from None
        return np.dtype(kind).type
    dtype = np.dtype(kind)
    if dtype.kind == "V":
        return lambda value: np.asarray(value, dtype).tobytes()
    convert: Callable[[Any], Any] = dtype.type
    return convert


def _pointer(value: Any) -> int:
    if value is None:
        return 0
    pointer = getattr(value, "gpudata", value)
    return address_of(pointer)
