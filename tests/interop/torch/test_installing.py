"""Putting cuplug under PyTorch: what is refused, and how the environment asks for it. No GPU is needed."""

import os
import subprocess
import sys
import textwrap
from importlib.metadata import entry_points
from pathlib import Path

import cuplug
import pytest
from cuplug.allocators.native import is_available
from cuplug.runtime.interop.torch import installation

needs_native = pytest.mark.skipif(not is_available(), reason="needs the native allocators")


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("CUPLUG_")}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, env={**clean, **environment}, capture_output=True, text=True, timeout=100)


@pytest.fixture
def fake_torch(tmp_path: Path) -> str:
    """A folder with a PyTorch that says what it is asked to be: FAKE_CUDA, FAKE_USED, FAKE_VERSION."""
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(
        textwrap.dedent("""
        import os
        from types import SimpleNamespace
        __version__ = os.environ.get("FAKE_VERSION", "2.11.0")
        version = SimpleNamespace(cuda=os.environ.get("FAKE_CUDA"), git_version="0")
        cuda = SimpleNamespace(
            _lazy_call=lambda call: None,
            is_initialized=lambda: "FAKE_USED" in os.environ,
            device_count=lambda: 0,
        )
        """)
    )
    return str(tmp_path)


INSTALL = """
from cuplug.interop.torch import install
install({allocator!r})
"""


def refusal(fake_torch: str, allocator: str = "expandable", **environment: str) -> str:
    done = run(INSTALL.format(allocator=allocator), PYTHONPATH=fake_torch, **environment)
    assert done.returncode == 1
    return done.stderr.strip().splitlines()[-1]


@needs_native
def test_a_pytorch_without_cuda_is_refused(fake_torch: str) -> None:
    assert "has no CUDA" in refusal(fake_torch)


@needs_native
def test_a_pytorch_that_finds_no_device_is_refused_where_a_program_asks_for_it_by_name(fake_torch: str) -> None:
    done = run('from cuplug.interop import install\ninstall("torch")', PYTHONPATH=fake_torch, FAKE_CUDA="13.0")
    assert done.returncode == 1
    assert "PyTorch finds no CUDA device" in done.stderr.strip().splitlines()[-1]


@needs_native
def test_installing_after_the_first_use_of_cuda_is_refused(fake_torch: str) -> None:
    message = refusal(fake_torch, FAKE_CUDA="13.0", FAKE_USED="1")
    assert "has used CUDA already" in message
    assert "CUPLUG_TORCH" in message


def test_a_hook_over_cudamalloc_is_refused_since_it_would_see_nothing(fake_torch: str) -> None:
    hook = "/nowhere/torch_memory_saver_hook_mode_preload.abi3.so"
    message = refusal(fake_torch, FAKE_CUDA="13.0", LD_PRELOAD=hook)
    assert "hook_mode = 'torch'" in message
    assert "cuplug.cuda.sleep" in message


@needs_native
def test_an_unknown_allocator_is_refused(fake_torch: str) -> None:
    assert "UnknownAllocatorError" in refusal(fake_torch, "nonsense", FAKE_CUDA="13.0")


@needs_native
def test_an_allocator_that_runs_in_python_is_refused(fake_torch: str) -> None:
    assert "choose expandable or caching" in refusal(fake_torch, "direct", FAKE_CUDA="13.0")


@needs_native
def test_a_pytorch_that_is_too_old_is_refused(fake_torch: str, tmp_path: Path) -> None:
    message = refusal(
        fake_torch, FAKE_CUDA="12.1", FAKE_VERSION="2.4.1+cu121", CUPLUG_CACHE_DIR=str(tmp_path / "cache")
    )
    assert "2.4.1" in message
    assert "from 2.8 on" in message


def test_without_the_native_allocators_it_is_refused(fake_torch: str) -> None:
    assert "native allocators" in refusal(fake_torch, FAKE_CUDA="13.0", CUPLUG_NATIVE="0")


def test_without_the_variable_nothing_of_cuplug_is_imported() -> None:
    done = run("import sys, cuplug_torch; cuplug_torch.autoload(); assert 'cuplug' not in sys.modules")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("said", ["caching:preset=torch", "expandable:host=4GiB,host_tags=optimizer"])
def test_the_variable_names_the_allocator_that_is_installed(said: str) -> None:
    code = """
    import cuplug.interop.torch, cuplug_torch
    cuplug.interop.torch.install = lambda allocator: print("installed", allocator)
    cuplug_torch.autoload()
    """
    done = run(code, CUPLUG_TORCH=said)
    assert done.stdout == f"installed {said}\n", done.stderr


def test_pytorch_finds_the_entry_point() -> None:
    assert [found.value for found in entry_points(group="torch.backends") if found.name == "cuplug"] == [
        "cuplug_torch:autoload"
    ]


@needs_native
def test_the_command_says_in_one_line_what_is_wrong(fake_torch: str, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text("print('never')")
    code = f"""
    import runpy, sys
    sys.argv = ["x", {str(program)!r}]
    runpy.run_module("cuplug.interop.torch", run_name="__main__")
    """
    done = run(code, PYTHONPATH=fake_torch)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("python -m cuplug.interop.torch: this PyTorch")


def test_an_unknown_allocator_in_the_environment_is_one_line_beneath_pytorchs() -> None:
    code = """
    import cuplug_torch
    try:
        cuplug_torch.autoload()
    except Exception as error:  # as PyTorch does
        raise RuntimeError("Failed to load the backend extension: cuplug") from error
    """
    done = run(code, CUPLUG_TORCH="expandible")
    assert done.returncode == 1
    own = [line for line in done.stderr.splitlines() if "expandible" in line]
    assert own == [
        line for line in own if line.startswith("cuplug.allocators.errors.CuplugError: CUPLUG_TORCH=expandible: ")
    ]
    assert len(own) == 1
    assert "known are" in own[0]
    assert done.stderr.count("  File ") == 3  # the program's, what PyTorch calls, and the program's again


def test_an_installation_that_is_repeated_as_in_a_notebook_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_library", object())
    monkeypatch.setattr(installation, "_installed_with", "expandable:host=1GiB")
    installation.check()
    installation.install()
    installation.install("expandable:host=1GiB")
    with pytest.raises(cuplug.CuplugError, match=r"'expandable:host=1GiB', which cannot become 'caching'"):
        installation.install("caching")
