"""PyTorch on cuplug's memory on a GPU: programs that know nothing of cuplug do what they do natively."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs.py"
TWO_GPUS = Path(__file__).parent / "two_gpus.py"
ASKS_WHAT_IS_FREE = ("pools_over_virtual_memory_sleep_and_wake",)


def names_in(programs: Path) -> list[str]:
    names = [line[4:].partition("(")[0] for line in programs.read_text().splitlines() if line.startswith("def ")]
    return [name for name in names if not name.startswith("_") and name not in ASKS_WHAT_IS_FREE]


pytestmark = [pytest.mark.needs_gpu, pytest.mark.needs_torch]


DETERMINISTIC = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


def run(name: str, allocator: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CUPLUG_TORCH": allocator} if allocator else dict(os.environ)
    command = [sys.executable, "-m", "cuplug.interop.torch", "-a", allocator] if allocator else [sys.executable]
    environment.pop("CUPLUG_TORCH", None)
    environment.update(DETERMINISTIC)
    return subprocess.run([*command, str(PROGRAMS), name], env=environment, capture_output=True, text=True, timeout=200)


@pytest.mark.parametrize("allocator", ["expandable", "caching", "caching:preset=torch"])
@pytest.mark.parametrize("name", names_in(PROGRAMS))
def test_the_program(name: str, allocator: str) -> None:
    done = run(name, allocator)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert f"passed {name} cuplug" in done.stdout


@pytest.mark.needs_device_alone
@pytest.mark.parametrize("allocator", ["expandable", "caching", "caching:preset=torch"])
@pytest.mark.parametrize("name", ASKS_WHAT_IS_FREE)
def test_the_program_that_asks_what_is_free(name: str, allocator: str) -> None:
    test_the_program(name, allocator)


@pytest.mark.needs_device_alone
@pytest.mark.parametrize(
    "pair",
    [
        "expandable expandable",
        "expandable expandable-confined",
        "caching expandable",
        "expandable caching",
        "native-expandable expandable",
    ],
)
def test_tensors_are_shared_both_ways_without_growth(pair: str) -> None:
    command = [sys.executable, str(PROGRAMS.with_name("sharing.py")), *pair.split(), "40"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    # PyTorch's own allocator cannot open what has pages of several sizes.
    wrong = [line for line in done.stdout.splitlines()[1:] if "illformed shareable handle" not in line]
    assert not wrong, done.stdout + done.stderr[-6000:]
    assert done.returncode == 0 or "native" in pair, done.stdout + done.stderr[-6000:]


@pytest.mark.parametrize("allocator", ["expandable", "caching"])
def test_deterministic_training_ends_with_the_weights_of_native_pytorch(allocator: str) -> None:
    pytest.importorskip("torchvision")
    lines = [run("deterministic_training_prints_its_weights", each).stdout.splitlines() for each in ("", allocator)]
    assert lines[0][0].startswith("weights ")
    assert lines[0][0] == lines[1][0]


def test_memory_of_another_setting_stands_in_the_trace(tmp_path: Path) -> None:
    from cuplug.allocators.events import EventKind
    from cuplug.plugins.tracing.reader import read_trace

    program = """
import torch
kept = [torch.empty(30 << 20, dtype=torch.uint8, device="cuda")]
torch.cuda.memory._set_allocator_settings("expandable_segments:False")
kept.append(torch.empty(31 << 20, dtype=torch.uint8, device="cuda"))
torch.cuda.memory._set_allocator_settings("expandable_segments:True")
kept.append(torch.empty(32 << 20, dtype=torch.uint8, device="cuda"))
"""
    environment = os.environ | {"CUPLUG_TORCH": "expandable", "CUPLUG_TRACE": str(tmp_path / "trace")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    events = read_trace(tmp_path / "trace").events
    of_kind = {kind: events[events["kind"] == int(kind)] for kind in EventKind}
    assert {30 << 20, 31 << 20, 32 << 20} <= set(of_kind[EventKind.ALLOCATE]["requested"].tolist())
    assert (31 << 20) <= of_kind[EventKind.SEGMENT_RESERVE]["nbytes"].max() <= (64 << 20)


def test_what_dies_of_fragmentation_natively_runs_to_its_end() -> None:
    pytest.importorskip("transformers")
    program = [sys.executable, str(PROGRAMS.with_name("varied_lengths.py")), "13"]
    environment = {
        key: value for key, value in os.environ.items() if key not in ("CUPLUG_TORCH", "PYTORCH_CUDA_ALLOC_CONF")
    }
    natively = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=200)
    assert natively.returncode == 1, natively.stdout
    assert "out of memory in step" in natively.stderr
    for allocator in ("expandable", "caching"):
        done = subprocess.run(
            program, env={**environment, "CUPLUG_TORCH": allocator}, capture_output=True, text=True, timeout=200
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert "reserved" in done.stdout


@pytest.mark.parametrize("allocator", ["expandable", "caching"])
@pytest.mark.parametrize("name", names_in(TWO_GPUS))
def test_two_gpus_end_with_what_native_pytorch_ends_with(name: str, allocator: str) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    found = []
    for each in ("", allocator):
        environment = {name: value for name, value in os.environ.items() if name != "CUPLUG_TORCH"} | DETERMINISTIC
        if each:
            environment["CUPLUG_TORCH"] = each
        command = [*launcher, str(TWO_GPUS), name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
        lines = sorted(line.split() for line in done.stdout.splitlines() if line.startswith("passed "))
        assert [line[4] for line in lines] == ["cuplug" if each else "native"] * 2
        found.append([line[5] for line in lines])
    assert found[0] == found[1]


@pytest.mark.parametrize("allocator", ["caching", "caching+trace", "expandable"])
def test_programs_end_cleanly_while_daemon_threads_are_at_work(allocator: str) -> None:
    command = [sys.executable, str(PROGRAMS.with_name("exits.py")), "--on", allocator, "--times", "2", "--at-once", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
