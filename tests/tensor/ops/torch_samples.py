"""PyTorch's own sample, reference and error inputs (its OpInfo database), given to PyTorch on the CPU and to cuplug.

``python tests/tensor/ops/torch_samples.py cpu`` runs every operation of the database that cuplug has, as function,
method, in place and with ``out=``, over cuplug's element types; ``cuda`` does so on the simulator. Names of operations
may follow. Compared are values (within PyTorch's tolerances, or not much further from the exact result than PyTorch
is), shapes, types, strides, what shares memory, and the kind of error. It prints for each operation how many of all
cases are alike, and every difference that ``KNOWN`` does not name. A test runs a few where PyTorch is installed.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

TYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
KINDS = ("sample", "reference", "error")

_TOLERANCES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}
_STEPS = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1.2e-7, "float64": 2.3e-16}
_DRAWN = frozenset(
    (
        *("bernoulli", "empty", "empty_like", "empty_strided", "exponential", "log_normal", "multinomial", "new_empty"),
        "new_empty_strided",
        *("normal", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "random", "resize_"),
        *("resize_as_", "uniform"),
    )
)
"""Operations whose elements nobody foretells."""
_TIED = frozenset(["sort", "topk", "kthvalue", "median", "nanmedian", "argsort"])
"""Operations whose indices are any of equal elements'."""


class Known(NamedTuple):
    """Differences that are meant."""

    operations: str
    how: str
    what: str
    devices: str
    why: str
    text: str = ""
    """What the case and its difference say somewhere."""


KNOWN = (
    Known(
        ".*",
        r"out of torch\.\w+",
        "accepted",
        "cpu|cuda",
        "`out=` takes wider types than in PyTorch",
        "torch raises RuntimeError.*type",
    ),
    Known(
        "std|var|logsumexp",
        r"out of torch\.float64",
        "values",
        "cpu|cuda",
        "`out=` of a wider type is not computed in",
    ),
    Known(
        ".*",
        "a number first",
        "accepted|structure",
        "cpu|cuda",
        "functions take a number first, or numbers only",
        "torch raises TypeError|NotImplementedType",
    ),
    Known(
        ".*",
        "out of a method",
        "accepted|error type",
        "cpu|cuda",
        "methods take `out=`",
        r"unexpected keyword argument 'out'|invalid combination of arguments - got \(.*out=",
    ),
    Known(
        "nn[.]functional[.].*",
        "out .*",
        "refused|error type",
        "cpu|cuda",
        "functions of networks take no `out=`, which PyTorch has without saying so",
        "unexpected keyword argument 'out'",
    ),
    Known(
        "index_select",
        "error",
        "accepted",
        "cpu|cuda",
        "`out=` of another shape is resized before it is checked",
        "more than one element of the written-to tensor",
    ),
    Known(
        "gather|scatter|scatter_add",
        "error",
        "error type",
        "cpu",
        "an index out of range is an IndexError",
        "out of bounds",
    ),
    Known(
        "norm|linalg[.]norm",
        ".*",
        "refused",
        "cpu|cuda",
        "norms of matrices by singular values are not there",
        "norms of vectors here|needs singular values",
    ),
    Known("clamp_min|clamp_max", ".*", "refused", "cpu|cuda", "`clamp_min` and `clamp_max` do not take bool", "bool"),
    Known("nonzero|cat", ".*", "strides|error type", "cpu|cuda", "results of `nonzero` and `cat` are row-major"),
    Known("addbmm", ".*", "refused|warning", "cpu|cuda", "`addbmm_` keeps the shape; a resized `out=` is told"),
    Known(
        "arange|linspace|ones|zeros|full|empty|eye",
        "out of another shape",
        "shape|warning",
        "cpu|cuda",
        "functions that fill give `out=` their shape, and tell it",
    ),
    Known(
        "addcmul|addcdiv|__r.*__",
        ".*",
        "strides",
        "cpu|cuda",
        "operands that overlap themselves may give another order",
    ),
    Known(
        "addbmm|baddbmm|addmm|addmv|addr",
        ".*",
        "values",
        "cuda",
        "on a device a product of half types is rounded before anything is added",
    ),
)
"""The table that the page *Differences from torch* shows."""


