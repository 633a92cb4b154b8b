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
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from .absent_modules import ABSENT_MODULES, AbsentModule

PATHS: dict[str, str] = {
    "amp": "amp",
    "autograd": "autograd",
    "backends": "tensor.torch_settings",
    "backends.cuda": "tensor.cublas_switches",
    "backends.cudnn": "tensor.cudnn_switches",
    "compiler": "facade.eager_compiler",
    "cuda.amp": "amp",
    "cuda.comm": "tensor.ops.devices.communication",
    "cuda.memory": "facade.cuda_memory",
    "cuda.nccl": "tensor.ops.devices.nccl_collectives",
    "cuda.nvtx": "facade.nvtx",
    "cuda.profiler": "facade.profiler",
    "distributed": "distributed",
    "distributions": "distributions",
    "jit": "facade.eager_script",
    "linalg": "tensor.ops.products.linalg",
    "nn": "nn",
    "nn.functional": "nn.functional",
    "nn.init": "nn.init",
    "nn.parallel": "nn.parallel",
    "nn.parameter": "nn.parameter",
    "nn.utils": "nn.parameter_tools",
    "nn.utils.rnn": "nn.sequences",
    "optim": "optim",
    "optim.lr_scheduler": "optim.lr_scheduler",
    "optim.swa_utils": "optim.swa_utils",
    "serialization": "tensor.ops.exchange.safe_globals",
    "utils": "utils",
    "utils.checkpoint": "utils.checkpoint",
    "utils.data": "utils.data",
    "utils.dlpack": "utils.dlpack_exchange",
    "version": "facade.torch_version",
}
"""By torch's path, without ``torch.``: the path below ``runtime``."""

_FILES_OF_LAYERS = (
    *("activation", "batchnorm", "channelshuffle", "container", "conv", "distance", "dropout", "flatten", "fold"),
    *("instancenorm", "linear", "loss", "normalization", "padding", "pixelshuffle", "pooling", "rnn", "sparse"),
    *("transformer", "upsampling"),
)

INNER_PATHS: dict[str, str] = {
    **dict.fromkeys(("_dynamo", "_dynamo.eval_frame", "_inductor"), "facade.eager_compiler"),
    **dict.fromkeys(("_dynamo.config", "_inductor.config"), "facade.compiler_settings"),
    "_utils": "utils.wrapped_exceptions",
    "accelerator": "facade.accelerator",
    "autograd.graph": "autograd.graph",
    **dict.fromkeys(("mps", "mtia", "xpu"), "facade.other_accelerators"),
    **{f"backends.{name}": "facade.other_accelerators" for name in ("mkl", "mkldnn", "mps", "openmp", "xnnpack")},
    "distributions.categorical": "distributions",
    "distributions.kl": "distributions",
    "distributions.normal": "distributions",
    "functional": "tensor",
    "interop": "interop",
    "multiprocessing": "utils.shared_tensors",
    "nn.modules": "nn",
    **{f"nn.modules.{name}": "nn" for name in _FILES_OF_LAYERS},
    "nn.modules.utils": "nn.parameter_tools",
    "nn.utils.clip_grad": "nn.parameter_tools",
    **{f"optim.{name}": "optim" for name in ("adagrad", "adam", "adamw", "rmsprop", "sgd")},
    "random": "tensor.ops.random.random_states",
    "utils._pytree": "utils.nested_values",
    "utils.hooks": "autograd.graph",
    "utils.data._utils": "utils.data",
    "utils.data._utils.collate": "utils.data",
    "utils.data.dataloader": "utils.data",
    "utils.data.dataset": "utils.data.datasets",
    "utils.data.distributed": "utils.data.samplers",
    "utils.data.sampler": "utils.data.samplers",
}
"""The same where there is no stub of that path: a stub ``multiprocessing.pyi`` here would hide Python's own, and files
of torch's that programs import from, have the names of the package above. And ``interop``, which is none of torch's, so
that a name that is missing there is not called one of torch's that was left out."""

FORMER_PATHS: dict[str, str] = {"runtime.copies": "memory.copies", "runtime.runtime": "machine.runtime"}
"""Inner modules that programs import and that have moved: the former path, and the one below ``runtime``."""

INSTEAD: dict[str, str] = {
    "": "PyTorch itself, on cuplug's memory: cuplug.interop.install('torch')",
    "autograd": "autograd.grad, or an autograd.Function of your own",
    "backends": "what backends.cuda and backends.cudnn have",
    "distributions": "Categorical, Normal and Bernoulli, or numpy.random",
    "distributed": "all_reduce, broadcast and their kin, or PyTorch itself on cuplug's memory",
    **dict.fromkeys(("compiler", "jit"), "the functions and modules themselves, which run as they are"),
    "linalg": "numpy.linalg on .cpu().numpy()",
    "nn": "a Module of your own, made of the layers and operations that are here",
    "nn.functional": "the operations of tensors that are here",
    "nn.init": "the operations that fill tensors: uniform_, normal_, fill_, copy_",
    "nn.utils": "hooks of modules: register_forward_pre_hook",
    "optim": "one of those that are here: SGD, Adam, AdamW, RMSprop and their kin",
    "optim.swa_utils": "AveragedModel with a function of your own",
    "optim.lr_scheduler": "LambdaLR with a function of your own",
    "utils": "Python's packages",
    "utils.data": "a Dataset, Sampler or collate_fn of your own",
}
"""By torch's path what to use in place of a name that is missing there; ``""`` for all others."""

