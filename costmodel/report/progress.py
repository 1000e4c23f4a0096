"""How far a search is: count, rate, best so far, time left, on one line that goes away."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from costmodel.explore.search.stream import Sight
from costmodel.report.ranking import told


class Meter:
    """A line that follows a search, begun when it is first shown something."""

    def __init__(self, screen: Console, objective: str) -> None:
        self.objective = objective
        words = TextColumn("{task.description}")
        self.progress = Progress(BarColumn(12), words, TimeRemainingColumn(), console=screen, transient=True)
        self.task = self.progress.add_task("", total=None)
        self.first: tuple[float, int] | None = None

    def show(self, sight: Sight) -> None:
        """Where it is now."""
        now = self.progress.get_time()
        if self.first is None:
            self.first = now, sight.evaluated
            self.progress.start()
        self.progress.update(
            self.task, total=sight.total, completed=sight.candidates, description=self.words(sight, now), refresh=True
        )

    def words(self, sight: Sight, now: float) -> str:
        """Count, rate and best so far."""
        share = f"{sight.evaluated:,} legal of {sight.candidates:,} plans"
        began, before = self.first or (now, 0)
        if now > began:
            share += f" · {(sight.evaluated - before) / (now - began):,.0f}/s"
        if sight.best is None:
            return share
        return f"{share} · best {told(self.objective, sight.best.costs[self.objective])}"

    def close(self) -> None:
        """Take the line away."""
        self.progress.stop()
