"""Torch's paths below ``cuplug``: each leads to the one module, and what is missing says so."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil
import subprocess
import sys
from operator import attrgetter
from typing import Any, get_type_hints

import cuplug
import pytest
from cuplug.runtime.facade.absent_modules import ABSENT_MODULES
from cuplug.runtime.facade.public_paths import FORMER_PATHS, INNER_PATHS, PATHS

pytestmark = pytest.mark.one_schedule


@pytest.mark.parametrize("path", sorted({*PATHS, *INNER_PATHS, "interop", "interop.pycuda", "cuda"}))
def test_each_file_below_a_public_path_is_the_module_itself(path: str) -> None:
    package = importlib.import_module(f"cuplug.{path}")
    assert package.__name__.startswith("cuplug.runtime.")
    for found in pkgutil.iter_modules(getattr(package, "__path__", [])):
        if found.name != "__main__":
            try:
                inner = importlib.import_module(f"cuplug.{path}.{found.name}")
            except ModuleNotFoundError as error:
                if (error.name or "").startswith("cuplug"):
                    raise
                continue  # another library, which is not installed
            assert inner is sys.modules[f"{package.__name__}.{found.name}"]


def test_a_function_found_by_its_inner_path_is_the_one_that_counts() -> None:
    program = (
        "import cuplug\nfrom cuplug.autograd.grad_mode import no_grad\nx = cuplug.ones(2, requires_grad=True)\n"
        "with no_grad():\n    assert not (x * 2).requires_grad\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_a_path_that_does_not_exist_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"nn\.nowhere is not part of cuplug"):
        importlib.import_module("cuplug.nn.nowhere")


@pytest.mark.parametrize("path", sorted(FORMER_PATHS))
def test_a_former_path_leads_to_the_module_itself(path: str) -> None:
    assert importlib.import_module(f"cuplug.{path}") is sys.modules[f"cuplug.runtime.{FORMER_PATHS[path]}"]


@pytest.mark.parametrize(
    ("program", "path"),
    [
        ("import cuplug.runtime.pinned", "cuplug.runtime.memory.pinned"),
        ("from cuplug.runtime.handle_pool import x", "cuplug.runtime.machine.handle_pool"),
        ("from cuplug.runtime import default_runtime", "cuplug.runtime.machine.default_runtime"),
        ("import cuplug.allocators.recorder", "cuplug.plugins.tracing.recorder"),
    ],
)
def test_an_inner_module_that_stands_elsewhere_is_not_found_and_said_where_it_is(program: str, path: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=rf"; it is {path}$"):
        exec(program)


@pytest.mark.parametrize("path", ["cuda", *sorted(path for path in PATHS if not path.startswith("cuda"))])
def test_a_name_that_a_package_lacks_says_that_it_is_not_part_of_cuplug(path: str) -> None:
    module = importlib.import_module(f"cuplug.{path}")
    with pytest.raises(AttributeError, match=rf"{path}\.NoSuchName is not part of cuplug.*; use "):
        module.NoSuchName  # noqa: B018
    assert not hasattr(module, "__no_such_name__")


@pytest.mark.parametrize("path", sorted(ABSENT_MODULES))
def test_a_module_that_is_left_out_can_be_imported_and_refuses_by_name(path: str) -> None:
    module = importlib.import_module(f"cuplug.{path}")
    with pytest.raises(AttributeError, match=rf"{path}\.anything is not part of cuplug: .* are left out; use "):
        module.anything  # noqa: B018
    with pytest.raises(ModuleNotFoundError, match=rf"{path}\.anything is not part of cuplug"):
        exec(f"from cuplug.{path} import anything")


@pytest.mark.parametrize("path", sorted(path for path in ABSENT_MODULES if "." in path))
def test_a_module_that_is_left_out_is_imported_from_the_package_that_it_is_in(path: str) -> None:
    above, _, name = path.rpartition(".")
    found: dict[str, Any] = {}
    exec(f"from cuplug.{above} import {name} as it", found)
    with pytest.raises(AttributeError, match=rf"{path}\.anything is not part of cuplug: .* are left out; use "):
        found["it"].anything  # noqa: B018


@pytest.mark.parametrize(
    "program",
    [
        "from cuplug.nn import CTCLoss",
        "from cuplug.nn.functional import grid_sample",
        "from cuplug.linalg import inv",
        "from cuplug._utils import _rebuild_tensor",
        "from cuplug.xpu import anything",
        "from cuplug.optim.lr_scheduler import NoSuchScheduler",
        "from cuplug import vmap",
    ],
)
def test_an_import_of_what_is_missing_says_that_it_is_not_part_of_cuplug(program: str) -> None:
    name = program.split()[-1]
    with pytest.raises(ModuleNotFoundError, match=rf"{name} is not part of cuplug.*; use "):
        exec(program)


def test_modules_below_a_package_are_there_without_an_import() -> None:
    program = (
        "import cuplug\nassert cuplug.nn.modules.activation.ReLU is cuplug.nn.ReLU is cuplug.nn.modules.ReLU\n"
        "assert cuplug.utils.data.distributed.DistributedSampler is cuplug.utils.data.DistributedSampler\n"
        "assert cuplug.optim.adam.Adam is cuplug.optim.Adam\n"
        "assert cuplug.nn.modules.pooling.MaxPool2d is cuplug.nn.MaxPool2d\n"
        "from cuplug.nn.modules.pooling import AdaptiveAvgPool2d, _MaxPoolNd\n"
        "from cuplug.nn.modules.flatten import Flatten\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_accelerators_beside_cuda_are_not_there() -> None:
    for path in ("xpu", "mps", "backends.mps", "backends.mkldnn"):
        module = importlib.import_module(f"cuplug.{path}")
        assert not module.is_available()
        assert not module.is_built()
        assert module.device_count() == 0
    assert not cuplug.backends.mps.is_available()


def test_the_version_is_cuplugs_and_that_of_cuda_the_drivers(cuda: Any) -> None:
    assert cuplug.version.__version__ == cuplug.__version__
    major, _, minor = cuplug.version.cuda.partition(".")
    assert int(major) >= 11
    assert minor.isdigit()
    assert cuplug.version.hip is None
    with pytest.raises(AttributeError, match=r"version\.git_version is not part of cuplug"):
        _ = cuplug.version.git_version


def test_no_device_no_version_of_cuda() -> None:
    program = "import cuplug; cuplug.init(driver='sim:devices=0'); print(cuplug.version.cuda)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.stdout == "None\n", done.stderr


@pytest.mark.parametrize("name", ["ops", "vmap", "complex64", "_C", "_foreach_erf2", "overrides", "NoSuchName"])
def test_a_name_that_cuplug_lacks_says_that_it_is_not_part_of_it(name: str) -> None:
    with pytest.raises(AttributeError, match=f"^{name} is not part of cuplug.*; use "):
        getattr(cuplug, name)
    with pytest.raises(ModuleNotFoundError, match=f"^{name} is not part of cuplug.*; use "):
        exec(f"from cuplug import {name}")
    assert not hasattr(cuplug, "__no_such_name__")


@pytest.mark.parametrize(
    "text",
    [
        "tensor(1j)",
        "ones(2) * 1j",
        "ones(2) == 1j",
        "1j * ones(2)",
        "device('meta')",
        "ones(2, device='mps')",
        "nn.Linear(2, 2).register_backward_hook(print)",
        "autograd.gradcheck(abs, ones(2, requires_grad=True), check_forward_ad=True)",
    ],
)
def test_an_argument_or_attribute_that_cuplug_lacks_says_that_it_is_not_part_of_it(text: str) -> None:
    with pytest.raises((AttributeError, RuntimeError, TypeError), match="is not part of cuplug"):
        eval(text, {name: getattr(cuplug, name) for name in ("autograd", "device", "nn", "ones", "tensor")})


@pytest.mark.parametrize("name", ["Tensor", "Size", "dtype", "device", "Generator"])
def test_a_class_is_named_by_the_path_from_which_programs_import_it(name: str) -> None:
    found = getattr(cuplug, name)
    assert repr(found) == f"<class 'cuplug.{name}'>"
    assert pickle.loads(pickle.dumps(found)) is found


@pytest.mark.parametrize("name", ["Tensor", "Generator", "nn.Parameter"])
def test_the_type_hints_of_a_class_at_another_path_are_found(name: str) -> None:
    assert get_type_hints(attrgetter(name)(cuplug))


@pytest.mark.parametrize("base", ["Module", "BatchNorm1d", "Sequential"])
def test_the_type_hints_of_a_layer_are_found(base: str) -> None:
    found = getattr(cuplug.nn, base)
    derived = type("Derived", (found,), {"__annotations__": {"size": "int"}, "__module__": __name__})
    assert get_type_hints(derived) == {**get_type_hints(found), "size": int}


def test_a_hint_of_tensors_is_a_type_and_no_method_of_that_name() -> None:
    assert get_type_hints(cuplug.Tensor)["_offset"] is int  # and not Tensor.int


@pytest.mark.parametrize("name", ["Linear", "Module", "BatchNorm1d", "LSTM", "CrossEntropyLoss", "Parameter"])
def test_the_source_of_a_layer_is_found(name: str) -> None:
    assert inspect.getsource(getattr(cuplug.nn, name)).startswith(f"class {name}")
