"""Interrupts between calls of CUDA and the notes of what they did.

Keys of threads (``pthread_key_create``) stand in for what CUDA makes. They are made by a C function with the shape of
CUDA's: a place for the handle comes first, and 0 is success. There are few, a handle is given out again at once,
and destroying one twice is an error: what is lost or confused shows.
"""

from __future__ import annotations

import ctypes
import os
import random
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from cuplug.allocators.errors import DriverError
from cuplug.runtime.drivers.cuda.calls import Calls, Made
from cuplug.runtime.drivers.cuda.contexts import Contexts

from ..timers import Cut

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="uses functions of Linux's C library")

INTERRUPTS = int(os.environ.get("CUPLUG_INTERRUPTS", "1500"))
OURS, THEIRS = 100, 7
"""Contexts: this driver's, and another library's."""


class Library:
    """What stands in for libcuda. The current context is the value of a key: pushing and popping are in C, too."""

    def __init__(self, current: int) -> None:
        library = ctypes.CDLL(None)
        self.make: Any = library.pthread_key_create
        self.make.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
        self.destroy: Any = library.pthread_key_delete
        self.destroy.argtypes = (ctypes.c_uint,)
        self._get: Any = library.pthread_getspecific
        self._get.argtypes, self._get.restype = (ctypes.c_uint,), ctypes.c_void_p
        library.pthread_setspecific.argtypes = (ctypes.c_uint, ctypes.c_void_p)
        self._key = ctypes.c_uint()
        self.make(ctypes.byref(self._key), None)
        self.cuCtxPushCurrent = partial(library.pthread_setspecific, self._key)
        self.cuCtxPopCurrent = partial(library.pthread_setspecific, self._key, current)
        self.cuCtxPushCurrent(current)

    @property
    def current(self) -> int:
        return int(self._get(self._key))

    def cuCtxGetCurrent(self, reference: Any) -> int:
        reference._obj.value = self.current
        return 0

    def error(self, call: str, code: int, detail: str = "") -> DriverError:
        return DriverError(code, "CUDA_ERROR", f"{call}: {detail}")


def make_made(current: int = OURS) -> tuple[Made, Library]:
    """Where ``current`` is the context that some library has made current."""
    library = Library(current)
    device = SimpleNamespace(retain_primary_context=lambda: SimpleNamespace(handle=OURS))
    pycuda = SimpleNamespace(Error=RuntimeError, Device=lambda ordinal: device)
    contexts = Contexts(library, pycuda, 1)  # type: ignore[arg-type]
    contexts._thread.state.ordinal, contexts._thread.state.context = 0, OURS
    return Made(Calls(library, contexts), "make", "destroy", invalid=1), library  # type: ignore[arg-type]


def free_keys(library: Library) -> int:
    """How many keys can still be made."""
    keys: list[int] = []
    key = ctypes.c_uint()
    while not library.make(ctypes.byref(key), None):
        keys.append(key.value)
    for value in keys:
        library.destroy(value)
    return len(keys)


@pytest.mark.parametrize("current", [OURS, THEIRS], ids=["in its own context", "in another library's context"])
def test_signals_at_any_moment_lose_and_destroy_nothing(timer: Cut, current: int) -> None:
    made, library = make_made(current)
    before = free_keys(library)
    chosen = random.Random(5)
    held: list[int] = []

    def some_calls() -> None:
        for _ in range(6):
            if chosen.random() < 0.5:
                held.append(made.make(None))
            elif held:
                made.destroy(held[-1])
                del held[-1]

    came = 0
    while came < INTERRUPTS:
        came += timer(some_calls, chosen.uniform(1e-6, 1e-4))
        assert len(set(held)) == len(held)
        assert set(held) <= set(made.live)
        assert library.current == current
        if len(held) > 200:
            while held:
                made.destroy(held.pop())
            made.destroy(made.make(None))
            assert not made.live
            assert free_keys(library) == before
    while held:
        made.destroy(held.pop())
    made.destroy(made.make(None))  # destroys what interrupted calls have made
    assert not made.live
    assert free_keys(library) == before


def test_a_thing_that_was_destroyed_is_refused() -> None:
    made, _ = make_made()
    handle = made.make(None)
    made.destroy(handle)
    with pytest.raises(DriverError, match="did not make it, or destroyed it before"):
        made.destroy(handle)


def test_what_the_library_refuses_is_still_there() -> None:
    made, library = make_made()
    handle = made.make(None)
    library.destroy(handle)
    with pytest.raises(DriverError, match="destroy"):
        made.destroy(handle)
    assert handle in made.live


def test_a_handle_that_another_thread_is_given_as_soon_as_it_is_free_is_that_threads() -> None:
    made, library = make_made()
    handle = made.make(None)
    destroy, found = library.destroy, []

    def destroy_while_another_makes(handle: int) -> int:
        library.destroy = destroy  # type: ignore[method-assign]
        code = destroy(handle)
        found.append(made.make(None))
        return code

    library.destroy = destroy_while_another_makes  # type: ignore[method-assign]
    made.destroy(handle)
    assert found == [handle]
    assert set(made.live) == {handle}
    made.destroy(handle)
    assert not made.live
