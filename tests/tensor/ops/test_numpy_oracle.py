"""NumPy is the oracle: random shapes, types, strides, broadcasting and axes, on the CPU and on a device."""

from __future__ import annotations

import warnings
from typing import Any

import cuplug
import hypothesis.strategies as st
import numpy as np
import pytest
from cuplug.runtime.tensor.core.dtypes import ALL, dtype
from cuplug.runtime.tensor.ops.elementwise.elementwise import apply
from cuplug.runtime.tensor.places.tables_with_gradients.elementwise_table import TABLE, Elementwise, TypeRule
from hypothesis import assume, given, settings

pytestmark = pytest.mark.one_schedule

FEW = settings(max_examples=max(settings.default.max_examples // 6, 5))
"""For tests that stand for many: one for each line of a table, on each device."""

FLOATS = [each for each in ALL if each.kind == "f"]
INTEGERS = [each for each in ALL if each.kind in "ui"]
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-10}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 3.75, -2.5, 100.0]
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


def _values(draw: Any, shape: tuple[int, ...], kind: dtype) -> np.ndarray[Any, Any]:
    """Random elements; among floats infinities, NaN and zeros of both signs."""
    return np.asarray(_drawn(draw, shape, kind))


def _drawn(draw: Any, shape: tuple[int, ...], kind: dtype) -> Any:
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    if kind.kind == "b":
        return generator.random(shape) < 0.5
    if kind.kind in "ui":
        return generator.integers(max(kind.minimum, -9), 10, shape).astype(kind.numpy)
    values = generator.normal(0, 3, shape)
    if draw(st.booleans()):
        values = np.where(generator.random(shape) < 0.3, generator.choice(SPECIAL, shape), values)
    return values.astype(kind.numpy)


def _steps(draw: Any, ndim: int) -> list[Any]:
    """A few steps that make a view: each is a function of an array or of a tensor."""
    steps: list[Any] = []
    for _ in range(draw(st.integers(0, 2))):
        if not ndim:
            break
        kind = draw(st.sampled_from(["permute", "slice", "reverse", "insert"]))
        if kind == "permute":
            order = draw(st.permutations(range(ndim)))
            steps.append(lambda x, order=order: x.permute(*order) if _ours(x) else x.transpose(order))
        elif kind == "insert":
            steps.append(lambda x: x[..., None])
            ndim += 1
        else:
            step = draw(st.sampled_from([2, 3] if kind == "slice" else [-1, -2]))
            key = (slice(None),) * draw(st.integers(0, ndim - 1)) + (slice(None, None, step),)
            steps.append(lambda x, key=key: x[key])
    return steps


def _ours(x: Any) -> bool:
    return isinstance(x, cuplug.Tensor)


def _pair(draw: Any, device: str, shape: tuple[int, ...], kind: dtype) -> tuple[np.ndarray[Any, Any], Any]:
    """The same elements with the same strides as an array and as a tensor."""
    array = _values(draw, shape, kind)
    tensor = cuplug.tensor(array, device=device)
    for step in _steps(draw, len(shape)):
        array, tensor = step(array), step(tensor)
    return array, tensor


def _agree(found: Any, expected: Any, kind: dtype, *, slack: float = 1.0) -> None:
    assert found.dtype is kind
    assert tuple(found.shape) == np.shape(expected)
    got = found.cpu().numpy()
    if kind.kind != "f":
        np.testing.assert_array_equal(got, np.asarray(expected))
        return
    with np.errstate(all="ignore"):
        wanted = np.asarray(expected).astype(kind.numpy).astype(np.float64)
    tolerance = TOLERANCE[kind.name] * slack
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)


def _same(found: Any, expected: Any) -> None:
    """The same elements; NumPy does not know NaN among those of bfloat16."""
    got = found.cpu().numpy()
    if expected.dtype.name == "bfloat16":
        got, expected = got.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_array_equal(got, expected)


