"""Where torch keeps its packages: ``import cuplug.nn.functional`` finds ``cuplug.runtime.nn.functional``.

The packages live on their floors and are imported at first use. A folder at the top for each would be another place for
the same thing, and a module ``nn.py`` there would hide others of that name from programs that run in this folder. Type
checkers read the folders of stubs there: ``nn/__init__.pyi`` and the like.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

__all__ = ["PACKAGES", "PATHS", "put_in_place"]

PATHS: dict[str, str] = {
    "amp": "amp",
    "autograd": "autograd",
    "backends": "tensor.torch_settings",
    "backends.cuda": "tensor.cublas_switches",
    "backends.cudnn": "tensor.cudnn_switches",
    "cuda.amp": "amp",
    "cuda.comm": "tensor.ops.communication",
    "cuda.memory": "facade.cuda_memory",
    "cuda.nccl": "tensor.ops.nccl_collectives",
    "cuda.nvtx": "facade.nvtx",
    "cuda.profiler": "facade.profiler",
    "distributed": "distributed",
    "nn": "nn",
    "nn.functional": "nn.functional",
    "nn.init": "nn.init",
    "nn.parallel": "nn.parallel",
    "nn.parameter": "nn.parameter",
    "nn.utils": "nn.parameter_tools",
    "optim": "optim",
    "optim.lr_scheduler": "optim.lr_scheduler",
    "utils": "utils",
    "utils.checkpoint": "utils.checkpoint",
    "utils.data": "utils.data",
}
"""By torch's path, without ``torch.``: the path below ``runtime``."""

PACKAGES = tuple(path for path in PATHS if "." not in path)
"""Torch's packages that are here."""


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds torch's paths, and puts the module that is meant there."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the import system gives it
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        head, _, rest = fullname.partition(".")
        if head != self._package or rest not in PATHS:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        rest = module.__name__.partition(".")[2]
        # The import system then takes what stands there.
        sys.modules[module.__name__] = importlib.import_module(f"{self._package}.runtime.{PATHS[rest]}")


def put_in_place(package: str) -> None:
    """Let torch's paths below ``package`` be found. Once; later calls do nothing."""
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        # In front: the system would find `functional.py` in the folder, and load it a second time.
        sys.meta_path.insert(0, _Finder(package))
