"""Every function of the C header with null pointers and numbers at their extremes: an answer, never a crash."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cuplug.allocators.native import is_available

from . import native_core as core

CALLS = 1500 if "CUPLUG_THOROUGH" in os.environ else 150
"""Of each function."""

CALLER = r'''
"""Usage: caller.py HEADER CORE CALLS. Each call is written down before it is made."""
import ctypes, faulthandler, itertools, random, re, sys

faulthandler.enable()
header, library, calls = open(sys.argv[1]).read(), ctypes.CDLL(sys.argv[2]), int(sys.argv[3])
header = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
header = re.sub(r"^#.*$", "", header, flags=re.M)
functions = re.findall(r"^((?:const )?\w+ \*?)(cuplug_\w+)\(([^;]*?)\);", header, flags=re.M)
assert len(functions) > 55, len(functions)
chance = random.Random(7)
P, U64, OK, INVALID = ctypes.c_void_p, ctypes.c_uint64, 0, 7
NUMBERS = [0, 1, 7, 512, 1 << 20, 1 << 31, 1 << 44, (1 << 44) + 1, (1 << 62) - 1, 1 << 63]
NUMBERS += [(1 << 64) - 512, (1 << 64) - 1]
library.cuplug_allocator_create.argtypes = [P, P, ctypes.c_size_t, P, P]
library.cuplug_allocate.argtypes = [P, U64, U64, U64, P]
library.cuplug_free.argtypes = [P, P, U64]
library.cuplug_null_upstream.argtypes = [U64, U64, P]

def end(allocator):  # each takes 140 KiB
    library.cuplug_allocator_close.argtypes = library.cuplug_allocator_destroy.argtypes = [P]
    library.cuplug_allocator_close(allocator)
    library.cuplug_allocator_destroy(allocator)

def allocator(strategy):
    table, made = ctypes.create_string_buffer(512), P()
    assert library.cuplug_null_upstream(1 << 30, 512, table) == OK
    assert library.cuplug_allocator_create(strategy, None, 0, table, ctypes.byref(made)) == OK
    blocks = [P() for _ in range(3)]
    for block in blocks:
        assert library.cuplug_allocate(made, 3000, 0, 0, ctypes.byref(block)) == OK
    assert library.cuplug_free(made, blocks.pop(), 0) == OK
    return made, blocks, table

OTHERS = "cuplug_block_is_live", "cuplug_allocator_has_pages", "cuplug_allocator_is_inside"
for returned, name, parameters in functions:
    function = getattr(library, name)
    kinds = [] if parameters == "void" else [each.strip() for each in parameters.replace("\n", " ").split(",")]
    integer = U64 if "64" in returned or "size_t" in returned else ctypes.c_int
    function.restype = P if "*" in returned else None if returned.startswith("void") else integer
    for call in range(calls if kinds else 1):
        own, (block, second), table = allocator(chance.choice([b"caching", b"expandable"]))
        other, (foreign, _), _ = allocator(b"caching")
        scratch, arguments, types, is_null = ctypes.create_string_buffer(1 << 14), [], [], []
        has_arrays = chance.random() < 0.6
        for kind in kinds:
            if re.match(r"(const )?cuplug_allocator \*(\w+)?$", kind):
                value, of = chance.choice([None, own, own, own]), P
            elif re.match(r"(const )?cuplug_block \*(\w+)?$", kind):
                value, of = chance.choice([None, block, second, foreign]), P
            elif kind.startswith("const char *"):
                value, of = chance.choice([None, b"", b"caching", b"expandable", b"planned", b"direct"]), P
            elif re.search(r"_hook(,| |$)|cuplug_listener", kind) or kind.startswith("cuplug_map *"):
                value, of = None, P
            elif kind.startswith("const cuplug_upstream *"):
                value, of = chance.choice([None, scratch, table]), P
            elif "*" in kind:
                value, of = scratch if has_arrays and chance.random() < 0.9 else None, P
            elif "size_t" in kind:
                value, of = chance.choice([0, 1, 16] if has_arrays else NUMBERS), ctypes.c_size_t
            elif "int64_t" in kind:
                value, of = chance.choice(NUMBERS), U64
            else:
                value, of = chance.choice([0, 1, -1, 5, -(1 << 31), (1 << 31) - 1]), ctypes.c_int
            arguments.append(value), types.append(of), is_null.append(of is P and value is None)
        if name == "cuplug_allocator_create" and arguments[3] is table:
            table_of_its_own = ctypes.create_string_buffer(512)
            assert library.cuplug_null_upstream(1 << 30, 512, table_of_its_own) == OK
            arguments[3] = table_of_its_own
        function.argtypes = types
        print(name, arguments, file=sys.stderr, flush=True)
        answer = function(*arguments)
        if is_null and is_null[0] and "cuplug_allocator *" in kinds[0] and function.restype is ctypes.c_int:
            assert answer == (0 if name in OTHERS else INVALID), (name, answer)
        for made in own, other:
            if name != "cuplug_allocator_destroy" or arguments[0] is not made:
                end(made)
        if name == "cuplug_allocator_create" and answer == OK:
            end(P.from_buffer(scratch))
print("went through", len(functions), "functions")
'''


@pytest.mark.parametrize("with_driver", [False, True], ids=["no driver", "a stand-in for the driver"])
def test_every_function_of_the_header_answers_whatever_it_is_given(tmp_path: Path, with_driver: bool) -> None:
    library = core.library()._name
    if not Path(library).exists():
        pytest.skip("the core was built for this process alone")
    (tmp_path / "caller.py").write_text(CALLER)
    environment = dict(os.environ)
    if with_driver:
        if core.compiler() is None:
            pytest.skip("there is no C++ compiler")
        core.build_cuda_stand_in(core.CUDA_STAND_IN, tmp_path)
        environment["LD_LIBRARY_PATH"] = str(tmp_path)
    command = [sys.executable, "caller.py", str(core.NATIVE / "cuplug_allocator.h"), library, str(CALLS)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("went through ")


MADE = r"""
import ctypes, faulthandler, itertools, sys
faulthandler.enable()
library = ctypes.CDLL(sys.argv[1])
P, U64 = ctypes.c_void_p, ctypes.c_uint64
NUMBERS = [0, 1, 3, 512, 1 << 20, 1 << 44, 1 << 62, 1 << 63, (1 << 64) - 1]
PAGES = [0, 1 << 20, 2 << 20, 3 << 20, (2 << 20) + 512, 1 << 44, 1 << 63, (1 << 64) - 1]
library.cuplug_null_upstream_with_pages.argtypes = [U64, U64, U64, P]
library.cuplug_allocator_create.argtypes = [P, P, ctypes.c_size_t, P, P]
library.cuplug_allocate.argtypes = [P, U64, U64, U64, P]
library.cuplug_free.argtypes = [P, P, U64]
library.cuplug_allocator_close.argtypes = library.cuplug_allocator_destroy.argtypes = [P]
library.cuplug_release_cached.argtypes = [P, P]
for total, granularity, page in itertools.product(NUMBERS, NUMBERS, PAGES):
    for strategy in (b"caching", b"expandable"):
        print(strategy, total, granularity, page, file=sys.stderr, flush=True)
        table, made, block, number = ctypes.create_string_buffer(512), P(), P(), U64()
        if library.cuplug_null_upstream_with_pages(total, granularity, page, table):
            continue
        if library.cuplug_allocator_create(strategy, None, 0, table, ctypes.byref(made)):
            continue
        for nbytes in (1, 3 << 20, (1 << 44) + 1, (1 << 64) - 1):
            if library.cuplug_allocate(made, nbytes, 0, 0, ctypes.byref(block)) == 0:
                library.cuplug_free(made, block, 0)
        library.cuplug_release_cached(made, ctypes.byref(number))
        library.cuplug_allocator_close(made)
        library.cuplug_allocator_destroy(made)
