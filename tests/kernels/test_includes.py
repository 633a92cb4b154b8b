"""Which files a source includes, as the compile cache has to know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import CompileError
from cuplug.runtime.kernels.compile import gpu_compiler
from cuplug.runtime.kernels.compile.compile_cache import Cache, Entry, dependencies_of
from cuplug.runtime.kernels.source.includes import flattened, folders_of, included_files


def test_headers_of_headers_are_found_beside_them_and_in_the_folders(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.h").write_text('  #  include \\\n "b.h"\n')
    (tmp_path / "inner" / "b.h").write_text('#include <c.h>\n#include "a.h"\n')
    (tmp_path / "c.h").write_text("")
    places, complete = included_files('#include "inner/a.h"\n', [str(tmp_path)])
    assert complete
    assert {str(tmp_path / name) for name in ("inner/a.h", "inner/b.h", "c.h")} <= set(places)


def test_a_header_that_appears_in_an_earlier_folder_counts(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    (second / "a.h").write_text("")
    places, _ = included_files("#include <a.h>", [str(first), str(second)])
    entry = Entry(b"", {}, dependencies_of(places, absent=True))
    assert entry.current()
    (first / "a.h").write_text("")
    assert not entry.current()


def test_files_that_are_tested_for_count_and_names_made_by_macros_are_not_known(tmp_path: Path) -> None:
    places, complete = included_files('#if __has_include("maybe.h")\n#endif\n', [str(tmp_path)])
    assert complete
    assert str(tmp_path / "maybe.h") in places
    assert not included_files("#include HEADER\n", [])[1]


def test_an_entry_whose_files_are_not_all_known_is_not_kept(tmp_path: Path) -> None:
    cache, made = Cache(tmp_path), []
    for complete in (False, True, True):
        cache.get_or_make("0123", lambda complete=complete: made.append(1) or Entry(b"x", complete=complete))  # type: ignore[misc,func-returns-value]
    assert len(made) == 2


def test_options_name_folders_and_files() -> None:
    options = [
        "-I",
        "/a",
        "-I/b",
        "--include-path=/c",
        "-include-path",
        "/d",
        "--pre-include=x.h",
        "-include",
        "y.h",
        "-DI",
    ]
    assert folders_of(options) == (["/a", "/b", "/c", "/d"], ["x.h", "y.h"])


def test_a_flat_source_has_its_files_in_place_and_says_what_stands_where(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "once.h").write_text("#pragma once\nint once;\n")
    (tmp_path / "inner" / "a.h").write_text('#include "once.h"\n#include "a.h"\nint a;\n')
    source = '// #include "inner/a.h"\n#include "inner/a.h"\n#include <inner/once.h>\nint here;\n#include <absent.h>\n'
    lines = flattened(source, "kernel.cu", [str(tmp_path)]).splitlines()
    kept = [line for line in lines if line and not line.startswith("#pragma")]
    a, once = tmp_path / "inner" / "a.h", tmp_path / "inner" / "once.h"
    expected = [
        '// #include "inner/a.h"',
        f'#line 1 "{a}"',
        f'#line 1 "{once}"',
        "int once;",
        f'#line 1 "{a}"',
        "int a;",
    ]
    assert kept == [*expected, '#line 2 "kernel.cu"', "int here;", "#include <absent.h>"]
    assert source.splitlines()[3] == "int here;"  # what the compiler counts from the last directive on
    assert lines[lines.index('#line 2 "kernel.cu"') + 1 :] == ["", "", "int here;", "#include <absent.h>"]


def test_host_code_and_texture_references_in_included_files_are_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernels.cu").write_text(
        "texture<float> image;\n"
        "__global__ void k(float *x) { x[0] = tex1Dfetch(image, 0); }\n"
        "void run(float *x) { cudaDeviceProp p; k<<<1, 1>>>(x); cudaThreadSynchronize(); }\n"
    )
    tried = []

    def compiler(_nvrtc: object, source: str, *_: object) -> tuple[Entry, bool]:
        tried.append(source)
        if "#include" in source or "cudaDeviceProp" in source or "\ntexture<" in source:
            raise CompileError("refused", f"attempt {len(tried)}")
        return Entry(b"cubin"), True

    monkeypatch.setattr(gpu_compiler, "_nvrtc", lambda: None)
    monkeypatch.setattr(gpu_compiler, "nvcc_version", lambda: "nvcc")
    monkeypatch.setattr(gpu_compiler, "_compile", compiler)
    folders = [str(tmp_path)]
    entry = gpu_compiler.compile_for_gpu('#include "kernels.cu"\n', include_dirs=folders, arch="sm_90")
    assert entry.payload == b"cubin"
    assert str(tmp_path / "kernels.cu") in entry.dependencies
    assert len(tried) == 2
    with pytest.raises(CompileError) as caught:  # what is wrong anyhow is told of the source as it is
        gpu_compiler.compile_for_gpu('#include "kernels.cu"\n#include <x>\n', include_dirs=folders, arch="sm_90")
    assert caught.value.log == "attempt 3"


@pytest.mark.needs_sim
@pytest.mark.one_schedule
def test_headers_that_hold_what_the_simulator_has_elsewhere_are_found(machine: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.cuh").write_text("#include <crt/device_functions.h>\n#include <thrust/sort.h>\n")
    source = """
    #include "mine.cuh"
    #include <sm_61_intrinsics.h>
    #include <texture_fetch_functions.h>
    #include <cuda_pipeline_primitives.h>
    #include <cuda/std/atomic>
    #include <cuda/std/cstring>
    #include <cuda/std/tuple>
    #include <cuda/cmath>
    #include <cub/block/block_reduce.cuh>
    extern "C" __global__ void k(int *x) {
        typedef cub::BlockReduce<int, 32> Reduce;
        __shared__ Reduce::TempStorage room;
        int greatest = Reduce(room).Reduce(x[threadIdx.x], cuda::maximum<>{});
        __syncthreads();
        int least = Reduce(room).Reduce(x[threadIdx.x], cuda::minimum<int>{});
        __syncthreads();
        int sum = Reduce(room).Reduce(x[threadIdx.x], cuda::std::plus<>{});
        if (threadIdx.x) return;
        thrust::sort(thrust::seq, x, x + 32);
        auto pair = cuda::std::make_tuple(greatest, least);
        x[29] = cuda::std::get<0>(pair); x[30] = cuda::std::get<1>(pair); x[31] = sum;
        x[28] = cuda::ceil_div(10, 3) + cuda::round_up(10, 4) + cuda::round_down(10, 4);
    }
    """
    values = np.random.default_rng(3).integers(-99, 99, 32, dtype=np.int32)
    x = machine.up(values)
    machine.module(source, include_dirs=tmp_path).get_function("k")(x, grid=1, block=32)
    expected = [*np.sort(values)[:28], 4 + 12 + 8, values.max(), values.min(), values.sum()]
    assert machine.down(x, 32, np.int32).tolist() == expected


def test_arrays_and_optional_values_of_the_standard_library(machine: Any) -> None:
    """LLVM's library, which zig brings, has their headers include threads, unless it is told not to."""
    source = """
    #include <array>
    #include <cuda/std/array>
    #include <cuda/std/optional>
    __global__ void k(float *x) {
        std::array<float, 3> three = {1, 2, 3};
        cuda::std::array<int, 2> two{4, 5};
        cuda::std::optional<float> none, one = 6;
        x[0] = three[2] + two[1] + none.value_or(7) + *one + three.size();
    }
    """
    out = machine.empty(1, np.float32)
    machine.module(source).get_function("k")(out, grid=1, block=1)
    assert machine.down(out, 1, np.float32)[0] == 3 + 5 + 7 + 6 + 3


