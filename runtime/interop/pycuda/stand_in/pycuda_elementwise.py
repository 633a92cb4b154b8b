"""``pycuda.elementwise``: kernels generated from an expression for one element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....kernels.launch.arguments import Parameter
from .c_types import ScalarArg, VectorArg, dtype_to_ctype, parse_arguments
from .driver_errors import translated
from .element_types import kind_of, warn_of_elements
from .gpu_array import GPUArray, splay
from .launches import Function
from .pycuda_compiler import SourceModule
from .pycuda_tools import context_dependent_memoize

__all__ = [
    "ElementwiseKernel",
    "ScalarArg",
    "VectorArg",
    "get_elwise_kernel",
    "get_elwise_module",
    "get_linear_combination_kernel",
    "kernel_preamble",
    "resolved",
]

# Each thread takes elements that lie together: here threads run one after the other.
_KERNEL = """
{preamble}
extern "C" __global__ void {name}({parameters})
{{
    const long tid = threadIdx.x, cta_start = (long)blockDim.x * blockIdx.x;
    const long total_threads = (long)gridDim.x * blockDim.x;
    const long cuplug_each = ((long){count} + total_threads - 1) / total_threads;
    const long cuplug_end = min((cta_start + tid + 1) * cuplug_each, (long){count});
    {loop_prep};
    for (long cuplug_at = (cta_start + tid) * cuplug_each; cuplug_at < cuplug_end; ++cuplug_at) {{
        const long i = {element};
        {operation};
    }}
    {after_loop};
}}
"""
_ALL = ("n", "cuplug_at")
_RANGE = ("count", "start + cuplug_at * step")
_range = range  # which an argument of kernels hides


def kernel_preamble(arguments: Sequence[Any], preamble: str) -> str:
    """``preamble``, with the header for complex numbers where arguments need it."""
    complex_ = any(each.dtype.kind == "c" for each in arguments)
    return f"#include <pycuda-complex.hpp>\n{preamble}" if complex_ else preamble


def get_elwise_module(
    arguments: Any,
    operation: str,
    name: str = "kernel",
    keep: bool = False,
    options: Any = None,
    preamble: str = "",
    loop_prep: str = "",
    after_loop: str = "",
) -> SourceModule:
    """A module with a kernel that does ``operation`` for each ``i`` from 0 to below its last parameter.

    Args:
        arguments: ``VectorArg`` and ``ScalarArg``, or a text in C; the last one is the number of elements, ``n``.
        operation: statements for one element.
        name: the kernel's name.
        keep: as PyCUDA's.
        options: for the compiler.
        preamble: what stands before the kernel.
        loop_prep: what each thread does first.
        after_loop: what each thread does at the end.

    Raises:
        CompileError: it does not compile.
        ValueError: an argument's type is unknown.
    """
    return _module(parse_arguments(arguments), _ALL, operation, name, keep, options, preamble, loop_prep, after_loop)


def get_elwise_kernel(arguments: Any, operation: str, name: str = "kernel", **keywords: Any) -> Function:
    """The kernel of such a module, prepared; ``n`` is added to the arguments. Raises as ``get_elwise_module``."""
    every = [*parse_arguments(arguments), ScalarArg(np.uintp, "n")]
    function = get_elwise_module(every, operation, name, **keywords).get_function(name)
    return function.prepare([each.struct_char for each in every])


def _module(arguments: list[Any], loop: tuple[str, str], *text: Any) -> SourceModule:
    """``text``: what ``get_elwise_module`` takes from ``operation`` on."""
    operation, name, keep, options, preamble, loop_prep, after_loop = text
    source = _KERNEL.format(
        preamble=kernel_preamble(arguments, preamble),
        name=name,
        parameters=", ".join(each.declarator() for each in arguments),
        loop_prep=loop_prep,
        count=loop[0],
        element=loop[1],
        operation=operation,
        after_loop=after_loop,
    )
    return SourceModule(source, keep=keep, options=options, no_extern_c=True)


class ElementwiseKernel:
    """A kernel that does ``operation`` for each element ``i`` of its arrays::

    double = ElementwiseKernel("float *x, float factor", "x[i] *= factor", "scale")
    double(array, 2)
    """

    def __init__(
        self,
        arguments: Any,
        operation: str,
        name: str = "kernel",
        keep: bool = False,
        options: Any = None,
        preamble: str = "",
        loop_prep: str = "",
        after_loop: str = "",
    ) -> None:
        """Arguments as ``get_elwise_module`` takes them, without ``n``; it compiles at the first call.

        Raises:
            ValueError: no argument is an array, or one's type is unknown.
        """
        self.arguments = parse_arguments(arguments)
        if not any(isinstance(each, VectorArg) for each in self.arguments):
            raise ValueError("a kernel of elements needs an array among its arguments")
        self.name = name
        self._text = (operation, name, keep, options, preamble, loop_prep, after_loop)
        self._functions: dict[bool, Function] = {}

    @translated
    def __call__(
        self,
        *args: Any,
        range: Any = None,  # noqa: A002 - PyCUDA's names
        slice: Any = None,  # noqa: A002
        stream: Any = None,
    ) -> None:
        """Launch for all elements of the arrays, or for those that ``range`` or ``slice`` says.

        Raises:
            TypeError: there are too many or too few arguments, or one is of the wrong kind.
            RuntimeError: an array is not contiguous.
            CompileError: it does not compile.
        """
        values, size = resolved(self.name, self.arguments, args)
        part = range if range is not None else slice
        if part is None:
            count, steps = size, [("n", size)]
        else:
            start, stop, step = part.indices(size)
            count = len(_range(start, stop, step))
            steps = [("n", size), ("start", start), ("step", step), ("count", count)]
        if not count:
            return
        function = self._functions.get(part is not None)
        if function is None:
            every = [*self.arguments, *(ScalarArg(np.int64, each) for each, _ in steps)]
            function = _module(every, _ALL if part is None else _RANGE, *self._text).get_function(self.name)
            function.prepare([each.dtype if isinstance(each, ScalarArg) else "P" for each in every])
            self._functions[part is not None] = function
        grid, block = splay(count)
        function.prepared_async_call(grid, block, stream, *values, *(value for _, value in steps))


def resolved(name: str, arguments: Sequence[Any], values: Sequence[Any]) -> tuple[list[Any], int]:
    """What is passed to a generated kernel for these values, and how many elements its arrays have.

    Raises:
        TypeError: there are too many or too few, or one that is to be an array is none.
        RuntimeError: an array is not contiguous.
    """
    if len(values) != len(arguments):
        raise TypeError(f"kernel {name} takes {len(arguments)} arguments, and got {len(values)}")
    found, sizes = [], []
    for place, (argument, value) in enumerate(zip(arguments, values, strict=True)):
        if not isinstance(argument, VectorArg):
            found.append(value)
            continue
        if not isinstance(value, GPUArray):
            raise TypeError(f"kernel {name}: {argument.name} must be a GPUArray, not {type(value).__name__}")
        if not value.flags.forc:
            raise RuntimeError(f"kernel {name}: {argument.name} is not contiguous; only contiguous arrays may be used")
        warn_of_elements(name, place, Parameter(argument.name, 0, 8, "p", kind_of(argument.dtype)), value.dtype)
        found.append(value.ptr)
        sizes.append(value.mem_size)
    return found, sizes[0]


@context_dependent_memoize
def get_linear_combination_kernel(
    summand_descriptors: tuple[tuple[bool, Any, Any], ...], dtype_z: Any
) -> tuple[Function, list[Any]]:
    """A kernel ``z = a0*x0 + a1*x1 + …``, prepared, and the texture references of factors that are in device memory.

    Args:
        summand_descriptors: for each summand, whether its factor is read from device memory, the factor's type, and
            that of the array.
        dtype_z: the result's type.

    Raises:
        CompileError: it does not compile.
    """
    arguments: list[Any] = []
    textures, preparation, summands = [], [], []
    for place, (in_memory, factor, vector) in enumerate(summand_descriptors):
        ctype = dtype_to_ctype(factor)
        if in_memory:
            name = dtype_to_ctype(factor, with_fp_tex_hack=True)
            textures.append(f"texture<{name}, 1, cudaReadModeElementType> tex_a{place};")
            preparation.append(f"{ctype} a{place} = fp_tex1Dfetch(tex_a{place}, 0)")
        else:
            arguments.append(ScalarArg(factor, f"a{place}"))
        arguments.append(VectorArg(vector, f"x{place}"))
        summands.append(f"a{place} * x{place}[i]")
    every = [*arguments, VectorArg(dtype_z, "z"), ScalarArg(np.uintp, "n")]
    module = get_elwise_module(
        every,
        f"z[i] = {' + '.join(summands)}",
        "linear_combination",
        preamble="#include <pycuda-helpers.hpp>\n" + "\n".join(textures),
        loop_prep="; ".join(preparation),
    )
    function = module.get_function("linear_combination")
    names = [f"tex_a{place}" for place, (in_memory, _, _) in enumerate(summand_descriptors) if in_memory]
    references = [module.get_texref(name) for name in names]
    return function.prepare([each.struct_char for each in every], texrefs=references), references
