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
