"""The site of an allocation: the user's own innermost frame, else the operation in words, else a C++ name."""

from __future__ import annotations

import numpy as np
import pytest
from cuplug.plugins.tracing.trace_in_memory import EVENT_DTYPE, Frame, Header, Trace
from cuplug.tools.analysis.frame_kinds import FrameKind, kind_of
from cuplug.tools.analysis.sites import NO_STACK, SiteNames, without_noise

UNWINDER = [
    Frame("??", 0, "torch::unwind::unwind()"),
    Frame("??", 0, "torch::CapturedTraceback::gather(bool, bool, bool)"),
    Frame("CUDACachingAllocator.cpp", 0, "c10::cuda::CUDACachingAllocator::DeviceCachingAllocator::malloc("),
    Frame("??", 0, "at::detail::empty_cuda(c10::ArrayRef<long>, c10::ScalarType)"),
]  # fmt: skip
INTERPRETER = [
    Frame("??", 0, "_PyEval_EvalFrameDefault"), Frame("??", 0, "pymain_run_python.constprop.0"),
    Frame("??", 0, "Py_RunMain"), Frame("libc-start.c", 0, "__libc_start_main"), Frame("??", 0, "_start"),
]  # fmt: skip
LINEAR = Frame("/opt/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py", 125, "forward")
MODULE = Frame("/opt/venv/lib/python3.12/site-packages/torch/nn/modules/module.py", 1784, "_call_impl")
ENGINE = Frame(
    "engine.cpp", 0, "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)"
)
THREAD = [Frame("thread.o", 0, "execute_native_thread_routine"), Frame("??", 0, "pthread_condattr_setpshared")]


def native(*names: str) -> list[Frame]:
    return [Frame("??", 0, name) for name in names]


def site(*stack: Frame) -> str:
    frames = dict(enumerate(stack, 1))
    trace = Trace(Header({}), np.zeros(0, EVENT_DTYPE), frames=frames, stacks={1: tuple(frames)})
    return SiteNames(trace).of(1)


def test_the_users_own_frame_counts_among_frames_of_cpp_libraries_and_the_interpreter() -> None:
    ops = native("at::_ops::matmul::call(at::Tensor const&)", "torch::autograd::THPVariable_matmul(_object*)")
    own = Frame("/home/u/model.py", 39, "forward")
    stack = [*UNWINDER, *ops, LINEAR, MODULE, own, Frame("/home/u/train.py", 80, "<module>"), *INTERPRETER]
    assert site(*stack) == "forward (model.py:39)"
    assert [frame.function for frame in without_noise(stack)][:3] == [
        "at::_ops::matmul::call(at::Tensor const&)", "forward", "_call_impl",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (
            "at::native::bmm_out_cuda_impl at::_ops::bmm::call( torch::autograd::generated::BmmBackward0::apply(",
            "bmm, in backward",
        ),
        ("at::_ops::add_Tensor::call( torch::autograd::AccumulateGrad::apply()", "add, in backward"),
        ("at::_ops::empty_strided::redispatch( at::_ops::sum_dim_IntList::call(", "sum"),
        ("at::_ops::zeros::call(", "zeros"),
        ("at::native::max_pool2d_with_indices_out_cuda_template", "max_pool2d_with_indices"),
        ("torch::autograd::generated::MaxPool2DWithIndicesBackward0::apply(", "max_pool2d_with_indices, in backward"),
        ("at::cuda::parseChosenWorkspaceSize() at::cuda::getCurrentCUDABlasHandle()", "cuBLAS workspace"),
        ("c10d::ProcessGroupNCCL::allreduce( c10d::ops::allreduce_(", "NCCL allreduce"),
        ("triton_poi_fused_add_0", "compiled kernel triton_poi_fused_add_0"),
        ("c10::cuda::MemPool::MemPool()", "c10::cuda::MemPool::MemPool()"),
    ],
)
def test_without_a_frame_of_the_program_it_is_the_operation_in_words_with_its_phase(names: str, says: str) -> None:
    assert site(*UNWINDER, *native(*names.split()), *THREAD) == says


