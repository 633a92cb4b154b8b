"""``arena``: a scope whose memory ends with it, where the allocator is an arena."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ...allocators.errors import CuplugError
from ..machine.checks import flag
from ..machine.default_runtime import runtime_or_default
from ..machine.device import device_index
from ..machine.runtime import Runtime

if TYPE_CHECKING:
    from typing_extensions import Self


@runtime_checkable
class _Arena(Protocol):
    def mark(self) -> Any: ...

    def reset(self, mark: Any = None, *, force: bool = False) -> int: ...


class arena:  # noqa: N801 - used as a function, like device
    """``with cuplug.cuda.arena():`` gives back, at its end, everything that was allocated on the device inside it.

    Scopes may be nested. The allocator must be an arena (``bump``, or another with ``mark`` and ``reset``). Other
    threads must not allocate on the device meanwhile.

    At the end blocks must have been freed: otherwise CuplugError is raised and nothing is given back, or with
    ``force`` the blocks become invalid. When the scope ends by an exception, live blocks (which its traceback may
    hold) just stay.
    """

    def __init__(self, device: Any = None, *, force: bool = False, runtime: Runtime | None = None) -> None:
        """Name a device, by default the one that is current at the beginning of the scope.

        Raises (at the beginning):
            CuplugError: the device's allocator has no arenas.
        """
        self._device = device
        self._force = flag(force, "force")
        self._runtime = runtime
        self._marks: list[tuple[_Arena, Any]] = []

    def __enter__(self) -> Self:
        runtime = runtime_or_default(self._runtime)
        allocator = runtime.allocator(device_index(self._device, runtime))
        if not isinstance(allocator, _Arena):
            raise CuplugError(
                f"the allocator {runtime.settings.allocator!r} has no arenas; choose bump, by cuplug.init("
                'allocator="bump") or CUPLUG_ALLOCATOR=bump'
            )
        self._marks.append((allocator, allocator.mark()))
        return self

    def __exit__(self, _kind: object, error: object, _traceback: object) -> None:
        allocator, mark = self._marks.pop()
        try:
            allocator.reset(mark, force=self._force)
        except CuplugError:
            if error is None:  # else it would hide what went wrong first
                raise
