"""Progress of a long command on a terminal; the first Ctrl-C asks it to stop with the results so far."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from costmodel.explore.search.progress import Watcher
from costmodel.report.terminal.style.progress import Meter, ProgressMark
from costmodel.report.terminal.style.theme import live_console

AFTER = 0.5  # seconds before anything is shown


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed; pressed again, it ends the program at once."""
    asked = threading.Event()
    before: Any = signal.getsignal(signal.SIGINT)

    def ask(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        asked.set()

    signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def metered() -> Iterator[Callable[[ProgressMark], None]]:
    """Shows how far the work is, on standard error, if that is a terminal and it takes longer than half a second."""
    if not sys.stderr.isatty():
        yield lambda mark: None
        return
    began, meter = time.monotonic(), Meter(live_console())

    def watch(mark: ProgressMark) -> None:
        if time.monotonic() - began >= AFTER:
            meter.show(mark)

    try:
        yield watch
    finally:
        meter.close()


@contextmanager
def paced(what: str) -> Iterator[Watcher]:
    """A row of answers watched and ready to be stopped."""
    with stoppable() as stop, metered() as show:
        yield Watcher(lambda done, total: show(ProgressMark(done, total, done, f"{done:,} of {total:,} {what}")), stop)
