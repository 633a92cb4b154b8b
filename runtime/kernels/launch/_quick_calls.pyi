from collections.abc import Callable
from typing import Any

from typing_extensions import Self

class Launcher:
    def __new__(
        cls,
        launch: int,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        letters: str,
        before: bytes,
        device: int,
        streams: int,
        python: Callable[..., None],
        /,
    ) -> Self: ...
    def __call__(self, current: object, /, *values: Any) -> None: ...

class Copier:
    def __new__(
        cls,
        copy: int,
        current: int,
        context: int,
        nbytes: int,
        device: int,
        streams: int,
        python: Callable[..., None],
        /,
    ) -> Self: ...
    def __call__(self, current: object, target: int, source: int, /) -> None: ...

class Executor:
    def __new__(
        cls,
        functions: tuple[int, int, int, int, int],
        current: int,
        context: int,
        plan: int,
        count: int,
        pack: int,
        numbers: tuple[int, int],
        addresses: tuple[int, int],
        workspace: tuple[int, int],
        python: Callable[..., None],
        /,
    ) -> Self: ...
    def __call__(self, handle: int, workspace: int, /, *addresses: int) -> None: ...

class Maker:
    def __new__(cls, made: type[Any], names: tuple[str, ...], given: int, defaults: tuple[Any, ...], /) -> Self: ...
    def __call__(self, *values: Any) -> Any: ...
