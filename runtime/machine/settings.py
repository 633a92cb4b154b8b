"""What a runtime was asked to use."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from ...allocators.base import Allocator
from ...allocators.environment import read_choice
from ...plugins.tracing.families import trace_of_environment
from ..drivers.base import Driver
from .checks import flag

if TYPE_CHECKING:
    from ...plugins.manager import PluginManager

AllocatorChoice: TypeAlias = str | Callable[..., Allocator]
"""A selection, or a factory that takes the upstream."""
DriverChoice: TypeAlias = str | Driver
"""A selection, or a driver, which then stays the caller's to close."""
Path: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Settings:
    """What a runtime was asked to use, or found in the environment. None: nothing was said."""

    allocator: AllocatorChoice | None = None
    driver: DriverChoice | None = None
    trace: Path | None = None
    launch_blocking: bool | None = None
    plugins: PluginManager | None = None

    def __post_init__(self) -> None:
        """Raises TypeError for what is nothing of the kind."""
        _check(isinstance(self.allocator, str) or callable(self.allocator), "allocator", self.allocator, _ALLOCATOR)
        _check(isinstance(self.driver, str) or hasattr(self.driver, "device_count"), "driver", self.driver, _DRIVER)
        _check(isinstance(self.trace, (str, os.PathLike)), "trace", self.trace, "the path of a file")
        _check(hasattr(self.plugins, "make_allocator"), "plugins", self.plugins, "a PluginManager")
        if self.launch_blocking is not None:
            flag(self.launch_blocking, "launch_blocking")

    def resolved(self) -> Settings:
        """With the environment and the defaults in place of what was not said; of the trace see ``traced``.

        Raises:
            CuplugError: a variable of the environment says what cannot be understood.
        """
        environment = os.environ
        blocking = self.launch_blocking
        if blocking is None:
            blocking = read_choice("CUDA_LAUNCH_BLOCKING", ("1", "0")) == "1"
        return Settings(
            allocator=self.allocator or environment.get("CUPLUG_ALLOCATOR") or "caching",
            driver=self.driver or environment.get("CUPLUG_DRIVER") or "auto",
            trace=os.fspath(self.trace) if self.trace else None,
            launch_blocking=bool(blocking),
            plugins=self.plugins,
        )

    def traced(self) -> Settings:
        """With the trace that the environment names for the next runtime of this process, if none was said."""
        return self if self.trace else replace(self, trace=trace_of_environment())

    def over(self, other: Settings) -> Settings:
        """What was said here, and the rest as there."""
        unsaid = [field.name for field in fields(self) if getattr(self, field.name) in (None, "")]
        return replace(self, **{name: getattr(other, name) for name in unsaid})

    def contradicts(self, other: Settings) -> list[str]:
        """The names of what was said here and is otherwise there."""
        mine = {field.name: getattr(self, field.name) for field in fields(self)}
        said = {name: value for name, value in mine.items() if value is not None and value != ""}
        if "trace" in said:
            said["trace"] = os.fspath(said["trace"])
        return [name for name, value in said.items() if getattr(other, name) != value]


_ALLOCATOR = "a selection such as 'caching', or a factory that takes the upstream"
_DRIVER = "a selection such as 'cuda' or 'sim:devices=2', or a driver"


def _check(right: bool, name: str, value: Any, expected: str) -> None:
    if value is not None and not right:
        raise TypeError(f"{name} must be {expected}, not {value!r}")