class Case(NamedTuple):
    """One call: of which operation, how (function, method, in place, or with which ``out=``), and with what."""

    name: str
    called: str
    how: str
    kind: str
    dtype: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    output: Any = None

    def __str__(self) -> str:
        given = [_short(each) for each in self.arguments]
        given += [f"{name}={_short(each)}" for name, each in self.keywords.items()]
        return f"{self.called} [{self.how}, {self.kind}, {self.dtype}]({', '.join(given)})"


def _short(given: Any) -> str:
    if hasattr(given, "stride"):
        text = f"{str(given.dtype).split('.')[-1]}{list(given.shape)}"
        text += "" if given.is_contiguous() else f"/{list(given.stride())}"
        return text + (f"={given.tolist()}" if given.numel() <= 4 else "")
    if isinstance(given, (list, tuple)):
        return f"({', '.join(map(_short, given))})"
    return repr(given)


class NotTried(Exception):
    """The case needs what cuplug does not have, or ends the device."""


class Library:
    """torch or cuplug; and how PyTorch's arguments become its own, in memory of their own."""

    def __init__(self, module: Any, device: str) -> None:
        self.module = module
        self.device = device
        self.is_torch = module.__name__ == "torch"

    def of(self, given: Any) -> Any:
        """An argument of PyTorch's as this library's."""
        import torch

        if isinstance(given, torch.Tensor):
            return self._tensor(given)
        if isinstance(given, (torch.dtype, torch.memory_format, torch.layout)):
            return self._named(str(given).removeprefix("torch."))
        if isinstance(given, (torch.device, torch.Size)):
            return given if self.is_torch else self.device if isinstance(given, torch.device) else tuple(given)
        if isinstance(given, tuple) and hasattr(given, "_fields"):
            return type(given)(*map(self.of, given))
        if isinstance(given, (tuple, list)):
            return type(given)(map(self.of, given))
        if isinstance(given, slice):
            return slice(self.of(given.start), self.of(given.stop), self.of(given.step))
        if isinstance(given, dict):
            return {name: self.of(each) for name, each in given.items()}
        ours = isinstance(given, torch.nn.Module) or getattr(given, "__module__", "").startswith("torch.nn")
        if isinstance(given, (complex, torch.Generator)) or ours:
            raise NotTried
        return self.device if isinstance(given, str) and given == "cpu" else given

    def _named(self, name: str) -> Any:
        found = getattr(self.module, name, None) if not self.is_torch else getattr(sys.modules["torch"], name)
        if found is None:
            raise NotTried
        return found

    def _tensor(self, given: Any) -> Any:
        import torch

        name = str(given.dtype).removeprefix("torch.")
        if given.layout is not torch.strided or name not in (*TYPES, "uint16", "uint32", "uint64"):
            raise NotTried
        span = 0
        if given.numel():
            span = 1 + sum((n - 1) * step for n, step in zip(given.shape, given.stride(), strict=True))
        flat = given.detach().as_strided((span,), (1,)).clone()
        if not self.is_torch:
            half = name == "bfloat16"
            flat = self.module.from_numpy((flat.view(torch.int16) if half else flat).numpy()).to(self.device)
            flat = flat.view(self.module.bfloat16) if half else flat
        return flat.as_strided(tuple(given.shape), tuple(given.stride()), 0)

    def outcome(self, case: Case) -> Any:
        """What the call gives: its arguments, its result and its warnings; or what it raises."""
        found = self.module.Tensor if case.how in ("method", "in place") else self.module
        for part in case.called.split("."):
            found = getattr(found, part)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                arguments, keywords = self.of(case.arguments), self.of(case.keywords)  # may have too many dimensions
                if case.output is not None:
                    keywords["out"] = self.of(case.output)
                result = found(*arguments, **keywords)
                if not self.is_torch and self.device != "cpu":
                    self.module.cuda.synchronize()
            except NotTried:
                raise
            except Exception as error:
                return error
        return (arguments, keywords), result, any("resize" in str(each.message) for each in told)


def tensors_in(tree: Any) -> list[Any]:
    """The tensors in nested sequences and dictionaries."""
    if hasattr(tree, "stride") and hasattr(tree, "data_ptr"):
        return [tree]
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (tuple, list)) else ()
    return [each for part in parts for each in tensors_in(part)]


