"""Hooks around a module's call and around its state: in which order they are called, and what they may change."""

from __future__ import annotations

import pickle
from typing import Any

import cuplug
import numpy as np
import pytest

pytestmark = pytest.mark.one_schedule

nn = cuplug.nn


class _Scaled(nn.Module):
    def forward(self, x: Any, scale: float = 1.0) -> Any:
        if scale < 0:
            raise ValueError("negative")
        return x * scale


def test_hooks_with_keywords_see_and_change_them() -> None:
    module = _Scaled()
    before = module.register_forward_pre_hook(
        lambda _, args, kwargs: (args, {"scale": kwargs["scale"] * 2}), with_kwargs=True
    )
    after = module.register_forward_hook(lambda _, __, kwargs, result: result + kwargs["scale"], with_kwargs=True)
    assert module(cuplug.ones(1), scale=3.0).item() == 12
    after.remove()
    assert module(cuplug.ones(1), scale=3.0).item() == 6
    before.remove()
    assert module(cuplug.ones(1), scale=3.0).item() == 3
    assert not module._forward_hooks_with_kwargs
    assert not module._forward_pre_hooks_with_kwargs
    module.register_forward_pre_hook(lambda *_: 5, with_kwargs=True)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        module(cuplug.ones(1))


def test_a_hook_that_is_put_in_front_is_called_first() -> None:
    module, seen = nn.Identity(), []
    for register in (module.register_forward_pre_hook, module.register_forward_hook):
        register(lambda *_: seen.append("second"))
        handle = register(lambda *_: seen.append("first"), prepend=True)
        assert next(iter(handle.hooks_dict_ref())) == handle.id
    module(cuplug.ones(1))
    assert seen == ["first", "second"] * 2


def test_a_hook_that_is_always_called_is_called_once_and_hides_no_error() -> None:
    module, seen = _Scaled(), []
    module.register_forward_hook(lambda _, __, result: seen.append(result), always_call=True)
    module(cuplug.ones(1))
    assert len(seen) == 1
    with pytest.raises(ValueError, match="negative"):
        module(cuplug.ones(1), scale=-1.0)
    assert seen[1:] == [None]

    def fails(*_: Any) -> None:
        raise RuntimeError("of the hook")

    module.register_forward_hook(fails, prepend=True, always_call=True)
    with pytest.warns(UserWarning, match="silenced"), pytest.raises(ValueError, match="negative"):
        module(cuplug.ones(1), scale=-1.0)
    assert len(seen) == 3


def test_hooks_around_a_state_are_called_with_what_they_may_change() -> None:
    module, seen = nn.Sequential(nn.Linear(2, 2)), []
    module[0].register_state_dict_pre_hook(lambda _, prefix, __: seen.append(prefix))
    module[0].register_state_dict_post_hook(lambda _, state, prefix, __: state.update({f"{prefix}more": 1}))
    state = module.state_dict()
    assert seen == ["0."]
    assert state.pop("0.more") == 1
    assert state._metadata == {"": {"version": 1}, "0": {"version": 1}}

    module[0].register_load_state_dict_pre_hook(lambda module, *given: seen.append((module, given[1])))
    clear = module[0].register_load_state_dict_post_hook(lambda _, found: found.unexpected_keys.clear())
    assert str(module.load_state_dict({**state, "0.other": cuplug.ones(1)})) == "<All keys matched successfully>"
    assert seen[1:] == [(module[0], "0.")]
    clear.remove()
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: "0.other"'):
        module.load_state_dict({**state, "0.other": cuplug.ones(1)})


def test_a_module_that_saves_and_loads_by_itself_is_asked() -> None:
    class Own(nn.Linear):
        def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[f"{prefix}old"] = destination.pop(f"{prefix}weight")

        def _load_from_state_dict(self, state_dict: Any, prefix: str, *others: Any) -> None:
            state_dict[f"{prefix}weight"] = state_dict.pop(f"{prefix}old")
            super()._load_from_state_dict(state_dict, prefix, *others)

        def get_extra_state(self) -> Any:
            return {"count": 3}

        def set_extra_state(self, state: Any) -> None:
            self.count = state["count"]

    first, second = nn.Sequential(Own(2, 3)), nn.Sequential(Own(2, 3))
    state = first.state_dict()
    assert list(state) == ["0.bias", "0._extra_state", "0.old"]
    second.load_state_dict(state)
    assert cuplug.equal(first[0].weight, second[0].weight)
    assert second[0].count == 3


