"""``pycuda.scan``: running totals by any associative expression."""

from __future__ import annotations

from typing import Any

import numpy as np

from .c_types import dtype_to_ctype
from .driver_errors import translated
from .gpu_array import GPUArray, empty_like
from .pycuda_compiler import SourceModule

__all__ = ["ExclusiveScanKernel", "InclusiveScanKernel"]

_PARTS = 2048
_THREADS = 128
# Each thread adds up a part, one thread the parts' totals, and each thread then its part again from where it begins.
_SOURCE = """
{preamble}
typedef {ctype} cuplug_value;
__device__ inline cuplug_value cuplug_scan(cuplug_value a, cuplug_value b) {{ return {scan_expr}; }}
extern "C" __global__ void {name}_totals(cuplug_value *in, cuplug_value *totals, long n, long part) {{
    long which = (long)blockIdx.x * blockDim.x + threadIdx.x, at = which * part, end = min(at + part, n);
    if (at >= n) return;
    cuplug_value total = in[at];
    for (long i = at + 1; i < end; ++i) total = cuplug_scan(total, in[i]);
    totals[which] = total;
}}
extern "C" __global__ void {name}_parts(cuplug_value *totals, long count) {{
    for (long i = 1; i < count; ++i) totals[i] = cuplug_scan(totals[i - 1], totals[i]);
}}
extern "C" __global__ void {name}_values(
    cuplug_value *in, cuplug_value *out, cuplug_value *totals, long n, long part
) {{
    long which = (long)blockIdx.x * blockDim.x + threadIdx.x, at = which * part, end = min(at + part, n);
    if (at >= n) return;
    {values}
}}
"""
_INCLUSIVE = """
    cuplug_value total = which ? cuplug_scan(totals[which - 1], in[at]) : in[at];
    out[at] = total;
    for (long i = at + 1; i < end; ++i) out[i] = total = cuplug_scan(total, in[i]);"""
_EXCLUSIVE = """
    cuplug_value total = which ? totals[which - 1] : (cuplug_value)({neutral});
    for (long i = at; i < end; ++i) {{
        cuplug_value value = in[i];
        out[i] = total;
        total = cuplug_scan(total, value);
    }}"""


class _ScanKernel:
    _values: str

    def __init__(
        self,
        dtype: Any,
        scan_expr: str,
        neutral: Any = None,
        name_prefix: str = "scan",
        options: Any = None,
        preamble: str = "",
    ) -> None:
        self.dtype = np.dtype(dtype)
        if neutral is None and "{neutral}" in self._values:
            raise ValueError("an exclusive scan begins with its neutral element: say which, for example neutral='0'")
        self._name = name_prefix
        complex_ = "#include <pycuda-complex.hpp>\n" if self.dtype.kind == "c" else ""
        source = _SOURCE.format(
            preamble=complex_ + preamble,
            ctype=dtype_to_ctype(self.dtype),
            scan_expr=scan_expr,
            name=name_prefix,
            values=self._values.format(neutral=neutral),
        )
        module = SourceModule(source, options=options, no_extern_c=True)
        self._totals = module.get_function(f"{name_prefix}_totals").prepare("PPll")
        self._parts = module.get_function(f"{name_prefix}_parts").prepare("Pl")
        self._all = module.get_function(f"{name_prefix}_values").prepare("PPPll")

    @translated
    def __call__(
        self,
        input_ary: GPUArray,
        output_ary: GPUArray | None = None,
        allocator: Any = None,
        n: int | None = None,
        stream: Any = None,
    ) -> GPUArray:
        """Scan an array of one dimension: in place, unless there is an array for the results, which are returned.

        As PyCUDA's, it reads and writes elements of its own type, whatever the arrays call theirs.

        Args:
            input_ary: what to scan.
            output_ary: where the results go: an array of the same shape, ``"new"`` for a new one; by default the input.
            allocator: of what it needs meanwhile, by default the input's.
            n: how many elements, by default all.
            stream: where it is queued.

        Raises:
            ValueError: the shapes differ, or the input has several dimensions.
            RuntimeError: the input is not contiguous.
        """
        allocator = allocator or input_ary.allocator
        output = input_ary if output_ary is None else output_ary
        if isinstance(output, str):
            if output != "new":
                raise ValueError(f"output_ary={output!r}: give an array, or 'new'")
            output = empty_like(input_ary)
        if input_ary.shape != output.shape:
            raise ValueError(f"input and output must have the same shape: {input_ary.shape} and {output.shape}")
        if not input_ary.flags.forc:
            raise RuntimeError("ScanKernel cannot deal with non-contiguous arrays")
        if n is None and len(input_ary.shape) != 1:
            raise ValueError(f"a scan is of one dimension, not of the shape {input_ary.shape}; or say how many by n")
        count = input_ary.size if n is None else int(n)
        if not count:
            return output
        part = max(-(-count // _PARTS), 64)
        parts = -(-count // part)
        totals = GPUArray(parts, self.dtype, allocator)
        grid, block = (-(-parts // _THREADS), 1), (_THREADS, 1, 1)
        self._totals.prepared_async_call(grid, block, stream, input_ary.ptr, totals.ptr, count, part)
        self._parts.prepared_async_call((1,), (1, 1, 1), stream, totals.ptr, parts)
        self._all.prepared_async_call(grid, block, stream, input_ary.ptr, output.ptr, totals.ptr, count, part)
        return output


class InclusiveScanKernel(_ScanKernel):
    """Each result is of all elements up to its own, which is one of them."""

    _values = _INCLUSIVE


class ExclusiveScanKernel(_ScanKernel):
    """Each result is of all elements before its own; the first one is the neutral element."""

    _values = _EXCLUSIVE
