"""What programs of ``torch.cuda`` call besides devices, streams, events and sums of memory."""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.plugins.tracing.format import EventKind
from cuplug.plugins.tracing.reader import read_trace

pytestmark = pytest.mark.one_schedule


@pytest.fixture
def cuda(make_driver: Any) -> Iterator[Any]:
    """``cuplug.cuda`` on one device."""
    cuplug.init(driver=make_driver())
    yield cuplug.cuda
    cuplug.shutdown()


def test_a_stream_is_entered_and_left(cuda: Any) -> None:
    s, before = cuda.Stream(), cuda.current_stream()
    with s as entered:
        assert entered is s
        assert cuda.current_stream() == s
        with s:
            assert cuda.current_stream() == s
        assert cuda.current_stream() == s
    assert cuda.current_stream() == before


def test_streams_events_and_tensors_name_devices_alike(cuda: Any) -> None:
    x, s = cuplug.ones(2, device="cuda"), cuda.Stream()
    event = s.record_event()
    assert x.device == s.device == event.device == cuplug.device("cuda", 0)
    assert s.stream_id == s.cuda_stream
    least, greatest = cuda.Stream.priority_range()
    assert greatest <= least


def test_a_device_of_a_tensor_becomes_current(cuda: Any) -> None:
    with cuda.device_of(cuplug.ones(1, device="cuda")):
        assert cuda.current_device() == 0
    with cuda.device_of(cuplug.ones(1)):
        assert cuda.current_device() == 0
    assert cuda.device(0).idx == 0


def test_memory_is_counted_in_nested_dictionaries(cuda: Any) -> None:
    address = cuda.caching_allocator_alloc(1000)
    nested = cuda.memory.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == cuda.memory_allocated() >= 1000
    assert nested["num_ooms"] == 0
    cuda.caching_allocator_delete(address)
    assert cuda.memory_allocated() == 0
    with pytest.raises(cuplug.CuplugError, match="gave out nothing"):
        cuda.caching_allocator_delete(address)
    buffer = cuda.alloc_pinned(100)
    assert cuda.host_memory_stats()["allocated_bytes.current"] >= buffer.array.nbytes
    assert cuda.memory._snapshot()["segments"] == cuda.memory_snapshot()
    with pytest.raises(cuplug.CuplugError, match="CUPLUG_TRACE"):
        cuda.memory._record_memory_history()


def test_codes_of_the_runtime_library_become_errors(cuda: Any) -> None:
    cuda.check_error(cuda.cudart().cudaProfilerStart())
    with pytest.raises(cuda.CudaError, match="out of memory"):
        cuda.check_error(2)
    with pytest.raises(RuntimeError, match="CUDA_ERROR_INVALID_VALUE"):
        cuda.check_error(1)


def test_a_context_names_its_device_too(cuda: Any) -> None:
    held = cuda.caching_allocator_alloc(1000, cuda.device(0))
    assert cuda.memory_allocated(cuda.device(0)) == 1024
    cuda.caching_allocator_delete(held)


def test_emptying_the_cache_counts_among_what_waits_for_all_streams(cuda: Any) -> None:
    cuda.alloc(100)
    before = cuda.memory_stats()["num_sync_all_streams"]
    cuda.empty_cache()
    assert cuda.memory_stats()["num_sync_all_streams"] == before + 1


def test_the_fraction_of_the_memory_is_what_was_set(cuda: Any) -> None:
    assert cuda.get_per_process_memory_fraction() == 1.0
    cuda.set_per_process_memory_fraction(0.5)
    assert cuda.get_per_process_memory_fraction() == pytest.approx(0.5)
    assert cuda.get_allocator_backend() == "caching"
    assert issubclass(cuda.OutOfMemoryError, RuntimeError)


def test_a_generator_goes_back_to_where_its_state_was_taken(cuda: Any) -> None:
    for get, set_, device in (
        (cuda.get_rng_state, cuda.set_rng_state, "cuda"),
        (cuplug.get_rng_state, cuplug.set_rng_state, "cpu"),
    ):
        state = get()
        first = cuplug.rand(5, device=device)
        assert not cuplug.rand(5, device=device).equal(first)
        set_(state)
        assert cuplug.rand(5, device=device).equal(first)
    states = cuda.get_rng_state_all()
    cuda.set_rng_state_all(states)
    assert states[0].dtype is cuplug.uint8
    with pytest.raises(ValueError, match="16 bytes"):
        cuda.set_rng_state(cuplug.zeros(3))


def test_indices_and_first_values_of_the_cpu_stay_there_whatever_the_default_device_is(cuda: Any) -> None:
    del cuda
    x = cuplug.arange(9.0).reshape(3, 3)
    cuplug.set_default_device("cuda")
    try:
        assert x[np.array([0, 2])].is_cpu
        assert x[:, [0, 2, 2]].shape == (3, 3)
        x[0] = [7, 8, 9]
        made = cuplug.nn.init.orthogonal_(x.clone())
        assert made.is_cpu
        assert cuplug.nn.init.sparse_(x.clone(), 0.5).is_cpu
    finally:
        cuplug.set_default_device(None)
    assert x[0].tolist() == [7, 8, 9]
    assert cuplug.allclose(made @ made.T, cuplug.eye(3), atol=1e-5)