def test_what_does_not_fit_is_told_and_the_rest_is_loaded() -> None:
    module = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like"):
        module.load_state_dict([])
    with pytest.raises(RuntimeError, match="size mismatch for weight"):
        module.load_state_dict({"weight": cuplug.ones(3, 2), "bias": cuplug.full((2,), 7.0)})
    assert module.bias.tolist() == [7, 7]
    with pytest.raises(RuntimeError, match=r'"weight", expected torch\.Tensor or Tensor-like object'):
        module.load_state_dict({"weight": (1, 2), "bias": np.zeros(2)})


def test_a_state_without_a_count_of_batches_is_of_an_older_version() -> None:
    norm = nn.BatchNorm2d(2)
    state = norm.state_dict()
    del state["num_batches_tracked"]
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        norm.load_state_dict(state)
    state._metadata[""]["version"] = 1
    norm.num_batches_tracked.add_(5)
    norm.load_state_dict(state)
    assert norm.num_batches_tracked.item() == 0


def test_a_module_with_hooks_goes_through_pickle() -> None:
    module = nn.Linear(2, 2)
    module.register_load_state_dict_pre_hook(print)
    module.register_forward_hook(print, with_kwargs=True)
    again = pickle.loads(pickle.dumps(module))
    assert len(again._load_state_dict_pre_hooks) == len(again._forward_hooks_with_kwargs) == 1


def test_hooks_of_all_modules_come_before_those_of_one_and_may_change_what_goes_in_and_out() -> None:
    from cuplug.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

    called: list[Any] = []

    def noting(name: str, changed: Any = None) -> Any:
        return lambda module, *_: called.append((name, type(module).__name__)) or changed

    network = nn.Sequential(nn.Identity())
    handles = [
        network[0].register_forward_pre_hook(noting("its before")),
        network[0].register_forward_hook(noting("its after")),
        register_module_forward_pre_hook(noting("before", (cuplug.ones(1),))),
        register_module_forward_hook(noting("after", cuplug.zeros(2))),
    ]
    try:
        assert network(cuplug.ones(3)).tolist() == [0, 0]
    finally:
        for handle in handles:
            handle.remove()
    inner = [("before", "Identity"), ("its before", "Identity"), ("after", "Identity"), ("its after", "Identity")]
    assert called == [("before", "Sequential"), *inner, ("after", "Sequential")]
    assert network(cuplug.ones(3)).tolist() == [1, 1, 1]
    assert len(called) == 6


def test_a_hook_of_all_modules_is_called_with_keywords_and_whatever_happens() -> None:
    from cuplug.nn.modules.module import register_module_forward_hook

    class Failing(nn.Module):
        def forward(self, x: Any, *, fail: bool) -> Any:
            if fail:
                raise ValueError("told to")
            return x

    seen: list[Any] = []
    hook = register_module_forward_hook(lambda *given: seen.append(given[1:]), with_kwargs=True, always_call=True)
    with hook:
        Failing()(1, fail=False)
        with pytest.raises(ValueError, match="told to"):
            Failing()(2, fail=True)
    assert seen == [((1,), {"fail": False}, 1), ((2,), {"fail": True}, None)]


def test_hooks_of_all_modules_are_forgotten_with_their_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = nn.modules.module
    for name in ("_global_forward_hooks", "_global_forward_pre_hooks"):
        monkeypatch.setattr(module, name, {})
    module.register_module_forward_hook(lambda *_: cuplug.zeros(1))
    module.register_module_forward_pre_hook(lambda *_: (cuplug.zeros(1),))
    assert nn.Identity()(cuplug.ones(1)).tolist() == [0]
    module._global_forward_hooks = module._global_forward_pre_hooks = {}
    assert nn.Identity()(cuplug.ones(1)).tolist() == [1]
