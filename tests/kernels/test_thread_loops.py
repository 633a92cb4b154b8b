"""Kernels that become loops over a block's threads do what their threads do on stacks of their own."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import DriverError
from cuplug.runtime.kernels.simulator.barrier_statements import BARRIER
from cuplug.runtime.kernels.simulator.translate import translate

pytestmark = [pytest.mark.needs_sim, pytest.mark.one_schedule]

FIBRES = "-DCUPLUG_BARRIERS"
"""The option that leaves every kernel to fibres, which are the simple form."""
BLOCK, BLOCKS, THREADS = (7, 3, 2), 3, 42
_OUTSIDE = 2
"""How deep statements may stand in loops, at the top of a kernel."""


def becomes_loops(body: str, before: str = "") -> bool:
    source = f"{before}\n__global__ void k(float *x, const float *y, int n, float4 v) {{ {body} }}"
    return "Describe<(&::k), LOOPS" in translate(source, [], checked=False).text


@pytest.mark.parametrize(
    "body",
    [
        "x[threadIdx.x] = 1; __syncthreads(); x[1] = 2;",
        "float sum = 0; for (int d = blockDim.x / 2; d > 0; d >>= 1) { sum += d; __syncthreads(); } x[0] = sum;",
        "int d; for (d = 1; d < n; d *= 2) { x[threadIdx.x] += d; __syncthreads(); }",
        "while (n > 0) { x[threadIdx.x] += n; __syncthreads(); n /= 2; }",
        "if (n > 5 && blockIdx.x) { x[0] = 1; __syncthreads(); } else { x[0] = 2; }",
        "float a[4] = {1}; a[n] = 2; __syncthreads(); float *p = a; p[0] = 1; __syncthreads(); x[0] = *p;",
        "x += blockIdx.x * 8; y = x; __syncthreads(); x[threadIdx.x] = y[0] + v.x;",
        "for (int i = threadIdx.x; i < n; ++i) if (x[i] > 0) break; __syncthreads();",
        "if (threadIdx.x >= n) return; __syncthreads(); x[threadIdx.x] = 1;",
        "if (blockIdx.x >= n) { x[0] = 1; return; } __syncthreads(); if (threadIdx.x) return; else x[1] = 2; x[3] = 1;",
        "const int m = n * 2; { for (int i = 0, j = m; i < j; ++i, j -= 2) { __syncthreads(); } }",
    ],
)
def test_barriers_that_all_threads_reach_alike_cut_a_kernel_into_loops(body: str) -> None:
    assert becomes_loops(body)


@pytest.mark.parametrize(
    "body",
    [
        "if (threadIdx.x < 32) __syncthreads();",
        "int t = threadIdx.x; for (int i = t; i < n; ++i) __syncthreads();",
        "for (int i = 0; i < n; ++i) { if (threadIdx.x == i) return; __syncthreads(); }",
        "for (int i = 0; i < n; ++i) if (x[i] == threadIdx.x) return; __syncthreads();",
        "if (n) { if (threadIdx.x == 3) return; __syncthreads(); }",
        "for (int i = 0; i < n; ++i) { if (x[i] > 0) break; __syncthreads(); }",
        "for (int i = 0; i < n; ++i) { i += threadIdx.x; __syncthreads(); }",
        "for (int i = 0; i < x[0]; ++i) __syncthreads();",
        "n += threadIdx.x; __syncthreads(); x[0] = n;",
        "int m = n; int *p = &m; *p = threadIdx.x; for (int i = 0; i < m; ++i) __syncthreads();",
        "int m = n; int &r = m; __syncthreads(); r = 1; x[0] = m;",
        "int m = n; change(m); for (int i = 0; i < m; ++i) __syncthreads();",
        "for (int i = 0; i < different(); ++i) __syncthreads();",
        "int m = 1; int *p = &m; __syncthreads(); x[0] = *p;",
        "auto f = [&] { return 1; }; __syncthreads();",
        "auto m = threadIdx.x; __syncthreads(); x[m] = 1;",
        "do { __syncthreads(); } while (--n);",
        "switch (n) { case 1: __syncthreads(); }",
        "meets(); __syncthreads();",
        "__syncwarp(); __syncthreads();",
        "while (atomicAdd(x, 0.0f) < 1) {} __syncthreads();",
        "int m = n; { int n = threadIdx.x; __syncthreads(); x[0] = n + m; }",
    ],
)
def test_other_barriers_leave_a_kernel_to_fibres(body: str) -> None:
    before = "__device__ void change(int &m) { m = threadIdx.x; } __device__ int different() { return threadIdx.x; }"
    assert not becomes_loops(body, f"{before} __device__ void meets() {{ __syncthreads(); }}")


class Program:
    """Draws a kernel without races, in which all sorts of variables live across barriers."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.names = 0
        self.lines: list[str] = []
        self.of_threads = ["t", "w"]
        self.of_block = ["n"]
        self.arrays = ["a"]
        self.pointers = ["y"]
        self.statements(_OUTSIDE)

    def source(self, name: str) -> str:
        ends = " ^ ".join([*self.of_threads, *self.of_block, *(f"{it}[1]" for it in [*self.arrays, *self.pointers])])
        lines = "\n    ".join(self.lines)
        return f"""
__global__ void {name}(unsigned *out, const unsigned *y, unsigned n) {{
    __shared__ unsigned s[{THREADS}];
    const int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned w = threadIdx.y, a[4] = {{1, 2, w}};
    s[t] = 0;
    __syncthreads();
    {lines}
    out[blockIdx.x * {THREADS} + t] = {ends};
}}
"""

    def fresh(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def some(self, names: list[str]) -> str:
        return self.draw.choice(names)

    def number(self) -> int:
        return self.draw.randrange(1, 50)

    def thread_value(self) -> str:
        reads = [f"{self.some(self.arrays)}[{self.draw.randrange(4)}]", f"{self.some(self.pointers)}[t]"]
        return self.draw.choice([*self.of_threads, *self.of_block, *reads, f"(w << {self.number()} % 40)"])

    def block_value(self) -> str:
        return self.draw.choice([*self.of_block, "blockIdx.x", "blockDim.y", str(self.number())])

    def statements(self, depth: int) -> None:
        kinds = [self.assign, self.meet, self.declare, self.declare_alike, self.change_alike, self.branch, self.others]
        around = [self.loop, self.halve, self.choose] if depth else []
        if depth == _OUTSIDE:
            kinds += [self.leave, self.leave]
        for kind in self.draw.choices([*kinds, *around * 2], k=self.draw.randrange(2, 6)):
            if kind in around:
                kind(depth - 1)  # type: ignore[operator]
            else:
                kind()  # type: ignore[operator]

    def inside(self, head: str, depth: int, foot: str = "") -> None:
        """A block with names of its own."""
        names = self.of_threads, self.of_block, self.arrays, self.pointers
        kept = [list(it) for it in names]
        self.lines.append(f"{head} {{")
        self.statements(depth)
        self.lines.append(f"{foot} }}")
        for it, before in zip(names, kept, strict=True):
            it[:] = before

    def assign(self) -> None:
        target = self.draw.choice([*self.of_threads[1:], f"{self.some(self.arrays)}[{self.draw.randrange(4)}]"])
        self.lines.append(
            f"{target} {self.draw.choice(('=', '+=', '^=', '*='))} {self.thread_value()} + {self.number()};"
        )

    def meet(self) -> None:
        value, target = self.thread_value(), self.some(self.of_threads[1:])
        self.lines.append(f"s[t] = {value}; __syncthreads();")
        self.lines.append(f"{target} += s[(t + {self.number()}) % {THREADS}]; __syncthreads();")

    def declare(self) -> None:
        name = self.fresh()
        kind = self.draw.randrange(5)
        if kind == 0:
            self.lines.append(f"unsigned {name}[4] = {{{self.thread_value()}, {self.thread_value()}}};")
            self.arrays.append(name)
        elif kind == 1:
            self.lines.append(f"const unsigned *{name} = y + t % {self.number()};")
            self.pointers.append(name)
        elif kind == 2:
            self.lines.append(
                f"const unsigned {name} = threadIdx.x * {self.block_value()} + (t >> {self.number()} % 40);"
            )
            self.lines.append(f"w ^= {name};")
        else:
            self.lines.append(f"unsigned {name} = {self.thread_value()}, {name}_ = {name} + {self.thread_value()};")
            self.of_threads += [name, f"{name}_"]

    def declare_alike(self) -> None:
        name = self.fresh()
        if self.draw.random() < 0.3:
            self.lines.append(f"const unsigned *{name} = y + {self.block_value()} % 8;")
            self.pointers.append(name)
        else:
            self.lines.append(f"unsigned {name} = {self.block_value()} * {self.number()};")
            self.of_block.append(name)

    def change_alike(self) -> None:
        self.lines.append(f"{self.some(self.of_block)} += {self.block_value()} + {self.number()};")

    def branch(self) -> None:
        value = self.thread_value().replace("w", "t")
        self.lines.append(f"if (t % {self.number()} == 0) {{ unsigned w = {value}; a[0] += w; }} else w += 3;")

    def leave(self) -> None:
        found, rest = self.number(), self.draw.randrange(3)
        self.lines.append(
            self.draw.choice(
                [
                    f"if (t % {found + 4} == {rest}) return;",
                    f"if ((t + n) % {found + 4} == {rest}) {{ w += 5; return; }} else w += 9;",
                ]
            )
        )

    def others(self) -> None:
        self.lines.append(f"for (int t = 0; t < 4; ++t) {{ if (t == 3) continue; w += a[t] * {self.number()}; }}")

    def loop(self, depth: int) -> None:
        name = self.fresh()
        self.inside(f"for (unsigned {name} = 0; {name} < {self.block_value()} % 4 + 1; ++{name})", depth)

    def halve(self, depth: int) -> None:
        name = self.fresh()
        self.lines.append(f"unsigned {name} = {self.block_value()} % 8;")
        self.inside(f"while ({name})", depth, f"{name} /= 2;")

    def choose(self, depth: int) -> None:
        self.inside(f"if ({self.block_value()} % 2)", depth)
        self.inside("else", depth)


def looping_programs(first: int, count: int, *, races: bool = False) -> list[Program]:
    """Programs that become loops. Others change a variable of the block where only the threads come by."""
    programs = (Program(seed) for seed in itertools.count(first))
    loops = (it for it in programs if ", LOOPS," in translate(it.source("k"), [], checked=races, races=races).text)
    return list(itertools.islice(loops, count))


@pytest.mark.parametrize("check", [False, True, "races"])
def test_random_programs_have_the_same_results_as_loops_and_on_stacks(machine: Any, check: Any) -> None:
    programs = looping_programs(1000 * bool(check), 6, races=check == "races")
    source = "".join(program.source(f"k{number}") for number, program in enumerate(programs))
    y = machine.up(np.arange(200, dtype=np.uint32) * 7919)
    loops, stacks = (machine.module(source, options=options, check=check) for options in ([], [FIBRES]))
    for number, program in enumerate(programs):
        results = []
        for module in (loops, stacks):
            out = machine.zeros(BLOCKS * THREADS, np.uint32)
            module.get_function(f"k{number}")(out, y, 5 + number, grid=BLOCKS, block=BLOCK)
            results.append(machine.down(out, BLOCKS * THREADS, np.uint32).tolist())
        assert results[0] == results[1], program.source("k")
        assert len(set(results[0])) > 1


def without_a_barrier(draw: random.Random, source: str) -> str:
    """A program without one of its barriers, of which the first stays."""
    pieces = source.split(f"{BARRIER}();")
    place = draw.randrange(2, len(pieces))
    pieces[place - 1 : place + 1] = [pieces[place - 1] + pieces[place]]
    return f"{BARRIER}();".join(pieces)


def test_a_barrier_that_a_random_program_lacks_is_missed_in_loops_and_on_stacks(make_machine: Any) -> None:
    draw = random.Random(7)
    meeting = [it for it in looping_programs(3000, 16, races=True) if it.source("k").count(BARRIER) > 2]
    source = "".join(without_a_barrier(draw, it.source(f"k{number}")) for number, it in enumerate(meeting))
    found = 0
    for number in range(len(meeting)):
        messages = []
        for options in ([], [FIBRES]):
            machine = make_machine()
            y, out = machine.up(np.arange(200, dtype=np.uint32) * 7919), machine.zeros(BLOCKS * THREADS, np.uint32)
            function = machine.module(source, options=options, check="races").get_function(f"k{number}")
            function(out, y, 5 + number, grid=BLOCKS, block=BLOCK)
            try:
                machine.synchronize()
                messages.append("")
            except DriverError as error:
                messages.append(error.message)
        assert bool(messages[0]) == bool(messages[1]), f"{number}: {messages}"
        assert all("race on s[" in message for message in messages if message)
        found += bool(messages[0])
    assert found > len(meeting) // 2


OTHERS = """
template <class T, int N> __global__ void of_template(T *x) {
    __shared__ T s[N];
    T mine = x[threadIdx.x];
    s[threadIdx.x] = mine;
    __syncthreads();
    typedef T Item;
    Item other = s[N - 1 - threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = mine * 2 + other;
}
struct Pair { int a, b; };
__device__ int where() { return threadIdx.x + 8 * threadIdx.y; }
__global__ void of_structures(int *x, Pair more) {
    extern __shared__ int s[];
    Pair pair = {where(), 1};
    pair.b += more.a;
    s[where()] = pair.a;
    __syncthreads();
    pair.a = s[(where() + more.b) % 32];
    __syncthreads();
    x[where()] = pair.a * 100 + pair.b;
}
__global__ void too_much_to_keep(double *x) {
    double a[64];
    for (int i = 0; i < 64; ++i) a[i] = i + threadIdx.x;
    __syncthreads();
    double sum = 0;
    for (int i = 0; i < 64; ++i) sum += a[i];
    x[threadIdx.x] = sum;
}
"""


@pytest.mark.parametrize("options", [[], [FIBRES]])
def test_types_structures_and_what_is_too_large_to_be_kept(machine: Any, options: list[str]) -> None:
    module = machine.module(
        OTHERS, name_expressions=("of_template<double, 16>", "of_template<short, 16>"), options=options
    )
    for kind, name in ((np.float64, "double"), (np.int16, "short")):
        x = machine.up(np.arange(16, dtype=kind))
        module.get_function(f"of_template<{name}, 16>")(x, grid=1, block=16)
        assert machine.down(x, 16, kind).tolist() == [2 * i + 15 - i for i in range(16)]
    x, more = machine.zeros(32, np.int32), np.array([(5, 3)], np.dtype([("a", "i4"), ("b", "i4")]))
    module.get_function("of_structures")(x, more, grid=1, block=(8, 4), shared=128)
    assert machine.down(x, 32, np.int32).tolist() == [(i + 3) % 32 * 100 + 6 for i in range(32)]
    x = machine.zeros(1024, np.float64)
    module.get_function("too_much_to_keep")(x, grid=1, block=1024)
    assert machine.down(x, 1024, np.float64).tolist() == [2016 + 64 * i for i in range(1024)]


@pytest.mark.parametrize(
    ("statement", "rewritten"),
    [
        ("if (t % (2 * k) == 0) x[t] = 1;", True),
        ("x[t] = x[t] - threadIdx.x % k;", True),
        ("x[(t + 1) % blockDim.x] = t % k * 4;", True),
        ("x[t] = a * t % k;", False),
        ("x[t] = -t % k;", False),
        ("x[t] = (char)t % k;", False),
        ("x[t] = t % (char)k;", False),
        ("x[t] = t % y[0];", False),
        ("x[t] = t % 5 + k % n;", False),
        ("int m = t; m %= k; x[t] = m;", False),
    ],
)
def test_remainders_by_what_goes_alike_need_no_division(statement: str, *, rewritten: bool) -> None:
    source = f"""__global__ void sums(int *x, const int *y, int n, int a) {{
        int t = threadIdx.x;
        for (int k = 1; k < n; k *= 2) {{ {statement} __syncthreads(); }}
    }}"""
    translated = translate(source, [], checked=False).text
    assert "Describe<(&::sums), LOOPS" in translated
    assert ("__cuplug::remainder(" in translated) is rewritten


def test_remainders_are_those_of_c_whatever_the_signs_and_types(machine: Any) -> None:
    divisors = [1, 2, 3, 7, 8, -1, -4, -7, 1 << 30, -(2**31), 2**31 - 1]
    source = """
        struct Whole { int value; int operator%(int by) const { return value % by + 1000; } };
        __global__ void k(long long *out, const int *values, int d) {
            unsigned t = threadIdx.x, u = values[t];
            int i = values[t];
            long long l = values[t] * 5000000000ll;
            signed char c = values[t];
            Whole whole = {i};
            unsigned e = d;
            long long f = d;
            out += blockDim.x * 8 * blockIdx.x;
            __syncthreads();
            out[t * 8] = i % d;
            out[t * 8 + 1] = u % e;
            out[t * 8 + 2] = i % e;
            out[t * 8 + 3] = l % f;
            out[t * 8 + 4] = 3 - c % (d);
            out[t * 8 + 5] = i % f;
            out[t * 8 + 6] = u % f + (l % d < 0 ? 7 : 8);
            out[t * 8 + 7] = whole % d;
            __syncthreads();
        }"""
    values = np.array([0, 1, -1, 5, -5, 8, -8, 100, -100, 2**31 - 1, -(2**31) + 1, 12345678], np.int32)
    found = []
    for options in ([], [FIBRES]):
        kernel = machine.module(source, options=options).get_function("k")
        for divisor in divisors:
            out, given = machine.zeros(8 * len(values), np.int64), machine.up(values)
            kernel(out, given, divisor, grid=1, block=len(values))
            found.append(machine.down(out, 8 * len(values), np.int64).tolist())
    assert found[: len(divisors)] == found[len(divisors) :]
    by_seven = found[3]
    assert by_seven[8 * 4] == -5
    assert by_seven[8 * 8] == -2


def test_a_fault_between_barriers_names_its_thread(machine: Any) -> None:
    module = machine.module("__global__ void k(int *x, int n) { __syncthreads(); if (threadIdx.y == 2) x[n] = 1; }")
    module.get_function("k")(machine.zeros(4, np.int32), 1 << 20, grid=1, block=(3, 4))
    with pytest.raises(Exception, match=r"thread \(0, 2, 0\)"):
        machine.synchronize()
