"""What PyTorch's own test files import of PyTorch's tools for tests, small enough to stand on cuplug, too.

The files of ``pytorch/test`` import ``torch.testing._internal.common_utils`` and its kin, which need the whole of
PyTorch. These stand in for them, under both libraries alike: cases that compare by tolerance, parameters, types of
elements, one device (the CPU). A tool that is not here skips the tests that need it, under both libraries, so that they
are not counted.
"""

# ruff: noqa: PT009 - the cases are unittest's, and their comparison goes by tolerance

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import io
import itertools
import os
import sys
import tempfile
import types
import unittest
import unittest.mock
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from compared_cases import TestCase, assert_close, make_tensor, warn_always
from names_not_there import as_it_is, left_out, tool_is_not_here
from parameters_of_tests import (
    deviceCountAtLeast,
    instantiate_device_type_tests,
    instantiate_parametrized_tests,
    of_types,
    overriding,
    parametrize,
    subtest,
    tol,
)

__all__ = ["install"]


def _types(*names: str) -> tuple[Any, ...]:
    torch = sys.modules["torch"]
    return tuple(getattr(torch, name) for name in names)


def _common_dtypes() -> dict[str, Any]:
    floating, complex_ = _types("float32", "float64"), _types("complex64", "complex128")
    integral = _types("uint8", "int8", "int16", "int32", "int64")
    half, bfloat16, bool_ = _types("float16", "bfloat16", "bool")
    groups = {
        "floating_types": floating,
        "complex_types": complex_,
        "integral_types": integral,
        "all_types": floating + integral,
        "floating_and_complex_types": floating + complex_,
        "all_types_and_complex": floating + integral + complex_,
        "double_types": (floating[1], complex_[1]),
    }
    found: dict[str, Any] = {name: functools.partial(tuple, group) for name, group in groups.items()}
    for name, group in groups.items():
        found[f"{name}_and"] = functools.partial(lambda group, *more: tuple(group) + more, group)
    found["floating_types_and_half"] = lambda: (*floating, half)

    def every(
        include_half: bool = True,
        include_bfloat16: bool = True,
        include_bool: bool = True,
        include_complex: bool = True,
        include_complex32: bool = False,
    ) -> list[Any]:
        assert not include_complex32, "no test asks for it"
        wanted = [*integral, *floating, *((bool_,) if include_bool else ()), *((half,) if include_half else ())]
        return [*wanted, *((bfloat16,) if include_bfloat16 else ()), *(complex_ if include_complex else ())]

    found["get_all_dtypes"] = every
    found["get_all_math_dtypes"] = lambda device: [*integral, *floating, *complex_]
    found["get_all_int_dtypes"] = lambda: list(integral)
    found["get_all_complex_dtypes"] = lambda: list(complex_)
    found["get_all_fp_dtypes"] = lambda: [*floating, half, bfloat16]
    return found


# Settings


def _restoring(get: Callable[[], Any], put: Callable[[Any], Any]) -> Callable[..., Any]:
    @contextlib.contextmanager
    def context(*value: Any) -> Iterator[None]:
        before = get()
        try:
            if value:
                put(value[0])
            yield
        finally:
            put(before)

    return context


class _Deterministic:
    def __init__(self, enabled: bool, *, warn_only: bool = False, **_: Any) -> None:
        self._wanted = enabled, warn_only

    def __enter__(self) -> None:
        torch = sys.modules["torch"]
        self._before = (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        )
        torch.use_deterministic_algorithms(self._wanted[0], warn_only=self._wanted[1])

    def __exit__(self, *_: object) -> None:
        sys.modules["torch"].use_deterministic_algorithms(self._before[0], warn_only=self._before[1])


@contextlib.contextmanager
def _temporary_file(*_: Any, **named: Any) -> Iterator[str]:
    handle, path = tempfile.mkstemp(**named)
    os.close(handle)
    try:
        yield path
    finally:
        os.unlink(path)


@contextlib.contextmanager
def _temporary_folder(suffix: str | None = None) -> Iterator[str]:
    with tempfile.TemporaryDirectory(suffix=suffix) as path:
        yield path


def _quietly(function: Any) -> Any:
    @functools.wraps(function)
    def quiet(*given: Any, **named: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*given, **named)

    return quiet


# Networks


