"""What the library offers on a case, beside its prediction: search its space, explain a figure."""

from __future__ import annotations

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.estimate.evaluate.predict import own_plan
from costmodel.estimate.training.training_inputs import training_inputs
from costmodel.explore.explain.explain import ExplainedFigure
from costmodel.explore.explain.explain import explain as explain_figure
from costmodel.explore.search.search import SearchResult
from costmodel.explore.search.search import search as search_space

__all__ = ["explain", "search"]


def search(case: ResolvedScenario, size: int = 10, *, workers: int | None = None, pareto: str = "") -> SearchResult:
    """The best plans of the scenario's space; with `pareto="x,y"` also the front of two results."""
    return search_space(case, size, workers=workers, pareto=pareto)


def explain(case: ResolvedScenario, quantity: str) -> ExplainedFigure:
    """The traced tree of one figure of the scenario's own plan."""
    inputs = training_inputs(case)
    return explain_figure(inputs, own_plan(inputs), quantity)
