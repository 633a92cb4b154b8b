"""The CUDA C that tensors generate, run without a GPU: compiled for this machine and executed by the simulator."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.runtime.tensor.backends.cuda_kernels import cuda_elementwise, cuda_geometry
from cuplug.runtime.tensor.backends.cuda_place import CudaPlace
from cuplug.runtime.tensor.backends.on_host.cpu_place import HOST
from cuplug.runtime.tensor.core.dtypes import ALL
from cuplug.runtime.tensor.core.layout import Layout
from cuplug.runtime.tensor.places.tables_with_gradients.elementwise_table import BY_NAME, COPY, TABLE
from cuplug.runtime.tensor.places.tables_with_gradients.network_table import NETWORK_TABLE

pytestmark = pytest.mark.one_schedule


@pytest.fixture(scope="module")
def kernels(quick_compiler: None) -> Iterator[None]:
    """A simulated device whose tensors run generated kernels instead of NumPy."""
    runtime = cuplug.init(driver="sim")
    runtime.device(0).objects["tensor.place"] = CudaPlace(runtime, 0)
    yield
    cuplug.shutdown()


@pytest.mark.needs_sim
@pytest.mark.usefixtures("kernels")
def test_element_wise_kernels_run_flat_strided_and_tiled() -> None:
    a = np.arange(70 * 90, dtype=np.float32).reshape(70, 90)
    x = cuplug.tensor(a, device="cuda")
    np.testing.assert_array_equal((x + x).cpu().numpy(), a + a)
    np.testing.assert_array_equal(
        (x[3:, 1:].reshape(-1)[1:] + x[3:, 1:].reshape(-1)[1:]).cpu().numpy().sum(),
        (a[3:, 1:] * 2).reshape(-1)[1:].sum(),
    )
    np.testing.assert_array_equal((x[:, ::2] + x[:1, ::2]).cpu().numpy(), a[:, ::2] + a[:1, ::2])
    np.testing.assert_array_equal(x.t().contiguous().cpu().numpy(), a.T)
    np.testing.assert_array_equal(x[:17, :33].t().contiguous().cpu().numpy(), a[:17, :33].T)
    np.testing.assert_array_equal((x + 2.5).to(cuplug.float16).cpu().numpy(), (a + 2.5).astype(np.float16))


@pytest.mark.needs_sim
@pytest.mark.usefixtures("kernels")
def test_what_is_written_in_place_is_counted_and_returned() -> None:
    x, y = cuplug.tensor([-1.0, 2.0], device="cuda"), cuplug.tensor([3.0, 4.0], device="cuda")
    for times, run in enumerate([x.relu_, lambda: x.add_(y), lambda: x.mul_(2), lambda: x.lerp_(y, y)] * 2):
        before = x._version
        assert run() is x
        assert x._version == before + 1, times
    assert (x + y)._version == 0
    np.testing.assert_array_equal(x.cpu().numpy(), [-3.0, -8.0])


@pytest.mark.needs_sim
@pytest.mark.usefixtures("kernels")
def test_small_products_run_by_tiles_and_by_rows() -> None:
    kind, random = np.float16, np.random.default_rng(0)
    shapes = [
        (1, 20, 130, 21),
        (1, 1, 1100, 1),
        (1, 33, 17, 1),
        (1, 1, 300, 5),
        (3, 4, 9, 2),
        (3, 4, 9, 1),
    ]
    for count, rows, inner, columns in shapes:
        a, b = (random.integers(-3, 4, shape).astype(kind) for shape in ((count, rows, inner), (count, inner, columns)))
        x, y = cuplug.tensor(a, device="cuda"), cuplug.tensor(b, device="cuda")
        np.testing.assert_array_equal((x @ y).cpu().numpy(), a @ b)
        turned = [cuplug.tensor(each.swapaxes(1, 2).copy(), device="cuda").transpose(1, 2) for each in (a, b)]
        np.testing.assert_array_equal((turned[0] @ turned[1]).cpu().numpy(), a @ b)


@pytest.mark.needs_sim
@pytest.mark.usefixtures("kernels")
def test_reductions_run_over_rows_columns_and_everything() -> None:
    a = np.random.default_rng(0).normal(size=(300, 257)).astype(np.float32)
    x = cuplug.tensor(a, device="cuda")
    for axes in (None, 0, 1):
        np.testing.assert_allclose(x.sum(axes).cpu().numpy(), a.sum(axes, dtype=np.float64), rtol=1e-4, atol=1e-3)
    values, indices = x.max(1)
    np.testing.assert_array_equal(values.cpu().numpy(), a.max(1))
    np.testing.assert_array_equal(indices.cpu().numpy(), a.argmax(1))
    a[a > 1] = np.nan
    a[7, 3] = np.inf
    a[9] = np.nan
    found = cuplug.tensor(a, device="cuda").nansum(1).cpu().numpy()
    np.testing.assert_allclose(found, np.nansum(a, 1, dtype=np.float64), rtol=1e-4, atol=1e-3)
    big = cuplug.ones(200_000, device="cuda")  # enough for partial results
    assert big.sum().item() == 200_000
    assert big.std().item() == 0
    numbers = (np.arange(200_003) % 17 + 1).astype(np.float32)
    whole = cuplug.tensor(numbers, device="cuda")
    for start in range(5):  # what lies before the first vector, and behind the last, counts once
        assert whole[start : 200_003 - 2 * start].sum().item() == numbers[start : 200_003 - 2 * start].sum()


@pytest.mark.needs_sim
@pytest.mark.usefixtures("kernels")
def test_random_kernels_make_the_cpus_numbers_to_the_bit() -> None:
    def numbers(device: str) -> list[Any]:
        cuplug.manual_seed(11)
        normal = [cuplug.randn(1001, dtype=kind, device=device) for kind in (cuplug.float32, cuplug.float64)]
        limits = ((-3, 2**16 - 3), (-(2**61), 2**61))
        return [*normal, *[cuplug.randint(*each, (1001,), device=device) for each in limits]]

    for here, there in zip(numbers("cpu"), numbers("cuda"), strict=True):
        np.testing.assert_array_equal(here.numpy(), there.cpu().numpy())


@pytest.mark.needs_sim
@pytest.mark.usefixtures("kernels")
def test_indexing_and_products_run_as_kernels() -> None:
    a = np.arange(12).reshape(3, 4)
    x = cuplug.tensor(a, device="cuda")
    np.testing.assert_array_equal(x[cuplug.tensor([2, -3])].cpu().numpy(), a[[2, -3]])
    np.testing.assert_array_equal((x @ x.t()).cpu().numpy(), a @ a.T)
    x[cuplug.tensor([0, 1]), cuplug.tensor([3, 0])] = -1
    assert (x == -1).sum().item() == 2
    np.testing.assert_array_equal(x[x > 5].cpu().numpy(), [6, 7, 8, 9, 10, 11])
    x[x > 5] = cuplug.arange(6, device="cuda")
    np.testing.assert_array_equal(x[1:].cpu().numpy(), [[-1, 5, 0, 1], [2, 3, 4, 5]])
    assert cuplug.cat([x, x.t()[:, :1].reshape(1, 4)]).tolist()[3] == [0, 1, 2, -1]
    assert x.masked_fill(x < 2, 9).tolist()[0] == [9, 9, 2, 9]


@pytest.mark.needs_sim
@pytest.mark.usefixtures("kernels")
def test_extremes_are_found_along_rows_and_columns() -> None:
    generator = np.random.default_rng(5)
    for kind, name, other in (("float32", "max", "min"), ("int8", "min", "max")):
        for shape, axis in (((2, 9000), 1), ((9000, 2), 0)):
            a = (generator.normal(size=shape) * 10).astype(kind)
            if a.dtype.kind == "f":
                a[0, -1], a[-1, 0] = np.nan, -np.inf
            x = cuplug.tensor(a, device="cuda")
            values, indices = getattr(x, name)(axis)
            np.testing.assert_array_equal(values.cpu().numpy(), getattr(a, name)(axis))
            np.testing.assert_array_equal(indices.cpu().numpy(), getattr(a, f"arg{name}")(axis))
            np.testing.assert_array_equal(getattr(x, f"a{other}")(axis).cpu().numpy(), getattr(a, other)(axis))


@pytest.mark.needs_sim
@pytest.mark.usefixtures("kernels")
def test_elements_are_picked_in_words_as_wide_as_their_places_allow() -> None:
    generator = np.random.default_rng(6)
    a = np.arange(64 * 16 * 24, dtype=np.int16).reshape(64, 16, 24)
    rows, columns = generator.integers(-64, 64, 50), generator.integers(0, 16, 50)
    x, i, j = (cuplug.tensor(each, device="cuda") for each in (a, rows, columns))
    for part in (slice(None), slice(4), slice(8, None), slice(1, 22), slice(None, None, 2), slice(5, 6)):
        np.testing.assert_array_equal(x[:, :, part][i].cpu().numpy(), a[:, :, part][rows])
        np.testing.assert_array_equal(x[:, :, part][i, j].cpu().numpy(), a[:, :, part][rows, columns])
    np.testing.assert_array_equal(x.permute(2, 0, 1)[j].cpu().numpy(), a.transpose(2, 0, 1)[columns])
    kept, change = np.unique(columns), generator.integers(0, 99, (64, len(np.unique(columns)), 8)).astype(np.int16)
    x[:, cuplug.tensor(kept, device="cuda"), 16:] = cuplug.tensor(change, device="cuda")
    a[:, kept, 16:] = change
    np.testing.assert_array_equal(x.cpu().numpy(), a)


@pytest.mark.needs_sim
@pytest.mark.usefixtures("kernels")
def test_what_a_mask_chooses_is_found_by_one_block_or_by_many() -> None:
    random = np.random.default_rng(0)
    for shape in ((1,), (1000,), (5000,), (16384,), (16385,), (7, 30), (4, 5, 6)):
        for share in (0.0, 0.3, 1.0):
            flags = random.random(shape) < share
            values = random.standard_normal(shape).astype(np.float32)
            mask, x = cuplug.tensor(flags, device="cuda"), cuplug.tensor(values, device="cuda")
            chosen, found = x[mask], mask.nonzero()
            assert (chosen.cpu().numpy() == values[flags]).all()
            assert (found.cpu().numpy() == np.argwhere(flags)).all()
            assert chosen.untyped_storage().nbytes() == 4 * chosen.numel()
            assert found.untyped_storage().nbytes() == 8 * found.numel()
            assert all((a.cpu().numpy() == b).all() for a, b in zip(mask.nonzero(as_tuple=True), flags.nonzero()))  # noqa: B905
    rows = cuplug.tensor(np.arange(12).reshape(4, 3), device="cuda")
    assert rows[cuplug.tensor([True, False, True, False], device="cuda")].tolist() == [[0, 1, 2], [6, 7, 8]]


@pytest.mark.needs_sim
@pytest.mark.usefixtures("kernels")
def test_triangles_are_numpys_on_every_place() -> None:
    for rows, columns in ((1, 1), (4, 7), (7, 4), (33, 32)):
        a = np.arange(1, rows * columns + 1, dtype=np.float32).reshape(rows, columns)
        for place in ("cpu", "cuda"):
            x = cuplug.tensor(a, device=place)
            for diagonal in (0, 1, -1, 3, -40, 40):
                np.testing.assert_array_equal(x.tril(diagonal).cpu().numpy(), np.tril(a, diagonal))
                np.testing.assert_array_equal(x.triu(diagonal).cpu().numpy(), np.triu(a, diagonal))
                indices = cuplug.tril_indices(rows, columns, diagonal, device=place).cpu().numpy()
                np.testing.assert_array_equal(indices, np.stack(np.tril_indices(rows, diagonal, columns)))
    assert cuplug.ones(0, 3, device="cuda").tril().shape == (0, 3)


@pytest.mark.needs_sim
@pytest.mark.usefixtures("kernels")
def test_values_that_lie_ready_are_written_as_they_lie_and_others_are_copied_before() -> None:
    index = cuplug.tensor([2, 0], device="cuda")
    for values in ([7.0, 8.0], [5.0]):
        for kind in (cuplug.float32, cuplug.float64):
            x = cuplug.zeros(3, device="cuda")
            x[index] = cuplug.tensor(values, dtype=kind, device="cuda")
            assert x.tolist() == [values[-1], 0, values[0]]
            assert x._version > 0
    x = cuplug.tensor([1.0, 2.0, 3.0], device="cuda")
    x[index] = x[:2]
    assert x.tolist() == [2, 2, 1]
    x.index_put_((index,), cuplug.tensor([4.0, 6.0], device="cuda"))
    assert x.tolist() == [6, 2, 4]


@pytest.fixture
def launches(kernels: None, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with each launch of a kernel that is prepared from here on."""
    made: list[int] = []
    place: Any = cuplug.empty(0, device="cuda")._layout.place
    bound = place.bound

    def counting(*given: Any) -> Any:
        launch = bound(*given)
        return lambda *values: (made.append(1), launch(*values))

    monkeypatch.setattr(place, "bound", counting)
    return made


