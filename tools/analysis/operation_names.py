"""The operation that a call stack of compiled code stands for, in words, with its phase."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...plugins.tracing.trace_in_memory import Frame

_SPECIAL = (
    (re.compile(r"\b(triton_\w+)"), r"compiled kernel \1"),
    (re.compile(r"cublasLt.*[Ww]orkspace|CUDABlasLtWorkspace", re.IGNORECASE), "cuBLASLt workspace"),
    (re.compile(r"cublas.*workspace|getNewWorkspace|parseChosenWorkspaceSize", re.IGNORECASE), "cuBLAS workspace"),
    (re.compile(r"CUDAGraph::(?:capture_begin|capture_end|instantiate|replay)"), "CUDA graph"),
    (re.compile(r"c10d::ops::(\w+?)_*(?:\(|$)|c10d::ProcessGroupNCCL::(\w+?)(?:_impl|_internal)?(?:\(|<|$)"), "NCCL"),
    (re.compile(r"c10d::Reducer"), "gradient buckets of DistributedDataParallel"),
    (re.compile(r"ncclComm|ncclGroup|\bnccl[A-Z]"), "NCCL"),
)
_OPERATION = re.compile(r"at::_ops::(\w+)")
_NATIVE = re.compile(r"at::(?:native::)?(?:\(anonymous namespace\)::)?(?:structured_)?(\w+?)(?:\(|<|::|$)")
_NODE = re.compile(r"\b(\w+?)Backward(\d*)(?:_copy)?::apply|\b(AccumulateGrad)::|\b(CopySlices|CopyBackwards)::")
_OVERLOAD = re.compile(
    r"(?:_(?:dim|int|self|indices|values|start|correction|names))?_(?:[A-Z]\w*|out|default|memory_format)$"
)
_ENDING = re.compile(r"(?:_out)?(?:_(?:cuda|cudnn|mkldnn|sparse))?(?:_(?:impl|out|kernel|template))*$")
_HELPERS = re.compile(
    r"^(?:empty|new_empty|resize|set_|zeros?$|zero_$|detail$|_empty|_resize|allocate|native$|raw|TensorBase|Tensor$)"
)
_BACKWARD = re.compile(
    r"autograd::Engine|Backward\d*::apply|AccumulateGrad|autograd::(?:Py)?Node::|PyNode::apply|CopySlices::apply"
)


def phase_of(stack: Sequence[Frame]) -> str:
    """``backward``, ``the optimiser``, ``forward``, or nothing where the stack does not tell."""
    for frame in stack:
        path = frame.filename.replace("\\", "/")
        if _BACKWARD.search(frame.function) or (frame.function == "backward" and "/torch/" in path):
            return "backward"
        if "/torch/optim/" in path or re.search(r"\bfused_adam|::multi_tensor_apply", frame.function):
            return "the optimiser"
    return "forward" if any(frame.function.rpartition(".")[2] == "forward" for frame in stack) else ""


def operation_of(stack: Sequence[Frame]) -> str:
    """The operation that a stack's compiled frames name, as PyTorch's own names have it; empty where they name none.

    The innermost counts that does more than to make room: of ``zeros`` within ``bmm`` it is ``bmm``'s.
    """
    functions = [frame.function for frame in stack]
    for function in functions:
        for pattern, words in _SPECIAL:
            found = pattern.search(function)
            if found is not None and words == "NCCL":
                what = next((part for part in found.groups() if part), "")
                return f"NCCL {what}".strip()
            if found is not None:
                return found.expand(words)
    names = [_OVERLOAD.sub("", name) for name in _matches(_OPERATION, functions)]
    if any("torchinductor_" in frame.filename for frame in stack) and not any(map(_does_more, names)):
        return "compiled code"
    if not any(map(_does_more, names)):
        node = next(_nodes(functions), "")
        if node:
            return node
        inner = [_ENDING.sub("", name) for name in _matches(_NATIVE, functions) if name not in ("_ops", "native")]
        names = [name for name in inner if name and _does_more(name)][:1] or names
    return next(filter(_does_more, names), names[-1] if names else "")


def _does_more(name: str) -> bool:
    return not _HELPERS.search(name)


def _matches(pattern: re.Pattern[str], functions: Sequence[str]) -> Iterator[str]:
    for function in functions:
        found = pattern.search(function)
        if found is not None:
            yield found[1]


def _nodes(functions: Sequence[str]) -> Iterator[str]:
    """Nodes of the graph of gradients: ``BmmBackward0::apply`` is ``bmm``'s."""
    for function in functions:
        found = _NODE.search(function)
        if found is None:
            continue
        if found[1] is None:
            yield "gradients added up" if found[3] else "copy"
        else:
            name = re.sub(r"(?<=\d)D(?=[A-Z]|$)", "d", found[1])  # MaxPool2DWithIndices
            yield re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
