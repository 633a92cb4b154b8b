"""Pages of the core's allocators in other processes, over a stand-in for CUDA's driver whose pages are files."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from . import native_core as core

PROGRAM = """
import ctypes, gc, json, os, resource, subprocess, sys

MIB = 1 << 20
library = ctypes.CDLL(os.environ["CUPLUG_CORE"])
library.cuplug_block_address.restype = ctypes.c_uint64

class Page(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint64), ("nbytes", ctypes.c_uint64), ("file", ctypes.c_int)]

def make(strategy=b"expandable"):
    upstream, allocator = ctypes.create_string_buffer(1024), ctypes.c_void_p()
    assert library.cuplug_cuda_upstream(0, upstream) == 0
    assert library.cuplug_allocator_create(strategy, None, ctypes.c_size_t(0), upstream, ctypes.byref(allocator)) == 0
    return allocator

def allocate(allocator, nbytes):
    block = ctypes.c_void_p()
    assert library.cuplug_allocate(allocator, ctypes.c_uint64(nbytes), ctypes.c_uint64(0), ctypes.c_uint64(0),
                                   ctypes.byref(block)) == 0
    return block, library.cuplug_block_address(block)

def free(allocator, block):
    assert library.cuplug_free(allocator, block, ctypes.c_uint64(0)) == 0

def share(allocator, address, most=64):
    pages, count = (Page * most)(), ctypes.c_size_t()
    answer = library.cuplug_share_pages(allocator, ctypes.c_uint64(address), pages, ctypes.c_size_t(most),
                                        ctypes.byref(count))
    return answer, [(page.address, page.nbytes, page.file) for page in pages[:min(count.value, most)]], count.value

def open_pages(pages):
    table, address = (Page * len(pages))(*map(tuple, pages)), ctypes.c_uint64()
    answer = library.cuplug_cuda_open_pages(0, table, ctypes.c_size_t(len(pages)), ctypes.byref(address))
    return answer, address.value

def close_pages(address, pages):
    nbytes = sum(page[1] for page in pages)
    assert library.cuplug_cuda_close_pages(ctypes.c_uint64(address), ctypes.c_uint64(nbytes)) == 0

def release(allocator):
    assert library.cuplug_release_cached(allocator, ctypes.byref(ctypes.c_uint64())) == 0

def files():
    return len(os.listdir("/proc/self/fd"))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a process that finds the stand-in as its driver."""
    if core.compiler() is None or not sys.platform.startswith("linux"):
        pytest.skip("there is no C++ compiler")
    folder = tmp_path_factory.mktemp("driver")
    core.build_cuda_stand_in(core.CUDA_STAND_IN, folder)
    return os.environ | {"LD_LIBRARY_PATH": str(folder), "CUPLUG_CORE": core.library()._name}


def run(environment: dict[str, str], text: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + text], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_another_process_reads_and_writes_a_block_of_several_pages(environment: dict[str, str]) -> None:
    text = """
if len(sys.argv) > 1:
    pages, inside, nbytes = json.loads(sys.argv[1])
    answer, start = open_pages(pages)
    assert answer == 0
    places = [*range(start + inside, start + inside + nbytes, MIB), start + inside + nbytes - 1]
    print(sorted({ctypes.string_at(place, 1) for place in places}))
    for place in places:
        ctypes.memset(place, 2, 1)
    close_pages(start, pages)
    sys.exit()
allocator = make()
others = [allocate(allocator, size * MIB) for size in (3, 50, 7)]
block, address = allocate(allocator, 101 * MIB)
nbytes = 101 * MIB
places = [*range(address, address + nbytes, MIB), address + nbytes - 1]
for place in places:
    ctypes.memset(place, 1, 1)
answer, pages, count = share(allocator, address)
assert answer == 0 and count > 1
assert [page[0] + page[1] for page in pages[:-1]] == [page[0] for page in pages[1:]], "a gap"
assert pages[0][0] <= address and address + nbytes <= pages[-1][0] + pages[-1][1]
assert share(allocator, address)[1] == pages, "the same files again"
assert share(allocator, address, most=1)[1:] == (pages[:1], count)
told = json.dumps([pages, address - pages[0][0], nbytes])
program = [sys.executable, "-c", open("/proc/self/cmdline").read().split("\\0")[2], told]
print(subprocess.run(program, pass_fds=[page[2] for page in pages], check=True, capture_output=True, text=True).stdout)
print(sorted({ctypes.string_at(place, 1) for place in places}))
"""
    assert run(environment, text).split("\n") == [r"[b'\x01']", "", r"[b'\x02']", ""]


def test_files_and_addresses_do_not_grow_and_go_with_the_pages(environment: dict[str, str]) -> None:
    text = """
allocator = make()
warm, _ = allocate(allocator, MIB)
before = files()
found = set()
for number in range(300):
    block, address = allocate(allocator, (1 + number % 7) * 10 * MIB)
    answer, pages, count = share(allocator, address)
    answer, start = open_pages(pages)
    assert answer == 0
    close_pages(start, pages)
    free(allocator, block)
    if number % 50 == 49:
        release(allocator)
        found.add(files())
print(found == {before}, sum("page" in line for line in open("/proc/self/maps")) < 10)
"""
    assert run(environment, text) == "True True\n"


def test_what_has_no_pages_or_is_gone_is_not_shared(environment: dict[str, str]) -> None:
    text = """
