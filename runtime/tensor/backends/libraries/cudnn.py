"""NVIDIA's cuDNN by its C interface, through ``ctypes``: the library, and a handle for each thread.

The library comes with the wheel ``nvidia-cudnn-cu13``. NVIDIA's ``cuda-pathfinder``, which ``cuda-bindings`` brings,
finds it; without it the usual names are tried. What is asked of it is described by graphs of operations, see
``cudnn_descriptors.py``: since version 9 they are the interface that NVIDIA keeps. Recurrent layers have functions of
their own, see ``cudnn_recurrent.py``.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any

from .....allocators.errors import CuplugError
from ....drivers.device_upstream import on_device
from ..device_place import DevicePlace
from .cublas import cublas

_OLDEST, _LONGEST_REASON = 90000, 2048


class DnnError(CuplugError):
    """cuDNN failed, or has no way to do what it was asked for."""


@functools.cache
def cudnn() -> Any | None:
    """The library, or None where it is not installed or older than version 9."""
    cublas()  # some of cuDNN's engines call it, and look for it among what is loaded
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        names = [load_nvidia_dynamic_lib("cudnn").abs_path]
    except Exception:  # not installed, or it does not find the library: it says so in several ways
        names = []
    for name in (*names, "libcudnn.so.9"):
        try:
            library = typed(ctypes.CDLL(name))
        except (OSError, AttributeError):  # not there, or too old to have graphs
            continue
        if library.cudnnGetVersion() >= _OLDEST:
            return library
    return None


def typed(library: Any) -> Any:
    """The library, whose functions know the types of their arguments."""
    pointer, integer, wide = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
    library.cudnnGetVersion.restype = ctypes.c_size_t
    library.cudnnGetErrorString.argtypes = (integer,)
    library.cudnnGetErrorString.restype = ctypes.c_char_p
    library.cudnnGetLastErrorString.argtypes = (pointer, ctypes.c_size_t)
    library.cudnnGetLastErrorString.restype = None
    library.cudnnCreate.argtypes = (pointer,)
    library.cudnnDestroy.argtypes = (pointer,)
    library.cudnnSetStream.argtypes = (pointer, pointer)
    library.cudnnBackendCreateDescriptor.argtypes = (integer, pointer)
    library.cudnnBackendDestroyDescriptor.argtypes = (pointer,)
    library.cudnnBackendFinalize.argtypes = (pointer,)
    library.cudnnBackendSetAttribute.argtypes = (pointer, integer, integer, wide, pointer)
    library.cudnnBackendGetAttribute.argtypes = (pointer, integer, integer, wide, pointer, pointer)
    library.cudnnBackendExecute.argtypes = (pointer, pointer, pointer)
    for name, letters in _RECURRENT.items():
        kinds = {"p": pointer, "i": integer, "n": ctypes.c_size_t}
        getattr(library, name).argtypes = tuple(kinds[letter] for letter in letters)
    return library


_RECURRENT = {
    **{f"cudnn{do}{kind}Descriptor": "p" for do in ("Create", "Destroy") for kind in ("Tensor", "RNN", "RNNData")},
    "cudnnSetTensorNdDescriptor": "piipp",
    "cudnnSetRNNDescriptor_v8": "piiiiiiiiiiiipi",
    "cudnnSetRNNDataDescriptor": "piiiiipp",
    "cudnnGetRNNWeightSpaceSize": "ppp",
    "cudnnGetRNNWeightParams": "ppinpipppp",
    "cudnnGetRNNTempSpaceSizes": "ppippp",
    "cudnnRNNForward": "ppippppppppppp" + "npnpnp",
    "cudnnRNNBackwardData_v8": "pppppppppppppppp" + "npnpnp",
    "cudnnRNNBackwardWeights_v8": "ppipppppppnpnpnp",
}
"""The functions of recurrent layers, which have no graphs: ``cudnn_adv.h``. A letter for each argument: a pointer, an
``int``, or a ``size_t``."""


class Dnn:
    """cuDNN on one device. A handle must not serve two threads at once, so each thread has its own."""

    def __init__(self, library: Any, place: DevicePlace) -> None:
        self.library = library
        self.place = place
        self._local = threading.local()
        self._handles: list[int] = []
        place.runtime.at_close(self._close)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of cuDNN.

        Raises:
            DnnError: it failed.
        """
        status = getattr(self.library, name)(*arguments)
        if status:
            reason = self.library.cudnnGetErrorString(status).decode()
            text = ctypes.create_string_buffer(_LONGEST_REASON)
            self.library.cudnnGetLastErrorString(text, _LONGEST_REASON)
            last = text.value.decode(errors="replace").strip()
            raise DnnError(f"{name} failed on {self.place.device}: {reason}" + (f" ({last})" if last else ""))

    def handle(self, stream: int) -> int:
        """This thread's handle, set to work on ``stream``. The device must be current in CUDA.

        Raises:
            DnnError: cuDNN does not work on this device.
        """
        local = self._local
        try:
            handle, before = local.handle, local.stream
        except AttributeError:
            made = ctypes.c_void_p()
            self.call("cudnnCreate", ctypes.byref(made))
            handle, before = made.value or 0, None
            local.handle = handle
            self._handles.append(handle)
        if before != stream:
            self.call("cudnnSetStream", handle, stream)
            local.stream = stream
        return int(handle)

    def _close(self) -> None:
        with on_device(self.place.driver, self.place.ordinal):  # the runtime itself is closed already
            while self._handles:
                self.library.cudnnDestroy(self._handles.pop())