print("went through")
"""


def test_devices_of_whatever_size_and_granularity_are_answered(tmp_path: Path) -> None:
    library = core.library()._name
    if not Path(library).exists():
        pytest.skip("the core was built for this process alone")
    done = subprocess.run([sys.executable, "-c", MADE, library], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "went through\n"


class Option(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]


@pytest.mark.skipif(not is_available(), reason="it is the native core's")
def test_a_fraction_of_the_memory_is_one_of_the_whole_device() -> None:
    from cuplug.allocators import _native

    library, mib = ctypes.CDLL(_native.__file__), 1 << 20
    table, made, block = (ctypes.c_uint64 * 64)(), ctypes.c_void_p(), ctypes.c_void_p()
    sizes = [ctypes.c_uint64(nbytes) for nbytes in (64 * mib, 512, 2 * mib)]
    assert library.cuplug_null_upstream_with_pages(*sizes, table) == 0
    reserve = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p)(table[1])
    assert reserve(table[0], 32 * mib, ctypes.byref(ctypes.c_uint64())) == 0  # somebody else's
    options = Option(b"memory_fraction", b"0.25")
    assert (
        library.cuplug_allocator_create(
            b"caching", ctypes.byref(options), ctypes.c_size_t(1), table, ctypes.byref(made)
        )
        == 0
    )
    allocate = library.cuplug_allocate
    allocate.argtypes = [ctypes.c_void_p, *[ctypes.c_uint64] * 3, ctypes.c_void_p]
    assert allocate(made, 16 * mib, 0, 0, ctypes.byref(block)) == 0
    assert allocate(made, 16 * mib, 0, 0, ctypes.byref(block)) == 1  # out of memory
    library.cuplug_allocator_close(made)
    library.cuplug_allocator_destroy(made)
