"""The traces of the best plans of a search: their step time and their memory."""

from __future__ import annotations

from costmodel.explore.compare.select_plan import plan_of
from costmodel.explore.explain.explain import ExplainedFigure, nodes_of, traced_evaluation
from costmodel.explore.search.search import SearchResult

TRACED = ("step_time", "memory_peak")
MOST = 10  # plans; each takes some kB of a page


def key_of(place: int, name: str) -> str:
    """What the trace of a result is called, of the ranked plan at a place."""
    return f"plans.{place}.{name}"


def ranked_nodes(found: SearchResult) -> dict[str, ExplainedFigure]:
    """The trees of the first plans of a ranking."""
    nodes: dict[str, ExplainedFigure] = {}
    for place, row in enumerate(found.best[:MOST]):
        inputs = found.inputs_of(row.variant)
        traced = nodes_of(inputs, traced_evaluation(inputs, plan_of(row)), TRACED)
        nodes |= {key_of(place, name): node for name, node in traced.items()}
    return nodes
