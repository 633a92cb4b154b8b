"""Torch's modules that cuplug will not have: programs may import them, and what they call of them says so."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

Reason = tuple[str, str]
"""What is left out, and what to use instead."""

_TRANSFORMS = "transformations of functions", "autograd.grad"
_SPARSE = "sparse tensors", "index tensors with gather and scatter_add"
_QUANTISED = "quantised types", "int8 or uint8 with a scale of your own"
_COMPILED = "compilers of Python", "SourceModule, for kernels in CUDA C"
_EXTENSIONS = "extensions in C++", "SourceModule, for kernels in CUDA C"
_FOURIER = "Fourier transforms", "numpy.fft on .cpu().numpy()"
_SPECIAL = "special functions beyond those here", "scipy.special on .cpu().numpy()"
_TOOLS = "PyTorch's tools and catalogues", "cuplug-trace, cuplug.cuda.profiler, and files of your own"
_PRUNING = "pruning and parametrisations", "hooks of modules: register_forward_pre_hook"
_SHARDING = "shards of tensors and calls between processes", "all_reduce, broadcast and their kin"
_GRAPHS = "CUDA graphs", "prepared launches"
_TESTING = "PyTorch's tools for tests", "allclose, or numpy.testing"

ABSENT_MODULES: dict[str, Reason] = {
    **dict.fromkeys(("func", "autograd.forward_ad", "autograd.functional", "nn.utils.stateless"), _TRANSFORMS),
    **dict.fromkeys(("sparse", "masked", "nested"), _SPARSE),
    **dict.fromkeys(("ao", "ao.quantization", "quantization", "ao.nn", "nn.quantized", "nn.qat"), _QUANTISED),
    **dict.fromkeys(("export", "fx", "library", "onnx"), _COMPILED),
    **dict.fromkeys(("utils.cpp_extension", "utils.mobile_optimizer"), _EXTENSIONS),
    "fft": _FOURIER,
    **dict.fromkeys(("signal", "special"), _SPECIAL),
    **dict.fromkeys(("hub", "monitor", "package", "profiler", "autograd.profiler", "utils.benchmark"), _TOOLS),
    **dict.fromkeys(("utils.bottleneck", "utils.collect_env", "utils.model_zoo", "utils.flop_counter"), _TOOLS),
    **dict.fromkeys(("nn.utils.prune", "nn.utils.parametrize", "nn.utils.parametrizations"), _PRUNING),
    **{
        f"distributed.{name}": _SHARDING
        for name in ("algorithms", "checkpoint", "device_mesh", "fsdp", "nn", "optim", "pipelining", "rpc", "tensor")
    },
    "cuda.graphs": _GRAPHS,
    "testing": _TESTING,
}
"""By torch's path. Modules that need another library (``utils.tensorboard``) are not found, as without that library."""

_ALSO_AT_THE_TOP = ("erf", "erfc", "exp2", "expm1", "log1p", "log_softmax", "logsumexp", "round", "softmax")
"""Functions of ``torch.special`` that cuplug has, as ``torch.erf`` and the like."""


class AbsentModule(ModuleType):
    """Stands for one of torch's modules: what is asked of it is an error that says what to use instead, but for the
    functions of ``special`` that are here."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []  # a package to the import system

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        path = self.__name__.partition(".")[2]
        what, instead = ABSENT_MODULES[path]
        if path == "special" and name in _ALSO_AT_THE_TOP:
            return getattr(sys.modules[self.__name__.partition(".")[0]], name)
        raise AttributeError(f"{path}.{name} is not part of cuplug: {what} are left out; use {instead}")
