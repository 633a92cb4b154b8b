"""cuplug: a CUDA runtime for Python whose memory allocator is a plugin."""

# ruff: noqa: A004 - torch's names

import sys as _sys
from typing import TYPE_CHECKING

from .allocators.errors import (
    CompileError,
    CuplugError,
    DeviceMismatchError,
    DriverError,
    InvalidFreeError,
    OutOfMemoryError,
    PluginError,
    TraceError,
    UnknownAllocatorError,
)
from .runtime import cuda, interop
from .runtime.buffer import Buffer
from .runtime.default_runtime import default_runtime, init, shutdown
from .runtime.pinned import PinnedBuffer
from .runtime.runtime import Runtime

__all__ = [
    "Buffer",
    "CompileError",
    "CuplugError",
    "DeviceMismatchError",
    "DriverError",
    "InvalidFreeError",
    "OutOfMemoryError",
    "PinnedBuffer",
    "PluginError",
    "Runtime",
    "TraceError",
    "UnknownAllocatorError",
    "__version__",
    "cuda",
    "default_runtime",
    "init",
    "interop",
    "shutdown",
]
__version__ = "0.1.0"

# The façade lives on its floor; `import cuplug.cuda` finds it all the same. A module `cuda.py` here would hide NVIDIA's
# package `cuda` from programs that run in this folder. Type checkers read `cuda.pyi`.
_sys.modules[f"{__name__}.cuda"] = cuda
# The same for what puts cuplug under other libraries: `import cuplug.interop.cupy` finds it, once under each name.
_sys.modules[f"{__name__}.interop"] = interop
for _library in interop.LIBRARIES:
    _sys.modules[f"{__name__}.interop.{_library}"] = getattr(interop, _library)