def test_an_optimisers_step_is_told_by_its_library() -> None:
    step = Frame("C:\\env\\Lib\\site-packages\\torch\\optim\\adamw.py", 400, "step")
    assert site(*UNWINDER, *native("at::_ops::_foreach_sqrt::call("), step) == "_foreach_sqrt, in the optimiser"


def test_a_backward_pass_is_told_also_by_the_engine_that_runs_it() -> None:
    assert site(*UNWINDER, *native("at::_ops::mm::call(at::Tensor const&)"), ENGINE, *THREAD) == "mm, in backward"


def test_libraries_alone_give_the_operation_and_the_line_that_is_not_pytorchs() -> None:
    layer = Frame("/usr/lib/python3/dist-packages/vllm/attention/layer.py", 99, "forward")
    op = native("at::_ops::mm::call(at::Tensor const&)")
    assert (
        site(*UNWINDER, *op, LINEAR, layer, *INTERPRETER) == "mm, in forward, at forward (vllm/attention/layer.py:99)"
    )
    assert site(LINEAR, layer) == "forward (vllm/attention/layer.py:99)"
    assert site(LINEAR, MODULE) == "forward (torch/nn/modules/linear.py:125)"


def test_what_says_nothing_at_all_is_no_call_stack() -> None:
    assert site(*UNWINDER[:3], *INTERPRETER) == NO_STACK
    assert site() == NO_STACK


@pytest.mark.parametrize(
    ("filename", "function", "kind"),
    [
        ("C:\\Users\\u\\proj\\lib\\model.py", "forward", FrameKind.PROGRAM),
        ("C:\\Users\\u\\AppData\\Local\\Programs\\Python\\Python312\\Lib\\threading.py", "run", FrameKind.LIBRARY),
        ("C:\\Users\\u\\miniconda3\\Lib\\contextlib.py", "inner", FrameKind.LIBRARY),
        ("C:\\env\\Lib\\site-packages\\torch\\nn\\modules\\module.py", "_call_impl", FrameKind.LIBRARY),
        ("/tmp/ipykernel_17/3405691.py", "<module>", FrameKind.PROGRAM),
        ("<ipython-input-3-abc>", "<module>", FrameKind.PROGRAM),
        ("<stdin>", "<module>", FrameKind.PROGRAM),
        ("<frozen runpy>", "_run_module_as_main", FrameKind.NOISE),
        ("<eval_with_key>.7", "forward", FrameKind.LIBRARY),
        ("/opt/venv/bin/torchrun", "<module>", FrameKind.NOISE),
        ("/usr/lib/python3.12/runpy.py", "run_path", FrameKind.NOISE),
        ("/usr/lib64/python3.12/functools.py", "wrapper", FrameKind.LIBRARY),
        ("/tmp/torchinductor_u/ab/cab.py", "call", FrameKind.LIBRARY),
        ("...ackages/torch/nn/modules/linear.py", "forward", FrameKind.LIBRARY),
        ("/home/u/site.py", "main", FrameKind.PROGRAM),
    ],
)
def test_whose_a_python_frame_is(filename: str, function: str, kind: FrameKind) -> None:
    assert kind_of(Frame(filename, 12, function)) == kind


def test_files_of_one_name_are_told_apart_by_their_folders() -> None:
    frames = {
        1: Frame("/home/u/a/model.py", 1, "f"),
        2: Frame("/home/u/b/model.py", 1, "f"),
        3: Frame("/home/u/x.py", 1, "f"),
    }
    trace = Trace(Header({}), np.zeros(0, EVENT_DTYPE), frames=frames, stacks={n: (n,) for n in frames})
    names = SiteNames(trace)
    assert [names.of(n) for n in frames] == ["f (a/model.py:1)", "f (b/model.py:1)", "f (x.py:1)"]
