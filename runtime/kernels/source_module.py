"""``SourceModule``: CUDA C++ compiled when it is made, loaded on each device that uses it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ...allocators.errors import CuplugError
from ..drivers.base import Driver
from ..drivers.device_upstream import on_device
from ..machine.callers import calling_frame
from ..machine.default_runtime import default_runtime
from ..machine.runtime import Runtime
from .compile.compile_cache import Cache, Entry, default_cache, encode
from .launch.arguments import Parameter
from .launch.global_symbol import GlobalSymbol
from .launch.kernel_function import Function
from .source.kernel_names import demangle, find_kernel, plain_name, typed_name
from .source.signatures import Signature, kinds, pointees, signatures
from .texture import TextureReference

if TYPE_CHECKING:
    from ..drivers.sim import SimDriver
    from .simulator.host_loader import HostLoader


class _CompilerSettings(NamedTuple):
    """What both kinds of compilation are given besides the source."""

    options: tuple[str, ...]
    name_expressions: tuple[str, ...]
    include_dirs: tuple[str, ...]
    arch: str
    cache: Cache | None


class SourceModule:
    """Kernels from CUDA C++ source. On a GPU NVRTC or nvcc compiles it; on the simulator a C++ compiler does.

    Compiled code is kept on disk (``CUPLUG_CACHE_DIR``). The module belongs to the runtime, and is loaded on each of
    its devices that uses it; ``__device__`` and ``__constant__`` variables exist once on each.
    """

    def __init__(
        self,
        source: str,
        *,
        options: str | Iterable[str] = (),
        name_expressions: str | Iterable[str] = (),
        arch: str | None = None,
        no_extern_c: bool = False,  # noqa: ARG002 - PyCUDA has it
        include_dirs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
        check: bool | str | None = None,
        cache: bool = True,
        runtime: Runtime | None = None,
    ) -> None:
        """Compile ``source``.

        Args:
            source: CUDA C++. Functions for the host that launch kernels or call CUDA's API are left out.
            options: for the compiler, as NVRTC and nvcc take them (``-DN=8``, ``--use_fast_math``). A string is one
                option, here and below.
            name_expressions: instances of templates to compile, as C++ writes them: ``scale<float>``.
            arch: for example ``sm_90``; by default the current device's.
            no_extern_c: as PyCUDA's; sources are never put into ``extern "C" {}`` here, since kernels are found by
                their plain names in either case.
            include_dirs: where ``#include`` looks.
            check: on the simulator, whether every access is checked against the live allocations and for alignment
                (the default, if this process can map the tables for it). Unchecked kernels run faster, vectorised
                where the compiler can; accesses outside mapped memory are reported all the same. ``"races"`` also
                compares the accesses of threads with one another, and reports races, what nobody has written, masks
                of warp functions that do not fit, writes to ``__constant__`` memory, and arrays overrun into their
                neighbours; it costs much time. By default what the driver's option ``check`` says. Ignored on a GPU.
            cache: whether compiled code is looked for on disk and kept there.
            runtime: the default runtime, if left out.

        Raises:
            CompileError: it does not compile, or there is no compiler; ``log`` holds the compiler's messages.
            CuplugError: there is no device.
            ValueError: ``check`` is another string than ``"races"``.
        """
        self.runtime = runtime or default_runtime()
        self.source = source
        self._program = calling_frame().f_code.co_filename
        self.name_expressions = _items(name_expressions)
        self._driver: Driver = self.runtime.driver
        self._cache = default_cache() if cache else None
        self._modules: dict[int, int] = {}  # the driver's handles, by device
        self._functions: dict[str, Function] = {}
        self._signatures: dict[str, Signature] | None = None
        capability = self.runtime.properties(self.runtime.current.device)
        arch = arch or f"sm_{capability.major}{capability.minor}"
        self._simulated = self._driver.simulator is not None
        folders = (*map(str, _items(include_dirs)), *_folders_of_pycuda(source))
        settings = _CompilerSettings(_items(options), self.name_expressions, folders, arch, self._cache)
        self._entry = self._compile_for_host(settings, check) if self._simulated else self._compile_for_gpu(settings)
        self._image = encode(self._entry) if self._simulated else self._entry.payload

    # --- what programs use

    def get_function(self, name: str) -> Function:
        """A kernel by its name: plain, with its namespaces, mangled, or a name expression. Of kernels that share a name
        one is called with its parameters' types: ``scale(const float*, int)``.

        Raises:
            DriverError: ``CUDA_ERROR_NOT_FOUND``; the message lists the kernels there are.
        """
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = Function(self.runtime, name, partial(self.load_function, name))
        return function

    def get_global(self, name: str) -> GlobalSymbol:
        """A ``__device__`` or ``__constant__`` variable of the current device by its name.

        Raises:
            DriverError: ``CUDA_ERROR_NOT_FOUND``.
        """
        ordinal = self.runtime.current.device
        with self.runtime.on_device(ordinal):
            module = self._load(ordinal)
            address, nbytes = self._driver.module_global(module, self._symbol_name(name))
        read_only = self._simulated and self._loader.is_constant(module, name)
        return GlobalSymbol(name, address, nbytes, ordinal, self.runtime, read_only=read_only)

    def get_texref(self, name: str) -> TextureReference:
        """A texture reference of the current device by its name (``texture<float, 2> image;``, as CUDA had them until
        version 11): what kernels see through it is settled by ``bind``.

        Raises:
            DriverError: ``CUDA_ERROR_NOT_FOUND``.
        """
        return TextureReference(self.get_global(name))

    @property
    def log(self) -> str:
        """What the compiler said (warnings), if anything."""
        return str(self._entry.facts.get("log", ""))

    def __repr__(self) -> str:
        return f"<SourceModule of {len(self.source.splitlines())} lines, loaded on {len(self._modules)} devices>"

    # --- what functions use

    def load_function(self, name: str, ordinal: int) -> tuple[int, list[Parameter]]:
        """The driver's handle of a kernel on a device, which is current, and its parameters."""
        module = self._load(ordinal)
        if self._simulated:
            handle = self._driver.module_function(module, self._host_name(name))
            kernel = self._loader.kernel(handle)
            return handle, [Parameter(p.name, p.offset, p.nbytes, p.kind, p.pointee) for p in kernel.parameters]
        symbol = self._gpu_name(name)
        handle = self._driver.module_function(module, symbol)
        layout = self._driver.function_parameters(handle)
        if self._signatures is None or ("<" in name and name not in self._signatures):
            self._signatures = signatures(self.source, (*self.name_expressions, name))
        keys = (name, plain_name(name), typed_name(demangle(symbol)))
        signature = next((self._signatures[key] for key in keys if key in self._signatures), None)
        named = kinds(signature, layout)
        pointed = pointees(signature) if signature and len(signature.types) == len(layout) else [""] * len(layout)
        return handle, [
            Parameter(parameter, offset, nbytes, kind, pointee if kind == "p" else "")
            for (parameter, kind), (offset, nbytes), pointee in zip(named, layout, pointed, strict=True)
        ]

    def _load(self, ordinal: int) -> int:
        module = self._modules.get(ordinal)
        if module is None:
            module = self._modules[ordinal] = self._driver.module_load(self._image)
            if self._simulated:
                self._loader.note_program(module, self._program)
            _unload_at_close(self.runtime, ordinal, module)
        return module

    # --- the simulator

    @property
    def _loader(self) -> HostLoader:
        return cast("HostLoader", cast("SimDriver", self._driver).module_loader)

    def _compile_for_host(self, settings: _CompilerSettings, check: bool | str | None) -> Entry:
        from .simulator.engine import engine
        from .simulator.host_compiler import compile_for_host

        _attach_loader(self.runtime, self._cache)
        if isinstance(check, str) and check != "races":
            raise ValueError(f"check={check!r}: say True, False or 'races'")
        check = cast("SimDriver", self._driver).check if check is None else check
        can_check = engine(self._cache).can_check
        if check and not can_check:
            raise CuplugError(
                "checked kernels need tables in this process's address space, which cannot be mapped (see ulimit -v); "
                "pass check=False"
            )
        checked = can_check if check is None else bool(check)
        return compile_for_host(self.source, checked=checked, races=check == "races", **settings._asdict())

    def _host_name(self, name: str) -> str:
        parameters = self._entry.facts["parameters"]
        assert isinstance(parameters, dict)
        return find_kernel(name, list(parameters), self.source)

    # --- GPUs

    def _compile_for_gpu(self, settings: _CompilerSettings) -> Entry:
        from .compile.gpu_compiler import compile_for_gpu
        from .compile.texture_references import with_texture_references
        from .source.host_code import without_host_code

        source = with_texture_references(without_host_code(self.source))
        return compile_for_gpu(source, **settings._asdict())

    def _gpu_name(self, name: str) -> str:
        from .compile.gpu_compiler import kernel_symbols

        lowered = self._entry.facts.get("lowered")
        assert isinstance(lowered, dict)
        if name in lowered:
            return str(lowered[name])
        symbols = kernel_symbols(self._entry.payload)
        if name in symbols:
            return name
        full = {demangle(symbol): symbol for symbol in symbols}
        shared = Counter(map(plain_name, full))
        known = {plain_name(text) if shared[plain_name(text)] == 1 else text: symbol for text, symbol in full.items()}
        return known[find_kernel(name, list(known), self.source)]

    def _symbol_name(self, name: str) -> str:
        if self._simulated or "::" not in name:
            return name
        parts = [part for part in name.split("::") if part]
        return "_ZN" + "".join(f"{len(part)}{part}" for part in parts) + "E"


