"""Sources that nvcc refuses as PyCUDA gives them to it are warned of, and others are not."""

from __future__ import annotations

import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuplug.runtime.interop.pycuda.stand_in import pycuda_driver as driver
from cuplug.runtime.interop.pycuda.stand_in.nvcc_refusals import refusals
from cuplug.runtime.interop.pycuda.stand_in.pycuda_compiler import SourceModule

KERNEL = "__global__ void k(float *a) { a[0] = f(a[0]); }"
FUNCTION = "__device__ float f(float x) { return x; }"
REFUSED = {
    "a template": (f"template <class T> __device__ T f(T x) {{ return x; }}\n{KERNEL}", "the template in line 1"),
    "two of a name": (
        f"{FUNCTION} __device__ double f(double x) {{ return x; }} {KERNEL}",
        "several functions f",
    ),
    "a header": (
        "#include <cuda_fp16.h>\n__global__ void k(half *a) { a[0] = __float2half(2.0f); }",
        "<cuda_fp16.h>",
    ),
    "groups": ("#include <cooperative_groups.h>\n__global__ void k(float *a) {}", "<cooperative_groups.h>"),
    "a warp function without a mask": (
        "__global__ void k(int *a) { a[0] = __shfl_down(a[0], 1); }",
        "nvcc refuses __shfl_down in line 1 of the source for GPUs since Volta: use __shfl_down_sync",
    ),
    "a variable of the host's": (
        "int count = 5;\n__global__ void k(int *a) { a[0] = count; }",
        "nvcc refuses the variable count in line 2 of the source: it is the host's",
    ),
    "an array of the host's": (
        "static const float w[3] = {1, 2, 3};\n__global__ void k(float *a) { a[0] = w[1]; }",
        "nvcc refuses the variable w in line 2 of the source: it is the host's",
    ),
    "a function of the standard library": (
        "__global__ void k(float *a) { a[0] = std::max(a[0], a[1]); }",
        "nvcc refuses std::max in line 1 of the source: write max, or pass options=['--expt-relaxed-constexpr']",
    ),
    "a limit of the standard library's": (
        '}\n#include <limits>\nextern "C" {\n__global__ void k(float *a) { a[0] = std::numeric_limits<float>::max(); }',
        "nvcc refuses std::numeric_limits in line 4 of the source: write the number, or pass options=",
    ),
    "a constexpr function": (
        f"constexpr float f(float x) {{ return 2 * x; }}\n{KERNEL}",
        "the call of f in line 2 of the source: f is not declared __device__: declare it, or pass options=['--expt-re",
    ),
    "a function of the host's": (
        f"float f(float x) {{ return x; }}\n{KERNEL}",
        "the call of f in line 2 of the source: f is not declared __device__",
    ),
}
TAKEN = {
    "a macro": f"#define DEVICE __device__ inline\nDEVICE float f(float x) {{ return x; }}\n{KERNEL}",
    "headers of C": f"#include <math.h>\n#include <stdio.h>\n{FUNCTION} {KERNEL}",
    "C++ of its own": f'extern "C++" {{ template <class T> __device__ T f(T x) {{ return x; }} }}\n{KERNEL}',
    "a brace that is closed": f'}}\n#include <cuda_fp16.h>\nextern "C" {{ {FUNCTION} {KERNEL}',
    "a function of the host's, not called": f"float g(float x) {{ return x; }} {FUNCTION} {KERNEL}",
    "a constant of the file's": "const int n = 5; __global__ void k(int *a) { a[0] = n; }",
    "a variable of the device's": "int n = 5; __device__ int m = 3; __global__ void k(int *a) { a[0] = m; }",
    "a variable that a macro marks": "#define M __device__\nstatic M int n;\n__global__ void k(int *a) { a[0] = n; }",
    "a parameter of that name": "int n; __global__ void k(int *a, int n) { a[0] = n; }",
    "a local variable of that name": "int n; __global__ void k(int *a) { for (int i = 0, n = 3; i < n; ++i) a[0]++; }",
    "a local variable of a type's": "typedef float T; float *n; __global__ void k(T *a) { T x = 2, *n = a; n[0] = x; }",
    "the size of a variable": "float n[5]; __global__ void k(int *a) { a[0] = sizeof(n); }",
    "a local function of that name": "int f() { return 1; }\n"
    "__global__ void k(int *a) { auto f = [] { return 2; }; a[0] = f(); }",
    "a function declared before": f"__device__ float f(float);\n{KERNEL}\n__device__ float f(float x) {{ return x; }}",
    "two operators": "struct P { int x; }; __device__ P operator+(P a, P b) { return a; }\n"
    "__device__ P operator-(P a, P b) { return b; } __global__ void k(P *a) { a[0] = a[0] + a[1] - a[2]; }",
    "a warp function of its own": "#define __shfl_down(x, d) __shfl_down_sync(0xffffffff, x, d)\n"
    "__global__ void k(int *a) { a[0] = __shfl_down(a[0], 1); }",
    "what is not compiled": "#ifdef N\nint n = 5;\n#else\n#define n 5\n#endif\n__global__ void k(int *a) { a[0] = n; }",
    "a label of that name": "int n; __global__ void k(int *a) { if (a[0]) goto n; a[1] = 2; n: a[0] = 3; }",
    "the size of an array": "const int w[2] = {1, 2};\n__global__ void k(int *a) { a[0] = sizeof w / sizeof(w[0]); }",
    "an array that the host's functions read": "const int w[3] = {1, 2, 3};\n"
    "int f() { return w[0]; } constexpr int g(int i) { return w[i]; }\n__global__ void k(int *a) { a[0] = 1; }",
    "functions of CUDA's by the standard's names": "__global__ void k(float *a) { a[0] = std::abs(a[0]) + max(1, 2); }",
    "the size of an element": "float n[5]; __global__ void k(int *a) { a[0] = sizeof(*n) + sizeof *n + sizeof((n)); }",
    "a function for both that calls the host's": "int g(int x) { return x; }\n"
    "__host__ __device__ int f(int x) { return g(x) + std::max(x, 2); } __global__ void k(int *a) { a[0] = f(1); }",
    "a constexpr function for the device": f"__device__ constexpr float f(float x) {{ return 2 * x; }}\n{KERNEL}",
    "a constexpr function that such a one calls": "constexpr int g(int i) { return i; }\n"
    "constexpr int f(int i) { return g(i); } __global__ void k(int *a) { a[0] = 1; }",
    "a comment": f"// template <class T>\n{FUNCTION} {KERNEL}",
    "one of two": f"#if 1\n{FUNCTION}\n#else\n__device__ int f(int x) {{ return x; }}\n#endif\n{KERNEL}",
}


