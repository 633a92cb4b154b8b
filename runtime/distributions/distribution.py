"""What all distributions have: shapes, samples, checks of parameters and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..autograd import no_grad
from ..tensor.core.dtypes import get_default_dtype
from ..tensor.core.shapes import Size
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, ShapeError
from ..tensor.ops.elementwise import elementwise_functions as each
from ..tensor.ops.making.from_values import scalar_tensor
from ..tensor.ops.reductions.reductions import all as all_of
from ..tensor.ops.shapes.views import broadcast_tensors


class Distribution:
    """A distribution, or as many independent ones as its parameters have elements."""

    has_rsample: ClassVar[bool] = False
    """Whether samples can be differentiated by the parameters: ``rsample``."""
    _checked_by_default: ClassVar[bool] = __debug__

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        """Take the shapes, and whether parameters and values are checked.

        Args:
            batch_shape: how many independent distributions there are.
            event_shape: the shape of one value.
            validate_args: whether values out of the range are an ArgumentError; as ``set_default_validate_args`` says
                if None. On a device each check waits for it.
        """
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        self._checked = self._checked_by_default if validate_args is None else validate_args

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions that are made from now on check parameters and values: at first they do, unless
        Python runs with ``-O``."""
        Distribution._checked_by_default = bool(value)

    @property
    def batch_shape(self) -> Size:
        """The shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one value: cuplug's own distributions have none with dimensions."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise NotImplementedError

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return each.sqrt(self.variance)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Values drawn at random, which carry no gradients.

        Args:
            sample_shape: how many of each distribution; dimensions in front of those of the parameters.
        """
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Values drawn at random that can be differentiated by the parameters.

        Raises:
            NotImplementedError: the distribution has none.
        """
        raise NotImplementedError(f"{type(self).__name__} has no rsample: its values are no function of parameters")

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the probability, or of its density, of values.

        Raises:
            ValueError: a value is out of the range, or its shape does not go with that of the parameters.
        """
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """``exp`` of the entropy."""
        return each.exp(self.entropy())

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        """The shape of samples, by torch's name, which subclasses call."""
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _check(self, what: str, name: str, tensor: Tensor, valid: Tensor) -> None:
        """Refuse what is out of the range: ``valid`` says of each element whether it is within."""
        if self._checked and not bool(all_of(valid)):
            raise ArgumentError(
                f"Expected {name} (Tensor of shape {tuple(tensor.shape)}) of distribution {type(self).__name__} to be "
                f"{what}, but found invalid values:\n{tensor.detach()}"
            )

    def _check_value(self, value: Tensor) -> None:
        if not self._checked:
            return
        if not isinstance(value, Tensor):
            raise ArgumentError(f"{type(self).__name__}: the value must be a Tensor, not {type(value).__name__}")
        for own, given in zip(reversed(self._batch_shape), reversed(value.shape), strict=False):
            if own != given and 1 not in (own, given):
                raise ShapeError(
                    f"{type(self).__name__}: values of the shape {tuple(value.shape)} do not go with parameters of the "
                    f"shape {tuple(self._batch_shape)}"
                )

    def _parameters(self) -> dict[str, Tensor]:
        """What the distribution was made of, by name."""
        return {}

    def __repr__(self) -> str:
        shown = {name: each if each.numel() == 1 else each.shape for name, each in self._parameters().items()}
        return f"{type(self).__name__}({', '.join(f'{name}: {each}' for name, each in shown.items())})"


def as_parameters(*parameters: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape; numbers take the type and device of the first tensor."""
    tensors = [value for value in parameters if isinstance(value, Tensor)]
    kind = tensors[0].dtype if tensors else get_default_dtype()
    device = tensors[0].device if tensors else None
    made = [v if isinstance(v, Tensor) else scalar_tensor(float(v), dtype=kind, device=device) for v in parameters]
    return tuple(broadcast_tensors(*made))
