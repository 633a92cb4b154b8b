"""``Runtime``: a driver, an allocator for each of its devices, and what observes them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import astuple
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from ...allocators.base import Allocator
from ...allocators.errors import CuplugError
from ...allocators.exiting import wait_if_exiting
from ...allocators.lock import Lock
from ...allocators.served import served_of
from ...plugins.tracing.observer_contexts import attach_all, source_of
from ..drivers.base import Driver, driver_error
from ..drivers.device_upstream import on_device
from .buffer import Buffer
from .checks import whole_number
from .current import Current
from .device_state import DeviceState
from .foreign_handles import device_of, stream_handle
from .from_settings import check_allocator, find_driver, make_allocator, make_recorder
from .host_warning import warn_of_host
from .owner import forget_shortcuts, set_shortcut, settle_owners, unsettled
from .process import check_not_exiting, forget, register
from .settings import AllocatorChoice, DriverChoice, Path, Settings
from .uncopyable import refuse_copies

if TYPE_CHECKING:
    from typing_extensions import Self

    from ...plugins.manager import PluginManager
    from ...plugins.tracing.recorder import TraceRecorder
    from ..drivers.base import DeviceProperties

__all__ = ["Runtime"]

T = TypeVar("T")
_SHUT_DOWN = "the runtime was shut down"


class Runtime:
    """A driver and an allocator for each of its devices. Several may live in one process, each with its own settings.

    The functions of ``cuplug.cuda`` use the default one (``cuplug.init``). Objects belong to the runtime that made
    them. Used as a context manager, a runtime closes itself at the end.
    """

    __reduce_ex__ = refuse_copies("start another one with the same settings")

    def __init__(
        self,
        allocator: AllocatorChoice | None = None,
        driver: DriverChoice | None = None,
        trace: Path | None = None,
        launch_blocking: bool | None = None,
        plugins: PluginManager | None = None,
    ) -> None:
        """Find the driver; devices are touched when they are used.

        Args:
            allocator: a selection such as ``caching`` or ``bump:chunk_size=64MiB``, or a factory that takes the
                upstream. By default what ``CUPLUG_ALLOCATOR`` says, else ``caching``.
            driver: a selection (``cuda``, ``sim:devices=2``) or a driver, which then stays the caller's to close. By
                default what ``CUPLUG_DRIVER`` says, else ``auto``: ``cuda`` where PyCUDA imports and a device
                answers; otherwise there is no device. The simulator is never chosen unasked.
            trace: record every event of the allocators in this file. By default what ``CUPLUG_TRACE``
                says, with ``.2`` behind it for the second runtime of a process, and so on.
            launch_blocking: wait for each copy and kernel to end, so that an error is raised where it was caused. By
                default whether ``CUDA_LAUNCH_BLOCKING`` is 1.
            plugins: where allocators and drivers come from; by default the installed plugins.

        Raises:
            PluginError: an unknown allocator, driver or option.
            TraceError: the trace cannot be written.
            DriverError: the driver was asked for by name and cannot start.
        """
        from ...plugins.manager import default_manager

        check_not_exiting()
        self.settings = Settings(allocator, driver, trace, launch_blocking, plugins).resolved()
        self.launch_blocking = bool(self.settings.launch_blocking)
        self.plugins = plugins or default_manager()
        self.recorder: TraceRecorder | None = None
        """Writes the trace, if there is one."""
        check_allocator(self.settings, self.plugins)
        self.abandoned: str | None = None
        """Why it was abandoned: the process was forked from the one that it works in."""
        self._unusable: str | None = None
        self.lock = threading.RLock()
        """For the floors above, while they make something of which there must be one."""
        self._making = Lock()
        self.shared: dict[str, Any] = {}
        """What the floors above keep for the runtime, by their own names."""
        self._thread_numbers = count(1)
        self.threads = threading.local()
        """``threads.current``: see ``current``. Missing in a thread that has not asked for it, and once the runtime
        cannot be used any more: ``current`` makes it, or says why not."""
        self._devices: dict[int, DeviceState] = {}
        self.peers: set[tuple[int, int]] = set()
        """Pairs of ordinals: the first may use the second's memory (``enable_peer_access``)."""
        self._closing = Lock()
        self._to_close: deque[Callable[[], None]] = deque()
        self._closers: list[Callable[[], None]] = []
        self._kept: list[Allocator] = []
        self._guard = 0
        self._driver, self._no_device = find_driver(self.settings, self.plugins)
        self._count = self._driver.device_count() if self._driver else 0
        before = self._driver.current_device() if self._driver else None
        self.home = before if before is not None and before < self._count else 0
        """The device that threads start with: that which the thread that made the runtime had current in the driver
        (another library may have chosen it), else device 0."""
        self._owns_driver = self._driver is not self.settings.driver
        if self._driver:
            self.settings = self.settings.traced()  # not before: asking gives a trace its number
        if self.settings.trace and self._driver:
            self.recorder = make_recorder(self.settings, self._driver, self._count)
        register(self)
        self._observers = self.plugins.observers(self)

    # --- driver and devices

    @property
    def driver(self) -> Driver:
        """The driver.

        Raises:
            CuplugError: there is no device, or the runtime cannot be used any more.
        """
        if self._unusable is not None:
            wait_if_exiting()
            raise CuplugError(self._unusable)
        if self._driver is None:
            raise CuplugError(
                f"there is no CUDA device: {self._no_device}. To work without a GPU, ask for the simulator: "
                'cuplug.init(driver="sim"), or set CUPLUG_DRIVER=sim'
            )
        return self._driver

    @property
    def usable(self) -> bool:
        """Whether it may be used: it was not closed, and the process was not forked from its own."""
        return self._unusable is None

    @property
    def in_use(self) -> bool:
        """Whether a device of it was touched."""
        return bool(self._devices)

    def device_count(self) -> int:
        """The number of visible devices; 0 where there is no driver.

        Raises:
            CuplugError: the runtime cannot be used any more.
        """
        if self._unusable is not None:
            raise CuplugError(self._unusable)
        return self._count

    def device(self, ordinal: int) -> DeviceState:
        """What the runtime keeps for a device.

        Raises:
            CuplugError: there is no device, or the runtime cannot be used any more.
            DriverError: ``CUDA_ERROR_INVALID_DEVICE``: none has this ordinal.
        """
        if type(ordinal) is not int:
            ordinal = whole_number(ordinal, "the number of a device")
        if self._unusable is None and (found := self._devices.get(ordinal)):
            return found
        ordinal = self.check_ordinal(ordinal)
        return self._devices.setdefault(ordinal, DeviceState(self.driver, ordinal, self._stream_key))

    def check_ordinal(self, ordinal: int) -> int:
        """``ordinal``, if there is such a device. Raises as ``device`` does."""
        self.driver  # noqa: B018 - raises where there is none
        ordinal = whole_number(ordinal, "the number of a device")
        if not 0 <= ordinal < self._count:
            visible = f"devices 0 to {self._count - 1} are visible"
            if self._count < 2:
                visible = "1 device is visible: 0" if self._count else "no device is visible"
            raise driver_error(101, f"there is no device {ordinal}; {visible} (see CUDA_VISIBLE_DEVICES)")
        return ordinal

    def properties(self, ordinal: int) -> DeviceProperties:
        """A device's properties. Does not make a context."""
        return self.driver.device_properties(self.check_ordinal(ordinal))

    def on_device(self, ordinal: int) -> AbstractContextManager[None]:
        """Have a device current in the driver, for calls that need it, and afterwards what was before."""
        return on_device(self.driver, ordinal)

    @property
    def current(self) -> Current:
        """What is current in the calling thread. Raises as ``driver``."""
        threads = self.threads  # first: if the runtime is closed meanwhile, these are not the ones that count
        try:
            current: Current = threads.current
        except AttributeError:
            current = threads.current = self._new_current()
        return current

    # --- memory

    def allocator(self, ordinal: int) -> Allocator:
        """The allocator of a device's memory. Raises as ``device`` does, and PluginError if it cannot be made."""
        settle_owners()
        device = self.device(ordinal)
        if device.allocator is None:
            self.exclusively(self._set_allocator, device)
            assert device.allocator is not None
        return device.allocator

    def find_allocator(self, ordinal: int) -> Allocator | None:
        """The allocator of a device, or None where none was needed up to now."""
        settle_owners()
        device = self._devices.get(whole_number(ordinal, "the number of a device"))
        return device.allocator if device else None

    def device_allocators(self) -> list[Allocator]:
        """The allocators of all devices that needed one up to now.

        Raises:
            CuplugError: the runtime cannot be used any more.
        """
        self.driver  # noqa: B018 - raises
        if unsettled:
            settle_owners()
        return [device.allocator for device in list(self._devices.values()) if device.allocator is not None]

    def keep_blocks_apart(self) -> None:
        """On a simulator, let what is allocated from now on be followed by bytes that are nobody's, as many as its
        option ``guard`` says: for programs with kernels of their own. Elsewhere nothing."""
        simulator = self.driver.simulator
        if simulator is None or simulator.guard == self._guard:
            return
        self._guard = simulator.guard
        for allocator in self.device_allocators():
            allocator.guard = self._guard

    def alloc(self, nbytes: int, *, stream: Any = None) -> Buffer:
        """``nbytes`` bytes of device memory for use on ``stream``, uninitialised.

        Args:
            nbytes: the size in bytes. 0 gives a buffer with address 0.
            stream: a ``Stream``, another library's stream or a handle; the memory is its device's. By default the
                current stream of the current device.

        Raises:
            OutOfMemoryError: there is not that much left, whatever was tried.
            CuplugError: there is no device, or the runtime cannot be used any more.
            ValueError: ``nbytes`` is negative.
            TypeError: ``nbytes`` is not a whole number, or ``stream`` is no stream.
        """
        current = self.current
        if type(nbytes) is not int:
            nbytes = whole_number(nbytes, "nbytes")
        if stream is None:
            return self.allocate_current(current, nbytes)
        allocator = self.allocator(self.stream_device(stream))
        return Buffer.allocate(allocator, nbytes, stream=current.key(stream_handle(stream)))

    def allocate_current(self, current: Current, nbytes: int) -> Buffer:
        """``nbytes`` bytes of the current device, for its current stream; ``current`` is the calling thread's."""
        if unsettled:
            settle_owners()
        return Buffer.allocate(current.allocator or self._choose_allocator(current), nbytes, stream=current.stream)

    def take_shortcut(self) -> None:
        """Let quick functions allocate at once where this thread is, until something else becomes current in it."""
        current = self.current
        set_shortcut(current.allocator, current.stream)
        if not self.usable:  # it was closed meanwhile, and has forgotten the places that were taken before
            forget_shortcuts()

    def stream_device(self, stream: Any) -> int:
        """The ordinal of the device of ``stream``; that of the current device if it does not say."""
        ordinal = device_of(stream)
        return self.current.device if ordinal is None else ordinal

    def can_use(self, device: int, peer: int) -> bool:
        """Whether work on ``device`` may use ``peer``'s memory: it is its own, or peer access was enabled."""
        return device == peer or (device, peer) in self.peers

    def exclusively(self, work: Callable[..., T], *args: Any) -> T:
        """The result of ``work(*args)``, while no other thread is in such a call of this runtime. Calls may be nested.

        An exception at any point, such as an interrupt, leaves the runtime open to other threads.
        """
        return work(*args) if self._making.is_mine() else self._making.run(work, *args)

    # --- the end

    def at_close(self, closer: Callable[[], None]) -> None:
        """Call ``closer`` when the runtime closes and nothing is queued any more, before allocators close. Not called
        in a forked child.

        Raises:
            TypeError: ``closer`` cannot be called.
        """
        if not callable(closer):
            raise TypeError(f"closer must be a function without arguments, not {closer!r}")
        self._closers.append(closer)

    def keep(self, allocator: Allocator) -> None:
        """Close ``allocator`` with the runtime, after those of the devices, and abandon it with them.

        Raises:
            TypeError: it is no allocator.
        """
        if not isinstance(allocator, Allocator):
            raise TypeError(f"allocator must be a cuplug.allocators.base.Allocator, not {allocator!r}")
        self._kept.append(allocator)

    def close(self) -> None:
        """Wait for queued work, give all memory back, close the trace and, unless it was passed in, the driver.

        What outlives it is harmless: dropping or closing it does nothing, using it raises CuplugError. NumPy arrays on
        page-locked memory must not be used any more. Idempotent: closing again does what an interrupt has left undone.

        Raises:
            DriverError: the device was in a sticky error state. The rest was closed all the same.
        """
        if self.abandoned is None and not self._closing.is_mine():
            self._closing.run(self._close)

    def _close(self) -> None:
        if self._unusable is None:
            self._to_close, self._unusable = deque(self._steps_of_closing()), f"{_SHUT_DOWN}; start a new one"
        self.threads = threading.local()
        forget_shortcuts()
        errors: list[CuplugError] = []
        while self._to_close:
            try:
                self._to_close[0]()
            except CuplugError as error:
                errors.append(error)
            self._to_close.popleft()
        if errors:
            raise errors[0]

    def _steps_of_closing(self) -> list[Callable[[], None]]:
        """What to do, in this order. Any of it may be done twice."""
        devices = list(self._devices.values())
        steps: list[Callable[[], None]] = []
        if self.recorder is not None:
            steps = [partial(_tell_served, self.recorder, devices), self.recorder.closing]
        steps += [device.synchronize for device in devices]
        steps += reversed(self._closers)
        steps += [partial(_close_allocator, allocator) for allocator in self._allocators()]
        steps += [device.close_handles for device in devices]
        steps.append(self.shared.clear)
        if self.recorder is not None:
            steps.append(self.recorder.close)
        if self._driver is not None and self._owns_driver:
            steps.append(self._driver.close)
        return [*steps, partial(forget, self)]

    def end_work(self) -> CuplugError | None:
        """At the process's end, wait for what a simulated device still has to do.

        Returns:
            What failed without the program having heard of it, which also makes the process end with status 1. On
            hardware None: CUDA drops such errors.
        """
        simulator = self._driver.simulator if self._driver is not None and self._unusable is None else None
        try:
            unseen = simulator.unseen_failure() if simulator is not None else None
        except CuplugError:  # the driver was closed before
            return None
        if simulator is not None and unseen is not None and simulator.module_loader is not None:
            simulator.module_loader.fail_at_exit()
        return unseen

    def abandon(self, why: str) -> None:
        """Make every later use raise ``why``, and call neither the driver nor anything that might wait."""
        self.abandoned = self._unusable = why
        self.threads = threading.local()
        forget_shortcuts()
        self.lock, self._making, self._closing = threading.RLock(), Lock(), Lock()
        for allocator in self._allocators():
            allocator.abandon(why)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: object, _traceback: object) -> None:
        try:
            self.close()
        except CuplugError:
            if error is None:  # else it would hide what went wrong first
                raise

    def __repr__(self) -> str:
        settings = self.settings
        state = "" if self._unusable is None else ", unusable"
        return f"<Runtime driver={settings.driver!r} allocator={settings.allocator!r}, {self._count} devices{state}>"

    # --- helpers

    def _choose_allocator(self, current: Current) -> Allocator:
        current.have_context()
        current.allocator = allocator = self.allocator(current.device)
        return allocator

    def _new_current(self) -> Current:
        driver = self.driver
        number = next(self._thread_numbers)
        return Current(driver, is_usable=lambda: self.usable, number=number, device=self.home)

    def _stream_key(self, handle: int) -> int:
        return self.current.key(handle)

    def _set_allocator(self, device: DeviceState) -> None:
        if device.allocator is None:
            device.allocator = self._make_allocator(device)

    def _make_allocator(self, device: DeviceState) -> Allocator:
        allocator = make_allocator(self.settings, self.plugins, device.upstream)
        allocator.on_out_of_memory = partial(self._out_of_memory, device)
        allocator.guard = self._guard
        allocator.on_beyond = partial(warn_of_host, device.ordinal)
        observers = [(observer, source_of(observer)) for make in self._observers for observer in [make(device.ordinal)]]
        if self.recorder is not None:
            observers.append((self.recorder.observer(device.ordinal), self.recorder.context))
        attach_all(allocator, observers)
        return allocator

    def _out_of_memory(self, device: DeviceState, nbytes: int, stream: int) -> bool:
        settle_owners()
        reclaimed = False
        if device.streams.has_left:
            with self.on_device(device.ordinal):
                reclaimed = device.streams.settle()
        return self.plugins.out_of_memory(device.ordinal, nbytes, stream) or reclaimed

    def _allocators(self) -> list[Allocator]:
        made = [device.allocator for device in self._devices.values() if device.allocator is not None]
        return made + self._kept


def _tell_served(recorder: TraceRecorder, devices: list[DeviceState]) -> None:
    """Let the trace say what a plan has served on each device."""
    told = {}
    for device in devices:
        served = None if device.allocator is None else served_of(device.allocator)
        if served is not None:
            told[str(device.ordinal)] = astuple(served)
    if told:
        with suppress(CuplugError):  # on a full disk it is missing
            recorder.describe(served=told)


def _close_allocator(allocator: Allocator) -> None:
    try:
        allocator.close()
    except CuplugError:
        allocator.abandon(_SHUT_DOWN)
        raise
    allocator.abandon(_SHUT_DOWN)
