"""Archives of others: of each entry what is needed is read, and of all no more than an honest archive could hold."""

from __future__ import annotations

import io
import zipfile

from ...core.tensor_errors import ArgumentError

_ALWAYS = 64 << 20
_FACTOR = 64
"""How many times its own length an archive may hold, beside ``_ALWAYS`` bytes. What numbers are deflated to is seldom
less than a tenth of them; what a hostile archive inflates to, is a thousand times as much."""


class BoundedArchive:
    """A zip archive in memory, whose entries are stored or deflated."""

    def __init__(self, content: bytes) -> None:
        """Over the bytes of an archive.

        Raises:
            BadZipFile: this is none.
        """
        self._archive = zipfile.ZipFile(io.BytesIO(content))
        self._left = _ALWAYS + _FACTOR * len(content)
        self.names = self._archive.namelist()

    def read(self, name: str, needed: int | None = None) -> bytes:
        """The bytes of an entry; of a deflated one the first ``needed`` at least.

        Raises:
            ArgumentError: it is compressed in another way, or all that was read is too much.
            KeyError: there is none of that name.
            BadZipFile, EOFError: it is damaged.
        """
        info = self._archive.getinfo(name)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
            raise ArgumentError(f"load: {name} is encrypted, or compressed in another way than by deflating")
        length = info.file_size
        if needed is not None and info.compress_type != zipfile.ZIP_STORED:
            length = min(length, needed + _BEYOND)
        if length > self._left:
            raise ArgumentError(f"load: {name} would inflate to more than a file of this length can honestly hold")
        self._left -= length
        with self._archive.open(info) as entry:
            content = entry.read(length)
        if len(content) != length:
            raise EOFError(f"{name} has {len(content)} bytes, and should have {length}")
        return content


_BEYOND = 16
"""Bytes more than are needed, for views of one storage by other types: their counts are rounded down."""
