"""The plugin that cuplug brings: its own allocators and drivers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ..allocators.native import is_available, why_not
from .specs import AllocatorFactory, DriverFactory, hookimpl

__all__ = ["Bundled"]


class Bundled:
    """Contributes what the package holds. Nothing is imported before it is chosen or described."""

    @hookimpl
    def cuplug_allocators(self) -> Mapping[str, AllocatorFactory]:
        return {
            "direct": _Later("allocators.direct", "DirectAllocator"),
            "bump": _Later("allocators.bump", "BumpAllocator"),
            "caching": _Later("allocators.caching", "CachingAllocator", native="NativeCaching"),
            "expandable": _Later("allocators.expandable", "ExpandableAllocator", native="NativeExpandable"),
        }

    @hookimpl
    def cuplug_drivers(self) -> Mapping[str, DriverFactory]:
        return {
            "cuda": _Later("runtime.drivers.cuda", "CudaDriver"),
            "sim": _Later("runtime.drivers.sim", "SimDriver"),
        }


class _Later:
    """A factory of this package, imported when it is called or looked into."""

    def __init__(self, module: str, name: str, *, native: str | None = None) -> None:
        """``native``: the name of the strategy in C++ that does the same, which is taken where it was built."""
        self.form = ""
        """In which form it runs, for people, where there is a choice."""
        self._module, self._name = module, name
        if native is not None and is_available():
            self._module, self._name = "allocators.native.strategies", native
            self.form = "native"
        elif native is not None:
            self.form = f"in Python, not native: {why_not()}"

    @property
    def __wrapped__(self) -> Any:
        """The factory itself: ``inspect`` follows this to its signature."""
        module = import_module(f"...{self._module}", __name__)
        try:
            return getattr(module, self._name)
        except AttributeError as error:  # from a property, it would only say that there is no __wrapped__
            raise ImportError(str(error)) from error

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        doc: str | None = self.__wrapped__.__doc__
        return doc

    def __call__(self, *positional: Any, **options: Any) -> Any:
        return self.__wrapped__(*positional, **options)

    def __repr__(self) -> str:
        return f"{self._module}.{self._name}"