@pytest.mark.needs_sim
@pytest.mark.parametrize("kind", ["uint8", "float16", "float32", "int64"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_index_add_takes_one_launch_along_any_dimension_and_two_with_alpha(
    kind: str, axis: int, launches: list[int]
) -> None:
    """It took six: everything was brought into rows along the last dimension, and back."""
    random = np.random.default_rng(1)
    a, b = (random.integers(0, 9, (6, 7, 5)).astype(kind) for _ in range(2))
    for alpha, wide in itertools.product((1, 2), ("int64", "int32")):
        for count in (3, 3, 9):  # the second time the plan is ready
            order = random.integers(0, a.shape[axis], count).astype(wide)
            given = b.take(random.integers(0, a.shape[axis], count), axis)
            wanted = a.copy()
            np.add.at(np.moveaxis(wanted, axis, 0), order, np.moveaxis(given, axis, 0) * np.array(alpha, kind))
            target, index, source = (cuplug.tensor(each, device="cuda") for each in (a, order, given))
            version = target._version
            launches.clear()
            assert target.index_add_(axis, index, source, alpha=alpha) is target
            assert len(launches) == alpha
            assert target._version > version
            assert (target.cpu().numpy() == wanted).all()


_LIES: dict[str, Any] = {
    "plain": lambda base: base,
    "with gaps": lambda base: base[::2, 1:],
    "transposed": lambda base: base.permute(2, 1, 0),
}


def _scattered(device: str, kind: str, axis: int, name: str, lies: str, *, tracked: bool) -> list[Any]:
    """What is scattered along a dimension of a tensor and, if ``tracked``, the gradients."""
    random = np.random.default_rng(3)
    begin = cuplug.tensor(random.integers(1, 9, (10, 6, 7)).astype(kind), device=device, requires_grad=tracked)
    source = cuplug.tensor(random.integers(1, 9, (12, 12, 12)).astype(kind), device=device, requires_grad=tracked)
    base = begin * 1
    target = _LIES[lies](base)
    lengths = [*target.shape]
    lengths[axis] = 4
    order = random.permutation(target.shape[axis])[:4] if name in ("copy", "write") else np.array([2, 0, 2, 1])
    index = cuplug.tensor(order.astype(np.int32), device=device)
    given = source[1 : 1 + lengths[0], : lengths[1], : lengths[2]]
    if name == "add":
        target.index_add_(axis, index, given)
    elif name == "copy":
        target.index_copy_(axis, index, given)
    else:  # an index that is shorter than both
        shape = [3, 3, 3]
        places = index[:3].reshape([3 if each == axis else 1 for each in range(3)]).expand(shape).long()
        if name == "write":
            target.scatter_(axis, places, given)
        else:
            target.scatter_reduce_(axis, places, given, name)
    if not tracked:
        return [base.cpu().numpy()]
    (base * base).sum().backward()
    assert begin.grad is not None
    assert source.grad is not None
    return [base.detach().cpu().numpy(), begin.grad.cpu().numpy(), source.grad.cpu().numpy()]


@pytest.mark.needs_sim
@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("name", ["add", "copy", "write", "sum", "prod", "amax", "amin"])
@pytest.mark.parametrize("kind", ["float32", "float16", "uint8"])
def test_scattering_along_any_dimension_is_what_it_is_on_the_cpu(kind: str, name: str) -> None:
    for axis, lies, tracked in itertools.product(range(3), _LIES, (False, True) if kind == "float32" else (False,)):
        device, host = (_scattered(each, kind, axis, name, lies, tracked=tracked) for each in ("cuda", "cpu"))
        for one, other in zip(device, host, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-3 if kind == "float16" else 1e-6)


@pytest.mark.needs_sim
def test_small_tensors_are_joined_by_one_launch_wherever_they_begin(launches: list[int]) -> None:
    random = np.random.default_rng(0)
    for kind in ("uint8", "float32", "int64"):
        a, b, c = (random.integers(0, 100, shape).astype(kind) for shape in ((3, 4, 5), (3, 1, 5), (3, 700, 5)))
        x, y, z = (cuplug.tensor(each, device="cuda") for each in (a, b, c))
        none = cuplug.empty(3, 0, 5, dtype=x.dtype, device="cuda")
        assert (cuplug.cat((x, none, y, z), 1).cpu().numpy() == np.concatenate((a, b, c), 1)).all()
        assert (cuplug.cat((x[1], y[1], x[0])).cpu().numpy() == np.concatenate((a[1], b[1], a[0]))).all()
        assert (cuplug.stack((x[0], x[2]), 1).cpu().numpy() == np.stack((a[0], a[2]), 1)).all()
        flat = cuplug.cat((x.view(-1)[1:4], z.view(-1)[3:999], x.view(-1)[7:8]))
        assert (flat.cpu().numpy() == np.concatenate((a.ravel()[1:4], c.ravel()[3:999], a.ravel()[7:8]))).all()
    launches.clear()
    pieces = [cuplug.tensor([number, number + 1], device="cuda") for number in range(19)]
    joined = cuplug.cat(pieces)
    assert joined.tolist() == [each for number in range(19) for each in (number, number + 1)]
    assert len(launches) == 1


@pytest.mark.needs_sim
@pytest.mark.usefixtures("kernels")
def test_positions_of_true_elements_come_in_order() -> None:
    generator = np.random.default_rng(7)
    for shape in ((1,), (17,), (4097,), (50_000,), (100, 83), (7, 11, 13)):
        for share in (0.0, 0.3, 1.0):
            flags = generator.random(shape) < share
            x = cuplug.tensor(flags, device="cuda")
            found = x._layout.place.positions(x._layout)(x)
            np.testing.assert_array_equal(found.cpu().numpy(), np.array(np.nonzero(flags)))
    behind = cuplug.tensor(flags.reshape(-1), device="cuda")[3:]
    found = behind._layout.place.positions(behind._layout)(behind)
    np.testing.assert_array_equal(found.cpu().numpy()[0], np.nonzero(flags.reshape(-1)[3:])[0])


@pytest.mark.needs_sim
@pytest.mark.usefixtures("kernels")
def test_an_operand_with_gaps_that_may_overlap_what_is_written_is_read_before() -> None:
    """NumPy sees overlaps by itself, so that only kernels show whether the operand was copied."""
    x = cuplug.arange(600, device="cuda")
    before = np.arange(600)
    x[2::2].add_(x[:-2:2])
    np.testing.assert_array_equal(x[2::2].cpu().numpy(), before[2::2] + before[:-2:2])
    x = cuplug.arange(600, device="cuda")
    cuplug.add(x[:-2:2], 1, out=x[2::2])
    np.testing.assert_array_equal(x[2::2].cpu().numpy(), before[:-2:2] + 1)
    x = cuplug.arange(600, device="cuda")
    x[2::2] = x[:-2:2]
    np.testing.assert_array_equal(x[2::2].cpu().numpy(), before[:-2:2])
    x, before = cuplug.arange(420, device="cuda").reshape(20, 21), np.arange(420).reshape(20, 21)
    part = x[:, :20]
    part.copy_(part.t())
    np.testing.assert_array_equal(part.cpu().numpy(), before[:, :20].T)
    part.add_(part[0])
    np.testing.assert_array_equal(part.cpu().numpy(), before[:, :20].T + before[:, :20].T[0])


@pytest.mark.needs_sim
def test_a_plain_copy_is_the_drivers_and_compiles_nothing() -> None:
    runtime = cuplug.init(driver="sim")
    try:
        place = runtime.device(0).objects["tensor.place"] = CudaPlace(runtime, 0)
        a = np.arange(24, dtype=np.float32).reshape(4, 6)
        x = cuplug.tensor(a, device="cuda")
        y = cuplug.empty(4, 6, device="cuda")
        stream = cuplug.cuda.Stream()
        with cuplug.cuda.stream(stream):
            stream.wait_stream(cuplug.cuda.default_stream())
            y.copy_(x)
            copies = [y, x.clone(), x.t().clone().t()]
            y[1:3] = x[2:]
            copies[1][1:3] = x[2:]
        stream.synchronize()
        a[1:3] = a[2:]
        np.testing.assert_array_equal(copies[0].cpu().numpy(), a)
        np.testing.assert_array_equal(copies[1].cpu().numpy(), a)
        for each in copies[2:]:
            np.testing.assert_array_equal(each.cpu().numpy(), np.arange(24).reshape(4, 6))
        assert place._modules == {}
    finally:
        cuplug.shutdown()


def _layout(shape: tuple[int, ...], strides: tuple[int, ...] | None = None, kind: Any = None) -> Layout:
    return Layout.of(HOST, kind or cuplug.float32, shape, strides)


def test_dimensions_that_all_operands_step_through_evenly_are_merged() -> None:
    out = _layout((4, 5, 6))
    assert cuda_geometry.collapse(out, [out, None])[0] == (120,)
    shape, strides = cuda_geometry.collapse(out, [_layout((5, 6)), _layout((4, 1, 1))])
    assert shape == (4, 30)
    assert strides == [(30, 1), (0, 1), (1, 0)]
    turned = _layout((4, 5), (1, 4))
    assert cuda_geometry.collapse(turned, [turned])[0] == (20,)


def test_a_new_shape_compiles_nothing_new() -> None:
    add = BY_NAME["add"]
    types = [cuplug.float32] * 2
    sources = {
        cuda_elementwise.plan(
            add, types, _layout((n, 7)), [_layout((n, 7), (1, n)), _layout((7,))], aligned=True
        ).source
        for n in (3, 100, 12345)
    }
    assert len(sources) == 1
    copies = {
        cuda_elementwise.plan(COPY, [cuplug.float32], _layout((n, 64)), [_layout((n, 64), (1, n))], aligned=True).source
        for n in (32, 100, 12345)
    }
    assert len(copies) == 1


def test_every_line_of_the_table_has_an_expression_of_its_operands() -> None:
    for operation in (*TABLE, *NETWORK_TABLE):
        used = set(re.findall(r"\b[abc]\b", operation.cuda))
        assert used == set("abc"[: operation.arity]), operation


def test_fast_division_is_exact() -> None:
    """The multiplier and shift that a walk packs divide every 31-bit index as integer division does."""
    generator = np.random.default_rng(1)
    for length in [1, 2, 3, 5, 7, 64, 100, 641, 2**16 - 1, 2**16 + 1, 2**30 + 7, 2**31 - 1]:
        packed = cuda_geometry.Walk((1, length), [(1, 1)]).packed if length < 2**31 else b""
        _, magic, shift = (int(np.frombuffer(packed, np.uint32, 6)[k]) for k in (1, 3, 5))
        indices = np.concatenate([generator.integers(0, 2**31, 2000), [0, 1, length - 1, length % 2**31, 2**31 - 1]])
        for index in indices.tolist():
            assert ((index * magic >> 32) + index) >> shift == index // length, (index, length)


def test_sources_of_all_types_name_the_half_types_only_where_they_occur() -> None:
    for kind in ALL:
        source = cuda_elementwise.plan(
            COPY, [kind], _layout((8,), kind=kind), [_layout((8,), kind=kind)], aligned=True
        ).source
        assert ("cuda_fp16.h" in source) == (kind is cuplug.float16)
        assert ("cuda_bf16.h" in source) == (kind is cuplug.bfloat16)
