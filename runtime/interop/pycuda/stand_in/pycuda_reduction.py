"""``pycuda.reduction``: kernels generated from an expression for two values that gives one."""

from __future__ import annotations

from typing import Any

import numpy as np

from .c_types import ScalarArg, VectorArg, dtype_to_ctype, parse_arguments
from .driver_errors import translated
from .gpu_array import GPUArray
from .pycuda_compiler import SourceModule
from .pycuda_elementwise import kernel_preamble, resolved

__all__ = ["ReductionKernel"]

_THREADS, _EACH, _BLOCKS = 64, 64, 64
# Each thread reduces elements that lie together, for here threads run one after the other, and each block its threads'
# results, in halves. The second kernel does so with the blocks' results, in one block.
_SOURCE = """
{preamble}
typedef {ctype} cuplug_value;
__device__ inline cuplug_value cuplug_reduce(cuplug_value a, cuplug_value b) {{ return {reduce_expr}; }}
__device__ inline void cuplug_reduce_block(cuplug_value value, cuplug_value *out) {{
    __shared__ __align__(16) char memory[{threads} * sizeof(cuplug_value)];
    cuplug_value *values = (cuplug_value *)memory;
    values[threadIdx.x] = value;
    __syncthreads();
    for (int half = {threads} / 2; half; half /= 2) {{
        if (threadIdx.x < half) values[threadIdx.x] = cuplug_reduce(values[threadIdx.x], values[threadIdx.x + half]);
        __syncthreads();
    }}
    if (threadIdx.x == 0) out[blockIdx.x] = values[0];
}}
extern "C" __global__ void {name}_stage1({parameters}) {{
    cuplug_value cuplug_sum = {neutral};
    const long cuplug_threads = (long)gridDim.x * blockDim.x;
    const long cuplug_each = (cuplug_count + cuplug_threads - 1) / cuplug_threads;
    const long cuplug_first = ((long)blockIdx.x * blockDim.x + threadIdx.x) * cuplug_each;
    const long cuplug_end = min(cuplug_first + cuplug_each, cuplug_count);
    for (long cuplug_at = cuplug_first; cuplug_at < cuplug_end; ++cuplug_at) {{
        const long i = cuplug_start + cuplug_at * cuplug_step;
        cuplug_sum = cuplug_reduce(cuplug_sum, {map_expr});
    }}
    cuplug_reduce_block(cuplug_sum, cuplug_out);
}}
extern "C" __global__ void {name}_stage2(cuplug_value *out, cuplug_value *in, int count) {{
    cuplug_value sum = {neutral};
    for (int i = threadIdx.x; i < count; i += blockDim.x) sum = cuplug_reduce(sum, in[i]);
    cuplug_reduce_block(sum, out);
}}
"""


class ReductionKernel:
    """A kernel that maps each element ``i``, and reduces the values by an expression of ``a`` and ``b``::

    dot = ReductionKernel(numpy.float32, neutral="0", reduce_expr="a+b", map_expr="x[i]*y[i]",
                          arguments="float *x, float *y")
    """

    def __init__(
        self,
        dtype_out: Any,
        neutral: Any,
        reduce_expr: str,
        map_expr: str | None = None,
        arguments: Any = None,
        name: str = "reduce_kernel",
        keep: bool = False,
        options: Any = None,
        preamble: str = "",
        allocator: Any = None,
    ) -> None:
        """A reduction.

        Args:
            dtype_out: the type of the values and the result.
            neutral: the value, in C, that changes none when it is reduced with it.
            reduce_expr: one value of two, ``a`` and ``b``. The order is not settled.
            map_expr: the value of the element ``i``; by default ``in[i]``.
            arguments: the parameters, in C.
            name: the kernels' name.
            keep: as PyCUDA's.
            options: for the compiler.
            preamble: what stands before the kernels.
            allocator: for the results' memory.

        Raises:
            ValueError: no argument is an array, or a type is unknown.
            CompileError: it does not compile.
        """
        self.dtype_out = np.dtype(dtype_out)
        self.name, self._allocator = name, allocator
        ctype = dtype_to_ctype(self.dtype_out)
        self.arguments = parse_arguments(f"{ctype} *in" if arguments is None else arguments)
        if not any(isinstance(each, VectorArg) for each in self.arguments):
            raise ValueError("a reduction needs an array among its arguments")
        every = [VectorArg(self.dtype_out, "cuplug_out"), *self.arguments]
        every += [ScalarArg(np.int64, f"cuplug_{each}") for each in ("start", "step", "count")]
        source = _SOURCE.format(
            preamble=kernel_preamble(every, preamble),
            ctype=ctype,
            reduce_expr=reduce_expr,
            threads=_THREADS,
            name=name,
            parameters=", ".join(each.declarator() for each in every),
            neutral=neutral,
            map_expr=map_expr or "in[i]",
        )
        module = SourceModule(source, keep=keep, options=options, no_extern_c=True)
        self._first = module.get_function(f"{name}_stage1")
        self._first.prepare([each.dtype if isinstance(each, ScalarArg) else "P" for each in every])
        self._second = module.get_function(f"{name}_stage2").prepare("PPi")

    @translated
    def __call__(
        self,
        *args: Any,
        range: Any = None,  # noqa: A002 - PyCUDA's names
        slice: Any = None,  # noqa: A002
        stream: Any = None,
        out: GPUArray | None = None,
        allocator: Any = None,
    ) -> GPUArray:
        """Reduce all elements, or those that ``range`` or ``slice`` says, to an array without dimensions, or ``out``.

        Raises:
            TypeError: there are too many or too few arguments, or one is of the wrong kind.
            RuntimeError: an array is not contiguous.
        """
        values, size = resolved(self.name, self.arguments, args)
        part = range if range is not None else slice
        start, stop, step = (0, size, 1) if part is None else part.indices(size)
        count = max(-(-(stop - start) // step), 0)
        allocator = allocator or self._allocator or next(each.allocator for each in args if isinstance(each, GPUArray))
        made = GPUArray((), self.dtype_out, allocator) if out is None else out
        blocks = min(max(-(-count // (_THREADS * _EACH)), 1), _BLOCKS)
        block = (_THREADS, 1, 1)
        if blocks == 1:
            self._first.prepared_async_call((1,), block, stream, made.ptr, *values, start, step, count)
            return made
        between = GPUArray(blocks, self.dtype_out)
        self._first.prepared_async_call((blocks,), block, stream, between.ptr, *values, start, step, count)
        self._second.prepared_async_call((1,), block, stream, made.ptr, between.ptr, blocks)
        return made