def _aliases(outcome: Any) -> list[int | None]:
    """For each tensor of a result: in which argument's memory it lies."""
    inputs = [(i, each) for i, each in enumerate(tensors_in(outcome[0])) if each.numel()]
    where = {each.untyped_storage().data_ptr(): i for i, each in reversed(inputs)}
    return [where.get(each.untyped_storage().data_ptr()) if each.numel() else None for each in tensors_in(outcome[1])]


def _values(tensor: Any) -> Any:
    tensor = tensor.detach().cpu()
    array = tensor.float().numpy() if str(tensor.dtype).endswith("bfloat16") else tensor.numpy()
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _strides(tensor: Any) -> list[int]:
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return [step for length, step in pairs if length > 1] if tensor.numel() else []


def compare(case: Case, theirs: Any, mine: Any, exact: Callable[[], list[Any]]) -> tuple[str, str] | None:
    """The kind of a difference and a text; None if there is none. ``exact`` computes in float64."""
    if isinstance(theirs, Exception):
        if not isinstance(mine, Exception):
            return "accepted", f"torch raises {theirs!r:.150}"
        if isinstance(theirs, NotImplementedError) or isinstance(mine, type(theirs)):
            return None
        return "error type", f"torch raises {theirs!r:.100}, cuplug {mine!r:.100}"
    if isinstance(mine, Exception):
        return "refused", f"cuplug raises {mine!r:.150}"
    results, own = tensors_in(theirs[1]), tensors_in(mine[1])
    plain = not results and isinstance(theirs[1], (bool, int, float))
    if len(results) != len(own) or (plain and theirs[1] == theirs[1] and theirs[1] != mine[1]):
        return "structure", f"{type(theirs[1])} {type(mine[1])}"
    if (theirs[1] is NotImplemented) != (mine[1] is NotImplemented):
        return "structure", f"{type(theirs[1])} {type(mine[1])}"
    written = [
        pair for pair in zip(tensors_in(theirs[0]), tensors_in(mine[0]), strict=True) if pair[0] not in _Any(results)
    ]
    for i, (x, y) in enumerate([*zip(results, own, strict=True), *written]):
        difference = _difference(case, i, x, y, exact if i < len(results) else list)
        if difference is not None:
            return difference
    if _aliases(theirs) != _aliases(mine):
        return "aliasing", f"torch {_aliases(theirs)}, cuplug {_aliases(mine)}"
    for x, y in zip(results, own, strict=True):
        if _strides(x) != _strides(y):
            return "strides", f"of {tuple(x.shape)}: torch {x.stride()}, cuplug {y.stride()}"
    if case.output is not None and theirs[2] != mine[2]:
        return "warning", f"whether out= was told to be resized: torch {theirs[2]}, cuplug {mine[2]}"
    return None


class _Any:
    """Whether something is one of these objects: ``in`` of a list would compare tensors."""

    def __init__(self, objects: Sequence[Any]) -> None:
        self._objects = objects

    def __contains__(self, one: Any) -> bool:
        return any(one is each for each in self._objects)


def _difference(case: Case, i: int, x: Any, y: Any, exact: Callable[[], list[Any]]) -> tuple[str, str] | None:
    if tuple(x.shape) != tuple(y.shape):
        return "shape", f"torch {tuple(x.shape)}, cuplug {tuple(y.shape)}"
    kind, other = (str(each.dtype).split(".")[-1] for each in (x, y))
    name = case.name.split(".")[0]
    if kind != other:
        return "dtype", f"torch {kind}, cuplug {other}"
    tied = kind == "int64" and name in _TIED and (i > 0 or name == "argsort") and not case.keywords.get("stable")
    if tied or name in _DRAWN:
        return None
    p, q = _values(x), _values(y)
    if kind not in _TOLERANCES:
        good = p == q
    else:
        # What is computed in float32 is no more exact where it is written to float64.
        relative, absolute = _TOLERANCES["float32" if "out of" in case.how and case.dtype != "float64" else kind]
        with np.errstate(all="ignore"):
            good = np.isclose(q, p, relative, absolute, equal_nan=True)
            wanted = exact() if not good.all() else []
            if i < len(wanted) and wanted[i].shape == x.shape:
                e = _values(wanted[i])
                good |= abs(q - e) <= 2 * abs(p - e) + _STEPS[kind] * abs(e)
    if good.all():
        return None
    at = tuple(int(each[0]) for each in np.nonzero(~good)) if p.ndim else ()
    return "values", f"at {at}: torch {p[at]}, cuplug {q[at]}; {int((~good).sum())} of {good.size}"