def _types(operation: Elementwise) -> list[dtype]:
    kinds = {
        TypeRule.INTEGER: [*INTEGERS, ALL[0]],
        TypeRule.WHOLE: INTEGERS,
        TypeRule.FLOATING: FLOATS,
        TypeRule.ALIKE: FLOATS,
        TypeRule.NUMERIC: [*INTEGERS, *FLOATS],
        TypeRule.NO_BOOL: [*INTEGERS, *FLOATS],
        TypeRule.COUNTED: [*INTEGERS, *FLOATS],
    }
    return kinds.get(TypeRule.FLOATING if operation.rule is TypeRule.ALIKE else operation.rule, list(ALL))


def _wide(array: Any, kind: dtype) -> Any:
    """The operand in the type that the operation computes in, or in a wider one."""
    return array.astype(np.float64 if kind.kind == "f" else kind.numpy)


@pytest.mark.parametrize("operation", TABLE, ids=lambda operation: operation.name)
@FEW
@given(data=st.data())
def test_an_operation_agrees_with_numpy_on_any_view(operation: Elementwise, device: str, data: st.DataObject) -> None:
    draw = data.draw
    kind = draw(st.sampled_from(_types(operation)))
    shape = draw(SHAPES)
    kinds = [ALL[0], kind, kind] if operation.rule is TypeRule.SELECT else [kind] * operation.arity
    arrays, tensors = [], []
    for position, each in enumerate(kinds):
        array, tensor = _pair(
            draw, device, shape if not position else draw(st.sampled_from([shape, shape[1:], ()])), each
        )
        arrays.append(array)
        tensors.append(tensor)
    try:
        np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        with pytest.raises(ValueError, match="must match the size of tensor b"):
            cuplug_call(operation, tensors)
        return
    if operation.name.endswith("shift"):
        arrays[1], tensors[1] = np.abs(arrays[1]) % 7, tensors[1].abs() % 7
    if operation.divides and kind.kind != "f":
        assume((arrays[1] != 0).all())
    result = ALL[0] if operation.rule is TypeRule.TEST else kind
    if operation.rule is TypeRule.FLOAT:
        result = kind if kind.kind == "f" else cuplug.get_default_dtype()
    computed = result if result.kind == "f" and operation.rule is TypeRule.FLOAT else kind
    with np.errstate(all="ignore"):
        wide = [
            _wide(array, each if operation.rule is TypeRule.SELECT else computed)
            for array, each in zip(arrays, kinds, strict=True)
        ]
        expected = operation.numpy(*wide)
    if operation.name in ("floor_divide", "remainder", "fmod", "trunc_divide") and kind.kind == "f":
        _agree_but_for_edges(cuplug_call(operation, tensors), expected, wide)
        return
    if operation.name == "pow" and kind.kind in "ui":
        assume((arrays[1] <= 4).all())
    slack = 8.0 if operation.name in ("tan", "pow", "lerp", "hypot", "sinh", "cosh", "exp", "exp2") else 2.0
    _agree(cuplug_call(operation, tensors), expected, result, slack=slack)


def cuplug_call(operation: Elementwise, tensors: list[Any]) -> Any:
    return getattr(cuplug, operation.name)(*tensors) if operation.public else apply(operation, *tensors)


def _agree_but_for_edges(found: Any, expected: Any, operands: list[Any]) -> None:
    """Near a whole quotient one rounding decides between neighbours: the remainder is 0 or the divisor there."""
    with np.errstate(all="ignore"):
        quotient = np.true_divide(*operands)
        near = ~(np.abs(quotient - np.round(quotient)) >= 1e-2)
    got = found.cpu().numpy().astype(np.float64)
    keep = ~near & np.isfinite(expected) & (np.abs(quotient) < 1e3)
    np.testing.assert_allclose(got[keep], np.asarray(expected)[keep], rtol=3e-2, atol=0.2)


@given(data=st.data())
def test_views_share_memory_and_agree_with_numpy(device: str, data: st.DataObject) -> None:
    array, tensor = _pair(data.draw, device, data.draw(SHAPES), data.draw(st.sampled_from(INTEGERS)))
    np.testing.assert_array_equal(tensor.cpu().numpy(), array)
    assert tuple(tensor.shape) == array.shape
    flat = tensor.reshape(-1)
    np.testing.assert_array_equal(flat.cpu().numpy(), array.reshape(-1))
    if tensor.numel():
        view = tensor[(0,) * tensor.ndim] if tensor.ndim else tensor
        view.fill_(5)
        array[(0,) * array.ndim] = 5
        np.testing.assert_array_equal(tensor.cpu().numpy(), array)
        assert tensor.contiguous().is_contiguous()
        np.testing.assert_array_equal(tensor.clone().cpu().numpy(), array)


