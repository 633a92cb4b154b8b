"""Compiling: errors, options, includes, the cache."""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import CompileError, CuplugError, DriverError
from cuplug.runtime.kernels.compile import compile_cache
from cuplug.runtime.kernels.compile.compile_cache import (
    Cache,
    Entry,
    content_key,
    decode,
    default_cache,
    dependencies_of,
    encode,
)
from cuplug.runtime.kernels.compile.nvrtc_headers import headers_for
from cuplug.runtime.kernels.compile.source_file import folder_to_compile_in
from cuplug.runtime.kernels.simulator import code_lines, host_compiler
from cuplug.runtime.kernels.source.host_code import without_host_code
from cuplug.runtime.kernels.source.kernel_names import find_kernel

pytestmark = pytest.mark.one_schedule
DYNAMIC = (
    "__global__ void k(float *x) {{ extern __shared__ float s[]; *x = s[0]; }}\n"
    "__global__ void l(float *x) {{ extern __shared__ {} s[]; *x = s[0]; }}"
)
SET = 'extern "C" __global__ void set(int *out) { out[0] = VALUE; }'


def run_set(machine: Any, **options: Any) -> int:
    out = machine.zeros(1, np.int32)
    machine.module(options.pop("source", SET), **options).get_function("set")(out, grid=1, block=1)
    return int(machine.down(out, 1, np.int32)[0])


def test_an_error_shows_the_message_and_the_line(machine: Any) -> None:
    source = "__global__ void f(float *x) {\n    int y = 3\n    x[0] = undeclared + y;\n}\n"
    with pytest.raises(CompileError) as caught:
        machine.module(source)
    assert "kernel.cu" in caught.value.log
    assert "int y = 3" in caught.value.log or "x[0] = undeclared + y;" in caught.value.log


@pytest.mark.needs_sim
def test_lines_are_those_of_the_source_whatever_was_translated(machine: Any) -> None:
    source = """
    #define TWICE(x) \\
        ((x) + (x))
    __shared__ int outside[4];
    __global__ void f(float *x,
                      int n)
    {
        __shared__ float tile[2][3],
                         more;
        extern __shared__ float rest[];
        __syncthreads();
        x[TWICE(n)] = missing;
    }
    """
    with pytest.raises(
        CompileError, match=r"kernel\.cu:12:\d+: error: .*missing(?s:.*)12 \| x\[TWICE\(n\)\] = missing;"
    ):
        machine.module(source)


@pytest.mark.needs_sim
@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("surface<void, cudaSurfaceType2DLayered> t; __global__ void f() {}", "layered surfaces"),
        ('__global__ void f(unsigned *x) { asm("mov.u32 %0, %unheard_of;" : "=r"(*x)); }', "this inline PTX"),
        ("__global__ void f(cudaTextureObject_t t, float *x) { x[0] = texCubemap<float>(t, 0, 0, 0); }", "cube maps"),
        ("__global__ void f(cudaTextureObject_t t, float *x) { x[0] = tex2DLayered<float>(t, 0, 0, 0); }", "layered"),
        ("__global__ void f(cudaTextureObject_t t, float4 *x) { x[0] = tex2Dgather<float4>(t, 0, 0); }", "gathers"),
        ("#include <curand_kernel.h>\n__global__ void f(curandStateSobol64 *s) { curand(s); }", ".*Sobol64"),
        ("#include <curand_kernel.h>\n__global__ void f(curandStateMtgp32_t *s) { curand(s); }", ".*MTGP32"),
        ("__global__ void f(cudaGraphConditionalHandle h) { cudaGraphSetConditional(h, 0); }", "conditional nodes"),
        ("__device__ cufftCallbackLoadC f;", "callbacks of cuFFT"),
        ("__global__ void f(const __grid_constant__ CUtensorMap m) {}", r"tensor maps \(TMA\)"),
        ("__global__ void f(cudaSurfaceObject_t s, int *x) { surfCubemapwrite(x[0], s, 0, 0, 0); }", "cube maps"),
    ],
)
def test_what_the_simulator_cannot_do_is_named(machine: Any, source: str, what: str) -> None:
    line = 1 + source.count("\n")
    with pytest.raises(CompileError, match=rf"kernel\.cu:{line}: .*the simulator does not support {what}"):
        machine.module(source)


