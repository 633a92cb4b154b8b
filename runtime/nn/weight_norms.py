"""Weights kept to a norm: ``weight_norm`` and ``spectral_norm`` of ``cuplug.nn.utils``. What a module then has as
``weight`` is computed anew before each ``forward``, from parameters of other names."""

from __future__ import annotations

from typing import Any, ClassVar

from ..autograd import no_grad
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError
from ..tensor.ops.arguments.facts import typename
from ..tensor.ops.products.matmul import matmul
from ..tensor.ops.random.random_numbers import randn
from ..tensor.ops.reductions.reductions import sum as sum_of
from .convolution_layers import ConvTranspose2d
from .module import Module
from .normalisation import normalize
from .parameter import Parameter


class _Renewed:
    """A hook that computes a module's weight before ``forward``, and undoes itself."""

    kind: ClassVar[str]

    def __init__(self, module: Module, name: str) -> None:
        for hook in _hooks_of(module):
            if isinstance(hook, type(self)) and hook.name == name:
                raise ArgumentError(f"{self.kind}: {name} of this {type(module).__name__} has it already")
        self.name: str = name
        self.weight: Parameter = getattr(module, name)

    def begin(self, module: Module) -> None:
        setattr(module, self.name, self.computed(module, training=True))
        self.handle = module.register_forward_pre_hook(self)

    def __call__(self, module: Module, _: Any) -> None:
        setattr(module, self.name, self.computed(module, training=module.training))

    def computed(self, module: Module, *, training: bool) -> Tensor:
        raise NotImplementedError

    @classmethod
    def remove(cls, module: Module, name: str, parts: tuple[str, ...]) -> Module:
        for hook in _hooks_of(module):
            if isinstance(hook, cls) and hook.name == name:
                with no_grad():
                    weight = hook.computed(module, training=False).detach().clone()
                hook.handle.remove()
                delattr(module, name)
                for part in parts:
                    delattr(module, name + part)
                module.register_parameter(name, Parameter(weight))
                return module
        raise ArgumentError(f"remove_{cls.kind}: {name} of this {type(module).__name__} does not have it")


def _hooks_of(module: Any) -> list[Any]:
    if not isinstance(module, Module):
        raise TypeError(f"a Module is needed, not {typename(module)}")
    return list(module._forward_pre_hooks.values())


def _norm_but(weight: Tensor, dim: int | None) -> Tensor:
    """The norm over all dimensions but one, which stays; over all for None."""
    if dim is None:
        return weight.norm()
    others = [axis for axis in range(weight.ndim) if axis != dim % weight.ndim]
    return weight.norm(2, others, True)


class _WeightNorm(_Renewed):
    kind = "weight_norm"

    def __init__(self, module: Module, name: str, dim: int | None) -> None:
        super().__init__(module, name)
        self.dim = dim
        del module._parameters[name]
        length = _norm_but(self.weight.detach(), dim)
        module.register_parameter(f"{name}_g", Parameter(length.clone()))
        module.register_parameter(f"{name}_v", Parameter(self.weight.detach().clone()))

    def computed(self, module: Module, *, training: bool) -> Tensor:
        del training
        length, direction = module._parameters[f"{self.name}_g"], module._parameters[f"{self.name}_v"]
        made: Tensor = direction * (length / _norm_but(direction, self.dim))
        return made


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Let a parameter be a length times a direction, ``name_g`` and ``name_v``, which are trained in its place.

    Args:
        module: whose parameter it is.
        name: what it is called.
        dim: the dimension along which there are several lengths; None for one.

    Returns:
        The module.

    Raises:
        ValueError: the parameter has it already.
    """
    _WeightNorm(module, name, dim).begin(module)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Let the parameter be one again, with the value that it has. Returns the module.

    Raises:
        ValueError: it has no ``weight_norm``.
    """
    return _WeightNorm.remove(module, name, ("_g", "_v"))


class _SpectralNorm(_Renewed):
    kind = "spectral_norm"

    def __init__(self, module: Module, name: str, iterations: int, eps: float, dim: int) -> None:
        super().__init__(module, name)
        if iterations <= 0:
            raise ArgumentError(f"spectral_norm: n_power_iterations is to be positive, not {iterations}")
        self.iterations, self.eps, self.dim = iterations, eps, dim
        del module._parameters[name]
        module.register_parameter(f"{name}_orig", self.weight)
        rows = self._matrix(self.weight.detach())
        drawn = [randn(length, dtype=rows.dtype, device=rows.device) for length in rows.shape]
        for part, vector in zip(("_u", "_v"), drawn, strict=True):
            module.register_buffer(name + part, normalize(vector, dim=0, eps=eps))

    def _matrix(self, weight: Tensor) -> Tensor:
        moved = weight.movedim(self.dim, 0) if self.dim else weight
        return moved.reshape(moved.shape[0], -1)

    def computed(self, module: Module, *, training: bool) -> Tensor:
        weight = module._parameters[f"{self.name}_orig"]
        left, right = module._buffers[f"{self.name}_u"], module._buffers[f"{self.name}_v"]
        rows = self._matrix(weight)
        if training:
            with no_grad():
                for _ in range(self.iterations):
                    right.copy_(normalize(matmul(rows.detach().t(), left), dim=0, eps=self.eps))
                    left.copy_(normalize(matmul(rows.detach(), right), dim=0, eps=self.eps))
            left, right = left.clone(), right.clone()  # those that the gradient needs, while the next step changes them
        made: Tensor = weight / sum_of(left * matmul(rows, right))
        return made


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divide a parameter by its largest singular value, which steps of power iteration follow while training.

    Args:
        module: whose parameter it is; it is trained as ``name_orig``.
        name: what it is called.
        n_power_iterations: how many steps each ``forward`` takes.
        eps: the smallest norm to divide by.
        dim: the dimension of the outputs; None for 1 of transposed convolutions and 0 of others.

    Returns:
        The module.

    Raises:
        ValueError: the parameter has it already, or there are no steps.
    """
    outputs = (1 if isinstance(module, ConvTranspose2d) else 0) if dim is None else dim
    _SpectralNorm(module, name, n_power_iterations, eps, outputs).begin(module)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Let the parameter be one again, with the value that it has. Returns the module.

    Raises:
        ValueError: it has no ``spectral_norm``.
    """
    return _SpectralNorm.remove(module, name, ("_orig", "_u", "_v"))
