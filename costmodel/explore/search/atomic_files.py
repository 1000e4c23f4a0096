"""Atomic file writes: a file is complete in its place or not there at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from costmodel.ground.errors import Place, fail


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Writes a temporary file, then moves it into place; removes the file at `path` if nothing was written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with usable(path):
            yield temporary
            if not temporary.exists():
                path.unlink(missing_ok=True)
                return
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
            _sync(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """Turn a system error on a file or folder into a fault."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise fail("C021", f"{path} cannot be used: {reason}", Place(str(path))) from None


def check_regular(path: Path) -> None:
    """A fault for a pipe or device in place of a file, because reading would not end."""
    if path.exists() and not path.is_file():
        raise fail("C021", f"{path} is no regular file", Place(str(path)), "take another folder")


def _sync(folder: Path) -> None:
    """Flush the names in a folder to disk, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