@pytest.mark.needs_sim
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("std::vector<float> v(3);", r"kernel\.cu:4: error: 'std::vector<float>::.*' is for the host, not for kernels"),
        ("std::cout << x[0];", "'std::cout' of <iostream> is for the host, not for kernels|no member named 'cout'"),
        ('FILE *f = fopen("a", "w");', "'FILE' of <cstdio> is for the host, not for kernels|unknown type name 'FILE'"),
        ("if (x[0] < 0) throw 1;", "kernels cannot throw or catch exceptions"),
    ],
)
def test_what_is_for_the_host_alone_is_called_so_in_kernels(machine: Any, body: str, said: str) -> None:
    with pytest.raises(CompileError, match=said) as caught:
        machine.module(
            f"#include <iostream>\n#include <vector>\n#include <cstdio>\n__global__ void k(float *x) {{ {body} }}"
        )
    assert "did you forget" not in str(caught.value)


@pytest.mark.needs_sim
@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "#include <cub/cub.cuh>\n__global__ void f() { typedef cub::BlockHistogram<int, 32, 1, 8> B; }",
            "the simulator's part of cub:: has no BlockHistogram: if CUDA's has, the kernel needs a GPU",
        ),
        (
            "#include <cooperative_groups.h>\n__global__ void f() { cooperative_groups::unheard_of(1); }",
            "the simulator's part of cooperative_groups:: has no unheard_of",
        ),
    ],
)
def test_what_the_simulators_headers_lack_is_named_with_its_namespace(machine: Any, source: str, said: str) -> None:
    with pytest.raises(CompileError) as caught:
        machine.module(source)
    assert said in str(caught.value)


def test_a_missing_header_of_the_samples_is_explained(machine: Any) -> None:
    with pytest.raises(CompileError) as caught:
        machine.module("#include <helper_math.h>\n__global__ void f() {}")
    assert "helper_math.h is not CUDA's, but of NVIDIA's cuda-samples (Common/)" in caught.value.log


def test_code_for_the_host_is_left_out(machine: Any) -> None:
    module = machine.module("whole.cu")
    x, y = np.random.default_rng(15).random((2, 300), dtype=np.float32)
    out = machine.empty(300, np.float32)
    module.get_function("norms")(machine.up(x), machine.up(y), out, 300, grid=2, block=256)
    assert np.allclose(machine.down(out, 300, np.float32), np.hypot(x, y), rtol=1e-6)
    module.get_function("after")(out, grid=1, block=1)
    assert machine.down(out, 300, np.float32)[0] == 1


def test_lines_stay_where_code_for_the_host_was(machine: Any) -> None:
    source = (
        "__global__ void f() {}\nint main() {\n    f<<<1, 1>>>();\n}\n__global__ void g(int *x) { *x = missing; }\n"
    )
    with pytest.raises(CompileError) as caught:
        machine.module(source)
    assert re.search(r"kernel\.cu(:|\()5\b", caught.value.log)


def test_what_kernels_reach_is_no_code_for_the_host() -> None:
    source = """
    int deep(int x) { return x; }
    int both(int x) { return deep(x); }
    void host_only() { both(1); }
    cudaArray *array; __constant__ int kept; extern "C" { cudaError_t none(); }
    struct Type { int value; void method() { method_uses(); } };
    int method_uses() { return 1; }
    __device__ int used(int x) { return both(x); }
    __global__ void kernel(int *x) { *x = used(1); }
    int main() { kernel<<<1, 1>>>(0); }
    """
    rest = without_host_code(source)
    for name in ("deep(int", "both(int", "kept;", "struct Type", "method_uses() {", "used(int", "kernel(int"):
        assert name in rest
    for name in ("host_only", "array", "none", "main", "<<<"):
        assert name not in rest
    assert rest.count("\n") == source.count("\n")


@pytest.mark.needs_sim
def test_launches_by_kernels_are_refused(machine: Any) -> None:
    with pytest.raises(CompileError, match=r"kernel\.cu:2: 'f<<<': .* does not support launches by kernels"):
        machine.module("__global__ void f() {}\n__global__ void g() { f<<<1, 1>>>(); }")


def test_options_and_include_folders_count(machine: Any, tmp_path: Path) -> None:
    (tmp_path / "value.h").write_text("#define VALUE 7\n")
    assert run_set(machine, options=["-DVALUE=5", "-use_fast_math", "--std=c++17"]) == 5
    assert run_set(machine, options=["-D", "VALUE=6"]) == 6
    assert run_set(machine, source='#include "value.h"\n' + SET, include_dirs=[str(tmp_path)]) == 7


