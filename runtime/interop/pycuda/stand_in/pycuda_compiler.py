"""``pycuda.compiler``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ....kernels.source_module import SourceModule as CuplugSourceModule
from ....machine.callers import warn_program
from .compiled_sources import pack
from .device_contexts import current_ordinal, runtime
from .driver_errors import lacking, translated
from .launches import Module
from .nvcc_refusals import mangled_kernels, refusals

__all__ = ["DEFAULT_NVCC_FLAGS", "DynamicModule", "DynamicSourceModule", "SourceModule", "compile"]

_FLAGS = os.environ.get("PYCUDA_DEFAULT_NVCC_FLAGS")
DEFAULT_NVCC_FLAGS: list[str] = [each for each in (_FLAGS or "").split(",") if each]
"""The options of sources that say none."""


class SourceModule(Module):
    """Kernels from CUDA C++ source, compiled for the simulator."""

    @translated
    def __init__(
        self,
        source: Any,
        nvcc: str = "nvcc",  # noqa: ARG002 - another compiler is at work
        options: Sequence[str] | None = None,
        keep: bool = False,  # noqa: ARG002
        no_extern_c: bool = False,
        arch: str | None = None,
        code: str | None = None,  # noqa: ARG002
        cache_dir: Any = None,
        include_dirs: Sequence[str] = (),
    ) -> None:
        """Compile ``source``.

        Args:
            source: the text, or what gives it by ``str``.
            nvcc: as PyCUDA's; a C++ compiler for this machine is used.
            options: for the compiler, by default ``DEFAULT_NVCC_FLAGS``.
            keep: as PyCUDA's; nothing is left over.
            no_extern_c: as PyCUDA's. Kernels are found by their plain names in either case, with a warning where
                PyCUDA would not find them.
            arch: for example ``sm_90``.
            code: as PyCUDA's.
            cache_dir: False keeps nothing on disk.
            include_dirs: where ``#include`` looks.

        Raises:
            CompileError: it does not compile.
            LogicError: no context is current.
        """
        current_ordinal()  # raises where there is no context
        settings = _settings(source, options, no_extern_c, arch, cache_dir, include_dirs)
        super().__init__(CuplugSourceModule(**settings, runtime=runtime()))
        for text in refusals(str(source), extern_c=not no_extern_c, options=settings["options"]):
            warn_program(text)
        self._mangled = mangled_kernels(str(source)) if no_extern_c else set()


class DynamicModule:
    """Refused: the simulator's kernels launch none."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Refused. Raises NotImplementedError."""
        lacking(type(self).__name__, "kernels that launch kernels need a GPU")


class DynamicSourceModule(DynamicModule):
    """Refused: the simulator's kernels launch none."""


@translated
def compile(  # noqa: A001 - PyCUDA's name
    source: Any,
    nvcc: str = "nvcc",  # noqa: ARG001 - as SourceModule has these
    options: Sequence[str] | None = None,
    keep: bool = False,  # noqa: ARG001
    no_extern_c: bool = False,
    arch: str | None = None,
    code: str | None = None,  # noqa: ARG001
    cache_dir: Any = None,
    include_dirs: Sequence[str] = (),
    target: str = "cubin",  # noqa: ARG001
) -> bytes:
    """Compile ``source``, with ``SourceModule``'s arguments, into what ``driver.module_from_buffer`` loads on the
    simulator. It is no code for GPUs, whatever ``target`` says.

    Raises:
        CompileError: it does not compile.
    """
    settings = _settings(source, options, no_extern_c, arch, cache_dir, include_dirs)
    CuplugSourceModule(**settings, runtime=runtime())
    return pack(settings)


def _settings(
    source: Any,
    options: Sequence[str] | None,
    no_extern_c: bool,
    arch: str | None,
    cache_dir: Any,
    include_dirs: Sequence[str],
) -> dict[str, Any]:
    """What cuplug's ``SourceModule`` is given."""
    return {
        "source": str(source),
        "options": list(DEFAULT_NVCC_FLAGS if options is None else options),
        "no_extern_c": bool(no_extern_c),
        "arch": arch,
        "include_dirs": [str(folder) for folder in include_dirs],
        "cache": cache_dir is not False,
    }