def _items(value: Any) -> tuple[Any, ...]:
    """What an argument lists; one string or path is a list of one."""
    return (value,) if isinstance(value, (str, os.PathLike)) else tuple(value)


def _attach_loader(runtime: Runtime, cache: Cache | None) -> None:
    """Give the simulator what loads and launches kernels, and that the knowledge of what is allocated."""
    from .simulator.host_loader import HostLoader

    driver = cast("SimDriver", runtime.driver)
    with runtime.lock:
        if driver.module_loader is None:
            driver.module_loader = HostLoader(driver, cache)
        loader = cast("HostLoader", driver.module_loader)
        loader.serve(runtime, Runtime.device_allocators)
        runtime.keep_blocks_apart()


def _folders_of_pycuda(source: str) -> list[str]:
    """Where PyCUDA's headers are (pycuda-complex.hpp), for sources that want them, as its own SourceModule does."""
    found = find_spec("pycuda") if "pycuda-" in source else None
    return [str(Path(root) / "cuda") for root in (found.submodule_search_locations if found else None) or ()]


def _unload_at_close(runtime: Runtime, ordinal: int, module: int) -> None:
    """A module stays loaded until its runtime closes: nobody knows sooner that no kernel of it is queued."""
    with runtime.lock:
        loaded: list[tuple[int, int]] | None = runtime.shared.get("modules")
        if loaded is None:
            loaded = runtime.shared["modules"] = []
            runtime.at_close(partial(_unload, runtime.driver, loaded))
        loaded.append((ordinal, module))


def _unload(driver: Driver, loaded: list[tuple[int, int]]) -> None:
    for ordinal, module in loaded:
        with suppress(CuplugError), on_device(driver, ordinal):  # a failed device keeps its modules
            driver.module_unload(module)
    loaded.clear()