@given(data=st.data())
def test_writing_to_a_view_writes_where_numpy_does(device: str, data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    kind = data.draw(st.sampled_from(ALL))
    array = _values(data.draw, shape, kind)
    tensor = cuplug.tensor(array, device=device)
    view_a, view_t = array, tensor
    for step in _steps(data.draw, len(shape)):
        view_a, view_t = step(view_a), step(view_t)
    source = _values(data.draw, data.draw(st.sampled_from([view_a.shape, view_a.shape[1:], ()])), kind)
    view_a[...] = source
    view_t.copy_(cuplug.tensor(source, device=data.draw(st.sampled_from(["cpu", device]))))
    np.testing.assert_array_equal(tensor.cpu().numpy(), array)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "amax", "amin", "any", "all", "count_nonzero"])
@FEW
@given(data=st.data())
def test_a_reduction_agrees_with_numpy_over_any_axes(name: str, device: str, data: st.DataObject) -> None:
    draw = data.draw
    kind = draw(st.sampled_from(FLOATS if name in ("mean", "var", "std") else ALL))
    array, tensor = _pair(draw, device, draw(SHAPES), kind)
    if kind.kind == "f" and name in ("sum", "mean", "var", "std", "prod"):
        wide = array.astype(np.float64)
        array = np.where(np.isfinite(wide), wide, 1).astype(kind.numpy)
        tensor = cuplug.tensor(array, device=device)
    axes = tuple(draw(st.sets(st.integers(0, max(array.ndim - 1, 0))))) if array.ndim else ()
    keep = name != "count_nonzero" and draw(st.booleans())
    over = axes or tuple(range(array.ndim))
    if name in ("amax", "amin") and any(array.shape[axis] == 0 for axis in over):
        with pytest.raises(ValueError, match="no elements"):
            getattr(tensor, name)(over)
        return
    numpy_name = {"amax": "max", "amin": "min"}.get(name, name)
    options = {"ddof": 1} if name in ("var", "std") else {}
    if keep:
        options["keepdims"] = True
    wide = (
        array.astype(np.float64)
        if kind.kind == "f"
        else array.astype(np.int64 if name in ("sum", "prod") else kind.numpy)
    )
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of what has no elements
        expected = getattr(np, numpy_name)(wide, axis=over, **options)
    arguments: dict[str, Any] = {} if name == "count_nonzero" else {"keepdim": keep}
    found = getattr(tensor, name)(axes or None, **arguments)
    result = {"any": ALL[0], "all": ALL[0], "count_nonzero": cuplug.int64}.get(name, kind)
    if name in ("any", "all") and kind is cuplug.uint8:
        result = kind
    if name in ("sum", "prod") and kind.kind != "f":
        result = cuplug.int64
    assume(name != "prod" or kind.kind == "f" or np.abs(array.astype(float)).max(initial=1) < 3)
    _agree(found, expected, result, slack=20.0)


@pytest.mark.parametrize("name", ["max", "min"])
@given(data=st.data())
def test_extremes_and_their_indices_agree_with_numpy(name: str, device: str, data: st.DataObject) -> None:
    draw = data.draw
    array, tensor = _pair(draw, device, draw(SHAPES), draw(st.sampled_from(ALL)))
    assume(array.ndim and array.size)
    axis = draw(st.integers(-array.ndim, array.ndim - 1))
    values, indices = getattr(tensor, name)(axis)
    with np.errstate(all="ignore"):  # NumPy warns of NaN among elements of bfloat16
        _same(values, getattr(np, name)(array, axis=axis))
    np.testing.assert_array_equal(indices.cpu().numpy(), getattr(np, f"arg{name}")(array, axis=axis))
    if tensor.dtype is ALL[0]:
        return  # torch looks for the largest of bool along a dimension, but has no argmax of them
    np.testing.assert_array_equal(getattr(tensor, f"arg{name}")().cpu().numpy(), getattr(np, f"arg{name}")(array))


