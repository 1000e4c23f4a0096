"""One line on standard error that shows how far long work is: count, rate, best result and time left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from costmodel.ground.record import record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console
    from rich.progress import Progress

    from costmodel.explore.search.stream import SearchProgress


@record
class ProgressMark:
    """A progress mark: amount done, the quantity of its rate, and words before and after the rate."""

    done: int
    total: int
    counted: int
    words: str
    best: str = ""


def search_progress(sight: SearchProgress, objective: str, result: Callable[[str, float], str]) -> ProgressMark:
    """The progress of a search; result: formats a figure."""
    words = f"{sight.evaluated:,} valid of {sight.candidates:,} plans"
    best = f"best {result(objective, sight.best.costs[objective])}" if sight.best else ""
    return ProgressMark(sight.done, sight.total, sight.evaluated, words, best)


BAR, TIME_LEFT = 12, len(" 0:00:00")


class ProgressLine:
    """A line that shows the progress of work; never wider than the terminal."""

    def __init__(self, screen: Console) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column

        words = TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis"))
        columns = (BarColumn(BAR), words, TimeRemainingColumn())
        self.progress = Progress(*columns, console=screen, transient=True)
        self.screen = screen
        self.task = self.progress.add_task("", total=None)
        self.first: tuple[float, int] | None = None

    def show(self, mark: ProgressMark) -> None:
        """Show the progress."""
        now = self.progress.get_time()
        if self.first is None:
            self.first = now, mark.counted
            self.progress.start()
        words = parts_that_fit((mark.words, mark.best, self.rate(mark, now)), self.screen.width - BAR - TIME_LEFT - 2)
        self.progress.update(self.task, total=mark.total, completed=mark.done, description=words, refresh=True)

    def rate(self, mark: ProgressMark, now: float) -> str:
        """Items per second since the line was first shown."""
        began, before = self.first or (now, 0)
        return f"{(mark.counted - before) / (now - began):,.0f}/s" if now > began else ""

    def close(self) -> None:
        """Removes the line from the terminal."""
        self.progress.stop()


def show_current_work(screen: Console, words: str, began: float) -> Progress:
    """Shows a line with the current work and its time so far, until the work ends."""
    from rich.progress import Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    text = TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis"))
    progress = Progress(
        text, TimeElapsedColumn(), console=screen, transient=True, redirect_stdout=False, refresh_per_second=4
    )
    progress.add_task(words, total=None)
    progress.tasks[0].start_time = began
    progress.start()
    return progress


def parts_that_fit(parts: Sequence[str], room: int) -> str:
    """The first parts of a line that fit into its width; at least one.

    >>> parts_that_fit(["1 of 4", "best 812", "3/s"], 20), parts_that_fit(["1 of 4", "best 812", "3/s"], 10)
    ('1 of 4 · best 812', '1 of 4')
    """
    words, *others = filter(None, parts)
    for part in others:
        words = f"{words} · {part}" if cell_len(words) + cell_len(part) + len(" · ") <= room else words
    return words
