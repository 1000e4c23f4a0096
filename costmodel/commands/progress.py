"""Shows the progress of a long command; the first Ctrl-C stops it with the results so far.

Every command that takes over half a second shows at least what it does and for how long (`show_work`).
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
    """A terminal line with the current work and its time: drawn after half a second, hidden under progress bars."""

    def __init__(self, words: str) -> None:
        self.words, self.began, self.lock = words, time.monotonic(), threading.Lock()
        self.timer: threading.Timer | None = None
        self.drawn: Progress | None = None

    def start(self) -> None:
        """Draws the line once the work has taken long enough."""
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
        """Changes the text of the line."""
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
def without_progress() -> Iterator[None]:
    """Shows no progress and leaves Ctrl-C alone, for use in a program, a notebook or a server thread."""
    _quiet.append(True)
    try:
        yield
    finally:
        _quiet.pop()


def is_quiet() -> bool:
    """Whether progress is off because a program called the library."""
    return bool(_quiet)


@contextmanager
def show_work(words: str) -> Iterator[None]:
    """Shows a line with the current work, if standard error is a terminal and the work takes over half a second."""
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


def rename_work(words: str) -> None:
    """Changes the text of the line of `show_work`."""
    for line in _waiting:
        line.rename(words)


@contextmanager
def _other_progress() -> Iterator[None]:
    """Hides the line of `show_work` while another progress display is active."""
    for line in _waiting:
        line.stop()
    try:
        yield
    finally:
        for line in _waiting:
            line.start()


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Yields a function that returns whether Ctrl-C was pressed; a second Ctrl-C ends the program."""
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
def show_progress() -> Iterator[Callable[[ProgressMark], None]]:
    """Shows a progress bar, if standard error is a terminal and the work takes over half a second."""
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
def watch_without_stop(what: str) -> Iterator[Watcher]:
    """Shows progress over several answers; Ctrl-C ends the program, since all answers are needed."""
    from costmodel.explore.search.rank import Watcher
    from costmodel.report.terminal.progress import ProgressMark

    with show_progress() as show:
        yield Watcher(lambda done, total: show(ProgressMark(done, total, done, f"{done:,} of {total:,} {what}")))


@contextmanager
def watch_until_interrupt(what: str) -> Iterator[Watcher]:
    """Shows progress over several answers; Ctrl-C stops with the answers so far."""
    with stop_on_interrupt() as stop, watch_without_stop(what) as watcher:
        yield replace(watcher, stop=stop)
