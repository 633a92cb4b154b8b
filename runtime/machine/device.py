"""Devices: which one is current, their properties, and access to each other's memory."""

from __future__ import annotations

from dataclasses import replace
from operator import index
from typing import TYPE_CHECKING, Any

from ..drivers.base import DeviceProperties
from .current import Entered
from .default_runtime import default_runtime, runtime_or_default
from .runtime import Runtime

if TYPE_CHECKING:
    from typing_extensions import Self


class device:  # noqa: N801 - torch's name
    """``with cuplug.cuda.device(1):`` makes a device current in this thread, and the one before current afterwards.

    Takes what ``device_index`` takes; a negative number means no change (``torch.cuda.device``). One object may be
    entered again inside itself.
    """

    def __init__(self, device: Any, *, runtime: Runtime | None = None) -> None:
        self._runtime = runtime
        self._asked = device
        self._entered: list[Entered | None] = []

    def __enter__(self) -> Self:
        runtime = runtime_or_default(self._runtime)
        if isinstance(self._asked, int) and self._asked < 0:
            self._entered.append(None)
            return self
        ordinal = device_index(self._asked, runtime)
        entered = Entered(runtime.current, ordinal)
        runtime.current.set_device(ordinal)
        self._entered.append(entered)
        return self

    def __exit__(self, *_: object) -> None:
        entered = self._entered.pop()
        if entered is not None:
            entered.restore()

    @property
    def idx(self) -> int:
        """The ordinal of the device; negative where nothing is to change.

        Raises:
            ValueError: it is no CUDA device.
        """
        if isinstance(self._asked, int) and self._asked < 0:
            return self._asked
        return device_index(self._asked, runtime_or_default(self._runtime))

    def __repr__(self) -> str:
        return f"cuplug.cuda.device({self._asked!r})"


class device_of(device):  # noqa: N801 - torch's name
    """``with cuplug.cuda.device_of(x):`` makes the device of a tensor or a buffer current; on the CPU none."""

    def __init__(self, obj: Any) -> None:
        here = getattr(obj, "device", None)
        super().__init__(-1 if getattr(here, "type", "cuda") != "cuda" or here is None else here)


def device_index(device: Any = None, runtime: Runtime | None = None) -> int:
    """The ordinal that ``device`` means: a number, ``"cuda"`` or ``"cuda:1"``, an object with an ``index`` (a device
    of cuplug or PyTorch), an ``id`` (CuPy) or an ``idx`` (a context of ``cuplug.cuda.device``). None, and a device
    without a number, mean the current one.

    Raises:
        DriverError: ``CUDA_ERROR_INVALID_DEVICE``: there is none of this number.
        ValueError: it is not a CUDA device.
        TypeError: it is no device.
    """
    return ordinal_in(runtime_or_default(runtime), device)


def ordinal_in(runtime: Runtime, device: Any) -> int:
    """``device_index`` for a runtime that is known."""
    ordinal = _ordinal(device)
    return runtime.current.device if ordinal is None else runtime.check_ordinal(ordinal)


def _ordinal(device: Any) -> int | None:
    if device is None:
        return None
    if isinstance(device, bool):
        raise TypeError(f"{device!r} is not a device; pass a number, 'cuda:1' or a device object")
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        kind, colon, number = device.partition(":")
        if kind != "cuda" or (colon and not number.isdecimal()):
            raise ValueError(f"{device!r} is not a CUDA device; write 'cuda' or 'cuda:1'")
        return int(number) if colon else None
    if getattr(device, "type", "cuda") != "cuda":
        raise ValueError(f"{device!r} is not a CUDA device")
    for name in ("index", "id", "idx"):
        if hasattr(device, name) and not callable(getattr(device, name)):
            number = getattr(device, name)
            return None if number is None else index(number)
    try:
        return index(device)
    except TypeError:
        raise TypeError(f"{device!r} is not a device; pass a number, 'cuda:1' or a device object") from None


def is_available() -> bool:
    """Whether there is a device to work with. False without a GPU, unless the simulator was asked for."""
    return default_runtime().device_count() > 0


def device_count() -> int:
    """The number of visible devices (``CUDA_VISIBLE_DEVICES``); 0 where there is no CUDA."""
    return default_runtime().device_count()


def current_device(*, runtime: Runtime | None = None) -> int:
    """The ordinal of this thread's current device.

    Raises:
        CuplugError: there is no device.
    """
    return runtime_or_default(runtime).current.device


def set_device(device: Any, *, runtime: Runtime | None = None) -> None:
    """Make a device current in this thread (``device_index`` says what it may be). A negative number does nothing.

    Prefer ``with cuplug.cuda.device(...)``, which undoes it.
    """
    if isinstance(device, int) and device < 0:
        return
    runtime = runtime_or_default(runtime)
    runtime.current.set_device(device_index(device, runtime))


def synchronize(device: Any = None, *, runtime: Runtime | None = None) -> None:
    """Wait for all work on a device, the current one by default.

    Raises:
        DriverError: what the work did, for example ``CUDA_ERROR_ILLEGAL_ADDRESS``.
    """
    runtime = runtime_or_default(runtime)
    state = runtime.device(device_index(device, runtime))
    state.synchronize()
    with runtime.on_device(state.ordinal):
        state.streams.settle()


def get_device_properties(device: Any = None, *, runtime: Runtime | None = None) -> DeviceProperties:
    """What a device can do; sizes in bytes. Its ``uuid`` is one of 36 characters, as torch's."""
    runtime = runtime_or_default(runtime)
    found = runtime.properties(device_index(device, runtime))
    return replace(found, uuid=found.uuid.removeprefix("GPU-"))


def get_device_name(device: Any = None, *, runtime: Runtime | None = None) -> str:
    """A device's name, for example ``NVIDIA H200``."""
    return get_device_properties(device, runtime=runtime).name


def get_device_capability(device: Any = None, *, runtime: Runtime | None = None) -> tuple[int, int]:
    """A device's compute capability, for example (9, 0)."""
    properties = get_device_properties(device, runtime=runtime)
    return properties.major, properties.minor


def can_device_access_peer(device: Any, peer_device: Any, *, runtime: Runtime | None = None) -> bool:
    """Whether ``device`` could use ``peer_device``'s memory directly. False for a device and itself."""
    runtime = runtime_or_default(runtime)
    return runtime.driver.can_access_peer(device_index(device, runtime), device_index(peer_device, runtime))


def enable_peer_access(device: Any, peer_device: Any, *, runtime: Runtime | None = None) -> None:
    """Let work on ``device`` use ``peer_device``'s memory directly. Enabling twice is not an error.

    Raises:
        DriverError: ``CUDA_ERROR_PEER_ACCESS_UNSUPPORTED``.
    """
    runtime = runtime_or_default(runtime)
    pair = device_index(device, runtime), device_index(peer_device, runtime)
    runtime.driver.enable_peer_access(*pair)
    runtime.peers.add(pair)


def disable_peer_access(device: Any, peer_device: Any, *, runtime: Runtime | None = None) -> None:
    """Undo ``enable_peer_access``.

    Raises:
        DriverError: ``CUDA_ERROR_PEER_ACCESS_NOT_ENABLED``.
    """
    runtime = runtime_or_default(runtime)
    pair = device_index(device, runtime), device_index(peer_device, runtime)
    runtime.driver.disable_peer_access(*pair)
    runtime.peers.discard(pair)
