"""Faults of the environment, which are no bugs: streams, shell variables, memory, open files, disks.

Nothing large is imported here, because such faults can come before large modules can be loaded.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import sys

from costmodel.ground.errors import CostModelError, fail

COMPLETING = "_COSTMODEL_COMPLETE"  # what a shell sets to ask for completions
_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
_ASKED_WITH = {"bash": "COMP_WORDS"}
_WIDTHS = ("COLUMNS", "LINES", "TERMINAL_WIDTH")
_WIDEST = 10_000
TO_START = 160 << 20  # bytes; NumPy and pydantic take 130 MB of address space (measured on Linux), the rest is spare

_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG}
_NO_MORE = {
    errno.EMFILE: ("too many files are open", "ulimit -n raises the limit"),
    errno.ENFILE: ("too many files are open on this machine", "close other programs"),
    errno.ENOMEM: ("there is not enough memory", "free some, or raise the limit: ulimit -v"),
    errno.EAGAIN: ("no further process can be started", "take fewer --workers, or raise the limit: ulimit -u"),
}


def open_streams() -> None:
    """Opens the null device for closed standard streams, so that no file takes their descriptors."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            with contextlib.suppress(OSError):
                os.open(os.devnull, os.O_RDWR)


def remove_leftover_variables() -> None:
    """Removes environment variables of shells, tests or terminals that would change how the program runs."""
    if not is_completing():
        os.environ.pop(COMPLETING, None)
    for name in _WIDTHS:
        value = os.environ.get(name, "1")
        if not (value.isascii() and value.isdigit() and len(value) < 9 and 0 < int(value) <= _WIDEST):
            del os.environ[name]
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each takes memory as it starts; the products here are small


def is_completing() -> bool:
    """Whether a shell asks for completions: there are no arguments, and the completion variables are set."""
    action, _, shell = os.environ.get(COMPLETING, "").partition("_")
    if len(sys.argv) > 1 or shell not in _SHELLS:
        return False
    words = _ASKED_WITH.get(shell, "_TYPER_COMPLETE_ARGS") in os.environ
    place = os.environ.get("COMP_CWORD", "" if shell == "bash" else "0")
    return action == "source" or (action == "complete" and words and place.isascii() and place.isdigit())


def check_memory() -> None:
    """Raises a fault if there is too little memory to start, since C libraries abort without a message."""
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if sys.platform != "win32" else {}
    try:
        mmap.mmap(-1, TO_START, **private).close()
    except (OSError, ValueError):
        hint = "free some, or raise the limit: ulimit -v"
        raise fail("C022", f"there is not enough memory to start, {TO_START >> 20} MiB", None, hint) from None


def environment_fault(error: BaseException) -> CostModelError | None:
    """The fault for an error of the environment, such as missing memory; None for an error of the program."""
    if isinstance(error, MemoryError):
        return fail("C022", "there is not enough memory", None, "take fewer --workers, or raise the limit: ulimit -v")
    if isinstance(error, OSError):
        return _fault_of_system(error)
    if isinstance(error, ImportError) and not (error.name or "").startswith("costmodel"):
        last = str(error).strip().rpartition("\n")[2]
        hint = "memory or open files may be short (ulimit -v, ulimit -n); else reinstall costmodel"
        return fail("C022", f"a package cannot be loaded: {last}", None, hint)
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        hint = "take fewer --workers, or raise the limit: ulimit -u"
        return fail("C022", "no further thread can be started", None, hint)
    if any(word.endswith("-completion") for word in sys.argv[1:2]):
        return fail("C022", f"completion cannot be installed: {error}", None, "costmodel --show-completion prints it")
    return None


def _fault_of_system(error: OSError) -> CostModelError:
    """The fault for an error of the operating system."""
    name = f"{os.fsdecode(error.filename)} " if isinstance(error.filename, str | bytes) else ""
    if error.errno in _FULL:
        what = name or "a file, or standard output, "
        return fail("C022", f"{what}cannot be written: {error.strerror}", None, "free space there, or write elsewhere")
    if error.errno in _NO_MORE:
        return fail("C022", _NO_MORE[error.errno][0], None, _NO_MORE[error.errno][1])
    stated = error.strerror or str(error) or type(error).__name__
    return fail("C022", f"{name}cannot be used: {stated}" if name else f"the system refuses: {stated}")