@pytest.mark.parametrize("version", ["c++11", "c++14", "c++17", "c++20"])
def test_versions_of_the_language_before_17_are_taken(machine: Any, version: str) -> None:
    assert run_set(machine, options=["-DVALUE=5", f"-std={version}"]) == 5


def test_a_changed_header_is_noticed(machine: Any, tmp_path: Path) -> None:
    source = '#include "value.h"\n' + SET
    for value in (1, 2, 1):
        (tmp_path / "value.h").write_text(f"#define VALUE {value}\n")
        assert run_set(machine, source=source, include_dirs=[tmp_path]) == value


@pytest.mark.needs_sim
def test_a_template_without_instances_is_called_one(machine: Any) -> None:
    module = machine.module("template <class T, int N>\n__global__ void fill(T *x) { *x = N; }\n")
    with pytest.raises(DriverError, match=r"'fill' is a template; .*name_expressions.* void fill<\.\.\.>"):
        module.get_function("fill")(0, grid=1, block=1)
    with pytest.raises(DriverError, match=r"template __global__ void fill<float,3>\(\.\.\.\)"):
        module.get_function("fill<float, 3>")(0, grid=1, block=1)
    with pytest.raises(DriverError, match="no kernel 'full'"):
        module.get_function("full")(0, grid=1, block=1)


@pytest.mark.needs_sim
def test_a_misspelt_kernel_is_told_with_the_one_that_is_like_it(machine: Any) -> None:
    module = machine.module("__global__ void multiply_them(float *x) {} __global__ void add(float *x) {}")
    with pytest.raises(DriverError, match="has add, multiply_them; did you mean 'multiply_them'"):
        module.get_function("multiply_then")(0, grid=1, block=1)
    with pytest.raises(DriverError, match=r"has add, multiply_them$"):
        module.get_function("sum")(0, grid=1, block=1)


def test_a_long_source_without_statements_is_searched_at_once() -> None:
    begun = time.process_time()
    with pytest.raises(DriverError, match="no kernel 'full'"):
        find_kernel("full", ["fill"], "template <" + "template <a> " * 16_000)
    assert time.process_time() - begun < 5  # a search that goes back takes minutes


@pytest.mark.needs_sim
def test_a_function_that_is_declared_alone_is_called_so_once(machine: Any) -> None:
    source = "__device__ int next(int);\n__global__ void k(int *x) {\n*x = next(1) + next(2);\n}"
    with pytest.raises(CompileError) as caught:
        machine.module(source)
    lines = str(caught.value).splitlines()[1:]
    assert lines[0].endswith(":3: error: 'next(int)' is declared, and nothing in the source defines it")
    assert lines[1].strip() == "3 | *x = next(1) + next(2);"
    assert len(lines) == 2


def test_unknown_name_expressions_are_refused(machine: Any) -> None:
    with pytest.raises(CompileError, match="nowhere"):
        machine.module(SET, options=["-DVALUE=1"], name_expressions=["nowhere<int>"])


