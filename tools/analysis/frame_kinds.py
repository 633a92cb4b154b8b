"""What one level of a call stack is: the user's own program, a library, or noise that says nothing to anybody."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache

from ...plugins.tracing.trace_in_memory import Frame
from ...plugins.tracing.training_scope import PHASES


class FrameKind(IntEnum):
    """Whose a frame is. Reports have the numbers."""

    PROGRAM = 0
    """The user's own, or a module of a network."""
    LIBRARY = 1
    """An installed library's or the standard library's, in Python, or an operation's in C++."""
    NOISE = 2
    """The unwinder, the allocator, the interpreter, dispatch layers, whatever starts programs: left out of stacks."""


_INSTALLED = re.compile(
    r"site-packages|dist-packages|/lib(?:64)?/python\d|/python[\d.]+\.zip/"
    r"|/(?:python[\d.\-]*|(?:ana|mini)conda\d?|miniforge\d?|mambaforge|pyenv-win/versions/[^/]+|envs/[^/]+)/lib/"
    r"|/torch/(?:nn|autograd|optim|utils|_dynamo|_inductor|_functorch|distributed|cuda|fx|amp)/"
    r"|/torch/(?:_tensor|functional|_ops|_compile|_jit_internal|random|serialization|hub)\.py$"
    r"|/torchinductor_[^/]+/|/\.vscode[^/]*/extensions/|/pydevd?/",
    re.IGNORECASE,
)
_TYPED_IN = ("<stdin>", "<string>", "<ipython", "<console>", "<input")
_LAUNCHER = re.compile(r"/(?:bin|scripts)/[^/.]+(?:\.exe)?(?:/__main__\.py)?$", re.IGNORECASE)
_SOURCE = re.compile(r"\.(?:c|cc|cpp|cxx|cu|cuh|h|hpp|s|o|so|dll|pyd|pyx|asm|inl)(?:\.\d+)*$", re.IGNORECASE)

_NOISE = re.compile(
    r"unwind::unwind|CapturedTraceback::|gather_with_cpp|CUDACachingAllocator|DeviceCachingAllocator"
    r"|NativeCachingAllocator|c10::cuda::.*Allocator|c10::StorageImpl|c10::GetAllocator|^c10::alloc"
    r"|^_?Py(?!Node)[A-Z]?\w*(?:_|$)|^_Py_|^pymain_|^run_mod$|^run_eval_code_obj$|^cfunction_|^vectorcall_|^method_vectorcall"
    r"|^slot_tp_|^object_vacall|^builtin_|^type_call$|^property_|^partial_|^wrap_|^do_call_core$|^call_function$"
    r"|^_start$|^start_thread$|^clone3?$|^__clone|^__libc_start|^__GI_|^execute_native_thread|^pthread_|^__xmknod"
    r"|^std::(?:thread|_Function_handler|invoke|__invoke|enable_if)|^thread_start|^BaseThreadInitThunk|^RtlUserThreadStart"
    r"|^c10::impl::|^c10::Dispatcher|^c10::(?:detail|ivalue)::|^c10::OperatorHandle|^c10::KernelFunction"
    r"|^at::detail::empty_|boxing|wrap_kernel_functor|make_boxed_from_unboxed|KernelFunction|callOp\b|redispatch|::Dispatcher::"
    r"|^torch::autograd::THP|^torch::jit::.*(?:Interpreter|invokeOperator)|^THP\w+|^pybind11::|^\(?anonymous"
    r"|^ffi_call|^_ctypes|^0x[0-9a-f]+$|^\?*$",
)
_NOISY_FILES = re.compile(
    r"core/boxing|/Register\w*\.cpp|/Redispatch|pythonrun\.c|Modules/main\.c|Objects/\w+\.c$|ceval(?:\.c|_macros\.h|\.h)$"
    r"|pycore_\w+\.h|cpython/abstract\.h|Python/\w+\.c$|Programs/python\.c|libc-start|pthread_create|CUDACachingAllocator"
)


@lru_cache(maxsize=1 << 16)
def kind_of(frame: Frame) -> FrameKind:
    """Whose a frame is."""
    if not frame.line and frame.filename in PHASES:
        return FrameKind.PROGRAM
    if is_native(frame):
        noise = _NOISE.search(frame.function) or _NOISY_FILES.search(frame.filename)
        return FrameKind.NOISE if noise else FrameKind.LIBRARY
    path = frame.filename.replace("\\", "/")
    if path.startswith("<"):
        if path.startswith("<frozen") or frame.function in ("run_code", "_run_code"):
            return FrameKind.NOISE
        return FrameKind.PROGRAM if path.startswith(_TYPED_IN) else FrameKind.LIBRARY
    if path.endswith("/runpy.py") or _LAUNCHER.search(path):
        return FrameKind.NOISE
    return FrameKind.LIBRARY if _INSTALLED.search(path) else FrameKind.PROGRAM


def is_native(frame: Frame) -> bool:
    """Whether a frame is compiled code's, rather than Python's."""
    if frame.filename in ("", "??") or _SOURCE.search(frame.filename):
        return True
    return "::" in frame.function or not (frame.line or frame.filename.startswith("<"))


def short_path(filename: str) -> str:
    """A file's path from the package that it is installed in; its name for others."""
    path = filename.replace("\\", "/")
    for root in ("site-packages/", "dist-packages/"):
        if root in path:
            return path.rpartition(root)[2]
    if "/torch/" in path:
        return f"torch/{path.rpartition('/torch/')[2]}"
    return path.rpartition("/")[2]
