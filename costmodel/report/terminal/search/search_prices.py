"""The prices behind the costs that a search shows."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from costmodel.documents.schemas.results import is_money
from costmodel.estimate.machine.price import price_of
from costmodel.explore.search.rank import Ranked
from costmodel.explore.search.search import SearchResult
from costmodel.report.terminal.style.head import price_varies, prices


def shows_cost(found: SearchResult) -> bool:
    """Whether plans are ranked by what they cost, or weighed by it."""
    front = found.tally.front
    weighed = () if front is None else (front.axes.x, front.axes.y)
    return any(map(is_money, (found.inputs.case.scenario.objective, *weighed)))


def prices_of(found: SearchResult, plans: Iterable[Ranked]) -> list[Text]:
    """The prices of plans whose scenarios have their own, each once, where costs are shown."""
    if not shows_cost(found) or not price_varies([axis.path for axis in found.variants.over]):
        return []
    return prices(price_of(found.case_of(variant)) for variant in dict.fromkeys(plan.variant for plan in plans))