# --- what is tried


def _has(module: Any, name: str) -> bool:
    for part in name.split("."):
        if part.startswith("_") and not part.startswith("__"):
            return False
        try:
            module = getattr(module, part)
        except Exception:  # names that cuplug does not have raise what they like
            return False
    return callable(module)


def forms(torch: Any, cuplug: Any, op: Any) -> list[tuple[str, str]]:
    """How an operation may be called in both: (how, name)."""
    found = []
    for each in (op, *op.aliases):
        name = each.name
        if not name.startswith("__") and _has(torch, name) and _has(cuplug, name):
            theirs = torch
            for part in name.split("."):
                theirs = getattr(theirs, part)
            if each is not op or theirs is op.op:
                found.append(("function", name))
        for how, variant in (("method", each.method_variant), ("in place", each.inplace_variant)):
            called = getattr(variant, "__name__", "<lambda>")
            if _has(cuplug.Tensor, called) and _has(torch.Tensor, called):
                found.append((how, called))
        if name.startswith("__") and hasattr(cuplug.Tensor, name):
            found.append(("method", name))
    return list(dict.fromkeys(found))


def _outputs(torch: Any, expected: Any) -> Iterator[tuple[str, Any]]:
    """Tensors for ``out=`` of many kinds, after a result."""
    results = list(expected) if isinstance(expected, (tuple, list)) else [expected]
    if not results or not all(isinstance(each, torch.Tensor) for each in results):
        return

    def like(make: Callable[[Any], Any]) -> Any:
        made = tuple(map(make, results))
        return made if isinstance(expected, (tuple, list)) else made[0]

    yield "out alike", like(lambda e: torch.zeros(e.shape, dtype=e.dtype))
    yield "out empty", like(lambda e: torch.empty(0, dtype=e.dtype))
    yield "out stepped", like(lambda e: torch.zeros((*e.shape, 2), dtype=e.dtype)[..., 0])
    yield "out turned", like(lambda e: torch.zeros(e.shape[::-1], dtype=e.dtype).permute(tuple(range(e.ndim))[::-1]))
    yield "out of another shape", like(lambda e: torch.zeros((2, *e.shape), dtype=e.dtype))
    for kind in (torch.float64, torch.int64):
        if any(each.dtype is not kind for each in results):
            yield f"out of {kind}", like(lambda e, kind=kind: torch.zeros(e.shape, dtype=kind))


def cases(torch: Any, cuplug: Any, op: Any, kinds: Sequence[str], types: Sequence[str]) -> Iterator[Case]:
    """The cases of an operation."""
    called = forms(torch, cuplug, op)
    name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
    if called and "error" in kinds and op.error_inputs_func is not None:
        for error in op.error_inputs("cpu"):
            sample = error.sample_input
            for how, each in called:
                if how != "in place":
                    yield Case(name, each, how, "error", "", (sample.input, *sample.args), dict(sample.kwargs))
    for kind in kinds:
        for dtype in types:
            if called and kind != "error" and getattr(torch, dtype) in op.supported_dtypes("cpu"):
                yield from _samples(torch, op, name, called, kind, dtype)


def _samples(torch: Any, op: Any, name: str, called: list[tuple[str, str]], kind: str, dtype: str) -> Iterator[Case]:
    torch.manual_seed(1)
    draw = op.sample_inputs if kind == "sample" else op.reference_inputs
    function = ("function", op.name) in called
    for index, sample in enumerate(draw("cpu", getattr(torch, dtype), requires_grad=False)):
        arguments, keywords = (sample.input, *sample.args), dict(sample.kwargs)
        for how, each in called:
            if how == "function" or (isinstance(sample.input, torch.Tensor) and (kind == "sample" or not function)):
                yield Case(name, each, how, kind, dtype, arguments, keywords)
        if kind == "sample" and index < 2 and op.supports_out and function:
            try:
                torchs = Library(torch, "cpu")
                expected = op.op(*torchs.of(arguments), **torchs.of(keywords))
            except Exception:  # a sample that needs what is not tried
                continue
            for how, out in _outputs(torch, expected):
                yield Case(name, op.name, how, kind, dtype, arguments, keywords, out)


