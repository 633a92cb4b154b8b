"""Reads pickles of builtin containers, numbers and text, and nothing else: a hostile file runs nothing.

Two barriers, each enough by itself against code: the instructions are checked before any is carried out, and the
unpickler finds no class or function whatever. The first also turns away what would only waste memory.
"""

from __future__ import annotations

import gc
import io
import pickle
import pickletools
import re
from typing import Any, NoReturn

from ...allocators.errors import TraceError

__all__ = ["loads"]

# What a pickler of protocol 2 to 5 writes for None, bool, int, float, text, bytes, tuple, list, dict and set
# (Lib/pickletools.py). All others import, call or build something, or belong to protocol 0.
_PLAIN = rb"[\[\]()}0-2Naestu\x85-\x89\x8f-\x91\x94]"
_FIXED = rb"[Khq].|M..|[Jj]....|G.{8}|\x80[\x02-\x05]|\x95.{8}"
_SHORT = b"|".join(rb"[\x8aC\x8c]%b.{%d}" % (re.escape(bytes([n])), n) for n in range(256))
_RUN = re.compile(b"(?:" + _PLAIN + b"|" + _FIXED + b"|" + _SHORT + b"){1,4096}", re.DOTALL)
_LENGTHS = {ord("X"): 4, ord("B"): 4, 0x8B: 4, 0x8D: 8, 0x8E: 8}  # instructions followed by a length of so many bytes
_LONG_BINPUT = ord("r")
_STOP = ord(".")


def loads(data: bytes, what: str) -> Any:
    """The object in ``data``. ``what`` names it in errors.

    Raises:
        TraceError: it holds more than builtin containers, numbers and text, or is damaged.
    """
    _check(data, what)
    collecting = gc.isenabled()
    gc.disable()  # none of this can be garbage, and looking for it would take half of the time
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except TraceError:
        raise
    except Exception as error:  # damaged pickles raise nearly anything
        raise TraceError(f"{what} is a damaged pickle: {error or type(error).__name__}") from None
    finally:
        if collecting:
            gc.enable()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> NoReturn:
        raise TraceError(f"this pickle asks for {module}.{name}, which is not a builtin container: it was not run")

    def persistent_load(self, pid: Any, /) -> NoReturn:
        raise TraceError(f"this pickle asks for an outside object ({pid!r}): it was not run")


def _check(data: bytes, what: str) -> None:
    """Walk over the instructions up to the end of the pickle. Runs of harmless ones go by in one step."""
    at, size = 0, len(data)
    while at < size:
        run = _RUN.match(data, at)
        if run is not None:
            at = run.end()
            continue
        code = data[at]
        if code == _STOP:
            return
        if code == _LONG_BINPUT:
            # The unpickler makes a table up to this number: more of them than bytes is no honest file.
            if int.from_bytes(data[at + 1 : at + 5], "little") > size:
                raise TraceError(f"{what} is a damaged pickle: an object's number at byte {at} is too large")
            at += 5
        elif code in _LENGTHS:
            width = _LENGTHS[code]
            at += 1 + width + int.from_bytes(data[at + 1 : at + 1 + width], "little")
        elif size - at < 257 and code in b"KhqMJjG\x80\x95\x8aC\x8c":
            break  # a harmless one that is cut off
        else:
            raise TraceError(
                f"{what} is a pickle with more than containers, numbers and text: byte {at} is {_instruction(code)}, "
                "which a memory snapshot never has; nothing of it was run"
            )
    raise TraceError(f"{what} is cut off: its pickle has no end within {size} bytes")


def _instruction(code: int) -> str:
    names = (known.name for known in pickletools.opcodes if known.code == chr(code))
    return next(names, f"{code:#04x}, no instruction")
