"""Ten mistakes in using tensors that type checkers must find, each on a line that says so. Never run."""

from __future__ import annotations

from cuplug.nn import AdaptiveAvgPool1d
from cuplug.runtime.tensor import Tensor, exp, ones

t = ones(3, device="cpu")
t.misspelt_method()  # wrong: no such method
t.exp(2)  # wrong: it takes no operand
exp("x")  # wrong: no tensor
t.reshape(1, shap=3)  # wrong: no such argument
t.sum(kepdim=True)  # wrong: misspelt
text: str = t.numel()  # wrong: a number
truth: bool = t == t  # wrong: a tensor
t.shape = (1, 2)  # wrong: it cannot be set
t.matmul(2)  # wrong: no tensor
t.dtype.is_flaoting_point  # wrong: misspelt # noqa: B018

# And what is right.
total: Tensor = t.sum(dim=0, keepdims=True) + t.exp_().float() * 2 - t[0] @ t
count: int = t.numel()
number: int = t.size(0)
for each in t:
    each.sqrt().clamp(min=0)
t[1:] = 3
t += t.reshape(3).t().view(-1).new_zeros(3)
values, indices = t.max(0)
same: bool = t.equal(-t) or bool((t < 2**t).all()) or t.is_cuda


class Pool(AdaptiveAvgPool1d):
    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - its name there
        return super().forward(input) * 2 if self.training else super().forward(input)
