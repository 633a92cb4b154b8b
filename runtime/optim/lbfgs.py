"""``LBFGS``: steps by a model of the curvature, made of the last steps and changes of gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...plugins.tracing.training_scope import OPTIMISER, in_phase, iteration_done
from ..autograd import enable_grad, no_grad
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError
from ..tensor.ops.joining.joining import cat
from .line_search import Point, strong_wolfe
from .optimizer import Optimizer


class LBFGS(Optimizer):
    """The limited-memory method of Broyden, Fletcher, Goldfarb and Shanno (Nocedal, 1980), as torch's.

    One group of parameters; a step calls its closure several times.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        """Take parameters and settings.

        Args:
            params: the parameters, all in one group.
            lr: by how much of a step parameters move.
            max_iter: the most iterations of a step.
            max_eval: the most calls of the closure in a step; ``max_iter * 5 / 4`` if None.
            tolerance_grad: a step ends where no element of the gradient is larger.
            tolerance_change: a step ends where neither parameters nor the loss change by more.
            history_size: how many changes are remembered.
            line_search_fn: None, or ``"strong_wolfe"``, which chooses the length of each step.

        Raises:
            ValueError: there are several groups, no such line search, or a setting is negative.
        """
        if line_search_fn not in (None, "strong_wolfe"):
            raise ArgumentError(f"LBFGS: line_search_fn is None or 'strong_wolfe', not {line_search_fn!r}")
        most = max_iter * 5 // 4 if max_eval is None else max_eval
        settings = {"lr": lr, "max_iter": max_iter, "max_eval": most, "tolerance_grad": tolerance_grad}
        settings |= {"tolerance_change": tolerance_change, "history_size": history_size}
        super().__init__(params, {**settings, "line_search_fn": line_search_fn}, {})
        if len(self.param_groups) != 1:
            raise ArgumentError("LBFGS: parameters are to be in one group")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change all parameters.

        Args:
            closure: computes the loss and its gradients anew, and returns the loss.

        Returns:
            The loss before.

        Raises:
            ValueError: there is no closure.
        """
        if closure is None:
            raise ArgumentError("LBFGS: step needs a closure that computes the loss and its gradients")

        def evaluate() -> Any:
            with enable_grad():
                return closure()

        with no_grad(), in_phase(OPTIMISER):
            first = self._iterate(evaluate)
        iteration_done()
        return first

    def _iterate(self, evaluate: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        rate, tolerance, least = float(group["lr"]), group["tolerance_grad"], group["tolerance_change"]
        state = self.state.setdefault(group["params"][0], {})
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = evaluate()
        loss, calls = float(first), 1
        state["func_evals"] += 1
        gradient = self._gradient()
        if float(gradient.abs().max()) <= tolerance:
            return first
        for count in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = _direction(state, gradient, group["history_size"])
            state["prev_flat_grad"] = gradient.clone()
            last = loss
            length = min(1.0, 1.0 / float(gradient.abs().sum())) * rate if state["n_iter"] == 1 else rate
            slope = float(gradient.dot(direction))
            state["d"], state["t"] = direction, length
            if slope > -least:
                break
            more = 0
            if group["line_search_fn"] is not None:
                start = Point(0.0, loss, gradient, slope)
                found, more = self._search(evaluate, start, direction, length, group["max_eval"] - calls)
                loss, gradient, length = found.loss, found.gradient, found.length
                state["t"] = length
            else:
                self._move(direction, length)
                if count != group["max_iter"]:  # the last evaluation would be thrown away
                    loss = float(evaluate())
                    gradient = self._gradient()
                    more = 1
            calls += more
            state["func_evals"] += more
            if count == group["max_iter"] or calls >= group["max_eval"]:
                break
            if float(gradient.abs().max()) <= tolerance or float((direction * length).abs().max()) <= least:
                break
            if abs(loss - last) < least:
                break
        return first

    def _search(
        self, evaluate: Callable[[], Any], start: Point, direction: Tensor, length: float, most: int
    ) -> tuple[Point, int]:
        """Move along the direction to where the loss is low enough."""
        parameters, least = self.param_groups[0]["params"], self.param_groups[0]["tolerance_change"]
        before = [each.clone() for each in parameters]

        def move_to(length: float) -> None:
            for each, value in zip(parameters, before, strict=True):
                each.copy_(value)
            self._move(direction, length)

        def look_at(length: float) -> Point:
            move_to(length)
            loss = float(evaluate())
            gradient = self._gradient()
            return Point(length, loss, gradient, float(gradient.dot(direction)))

        found, calls = strong_wolfe(look_at, start, length, float(direction.abs().max()), least, most)
        move_to(found.length)
        return found, calls

    def _gradient(self) -> Tensor:
        """All gradients as one vector; zeros where there is none."""
        parameters = self.param_groups[0]["params"]
        return cat([(p.new_zeros(p.numel()) if p.grad is None else p.grad.detach().reshape(-1)) for p in parameters])

    def _move(self, direction: Tensor, length: float) -> None:
        start = 0
        for each in self.param_groups[0]["params"]:
            part = direction[start : start + each.numel()]
            each.add_(part.view(each.shape), alpha=length)
            start += each.numel()


def _direction(state: dict[str, Any], gradient: Tensor, most: int) -> Tensor:
    """Where to go: minus the gradient, turned and scaled by the two loops over what is remembered."""
    if "old_dirs" not in state:
        state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
        return -gradient
    changes, moves, inverses = state["old_dirs"], state["old_stps"], state["ro"]
    change, move = gradient - state["prev_flat_grad"], state["d"] * state["t"]
    product = float(change.dot(move))
    if product > 1e-10:
        if len(changes) == most:
            for each in (changes, moves, inverses):
                each.pop(0)
        changes.append(change)
        moves.append(move)
        inverses.append(1.0 / product)
        state["H_diag"] = product / float(change.dot(change))
    found: Tensor = -gradient
    shares = []
    for change, move, inverse in zip(reversed(changes), reversed(moves), reversed(inverses), strict=True):
        share = float(move.dot(found)) * inverse
        shares.append(share)
        found = found.add(change, alpha=-share)
    found = found * state["H_diag"]
    for change, move, inverse, share in zip(changes, moves, inverses, reversed(shares), strict=True):
        found = found.add(move, alpha=share - float(change.dot(found)) * inverse)
    return found
