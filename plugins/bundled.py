"""The plugin that cuplug brings: its own allocators and drivers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from typing import Any

from ..allocators.native import is_available, why_not
from .specs import AllocatorFactory, DriverFactory, hookimpl


class Bundled:
    """Contributes what the package holds. Nothing is imported before it is chosen or described."""

    @hookimpl
    def cuplug_allocators(self) -> Mapping[str, AllocatorFactory]:
        return {
            "direct": _LazyFactory("allocators.direct", "DirectAllocator", replayed="ReplayedDirect"),
            "bump": _LazyFactory("allocators.bump", "BumpAllocator", replayed="ReplayedBump"),
            "caching": _LazyFactory("allocators.caching", "CachingAllocator", native="NativeCaching"),
            "expandable": _LazyFactory("allocators.expandable", "ExpandableAllocator", native="NativeExpandable"),
            "planned": _LazyFactory("allocators.planned", "PlannedAllocator", native="NativePlanned"),
            "rmm-pool": _LazyFactory("allocators.rmm_pool", "RmmPoolAllocator"),
        }

    @hookimpl
    def cuplug_drivers(self) -> Mapping[str, DriverFactory]:
        return {
            "cuda": _LazyFactory("runtime.drivers.cuda", "CudaDriver"),
            "sim": _LazyFactory("runtime.drivers.sim", "SimDriver"),
        }


class _LazyFactory:
    """A factory of this package, imported when it is called or looked into."""

    def __init__(self, module: str, name: str, *, native: str | None = None, replayed: str | None = None) -> None:
        """``native``: the name of the strategy in C++ that does the same; ``replayed``: of one that does so in
        replays."""
        self._module, self._name, self._native, self._replayed = module, name, native, replayed

    @property
    def form(self) -> str:
        """In which form it runs, for people; empty where there is but one."""
        if self._native is None:
            return ""
        return "native" if is_available() else f"in Python, not native: {why_not()}"

    @property
    def has_native_form(self) -> bool:
        """Whether there is a strategy in C++ that does the same."""
        return self._native is not None

    @cached_property
    def runs_in_the_core(self) -> bool:
        """Whether replays over a ``NativeNullUpstream`` are possible."""
        return (self._native or self._replayed) is not None and is_available()

    @cached_property
    def __wrapped__(self) -> Any:
        """The factory itself: ``inspect`` follows this to its signature."""
        return self._find(self._module, self._name)

    @cached_property
    def _chosen_form(self) -> Any:
        """The factory, or the strategy in C++ that does the same, where there is one that can be used."""
        if self._native is None or not is_available():
            return self.__wrapped__
        return self._find("allocators.native.strategies", self._native)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        doc: str | None = self.__wrapped__.__doc__
        return doc

    def __call__(self, *positional: Any, **options: Any) -> Any:
        upstream = positional[0] if positional else options.get("upstream")
        if self._replayed is not None and hasattr(upstream, "native_null"):
            return self._find("allocators.native.direct_and_bump", self._replayed)(*positional, **options)
        return self._chosen_form(*positional, **options)

    def __repr__(self) -> str:
        return f"{self._module}.{self._name}"

    def _find(self, module_name: str, name: str) -> Any:
        module = import_module(f"...{module_name}", __name__)
        try:
            return getattr(module, name)
        except AttributeError as error:  # from a property, it would only say that there is no __wrapped__
            raise ImportError(str(error)) from error
