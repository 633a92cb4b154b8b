"""Layers that take the number of features or channels from their first input, as in torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..tensor.core.tensor import Tensor
from .convolution_layers import Conv1d, Conv2d, ConvTranspose2d
from .linear_layers import Linear
from .module import Module
from .normalisation_layers import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from .volume_layers import Conv3d, ConvTranspose1d, ConvTranspose3d

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
]


def _lazy(kind: type[Any], counted: str, axis: int) -> type[Any]:
    """The layer ``kind`` without its first argument ``counted``, which is the length of the input's dimension ``axis``.

    Until its first input its parameters have no elements. They stay the same objects, which an optimiser may hold.
    """

    class Lazy(kind):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            kind.__init__(self, 0, *args, **kwargs)
            self._asked = args, kwargs
            self.register_forward_pre_hook(learn_size, with_kwargs=True)

        def reset_parameters(self) -> None:
            """Nothing: there are no elements yet, and no random numbers are drawn."""

        def _load_from_state_dict(self, state: Mapping[str, Any], prefix: str, *rest: Any) -> None:
            given = state.get(f"{prefix}weight", state.get(f"{prefix}running_mean"))
            sizes = tuple(getattr(given, "shape", ()))
            place = 0 if counted == "num_features" or getattr(kind, "transposed", False) else 1
            if place < len(sizes) and 0 not in sizes:  # without elements it is the state of a layer without a size
                self._become(sizes[place] * (getattr(self, "groups", 1) if place else 1))
            kind._load_from_state_dict(self, state, prefix, *rest)

        def _learn(self, input: Tensor) -> None:
            least = axis + 1 if axis > 0 else -axis
            if input.ndim == least or (input.ndim > least and (axis >= -1 or input.ndim == least + 1)):
                self._become(input.shape[axis])

        def _become(self, count: int) -> None:
            args, kwargs = self._asked
            made: Module = kind(count, *args, **kwargs)
            state = next((each for each in (*self.parameters(), *self.buffers()) if each.is_floating_point()), None)
            made = made if state is None else made.to(state.device, state.dtype)
            for name, parameter in self._parameters.items():
                if parameter is not None:
                    parameter.data = made._parameters[name].data
            self._buffers.update(made._buffers)
            setattr(self, counted, count)
            del self._asked
            for number, hook in list(self._forward_pre_hooks.items()):
                if hook is learn_size:
                    del self._forward_pre_hooks[number], self._forward_pre_hooks_with_kwargs[number]
            self.__class__ = kind  # as in torch: afterwards it is an ordinary layer

    Lazy.__name__ = Lazy.__qualname__ = f"Lazy{kind.__name__}"
    Lazy.__module__ = __name__
    Lazy.__doc__ = f"``{kind.__name__}`` without ``{counted}``, which its first input or its state tells."
    return Lazy


def learn_size(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Before the first call of a layer: it takes its size from the input. What is wrong with an input that tells none,
    ``forward`` says. Files of such layers name this function."""
    input = args[0] if args else kwargs.get("input")
    if isinstance(input, Tensor):
        module._learn(input)


LazyLinear = _lazy(Linear, "in_features", -1)
LazyConv1d = _lazy(Conv1d, "in_channels", -2)
LazyConv2d = _lazy(Conv2d, "in_channels", -3)
LazyConv3d = _lazy(Conv3d, "in_channels", -4)
LazyConvTranspose1d = _lazy(ConvTranspose1d, "in_channels", -2)
LazyConvTranspose2d = _lazy(ConvTranspose2d, "in_channels", -3)
LazyConvTranspose3d = _lazy(ConvTranspose3d, "in_channels", -4)
LazyBatchNorm1d = _lazy(BatchNorm1d, "num_features", 1)
LazyBatchNorm2d = _lazy(BatchNorm2d, "num_features", 1)
LazyBatchNorm3d = _lazy(BatchNorm3d, "num_features", 1)
LazyInstanceNorm1d = _lazy(InstanceNorm1d, "num_features", -2)
LazyInstanceNorm2d = _lazy(InstanceNorm2d, "num_features", -3)
LazyInstanceNorm3d = _lazy(InstanceNorm3d, "num_features", -4)
