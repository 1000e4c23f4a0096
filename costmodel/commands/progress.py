"""Progress of a long command on a terminal; the first Ctrl-C asks it to stop with the results so far.

Every command that takes longer than half a second shows at least what it does and for how long (`working`).
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

    from costmodel.explore.search.rank import Watcher
    from costmodel.report.terminal.progress import ProgressMark

AFTER = 0.5  # seconds before anything is shown


class WaitingLine:
    """A line with the current work and its time: drawn after half a second, hidden during other progress."""

    def __init__(self, words: str) -> None:
        self.words, self.began, self.lock = words, time.monotonic(), threading.Lock()
        self.timer: threading.Timer | None = None
        self.drawn: Progress | None = None

    def start(self) -> None:
        """Draw the line once the work has taken long enough."""
        self.timer = threading.Timer(max(0.0, AFTER - (time.monotonic() - self.began)), self._draw)
        self.timer.daemon = True
        self.timer.start()

    def _draw(self) -> None:
        """Draws the line, unless it was stopped."""
        from costmodel.report.terminal.layout import live_console
        from costmodel.report.terminal.progress import show_current_work

        with self.lock:
            if self.timer is not None:
                self.drawn = show_current_work(live_console(), self.words, self.began)

    def rename(self, words: str) -> None:
        """Show other words from now on."""
        with self.lock:
            self.words = words
            if self.drawn is not None:
                self.drawn.update(self.drawn.task_ids[0], description=words)

    def stop(self) -> None:
        """Removes the line from the terminal."""
        with self.lock:
            if self.timer is not None:
                self.timer.cancel()
            if self.drawn is not None:
                self.drawn.stop()
            self.timer = self.drawn = None


_waiting: list[WaitingLine] = []  # of the command that runs
_quiet: list[bool] = []  # for every answer of the library that is under way


@contextmanager
def quiet() -> Iterator[None]:
    """Show no progress and leave Ctrl-C as it is, for use in a program, a notebook or a server thread."""
    _quiet.append(True)
    try:
        yield
    finally:
        _quiet.pop()


def is_quiet() -> bool:
    """Whether progress is off because a program called the library."""
    return bool(_quiet)


@contextmanager
def working(words: str) -> Iterator[None]:
    """Show that a command works: on standard error, if that is a terminal and it takes over half a second."""
    if not sys.stderr.isatty():
        yield
        return
    line = WaitingLine(words)
    _waiting.append(line)
    line.start()
    try:
        yield
    finally:
        _waiting.remove(line)
        line.stop()


def working_on(words: str) -> None:
    """Name the part of the work that the line of `working` is about from now on."""
    for line in _waiting:
        line.rename(words)


@contextmanager
def _other_progress() -> Iterator[None]:
    """A context in which the line of `working` is hidden, because another progress display is active."""
    for line in _waiting:
        line.stop()
    try:
        yield
    finally:
        for line in _waiting:
            line.start()


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed; the second Ctrl-C ends the program."""
    asked = threading.Event()
    if _quiet:
        yield asked.is_set
        return
    before: Any = signal.getsignal(signal.SIGINT)

    def ask(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        asked.set()

    signal.signal(signal.SIGINT, ask)
    try:
        with _other_progress():
            yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def metered() -> Iterator[Callable[[ProgressMark], None]]:
    """Show how far the work is: on standard error, if that is a terminal and it takes over half a second."""
    if _quiet or not sys.stderr.isatty():
        yield lambda mark: None
        return
    from costmodel.report.terminal.layout import live_console
    from costmodel.report.terminal.progress import ProgressLine

    began, meter = time.monotonic(), ProgressLine(live_console())

    def watch(mark: ProgressMark) -> None:
        if time.monotonic() - began >= AFTER:
            meter.show(mark)

    try:
        with _other_progress():
            yield watch
    finally:
        meter.close()


@contextmanager
def counted(what: str) -> Iterator[Watcher]:
    """Show progress over several answers; Ctrl-C ends the program, since all answers are needed."""
    from costmodel.explore.search.rank import Watcher
    from costmodel.report.terminal.progress import ProgressMark

    with metered() as show:
        yield Watcher(lambda done, total: show(ProgressMark(done, total, done, f"{done:,} of {total:,} {what}")))


@contextmanager
def paced(what: str) -> Iterator[Watcher]:
    """Show progress over several answers, which Ctrl-C stops early."""
    with stoppable() as stop, counted(what) as watcher:
        yield replace(watcher, stop=stop)
