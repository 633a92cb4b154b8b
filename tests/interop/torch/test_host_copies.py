"""``host_tags=gradients`` and ``module:NAME``: what is copied to the host's memory, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from cuplug.allocators.tags import ON_HOST, here, tag_name
from cuplug.runtime.interop.torch import host_copies
from cuplug.runtime.interop.torch.host_copies import Gradients, Modules


class Tensor:
    """As PyTorch's, as far as it is asked."""

    def __init__(self, address: int = 0, *, layout: str = "torch.strided", is_cuda: bool = True) -> None:
        self.layout, self.is_cuda, self.address = layout, is_cuda, address
        self.requires_grad = self.is_leaf = True
        self.grad_fn, self.grad, self.device = None, None, SimpleNamespace(index=0)
        self.hooks: list[Any] = []

    @property
    def data(self) -> Tensor:
        return self

    @data.setter
    def data(self, other: Tensor) -> None:
        self.address = other.address

    def _is_view(self) -> bool:
        return False

    def data_ptr(self) -> int:
        return self.address

    def untyped_storage(self) -> Any:
        return SimpleNamespace(nbytes=lambda: 1 << 20)

    def register_post_accumulate_grad_hook(self, hook: Any) -> None:
        self.hooks.append(hook)

    def backward(self, gradient: Tensor) -> None:
        """What autograd does: a gradient is added to one that is there, in its memory."""
        self.grad = self.grad or gradient
        for hook in self.hooks:
            hook(self)


class Module:
    def __init__(self, **parts: Any) -> None:
        self.parts = parts

    def named_modules(self, before: str = "") -> Iterator[tuple[str, Module]]:
        yield before, self
        for name, part in self.parts.items():
            if isinstance(part, Module):
                yield from part.named_modules(f"{before}.{name}" if before else name)

    def parameters(self) -> list[Tensor]:
        return [
            part for _, module in self.named_modules() for part in module.parts.values() if isinstance(part, Tensor)
        ]

    def buffers(self) -> list[Tensor]:
        return []


@pytest.fixture(autouse=True)
def copied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """The addresses of what was copied, and the tag with which the copy was made."""
    found: list[tuple[int, str]] = []

    def copy_of(tensor: Tensor) -> Tensor:
        assert here.tag & ON_HOST
        found.append((tensor.address, tag_name(here.tag - ON_HOST)))
        return Tensor(tensor.address + 0x1000)

    monkeypatch.setattr(host_copies, "_copy_of", copy_of)
    return found


def optimizer(*parameters: Tensor) -> Any:
    return SimpleNamespace(param_groups=[{"params": list(parameters)}])


def test_a_gradient_is_copied_once_and_stays_where_more_is_added_to_it(
    copied: list[tuple[int, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    gradients, parameter = Gradients(), Tensor()
    gradients.parameter_comes(None, "weight", parameter)
    gradients.parameter_comes(None, "tied", parameter)
    for address in (5, 6):
        parameter.backward(Tensor(address))
    assert copied == [(5, "gradients")]
    gradients.step_begins(optimizer(parameter))
    parameter.grad = None
    parameter.backward(Tensor(7))
    gradients.step_begins(optimizer(parameter))
    assert copied == [(5, "gradients"), (7, "gradients")]
    assert here.tag == 0
    assert capsys.readouterr().err.count("gradients of 1 MiB on devices") == 1


def test_what_no_registration_told_of_is_found_at_the_step_and_said(
    copied: list[tuple[int, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    gradients, parameter, frozen = Gradients(), Tensor(), Tensor()
    frozen.requires_grad = False
    parameter.grad = Tensor(5)
    gradients.step_begins(optimizer(parameter, frozen))
    assert copied == [(5, "gradients")]
    assert "1 parameters were seen at this step only" in capsys.readouterr().err


def test_what_cannot_be_replaced_stays_and_is_said(
    copied: list[tuple[int, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    gradients, parameter = Gradients(), Tensor()
    gradients.parameter_comes(None, "weight", parameter)
    parameter.backward(Tensor(5, layout="torch.sparse_coo"))
    gradients.step_begins(optimizer(parameter))
    assert copied == []
    assert "1 stay there, since they are sparse" in capsys.readouterr().err


def test_what_named_modules_hold_is_copied_at_the_first_call_of_their_root(
    copied: list[tuple[int, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    embed, other, on_cpu = Tensor(1), Tensor(2), Tensor(3, is_cuda=False)
    root = Module(embed=Module(weight=embed, table=on_cpu), body=Module(weight=other))
    modules = Modules(["*.embed", "nobody"])
    for called in (root, root.parts["embed"], root):
        modules.is_called(called, ())
    assert copied == [(1, "module:*.embed")]
    assert (embed.address, other.address) == (0x1001, 2)
    said = capsys.readouterr().err
    assert "module:*.embed: embed have 1 MiB on devices" in said
    assert "1 tensors are on no device, or parts of others" in said
    assert "module:nobody names no module of Module; it has embed, body" in said
    assert said.count("cuplug: host_tags=") == 2
