"""The traces of the best plans of a search: their step time and their memory."""

from __future__ import annotations

import functools

from costmodel.explore.compare.select_plan import plan_of
from costmodel.explore.explain.explain import ExplainedFigure, nodes_of, traced_evaluation
from costmodel.explore.search.search import SearchResult
from costmodel.ground.record import record

TRACED = ("step_time", "memory_peak")
MOST = 10  # plans; each takes some kB of a page


def key_of(place: int, name: str) -> str:
    """What the trace of a result is called, of the ranked plan at a place."""
    return f"plans.{place}.{name}"


@record
class RankedFacts:
    """A search, and how the figures of its first plans were made."""

    found: SearchResult

    @functools.cached_property
    def nodes(self) -> dict[str, ExplainedFigure]:
        """The trees of the first plans of the ranking."""
        nodes: dict[str, ExplainedFigure] = {}
        for place, row in enumerate(self.found.best[:MOST]):
            inputs = self.found.inputs_of(row.variant)
            traced = nodes_of(inputs, traced_evaluation(inputs, plan_of(row)), TRACED)
            nodes |= {key_of(place, name): node for name, node in traced.items()}
        return nodes
