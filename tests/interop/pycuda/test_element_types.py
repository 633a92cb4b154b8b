"""Arrays of other numbers than a kernel's parameter points to: a warning where the launch stands, no error."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
from cuplug.runtime.interop.pycuda.stand_in import pycuda_compiler as compiler
from cuplug.runtime.interop.pycuda.stand_in import pycuda_driver as driver
from cuplug.runtime.interop.pycuda.stand_in import pycuda_gpuarray as gpuarray
from cuplug.runtime.interop.pycuda.stand_in.pycuda_elementwise import ElementwiseKernel
from cuplug.runtime.interop.pycuda.stand_in.pycuda_reduction import ReductionKernel

pytestmark = [pytest.mark.needs_sim, pytest.mark.one_schedule]


@pytest.fixture
def kernel(sim: Any) -> Any:
    source = "__global__ void k(float *numbers, unsigned *counts, char *bytes, void *any, float2 *pairs) {}"
    return compiler.SourceModule(source).get_function("k")


def warned(kernel: Any, *arguments: Any) -> list[str]:
    fine = [np.zeros(2, kind) for kind in ("f4", "i4", "f8", "f8", "c8")]
    given = [*arguments, *(gpuarray.to_gpu(array) for array in fine[len(arguments) :])]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            kernel(*given, block=(1, 1, 1))
    assert all(warning.filename == __file__ for warning in told)
    return [str(warning.message) for warning in told]


@pytest.mark.parametrize("wrap", [gpuarray.to_gpu, driver.InOut, driver.In, driver.to_device])
def test_double_numbers_for_float_are_warned_of_once_for_each_line(kernel: Any, wrap: Any) -> None:
    (message,) = warned(kernel, wrap(np.arange(4.0)))
    assert re.search(r"argument 0 of kernel k holds float64, and its parameter is float \*numbers", message)


def test_what_may_be_meant_is_not_warned_of(kernel: Any) -> None:
    """Bytes, the twin with a sign, the parts of complex numbers, memory whose elements nobody has told."""
    assert warned(kernel) == []
    assert warned(kernel, gpuarray.to_gpu(np.zeros(2, "c8")), gpuarray.to_gpu(np.zeros(2, "u4"))) == []
    assert warned(kernel, driver.mem_alloc(8), gpuarray.to_gpu(np.zeros(8, "u1"))) == []


def test_arguments_that_were_prepared_are_looked_at_too(kernel: Any) -> None:
    arrays = [gpuarray.to_gpu(np.zeros(2, kind)) for kind in ("f4", "i8", "f8", "f8", "c8")]
    kernel.prepare("PPPPP")
    with pytest.warns(UserWarning, match="holds int64, and its parameter is unsigned int \\*counts"):
        kernel.prepared_call((1, 1), (1, 1, 1), *arrays)


def told_by(source: str, *arguments: Any) -> str:
    with pytest.warns(UserWarning, match="argument 0 of kernel k") as told:
        compiler.SourceModule(source).get_function("k")(*arguments, block=(1, 1, 1))
    return str(told[0].message)


def test_rows_for_a_pointer_to_pointers_are_warned_of_and_addresses_are_not(sim: Any) -> None:
    source = "__global__ void k(float **rows) {}"
    assert "holds float32, and its parameter 'rows' points to pointers" in told_by(
        source, driver.In(np.zeros((2, 2), "f4"))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiler.SourceModule(source).get_function("k")(driver.In(np.zeros(2, np.uint64)), block=(1, 1, 1))


def test_structures_that_numpy_packs_otherwise_than_c_are_warned_of(sim: Any) -> None:
    source = "struct P { int id; double x; }; __global__ void k(P *all) {}"
    fields = [("id", np.int32), ("x", np.float64)]
    message = told_by(source, driver.In(np.zeros(2, fields)))
    assert "holds structures of 12 bytes, and its parameter 'all' points to structures of 16 bytes" in message
    assert "align=True" in message
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        aligned = driver.In(np.zeros(2, np.dtype(fields, align=True)))
        compiler.SourceModule(source).get_function("k")(aligned, block=(1, 1, 1))


def test_generated_kernels_warn_of_elements_too(sim: Any) -> None:
    double = ElementwiseKernel("float *x", "x[i] *= 2", "twice")
    total = ReductionKernel(np.float32, "0", "a+b", "x[i]", "float *x")
    for kernel in (double, total):
        with pytest.warns(UserWarning, match=r"argument 0 .* holds float64, and its parameter is float \*x") as told:
            kernel(gpuarray.to_gpu(np.ones(4)))
        assert told[0].filename == __file__


@pytest.mark.parametrize(
    ("declared", "value", "fitting"),
    [
        ("float", np.float64(2), "numpy.float32"),
        ("double", np.float32(2), "numpy.float64"),
        ("int", np.int64(2), "numpy.int32"),
        ("size_t", np.int32(2), "numpy.uint64"),
        ("bool", np.int32(1), "numpy.bool_"),
    ],
)
def test_a_number_of_another_size_is_refused_with_the_type_that_fits(
    sim: Any, declared: str, value: Any, fitting: str
) -> None:
    kernel = compiler.SourceModule(f"__global__ void k({declared} n) {{}}").get_function("k")
    with pytest.raises(TypeError, match=rf"pass {re.escape(fitting)}\("):
        kernel(value, block=(1, 1, 1))
    kernel(getattr(np, fitting.removeprefix("numpy."))(value), block=(1, 1, 1))


def test_a_structure_of_the_hosts_for_a_pointer_is_to_be_wrapped(sim: Any) -> None:
    kernel = compiler.SourceModule("struct P { int id; float x; }; __global__ void k(P *p) {}").get_function("k")
    with pytest.raises(TypeError, match="wrap it in In"):
        kernel(np.zeros(1, [("id", "i4"), ("x", "f4")])[0], block=(1, 1, 1))
