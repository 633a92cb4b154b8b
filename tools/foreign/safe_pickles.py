"""Reads pickles of builtin containers, numbers and text, and nothing else: a hostile file runs nothing.

Against code, the unpickler finds no class or function whatever. Against memory, the instructions are walked over
before any is carried out: what an honest pickler never writes, and what would take memory out of all proportion to
the file, is refused.
"""

from __future__ import annotations

import gc
import io
import pickle
import pickletools
import re
from typing import Any, NoReturn

from ...allocators.errors import TraceError

# What a pickler writes for None, bool, int, float, text, bytes, tuple, list, dict and set (Lib/pickletools.py).
_PLAIN = rb"[\[\]()}0-2Naestudl\x85-\x89\x8f-\x91\x94]"
_FIXED = rb"[Khq].|M..|[Jj]....|G.{8}|\x80[\x02-\x05]|\x95.{8}"
_SHORT = b"|".join(rb"[\x8aC\x8c]%b.{%d}" % (re.escape(bytes([n])), n) for n in range(256))
_LINES = rb"[IFVSg][^\n]*\n|L[^\n]{0,1000}\n"  # of protocol 0, where arguments are lines of text
_RUN = re.compile(b"(?:" + _PLAIN + b"|" + _FIXED + b"|" + _SHORT + b"|" + _LINES + b"){1,4096}", re.DOTALL)
_LENGTHS = {ord("X"): 4, ord("B"): 4, 0x8B: 4, 0x8D: 8, 0x8E: 8}  # instructions followed by a length of so many bytes
_LONG_BINPUT = ord("r")
_PUT = re.compile(rb"p(\d{1,10})\n")
_STOP = ord(".")

_MAKES_A_CONTAINER = (b"]", b"}", b"l", b"d", b"t", b"\x85", b"\x86", b"\x87", b"\x8f", b"\x91")
_BYTES_FOR_A_CONTAINER = 4
"""In honest pickles there are more bytes than this for each container. A container takes some 64 bytes of memory."""
_ALWAYS_ALLOWED = 1 << 20


def is_pickle(head: bytes) -> bool:
    """Whether a file that begins with these bytes (three or more) looks like a pickle of a dictionary or a list."""
    return (len(head) > 1 and head[0] == 0x80 and 2 <= head[1] <= 5) or head.startswith((b"(dp", b"(lp", b"}q", b"]q"))


def loads(data: bytes, what: str) -> Any:
    """The object in ``data``. ``what`` names it in errors.

    Raises:
        TraceError: it holds more than builtin containers, numbers and text, would take memory out of proportion to
            its size, or is damaged.
    """
    _check(data, what)
    collecting = gc.isenabled()
    gc.disable()  # none of this can be garbage, and looking for it would take half of the time
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except TraceError:
        raise
    except Exception as error:  # damaged pickles raise nearly anything
        raise TraceError(
            f"{what} is a damaged pickle: {' '.join(str(error).split()) or type(error).__name__}"
        ) from None
    finally:
        if collecting:
            gc.enable()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> NoReturn:
        raise TraceError(f"this pickle asks for {module}.{name}, which is not a builtin container: it was not run")


def _check(data: bytes, what: str) -> None:
    """Walk over the instructions up to the end of the pickle. Runs of harmless ones go by in one step."""
    containers = sum(data.count(code) for code in _MAKES_A_CONTAINER) if len(data) > _ALWAYS_ALLOWED else 0
    if containers * _BYTES_FOR_A_CONTAINER > len(data):
        raise TraceError(f"{what} is a pickle of hardly anything but empty containers, which no memory snapshot is")
    at, size = 0, len(data)
    while at < size:
        run = _RUN.match(data, at)
        if run is not None:
            at = run.end()
            continue
        code = data[at]
        if code == _STOP:
            if is_pickle(data[at + 1 : at + 9]):  # appended by a callback, say: the first one alone is the oldest
                raise TraceError(f"{what} has a second pickle behind the first: write each into a file of its own")
            return
        put = _PUT.match(data, at)
        if code == _LONG_BINPUT or put:
            # The unpickler makes a table up to this number: more of them than bytes is no honest file.
            number = int(put[1]) if put else int.from_bytes(data[at + 1 : at + 5], "little")
            if number > size:
                raise TraceError(f"{what} is a damaged pickle: an object's number at byte {at} is too large")
            at = put.end() if put else at + 5
        elif code in _LENGTHS:
            width = _LENGTHS[code]
            at += 1 + width + int.from_bytes(data[at + 1 : at + 1 + width], "little")
        elif size - at < 257 and code in b"KhqMJjG\x80\x95\x8aC\x8cIFVSgLp":
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
