"""The traces of the best plans of a search: the results that the table of plans shows."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from costmodel.estimate.evaluate.evaluate_plans import missing_input
from costmodel.explore.compare.select_plan import plan_of
from costmodel.explore.explain.explain import ExplainedFigure, nodes_of, traced_evaluation
from costmodel.explore.search.search import TrainingSearch
from costmodel.ground.record import record

TRACED = ("step_time", "step_time_high", "tokens_per_s_per_gpu", "mfu", "memory_peak")
OF_BEST = "cost_per_mtoken"  # beside those, of the first plan
MOST = 10  # plans
_NODES = 14_000  # of all of them before what plans share is held once; one of many kinds of layers has thousands


def key_of(place: int, name: str) -> str:
    """The name under which a result is traced, for the plan at a place of the ranking."""
    return f"plans.{place}.{name}"


@record
class RankedFacts:
    """A search, with the traced figures of its first plans."""

    found: TrainingSearch

    @functools.cached_property
    def nodes(self) -> dict[str, ExplainedFigure]:
        """The trees of the first plans of the ranking, as many as a page has room for."""
        nodes: dict[str, ExplainedFigure] = {}
        room = _NODES
        for place, row in enumerate(self.found.best[:MOST]):
            inputs = self.found.inputs_of(row.variant)
            wanted = [*TRACED] if place or missing_input(inputs, OF_BEST) else [*TRACED, OF_BEST]
            traced = nodes_of(inputs, traced_evaluation(inputs, plan_of(row)), wanted)
            room -= _count(traced.values())
            if room < 0:
                break
            nodes |= {key_of(place, name): node for name, node in traced.items()}
        return nodes


def _count(roots: Iterable[ExplainedFigure]) -> int:
    """The number of distinct nodes in trees."""
    waiting, seen = list(roots), set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            waiting += node.beneath
    return len(seen)