def _wider(torch: Any, tree: Any) -> Any:
    if isinstance(tree, torch.Tensor):
        return tree.double() if tree.dtype.is_floating_point else tree
    if isinstance(tree, torch.dtype):
        return torch.float64 if tree.is_floating_point else tree
    if isinstance(tree, dict):
        return {name: _wider(torch, each) for name, each in tree.items()}
    return type(tree)(_wider(torch, each) for each in tree) if type(tree) in (tuple, list) else tree


def difference(torch: Any, cuplug: Any, device: str, case: Case) -> tuple[str, str] | None:
    """How the two differ in a case, or None.

    Raises:
        NotTried: cuplug has not what the case needs, or it would end the device.
    """
    torchs, own = Library(torch, "cpu"), Library(cuplug, device)
    torch.manual_seed(1)
    theirs = torchs.outcome(case)
    if device != "cpu" and isinstance(theirs, Exception) and "out of bounds" in str(theirs):
        raise NotTried

    def exact() -> list[Any]:
        wide = case._replace(
            arguments=_wider(torch, case.arguments), keywords=_wider(torch, case.keywords), output=None
        )
        found = torchs.outcome(wide)
        return [] if isinstance(found, Exception) else tensors_in(found[1])

    return compare(case, theirs, own.outcome(case), exact)


def is_known(case: Case, what: str, device: str, text: str) -> bool:
    """Whether the table names such a difference."""
    name = case.name.removesuffix(".tensor_overload")
    how = case.how
    if case.kind == "error":
        how = "error" if hasattr(case.arguments[0], "stride") else "a number first"
        how = "out of a method" if case.how == "method" and "out" in case.keywords else how
    return any(
        (re.fullmatch(each.operations, name) or re.fullmatch(each.operations, name.rpartition(".")[0]))
        and re.fullmatch(each.how, how)
        and re.fullmatch(each.what, what)
        and re.fullmatch(each.devices, device)
        and re.search(each.text, f"{case}: {text}", re.DOTALL)
        for each in KNOWN
    )


class Tally:
    """How many cases were tried, of which operations, and how many differ: known or not."""

    def __init__(self) -> None:
        self.tried: Counter[str] = Counter()
        self.known: Counter[str] = Counter()
        self.unknown: list[tuple[Case, str, str]] = []

    def run(self, torch: Any, cuplug: Any, device: str, tried: Iterator[Case]) -> None:
        """Try cases."""
        for case in tried:
            try:
                found = difference(torch, cuplug, device, case)
            except NotTried:
                continue
            self.tried[case.name] += 1
            if found is not None and is_known(case, found[0], device, found[1]):
                self.known[case.name] += 1
            elif found is not None:
                self.unknown.append((case, *found))


def some(cuplug: Any, device: str, seed: int, operations: int) -> Tally:
    """Samples and errors of some operations, of two types each."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    draw = random.Random(seed)
    tally = Tally()
    quick = [each for each in op_db if each.name not in ("unique", "unique_consecutive")]
    for op in draw.sample([each for each in quick if forms(torch, cuplug, each)], operations):
        tally.run(torch, cuplug, device, cases(torch, cuplug, op, ("sample", "error"), draw.sample(TYPES, 2)))
    return tally


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", choices=("cpu", "cuda"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--kinds", default="sample,error")
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--part", default="0/1", help="of all operations, every N-th from K on: K/N")
    given = parser.parse_args()
    import cuplug
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    if given.device == "cuda":
        cuplug.init(driver="sim:devices=1")
    tally = Tally()
    first, step = map(int, given.part.split("/"))
    for op in op_db[first::step]:
        if not given.names or op.name in given.names:
            tally.run(
                torch, cuplug, given.device, cases(torch, cuplug, op, given.kinds.split(","), given.types.split(","))
            )
    unknown = Counter(case.name for case, _, _ in tally.unknown)
    for name, count in sorted(tally.tried.items()):
        print(f"{name}: {count - tally.known[name] - unknown[name]} of {count}, {tally.known[name]} known")
    for case, what, text in tally.unknown:
        print(f"{what}: {case}: {text}")
    tried, known = tally.tried.total(), tally.known.total()
    print(f"{tried} cases, {tried - known - len(tally.unknown)} alike, {known} known, {len(tally.unknown)} unknown")


if __name__ == "__main__":
    main()
