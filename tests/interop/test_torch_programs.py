"""``cuplug.as_torch()``: programs that import torch run on cuplug, as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.one_schedule

PROGRAM = """
import argparse, subprocess, sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.nn.utils.rnn import pad_sequence
from torch.optim.lr_scheduler import StepLR
from torch.utils.data.dataloader import default_collate
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(8, 4), torch.arange(8) % 2)
    for x, y in DataLoader(data, batch_size=4):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    print(torch.__name__, sys.argv[1:], torch.isfinite(loss).item(), flush=True)
    child = "import torch, sys; print('child', torch.__name__, 'numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", child], check=True)
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300)


def test_a_program_that_imports_torch_runs_unmodified_and_so_do_the_processes_that_it_starts(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = run("-m", "cuplug.as_torch", str(program), "--epochs", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["cuplug ['--epochs', '1'] True", "child cuplug True"]


def test_a_module_that_is_missing_says_that_it_is_not_part_of_cuplug() -> None:
    done = run("-c", "import cuplug; cuplug.as_torch(); cuplug.as_torch()\nimport torch.utils.tensorboard")
    assert "torch.utils.tensorboard is not part of cuplug" in done.stderr
    assert "ModuleNotFoundError" in done.stderr


def test_the_version_is_pytorchs_and_then_cuplugs() -> None:
    program = "import cuplug; own = cuplug.__version__; cuplug.as_torch(); cuplug.as_torch()\nimport torch"
    done = run("-c", f"{program}; print(torch.__version__ == f'2.13.0+cuplug.{{own}}' == torch.version.__version__)")
    assert done.stdout == "True\n", done.stderr


def test_pytorch_that_was_imported_before_is_left_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("")  # stands for PyTorch
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import torch, cuplug; cuplug.as_torch()"
    done = run("-c", program)
    assert done.returncode == 1
    assert "CuplugError: PyTorch was imported before" in done.stderr


def test_the_module_of_that_name_can_be_called_too() -> None:
    done = run("-c", "import cuplug.as_torch; cuplug.as_torch(); import torch; print(torch.nn.__name__)")
    assert done.stdout == "cuplug.runtime.nn\n", done.stderr


def test_things_are_printed_by_torchs_name_where_cuplug_has_it() -> None:
    shown = "x = torch.ones(2, 3); print(x.dtype, x.shape, x.layout, torch.channels_last, x.bfloat16(), torch.ones(0))"
    done = run("-c", f"import cuplug; cuplug.as_torch(); import torch; {shown}")
    words = "torch.float32 torch.Size([2, 3]) torch.strided torch.channels_last tensor([[1., 1., 1.], [1., 1., 1.]], "
    assert " ".join(done.stdout.split()) == f"{words}dtype=torch.bfloat16) tensor([])", done.stderr
    assert run("-c", f"import cuplug as torch; {shown}").stdout.startswith("cuplug.float32 cuplug.Size([2, 3]) cuplug.")
