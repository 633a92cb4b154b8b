"""The libraries themselves on a GPU, each program in a process of its own: an installation lasts as long as it."""

from __future__ import annotations

import json
from importlib.util import find_spec
from textwrap import dedent

import pytest
from cuplug.interop import LIBRARIES
from cuplug.plugins.tracing.reader import read_trace

pytestmark = pytest.mark.needs_gpu


@pytest.fixture
def program(run_program):
    """Runs code that must succeed, and gives the last line of what it printed."""

    def run(code, *arguments):
        done = run_program(dedent(code), *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip().splitlines()[-1]

    return run


def test_libraries_in_turn_share_one_pool_and_no_memory_is_ever_in_two_hands(program):
    here = [name for name in LIBRARIES if find_spec(name) is not None]
    done = json.loads(program("one_pool.py", "100000", "1", *here))
    assert done["left"] == 0
    assert done["counted"] >= done["held"] > 0
    assert all(done[name] > 5000 for name in here)
    assert done["checked"] > 20_000


@pytest.mark.needs_cupy
def test_cupy_computes_in_cuplugs_memory(program):
    left = program(
        """
        import cupy, cuplug, cuplug.interop
        cuplug.interop.cupy.install("expandable")
        a = cupy.arange(1 << 20)
        b = (a * 2).sum()
        assert int(b) == (1 << 20) * ((1 << 20) - 1)
        assert cupy.get_default_memory_pool().total_bytes() == 0
        assert cuplug.cuda.memory_allocated() >= 8 << 20
        del a, b
        print(cuplug.cuda.memory_allocated())
        """
    )
    assert left == "0"


@pytest.mark.needs_cupy
def test_cupys_lack_of_memory_is_our_error_and_the_program_goes_on(program):
    total = program(
        """
        import cupy, cuplug, cuplug.interop
        cuplug.interop.cupy.install("caching")
        try:
            cupy.empty(1 << 45, cupy.uint8)
        except cuplug.OutOfMemoryError as error:
            assert "Tried to allocate" in str(error)
        else:
            raise SystemExit("no error")
        print(int(cupy.ones(1000).sum()))
        """
    )
    assert total == "1000"


@pytest.mark.needs_cupy
@pytest.mark.parametrize("allocator", ["direct", "bump", "caching"])
def test_cupy_takes_any_allocator(program, allocator):
    found = program(
        f"""
        import cupy, cuplug, cuplug.interop
        cuplug.interop.cupy.install({allocator!r})
        print(int(cupy.ones(100000).sum()), cuplug.cuda.max_memory_allocated() >= 800000)
        """
    )
    assert found == "100000 True"


@pytest.mark.needs_cupy
def test_cupy_that_has_taken_memory_is_too_late(run_program):
    done = run_program("import cupy, cuplug.interop; a = cupy.ones(10); cuplug.interop.cupy.install('caching')")
    assert "CuPy has taken 512 bytes of the device already" in done.stderr


@pytest.mark.needs_cupy
def test_installing_twice_changes_nothing_and_another_allocator_is_an_error(run_program):
    done = run_program(
        "import cupy, cuplug.interop; install = cuplug.interop.install; install('cupy', allocator='expandable'); "
        "print(int(cupy.ones(10).sum())); install('cupy'); install('cupy', allocator='expandable'); "
        "print(int(cupy.ones(20).sum()), flush=True); install('cupy', allocator='caching')"
    )
    assert done.stdout == "10\n20\n"
    assert "CuPy allocates from cuplug already, with the allocator 'expandable', which cannot become" in done.stderr


@pytest.mark.needs_cupy
@pytest.mark.needs_numba
def test_nothing_is_installed_where_one_library_cannot_be_served(program):
    unchanged = program(
        """
        import cupy, cuplug, cuplug.interop, numpy as np
        from numba import cuda
        cuda.to_device(np.ones(8))
        before = cupy.cuda.get_allocator()
        try:
            cuplug.interop.install("cupy", "numba")
        except cuplug.CuplugError as error:
            assert "Numba has a context" in str(error), error
        else:
            raise SystemExit("no error")
        print(cupy.cuda.get_allocator() == before)
        """
    )
    assert unchanged == "True"


DOUBLE = """
import numpy as np
from numba import cuda

@cuda.jit
def double(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] *= 2

a = cuda.to_device(np.arange(100000))
double[400, 256](a)
assert (a.copy_to_host() == np.arange(100000) * 2).all()
"""


@pytest.mark.needs_numba
def test_numbas_kernels_work_on_cuplugs_memory(run_program):
    alone = run_program(DOUBLE)
    if alone.returncode:
        pytest.skip(f"this Numba compiles no kernel: {alone.stderr.strip().splitlines()[-1]}")
    done = run_program(
        "import cuplug.interop; cuplug.interop.numba.install('expandable')" + DOUBLE + "del a; print('done')"
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.needs_numba
def test_numba_holds_cuplugs_memory(program):
    left = program(
        """
        import gc, cuplug, cuplug.interop, numpy as np
        cuplug.interop.numba.install("expandable")
        from numba import cuda

        a = cuda.to_device(np.arange(100000))
        assert (a.copy_to_host() == np.arange(100000)).all()
        assert cuplug.cuda.memory_allocated() >= 800000
        stream = cuplug.cuda.Stream()
        cuplug.interop.numba.record_stream(a[5:], stream)
        assert cuda.current_context().get_memory_info().total > 0
        del a
        gc.collect()
        cuda.synchronize()
        cuplug.cuda.empty_cache()
        print(cuplug.cuda.memory_allocated(), cuplug.cuda.memory_reserved())
        """
    )
    assert left == "0 0"


@pytest.mark.needs_pycuda
def test_pycuda_computes_in_cuplugs_memory(program):
    left = program(
        """
        import gc, cuplug, cuplug.interop, numpy as np
        cuplug.interop.pycuda.install("expandable")
        import pycuda.autoprimaryctx
        import pycuda.driver as drv
        from pycuda import gpuarray, tools

        a = gpuarray.to_gpu(np.arange(1000, dtype=np.float32))
        b = 2 * a + a[:]
        assert (b.get() == 3 * np.arange(1000)).all()
        assert cuplug.cuda.memory_allocated() >= 8000
        pool = tools.DeviceMemoryPool()
        c = gpuarray.zeros(1000, np.float32, allocator=pool.allocate)
        assert (c.get() == 0).all()
        assert (pool.active_blocks, pool.active_bytes) == (1, 4000)
        c.gpudata.free()
        assert pool.active_blocks == 0
        assert pool.managed_bytes >= 2 << 20
        del a, b, c
        gc.collect()
        cuplug.cuda.synchronize()
        cuplug.cuda.empty_cache()
        print(cuplug.cuda.memory_allocated(), cuplug.cuda.memory_reserved())
        """
    )
    assert left == "0 0"


@pytest.mark.needs_pycuda
def test_pycudas_kernels_take_cuplugs_memory_in_every_way(program):
    found = program(
        """
        import cuplug.interop, numpy as np
        cuplug.interop.pycuda.install("caching")
        import pycuda.autoprimaryctx
        import pycuda.driver as drv
        from pycuda.compiler import SourceModule

        source = "__global__ void f(float *a, float *b) { b[threadIdx.x] = a[threadIdx.x] + 1; }"
        f = SourceModule(source).get_function("f")
        ones, out = np.ones(32, np.float32), np.empty(32, np.float32)
        f(drv.In(ones), drv.Out(out), block=(32, 1, 1))
        assert (out == 2).all()
        p, q = drv.mem_alloc(128), drv.mem_alloc(128)
        drv.memcpy_htod(p, ones)
        f.prepare("PP")
        f.prepared_call((1, 1), (32, 1, 1), p, q)
        f(q, p, block=(32, 1, 1))
        drv.memcpy_dtoh(out, p)
        print(set(out.tolist()))
        """
    )
    assert found == "{3.0}"


@pytest.mark.needs_pycuda
def test_a_context_of_pycudas_own_is_refused(run_program):
    done = run_program(
        "import cuplug.interop; cuplug.interop.pycuda.install('caching')\n"
        "import pycuda.autoinit, pycuda.driver; pycuda.driver.mem_alloc(10)"
    )
    assert "import pycuda.autoprimaryctx in place of pycuda.autoinit" in done.stderr


@pytest.mark.needs_rmm
def test_rmm_and_what_lies_over_it_take_cuplugs_memory(program):
    left = program(
        """
        import gc, cuplug, cuplug.interop, rmm, numpy as np
        cuplug.interop.rmm.install("expandable")
        data = np.arange(200, dtype=np.uint8)
        buffer = rmm.DeviceBuffer.to_device(data)
        assert bytes(buffer.tobytes()) == data.tobytes()
        assert cuplug.cuda.memory_allocated() >= 200
        pool = rmm.mr.PoolMemoryResource(cuplug.interop.rmm.memory_resource(), 1 << 20, 1 << 24)
        address = pool.allocate(5000)
        assert cuplug.cuda.memory_allocated() > 1 << 20
        pool.deallocate(address, 5000)
        del pool, buffer
        gc.collect()
        print(cuplug.cuda.memory_allocated())
        """
    )
    assert left == "0"


@pytest.mark.needs_rmm
def test_cuplug_takes_memory_from_rmm(program):
    same = program(
        """
        import cuplug, cuplug.interop, rmm, numpy as np
        resource = rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaAsyncMemoryResource())
        cuplug.init(allocator=cuplug.interop.rmm.over(resource))
        buffer, out = cuplug.cuda.alloc(1000), np.zeros(1000, np.uint8)
        cuplug.cuda.memset(buffer, 7)
        cuplug.cuda.memcpy(out, buffer)
        cuplug.cuda.synchronize()
        assert (out == 7).all()
        print(resource.allocation_counts.current_bytes == cuplug.cuda.memory_reserved() == 2 << 20)
        """
    )
    assert same == "True"


@pytest.mark.needs_cupy
@pytest.mark.needs_numba
def test_a_trace_tells_the_libraries_apart(program, tmp_path):
    path = tmp_path / "t.cuplug"
    program(
        f"""
        import cuplug, cuplug.interop
        cuplug.init(allocator="expandable", trace={str(path)!r})
        cuplug.interop.install("cupy", "numba")
        import cupy, numba.cuda, numpy as np
        a = cupy.empty(1000, cupy.uint8)
        b = numba.cuda.device_array(2000, np.uint8)
        c = cuplug.cuda.alloc(3000)
        cuplug.shutdown()
        print("done")
        """
    )
    trace = read_trace(path)
    asked = {int(event["requested"]): trace.library(event["context"]) for event in trace.events if event["kind"] == 1}
    assert (asked[1000], asked[2000], asked[3000]) == ("cupy", "numba", "cuplug")


@pytest.mark.needs_torch
@pytest.mark.needs_pycuda
@pytest.mark.needs_rmm
def test_record_puts_cuplug_under_a_program_that_does_not_know_it(program, tmp_path):
    script, path = tmp_path / "train.py", tmp_path / "t.cuplug"
    script.write_text(
        dedent(
            """
            import pycuda.autoprimaryctx, rmm, torch, numpy as np
            from pycuda import gpuarray
            a = torch.zeros(1000, dtype=torch.uint8, device="cuda")
            b = rmm.DeviceBuffer(size=2000)
            c = gpuarray.zeros(3000, np.uint8)
            """
        )
    )
    words = ["record", "--torch", "--rmm", "--pycuda", "-a", "expandable", "-o", str(path), str(script)]
    program(f"import sys; sys.argv[1:] = {words!r}\nprint('recording')\nfrom cuplug.tools.trace import main; main()")
    trace = read_trace(path)
    asked = {int(event["requested"]): trace.library(event["context"]) for event in trace.events if event["kind"] == 1}
    assert (asked[1000], asked[2000], asked[3000]) == ("torch", "rmm", "pycuda")


@pytest.mark.needs_torch
def test_run_changes_the_allocator_under_a_program_that_does_not_know_it(program, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, torch\nx = torch.ones(1000, device='cuda')\n"
        "print(float(x.sum()), torch.cuda.memory.get_allocator_backend(), sys.argv[1:])"
    )
    words = ["run", "--torch", "-a", "caching", str(script), "--lr", "1"]
    found = program(f"import sys; sys.argv[1:] = {words!r}\nfrom cuplug.tools.trace import main; main()")
    assert found.startswith("1000.0 ")
    assert found.endswith("['--lr', '1']")
