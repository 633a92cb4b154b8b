"""The trace format: what ``writer.py`` writes and ``reader.py`` reads.

A trace file is a header and then an array of 48-byte records, little-endian throughout:

- The header is ``HEADER`` (magic, format version, header size, record size, length and CRC-32 of the text, and the
  count of records once the file was closed, or ``STILL_OPEN`` or ``CUT_OFF``), then a JSON object, then zeros up to
  the header size (a multiple of 4096).
- A record is one event (``EVENT_DTYPE``), or one piece of the side table, which holds what does not fit into a fixed
  size: names, call stacks, and what became known after the header was written. A piece has a kind from 240 up and 40
  bytes of text; pieces of one kind and number make up one entry, in order. NumPy reads the whole without parsing:
  ``np.fromfile(path, EVENT_DTYPE, offset=header_size)``.

The header's field ``libraries``, where it is there, says that contexts name the library that asked: above the call
stack's number, from bit ``LIBRARY_SHIFT`` on, stands the number of a library, whose name the field has.

Version 2 has the kinds SLEEP and WAKE besides; in the header's field ``tags`` stand the names that go with the numbers
in them. Version 3 has the kind EMPTY_CACHE.

Version 4 has the kinds LIMIT, RESET_PEAKS, HOST_PAGE_CREATE and HOST_PAGE_RELEASE besides. Version 5 has the kind MOVE.

Records are stored through a memory map, so that whatever kills the process, the kernel keeps what was written. A
record's last byte is its kind, and it is stored last: a record whose kind is zero was not written, or not wholly.
"""

from __future__ import annotations

import importlib.metadata
import struct

from ...allocators.events import EventKind
from .trace_in_memory import EVENT_DTYPE

FORMAT_VERSION = 5
MAGIC = b"\x89CUPLUG\n"
PAGE = 4096
"""The header's size in bytes is a multiple of this."""

HEADER = struct.Struct("<8sIIIIIQ")
"""Magic, format version, header size, record size, length and CRC-32 of the text, count of records."""
STILL_OPEN = (1 << 64) - 1
"""The count of records in a file that was not closed."""
CUT_OFF = STILL_OPEN - 1
"""The count of records in a file that the disk had no room to go on with: events are missing at its end."""
PLACES_GIVEN_UP = "places_given_up"
"""The header's field that counts records which stayed unwritten, and whose events stand elsewhere."""

RECORD_DTYPES = {1: EVENT_DTYPE, 2: EVENT_DTYPE, 3: EVENT_DTYPE, 4: EVENT_DTYPE, 5: EVENT_DTYPE}
"""The records of every version that was ever written."""
RECORD_SIZE = EVENT_DTYPE.itemsize
EVENT_KINDS = frozenset(int(kind) for kind in EventKind)

PIECE = struct.Struct("<40sIHBB")
"""A piece of the side table: text, the entry's number, the text's length in bytes and ``LAST_PIECE``, 0, and kind."""
LAST_PIECE = 0x8000
PIECE_NAME, PIECE_FRAME, PIECE_STACK, PIECE_THREAD, PIECE_INFO = 240, 241, 242, 243, 244


def is_trace(head: bytes) -> bool:
    """Whether a file that begins with these bytes is a cuplug trace."""
    return head.startswith(MAGIC)


def own_version() -> str:
    """The version of this package, as a header states it."""
    try:
        return importlib.metadata.version("cuplug")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
