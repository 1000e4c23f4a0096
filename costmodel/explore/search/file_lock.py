"""Locks for files that several processes write: the folder of a search, and files that are updated.

A lock is released when its process ends. The operating system holds it, over NFS too. On a file system without
locks, the file names its owner; an owner that no longer runs on this machine does not count.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from costmodel.ground.errors import Place, fail

# Atomic file writes: a file is complete in its place or not there at all.


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yields a temporary path, then moves that file into place; if none was written, removes the file at `path`."""
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
    """Turns system errors on a file or folder into faults."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise fail("C021", f"{path} cannot be used: {reason}", Place(str(path))) from None


def check_regular(path: Path) -> None:
    """Raises a fault for a pipe or device in place of a file, because reading it would not end."""
    if path.exists() and not path.is_file():
        raise fail("C021", f"{path} is no regular file", Place(str(path)), "take another folder")


def _sync(folder: Path) -> None:
    """Flushes the names in a folder to disk, if the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


NAME = "_lock"  # readers of Parquet folders pass over names that begin so
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}
_TRIES = 20  # how often another process may take the file away between opening and locking it
_PAUSE, _SAY_AFTER, _LONGEST = 0.05, 2.0, 300.0  # seconds: between two tries, until it is stated, until it is a fault

_held: set[Path] = set()  # files that this process has locked, whose threads are one to the system
_guard = threading.Lock()

if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        os.lseek(handle, 1 << 30, os.SEEK_SET)  # behind the text, which others read
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class _HeldByOther(Exception):
    """Raised when another process or thread has the lock; with its owner and what the user can do."""

    def __init__(self, owner: dict[str, Any], remedy: str = "") -> None:
        super().__init__()
        self.owner, self.remedy = owner, remedy


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Locks a folder for one search; raises a fault if another search has it."""
    path = folder / NAME
    try:
        with usable(folder):
            check_regular(path)
            handle = _take_lock(path)
    except _HeldByOther as other:
        by = f"process {other.owner.get('process')} on {other.owner.get('host')} does: " if other.owner else ""
        hint = f"{by}wait for it, or take another folder{other.remedy}"
        raise fail("C021", f"another search works in {folder}", Place(str(folder)), hint) from None
    try:
        yield
    finally:
        _release_lock(path, handle)


@contextmanager
def updating(path: Path, notify: Callable[[str], None]) -> Iterator[None]:
    """Locks a file, or a folder, from reading until rewriting, so that concurrent writes are not lost.

    Waits for the process that has the lock; `notify` receives a sentence if that takes long. Pipes, and files in
    missing folders, are not locked.
    """
    whole = path.resolve()
    if not whole.parent.is_dir() or (whole.exists() and not (whole.is_file() or whole.is_dir())):
        yield
        return
    lock = whole.with_name(f".{whole.name[:100]}.lock")
    handle = _waited_for(path, lock, notify)
    try:
        yield
    finally:
        _release_lock(lock, handle)


def _waited_for(path: Path, lock: Path, notify: Callable[[str], None]) -> int:
    """Waits until no other process has the lock of a file, and takes it."""
    begun, stated = time.monotonic(), False
    while True:
        try:
            return _take_lock(lock)
        except _HeldByOther as other:
            by = f"process {other.owner.get('process', '?')} on {other.owner.get('host', '?')}"
            waited = time.monotonic() - begun
            if waited > _LONGEST:
                sentence = f"{path} cannot be written: {by} has updated it for over {_LONGEST:g} s"
                raise fail("C002", sentence, Place(str(path)), f"wait for it{other.remedy}") from None
            if waited > _SAY_AFTER and not stated:
                notify(f"{path} is being updated by {by}; waiting for it")
                stated = True
        except OSError as error:
            raise fail("C002", f"{path} cannot be written: {error.strerror}", Place(str(path))) from None
        time.sleep(_PAUSE)


def _take_lock(path: Path) -> int:
    """Opens and locks a lock file."""
    here = path.resolve()
    with _guard:
        if here in _held:
            raise _HeldByOther(_owner())
        _held.add(here)
    try:
        return _acquire_lock(path)
    except BaseException:
        _held.discard(here)
        raise


def _release_lock(path: Path, handle: int) -> None:
    with contextlib.suppress(OSError):  # gone with its folder; Windows keeps what is open
        os.unlink(path)
    os.close(handle)
    _held.discard(path.resolve())


def _acquire_lock(path: Path) -> int:
    """Opens a lock file and makes this process its owner."""
    owner: dict[str, Any] = {}
    for _ in range(_TRIES):
        handle, made = _open_file(path)
        try:
            owner = _holder(handle)
            kept = _kept_by_system(handle)
            if kept is None and not made and _runs(owner):
                raise _HeldByOther(owner, f"; if it does not run any more, delete {path}")
            if kept is False:
                raise _HeldByOther(owner)
            if (kept or made) and os.path.samestat(os.fstat(handle), os.stat(path)):
                os.ftruncate(handle, 0)
                os.lseek(handle, 0, os.SEEK_SET)
                os.write(handle, json.dumps(_owner()).encode())
                return handle
            if kept is None and os.path.samestat(os.fstat(handle), os.stat(path)):
                os.unlink(path)  # its owner is gone
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    raise _HeldByOther(owner)


def _open_file(path: Path) -> tuple[int, bool]:
    """Opens a file; returns the handle and whether it was just created."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), True
    except FileExistsError:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666), False


def _kept_by_system(handle: int) -> bool | None:
    """Whether the system grants the lock; None if it does not support locks on this file."""
    try:
        _lock(handle)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True


def _host() -> str:
    """The name of this machine."""
    import socket  # which searches without a folder do not wait for

    return socket.gethostname()


def _owner() -> dict[str, Any]:
    """An identifier of this process: machine, process id and start time."""
    own = os.getpid()
    return {"host": _host(), "space": _space(), "process": own, "started": _process_start(own)}


def _holder(handle: int) -> dict[str, Any]:
    """The owner named in a lock file; empty if there is none."""
    try:
        owner = json.loads(os.read(handle, 4096))
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _runs(owner: dict[str, Any]) -> bool:
    """Whether an owner may still run; a process of another machine may."""
    process = owner.get("process")
    here = (owner.get("host"), owner.get("space")) == (_host(), _space())
    if not here or not isinstance(process, int) or process <= 0 or sys.platform == "win32":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return bool(owner.get("started") == _process_start(process))


def _space() -> str:
    """The process namespace of this process, as containers have their own."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _process_start(process: int) -> str:
    """When a process started, in clock ticks since boot; empty if the system does not report it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