def _create_basic_net() -> tuple[Any, Any, Any]:
    torch = sys.modules["torch"]
    nn = torch.nn

    class Layer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer_dummy_param = nn.Parameter(torch.empty(3, 5))
            self.register_buffer("layer_dummy_buf", torch.zeros(1, 3, 3, 7))

    class Net(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.l1 = Layer()
            self.dummy_param = nn.Parameter(torch.empty(3, 5))
            self.register_buffer("dummy_buf", torch.zeros(7, 3, 3, 1))

    net = Net()
    return Layer(), net, nn.Sequential(net, net)


def _with_empty_input(case: Any, module: Any, given: Any, check_size: bool = True, inference: bool = False) -> None:
    torch = sys.modules["torch"]
    given.requires_grad_(not inference)
    out = module(given)
    if check_size:
        case.assertEqual(out.size(), given.size())
    if not inference:
        out.backward(torch.rand_like(out))
        for each in (*(each for each in module.parameters() if each.requires_grad), given):
            case.assertEqual(each.grad, torch.zeros_like(each))


class _OfTheTable:
    """A test that PyTorch's table of modules describes: what runs these is not here."""

    _numbers = itertools.count()

    def __init__(self, **_: Any) -> None:
        self._number = next(self._numbers)

    def get_name(self) -> str:
        return f"test_of_the_table_{self._number}"

    def __call__(self, case: unittest.TestCase) -> None:
        case.skipTest("needs the table of modules")

    test_cuda = __call__


class _AbsentTools(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds each module of PyTorch's tools that has no stand-in: what is asked of it is a tool that is not here."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname.startswith("torch.testing._internal."):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _module(name: str, **names: Any) -> types.ModuleType:
    made = types.ModuleType(name)
    made.__dict__.update(names)
    made.__path__ = []
    made.__dict__["__getattr__"] = lambda missing: _absent_tool(name, missing)
    sys.modules[name] = made
    above, _, last = name.rpartition(".")
    setattr(sys.modules[above], last, made)
    return made


def _absent_tool(module: str, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return tool_is_not_here(f"{module}.{name}".removeprefix("torch.testing._internal."))


_CHANGING_NOTHING = (
    *("gcIfJetson", "markDynamoStrictTest", "serialTest", "skipCUDAMemoryLeakCheckIf", "skipIfCrossRef", "skipIfMps"),
    *("skipIfNoLapack", "skipIfNotMiopenSuggestNHWC", "skipIfRocm", "skipIfRocmVersionLessThan", "skipIfTorchDynamo"),
    *("skipIfTorchInductor", "skipRocmIfTorchInductor", "xfailIfTorchDynamo", "wrapDeterministicFlagAPITest"),
    *("skipIfXpu", "xfailIf", "swap"),
)
_CHANGING_NOTHING_OF_DEVICES = (
    *("disableMkldnn", "disablecuDNN", "expectedFailureMeta", "expectedFailureXLA"),
    *("onlyCPU", "onlyNativeDeviceTypes", "skipCUDAIf", "skipCUDAIfCudnnVersionLessThan", "skipCUDAIfMiopen"),
    *("skipCUDAIfNoCudnn", "skipCUDAIfNoMiopen", "skipCUDAIfNotMiopenSuggestNHWC", "skipCUDAIfNotRocm"),
    *("skipCUDAIfRocm", "skipCUDAIfRocmVersionLessThan", "skipLazy", "skipMPS", "skipMeta", "skipXLA"),
    *("skipCPUIfNoLapack", "skipCUDAIfNoMagma", "skipMPSVersionIfLessThan", "expectedFailureMPS"),
)
_NOT_SO = (
    *("IS_CI", "IS_FBCODE", "IS_JETSON", "IS_MACOS", "IS_PPC", "IS_REMOTE_GPU", "IS_SANDCASTLE", "IS_WINDOWS"),
    *("NO_MULTIPROCESSING_SPAWN", "TEST_CUDA", "TEST_DILL", "TEST_PRIVATEUSE1", "TEST_WITH_ASAN", "TEST_WITH_CROSSREF"),
    *("TEST_WITH_ROCM", "TEST_WITH_TORCHDYNAMO", "TEST_WITH_TORCHINDUCTOR", "TEST_WITH_TSAN", "TEST_WITH_UBSAN"),
    *("TEST_MULTIGPU", "TEST_CUDNN", "TEST_MPS", "TEST_XPU", "TEST_MKL"),
)


def install(torch: Any) -> None:
    """Put the tools where the files of tests look for them, for the rest of the process."""
    numpy_types = {
        getattr(np, name): getattr(torch, name)
        for name in ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
    }
    numpy_types[np.bool_] = torch.bool
    numpy_types.update({np.complex64: torch.complex64, np.complex128: torch.complex128})
    random_states = _restoring(torch.get_rng_state, torch.set_rng_state)
    no_types = of_types("dtypes_of_others")
    for name in [each for each in sys.modules if f"{each}.".startswith("torch.testing.")]:
        del sys.modules[name]  # PyTorch has loaded some of its tools by itself
    _module("torch.testing", make_tensor=make_tensor, assert_close=assert_close)
    _module("torch.testing._internal")
    sys.meta_path.insert(0, _AbsentTools())
    _module(
        "torch.testing._internal.common_utils",
        **dict.fromkeys(_CHANGING_NOTHING, as_it_is),
        **dict.fromkeys(_NOT_SO, False),
        TestCase=TestCase,
        run_tests=lambda *_, **__: None,
        load_tests=lambda loader, tests, pattern: tests,
        parametrize=parametrize,
        subtest=subtest,
        instantiate_parametrized_tests=instantiate_parametrized_tests,
        slowTest=left_out("slow"),
        slowTestIf=lambda slow: left_out("slow") if slow else as_it_is,
        download_file=tool_is_not_here("download_file"),
        make_tensor=make_tensor,
        gradcheck=lambda function, inputs, **how: torch.autograd.gradcheck(function, inputs, **_known(how)),
        gradgradcheck=lambda function, inputs, *more, **how: torch.autograd.gradgradcheck(
            function, inputs, *more, **_known(how)
        ),
        _assertGradAndGradgradChecks=lambda case, function, inputs, **how: (
            case.assertTrue(torch.autograd.gradcheck(function, inputs, **_known(how))),
            case.assertTrue(torch.autograd.gradgradcheck(function, inputs, **_known(how))),
        ),
        GRADCHECK_NONDET_TOL=0.0,
        dtype2prec_DONTUSE={torch.float32: 1e-5, torch.float64: 1e-5, torch.float16: 1e-2, torch.bfloat16: 1e-1},
        get_function_arglist=lambda function: inspect.getfullargspec(function).args,
        TEST_NUMPY=True,
        MACOS_VERSION=0.0,
        IS_FILESYSTEM_UTF8_ENCODING=True,
        TEST_SCIPY=importlib.util.find_spec("scipy") is not None,
        skipIfNoSciPy=unittest.skipIf(importlib.util.find_spec("scipy") is None, "no SciPy"),
        skipIfNoDill=left_out("no dill"),
        numpy_to_torch_dtype_dict=numpy_types,
        torch_to_numpy_dtype_dict={theirs: name for name, theirs in numpy_types.items()},
        set_default_dtype=_restoring(torch.get_default_dtype, torch.set_default_dtype),
        freeze_rng_state=random_states,
        DeterministicGuard=_Deterministic,
        set_warn_always_context=warn_always,
        suppress_warnings=_quietly,
        TemporaryFileName=_temporary_file,
        TemporaryDirectoryName=_temporary_folder,
        BytesIOContext=io.BytesIO,
        iter_indices=lambda tensor: itertools.product(*map(range, tensor.shape)),
        is_iterable_of_tensors=lambda given: all(isinstance(each, torch.Tensor) for each in given),
    )
    _module(
        "torch.testing._internal.common_device_type",
        **dict.fromkeys(_CHANGING_NOTHING_OF_DEVICES, as_it_is),
        **dict.fromkeys(("dtypesIfCUDA", "dtypesIfMPS", "dtypesIfXPU", "dtypesIfHPU"), no_types),
        TEST_WITH_ROCM=False,
        PYTORCH_CUDA_MEMCHECK=False,
        instantiate_device_type_tests=instantiate_device_type_tests,
        dtypes=of_types("dtypes_of_all"),
        dtypesIfCPU=of_types("dtypes_of_cpu"),
        deviceCountAtLeast=deviceCountAtLeast,
        onlyCUDA=left_out("needs CUDA"),
        onlyOn=lambda device: as_it_is if "cpu" in device else left_out("other devices"),
        onlyCUDAAndPRIVATEUSE1=left_out("needs CUDA"),
        largeTensorTest=lambda *_, **__: unittest.skip("needs much memory"),  # the size may be a function
        skipCPUIfNoMkldnn=left_out("needs oneDNN"),
        ops=left_out("needs the database of operations"),
        precisionOverride=overriding("precision_overrides"),
        toleranceOverride=overriding("tolerance_overrides"),
        tol=tol,
        get_all_device_types=lambda: ["cpu"],
    )
    _module("torch.testing._internal.common_dtype", **_common_dtypes())
    _module(
        "torch.testing._internal.common_cuda",
        **dict.fromkeys(_NOT_SO, False),
        PLATFORM_SUPPORTS_FLASH_ATTENTION=False,
        _get_torch_cuda_version=lambda: (0, 0),
        _get_torch_rocm_version=lambda: (0, 0),
        tf32_is_not_fp32=lambda: False,
        tf32_on_and_off=as_it_is,
        tf32_off=contextlib.nullcontext,
    )
    _module("torch.testing._internal.common_mkldnn", bf32_on_and_off=as_it_is, reduced_f32_on_and_off=as_it_is)
    _module(
        "torch.testing._internal.common_nn",
        NNTestCase=TestCase,
        _create_basic_net=_create_basic_net,
        _test_module_empty_input=_with_empty_input,
        freeze_rng_state=random_states,
        NewModuleTest=_OfTheTable,
        CriterionTest=_OfTheTable,
        criterion_tests=(),
        module_tests=(),
        new_module_tests=(),
    )
    for name in (
        "common_methods_invocations",
        "common_optimizers",
        "two_tensor",
        "common_modules",
        "opinfo",
        "jit_utils",
    ):
        _module(f"torch.testing._internal.{name}", optims=left_out("needs the database of optimisers"))


def _known(how: dict[str, Any]) -> dict[str, Any]:
    """Arguments of ``gradcheck`` without those that choose how quickly it does its work."""
    return {name: value for name, value in how.items() if name not in ("fast_mode", "check_batched_grad", "nondet_tol")}
