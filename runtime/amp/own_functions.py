"""Functions with a gradient of their own under ``autocast``: in which types they run, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

from ..tensor.core.dtypes import dtype
from ..tensor.core.tensor import Tensor
from .autocasting import autocast, get_autocast_dtype, is_autocast_enabled


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str = "cuda", cast_inputs: dtype | None = None
) -> Callable[..., Any]:
    """Decorate ``forward`` of an ``autograd.Function``, above which ``staticmethod`` stands.

    Args:
        fwd: the method, where the decorator has no arguments.
        device_type: of which kind of device ``autocast`` is meant.
        cast_inputs: within ``autocast``, floating-point tensors among the arguments, also within lists, tuples and
            dictionaries, are converted to this type, and ``autocast`` is off inside. None leaves both as they are.
    """
    if fwd is None:
        return partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    method = fwd

    @wraps(method)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        active = is_autocast_enabled(device_type)
        ctx._autocast = active and cast_inputs is None, get_autocast_dtype(device_type)
        if cast_inputs is None or not active:
            return method(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            given, named = _converted((args, kwargs), device_type, cast_inputs)
            return method(ctx, *given, **named)

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str = "cuda") -> Callable[..., Any]:
    """Decorate ``backward`` of an ``autograd.Function`` whose ``forward`` has ``custom_fwd``: it runs as that did under
    ``autocast``.

    Args:
        bwd: the method, where the decorator has no arguments.
        device_type: as of ``custom_fwd``.
    """
    if bwd is None:
        return partial(custom_bwd, device_type=device_type)
    method = bwd

    @wraps(method)
    def backward(ctx: Any, *gradients: Any) -> Any:
        enabled, kind = ctx._autocast
        with autocast(device_type, kind, enabled):
            return method(ctx, *gradients)

    return backward


def _converted(thing: Any, device_type: str, kind: dtype) -> Any:
    """The same, with floating-point tensors of this kind of device in one type; float64 stays."""
    if isinstance(thing, Tensor):
        fits = thing.device.type == device_type and thing.dtype.kind == "f" and thing.dtype.name != "float64"
        return thing.to(kind) if fits else thing
    if isinstance(thing, Mapping):
        return {key: _converted(each, device_type, kind) for key, each in thing.items()}
    if isinstance(thing, (list, tuple)):
        made = [_converted(each, device_type, kind) for each in thing]
        return type(thing)(*made) if hasattr(thing, "_fields") else type(thing)(made)
    return thing
