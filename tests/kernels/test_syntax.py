"""What is found in sources."""

from __future__ import annotations

import pytest
from cuplug.allocators.errors import CompileError
from cuplug.runtime.kernels.simulator.translate import translate
from cuplug.runtime.kernels.source.declarations import declarators, read_declarations
from cuplug.runtime.kernels.source.signatures import kinds, signatures
from cuplug.runtime.kernels.source.tokens import Tokens


def test_kernels_are_found_wherever_they_stand() -> None:
    source = """
    // __global__ void comment();
    const char *text = "__global__ void text() {";
    __global__ void forward(int);
    static __global__ void __launch_bounds__(2 * 128, 2) bounded(const float *__restrict__ x, int n = 3) { if (n) { } }
    namespace a { namespace b::c { template <class T, int N = (1 > 0)> __global__ void deep(T (*f)(int, T), T) {} } }
    extern "C" __global__ void c_name(void) {}
    extern "C" { void __global__ other(float x[], struct Point p) {} }
    struct Type { __device__ void method() {} };
    """
    kernels = {kernel.name: kernel for kernel in read_declarations(Tokens(source)).kernels if kernel.body}
    assert list(kernels) == ["bounded", "deep", "c_name", "other"]
    assert kernels["bounded"].names == ["x", "n"]
    assert kernels["bounded"].bounds == "2 * 128"
    assert kernels["deep"].qualified == "a::b::c::deep"
    assert kernels["deep"].template == ["T", "N"]
    assert len(kernels["deep"].names) == 2
    assert kernels["c_name"].names == []
    assert kernels["other"].names == ["x", "p"]


def test_symbols_are_told_from_functions_and_members() -> None:
    source = """
    __constant__ float a[4], b = 2.0f;
    static __device__ struct { int x, y; } c;
    __device__ int f(int x);
    __device__ int *g(int x) { __shared__ int not_a_symbol; return nullptr; }
    struct S { __device__ int method(); int member; };
    namespace n { __device__ volatile unsigned d; __managed__ long long e; }
    template <int N> __device__ int h();
    __device__ __align__(16) float4 i;
    extern __device__ int elsewhere;
    """
    assert [symbol.qualified for symbol in read_declarations(Tokens(source)).symbols] == [
        "a",
        "b",
        "c",
        "n::d",
        "n::e",
        "i",
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("float x[3][4], *y, z", ["x", "y", "z"]),
        ("unsigned long long big", ["big"]),
        ("Pair<int, float> p[2]", ["p"]),
        ("ns::Type t{1, 2}, u(3)", ["t", "u"]),
        ("struct { int a; float b; } s[4]", ["s"]),
        ("alignas(16) char raw[64]", ["raw"]),
        ("int m[N < 3 ? 1 : 2], n", ["m", "n"]),
    ],
)
def test_names_of_variables(text: str, names: list[str]) -> None:
    tokens = Tokens(text + ";")
    assert [name for name, _ in declarators(tokens, 0, len(tokens) - 1)] == names


def test_barriers_are_found_through_functions_and_types() -> None:
    source = """
    template <class T> __device__ void wait(T x) { __syncthreads(); }
    struct Tool { __device__ void use() { wait(1); } __device__ void rest() {} };
    __device__ int harmless(int x) { return x; }
    __global__ void direct() { __syncwarp(); }
    __global__ void through() { Tool t; t.use(); }
    __global__ void none(int x) { harmless(x); }
    """
    text = translate(source, [], checked=True).text
    fibres = {name: f"(&::{name}), FIBRES" in text for name in ("direct", "through", "none")}
    assert fibres == {"direct": True, "through": True, "none": False}


def test_lines_are_kept() -> None:
    source = (
        "__global__ void f(\n  int a,\n  int b)\n{\n  __shared__ int\n    x[2], y;\n  extern __shared__ float z[];\n}\n"
    )
    body = translate(source, [], checked=False).text.split("#include <cuda_host.h>\n")[1].split('# 1 "<cuplug>"')[0]
    assert body.count("\n") == source.count("\n") + 1
    assert body.splitlines()[2].strip() == "int b)"


def test_a_name_expression_without_a_kernel_lists_the_kernels() -> None:
    with pytest.raises(CompileError, match="its kernels: f, n::g"):
        translate(
            "__global__ void f() {} namespace n { template <class T> __global__ void g() {} }", ["h<int>"], checked=True
        )


def test_kinds_of_parameters_come_from_the_source() -> None:
    source = """
    #define real float
    typedef unsigned long long u64;
    using Index = unsigned short;
    __global__ void k(real a, const u64 b, Index c, float4 d, T *e, const half f, unknown g, long h, bool i) {}
    template <typename T, int N> __global__ void t(T a, T *b) {}
    """
    found = signatures(source, ["t<double, 3>"])
    layout = [(0, 4), (8, 8), (16, 2), (32, 16), (48, 8), (56, 2), (60, 4), (64, 8), (72, 1)]
    assert [kind for _, kind in kinds(found["k"], layout)] == ["f", "u", "u", "s", "p", "h", "?", "i", "b"]
    assert [name for name, _ in kinds(found["k"], layout)] == list("abcdefghi")
    assert kinds(found["t<double, 3>"], [(0, 8), (8, 8)]) == [("a", "f"), ("b", "p")]
    assert kinds(found["k"], [(0, 4)]) == [("parameter 0", "?")]
    assert kinds(found["t<double, 3>"], [(0, 2), (8, 8)])[0] == ("a", "?")


def test_structures_that_the_source_defines_are_structures() -> None:
    source = """
    struct Pair { int a; float b; };
    typedef struct { float x, y; } Two;
    union Either { int a; double b; };
    enum class Color : int { red };
    struct alignas(8) Aligned { int a, b; };
    template <class T> struct Box { T inside; };
    __global__ void k(Pair a, const Two b, Either c, Aligned d, Box<double> e, struct Elsewhere f, Pair *g, Color h) {}
    template <class T> __global__ void t(T a, T *b) {}
    """
    found = signatures(source, ["t<Pair>"])
    layout = [(8 * index, 8) for index in range(7)] + [(56, 4)]
    assert [kind for _, kind in kinds(found["k"], layout)] == ["s", "s", "s", "s", "s", "s", "p", "?"]
    assert [kind for _, kind in kinds(found["t<Pair>"], layout[:2])] == ["s", "p"]
