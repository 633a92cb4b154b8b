"""``DataParallel``: one network on several devices, each with a part of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....allocators.errors import CuplugError
from ...machine.device import device_count
from ...machine.device_name import device as Device  # noqa: N812 - torch's class has a small name
from ...tensor.places.registry import place_of
from ..module import Module
from .mirrors import Mirrors
from .replicas import parallel_apply, replicate
from .scattered_batches import gather, scatter_kwargs


class DataParallel(Module):
    """A module that divides its arguments along ``dim`` among devices, has each compute its part, and joins the
    results.

    Gradients are added up in the parameters of ``module``, which are on the first device; they are sent there in
    buckets while the backward pass goes on. Copies of the parameters stay on the other devices; before each use those
    are sent again, together, that were written to. Without a CUDA device it calls ``module`` as it is.
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        """Wrap a module.

        Args:
            module: whose parameters are on the first device when it is called.
            device_ids: CUDA devices, all by default.
            output_device: where results are joined, by default on the first device.
            dim: along which dimension tensors are divided.
        """
        super().__init__()
        self.module = module
        self.dim = dim
        chosen = list(range(device_count())) if device_ids is None else list(device_ids)
        self.device_ids = [int(place_of(Device(each)).device.index or 0) for each in chosen]
        self.output_device = output_device
        if self.device_ids and output_device is None:
            self.output_device = self.device_ids[0]
        self._mirrors = Mirrors()

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The results of all devices' parts, joined.

        Raises:
            CuplugError: a parameter is not on the first device.
        """
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        parts, named = scatter_kwargs(inputs, kwargs, self.device_ids, self.dim)
        if not parts:
            parts, named = ((),), ({},)
        used = self.device_ids[: len(parts)]
        if len(used) == 1:
            _at_home(self.module, used[0])
            return self.module(*parts[0], **named[0])
        replicas = self.replicate(self.module, used)
        return self.gather(self.parallel_apply(replicas, parts, named), self.output_device)

    def replicate(self, module: Module, device_ids: Sequence[Any]) -> list[Any]:
        """The module on each device: see ``cuplug.nn.parallel.replicate``."""
        return replicate(module, device_ids, mirrors=self._mirrors)

    def parallel_apply(self, replicas: Sequence[Any], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        """Have all replicas compute: see ``cuplug.nn.parallel.parallel_apply``."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs: Sequence[Any], output_device: Any) -> Any:
        """Join the results: see ``cuplug.nn.parallel.gather``."""
        return gather(outputs, output_device, self.dim)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_mirrors": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({**state, "_mirrors": Mirrors()})


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """What ``DataParallel(module, ...)`` gives for ``inputs``, without keeping the replicas.

    Args:
        module: the network, on the first of the devices.
        inputs: a tuple of arguments, or one; tensors are divided along ``dim``.
        device_ids: the devices; all if None.
        output_device: where results are joined; the first device if None.
        dim: the dimension of samples.
        module_kwargs: arguments by name.

    Raises:
        CuplugError: a parameter or a buffer is not on the first device.
    """
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*given, **(module_kwargs or {}))


def _at_home(module: Module, ordinal: int) -> None:
    home = place_of(Device(ordinal)).device
    for name, each in (*module.named_parameters(), *module.named_buffers()):
        if each.device != home:
            raise CuplugError(
                f"DataParallel: {name} is on {each.device}, and the first of its devices is {home}: move the network "
                f"there with .to({str(home)!r})"
            )