PACKAGES = tuple(path for path in (*PATHS, *INNER_PATHS) if "." not in path)
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
        package, _, rest = fullname.partition(".")
        if package != self._package or not (rest in ABSENT_MODULES or self._meant(fullname)):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return AbsentModule(spec.name) if spec.name.partition(".")[2] in ABSENT_MODULES else None

    def _meant(self, fullname: str) -> str | None:
        """The path of the module that a path means, where that is another one and there is such a module.

        Beside the paths of the table these are all paths below a module that stands under two names: what is found in
        its folder would otherwise be loaded a second time, with a state of its own.
        """
        rest = fullname.partition(".")[2]
        known = PATHS.get(rest) or INNER_PATHS.get(rest) or FORMER_PATHS.get(rest)
        if known is not None:
            return f"{self._package}.runtime.{known}"
        parent, _, name = fullname.rpartition(".")
        above = sys.modules.get(parent)
        if above is None or above.__name__ == parent or not hasattr(above, "__path__") or name == "__main__":
            return None  # ``python -m`` runs a file by its public name
        meant = f"{above.__name__}.{name}"
        there = meant in sys.modules or importlib.machinery.PathFinder.find_spec(meant, above.__path__) is not None
        return meant if there else None

    def exec_module(self, module: ModuleType) -> None:
        if isinstance(module, AbsentModule):
            return
        meant = self._meant(module.__name__)
        assert meant is not None  # find_spec has looked
        found = importlib.import_module(meant)
        if not hasattr(found, "__path__"):
            found.__path__ = []  # a package to the import system, which then asks for what is below it
        rest = module.__name__.partition(".")[2]
        inner = {path: INNER_PATHS[path] for path in ({rest, "autograd.graph"} & INNER_PATHS.keys()) - {"interop"}}
        for path, below in (*PATHS.items(), *inner.items()):  # all loaded: ``cuplug.nn`` brings ``.functional``
            loaded = sys.modules.get(f"{self._package}.runtime.{below}")
            if loaded is not None and not hasattr(loaded, "__getattr__"):
                loaded.__getattr__ = _refusal(self._package, path)  # type: ignore[method-assign]
        # The import system then takes what stands there.
        sys.modules[module.__name__] = found


class _LastFinder(importlib.abc.MetaPathFinder):
    """Asked when nothing was found: says of a name or module that a package lacks what the package says of it, and of
    an inner module that stands elsewhere where that is.

    ``from torch.nn import X`` looks for a module where there is no such name, and would say less by itself.
    """

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the import system gives it
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> None:
        parent, _, name = fullname.rpartition(".")
        if parent.partition(".")[0] != self._package or parent not in sys.modules or name.startswith("__"):
            return
        try:
            getattr(sys.modules[parent], name)
        except AttributeError as error:
            missing = "is not part of cuplug" in str(error)
            if not missing or parent == self._package:
                elsewhere = _inner_path(self._package, name)
                if elsewhere is not None:
                    raise ModuleNotFoundError(f"No module named {fullname!r}; it is {elsewhere}", name=parent) from None
            if missing:
                # Of another name than the one that was asked for: the import system would be silent about that.
                raise ModuleNotFoundError(str(error), name=parent) from None


def _inner_path(package: str, name: str) -> str | None:
    """Where the inner module of that name stands: no two of them share one."""
    root = Path(sys.modules[package].__path__[0])
    for storey in ("allocators", "plugins", "runtime", "tools"):
        for found in (root / storey).rglob(f"{name}.py"):
            return ".".join((package, *found.relative_to(root).with_suffix("").parts))
    return None


def _refusal(package: str, path: str) -> Callable[[str], ModuleType]:
    """What a module does when it is asked for a name that it does not have: import what is below it, as torch's modules
    are there without an import, or say that it is missing in words that lead on."""

    def missing(name: str) -> ModuleType:
        if name.startswith("__"):
            raise AttributeError(f"module 'cuplug.{path}' has no attribute {name!r}")
        if f"{path}.{name}" in ABSENT_MODULES:
            return importlib.import_module(f"{package}.{path}.{name}")
        known = PATHS | INNER_PATHS
        for inner, meant in INNER_PATHS.items():
            above, _, last = inner.rpartition(".")
            if last == name and known.get(above) == known[path]:
                return importlib.import_module(f"{package}.runtime.{meant}")
        raise AttributeError(why_missing(f"torch.{path}", f"{path}.{name}"))

    return missing


def why_missing(package: str, name: str) -> str:
    """What is said of a name that ``package``, one of torch's by its path with ``torch``, does not have here."""
    instead = INSTEAD.get(package.partition(".")[2], INSTEAD[""])
    return f"{name} is not part of cuplug, which has what most programs call of {package}; use {instead}"


def put_in_place(package: str) -> None:
    """Let torch's paths below ``package`` be found. Once; later calls do nothing."""
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        # In front: the system would find `functional.py` in the folder, and load it a second time.
        sys.meta_path.insert(0, _Finder(package))
        sys.meta_path.append(_LastFinder(package))
