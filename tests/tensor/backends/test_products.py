"""What cuBLAS is asked for, shown by a function in its place that computes it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug import nn
from cuplug.plugins.tracing.training_scope import FORWARD, in_phase, scope
from cuplug.runtime.machine.default_runtime import default_runtime
from cuplug.runtime.tensor.backends.libraries.cublas import _GEMM, Blas, Dot, Gemm
from cuplug.runtime.tensor.core.layout import Layout
from cuplug.runtime.tensor.places.registry import place_of

KINDS = {0: np.float32, 1: np.float64, 2: np.float16}


class Library:
    """Products of matrices by columns, as cuBLAS documents them, in the simulator's memory."""

    def __init__(self) -> None:
        self.modes: list[int] = []
        self._gemm = ctypes.CFUNCTYPE(ctypes.c_int, *_GEMM)(self.gemm)

    def __getitem__(self, name: str) -> Any:
        assert name == "cublasGemmStridedBatchedEx"
        # As ctypes finds a function in a library: what its parameters are, nobody has said.
        return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.cast(self._gemm, ctypes.c_void_p).value)

    def cublasCreate_v2(self, handle: Any) -> int:
        handle._obj.value = 0x77
        return 0

    def cublasSetStream_v2(self, *_: Any) -> int:
        return 0

    cublasSetWorkspace_v2 = cublasDestroy_v2 = cublasSetStream_v2

    def cublasSetPointerMode_v2(self, _: int, mode: int) -> int:
        self.modes.append(mode)
        return 0

    def cublasDotEx(self, handle: int, n: int, x: int, x_kind: int, x_step: int, y: int, *rest: int) -> int:
        y_kind, y_step, result, kind, computed = rest
        assert (handle, self.modes[-1], computed) == (0x77, 1, 1 if kind == 1 else 0)

        def vector(address: int, which: int, step: int, length: int) -> Any:
            size = np.dtype(KINDS[which]).itemsize
            memory = (ctypes.c_char * (((length - 1) * step + 1) * size)).from_address(address)
            return np.ndarray((length,), KINDS[which], memory, 0, (step * size,))

        vector(result, kind, 1, 1)[0] = vector(x, x_kind, x_step, n) @ vector(y, y_kind, y_step, n)
        return 0

    def gemm(self, handle: int, turn_a: int, turn_b: int, m: int, n: int, k: int, one: int, *rest: int) -> int:
        a, a_kind, a_step, a_batch, b, b_kind, b_step, b_batch, zero, c, c_kind, c_step, c_batch, count, mode, _ = rest
        assert handle == 0x77
        self.modes.append(mode)
        scalar = ctypes.c_double if c_kind == 1 else ctypes.c_float
        assert (scalar.from_address(one).value, scalar.from_address(zero).value) == (1, 0)

        def columns(address: int, kind: int, step: int, rows: int, length: int) -> Any:
            size = np.dtype(KINDS[kind]).itemsize
            memory = (ctypes.c_char * (((length - 1) * step + rows) * size)).from_address(address)
            return np.ndarray((rows, length), KINDS[kind], memory, 0, (size, step * size))

        for i in range(count):
            size = np.dtype(KINDS[c_kind]).itemsize
            shapes = ((m, k) if not turn_a else (k, m)), ((k, n) if not turn_b else (n, k))
            left = columns(a + i * a_batch * size, a_kind, a_step, *shapes[0])
            right = columns(b + i * b_batch * size, b_kind, b_step, *shapes[1])
            out = columns(c + i * c_batch * size, c_kind, c_step, m, n)
            out[...] = (left.T if turn_a else left) @ (right.T if turn_b else right)
        return 0


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    """Its memory is the process's own, so that the function can compute there."""
    cuplug.shutdown()
    cuplug.init(driver="sim")
    yield
    cuplug.shutdown()


@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_products_of_matrices_that_lie_by_rows_or_by_columns_are_asked_for_as_they_lie(
    kind: str, turned: tuple[bool, bool]
) -> None:
    place: Any = place_of("cuda")
    library = Library()
    blas = Blas(library, place)
    random = np.random.default_rng(0)
    given = [random.integers(-4, 4, shape).astype(kind) for shape in ((2, 3, 5), (2, 5, 4))]
    tensors = []
    for array, turn in zip(given, turned, strict=True):
        stored = np.ascontiguousarray(array.swapaxes(1, 2) if turn else array)
        tensor = cuplug.tensor(stored, device="cuda")
        tensors.append(tensor.transpose(1, 2) if turn else tensor)
    layouts = [each._layout for each in tensors]
    out = Layout.of(place, tensors[0].dtype, (2, 3, 4))
    product = Gemm(blas, out, *layouts)
    assert product.by_address
    for _ in range(2):
        made = place.empty(out)
        product(made, *tensors)
        assert (made.cpu().numpy() == given[0] @ given[1]).all()
    assert default_runtime().current.device == 0


@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
def test_a_scalar_product_is_asked_for_by_its_own_name_and_goes_to_the_device(kind: str) -> None:
    place: Any = place_of("cuda")
    library = Library()
    numbers = np.arange(24).astype(kind).reshape(12, 2)
    x = cuplug.tensor(numbers, device="cuda").view(1, 1, 24)[:, :, ::2]
    y = cuplug.tensor(numbers[:, 1].copy(), device="cuda").view(1, 12, 1)
    out = Layout.of(place, x.dtype, (1, 1, 1))
    assert Dot.takes(out, x._layout, y._layout)
    assert not Dot.takes(out, x[:, :, :1].expand(1, 1, 12)._layout, y._layout)
    product = Dot(Blas(library, place), out, x._layout, y._layout)
    made = place.empty(out)
    product(made, x, y)
    assert made.item() == numbers[:, 0] @ numbers[:, 1]
    assert library.modes == [1, 0]


def test_what_is_rounded_is_asked_of_cublas_each_time() -> None:
    place: Any = place_of("cuda")
    library = Library()
    x = cuplug.ones(1, 2, 2, device="cuda")
    product = Gemm(Blas(library, place), x._layout, x._layout, x._layout)
    before = cuplug.get_float32_matmul_precision()
    try:
        for precision in ("highest", "high", "highest"):
            cuplug.set_float32_matmul_precision(precision)
            product(place.empty(x._layout), x, x)
    finally:
        cuplug.set_float32_matmul_precision(before)
    assert library.modes == [68, 77, 68]


def test_the_memory_that_cublas_keeps_belongs_to_no_module() -> None:
    seen: list[tuple[str, str]] = []

    def allocate(nbytes: int) -> Any:
        assert nbytes > 0
        seen.append((scope.path(), scope.phase_here()))
        return SimpleNamespace(address=0)

    place: Any = SimpleNamespace(runtime=SimpleNamespace(at_close=lambda _: None), allocate=allocate)

    class Product(nn.Module):
        def forward(self) -> None:
            Blas(Library(), place).handle(7)
            seen.append((scope.path(), scope.phase_here()))

    with in_phase(FORWARD):
        Product()()
    assert seen == [("", ""), ("Product", FORWARD)]
