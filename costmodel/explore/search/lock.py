"""A lock on the folder of a search, released whenever the process ends.

The operating system holds the lock, over NFS too. On a file system without locks, the file names its owner; a process
of this machine that no longer runs does not count as owner.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from costmodel.explore.search.atomic_files import check_regular, usable
from costmodel.ground.errors import CostModelError, Place, fail

NAME = "_lock"  # readers of Parquet folders pass over names that begin so
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}
_TRIES = 20  # how often another process may take the file away between opening and locking it

_held: set[Path] = set()  # by this process, whose threads are one to the system
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


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder for one search; a fault where another one holds it."""
    here = folder.resolve()
    with _guard:
        if here in _held:
            raise _taken(folder, _owner())
        _held.add(here)
    try:
        with usable(folder):
            handle = _acquired(folder)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # gone with its folder; Windows keeps what is open
                os.unlink(folder / NAME)
            os.close(handle)
    finally:
        _held.discard(here)


def _acquired(folder: Path) -> int:
    """The open file of the lock, with this process as its owner."""
    path, owner = folder / NAME, {}
    check_regular(path)
    for _ in range(_TRIES):
        handle, made = _opened(path)
        try:
            owner = _holder(handle)
            kept = _kept_by_system(handle)
            if kept is None and not made and _runs(owner):
                raise _taken(folder, owner, f"; if none does any more, delete {path}")
            if kept is False:
                raise _taken(folder, owner)
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
    raise _taken(folder, owner)


def _opened(path: Path) -> tuple[int, bool]:
    """Open the file; also whether it was created just now."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), True
    except FileExistsError:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666), False


def _kept_by_system(handle: int) -> bool | None:
    """Whether the system grants the lock; None where it does not support locks on this file."""
    try:
        _lock(handle)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True


def _owner() -> dict[str, Any]:
    """An identifier that distinguishes this process from any other."""
    return {"host": socket.gethostname(), "space": _space(), "process": os.getpid(), "started": _started(os.getpid())}


def _holder(handle: int) -> dict[str, Any]:
    """The owner named in a file; empty where there is none."""
    try:
        owner = json.loads(os.read(handle, 4096))
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _runs(owner: dict[str, Any]) -> bool:
    """Whether an owner may still run; one of another machine may."""
    process = owner.get("process")
    here = (owner.get("host"), owner.get("space")) == (socket.gethostname(), _space())
    if not here or not isinstance(process, int) or process <= 0 or sys.platform == "win32":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return bool(owner.get("started") == _started(process))


def _space() -> str:
    """The process namespace of this process; containers have their own."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _started(process: int) -> str:
    """When a process began, in ticks since the machine did; None where the system does not report it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _taken(folder: Path, owner: dict[str, Any], more: str = "") -> CostModelError:
    """The fault for a folder that another search holds."""
    by = f"process {owner.get('process')} on {owner.get('host')} does: " if owner else ""
    hint = f"{by}wait for it, or take another folder{more}"
    return fail("C021", f"another search works in {folder}", Place(str(folder)), hint)
