"""Gradients compared with differences: ``gradcheck`` and, for gradients of gradients, ``gradgradcheck``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...allocators.errors import CuplugError
from ..tensor.core.tensor import Tensor
from ..tensor.ops.arguments.scalars import item
from ..tensor.ops.making.creation import ones_like, zeros
from .backward_pass import grad
from .grad_mode import enable_grad, no_grad


class GradcheckError(CuplugError):
    """A gradient is not what differences say."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    **checks: Any,
) -> bool:
    """Whether the gradients of a function are what differences of its values say.

    Args:
        func: takes ``inputs``, and returns a tensor or several.
        inputs: a tensor or several; those of float64 that require gradients are checked.
        eps: by how much elements are changed.
        atol: the absolute tolerance.
        rtol: the relative tolerance.
        raise_exception: whether a wrong gradient raises.
        checks: those of torch's further arguments that make no difference here, such as ``fast_mode``.

    Raises:
        GradcheckError: a gradient is wrong.
        CuplugError: gradients forward, or of batches, are to be checked, which cuplug has not.
        TypeError: torch has no such argument.
    """
    _look_at("gradcheck", checks)
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    checked = [each for each in given if isinstance(each, Tensor) and each.requires_grad]
    if not checked:
        raise GradcheckError("gradcheck: no input requires gradients")
    outputs = _several(func(*given))
    for number, output in enumerate(outputs):
        if not output.requires_grad:
            continue
        for position, tensor in enumerate(checked):
            numeric = _differences(func, given, tensor, number, eps)
            for element, column in enumerate(numeric):
                pick = zeros(tuple(output.shape), dtype=output.dtype, device=output.device)
                pick.view(-1)[element] = 1.0
                found = grad(output, tensor, pick, retain_graph=True, allow_unused=True)[0]
                own = [0.0] * tensor.numel() if found is None else found.contiguous().view(-1).tolist()
                for place, (a, b) in enumerate(zip(own, column, strict=True)):
                    if not abs(a - b) <= atol + rtol * abs(b):
                        if not raise_exception:
                            return False
                        raise GradcheckError(
                            f"gradcheck: of output {number}, element {element}, with respect to input {position}, "
                            f"element {place}: the gradient is {a}, and differences say {b}"
                        )
    return True


_OTHER_WAYS = "check_forward_ad", "check_batched_grad", "check_batched_forward_grad", "check_fwd_over_rev"
_WITHOUT_EFFECT = (
    *("check_backward_ad", "check_grad_dtypes", "check_rev_over_rev", "check_undefined_grad", "fast_mode", "masked"),
    *("gen_non_contig_grad_outputs", "nondet_tol"),
)


def _look_at(name: str, checks: dict[str, Any]) -> None:
    for each, asked in checks.items():
        if each in _OTHER_WAYS and asked:
            raise CuplugError(f"{name}({each}=True) is not part of cuplug: gradients are computed backward only")
        if each not in (*_OTHER_WAYS, *_WITHOUT_EFFECT):
            raise TypeError(f"{name}() got an unexpected keyword argument {each!r}")


def _several(made: Any) -> list[Tensor]:
    found: Sequence[Any] = (made,) if isinstance(made, Tensor) else made
    return [each for each in found if isinstance(each, Tensor)]


def _differences(
    func: Callable[..., Any], given: Sequence[Any], tensor: Tensor, number: int, eps: float
) -> list[list[float]]:
    """For each element of an output how it changes with each element of an input."""
    columns: list[list[float]] = []
    with no_grad():
        values = tensor.detach().clone().requires_grad_()
        given = [values if each is tensor else each for each in given]
        for place in _indices(values.shape):
            own = item(values[place])
            found = []
            for step in (eps, -eps):
                values[place] = own + step
                found.append(_several(func(*given))[number].detach().contiguous().view(-1).tolist())
            values[place] = own
            columns.append([(a - b) / (2 * eps) for a, b in zip(*found, strict=True)])
    return [list(row) for row in zip(*columns, strict=True)]


def _indices(shape: Sequence[int]) -> list[tuple[int, ...]]:
    places: list[tuple[int, ...]] = [()]
    for length in shape:
        places = [(*each, number) for each in places for number in range(length)]
    return places


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    **checks: Any,
) -> bool:
    """Whether the gradients of a function's gradients are what differences say. Other arguments and errors are those of
    ``gradcheck``.

    Args:
        grad_outputs: the gradients to begin with; ones if None.
    """
    _look_at("gradgradcheck", checks)
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)

    def gradients(*values: Any) -> list[Tensor]:
        with enable_grad():
            outputs = [each for each in _several(func(*values)) if each.requires_grad]
        firsts = [ones_like(each.detach()) for each in outputs] if grad_outputs is None else _several(grad_outputs)
        wanted = [each for each in values if isinstance(each, Tensor) and each.requires_grad]
        with enable_grad():
            found = grad(outputs, wanted, firsts, create_graph=True, allow_unused=True)
        return [each for each in found if each is not None and each.requires_grad]

    return gradcheck(gradients, given, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)
