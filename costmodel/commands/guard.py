"""Around the program: exit codes, interrupts, closed streams, and who is told of what went wrong."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import signal
import sys
import traceback
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rich.text import Text

from costmodel.commands.output import discard, printed
from costmodel.errors import CostModelError, fail
from costmodel.report.faults import faults
from costmodel.report.theme import BAD, terminal_width, visible

ISSUES = "https://github.com/costmodel/costmodel/issues"


class Exit(IntEnum):
    """What the exit code says."""

    YES = 0
    NO = 1
    CANNOT = 2
    BUG = 3
    INTERRUPTED = 130


def print_faults(error: CostModelError) -> None:
    """Every fault on standard error."""
    printed(faults(error.faults, terminal_width(stderr=True)), stderr=True)


def interrupt(own: int, _signal: int, _frame: FrameType | None) -> NoReturn:
    """Ctrl-C ends with 130, without a traceback and without waiting for workers that may never answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.getpid() != own:  # a worker, which inherited this
        os._exit(Exit.INTERRUPTED)
    workers = _workers(own)
    for worker in workers:
        with contextlib.suppress(OSError):
            os.kill(worker, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
    if workers:
        os._exit(Exit.INTERRUPTED)
    raise SystemExit(Exit.INTERRUPTED)


def _unless_interrupted() -> None:
    """What an interrupt breaks on its way is no fault of anybody's."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        raise SystemExit(Exit.INTERRUPTED)


def _workers(own: int) -> set[int]:
    """Processes this one started: as the system knows them where it tells, and as the pool does."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        found.update(map(int, Path(f"/proc/{own}/task/{own}/children").read_text().split()))
    pool = sys.modules.get("multiprocessing")
    return found.union(child.pid for child in pool.active_children() if child.pid) if pool else found


def _streams() -> None:
    """A closed stream swallows what is written to it; a narrow encoding replaces what it cannot write."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _meant(error: BaseException | None) -> int:
    """The exit code that was on its way when a pipe was closed: that of what was being told, else yes."""
    while error is not None:
        code = getattr(error, "exit_code", None)
        if isinstance(code, int):
            return code
        error = error.__context__
    return Exit.YES


def guarded(run: Callable[[], None]) -> NoReturn:
    """Run the program; input that cannot be used exits 2, a crash of ours 3, a closed pipe quietly."""
    signal.signal(signal.SIGINT, functools.partial(interrupt, os.getpid()))
    _streams()
    try:
        run()
    except CostModelError as error:
        _unless_interrupted()
        print_faults(error)
        raise SystemExit(Exit.CANNOT) from None
    except BrokenPipeError as error:
        discard(sys.stdout)
        raise SystemExit(_meant(error)) from None
    except SystemExit as left:  # Typer and Rich turn a closed pipe into one
        raise SystemExit(_meant(left) if isinstance(left.__context__, BrokenPipeError) else left.code) from None
    except Exception as error:
        _unless_interrupted()
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
            discard(sys.stdout)
            print_faults(fail("C002", f"standard output cannot be written: {error.strerror}"))
            raise SystemExit(Exit.CANNOT) from None
        if os.environ.get("COSTMODEL_DEBUG") == "1":
            traceback.print_exc()
        told = Text(f"error[bug]: {type(error).__name__}: {visible(str(error))}", style=BAD)
        ours = Text(f"This is our fault, not yours. COSTMODEL_DEBUG=1 shows where; please report it: {ISSUES}")
        printed([told, ours], stderr=True)
        raise SystemExit(Exit.BUG) from None
    raise SystemExit(Exit.YES)