if TYPE_CHECKING:
    from .runtime.kernels import SourceModule as SourceModule

    # All of its ``__all__``, which a test compares.
    from .runtime.tensor import (
        BFloat16Tensor as BFloat16Tensor,
    )
    from .runtime.tensor import (
        BoolTensor as BoolTensor,
    )
    from .runtime.tensor import (
        ByteTensor as ByteTensor,
    )
    from .runtime.tensor import (
        CharTensor as CharTensor,
    )
    from .runtime.tensor import (
        DoubleTensor as DoubleTensor,
    )
    from .runtime.tensor import (
        FloatTensor as FloatTensor,
    )
    from .runtime.tensor import (
        Generator as Generator,
    )
    from .runtime.tensor import (
        HalfTensor as HalfTensor,
    )
    from .runtime.tensor import (
        IntTensor as IntTensor,
    )
    from .runtime.tensor import (
        LongTensor as LongTensor,
    )
    from .runtime.tensor import (
        ShortTensor as ShortTensor,
    )
    from .runtime.tensor import (
        Size as Size,
    )
    from .runtime.tensor import (
        Tensor as Tensor,
    )
    from .runtime.tensor import (
        abs as abs,
    )
    from .runtime.tensor import (
        absolute as absolute,
    )
    from .runtime.tensor import (
        acos as acos,
    )
    from .runtime.tensor import (
        acosh as acosh,
    )
    from .runtime.tensor import (
        add as add,
    )
    from .runtime.tensor import (
        all as all,
    )
    from .runtime.tensor import (
        allclose as allclose,
    )
    from .runtime.tensor import (
        amax as amax,
    )
    from .runtime.tensor import (
        amin as amin,
    )
    from .runtime.tensor import (
        any as any,
    )
    from .runtime.tensor import (
        arange as arange,
    )
    from .runtime.tensor import (
        arccos as arccos,
    )
    from .runtime.tensor import (
        arccosh as arccosh,
    )
    from .runtime.tensor import (
        arcsin as arcsin,
    )
    from .runtime.tensor import (
        arcsinh as arcsinh,
    )
    from .runtime.tensor import (
        arctan as arctan,
    )
    from .runtime.tensor import (
        arctan2 as arctan2,
    )
    from .runtime.tensor import (
        arctanh as arctanh,
    )
    from .runtime.tensor import (
        argmax as argmax,
    )
    from .runtime.tensor import (
        argmin as argmin,
    )
    from .runtime.tensor import (
        as_strided as as_strided,
    )
    from .runtime.tensor import (
        as_tensor as as_tensor,
    )
    from .runtime.tensor import (
        asarray as asarray,
    )
    from .runtime.tensor import (
        asin as asin,
    )
    from .runtime.tensor import (
        asinh as asinh,
    )
    from .runtime.tensor import (
        atan as atan,
    )
    from .runtime.tensor import (
        atan2 as atan2,
    )
    from .runtime.tensor import (
        atanh as atanh,
    )
    from .runtime.tensor import (
        backends as backends,
    )
    from .runtime.tensor import (
        bfloat16 as bfloat16,
    )
    from .runtime.tensor import (
        bitwise_and as bitwise_and,
    )
    from .runtime.tensor import (
        bitwise_left_shift as bitwise_left_shift,
    )
    from .runtime.tensor import (
        bitwise_not as bitwise_not,
    )
    from .runtime.tensor import (
        bitwise_or as bitwise_or,
    )
    from .runtime.tensor import (
        bitwise_right_shift as bitwise_right_shift,
    )
    from .runtime.tensor import (
        bitwise_xor as bitwise_xor,
    )
    from .runtime.tensor import (
        bmm as bmm,
    )
    from .runtime.tensor import (
        bool as bool,
    )
    from .runtime.tensor import (
        broadcast_shapes as broadcast_shapes,
    )
    from .runtime.tensor import (
        broadcast_tensors as broadcast_tensors,
    )
    from .runtime.tensor import (
        broadcast_to as broadcast_to,
    )
    from .runtime.tensor import (
        can_cast as can_cast,
    )
    from .runtime.tensor import (
        cat as cat,
    )
    from .runtime.tensor import (
        ceil as ceil,
    )
    from .runtime.tensor import (
        chunk as chunk,
    )
    from .runtime.tensor import (
        clamp as clamp,
    )
    from .runtime.tensor import (
        clamp_max as clamp_max,
    )
    from .runtime.tensor import (
        clamp_min as clamp_min,
    )
    from .runtime.tensor import (
        clip as clip,
    )
    from .runtime.tensor import (
        clone as clone,
    )
    from .runtime.tensor import (
        concat as concat,
    )
    from .runtime.tensor import (
        concatenate as concatenate,
    )
    from .runtime.tensor import (
        copysign as copysign,
    )
    from .runtime.tensor import (
        cos as cos,
    )
    from .runtime.tensor import (
        cosh as cosh,
    )
    from .runtime.tensor import (
        count_nonzero as count_nonzero,
    )
    from .runtime.tensor import (
        deg2rad as deg2rad,
    )
    from .runtime.tensor import (
        device as device,
    )
    from .runtime.tensor import (
        diagonal as diagonal,
    )
    from .runtime.tensor import (
        div as div,
    )
    from .runtime.tensor import (
        divide as divide,
    )
    from .runtime.tensor import (
        dot as dot,
    )
    from .runtime.tensor import (
        double as double,
    )
    from .runtime.tensor import (
        dtype as dtype,
    )
    from .runtime.tensor import (
        e as e,
    )
    from .runtime.tensor import (
        empty as empty,
    )
    from .runtime.tensor import (
        empty_like as empty_like,
    )
    from .runtime.tensor import (
        empty_strided as empty_strided,
    )
    from .runtime.tensor import (
        eq as eq,
    )
    from .runtime.tensor import (
        equal as equal,
    )
    from .runtime.tensor import (
        erf as erf,
    )
    from .runtime.tensor import (
        erfc as erfc,
    )
    from .runtime.tensor import (
        exp as exp,
    )
    from .runtime.tensor import (
        exp2 as exp2,
    )
    from .runtime.tensor import (
        expm1 as expm1,
    )
    from .runtime.tensor import (
        eye as eye,
    )
    from .runtime.tensor import (
        finfo as finfo,
    )
    from .runtime.tensor import (
        fix as fix,
    )
    from .runtime.tensor import (
        flatten as flatten,
    )
    from .runtime.tensor import (
        flip as flip,
    )
    from .runtime.tensor import (
        float as float,
    )
    from .runtime.tensor import (
        float16 as float16,
    )
    from .runtime.tensor import (
        float32 as float32,
    )
    from .runtime.tensor import (
        float64 as float64,
    )
    from .runtime.tensor import (
        floor as floor,
    )
    from .runtime.tensor import (
        floor_divide as floor_divide,
    )
    from .runtime.tensor import (
        fmax as fmax,
    )
    from .runtime.tensor import (
        fmin as fmin,
    )
    from .runtime.tensor import (
        fmod as fmod,
    )
    from .runtime.tensor import (
        frac as frac,
    )
    from .runtime.tensor import (
        from_dlpack as from_dlpack,
    )
    from .runtime.tensor import (
        from_numpy as from_numpy,
    )
    from .runtime.tensor import (
        full as full,
    )
    from .runtime.tensor import (
        full_like as full_like,
    )
    from .runtime.tensor import (
        ge as ge,
    )
    from .runtime.tensor import (
        get_default_dtype as get_default_dtype,
    )
    from .runtime.tensor import (
        greater as greater,
    )
    from .runtime.tensor import (
        greater_equal as greater_equal,
    )
    from .runtime.tensor import (
        gt as gt,
    )
    from .runtime.tensor import (
        half as half,
    )
    from .runtime.tensor import (
        hypot as hypot,
    )
    from .runtime.tensor import (
        iinfo as iinfo,
    )
    from .runtime.tensor import (
        index_select as index_select,
    )
    from .runtime.tensor import (
        inf as inf,
    )
    from .runtime.tensor import (
        initial_seed as initial_seed,
    )
    from .runtime.tensor import (
        int as int,
    )
    from .runtime.tensor import (
        int8 as int8,
    )
    from .runtime.tensor import (
        int16 as int16,
    )
    from .runtime.tensor import (
        int32 as int32,
    )
    from .runtime.tensor import (
        int64 as int64,
    )
    from .runtime.tensor import (
        is_complex as is_complex,
    )
    from .runtime.tensor import (
        is_floating_point as is_floating_point,
    )
    from .runtime.tensor import (
        is_nonzero as is_nonzero,
    )
    from .runtime.tensor import (
        is_same_size as is_same_size,
    )
    from .runtime.tensor import (
        is_signed as is_signed,
    )
    from .runtime.tensor import (
        is_tensor as is_tensor,
    )
    from .runtime.tensor import (
        isclose as isclose,
    )
    from .runtime.tensor import (
        isfinite as isfinite,
    )
    from .runtime.tensor import (
        isinf as isinf,
    )
    from .runtime.tensor import (
        isnan as isnan,
    )
    from .runtime.tensor import (
        le as le,
    )
    from .runtime.tensor import (
        lerp as lerp,
    )
    from .runtime.tensor import (
        less as less,
    )
    from .runtime.tensor import (
        less_equal as less_equal,
    )
    from .runtime.tensor import (
        linspace as linspace,
    )
    from .runtime.tensor import (
        log as log,
    )
    from .runtime.tensor import (
        log1p as log1p,
    )
    from .runtime.tensor import (
        log2 as log2,
    )
    from .runtime.tensor import (
        log10 as log10,
    )
    from .runtime.tensor import (
        logical_and as logical_and,
    )
    from .runtime.tensor import (
        logical_not as logical_not,
    )
    from .runtime.tensor import (
        logical_or as logical_or,
    )
    from .runtime.tensor import (
        logical_xor as logical_xor,
    )
    from .runtime.tensor import (
        long as long,
    )
    from .runtime.tensor import (
        lt as lt,
    )
    from .runtime.tensor import (
        manual_seed as manual_seed,
    )
    from .runtime.tensor import (
        masked_fill as masked_fill,
    )
    from .runtime.tensor import (
        masked_select as masked_select,
    )
    from .runtime.tensor import (
        matmul as matmul,
    )
    from .runtime.tensor import (
        max as max,
    )
    from .runtime.tensor import (
        maximum as maximum,
    )
    from .runtime.tensor import (
        mean as mean,
    )
    from .runtime.tensor import (
        min as min,
    )
    from .runtime.tensor import (
        minimum as minimum,
    )
    from .runtime.tensor import (
        mm as mm,
    )
    from .runtime.tensor import (
        moveaxis as moveaxis,
    )
    from .runtime.tensor import (
        movedim as movedim,
    )
    from .runtime.tensor import (
        mul as mul,
    )
    from .runtime.tensor import (
        multiply as multiply,
    )
    from .runtime.tensor import (
        mv as mv,
    )
    from .runtime.tensor import (
        nan as nan,
    )
    from .runtime.tensor import (
        narrow as narrow,
    )
    from .runtime.tensor import (
        ne as ne,
    )
    from .runtime.tensor import (
        neg as neg,
    )
    from .runtime.tensor import (
        negative as negative,
    )
    from .runtime.tensor import (
        newaxis as newaxis,
    )
    from .runtime.tensor import (
        no_grad as no_grad,
    )
    from .runtime.tensor import (
        nonzero as nonzero,
    )
    from .runtime.tensor import (
        norm as norm,
    )
    from .runtime.tensor import (
        normal as normal,
    )
    from .runtime.tensor import (
        not_equal as not_equal,
    )
    from .runtime.tensor import (
        numel as numel,
    )
    from .runtime.tensor import (
        ones as ones,
    )
    from .runtime.tensor import (
        ones_like as ones_like,
    )
    from .runtime.tensor import (
        permute as permute,
    )
    from .runtime.tensor import (
        pi as pi,
    )
    from .runtime.tensor import (
        positive as positive,
    )
    from .runtime.tensor import (
        pow as pow,
    )
    from .runtime.tensor import (
        prod as prod,
    )
    from .runtime.tensor import (
        promote_types as promote_types,
    )
    from .runtime.tensor import (
        rad2deg as rad2deg,
    )
    from .runtime.tensor import (
        rand as rand,
    )
    from .runtime.tensor import (
        rand_like as rand_like,
    )
    from .runtime.tensor import (
        randint as randint,
    )
    from .runtime.tensor import (
        randint_like as randint_like,
    )
    from .runtime.tensor import (
        randn as randn,
    )
    from .runtime.tensor import (
        randn_like as randn_like,
    )
    from .runtime.tensor import (
        randperm as randperm,
    )
    from .runtime.tensor import (
        ravel as ravel,
    )
    from .runtime.tensor import (
        reciprocal as reciprocal,
    )
    from .runtime.tensor import (
        relu as relu,
    )
    from .runtime.tensor import (
        remainder as remainder,
    )
    from .runtime.tensor import (
        reshape as reshape,
    )
    from .runtime.tensor import (
        result_type as result_type,
    )
    from .runtime.tensor import (
        round as round,
    )
    from .runtime.tensor import (
        rsqrt as rsqrt,
    )
    from .runtime.tensor import (
        scalar_tensor as scalar_tensor,
    )
    from .runtime.tensor import (
        seed as seed,
    )
    from .runtime.tensor import (
        select as select,
    )
    from .runtime.tensor import (
        set_default_dtype as set_default_dtype,
    )
    from .runtime.tensor import (
        set_printoptions as set_printoptions,
    )
    from .runtime.tensor import (
        short as short,
    )
    from .runtime.tensor import (
        sigmoid as sigmoid,
    )
    from .runtime.tensor import (
        sign as sign,
    )
    from .runtime.tensor import (
        signbit as signbit,
    )
    from .runtime.tensor import (
        sin as sin,
    )
    from .runtime.tensor import (
        sinh as sinh,
    )
    from .runtime.tensor import (
        split as split,
    )
    from .runtime.tensor import (
        sqrt as sqrt,
    )
    from .runtime.tensor import (
        square as square,
    )
    from .runtime.tensor import (
        squeeze as squeeze,
    )
    from .runtime.tensor import (
        stack as stack,
    )
    from .runtime.tensor import (
        std as std,
    )
    from .runtime.tensor import (
        sub as sub,
    )
    from .runtime.tensor import (
        subtract as subtract,
    )
    from .runtime.tensor import (
        sum as sum,
    )
    from .runtime.tensor import (
        swapaxes as swapaxes,
    )
    from .runtime.tensor import (
        swapdims as swapdims,
    )
    from .runtime.tensor import (
        t as t,
    )
    from .runtime.tensor import (
        tan as tan,
    )
    from .runtime.tensor import (
        tanh as tanh,
    )
    from .runtime.tensor import (
        tensor as tensor,
    )
    from .runtime.tensor import (
        tile as tile,
    )
    from .runtime.tensor import (
        transpose as transpose,
    )
    from .runtime.tensor import (
        true_divide as true_divide,
    )
    from .runtime.tensor import (
        trunc as trunc,
    )
    from .runtime.tensor import (
        uint8 as uint8,
    )
    from .runtime.tensor import (
        unbind as unbind,
    )
    from .runtime.tensor import (
        unflatten as unflatten,
    )
    from .runtime.tensor import (
        unsqueeze as unsqueeze,
    )
    from .runtime.tensor import (
        var as var,
    )
    from .runtime.tensor import (
        where as where,
    )
    from .runtime.tensor import (
        zeros as zeros,
    )
    from .runtime.tensor import (
        zeros_like as zeros_like,
    )
else:
    # Hidden from type checkers, which would take every name to exist.

    def __getattr__(name):
        """``SourceModule``, tensors and their functions (``tensor``, ``float32``, ...), imported at first use."""
        if name == "SourceModule":
            from .runtime import kernels

            found = kernels.SourceModule
        else:
            from .runtime.tensor import PUBLIC

            try:
                found = PUBLIC[name]
            except KeyError:
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
        globals()[name] = found
        return found

    def __dir__():
        from .runtime.tensor import PUBLIC

        return sorted({*globals(), "SourceModule", *PUBLIC} - {"TYPE_CHECKING"})