@given(data=st.data())
def test_products_of_matrices_agree_with_numpy(device: str, data: st.DataObject) -> None:
    draw = data.draw
    kind = draw(st.sampled_from([*FLOATS, cuplug.int64, cuplug.int32]))
    rows, inner, columns = (draw(st.integers(0, 5)) for _ in range(3))
    batch = draw(st.lists(st.integers(1, 3), max_size=2).map(tuple))
    left = (*draw(st.sampled_from([batch, (), (1,) * len(batch)])), rows, inner)
    right = (*draw(st.sampled_from([batch, ()])), inner, columns)
    if draw(st.booleans()):
        left = left[-1:]
    if draw(st.booleans()):
        right = right[-2:-1]
    a, b = (_values(draw, shape, kind) for shape in (left, right))
    if kind.kind == "f":
        a, b = (np.nan_to_num(each.astype(np.float64), posinf=1, neginf=1).astype(kind.numpy) for each in (a, b))
    x, y = cuplug.tensor(a, device=device), cuplug.tensor(b, device=device)
    if draw(st.booleans()) and y.ndim > 1:  # the same values with other strides
        y = y.transpose(-1, -2).contiguous().transpose(-1, -2)
    if draw(st.booleans()) and x.ndim > 1:
        x = x.transpose(-1, -2).contiguous().transpose(-1, -2)
    wide = [each.astype(np.float64) if kind.kind == "f" else each for each in (a, b)]
    _agree(x @ y, np.matmul(*wide), kind, slack=20.0)


@given(data=st.data())
def test_indexing_by_tensors_agrees_with_numpy(device: str, data: st.DataObject) -> None:
    draw = data.draw
    array, tensor = _pair(draw, device, draw(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)), ALL[5])
    assume(array.size)
    key_a: list[Any] = []
    key_t: list[Any] = []
    count = draw(st.integers(1, 3))
    for length in array.shape[: draw(st.integers(1, array.ndim))]:
        kind = draw(st.sampled_from(["slice", "integers", "integer", "ellipsis"]))
        if kind == "slice" or kind == "ellipsis":
            part = slice(draw(st.integers(-2, 2)), None, draw(st.sampled_from([1, 2, -1])))
            key_a.append(part)
            key_t.append(part)
        elif kind == "integer":
            number = draw(st.integers(-length, length - 1))
            # NumPy takes a number beside index arrays for one of them, torch takes it first: compare by slices.
            key_a.append(number if not any(isinstance(each, np.ndarray) for each in key_a) else slice(None))
            key_t.append(key_a[-1])
        else:
            index = np.array(draw(st.lists(st.integers(-length, length - 1), min_size=count, max_size=count)))
            key_a.append(index)
            key_t.append(cuplug.tensor(index, device=draw(st.sampled_from(["cpu", device]))))
    integers_then_arrays = any(isinstance(each, int) for each in key_a) and any(
        isinstance(each, np.ndarray) for each in key_a
    )
    assume(not integers_then_arrays)
    expected = array[tuple(key_a)]
    np.testing.assert_array_equal(tensor[tuple(key_t)].cpu().numpy(), expected)
    changed = array.copy()
    target = tensor.contiguous().clone()
    changed[tuple(key_a)] = -7
    target[tuple(key_t)] = -7
    np.testing.assert_array_equal(target.cpu().numpy(), changed)


@given(data=st.data())
def test_masks_agree_with_numpy(device: str, data: st.DataObject) -> None:
    draw = data.draw
    array, tensor = _pair(draw, device, draw(SHAPES), draw(st.sampled_from(ALL)))
    assume(array.ndim)
    mask, there = _pair(draw, draw(st.sampled_from(["cpu", device])), array.shape, ALL[0])
    if mask.shape != array.shape:  # a step has changed it
        mask = _values(draw, array.shape, ALL[0])
        there = cuplug.tensor(mask, device=device)
    covered = draw(st.integers(1, array.ndim))
    first = (0,) * (array.ndim - covered)
    assume(all(array.shape[covered:]))
    mask, there = mask[(..., *first)], there[(..., *first)]
    _same(tensor[there], array[mask])
    for value in (1, _values(draw, array.shape[covered:], draw(st.sampled_from(INTEGERS))), array[mask][::-1]):
        changed, target = array.copy(order="K"), tensor.clone()
        changed[mask] = value
        target[there] = value if isinstance(value, int) else cuplug.tensor(value, device=device)
        _same(target, changed)
    _same(there.nonzero(), np.argwhere(mask))
    for found, expected in zip(there.nonzero(as_tuple=True), mask.nonzero(), strict=True):
        _same(found, expected)


