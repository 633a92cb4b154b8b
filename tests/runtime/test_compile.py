"""``torch.compile`` gives back what it is given, and what stands around it in programs does as little."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import cuplug
import pytest
from cuplug.runtime.facade import eager_compiler

pytestmark = pytest.mark.one_schedule


@pytest.fixture(autouse=True)
def untold() -> Iterator[None]:
    """As in a new process, nobody was told yet that nothing is compiled."""
    eager_compiler.tell.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def twice(x: Any) -> Any:
    return x * 2


def test_a_function_and_a_module_are_given_back() -> None:
    network = cuplug.nn.Linear(2, 3)
    assert cuplug.compile(twice) is twice
    assert cuplug.compile(network, mode="reduce-overhead", fullgraph=True, dynamic=False) is network
    assert cuplug.compile(model=network, backend="nvfuser", options={"epilogue_fusion": True}) is network
    assert list(network.state_dict()) == ["weight", "bias"]


def test_it_is_a_decorator_with_and_without_arguments() -> None:
    assert cuplug.compile()(twice) is twice
    assert cuplug.compile(mode="max-autotune", recompile_limit=2)(twice) is twice

    class Network(cuplug.nn.Module):
        @cuplug.compile
        def forward(self, x: Any) -> Any:
            return x + 1

    assert Network()(cuplug.ones(2)).tolist() == [2, 2]


def test_a_module_is_compiled_in_place() -> None:
    network = cuplug.nn.Sequential(cuplug.nn.Linear(2, 2))
    x = cuplug.ones(1, 2)
    before = network(x).tolist()
    assert network.compile(fullgraph=True) is None
    assert network(x).tolist() == before
    with pytest.raises(RuntimeError, match="mode 'fast' is none of default"):
        network.compile(mode="fast")


def test_the_first_call_of_a_process_warns_that_nothing_is_compiled() -> None:
    with pytest.warns(UserWarning, match="compiles nothing") as told:
        cuplug.compile(twice)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cuplug.compile(cuplug.nn.ReLU())


def test_who_disables_it_is_not_warned() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cuplug.compile(twice, disable=True) is twice
        assert cuplug.compile(disable=True)(twice) is twice


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"model": twice, "mode": "default", "options": {}}, "either mode or options"),
        ({"model": twice, "mode": "fast"}, "mode 'fast' is none of default"),
        ({"model": 3}, "a function or a module is needed, not int"),
    ],
)
def test_what_is_wrong_in_any_case_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        cuplug.compile(**arguments)
    with pytest.raises(RuntimeError, match="not None"):
        cuplug.compile()(None)
    with pytest.raises(TypeError, match="no_such_argument"):
        cuplug.compile(twice, no_such_argument=1)


def test_a_mode_of_another_compiler_is_not_looked_up() -> None:
    assert cuplug.compile(twice, backend="aot_eager", mode="fast") is twice


def test_a_module_that_was_compiled_says_where_the_module_itself_is() -> None:
    network = cuplug.compile(cuplug.nn.Linear(1, 1))
    assert not hasattr(network, "_orig_mod")  # programs strip it while it is there
    with pytest.raises(AttributeError, match="use the module itself"):
        _ = network._orig_mod
    assert not isinstance(network, cuplug._dynamo.eval_frame.OptimizedModule)


def test_what_programs_write_around_it_does_nothing() -> None:
    compiler = cuplug.compiler
    assert compiler.is_compiling() is compiler.is_dynamo_compiling() is compiler.is_exporting() is False
    assert compiler.disable(twice) is compiler.disable(recursive=False)(twice) is twice
    assert compiler.allow_in_graph(twice) is compiler.assume_constant_result(twice) is twice
    assert compiler.reset() is compiler.cudagraph_mark_step_begin() is cuplug._dynamo.graph_break() is None
    assert cuplug._dynamo.mark_dynamic(cuplug.ones(2), 0, min=2) is None
    with pytest.raises(AttributeError, match=r"compiler\.set_stance is not part of cuplug"):
        _ = compiler.set_stance


def test_settings_of_a_compiler_are_kept_and_have_no_values_of_their_own() -> None:
    program = (
        "import sys, cuplug.as_torch; cuplug.as_torch()\n"
        "import torch, torch._dynamo, torch._inductor.config as inductor\n"
        "torch._dynamo.config.suppress_errors = True\n"
        "assert torch._dynamo.config.suppress_errors\n"
        "inductor.triton.unique_kernel_names = torch._inductor.config.coordinate_descent_tuning = True\n"
        "assert inductor.coordinate_descent_tuning\n"
        "assert not hasattr(torch._dynamo.config, 'cache_size_limit')\n"
        "try: torch._dynamo.config.cache_size_limit\n"
        "except AttributeError as error: sys.exit(str(error))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert "cache_size_limit is not part of cuplug, which compiles nothing" in done.stderr


def test_functions_and_classes_are_scripted_as_they_are_and_modules_are_refused() -> None:
    with pytest.warns(UserWarning, match="compiles nothing"):
        assert cuplug.jit.script(twice) is twice
    assert cuplug.jit.script(dict) is dict
    for given in (cuplug.nn.ReLU(), 3):
        with pytest.raises(RuntimeError, match=r"jit\.script of .* is not part of cuplug.*use the module itself"):
            cuplug.jit.script(given)
    with pytest.raises(AttributeError, match=r"jit\.trace is not part of cuplug.*the functions and modules themselves"):
        _ = cuplug.jit.trace


def test_marks_for_scripts_do_nothing() -> None:
    jit = cuplug.jit
    assert jit.ignore(twice) is jit.ignore()(twice) is jit.ignore(drop=True)(twice) is twice
    assert jit.unused(twice) is jit.export(twice) is jit.script_if_tracing(twice) is twice
    assert jit.is_scripting() is jit.is_tracing() is False
    assert jit.annotate(int, 3) == 3

    class Layer(cuplug.nn.Module):
        size: jit.Final[int]

        @jit._overload_method
        def forward(self, x: Any) -> Any:
            return x

    assert Layer()(3) == 3
