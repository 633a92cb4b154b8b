"""Convolutions and attention by cuDNN: what the library is asked for, what it answers, what is done where it refuses.

On the simulator a stand-in takes the library's place; ``--driver cuda`` runs the library itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.backends import cudnn
from cuplug.nn import functional as F
from cuplug.nn.attention import SDPBackend, sdpa_kernel
from cuplug.runtime.tensor.backends import cuda_place
from cuplug.runtime.tensor.backends.libraries.cudnn import Dnn, DnnError, typed
from cuplug.runtime.tensor.backends.libraries.cudnn_kernels import library_kernel
from cuplug.runtime.tensor.backends.on_host.sim_place import SimPlace
from cuplug.runtime.tensor.places.tables_with_gradients.library_table import Choosing, Convolving

from .stand_in_cudnn import Engine, StandInCudnn


class _PlaceWithCudnn(SimPlace):
    """A simulated device that has the stand-in."""

    def __init__(self, runtime: Any, ordinal: int) -> None:
        super().__init__(runtime, ordinal)
        self.stand_in = StandInCudnn(self.submit)
        self.dnn = Dnn(typed(self.stand_in), self)

    def library(self, work: Any, layouts: Any) -> Any:
        return library_kernel(self.dnn, work, layouts)


@pytest.fixture
def library(request: pytest.FixtureRequest) -> Iterator[StandInCudnn]:
    """The stand-in of device 0 of a simulator."""
    if request.config.getoption("--driver") != "sim":
        pytest.skip("a stand-in on the simulator: run with --driver sim")
    runtime = cuplug.init(driver="sim:devices=1,schedule=random,seed=3")
    place = runtime.device(0).objects["tensor.place"] = _PlaceWithCudnn(runtime, 0)
    with cudnn.flags(enabled=True):  # whatever the tests before have switched
        yield place.stand_in
    cuplug.shutdown()
    assert not place.stand_in.handles


@pytest.fixture(scope="module")
def gpu(request: pytest.FixtureRequest) -> Iterator[None]:
    """A GPU with cuDNN."""
    if not request.config.getoption("--driver").startswith("cuda"):
        pytest.skip("needs a GPU: run with --driver cuda")
    if not cudnn.is_available():
        pytest.skip("cuDNN is not installed")
    cuplug.init(driver="cuda")
    yield
    cuplug.shutdown()


CASES = {
    "3 x 3": ((2, 4, 9, 8), (6, 4, 3, 3), {"padding": 1}),
    "stride": ((2, 3, 11, 10), (5, 3, 3, 2), {"stride": (2, 3), "padding": (1, 0)}),
    "1 x 1": ((3, 8, 5, 5), (4, 8, 1, 1), {}),
    "1 x 1, stride": ((2, 4, 7, 6), (8, 4, 1, 1), {"stride": 2}),
    "groups": ((2, 8, 6, 6), (12, 2, 3, 3), {"groups": 4, "padding": 1}),
    "each channel": ((2, 8, 6, 6), (8, 1, 3, 3), {"groups": 8}),
    "dilation": ((1, 2, 12, 12), (3, 2, 3, 3), {"dilation": (2, 3), "padding": 2}),
}
TYPES = {"float32": 1e-5, "float64": 1e-12, "float16": 1e-2, "bfloat16": 5e-2}


def _numbers(shape: Sequence[int], seed: int, kind: str, device: str) -> Any:
    made = cuplug.tensor(np.random.default_rng(seed).standard_normal(shape))
    return made.to(getattr(cuplug, kind)).to(device).requires_grad_()


def _trained(
    function: Callable[..., Any], shapes: Sequence[Sequence[int]], kind: str, device: str, **settings: Any
) -> list[Any]:
    """A result, and the gradients of images and filters, as arrays of float64."""
    images, filters = (_numbers(shape, seed, kind, device) for seed, shape in enumerate(shapes))
    made = function(images, filters, **settings)
    given = _numbers(made.shape, 7, kind, device).detach()
    made.backward(given)
    return [each.detach().double().cpu().numpy() for each in (made, images.grad, filters.grad)]


def _agree(found: Sequence[Any], wanted: Sequence[Any], tolerance: float) -> None:
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * abs(b).max())


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("case", CASES)
def test_a_convolution_and_its_gradients_are_the_librarys(library: StandInCudnn, case: str, kind: str) -> None:
    *shapes, settings = CASES[case]
    found = _trained(F.conv2d, shapes, kind, "cuda", **settings)
    assert [part for part, _ in library.executed] == [10, 12, 11]
    stride, padding = (settings.get(name, one) for name, one in (("stride", 1), ("padding", 0)))
    for _, told in library.executed:
        assert told["stride"] == list(stride if isinstance(stride, tuple) else (stride,) * 2)
        assert told["padding"] == list(padding if isinstance(padding, tuple) else (padding,) * 2)
        assert told["dilation"] == list(settings.get("dilation", (1, 1)))
    _agree(found, _trained(F.conv2d, shapes, kind, "cpu", **settings), TYPES[kind])


@pytest.mark.parametrize("settings", [{}, {"stride": 2, "padding": 1, "output_padding": 1}, {"groups": 2}])
def test_a_transposed_convolution_is_a_gradient_of_the_librarys(library: StandInCudnn, settings: Any) -> None:
    shapes = (2, 4, 5, 6), (4, 3, 3, 3)
    found = _trained(F.conv_transpose2d, shapes, "float32", "cuda", **settings)
    assert [part for part, _ in library.executed] == [12, 10, 11]
    _agree(found, _trained(F.conv_transpose2d, shapes, "float32", "cpu", **settings), 1e-5)


def test_what_does_not_lie_side_by_side_is_copied_for_the_library(library: StandInCudnn) -> None:
    images = _numbers((2, 9, 8, 4), 0, "float32", "cuda").detach().permute(0, 3, 1, 2)
    filters = _numbers((6 * 4 * 9 + 1,), 1, "float32", "cuda").detach()[1:].view(6, 4, 3, 3)  # no multiple of 16 bytes
    found = F.conv2d(images, filters)
    assert len(library.executed) == 1
    _agree([found.cpu().numpy()], [F.conv2d(images.cpu(), filters.cpu()).numpy()], 1e-5)


def test_the_library_works_on_the_current_stream_with_memory_of_the_allocator(library: StandInCudnn) -> None:
    (engine,) = library.engines
    engine.workspace = 3 << 20
    images, filters = (_numbers(shape, 0, "float32", "cuda").detach() for shape in ((1, 2, 5, 5), (3, 2, 3, 3)))
    before = cuplug.cuda.memory_allocated()
    F.conv2d(images, filters)
    assert cuplug.cuda.max_memory_allocated() >= before + engine.workspace
    assert cuplug.cuda.memory_allocated() < before + engine.workspace
    stream = cuplug.cuda.Stream()
    with cuplug.cuda.stream(stream):
        F.conv2d(images, filters)
    F.conv2d(images, filters)
    assert library.streams == [0, stream.cuda_stream, 0]
    held = len(library.made)
    F.conv2d(images, filters)
    assert len(library.made) == held
    assert engine.runs == 4


def test_an_algorithm_that_wants_much_memory_is_the_last_that_is_taken(library: StandInCudnn) -> None:
    greedy, modest = Engine(workspace=2 << 30), Engine()
    library.engines = [Engine(refuses=True), greedy, modest]
    shapes = (1, 2, 5, 5), (3, 2, 3, 3)
    _trained(F.conv2d, shapes, "float32", "cuda")
    assert (greedy.runs, modest.runs) == (0, 3)
    library.engines, library.fallback = [greedy], [modest]
    _trained(F.conv2d, shapes, "float64", "cuda")
    assert (greedy.runs, modest.runs) == (0, 6)


def test_what_the_library_refuses_is_told_and_done_by_our_own_kernels(library: StandInCudnn) -> None:
    library.engines = [Engine(refuses=True)]
    images, filters = (_numbers(shape, 0, "float32", "cuda").detach() for shape in ((1, 2, 5, 5), (3, 2, 3, 3)))
    with pytest.warns(RuntimeWarning) as told:
        found = F.conv2d(images, filters)
    (text,) = [str(each.message) for each in told]
    assert "refused a convolution (forward of float32[1, 3, 3, 3], float32[1, 2, 5, 5], float32[3, 2, 3, 3]" in text
    assert "no engine does this" in text
    _agree([found.cpu().numpy()], [F.conv2d(images.cpu(), filters.cpu()).numpy()], 1e-5)
    assert not library.executed
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        F.conv2d(images, filters)  # told once


def test_a_gpu_without_the_library_says_so_once(library: StandInCudnn, monkeypatch: pytest.MonkeyPatch) -> None:
    del library
    place = cuda_place.CudaPlace(cuplug.default_runtime(), 0)
    monkeypatch.setattr(cuda_place, "cudnn", lambda: None)
    monkeypatch.setattr(place, "driver", SimpleNamespace(simulator=None))
    work = Convolving("forward", (1, 1), (0, 0), (1, 1), Choosing())
    with pytest.warns(RuntimeWarning, match="cuDNN is not installed .pip install nvidia-cudnn-cu13.: convolutions"):
        assert place.library(work, []) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert place.library(work, []) is None


def test_a_failure_of_the_library_is_one_clear_error(library: StandInCudnn) -> None:
    images, filters = (_numbers(shape, 0, "float32", "cuda").detach() for shape in ((1, 2, 5, 5), (3, 2, 3, 3)))
    F.conv2d(images, filters)
    library.engines[0].workspace = 64  # which the plan was not told
    with pytest.raises(DnnError, match=r"cudnnBackendExecute failed on cuda:0: CUDNN_STATUS_2000 \(this engine wants"):
        F.conv2d(images, filters)


def test_benchmark_takes_an_algorithm_by_the_clock_on_first_use(library: StandInCudnn) -> None:
    library.engines = [Engine(), Engine(refuses=True), Engine(), Engine()]
    images, filters = (_numbers(shape, 0, "float32", "cuda").detach() for shape in ((1, 2, 5, 5), (3, 2, 3, 3)))
    with cudnn.flags(enabled=True, benchmark=True):
        found = F.conv2d(images, filters)
        timed = [each.runs for each in library.engines]
        F.conv2d(images, filters)
    assert sorted(timed) == [0, 4, 4, 5]
    assert timed[1] == 0
    assert sorted(b.runs - a for a, b in zip(timed, library.engines, strict=True)) == [0, 0, 0, 1]
    _agree([found.cpu().numpy()], [F.conv2d(images.cpu(), filters.cpu()).numpy()], 1e-5)


def test_the_switches_say_which_algorithms_are_allowed(library: StandInCudnn) -> None:
    tensor_cores, down_converts, not_deterministic = 0, 1, 4
    rounding, unsteady, exact = Engine((tensor_cores,)), Engine((not_deterministic,)), Engine()
    library.engines = [Engine((down_converts,)), rounding, unsteady, exact]
    images, filters = (_numbers(shape, 0, "float32", "cuda").detach() for shape in ((1, 2, 5, 5), (3, 2, 3, 3)))

    def runs() -> list[int]:
        before = [each.runs for each in library.engines]
        F.conv2d(images, filters)
        return [b.runs - a for a, b in zip(before, library.engines, strict=True)]

    assert runs() == [0, 1, 0, 0]
    with cudnn.flags(enabled=True, allow_tf32=False):
        assert runs() == [0, 0, 1, 0]
    with cudnn.flags(enabled=True, allow_tf32=False, deterministic=True):
        assert runs() == [0, 0, 0, 1]
    try:
        cuplug.use_deterministic_algorithms(True)
        with cudnn.flags(enabled=True, allow_tf32=False):
            assert runs() == [0, 0, 0, 1]
    finally:
        cuplug.use_deterministic_algorithms(False)
    with cudnn.flags(enabled=False):
        assert runs() == [0, 0, 0, 0]


def test_gradients_of_gradients_are_made_of_single_operations(library: StandInCudnn) -> None:
    found = []
    for device in ("cuda", "cpu"):
        images, filters = (_numbers(shape, 0, "float64", device) for shape in ((1, 2, 5, 5), (3, 2, 3, 3)))
        (first,) = cuplug.autograd.grad((F.conv2d(images, filters) ** 2).sum(), images, create_graph=True)
        (first**2).sum().backward()
        found.append([each.grad.cpu().numpy() for each in (images, filters)])
    # The gradients to be differentiated were not the library's, which knows no gradients of its own.
    assert [part for part, _ in library.executed] == [10, 12, 11]
    _agree(*found, 1e-10)


def test_each_thread_has_a_handle_of_its_own(library: StandInCudnn) -> None:
    import threading

    images, filters = (_numbers(shape, 0, "float32", "cuda").detach() for shape in ((1, 2, 5, 5), (3, 2, 3, 3)))
    F.conv2d(images, filters)
    thread = threading.Thread(target=F.conv2d, args=(images, filters))
    thread.start()
    thread.join()
    assert len(library.handles) == 2
    assert library.engines[0].runs == 2


ATTENTIONS: dict[str, tuple[Sequence[int], dict[str, Any]]] = {
    "plain": ((2, 3, 5, 7, 16), {}),
    "causal": ((1, 2, 6, 6, 8), {"is_causal": True}),
    "causal, fewer keys": ((1, 2, 6, 4, 8), {"is_causal": True}),
    "scaled": ((2, 1, 4, 4, 8), {"scale": 0.7}),
}


def _attended(sizes: Sequence[int], kind: str, device: str, **settings: Any) -> list[Any]:
    """A result and three gradients. Queries, keys and values are parts of one tensor, heads between them."""
    n, heads, queries, keys, elements = sizes
    together = _numbers((n, max(queries, keys), 3, heads, elements), 0, kind, device).detach().requires_grad_()
    query, key, value = (
        together[:, :length, part].transpose(1, 2) for part, length in enumerate((queries, keys, keys))
    )
    made = F.scaled_dot_product_attention(query, key, value, **settings)
    made.backward(_numbers(made.shape, 7, kind, device).detach())
    return [each.detach().double().cpu().numpy() for each in (made, together.grad)]


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("case", ATTENTIONS)
def test_attention_and_its_gradients_are_the_librarys(library: StandInCudnn, case: str, kind: str) -> None:
    sizes, settings = ATTENTIONS[case]
    found = _attended(sizes, kind, "cuda", **settings)
    masked = 4 if "is_causal" in settings else 0
    assert [told["operations"] for _, told in library.executed] == [10 + masked, 18 + masked]
    _agree(found, _attended(sizes, "float32", "cpu", **settings), {"float16": 5e-3, "bfloat16": 4e-2}[kind])


def test_attention_that_the_library_is_not_asked_for(library: StandInCudnn) -> None:
    x = _numbers((1, 2, 4, 8), 0, "float16", "cuda").detach()
    mask = cuplug.ones(4, 4, dtype=cuplug.bool, device="cuda")
    F.scaled_dot_product_attention(x, x, x, mask)
    F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
    F.scaled_dot_product_attention(x.float(), x.float(), x.float())
    F.scaled_dot_product_attention(x[..., :6], x[..., :6], x[..., :6])
    with cudnn.flags(enabled=True, deterministic=True):
        F.scaled_dot_product_attention(x, x, x)
    with sdpa_kernel(SDPBackend.MATH):
        F.scaled_dot_product_attention(x, x, x)
    assert not library.executed
    F.scaled_dot_product_attention(x, x, x)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        F.scaled_dot_product_attention(x, x, x)
    assert len(library.executed) == 2


def test_attention_keeps_the_order_of_heads_in_memory(library: StandInCudnn) -> None:
    x = _numbers((2, 5, 3, 8), 0, "float16", "cuda").detach().transpose(1, 2)
    assert F.scaled_dot_product_attention(x, x, x).stride() == x.stride()
    assert len(library.executed) == 1


def test_gradients_of_gradients_of_attention_are_made_of_single_operations(library: StandInCudnn) -> None:
    x = _numbers((1, 1, 4, 8), 0, "float16", "cuda")
    (first,) = cuplug.autograd.grad(F.scaled_dot_product_attention(x, x, x).sum(), x, create_graph=True)
    assert len(library.executed) == 1
    (second,) = cuplug.autograd.grad((first * first).sum(), x)
    assert second.isfinite().all().item()


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("case", CASES)
def test_on_a_gpu_the_library_gives_what_our_own_kernels_give(case: str, kind: str) -> None:
    *shapes, settings = CASES[case]
    found = []
    for enabled in (True, False):
        with cudnn.flags(enabled=enabled, allow_tf32=False):
            found.append(_trained(F.conv2d, shapes, kind, "cuda", **settings))
    _agree(*found, TYPES[kind])


@pytest.mark.usefixtures("gpu")
def test_on_a_gpu_every_way_of_choosing_gives_the_same_result() -> None:
    *shapes, settings = CASES["3 x 3"]
    ways: list[dict[str, bool]] = [{}, {"benchmark": True}, {"deterministic": True}]
    found = []
    for way in ways:
        with cudnn.flags(enabled=True, allow_tf32=False, **way):
            found += [_trained(F.conv2d, shapes, "float32", "cuda", **settings) for _ in range(2)]
    for a, b in pairwise(found):
        _agree(a, b, 1e-5)
    assert all((a == b).all() for a, b in zip(*found[-2:], strict=True))


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("case", ATTENTIONS)
def test_on_a_gpu_the_librarys_attention_is_ours(case: str, kind: str) -> None:
    sizes, settings = ATTENTIONS[case]
    found = []
    for enabled in (True, False):
        with cudnn.flags(enabled=enabled):
            found.append(_attended(sizes, kind, "cuda", **settings))
    _agree(*found, {"float16": 1e-2, "bfloat16": 8e-2}[kind])