@given(data=st.data())
def test_writing_where_a_mask_is_true_agrees_with_numpy(device: str, data: st.DataObject) -> None:
    draw = data.draw
    kind = draw(st.sampled_from(ALL))
    array, tensor = _pair(draw, device, draw(SHAPES), kind)
    shape = draw(st.sampled_from([array.shape, array.shape[1:], ()]))
    mask = _values(draw, shape, ALL[0])
    there = cuplug.tensor(mask, device=device)
    value = draw(st.sampled_from([1, 0, True]))
    if draw(st.booleans()):
        value = cuplug.tensor(value, device=draw(st.sampled_from(["cpu", device])))
    expected = np.where(mask, np.ones((), kind.numpy) * bool(value), array).astype(kind.numpy)
    _same(tensor.masked_fill(there, value), expected)
    _same(tensor.masked_fill_(there, value), expected)
    selected = tensor.masked_select(there)
    _same(selected, expected[np.broadcast_to(mask, array.shape)].reshape(-1))


@given(data=st.data())
def test_masks_beside_index_tensors_and_slices_agree_with_numpy(device: str, data: st.DataObject) -> None:
    draw = data.draw
    array, tensor = _pair(draw, device, (3, 4, 2), ALL[5])
    assume(array.ndim == 3 and 0 not in array.shape)
    axis = draw(st.integers(0, 2))
    mask = _values(draw, array.shape[axis : axis + 1], ALL[0])
    key_a: list[Any] = [slice(None, None, draw(st.sampled_from([1, -1])))] * axis + [mask]
    key_t = [*key_a[:axis], cuplug.tensor(mask, device=draw(st.sampled_from(["cpu", device])))]
    if axis < 2 and draw(st.booleans()):  # beside one integer for each True, in another integer type
        more = np.array(
            draw(st.lists(st.integers(-1, 0), min_size=int(mask.sum()), max_size=int(mask.sum()))), np.int32
        )
        key_a.append(more)
        key_t.append(cuplug.tensor(more, device=device))
    expected = array[tuple(key_a)]
    _same(tensor[tuple(key_t)], expected)
    target = tensor.clone()
    values = _values(draw, expected.shape, ALL[2])
    changed = array.copy()
    changed[tuple(key_a)] = values
    target[tuple(key_t)] = cuplug.tensor(values, device=device)
    if len(key_a) == axis + 1 or len({*zip(*np.atleast_2d(key_a[-1]))}) == len(key_a[-1]):  # noqa: B905
        _same(target, changed)


@given(data=st.data())
def test_joining_any_views_agrees_with_numpy(device: str, data: st.DataObject) -> None:
    draw = data.draw
    shape = draw(SHAPES)
    kind = draw(st.sampled_from(ALL))
    mixed = [kind] if kind.name == "bfloat16" else [kind, ALL[5]]  # NumPy does not promote bfloat16
    pairs = [_pair(draw, device, shape, draw(st.sampled_from(mixed))) for _ in range(draw(st.integers(1, 4)))]
    pairs = [pair for pair in pairs if pair[0].shape == pairs[0][0].shape]
    arrays, tensors = zip(*pairs, strict=True)
    axis = draw(st.integers(0, arrays[0].ndim))
    found = cuplug.stack(tensors, axis)
    _same(found, np.stack(arrays, axis).astype(found.dtype.numpy))
    if axis < arrays[0].ndim:
        longer = [np.concatenate([arrays[0], arrays[0]], axis), *arrays[1:]]
        first = cuplug.tensor(longer[0], device=device)
        found = cuplug.cat([first, *tensors[1:]], axis)
        _same(found, np.concatenate(longer, axis).astype(found.dtype.numpy))
