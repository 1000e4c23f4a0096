"""Runs the program and sets its exit code: interrupts, closed pipes, and reports of errors."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import traceback
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from rich.text import Text

from costmodel.commands.environment_errors import environment_fault, is_completing
from costmodel.commands.output import discard, print_lines
from costmodel.ground.errors import CostModelError, Declined
from costmodel.report.terminal.layout import BAD, terminal_width, visible_text

ISSUES = "https://github.com/costmodel/costmodel/issues"


class Exit(IntEnum):
    """The exit codes."""

    YES = 0
    NO = 1
    CANNOT = 2
    BUG = 3
    INTERRUPTED = 130


def print_faults(error: CostModelError) -> None:
    """Print every fault on standard error."""
    from costmodel.report.terminal.faults import fault_report

    print_lines(fault_report(error.faults, terminal_width(stderr=True)), stderr=True)


def exit_on_interrupt(own: int, _signal: int, _frame: FrameType | None) -> NoReturn:
    """Signal handler of Ctrl-C: exits with 130, without a traceback and without waiting for workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.getpid() != own:  # a worker, which inherited this
        os._exit(Exit.INTERRUPTED)
    _exit_and_kill_workers(Exit.INTERRUPTED)


def _exit_and_kill_workers(code: int) -> NoReturn:
    """Exits now and kills child processes that still work."""
    workers = _child_processes(os.getpid())
    for worker in workers:
        with contextlib.suppress(OSError):
            os.kill(worker, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
    if workers:
        os._exit(code)
    raise SystemExit(code) from None


def _exit_if_interrupted() -> None:
    """Exits with 130 if Ctrl-C was pressed before the error, which then is no bug."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        raise SystemExit(Exit.INTERRUPTED)


def _child_processes(own: int) -> set[int]:
    """The ids of child processes, from the system if it lists them, and from process pools."""
    processes: set[int] = set()
    with contextlib.suppress(OSError):
        processes.update(map(int, Path(f"/proc/{own}/task/{own}/children").read_text().split()))
    pool = sys.modules.get("multiprocessing")
    return processes.union(child.pid for child in pool.active_children() if child.pid) if pool else processes


def _repair_output_streams() -> None:
    """Replaces closed output streams by the null device; others replace characters that they cannot encode."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _pending_exit_code(error: BaseException | None) -> int:
    """The exit code that was pending when a pipe was closed; 0 if there was none."""
    while error is not None:
        code = getattr(error, "exit_code", None)
        if isinstance(code, int):
            return code
        error = error.__context__
    return Exit.YES


def run_program(run: Callable[[], None]) -> NoReturn:
    """Run the program: invalid input exits with 2, an internal error with 3, a closed pipe silently."""
    signal.signal(signal.SIGINT, functools.partial(exit_on_interrupt, os.getpid()))
    _repair_output_streams()
    try:
        run()
    except BrokenPipeError as error:
        discard(sys.stdout)
        raise SystemExit(_pending_exit_code(error)) from None
    except SystemExit as left:  # Typer and Rich turn a closed pipe into one
        raise SystemExit(
            _pending_exit_code(left) if isinstance(left.__context__, BrokenPipeError) else _exit_code_of(left)
        ) from None
    except Exception as error:
        _exit_if_interrupted()
        if is_completing():  # a shell shows no error messages during completion
            raise SystemExit(Exit.CANNOT) from None
        _exit_with_error(error)
    raise SystemExit(Exit.YES)


def _exit_code_of(left: SystemExit) -> Any:
    """The exit code of a command; failed shell completion exits with CANNOT instead of Typer's 1."""
    completion = is_completing() or any(word.endswith("-completion") for word in sys.argv[1:])
    return Exit.CANNOT if completion and left.code == Exit.NO else left.code


def _exit_with_error(error: Exception) -> NoReturn:
    """Prints an error and exits: with 1 for a no, 2 for a fault of input or system, 3 for a bug of costmodel."""
    fault = error if isinstance(error, CostModelError) else environment_fault(error)
    if os.environ.get("COSTMODEL_DEBUG") == "1" and fault is not error:
        traceback.print_exc()
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        discard(sys.stdout)
    if fault is not None:
        print_faults(fault)
        _exit_and_kill_workers(Exit.NO if isinstance(fault, Declined) else Exit.CANNOT)
    bug = Text(f"error[bug]: {type(error).__name__}: {visible_text(str(error))}", style=BAD)
    ours = Text(f"This is an internal error. COSTMODEL_DEBUG=1 prints the traceback; please report it: {ISSUES}")
    print_lines([bug, ours], stderr=True)
    _exit_and_kill_workers(Exit.BUG)
