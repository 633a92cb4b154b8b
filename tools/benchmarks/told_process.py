"""A process that works when it is told to, so that several can take turns on a machine."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, NoReturn

from ...allocators.errors import CuplugError


class ToldProcess:
    """Runs a command that reads lines and answers them, and does nothing meanwhile."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        # A file and not a pipe: a full pipe would stop the process before it is ready.
        self._errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by end()
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, env=environment, stdin=pipe, stdout=pipe, stderr=self._errors, text=True
        )

    def end(self) -> None:
        """Leave nothing running, also after an error or an interrupt."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def failed(self) -> NoReturn:
        """Raise CuplugError with the end of what the process, which has ended, wrote to its standard error."""
        code = self._process.wait()
        self._errors.seek(0)
        raise CuplugError(f"{self.name} ended with {code}: {self._errors.read().strip()[-2000:]}")
