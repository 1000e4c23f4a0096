"""Where the user's own plan stands in a search, and what the best gains over it."""

from __future__ import annotations

from costmodel.explore.compare.compare import advantage
from costmodel.explore.compare.plan_figures import plan_in_words
from costmodel.explore.search.search import SearchResult
from costmodel.report.answers.compare import difference, figure_row
from costmodel.report.terminal.style.formatting import TIME_TERMS
from costmodel.report.terminal.style.layout import CellTable, Line

_TELLING = 0.005


def beaten(found: SearchResult) -> bool:
    """Whether the user's own plan, outside what was searched, is better than all in it."""
    own = found.yours
    return found.your_rank == 1 and own is not None and own.evaluation.costs.row() != found.best[0].costs


def gain(found: SearchResult, step_time: float) -> Line:
    """Where the best plan saves time over the user's own, and what it pays: terms that moved by half a percent."""
    named = {plan_in_words(move.name): move for move in advantage(found)}
    terms = [(named[key], f"  {title}") for title, key in TIME_TERMS if key in named]
    telling = [(move, title) for move, title in terms if abs(difference(move)) > _TELLING * step_time]
    telling.sort(key=lambda item: difference(item[0]))
    shown = [(named["step_time"], "step time"), *telling]
    shown += [(named["memory_peak"], "memory")] if "memory_peak" in named else []
    rows = [figure_row(move, title, share=not title.startswith(" "))[:4] for move, title in shown]
    return CellTable(("", "yours", "best", "change"), rows, "lrrr", indent="    ")


def ordinal(number: int) -> str:
    """A rank as people write it.

    >>> ordinal(1), ordinal(12), ordinal(1023)
    ('1st', '12th', '1,023rd')
    """
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{suffix}"