@pytest.mark.needs_sim
def test_a_cached_module_needs_no_compiler_run(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_set(machine, options=["-DVALUE=21"]) == 21

    def refuse(*args: Any) -> Any:
        raise AssertionError("the compiler was called")

    monkeypatch.setattr(host_compiler.Compiler, "run", refuse)
    assert run_set(machine, options=["-DVALUE=21"]) == 21


def test_a_full_disk_is_told_with_the_folder_to_change() -> None:
    def write() -> None:
        with folder_to_compile_in() as folder:
            Path(folder, "full").symlink_to("/dev/full")
            Path(folder, "full").write_bytes(b"x")

    def compile_there(says: str) -> None:
        with folder_to_compile_in():
            raise CompileError(says)

    with pytest.raises(CompileError, match=r"no room to compile in .*: free some, or name another folder in TMPDIR"):
        write()
    with pytest.raises(CompileError, match=r"no room to compile in .*: free some, or name another folder in TMPDIR"):
        compile_there("the source does not compile\nfatal error: closing dependency file: No space left on device")
    with pytest.raises(CompileError, match=r"^a missing semicolon$"):
        compile_there("a missing semicolon")


def test_a_full_disk_takes_only_the_line_from_a_report_of_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full").open("wb")  # noqa: SIM115 - closed by the function
    monkeypatch.setattr(code_lines.tempfile, "NamedTemporaryFile", lambda suffix: full)
    assert code_lines.lines_of(b"an image", [1]) == {}


@pytest.mark.needs_sim
def test_without_a_compiler_the_error_says_what_to_install(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(host_compiler.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CompileError, match=r"install g\+\+ or clang\+\+"):
        machine.module(SET, options=["-DVALUE=1"])
    monkeypatch.setenv("CXX", "/nowhere/c++")
    with pytest.raises(CompileError, match="CXX='/nowhere/c"):
        machine.module(SET, options=["-DVALUE=1"])


@pytest.mark.needs_sim
def test_threads_may_compile_and_launch_at_once(machine: Any) -> None:
    results: dict[int, int] = {}

    def work(value: int) -> None:
        machine.runtime.driver.set_device(0)
        results[value] = run_set(machine, options=[f"-DVALUE={value % 3}"])

    threads = [threading.Thread(target=work, args=(value,)) for value in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {value: value % 3 for value in range(9)}


# --- the cache by itself


def test_entries_come_back_whole(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    entry = Entry(b"code", {"names": ["a"]}, {})
    assert cache.get("ab" * 32) is None
    cache.put("ab" * 32, entry)
    assert cache.get("ab" * 32) == entry
    assert decode(encode(entry)) == entry


@pytest.mark.parametrize("damage", ["truncated", "changed", "empty", "foreign"])
def test_a_damaged_entry_counts_as_missing(tmp_path: Path, damage: str) -> None:
    cache = Cache(tmp_path)
    key = "cd" * 32
    cache.put(key, Entry(b"x" * 100))
    data = cache.path(key).read_bytes()
    broken = {"truncated": data[:-3], "changed": data[:-1] + b"y", "empty": b"", "foreign": b"#!/bin/sh\n"}
    cache.path(key).write_bytes(broken[damage])
    assert cache.get(key) is None
    assert cache.get_or_make(key, lambda: Entry(b"new")).payload == b"new"
    assert cache.get(key) == Entry(b"new")


def test_the_entries_used_least_recently_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=3500)
    keys = [f"{number:02x}" * 32 for number in range(4)]
    for age, key in enumerate(keys[:3]):
        cache.put(key, Entry(bytes(1000)))
        os.utime(cache.path(key), (10_000 - age, 10_000 - age))
    assert cache.get(keys[2]) is not None  # used now
    cache.put(keys[3], Entry(bytes(1000)))
    assert [cache.get(key) is not None for key in keys] == [True, False, True, True]


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file")
    assert cache.get_or_make("ef" * 32, lambda: Entry(b"made")).payload == b"made"


def test_an_entry_depends_on_the_files_it_was_made_from(tmp_path: Path) -> None:
    cache, header = Cache(tmp_path / "cache"), tmp_path / "header.h"
    header.write_text("one")
    cache.put("aa" * 32, Entry(b"code", {}, dependencies_of([str(header)])))
    assert cache.get("aa" * 32) is not None
    header.write_text("two")
    assert cache.get("aa" * 32) is None
    header.unlink()
    assert cache.get("aa" * 32) is None


def test_keys_tell_every_part_apart() -> None:
    keys = {
        content_key("a", "b"),
        content_key("ab"),
        content_key(["a", "b"]),
        content_key("a", ["b"], ""),
        content_key(),
    }
    assert len(keys) == 5


def test_the_environment_says_where_and_how_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPLUG_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CUPLUG_CACHE_SIZE", "3MiB")
    cache = default_cache()
    assert (cache.directory.parent, cache.limit) == (tmp_path, 3 << 20)


def test_processes_share_a_cache(tmp_path: Path) -> None:
    script = (
        "import sys; from cuplug.runtime.kernels.compile.compile_cache import Cache, Entry\n"
        f"cache = Cache({str(tmp_path)!r}, limit=200_000)\n"
        "for turn in range(60):\n"
        "    key = f'{turn % 7:02x}' * 32\n"
        "    entry = cache.get_or_make(key, lambda: Entry(bytes([turn % 7]) * 50_000))\n"
        "    assert entry.payload == bytes([turn % 7]) * 50_000\n"
    )
    workers = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(3)]
    assert [worker.wait(300) for worker in workers] == [0, 0, 0]
    assert not list(tmp_path.glob("??/.new-*"))


LINKS_ITS_OWN = """#!{python}
import subprocess, sys
if "--version" in sys.argv:
    sys.exit(print("clang version 21"))
if "-shared" in sys.argv and any("-fsanitize=thread" in word for word in sys.argv):
    sys.exit("ld.lld: error: duplicate symbol: __tsan_read1")
kept = [word for before, word in zip(sys.argv, sys.argv[1:]) if "-mllvm" not in (before, word)]
sys.exit(subprocess.call([{compiler!r}, *kept]))
"""


def test_accesses_are_told_where_the_compiler_links_a_runtime_of_its_own_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As zig does wherever it links with ``-fsanitize=thread``, and clang does not for libraries."""
    if not (compiler := shutil.which("g++")):
        pytest.skip("needs g++, which stands in for zig")
    script = tmp_path / "zig"
    script.write_text(LINKS_ITS_OWN.format(python=sys.executable, compiler=compiler))
    script.chmod(0o700)
    monkeypatch.setenv("CXX", str(script))
    source = 'extern "C" __global__ void add(int *out) { out[0] += 1; }'
    assert host_compiler.compile_for_host(source, races=True).payload.startswith(b"\x7fELF")


DECLARED = {
    "math.h": "floorf|fmaxf|ldexpf",
    "pthread.h": r"pthread_(?:attr|cond|create|join|mutex)\w*",
    "semaphore.h": r"sem_\w+",
    "setjmp.h": "sigsetjmp|siglongjmp",
    "signal.h": r"pthread_kill|pthread_sigmask|raise|sig(?:action|altstack|fillset)",
    "stdio.h": "fflush|v?snprintf",
    "stdlib.h": "calloc|free|malloc|on_exit|qsort|realloc|strtoul",
    "string.h": "mem(?:cmp|cpy|move|set)|str(?:cspn|len|str)",
    "sys/mman.h": "madvise|mmap|mprotect|munmap",
    "time.h": "clock_gettime",
    "unistd.h": "_exit",
}
"""By header: the functions of the C library that it declares and that the engine calls."""


@pytest.mark.parametrize("header", DECLARED)
def test_the_engine_includes_what_declares_the_functions_that_it_calls(header: str) -> None:
    """Debian's headers include unistd.h by themselves; those that zig 0.17 brings do not, and know no ``_exit``."""
    folder = host_compiler.HEADERS / "engine"
    text = "".join(path.read_text() for path in [*folder.glob("*.h"), folder / "engine.cpp"])
    assert re.search(rf"\b(?:{DECLARED[header]})\(", text), "the table names what is no longer called"
    assert f"#include <{header}>" in text


# --- entries that somebody else may have written


@pytest.fixture(autouse=True)
def _nothing_told_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning is given once for each path and process, and pytest before 9.2 gives the folder of a test that has
    passed, and is removed, to the next test of that name."""
    monkeypatch.setattr(compile_cache, "_told", set())


def a_cache_with_an_entry(folder: Path) -> tuple[Cache, str]:
    cache, key = Cache(folder / "kernels"), "ab" * 32
    cache.put(key, Entry(b"planted"))
    assert cache.get(key) is not None
    return cache, key


def made_again(cache: Cache, key: str, why: str) -> None:
    """The entry is a miss, one warning says why, and a second look warns no more."""
    with pytest.warns(RuntimeWarning, match=why) as told:
        assert cache.get(key) is None
    assert len(told) == 1
    assert cache.get_or_make(key, lambda: Entry(b"mine")).payload == b"mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
@pytest.mark.parametrize("part", ["cache", "folder", "file"])
def test_an_entry_counts_only_if_cache_folder_and_file_are_the_users_own(tmp_path: Path, part: str) -> None:
    cache, key = a_cache_with_an_entry(tmp_path)
    path = cache.path(key)
    planted = {"cache": cache.directory, "folder": path.parent, "file": path}[part]
    os.chown(planted, pwd.getpwnam("nobody").pw_uid, -1)
    made_again(cache, key, f"{re.escape(str(planted))} belongs to the user with number")


@pytest.mark.parametrize("part", ["cache", "folder", "file"])
@pytest.mark.parametrize("mode", [0o1777, 0o770])
def test_an_entry_counts_only_if_nobody_else_may_write_cache_folder_and_file(
    tmp_path: Path, part: str, mode: int
) -> None:
    cache, key = a_cache_with_an_entry(tmp_path)
    path = cache.path(key)
    open_to_others = {"cache": cache.directory, "folder": path.parent, "file": path}[part]
    open_to_others.chmod(mode)
    made_again(cache, key, f"others than its owner may write to {re.escape(str(open_to_others))}")


def test_a_cache_below_a_folder_for_everybody_counts(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    cache, _ = a_cache_with_an_entry(tmp_path / "mine")
    assert cache.directory.stat().st_mode & 0o777 == 0o700
    assert cache.directory.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("part", ["folder", "file"])
def test_symbolic_links_in_the_cache_are_not_followed(tmp_path: Path, part: str) -> None:
    cache, key = a_cache_with_an_entry(tmp_path)
    link = cache.path(key) if part == "file" else cache.path(key).parent
    link.rename(tmp_path / "elsewhere")
    link.symlink_to(tmp_path / "elsewhere")
    assert cache.get(key) is None


def test_nothing_is_written_into_a_cache_that_others_may_write(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "open")
    cache.directory.mkdir()
    cache.directory.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="others than its owner"):
        cache.put("ab" * 32, Entry(b"code"))
    assert list(cache.directory.iterdir()) == []


def test_a_pipe_in_the_place_of_an_entry_does_not_stop_the_program(tmp_path: Path) -> None:
    cache, key = a_cache_with_an_entry(tmp_path)
    cache.path(key).unlink()
    os.mkfifo(cache.path(key), 0o600)
    assert cache.get(key) is None


@pytest.mark.parametrize(
    "notes",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"facts": 1, "dependencies": {}}',
        b'{"facts": {}, "dependencies": []}',
        b'{"facts": {}, "dependencies": {"/x": 1}}',
        b"[" * 100_000,
    ],
)
def test_an_entry_with_damaged_notes_counts_as_missing(tmp_path: Path, notes: bytes) -> None:
    cache, key = a_cache_with_an_entry(tmp_path)
    body = len(notes).to_bytes(8, "little") + notes + b"payload"
    cache.path(key).write_bytes(b"cuplugC1" + hashlib.sha256(body).digest() + body)
    assert cache.get(key) is None


def test_an_entry_without_the_facts_that_are_needed_is_made_again(tmp_path: Path) -> None:
    cache, key = a_cache_with_an_entry(tmp_path)
    assert cache.get_or_make(key, lambda: Entry(b"new", {"checked": True}), facts=["checked"]).payload == b"new"
    assert cache.get_or_make(key, lambda: Entry(b"newer"), facts=["checked"]).payload == b"new"


def test_a_bound_that_is_no_size_is_an_error_that_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPLUG_CACHE_SIZE", "abc")
    with pytest.raises(CuplugError, match="CUPLUG_CACHE_SIZE is 'abc'"):
        default_cache()


# --- interrupts


def interrupted_at(number: int, action: Callable[[], Any], files: tuple[str, ...]) -> bool:
    """Whether ``action`` reached its ``number``th line in the given files, where it was interrupted."""
    left = number

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith(files):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_an_interrupt_at_any_line_leaves_no_part_of_an_entry(tmp_path: Path) -> None:
    lines = 0
    for number in range(1, 1000):
        cache = Cache(tmp_path / str(number))
        stopped = interrupted_at(
            number, lambda cache=cache: cache.put("ab" * 32, Entry(b"whole")), (compile_cache.__file__,)
        )
        assert not list(cache.directory.glob("??/.new-*")), number
        assert cache.get("ab" * 32) in (None, Entry(b"whole")), number
        lines = number
        if not stopped:
            break
    assert 20 < lines < 999


@pytest.mark.needs_sim
def test_an_interrupt_while_compiling_leaves_no_lock_and_no_entry(
    machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(host_compiler.Compiler, "run", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_set(machine, options=["-DVALUE=31"])
    results: list[int] = []
    other = threading.Thread(target=lambda: results.append(run_set_on_device(machine, 31)))
    other.start()
    other.join(120)
    assert results == [31]


def run_set_on_device(machine: Any, value: int) -> int:
    machine.runtime.driver.set_device(0)
    return run_set(machine, options=[f"-DVALUE={value}"])


@pytest.mark.needs_sim
def test_an_interrupt_at_any_line_of_loading_leaves_the_module_usable(machine: Any) -> None:
    files = ("kernels/source_module.py", "simulator/host_loader.py", "simulator/engine.py")
    for number in range(1, 1000):
        module = machine.module(SET, options=["-DVALUE=32"])
        stopped = interrupted_at(number, lambda module=module: module.get_function("set"), files)
        out = machine.zeros(1, np.int32)
        module.get_function("set")(out, grid=1, block=1)
        assert machine.down(out, 1, np.int32)[0] == 32
        if not stopped:
            break
    assert 10 < number < 999


# --- compilers for GPUs, where they are installed

SOURCES = sorted((Path(__file__).parent / "sources").glob("*.cu"))
CHECKED = Path(__file__).parent / "sources" / "compiled_by_nvcc.txt"
"""Digests of sources that nvcc has compiled: it takes a second and more for each, and would say the same again."""


def test_a_header_of_cuda_that_knows_of_nvrtc_is_not_stood_in_for(tmp_path: Path) -> None:
    """``curand_kernel.h`` needs the types that ``curand.h`` defines for NVRTC, and nothing of ``cufft.h``."""
    (tmp_path / "curand.h").write_text(
        "#ifndef __CUDACC_RTC__\n#include <cuda_runtime.h>\n#endif\nenum curandKind {};\n"
    )
    (tmp_path / "cufft.h").write_text("#include <cuda_runtime.h>\n")
    assert not {"curand.h", "cufft.h"} - headers_for([]).keys()
    given = headers_for([], [str(tmp_path)])
    assert "curand.h" not in given
    assert "cufft.h" in given


def is_to_be_compiled(path: Path) -> bool:
    """Whether nvcc has not seen the source as it is, or is to see it in any case. ``CUPLUG_NVCC=all`` has them all."""
    if path.name == "templates.cu" or os.environ.get("CUPLUG_NVCC") == "all":
        return True
    return f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" not in CHECKED.read_text().splitlines()


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("name", [path.name for path in SOURCES if is_to_be_compiled(path)])
def test_the_tests_sources_are_cuda(name: str) -> None:
    from cuplug.runtime.kernels.compile.gpu_compiler import compile_for_gpu

    expressions = ("scale<float>", "scale<int, 3>", "reverse<double, 64>") if name == "templates.cu" else ()
    source = (Path(__file__).parent / "sources" / name).read_text()
    try:
        entry = compile_for_gpu(source, name_expressions=expressions, arch="sm_90", cache=default_cache())
    except CompileError as error:
        if re.search(r'cannot open source file "curand_kernel\.h"|curand_kernel\.h: No such file', error.log):
            pytest.skip("cuRAND's headers are not installed")
        raise
    lowered = entry.facts["lowered"]
    assert isinstance(lowered, dict)
    assert list(lowered) == list(expressions)
    assert len(set(lowered.values())) == len(expressions)


@pytest.mark.needs_sim
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("__global__ void k(float *x, int n) { float y[n]; y[0] = x[0]; x[1] = y[n - 1]; }", "variable length array"),
        ("__global__ int k(float *x) { return 0; }", "a __global__ function must return void"),
        ("__global__ void k(const float &x) {}", "its parameter 'x' is a reference"),
        ("__global__ void k(int *x) { __shared__ int s = 0; *x = s; }", "kernel.cu:1: .* cannot have an initialiser"),
        ("__global__ void k(int *x) { __shared__ int s[2] = {0}; *x = *s; }", "'s' cannot have an initialiser"),
        ("__global__ void k(int *x) {} __global__ void l(int *x) { k(x); }", "is launched, and not called"),
        ("__global__ void k(int *x) { if (*x) {", r"kernel\.cu:1:\d+: error: no '}' closes this '{'"),
        (
            "struct A { static __global__ void k(int *x) {} };",
            "kernel.cu:1: the kernel 'k' cannot be a member of a class",
        ),
        (
            "__global__ void k(int *x) {\n__constant__ int c = 2; *x = c; }",
            "kernel.cu:2: a __constant__ variable stands outside functions, or is static",
        ),
        (DYNAMIC.format("int"), r"(?s)kernel\.cu:2:\d+: error:.* of one name have one type in all kernels"),
        (
            (
                "template <class T> __global__ void k(T *x) { extern __shared__ T s[]; *x = s[0]; }\n"
                "template __global__ void k<int>(int *); template __global__ void k<double>(double *);"
            ),
            r"(?s)kernel\.cu:1:\d+: error:.* of one name have one type in all kernels",
        ),
        ("__constant__ double x[10000]; __global__ void k(double *y) { *y = x[0]; }", "may have 64 KiB together"),
    ],
)
def test_what_compilers_for_gpus_refuse_is_refused(machine: Any, source: str, said: str) -> None:
    with pytest.raises(CompileError, match=said) as caught:
        machine.module(source)
    assert "warning" not in str(caught.value)
    assert "In file included from" not in str(caught.value)


@pytest.mark.needs_sim
@pytest.mark.parametrize(
    "source",
    [
        "__device__ float f() { return 2; }\n__device__ float g = f(); __global__ void k(float *x) { *x = g; }",
        "int n = 2;\n__constant__ int g[2] = {n}; __global__ void k(int *x) { *x = g[0]; }",
    ],
)
def test_what_variables_of_the_device_begin_as_must_be_constant_as_for_nvcc(machine: Any, source: str) -> None:
    if host_compiler.find_compiler().kind == "clang":
        pytest.skip("clang would refuse constants that nvcc takes")
    said = r"kernel\.cu:2:\d+: error: a __device__ or __constant__ variable needs a constant as its initialiser"
    with pytest.raises(CompileError, match=said):
        machine.module(source)


@pytest.mark.needs_sim
@pytest.mark.parametrize(
    "source",
    [
        "class A { friend __global__ void k(int *x); int y; }; __global__ void k(int *x) { *x = 1; }",
        (
            "__device__ int f(int i) { static __constant__ int c[] = {1, 2}; return c[i]; }\n"
            "__global__ void k(int *x) { *x = f(1); }"
        ),
        (
            "const float n = 2; __device__ float f = n * 3, *p = &f;\n"
            "struct P { int x; __device__ P() {} }; __device__ P q;\n"
            "__device__ float twice(float x) { return 2 * x; } __device__ float (*t)(float) = twice;\n"
            "__constant__ float c[2][1] = {{M_PI}, {1}}; __constant__ dim3 d = dim3(1, 2);\n"
            "__global__ void k(float *x) { *x = f + *p + q.x + t(2) + c[0][0] + d.y; }"
        ),
        (
            "__device__ constexpr int a = 2; static constexpr __constant__ float b[1] = {3};\n"
            "alignas(16) __device__ int c = 4; __device__ alignas(8) int d = 5;\n"
            "[[maybe_unused]] __device__ int e = 6;\n"
            "struct P { int x; __device__ __host__ P() {} }; __device__ P p = P(), q = P{}; __device__ P r[2] = {};\n"
            "#include <cuda_fp16.h>\n__constant__ __half2 h = {__half_raw{0x3c00}, __half_raw{0}};\n"
            "__constant__ unsigned char m[2] = {-1, 256};\n"
            "__global__ void k(float *x) { *x = a + b[0] + c + d + p.x + r[1].x + __low2float(h) + m[0]; }"
        ),
        DYNAMIC.format("float"),
        (
            f"namespace a {{ {DYNAMIC.format('float')} }} "
            "namespace b { __global__ void m() { extern __shared__ int s[]; } }"
        ),
        (
            "__global__ void k(float *x) { struct P { float x; }; extern __shared__ P s[]; *x = s[0].x; }\n"
            "template <int N> __global__ void l(float *x) { extern __shared__ float t[][N]; *x = t[0][0]; }\n"
            "template __global__ void l<2>(float *);"
        ),
    ],
)
def test_what_is_like_that_and_compilers_for_gpus_take_is_taken(machine: Any, source: str) -> None:
    machine.module(source)


def test_a_header_beside_the_program_is_to_be_named_by_its_folder(machine: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.h").write_text("#define TWO 2")
    source = '#include "mine.h"\n__global__ void f(int *x) { *x = TWO; }'
    with pytest.raises(CompileError, match=r"name the folder of mine\.h in include_dirs"):
        machine.module(source)
    machine.module(source, include_dirs=tmp_path)


def test_zig_links_without_its_cpp_library_and_with_its_own_functions_only_where_they_are_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called = list[tuple[str, ...]]()
    needs_own = False

    def run(self: host_compiler.Compiler, arguments: list[str], directory: str) -> subprocess.CompletedProcess[str]:
        called.append((*self.command, *arguments))
        return subprocess.CompletedProcess(arguments, int(needs_own and "-nostdlib" in arguments), "", "")

    monkeypatch.setattr(host_compiler.Compiler, "run", run)
    zig = host_compiler.Compiler(("python", "-m", "ziglang", "c++"), "clang", "0.17")
    assert zig.link(["a.o"], ".").returncode == 0
    assert called == [("python", "-m", "ziglang", "cc", "a.o", "-O2", "-nostdlib")]
    needs_own = True
    assert zig.link(["a.o"], ".").returncode == 0
    assert called[2:] == [("python", "-m", "ziglang", "cc", "a.o", "-O2")]
    host_compiler.Compiler(("g++",), "gcc", "12").link(["a.o"], ".")
    assert called[3:] == [("g++", "a.o")]