@pytest.mark.parametrize(("source", "told"), REFUSED.values(), ids=REFUSED)
def test_what_nvcc_refuses_is_told(source: str, told: str) -> None:
    (sentence,) = refusals(source, extern_c=True)
    assert told in sentence


@pytest.mark.parametrize("source", TAKEN.values(), ids=TAKEN)
def test_what_nvcc_takes_is_not_warned_of(source: str) -> None:
    assert list(refusals(source, extern_c=True)) == []


def test_options_may_let_nvcc_take_constexpr_functions() -> None:
    for name in ("a function of the standard library", "a limit of the standard library's", "a constexpr function"):
        sentences = refusals(REFUSED[name][0], extern_c=False, options=["--expt-relaxed-constexpr"])
        assert list(sentences) == []


def test_without_extern_c_templates_and_headers_are_fine() -> None:
    for name in ("a template", "two of a name", "a header", "groups"):
        assert list(refusals(REFUSED[name][0], extern_c=False)) == []


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_nvcc_says_the_same(tmp_path: Path) -> None:
    for source, is_taken in [*((it, False) for it, _ in REFUSED.values()), *((it, True) for it in TAKEN.values())]:
        (tmp_path / "k.cu").write_text(f'extern "C" {{\n{source}\n}}\n')
        command = ["nvcc", "--cubin", "-arch", "sm_90", "-o", str(tmp_path / "k.cubin"), str(tmp_path / "k.cu")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) is is_taken, (source, done.stderr)


@pytest.mark.needs_sim
def test_a_program_is_warned_where_it_stands(sim: Any) -> None:
    with pytest.warns(UserWarning, match="pass no_extern_c=True") as told:
        SourceModule(REFUSED["a template"][0])
    assert told[0].filename == __file__


@pytest.mark.needs_sim
def test_a_kernel_that_a_gpu_knows_by_a_mangled_name_is_warned_of_and_runs(sim: Any) -> None:
    source = "__global__ void k(float *a) { a[0] = 2; }"
    out = np.zeros(1, np.float32)
    with pytest.warns(UserWarning, match='write extern "C" before it'):
        SourceModule(source, no_extern_c=True).get_function("k")(driver.Out(out), block=(1, 1, 1))
    assert out[0] == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SourceModule(source).get_function("k")
        SourceModule(f'extern "C" {source}', no_extern_c=True).get_function("k")
        SourceModule(f'extern "C" {{ {source} }}', no_extern_c=True).get_function("k")
        SourceModule(source, no_extern_c=True).get_function("_Z1kPf")
