"""What the library offers on a case, beside its prediction: search its space, explain a figure."""

from __future__ import annotations

from costmodel.documents.reader.resolved_scenario import Case
from costmodel.estimate.evaluate.predict import own_plan
from costmodel.estimate.training.training_inputs import setting_of
from costmodel.explore.explain.explain import Node
from costmodel.explore.explain.explain import explain as explain_figure
from costmodel.explore.search.search import Found
from costmodel.explore.search.search import search as search_space

__all__ = ["explain", "search"]


def search(case: Case, size: int = 10, *, workers: int | None = None, pareto: str = "") -> Found:
    """The best plans of the scenario's space; with `pareto="x,y"` also the front of two results."""
    return search_space(case, size, workers=workers, pareto=pareto)


def explain(case: Case, quantity: str) -> Node:
    """The traced tree of one figure of the scenario's own plan."""
    setting = setting_of(case)
    return explain_figure(setting, own_plan(setting), quantity)
