"""What a runtime was asked to use."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

from ..allocators.base import Allocator
from .drivers.base import Driver

if TYPE_CHECKING:
    from ..plugins.manager import PluginManager

__all__ = ["AllocatorChoice", "DriverChoice", "Path", "Settings"]

AllocatorChoice: TypeAlias = "str | Callable[..., Allocator]"
"""A selection, or a factory that takes the upstream."""
DriverChoice: TypeAlias = "str | Driver"
"""A selection, or a driver, which then stays the caller's to close."""
Path: TypeAlias = "str | os.PathLike[str]"


@dataclass(frozen=True)
class Settings:
    """What a runtime was asked to use, or found in the environment. None: nothing was said."""

    allocator: AllocatorChoice | None = None
    driver: DriverChoice | None = None
    trace: Path | None = None
    launch_blocking: bool | None = None
    plugins: PluginManager | None = None

    def resolved(self) -> Settings:
        """With the environment and the defaults in place of what was not said."""
        environment = os.environ
        blocking = self.launch_blocking
        return Settings(
            allocator=self.allocator or environment.get("CUPLUG_ALLOCATOR") or "caching",
            driver=self.driver or environment.get("CUPLUG_DRIVER") or "auto",
            trace=os.fspath(self.trace) if self.trace else _trace_of_environment(),
            launch_blocking=environment.get("CUDA_LAUNCH_BLOCKING") == "1" if blocking is None else blocking,
            plugins=self.plugins,
        )

    def contradicts(self, other: Settings) -> list[str]:
        """The names of what was said here and is otherwise there."""
        mine = {field.name: getattr(self, field.name) for field in fields(self)}
        said = {name: value for name, value in mine.items() if value is not None and value != ""}
        if "trace" in said:
            said["trace"] = os.fspath(said["trace"])
        return [name for name, value in said.items() if getattr(other, name) != value]


_traces = count(1)


def _trace_of_environment() -> str | None:
    """``CUPLUG_TRACE``; for the second runtime of a process that path with ``.2`` behind it, and so on: each runtime
    has its own devices, and none may overwrite another's trace."""
    path = os.environ.get("CUPLUG_TRACE")
    if not path:
        return None
    number = next(_traces)
    return path if number == 1 else f"{path}.{number}"
