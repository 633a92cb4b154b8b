"""The files that follow from others are up to date, and follow from a new line of the table as from the old ones."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.runtime.tensor.places.tables_with_gradients import elementwise_table
from cuplug.runtime.tensor.places.tables_with_gradients.elementwise_table import TABLE, Elementwise, TypeRule
from cuplug.runtime.tensor.write_generated import FILES, elementwise_source

pytestmark = pytest.mark.one_schedule


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_generated_file_is_up_to_date(path: Path) -> None:
    assert path.read_text() == FILES[path](), "run python -m cuplug.runtime.tensor.write_generated"


def test_a_line_in_the_table_is_an_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is generated of a line, for one that is not in the table."""
    softplus = Elementwise(
        "softplus", 1, lambda a: np.log1p(np.exp(a)), "log1p(exp(a))", TypeRule.FLOAT, doc="Softly ``max(input, 0)``"
    )
    monkeypatch.setitem(elementwise_table.BY_NAME, "softplus", softplus)
    made: dict[str, Any] = {
        "__name__": "cuplug.runtime.tensor.ops.elementwise.new",
        "__package__": "cuplug.runtime.tensor.ops.elementwise",
    }
    exec(elementwise_source([softplus]), made)
    assert made["__all__"] == ["softplus", "softplus_"]
    x = cuplug.tensor([0, 1])
    np.testing.assert_allclose(made["softplus"](x).numpy(), np.log1p(np.exp([0.0, 1.0])), rtol=1e-6)
    y = cuplug.tensor([0.0, 1.0])
    assert made["softplus_"](y) is y
    np.testing.assert_allclose(y.numpy(), np.log1p(np.exp([0.0, 1.0])), rtol=1e-6)
    assert inspect.getdoc(made["softplus"]).startswith("Softly ``max(input, 0)``, element by element.")  # type: ignore[union-attr]


def _public() -> dict[str, Any]:
    functions = {name: getattr(cuplug.Tensor, name, None) for name in dir(cuplug.Tensor) if not name.startswith("_")}
    functions |= {name: getattr(cuplug, name) for name in dir(cuplug) if not name.startswith("_")}
    return {name: each for name, each in functions.items() if inspect.isfunction(each)}


@pytest.mark.parametrize("name", sorted(name for name, each in _public().items() if "tensor" in each.__module__))
def test_a_function_says_what_it_does_and_takes_arguments_by_their_names(name: str) -> None:
    function = _public()[name]
    text = inspect.getdoc(function)
    assert text, name
    assert text.rstrip().endswith((".", ".)", "``")), text
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        assert parameter.annotation is not parameter.empty, f"{name}: {parameter}"
        if parameter.kind is parameter.VAR_KEYWORD:
            assert name in ("to", "cuda", "copy_"), f"{name} takes {parameter}"  # the keyword async of old programs
    assert signature.return_annotation is not signature.empty


def test_every_line_of_the_table_is_described() -> None:
    assert [each.name for each in TABLE if not each.doc or each.doc.endswith(".")] == []
