"""Files that are named by an address, such as ``s3://bucket/run.cuplug``: whatever ``fsspec`` can open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from glob import has_magic
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...allocators.errors import TraceError


def is_address(path: str) -> bool:
    """Whether a path names a protocol."""
    return "://" in path


def expand(address: str, forms: Sequence[str]) -> list[str]:
    """The addresses of the files that an address stands for: what a pattern matches, or what a folder has of ``forms``.

    Raises:
        TraceError: ``fsspec`` or what the protocol needs is not installed, or the storage does not answer.
    """
    with _said_in_one_line(address):
        files, path = import_module("fsspec").core.url_to_fs(address)
        if has_magic(path):
            found = files.glob(path)
        elif files.isdir(path):
            found = [name for name in files.ls(path, detail=False) if any(fnmatch(name, form) for form in forms)]
        else:
            return [address]
        return [str(files.unstrip_protocol(name)) for name in found]


@contextmanager
def local_copy(address: str) -> Iterator[str]:
    """The path of a file that holds what is at an address, as long as the block lasts.

    Raises:
        TraceError: there is nothing, or it cannot be read.
    """
    with TemporaryDirectory(prefix="cuplug-") as folder:
        path = Path(folder) / "trace"
        with _said_in_one_line(address):
            files, name = import_module("fsspec").core.url_to_fs(address)
            files.get_file(name, str(path))
        yield str(path)


@contextmanager
def _said_in_one_line(address: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise TraceError(
            f"cannot read {address}: {error.name} is not installed: pip install 'cuplug[remote]'"
        ) from None
    except ImportError as error:  # a protocol's own library, which fsspec names
        raise TraceError(f"cannot read {address}: {_line(error)}") from None
    except FileNotFoundError:
        raise TraceError(f"{address} does not exist: name a cuplug trace or a PyTorch memory snapshot") from None
    except Exception as error:  # each storage has errors of its own
        raise TraceError(f"cannot read {address}: {_line(error)}") from None


def _line(error: BaseException) -> Any:
    return " ".join(str(error).split()) or type(error).__name__
