"""Whole CUDA files: what they say for the host is left out, by grammar and not by name."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuplug.runtime.kernels.compile.stub_headers import STUBS, stubs_for, write_stubs
from cuplug.runtime.kernels.simulator.host_compiler import find_compiler
from cuplug.runtime.kernels.source.declarations import read_declarations
from cuplug.runtime.kernels.source.host_code import without_host_code
from cuplug.runtime.kernels.source.tokens import Tokens

pytestmark = pytest.mark.one_schedule

INCLUDED = """
#pragma once
#include <cstdio>
#include <vector>
#include <cublas_v2.h>
#define CHECK(call) do { cudaError_t status = (call); if (status != cudaSuccess) exit(1); } while (0)
cublasHandle_t handle;
inline void say(const char *text) { FILE *file = fopen("log", "w"); fprintf(file, "%s", text); fclose(file); }
template <class K, class... A> void run(K kernel, int blocks, A... a) {
    kernel<<<blocks, 256>>>(a...);
    CHECK(cudaGetLastError());
}
__device__ int from_header(int x) { return x + 1; }
"""
WHOLE = """
#include "included.cuh"
#include <sys/time.h>
#include <complex>
#include <thrust/device_vector.h>
using std::vector;
using namespace std::chrono;
#define FLOOR(x) ((int)floor(x))
int MAX_TILES = FLOOR(12345.6 / largest());
static FILE *log_file = stderr;
cudaDeviceProp properties;
cudaEvent_t start, stop;
class Managed {
public:
    void *operator new(size_t n) { void *p; cudaMallocManaged(&p, n); return p; }
    void operator delete(void *p) { cudaFree(p); }
};
struct Pair : public Managed {
    int a, b;
    int total;
    __host__ __device__ int sum() const { return a + b; }
    void print() { printf("%d\\n", total); std::cout << a << std::endl; }
    void launch(int *out) { scale<<<1, 1>>>(out, 1, *this); }
};
int total(const vector<int> &v) { int sum = 0; for (int x : v) sum += x; std::cout << sum; return sum; }
void offset(int n) { printf("%d", rand() % n); }
template <typename T> __global__ void copy(T *out, T value) { out[blockIdx.x] = value; }
template <typename T> void copy(T *out, int n, T value) { copy<T><<<n, 1>>>(out, value); }
template void copy<float>(float *, int, float);
__global__ void scale(int *out, int factor, Pair pair) {
    int offset = 2, total = pair.total;
    out[0] = from_header(factor) * offset + total + pair.sum();
}
void scale(int *out, int n) { auto go = [&](int blocks) { scale<<<blocks, 1>>>(out, n, Pair()); }; go(1); }
namespace tools {
struct Timer { cudaEvent_t begin; Timer() { cudaEventCreate(&begin); } float read(); };
float Timer::read() { float ms; cudaEventElapsedTime(&ms, begin, begin); return ms; }
__device__ int deep(int x) { return x * 3; }
}
extern "C" void from_c(int *out) { scale(out, 1); }
std::complex<float> unit(0, 1);
__global__ void three(int *out) { out[0] = tools::deep(out[0]); }
int main(int argc, char **argv) { copy<float>(nullptr, 1, 2.0f); return 0; }
"""
PAIR = np.dtype([("a", "i4"), ("b", "i4"), ("total", "i4")])


def folder_with(tmp_path: Path, **files: str) -> str:
    for name, text in files.items():
        (tmp_path / re.sub("_(cuh|cu|h)$", r".\1", name)).write_text(text)
    return str(tmp_path)


@pytest.mark.needs_sim
def test_an_instance_that_the_source_makes_may_be_asked_for_too(machine: Any) -> None:
    source = """template <int A, int B> __global__ void sum(int *out) { *out = A + B; }
    template __global__ void sum<3, 4>(int *out);"""
    module = machine.module(source, name_expressions=["sum<3,4>", "&sum<5, 6>"])
    out = machine.zeros(1, np.int32)
    for name, wanted in (("sum<3, 4>", 7), ("sum<5,6>", 11)):
        module.get_function(name)(out, grid=1, block=1)
        assert machine.down(out, 1, np.int32)[0] == wanted


@pytest.mark.needs_sim
def test_a_whole_file_compiles_and_runs_unchanged(machine: Any, tmp_path: Path) -> None:
    module = machine.module(
        WHOLE, include_dirs=[folder_with(tmp_path, included_cuh=INCLUDED)], name_expressions=["copy<float>"]
    )
    out = machine.zeros(1, np.int32)
    module.get_function("scale")(out, 4, np.array((10, 20, 100), PAIR)[()], grid=1, block=1)
    assert machine.down(out, 1, np.int32)[0] == 5 * 2 + 100 + 30
    module.get_function("three")(out, grid=1, block=1)
    assert machine.down(out, 1, np.int32)[0] == 3 * 140
    module.get_function("copy<float>")(out, 2.5, grid=1, block=1)
    assert machine.down(out, 1, np.float32)[0] == 2.5


@pytest.mark.parametrize("preprocessed", [False, True])
def test_what_is_for_the_host_goes_whatever_it_is_called(preprocessed: bool) -> None:
    rest = without_host_code(WHOLE, preprocessed=preprocessed)
    for gone in ("main(", "<<<", "int total(const", "void offset", "fprintf", "Timer::read", "MAX_TILES =", "cudaFree"):
        assert gone not in rest.replace("#define", ""), gone
    for kept in (
        "void scale(int *out, int factor",
        "void copy(T *out, T value)",
        "struct Pair",
        "int sum()",
        "deep(int",
    ):
        assert kept in rest, kept
    assert rest.count("\n") == WHOLE.count("\n")


def test_a_name_of_the_programs_own_is_no_mention_of_a_function() -> None:
    source = """
    int reduce(int x) { return x; }
    int member(int x) { return x; }
    int shadowed(int x) { return x; }
    int called(int x) { return x; }
    struct S { int member; };
    __global__ void k(int *out, S s, int shadowed) {
        float reduce = 1.0f, *q = nullptr;
        for (int i = 0; i < 3; ++i) { out[i] = called(i) * (int)reduce + s.member + shadowed * i; }
    }
    int main() { k<<<1, 1>>>(0, S(), 1); }
    """
    rest = without_host_code(source, preprocessed=True)
    for name, kept in {"reduce(int": False, "member(int": False, "shadowed(int": False, "called(int": True}.items():
        assert (name in rest) is kept, name


def test_a_templates_arguments_in_an_initialiser_are_mentions_and_no_further_variables() -> None:
    source = """
    typedef float element;
    const int SIZE = 16;
    int compared(int x) { return x; }
    template <int N, class T, class U> struct Tile { T x; };
    __global__ void k(element *out, int n) {
        auto tile = Tile<4, Tile<SIZE, element, int>, element>();
        bool below = n < 3, compared = n > 4;
        out[0] = below + compared;
    }
    int main() { k<<<1, 1>>>(0, 1); }
    """
    rest = without_host_code(source, preprocessed=True)
    assert "typedef float element" in rest
    assert "const int SIZE" in rest
    assert "compared(int" not in rest


def test_of_functions_that_share_a_name_device_code_means_the_marked_one() -> None:
    source = """
    __device__ float f(float x) { return x; }
    float f(double x, const char *) { return 1; }
    __global__ void k(float *x) { *x = f(*x); }
    int main() {}
    """
    rest = without_host_code(source)
    assert "const char" not in rest
    assert "float f(float x)" in rest


def test_a_class_stays_whose_constructor_is_defined_outside_it() -> None:
    source = """
    template <class T> class Range { public: __device__ Range(T x); T low; };
    template <class T> inline __device__ Range<T>::Range(T x) : low(x) {}
    template <class T> __global__ void k(Range<T> *x) { *x = Range<T>(1); }
    int main() {}
    """
    assert "class Range" in without_host_code(source, preprocessed=True)


def test_a_class_of_the_hosts_goes_that_shares_its_name_with_a_function_of_the_devices() -> None:
    source = """
    namespace table { template <class T> struct hash : std::hash<T> {}; }
    __device__ int hash(int x) { return 3 * x; }
    __global__ void k(int *x) { *x = hash(*x); }
    int main() {}
    """
    rest = without_host_code(source, preprocessed=True)
    assert "struct hash" not in rest
    assert "int hash(int x)" in rest


HOST_ALONE = {
    "clock": "#include <chrono>\nstruct Timer { std::chrono::steady_clock::time_point start; };",
    "alias": "#include <chrono>\nusing Clock = std::chrono::steady_clock;\nauto now() { return Clock::now(); }",
    "random": "#include <random>\nstd::mt19937 made(42);\nstd::uniform_real_distribution<float> drawn(0, 1);",
    "rand": "void fill(float *x, int n) { for (int i = 0; i < n; i++) x[i] = rand() / (float)RAND_MAX; }",
    "memory": "int *grown(int *x, int n) { return (int *)realloc(x, n * sizeof(int)); }",
    "time": "#include <sys/time.h>\nlong now() { struct timeval t; gettimeofday(&t, NULL); return t.tv_sec; }",
    "elsewhere": "double drawn(long *seed);\nvoid fill(double *x, long n) { x[0] = drawn(&n); }",
    "category": "#include <system_error>\nvoid fail(int e) { throw std::system_error(e, std::generic_category()); }",
}


@pytest.mark.needs_sim
@pytest.mark.parametrize("what", HOST_ALONE)
def test_code_for_the_host_goes_from_a_file_that_launches_nothing(machine: Any, what: str) -> None:
    out = machine.zeros(1, np.int32)
    module = machine.module(HOST_ALONE[what] + "\n__global__ void k(int *x) { *x = 7; }\n")
    module.get_function("k")(out, grid=1, block=1)
    assert machine.down(out, 1, np.int32)[0] == 7


@pytest.mark.parametrize("name", ["runtime_error", "invalid_argument", "out_of_range", "overflow_error"])
def test_exceptions_of_a_programs_own_compile_by_the_stubs(tmp_path: Path, name: str) -> None:
    write_stubs(["stdexcept", "string"], tmp_path)
    (tmp_path / "own.cpp").write_text(
        f"""#include <stdexcept>
        struct Own : std::{name} {{
            explicit Own(const char *text) : std::{name}(text) {{}}
            const char *what() const noexcept override {{ return "own"; }}
        }};"""
    )
    compiler = find_compiler()
    flags = ["-nostdinc++", "-I", ".", "-D__CUDACC_RTC__", "-c", "-o", "own.o"]
    made = compiler.run([*flags, "own.cpp"], str(tmp_path))
    assert made.returncode == 0, made.stderr


@pytest.mark.needs_sim
def test_what_a_class_does_with_its_containers_on_the_host_is_no_error(machine: Any) -> None:
    source = """
    #include <string>
    #include <vector>
    class Mesh {
        std::vector<double> x;
        std::vector<std::vector<int>> rows;
        std::string name;
    public:
        void grow(int n) {
            x.resize(n);
            rows.push_back(std::vector<int>(n, 0));
            for (auto &row : rows) row.clear();
            if (!name.empty()) name += "; " + std::to_string(n) + name.c_str();
        }
        double &operator[](int i) { return x[i]; }
        __device__ int corners() const { return 8; }
    };
    __global__ void k(const Mesh *mesh, int *out) { *out = mesh->corners(); }
    """
    out = machine.zeros(1, np.int32)
    machine.module(source).get_function("k")(0, out, grid=1, block=1)
    assert machine.down(out, 1, np.int32)[0] == 8


def test_a_table_of_structures_is_no_type() -> None:
    source = "struct Row { int a, b; };\nconst struct Row rows[] = {{1, 2}, {3, 4}};\nenum Kind kinds[2] = {A, B};\n"
    assert [found.name for found in read_declarations(Tokens(source)).declarations] == ["Row"]
    compared = "template <int N> struct Part : Base<N == 2> { int f() { return N; } };"
    assert [found.name for found in read_declarations(Tokens(compared)).declarations] == ["f", "Part"]


@pytest.mark.needs_sim
def test_a_header_of_the_programs_own_comes_before_the_standard_librarys(machine: Any, tmp_path: Path) -> None:
    own = folder_with(
        tmp_path, complex_h="typedef float2 Number;\n", math_h="#define TWICE(x) (2 * (x))\n", cuda_host_h="int mine;\n"
    )
    source = '#include "complex.h"\n#include "math.h"\n__global__ void k(Number *z) { z->x = TWICE(sqrtf(z->y)); }\n'
    out = machine.up(np.array([0, 9], np.float32))
    machine.module(source, include_dirs=[own]).get_function("k")(out, grid=1, block=1)
    assert machine.down(out, 2, np.float32)[0] == 6


@pytest.mark.needs_sim
def test_cudas_headers_are_the_simulators_where_a_toolkits_folder_is_named(machine: Any, tmp_path: Path) -> None:
    toolkit = folder_with(tmp_path, cuda_runtime_h="#error\n", cuda_fp16_h="#error\n")
    source = (
        '#include "cuda_runtime.h"\n#include "cuda_fp16.h"\n__global__ void k(half *x) { *x = __int2half_rn(3); }\n'
    )
    out = machine.zeros(1, np.float16)
    machine.module(source, include_dirs=[toolkit]).get_function("k")(out, grid=1, block=1)
    assert machine.down(out, 1, np.float16)[0] == 3


@pytest.mark.needs_sim
def test_functions_of_the_standard_library_need_no_include_as_with_nvcc(machine: Any) -> None:
    source = """__global__ void k(float *x) {
        float y[2] = {std::exp(x[0]) + std::abs(-1.5f), std::isnan(x[1]) + std::pow(2.0f, 3.0f)};
        std::memcpy(x, y, sizeof(y));
    }"""
    out = machine.zeros(2, np.float32)
    machine.module(source).get_function("k")(out, grid=1, block=1)
    assert machine.down(out, 2, np.float32).tolist() == [2.5, 8]


def test_macros_in_front_of_code_for_the_host_stay() -> None:
    source = """
    #define KERNEL(T) __global__ void k_##T(T *x) { *x = 1; }
    KERNEL(float)
    KERNEL(int)
    void host() { k_float<<<1, 1>>>(0); }
    """
    rest = without_host_code(source)
    assert rest.count("KERNEL(float)") == rest.count("KERNEL(int)") == 1
    assert "host" not in rest


def test_a_functions_mention_in_a_macro_counts() -> None:
    source = """
    int helper(int x) { return x; }
    #define CALL(x) helper(x)
    __global__ void k(int *x) { *x = CALL(*x); }
    int main() {}
    """
    assert "int helper" in without_host_code(source)


def test_headers_of_the_system_are_not_read_and_stay() -> None:
    text = '# 1 "kernel.cu"\nint a;\n# 1 "/usr/include/x" 1 3\nint b;\n# 3 "kernel.cu" 2\nint *c =\n'
    text += '# 3 "kernel.cu" 3 4\n0;\n'
    tokens = Tokens(text)
    assert tokens.slice(0, len(tokens)) == ["int", "a", ";", "int", "*", "c", "=", "0", ";"]
    assert "".join(tokens.texts) == text


@pytest.mark.needs_sim
def test_a_file_called_as_the_source_is_can_be_included(machine: Any, tmp_path: Path) -> None:
    folder = folder_with(tmp_path, kernel_cu="__device__ int value() { return 17; }\n")
    source = '#include "kernel.cu"\nextern "C" __global__ void k(int *x) { *x = value(); }\n'
    out = machine.zeros(1, np.int32)
    machine.module(source, include_dirs=[folder]).get_function("k")(out, grid=1, block=1)
    assert machine.down(out, 1, np.int32)[0] == 17


@pytest.mark.needs_sim
def test_folders_among_the_options_are_meant_from_where_the_program_is(
    machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "value.h").write_text("#define VALUE 3\n")
    monkeypatch.chdir(tmp_path)
    source = '#include "value.h"\nextern "C" __global__ void k(int *x) { *x = VALUE; }\n'
    out = machine.zeros(1, np.int32)
    machine.module(source, options=["-Iinc"]).get_function("k")(out, grid=1, block=1)
    assert machine.down(out, 1, np.int32)[0] == 3


@pytest.mark.needs_sim
def test_matrices_bring_half(machine: Any) -> None:
    out = machine.zeros(1, np.float16)
    source = '#include <mma.h>\nextern "C" __global__ void k(half *x) { *x = __float2half(1.5f); }\n'
    machine.module(source).get_function("k")(out, grid=1, block=1)
    assert machine.down(out, 1, np.float16)[0] == 1.5


@pytest.mark.needs_sim
def test_complex_numbers_compute(machine: Any) -> None:
    source = """
    #include <complex>
    extern "C" __global__ void k(std::complex<float> *x) {
        std::complex<float> z = x[0];
        x[1] = z * z + 1.0f;
        x[2] = std::exp(z) / z;
        x[3] = std::abs(z) + std::conj(z);
    }
    """
    z = np.complex64(1.5 - 2j)
    x = machine.up(np.array([z, 0, 0, 0], np.complex64))
    machine.module(source).get_function("k")(x, grid=1, block=1)
    expected = [z, z * z + 1, np.exp(z) / z, abs(z) + np.conj(z)]
    assert np.allclose(machine.down(x, 4, np.complex64), expected, rtol=1e-5)


@pytest.mark.needs_sim
def test_kernels_use_thrusts_pointers_and_pairs(machine: Any) -> None:
    source = """
        #include <thrust/device_ptr.h>
        #include <thrust/device_vector.h>
        #include <thrust/pair.h>
        __global__ void k(thrust::device_ptr<const int> from, int *x) {
            const thrust::pair<int, float> pair = thrust::make_pair(from[1], 2.5f);
            thrust::device_ptr<int> to = thrust::device_pointer_cast(x);
            to[0] = pair.first;
            *(to + 1) = (int)(pair.second * 2) + (int)(from + 3 - from);
            if (to != to + 1) thrust::raw_pointer_cast(to)[2] = *from;
        }"""
    x = machine.up(np.array([7, 8, 9], np.int32))
    address = np.array([x.address], np.uint64)
    machine.module(source).get_function("k")(address.view("V8")[0], x, grid=1, block=1)
    assert machine.down(x, 3, np.int32).tolist() == [8, 8, 8]


def test_stubs_come_with_what_they_include(tmp_path: Path) -> None:
    assert set(stubs_for(["iostream", "unheard_of.h"])) == {"iostream", "istream", "ostream", "string"}
    write_stubs(["sys/time.h", "thrust/iterator/zip_iterator.h"], tmp_path)
    assert (tmp_path / "sys" / "time.h").exists()
    assert (tmp_path / "thrust" / "iterator" / "zip_iterator.h").exists()
    assert all(text.startswith("#pragma once\n") for text in STUBS.values())


@pytest.mark.needs_sim
def test_stubs_come_before_folders_that_a_script_in_the_compilers_place_adds(
    machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = folder_with(tmp_path, fstream="#error the one that is installed\n")
    script = tmp_path / "c++"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(find_compiler().command)} -isystem {installed} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    source = '#include <fstream>\nextern "C" __global__ void k(int *x) { *x = 5; }\n'
    out = machine.zeros(1, np.int32)
    machine.module(source).get_function("k")(out, grid=1, block=1)
    assert machine.down(out, 1, np.int32)[0] == 5


@pytest.mark.parametrize("preprocessed", [False, True])
def test_an_instance_of_a_template_that_launches_goes_with_it(preprocessed: bool) -> None:
    source = """
    namespace tools { template <class T> T reduce(T x) { return x; } }
    template <class T> __global__ void sum(T *x) { *x = tools::reduce(*x); }
    template <class T> void reduce(T *x) { sum<T><<<1, 1>>>(x); }
    template void reduce<int>(int *x);
    template __global__ void sum<int>(int *x);
    """
    rest = without_host_code(source, preprocessed=preprocessed)
    assert "reduce<int>" not in rest
    assert "template __global__ void sum<int>" in rest


STANDARD = """\ufeff
template <std::size_t N> struct Row { std::uint64_t items[N]; };
namespace deep { __global__ void inner(int *out); }
__global__ void deep::inner(int *out) { out[0] = std::max(3, 4); }
__device__ __forceinline__ int below(int x) { return x ? 1 + below(x - 1) : 0; }
__global__ void use(std::conditional<true, int, float>::type *out, int n) {
    Row<3> row = {{1, 2, 3}};
    out[0] = (int)row.items[n] + below(n) + (std::numeric_limits<int>::max() == 2147483647);
}
#include <vector>
"""


@pytest.mark.needs_sim
def test_what_nvcc_knows_of_the_standard_library_without_being_told(machine: Any) -> None:
    module = machine.module(STANDARD)
    out = machine.zeros(1, np.int32)
    module.get_function("use")(out, 2, grid=1, block=1)
    assert machine.down(out, 1, np.int32)[0] == 3 + 2 + 1
    module.get_function("deep::inner")(out, grid=1, block=1)
    assert machine.down(out, 1, np.int32)[0] == 4


SHARED_BUFFER = """
template <int SIZE> class Reversed {
    int items[SIZE];
    template <bool STORES> __device__ void pass(int *x) {
        if (STORES) items[threadIdx.x] = x[threadIdx.x];
        else x[threadIdx.x] = items[SIZE - 1 - threadIdx.x];
    }
public:
    __device__ static void run(int *x) {
        __shared__ Reversed<SIZE> reversed;
        reversed.pass<true>(x);
        __syncthreads();
        reversed.pass<false>(x);
    }
};
extern "C" __global__ void k(int *x) { Reversed<64>::run(x); }
"""


@pytest.mark.needs_sim
def test_templates_of_a_shared_variables_own_class_are_called_as_they_are(machine: Any) -> None:
    x = machine.up(np.arange(64, dtype=np.int32))
    machine.module(SHARED_BUFFER).get_function("k")(x, grid=1, block=64)
    assert (machine.down(x, 64, np.int32) == np.arange(64)[::-1]).all()


@pytest.mark.needs_sim
@pytest.mark.one_schedule
@pytest.mark.parametrize(
    "alias",
    [
        "namespace mine = cub; typedef mine::BlockReduce<int, 32> Reduce;",
        "using Reduce = cub::BlockReduce<int, 32>;",
        "template <class T> using Sum = cub::BlockReduce<T, 32>; typedef Sum<int> Reduce;",
        "using cub::BlockReduce; typedef BlockReduce<int, 32> Reduce;",
    ],
)
def test_aliases_of_what_cub_and_thrust_have_for_devices_stay_beside_code_for_the_host(
    machine: Any, alias: str
) -> None:
    source = f"""
    #include <cub/cub.cuh>
    #include <thrust/complex.h>
    #include <thrust/device_vector.h>
    {alias}
    using Number = thrust::complex<float>;
    typedef thrust::device_vector<Number> Numbers;
    extern "C" __global__ void k(int *x, Number *y) {{
        __shared__ Reduce::TempStorage room;
        int sum = Reduce(room).Sum(x[threadIdx.x]);
        if (threadIdx.x == 0) x[0] = sum, y[0] = y[0] * y[0];
    }}
    int main() {{ Numbers numbers(32); k<<<1, 32>>>(0, 0); cudaDeviceSynchronize(); }}
    """
    x, y = machine.up(np.arange(32, dtype=np.int32)), machine.up(np.complex64([1 + 2j]))
    machine.module(source).get_function("k")(x, y, grid=1, block=32)
    assert machine.down(x, 32, np.int32)[0] == 496
    assert machine.down(y, 1, np.complex64)[0] == (1 + 2j) ** 2


@pytest.mark.needs_sim
@pytest.mark.one_schedule
@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("using Meeting = cuda::barrier<cuda::thread_scope_block>;", "Meeting"),
        ("typedef cuda::barrier<cuda::thread_scope_block> Meeting;", "Meeting"),
        ("using namespace cuda;", "barrier<thread_scope_block>"),
    ],
)
def test_threads_wait_at_what_an_alias_outside_functions_names(machine: Any, alias: str, name: str) -> None:
    source = f"""
    #include <cuda/barrier>
    {alias}
    extern "C" __global__ void k(int *x) {{
        __shared__ {name} meeting;
        __shared__ int seen[64];
        if (threadIdx.x == 0) init(&meeting, 64);
        __syncthreads();
        seen[threadIdx.x] = threadIdx.x;
        meeting.arrive_and_wait();
        x[threadIdx.x] = seen[63 - threadIdx.x];
    }}
    """
    x = machine.zeros(64, np.int32)
    machine.module(source).get_function("k")(x, grid=1, block=64)
    assert machine.down(x, 64, np.int32).tolist() == list(range(63, -1, -1))