def test_what_names_no_device_goes_to_the_default_one(cuda: Any) -> None:
    assert cuda.is_initialized()
    cuda.init()
    cuplug.set_default_device("cuda")
    try:
        assert cuplug.ones(1).is_cuda
        assert cuplug.get_default_device() == cuplug.device("cuda")
        with cuplug.device("cpu"):
            assert cuplug.ones(1).is_cpu
    finally:
        cuplug.set_default_device(None)
    assert cuplug.ones(1).is_cpu
    assert cuplug.accelerator.current_accelerator() == cuplug.device("cuda")
    assert cuplug.accelerator.current_device_index() == 0


def test_memory_is_counted_under_names_that_do_not_say_cuda(cuda: Any) -> None:
    accelerator = cuplug.accelerator
    before = accelerator.memory_stats()["active_bytes.all.current"]
    held = cuda.alloc(1000)
    assert accelerator.memory_allocated(0) == accelerator.max_memory_allocated() == cuda.memory_allocated()
    assert accelerator.memory_stats()["active_bytes.all.current"] == before + 1024
    assert accelerator.memory_reserved() == accelerator.max_memory_reserved() > 0
    assert accelerator.get_memory_info() == cuda.mem_get_info()
    del held
    accelerator.empty_cache()
    accelerator.reset_accumulated_memory_stats()
    accelerator.reset_peak_memory_stats()
    assert accelerator.max_memory_reserved() == accelerator.memory_reserved() == 0


def test_what_cuplug_will_not_have_says_so() -> None:
    for name, said in {
        "complex64": "complex",
        "float8_e5m2": "8-bit",
        "ops": "SourceModule",
        "digamma": "scipy.special",
        "quantile": "NumPy",
        "conv2d": "nn.functional",
        "logspace": "few programs",
    }.items():
        with pytest.raises(AttributeError, match=f"{name} is not part of cuplug.*{said}"):
            getattr(cuplug, name)
    with pytest.raises(AttributeError, match="MemPool is not part of cuplug: PyTorch's switches"):
        cuplug.cuda.MemPool  # noqa: B018
    x = cuplug.ones(1)
    with pytest.raises(AttributeError, match="svd is not part of cuplug: decompositions"):
        x.svd()
    assert not hasattr(x, "svd")
    assert "svd" not in dir(x)
    assert not hasattr(x, "misspelt")


def test_functions_of_special_that_are_here_are_the_ones_at_the_top() -> None:
    special = importlib.import_module("cuplug.special")
    assert special.expm1 is cuplug.expm1
    for name in ("lgamma", "Tensor"):
        with pytest.raises(AttributeError, match=rf"special.{name} is not part of cuplug.*scipy.special"):
            getattr(special, name)


def test_attributes_of_tensors_are_looked_up_the_quick_way() -> None:
    assert not hasattr(cuplug.Tensor, "__getattr__")  # CPython specialises no look-up in a class that has it


def test_memory_that_the_cpu_does_not_have_is_an_error_that_says_how_much_was_asked() -> None:
    with pytest.raises(RuntimeError, match="140,737,488,355,328 bytes") as found:
        cuplug.empty(2**45)
    assert isinstance(found.value, MemoryError)
    with pytest.raises(RuntimeError, match="bytes"):
        cuplug.empty(2**45)[::2].contiguous()


def test_a_devices_uuid_has_the_form_of_all_others(cuda: Any) -> None:
    assert str(uuid.UUID(cuda.get_device_properties(0).uuid)) == cuda.get_device_properties(0).uuid


def test_ranges_nest_and_are_markers_of_the_trace(make_driver: Any, tmp_path: Path) -> None:
    path = tmp_path / "ranges.cuplug"
    cuplug.init(driver=make_driver(), trace=path)
    nvtx = cuplug.cuda.nvtx
    assert nvtx.range_pop() == -1
    with nvtx.range("step {}", 3):
        assert nvtx.range_push("forward") == 1
        assert nvtx.range_pop() == 1
    nvtx.mark("done")
    nvtx.range_end(nvtx.range_start("anywhere"))

    @nvtx.range("decorated")
    def inside() -> int:
        return int(nvtx.range_push("deeper")) + int(nvtx.range_pop())

    assert inside() == 2
    with pytest.raises(TypeError, match="text"):
        nvtx.mark(3)
    cuplug.shutdown()
    trace = read_trace(path)
    marks = trace.events[trace.events["kind"] == EventKind.MARKER]
    names = [trace.name(each) for each in marks["requested"].tolist()]
    assert names[:6] == ["step 3", "forward", "done", "anywhere", "decorated", "deeper"]


@pytest.mark.needs_device_alone
def test_a_profiler_is_told_to_look(cuda: Any) -> None:
    with cuda.profiler.profile():
        pass
    runtime = cuda.cudart()
    assert runtime.cudaProfilerStart() == runtime.cudaProfilerStop() == 0
    assert runtime.cudaMemGetInfo(0) == cuda.mem_get_info(0)
    assert runtime.cudaGetErrorString(0) == "no error"
    assert runtime.cudaGetErrorString(2) == "CUDA_ERROR_OUT_OF_MEMORY"
    assert runtime.cudaGetErrorString(700) == "CUDA_ERROR_ILLEGAL_ADDRESS"
    with pytest.raises(AttributeError, match=r"cuda\.bindings\.runtime"):
        _ = runtime.cudaHostRegister
    assert cuda.device_memory_used() == cuda.mem_get_info()[1] - cuda.mem_get_info()[0]


@pytest.mark.needs_sim
def test_a_simulated_device_has_no_sensors(cuda: Any) -> None:
    for asked in (cuda.utilization, cuda.memory_usage, cuda.temperature, cuda.power_draw, cuda.clock_rate):
        with pytest.raises(cuplug.CuplugError, match="simulated"):
            asked()