@pytest.mark.needs_sim
@pytest.mark.one_schedule
def test_headers_that_only_a_preprocessor_can_name_are_found(
    machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_the_system.h").write_text("#include <cub/util_type.cuh>\n")
    monkeypatch.setenv("CPATH", str(tmp_path))
    source = """
    #define TYPES <vector_types.h>
    #include TYPES
    #define OF_STANDARD(name) <cuda/std/name>
    #include OF_STANDARD(limits)
    /* for old sources */ #include <device_functions.h>
    #include/* the same */<math_functions.h>
    #include <of_the_system.h>
    __global__ void k(float4 *x) { x->y = cuda::std::numeric_limits<float>::max(); }
    """
    machine.module(source).get_function("k")


@pytest.mark.needs_sim
@pytest.mark.one_schedule
def test_errors_name_no_headers_that_only_forward_which_are_gone_by_then(machine: Any) -> None:
    with pytest.raises(CompileError) as caught:
        machine.module("#include <thrust/sort.h>\n__global__ void k(float *x) { thrust::sort(x, 3); }")
    assert "kernel.cu:2:" in str(caught.value)
    assert "cuplug-" not in str(caught.value)


@pytest.mark.needs_sim
@pytest.mark.one_schedule
@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("cuda/ptx", "the simulator has no <cuda/ptx> of CUDA's: kernels that need it need a GPU"),
        ("cuda_fp6.h", "the simulator has no <cuda_fp6.h> of CUDA's"),
        ("cutlass/cutlass.h", "name the folder that holds cutlass/cutlass.h in include_dirs"),
    ],
)
def test_headers_that_are_missing_are_told_from_those_whose_folder_is(machine: Any, header: str, said: str) -> None:
    with pytest.raises(CompileError) as caught:
        machine.module(f"#include <{header}>\n__global__ void k() {{}}")
    assert str(caught.value).splitlines()[-1].startswith(said)
