"""What runs PyTorch's own test files tells tests that are alike from those that differ, and from those that miss a
name. PyTorch's files themselves are run by hand: ``torch_files/run_torch_files.py``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "torch_files" / "run_torch_files.py"

FILE = """
import torch
import torch.autograd._functions.utils
import torch.testing._internal.hypothesis_utils as hypothesis_utils
import torch.utils.data.datapipes as datapipes
from torch.utils.data.datapipes.iter import IterableWrapper
from torch.testing import make_tensor
from torch.testing._internal.common_cuda import _get_torch_cuda_version
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests, largeTensorTest, onlyCUDA
from torch.testing._internal.common_nn import NewModuleTest, get_new_module_tests, module_tests
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_device_type import ops
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests
from torch.testing._internal.common_utils import MACOS_VERSION, get_function_arglist
from unittest import skipIf

from torch.testing._internal.logging_tensor import LoggingTensor
hypothesis_utils.assert_deadline_disabled()
engines = torch.backends.quantized.supported_engines

def _ends_well():
    assert torch.ones(1).item() == 1

class TestPlain(TestCase):
    def test_in_a_process_that_is_started_anew(self):
        process = torch.multiprocessing.get_context("spawn").Process(target=_ends_well)
        process.start()
        process.join()
        self.assertEqual(process.exitcode, 0)

    def test_values_within_the_tolerance_are_equal(self):
        self.assertEqual(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]))
        with self.assertRaises(AssertionError):
            self.assertEqual(torch.tensor([1.0]), torch.tensor([1.1]))
        with self.assertRaises(AssertionError):
            self.assertEqual(torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.double))

    def test_that_is_for_pytorch_alone(self):
        self.assertEqual(torch.__name__, "torch")

    def test_that_fails_under_both(self):
        self.assertEqual(1, 2)

    def test_that_misses_a_name(self):
        torch.linalg.svd(torch.eye(2))

    def test_that_misses_a_module(self):
        datapipes.iter.IterableWrapper([1])

    def test_that_needs_a_tool(self):
        LoggingTensor(torch.ones(1))

    @parametrize("number", [1, 2])
    def test_of(self, number):
        self.assertLess(number, 3)


class TestDevices(TestCase):
    @dtypes(torch.float, torch.cfloat)
    def test_types(self, device, dtype):
        self.assertEqual(make_tensor((3,), dtype=dtype, device=device).dtype, dtype)

    @onlyCUDA
    def test_on_a_gpu(self, device):
        self.fail("not here")

    @largeTensorTest(lambda self, device: 2**40)
    @dtypes(*([torch.float] if MACOS_VERSION < 14.0 else [torch.double]))
    def test_large(self, device, dtype):
        self.fail("not here")

    @skipIf("none" not in engines or _get_torch_cuda_version() < (12, 1), "needs another library")
    def test_skipped(self, device):
        self.fail("not here")

    @ops(op_db)
    def test_operation(self, device, dtype, op):
        self.fail("not here")


instantiate_parametrized_tests(TestPlain)
instantiate_device_type_tests(TestDevices, globals())
for described in [*module_tests, *get_new_module_tests(), {"module_name": "ReLU"}, {"module_name": "ELU"}]:
    made = NewModuleTest(**described)
    assert not hasattr(TestPlain, made.get_name()) and get_function_arglist(made.test_cuda)
    setattr(TestPlain, made.get_name(), lambda self, made=made: made(self))
if __name__ == "__main__":
    run_tests()
"""


@pytest.mark.one_schedule
@pytest.mark.needs_torch
def test_a_file_of_tests_is_counted_by_what_becomes_of_each(tmp_path: Path) -> None:
    file = tmp_path / "test" / "test_some.py"
    file.parent.mkdir()
    file.write_text(FILE)
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(file), "--show"], capture_output=True, text=True, timeout=600, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[1].split() == ["test/test_some.py", "9", "3", "5", "1", "83.3%"], done.stdout
    assert lines[2].startswith("  TestPlain.test_that_is_for_pytorch_alone: ")
    assert lines[-2].split() == ["all", "9", "3", "5", "1", "83.3%"]
    assert lines[-1] == "missing: cfloat (1), utils.data.datapipes.iter (1), linalg.svd (1)"
