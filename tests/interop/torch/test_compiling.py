"""The bridge's files compile for the PyTorch that is installed, on a machine without a GPU, too."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from cuplug.allocators.errors import CompileError, CuplugError
from cuplug.runtime.interop.torch.compilation import OLDEST, compile_sources

pytestmark = pytest.mark.needs_torch

INCLUDES = os.environ.get("CUPLUG_TORCH_INCLUDES", "")
"""Folders with what lies in a wheel of PyTorch (``torch/include`` and ``torch/version.py``), of other versions."""


def test_the_bridge_compiles_for_the_installed_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    if not (Path(torch.__file__).parent / "include" / "c10" / "cuda" / "impl" / "cuda_cmake_macros.h").exists():
        # A wheel for the CPU lacks this one header, which says how PyTorch's own libraries were built.
        monkeypatch.setenv("CXX", "g++ -DC10_CUDA_NO_CMAKE_CONFIGURE_FILE")
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < OLDEST:
        pytest.skip(f"PyTorch {torch.__version__} is too old for it")
    compile_or_skip(torch, torch.__version__, Path(torch.__file__), tmp_path)


def test_the_bridge_compiles_for_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch, cross = pytest.importorskip("torch"), shutil.which("aarch64-linux-gnu-g++")
    if "CUPLUG_THOROUGH" not in os.environ or cross is None:
        pytest.skip("a thorough test where a cross compiler is")
    monkeypatch.setenv("CXX", f"{cross} -DC10_CUDA_NO_CMAKE_CONFIGURE_FILE")
    compile_or_skip(torch, torch.__version__, Path(torch.__file__), tmp_path)
    machines = {int.from_bytes(path.read_bytes()[18:20], "little") for path in tmp_path.glob("*.o")}
    assert machines == {183}  # EM_AARCH64


@pytest.mark.parametrize("folder", [folder for folder in INCLUDES.split(os.pathsep) if folder])
def test_the_bridge_compiles_for_the_headers_of(folder: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    found: dict[str, str] = {}
    exec((Path(folder) / "torch" / "version.py").read_text(), found)
    compile_or_skip(torch, found["__version__"], Path(folder) / "torch" / "__init__.py", tmp_path)


def compile_or_skip(torch: object, version: str, file: Path, folder: Path) -> None:
    like = SimpleNamespace(
        __version__=version,
        __file__=str(file),
        version=SimpleNamespace(cuda="13.0"),  # a wheel for the CPU names none, and has the headers all the same
        _C=torch._C,  # type: ignore[attr-defined]
    )
    try:
        assert len(compile_sources(like, folder)) >= 2  # type: ignore[arg-type]
    except CompileError:
        raise
    except CuplugError as error:
        pytest.skip(str(error))
