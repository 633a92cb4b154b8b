"""Functions that are written out for their arguments."""

from __future__ import annotations

from cuplug.runtime.kernels.launch.unrolling import Unroller


def test_each_argument_has_its_own_text() -> None:
    arguments = Unroller(["tensor", "number", "tensor"])
    assert arguments.each("a{k}", between=", ") == "a0, a1, a2"
    assert arguments.each({"tensor": "p{k} = a{k}"}, between="; ") == "p0 = a0; p2 = a2"
    assert arguments.each("a{k}", only=["number"]) == "a1"


def test_generated_code_says_that_it_is_cuplugs() -> None:
    assert Unroller.function("def module(): return __name__", "module")().startswith("cuplug.")