allocator, plain = make(), make(b"caching")
block, address = allocate(allocator, MIB)
print(share(plain, allocate(plain, MIB)[1])[0], share(allocator, address + 512)[0], share(allocator, address)[0])
free(allocator, block)
print(share(allocator, address)[0])
before = files()
answer, start = open_pages([(0, 2 * MIB, 0)])  # no page at all
print(answer != 0, start, files() == before)
"""
    assert run(environment, text) == "9 3 0\n3\nTrue 0 True\n"


def test_memory_of_the_host_is_not_shared_and_memory_of_the_device_beside_it_is(environment: dict[str, str]) -> None:
    text = """
class Option(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]
upstream, allocator = ctypes.create_string_buffer(1024), ctypes.c_void_p()
assert library.cuplug_cuda_upstream(0, upstream) == 0
options = (Option * 2)(Option(b"host", b"1073741824"), Option(b"memory_limit", str(4 * MIB).encode()))
assert library.cuplug_allocator_create(b"expandable", options, ctypes.c_size_t(2), upstream,
                                       ctypes.byref(allocator)) == 0
on_device, on_host = (allocate(allocator, size * MIB)[1] for size in (2, 16))
ctypes.memset(on_host, 7, 16 * MIB)
before = files()
print(share(allocator, on_device)[0], share(allocator, on_host)[0])
print(files() - before, ctypes.string_at(on_host + 9 * MIB, 1))
"""
    assert run(environment, text) == "0 9\n1 b'\\x07'\n"


def test_more_files_are_allowed_when_they_run_out(environment: dict[str, str]) -> None:
    text = """
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
allocator = make()
blocks = [allocate(allocator, 2 * MIB) for _ in range(40)]
resource.setrlimit(resource.RLIMIT_NOFILE, (files() + 5, hard))
print({share(allocator, address)[0] for _, address in blocks}, resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard)
"""
    assert run(environment, text) == "{0} True\n"


def test_what_was_shared_neither_sleeps_nor_moves(environment: dict[str, str]) -> None:
    text = """
COPY, WAIT = (ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint64] * count) for count in (3, 0))
class Copier(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("copy", COPY), ("wait", WAIT)]
copier, allocator = Copier(None, COPY(lambda *_: 0), WAIT(lambda *_: 0)), make()
library.cuplug_set_memory_tag(ctypes.c_uint64(1))
block, address = allocate(allocator, 3 * MIB)
def move():
    return library.cuplug_move(allocator, ctypes.c_uint64(1), 1, ctypes.byref(copier), ctypes.byref(ctypes.c_uint64()))
def sleep():
    return library.cuplug_sleep(allocator, ctypes.c_uint64(1), None, ctypes.byref(ctypes.c_uint64()))
before = move()
share(allocator, address)
print(before, move(), sleep())
free(allocator, block)
release(allocator)
block, address = allocate(allocator, 30 * MIB)
print(sleep(), share(allocator, address)[0])
"""
    # Out of host memory, of which none may be taken; then not supported, until the shared pages have gone.
    assert run(environment, text) == "1 9 9\n0 10\n"


@pytest.mark.parametrize(
    ("variables", "made"),
    [
        ({}, "rdma"),
        ({"CUPLUG_RDMA": "0"}, ""),
        ({"STAND_IN_FABRIC": "refused", "CUPLUG_RDMA": "1"}, "rdma"),
        ({"STAND_IN_FABRIC": "yes"}, "fabric rdma"),
    ],
)
def test_pages_are_made_for_what_the_device_has_and_the_user_wants(
    environment: dict[str, str], variables: dict[str, str], made: str
) -> None:
    text = """
allocate(make(), 30 * MIB)
driver = ctypes.CDLL("libcuda.so.1")
print(*(name for name in ("fabric", "rdma") if ctypes.c_int.in_dll(driver, "of_" + name).value > 0))
"""
    assert run(environment | variables, text) == made + "\n"


def test_a_variable_that_says_neither_yes_nor_no_is_an_error(environment: dict[str, str]) -> None:
    text = """
library.cuplug_last_error.restype = ctypes.c_char_p
print(library.cuplug_cuda_upstream(0, ctypes.create_string_buffer(1024)) != 0, library.cuplug_last_error().decode())
"""
    assert run(environment | {"CUPLUG_RDMA": "off"}, text).startswith("True the environment variable CUPLUG_RDMA is")


def test_pages_are_opened_by_fabric_handles(environment: dict[str, str]) -> None:
    text = """
allocator = make()
block, address = allocate(allocator, 3 * MIB)
ctypes.memset(address, 5, 1)
answer, pages, count = share(allocator, address)
handles = b"".join(f"/proc/{os.getpid()}/fd/{page[2]}".encode().ljust(64, b"\\0") for page in pages)
start = ctypes.c_uint64()
one = {page[1] for page in pages}.pop()
print(library.cuplug_cuda_open_fabric(0, ctypes.c_uint64(one), handles, ctypes.c_size_t(count), ctypes.byref(start)))
print(ctypes.string_at(start.value + address - pages[0][0], 1))
close_pages(start.value, pages)
"""
    assert run(environment, text) == "0\nb'\\x05'\n"
