"""What torch does, recorded from it: how tensors print, and which types results have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cuplug
import pytest
from cuplug.runtime.tensor.core.dtypes import ALL, dtype

pytestmark = pytest.mark.one_schedule

DATA = Path(__file__).with_name("data")


def _printed() -> Iterator[tuple[str, str]]:
    for block in (DATA / "printed_by_torch.txt").read_text().split(">>> ")[1:]:
        expression, _, text = block.partition("\n")
        yield expression, text.rstrip("\n")


@pytest.mark.parametrize(("expression", "text"), list(_printed()))
def test_a_tensor_prints_as_in_torch(expression: str, text: str) -> None:
    names = {"torch": cuplug, "inf": float("inf"), "nan": float("nan")}
    assert repr(eval(expression, names)).replace("cuplug.", "torch.") == text


def test_a_tensor_on_a_device_says_so(device: str) -> None:
    text = repr(cuplug.ones(2, device=device))
    assert text == ("tensor([1., 1.])" if device == "cpu" else "tensor([1., 1.], device='cuda:0')")
    text = repr(cuplug.zeros((2, 0), dtype=cuplug.int8, device=device))
    note = "" if device == "cpu" else "device='cuda:0', "
    assert text == f"tensor([], {note}size=(2, 0), dtype=cuplug.int8)"


def test_printing_options_change_what_is_printed() -> None:
    cuplug.set_printoptions(precision=2)
    assert repr(cuplug.tensor([0.12345])) == "tensor([0.12])"
    cuplug.set_printoptions(sci_mode=True)
    assert repr(cuplug.tensor([0.5])) == "tensor([5.00e-01])"
    cuplug.set_printoptions(profile="full")
    assert "..." not in repr(cuplug.zeros(2000))
    with pytest.raises(ValueError, match="no profile"):
        cuplug.set_printoptions(profile="long")


def _rows() -> Iterator[tuple[str, dtype | None, list[str]]]:
    types = {each.name: each for each in ALL}
    for line in (DATA / "result_types_of_torch.txt").read_text().splitlines():
        if not line.startswith("#"):
            name, _, cells = line.partition(": ")
            operation, _, first = name.partition(" ")
            yield operation, types.get(first), cells.split()


ORDER = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
KINDS = {each.name: each for each in ALL}


def test_promotion_of_two_operands_is_torchs_in_every_case(device: str, running: str) -> None:
    on_gpu = device != "cpu" and running.startswith("cuda")
    for operation, first, cells in _rows():
        if first is None:
            continue
        if on_gpu and (operation, first.name) not in {("add", "bfloat16"), ("eq", "int16"), ("div", "bool")}:
            continue  # nothing of promotion differs there, and each of 3000 cases would compile a kernel
        function = getattr(cuplug, operation)
        x = cuplug.ones(2, dtype=first, device=device)
        found = []
        for name in ORDER:
            other = KINDS[name]
            with_dimensions = _result(function, x, cuplug.ones(2, dtype=other, device=device))
            found.append(f"{with_dimensions}/{_result(function, x, cuplug.ones((), dtype=other, device=device))}")
        found += [_result(function, x, number) for number in (True, 2, 2.5)]
        for case, mine, theirs in zip((*ORDER, True, 2, 2.5), found, cells, strict=True):
            if operation == "pow" and first is KINDS["bool"]:
                continue  # powers of bool are refused here
            assert mine == theirs, (operation, first, case)


def test_types_of_one_operand_are_torchs_in_every_case(device: str) -> None:
    for operation, first, cells in _rows():
        if first is not None:
            continue
        for name, theirs in zip(ORDER, cells, strict=True):
            x = cuplug.ones(2, dtype=KINDS[name], device=device)
            mine = _result(lambda x, operation=operation: getattr(cuplug, operation)(x), x)
            assert mine == theirs, (operation, name)


def _result(function: object, *operands: object) -> str:
    try:
        return str(function(*operands).dtype.name)  # type: ignore[operator]
    except (TypeError, RuntimeError, ValueError):
        return "-"


def test_promotion_is_symmetric_and_an_upper_bound() -> None:
    for a in ALL:
        for b in ALL:
            common = cuplug.promote_types(a, b)
            assert common is cuplug.promote_types(b, a)
            assert cuplug.can_cast(a, common)
            assert cuplug.can_cast(b, common)


def test_an_in_place_result_must_fit_the_tensors_kind_of_type(device: str) -> None:
    x = cuplug.tensor([1, 2], device=device)
    for wrong in (lambda: x.add_(1.5), lambda: x.div_(2), lambda: x.sqrt_()):
        with pytest.raises(TypeError, match="be cast to the desired output type"):
            wrong()
    assert x.mul_(2).tolist() == [2, 4]
    half = cuplug.ones(2, dtype=cuplug.float16, device=device)
    assert half.add_(cuplug.ones(2, dtype=cuplug.float64, device=device)).dtype is cuplug.float16


def test_integers_divided_by_zero_raise_on_the_cpu_and_give_zero_on_a_device() -> None:
    x = cuplug.tensor([1, 2])
    for divide in (lambda: x // 0, lambda: x % 0, lambda: cuplug.fmod(x, 0)):
        with pytest.raises(RuntimeError, match="divided by zero"):
            divide()
    assert (x / 0).tolist() == [float("inf")] * 2


def test_the_default_dtype_can_be_changed() -> None:
    cuplug.set_default_dtype(cuplug.float64)
    assert cuplug.tensor([1.5]).dtype is cuplug.float64
    assert (cuplug.tensor([1]) / 2).dtype is cuplug.float64
    with pytest.raises(TypeError, match="floating-point"):
        cuplug.set_default_dtype(cuplug.int32)


def test_what_follows_the_elements_begins_a_line_where_torchs_does() -> None:
    six = cuplug.full((6,), 1000000, dtype=cuplug.int32)
    assert repr(six) == f"tensor([{', '.join(['1000000'] * 6)}],\n       dtype=cuplug.int32)"
    x = cuplug.full((4,), 1.5, dtype=cuplug.float64, requires_grad=True)
    assert repr(x).endswith("1.5000], dtype=cuplug.float64,\n       requires_grad=True)")
