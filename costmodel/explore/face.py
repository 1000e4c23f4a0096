"""What the library offers on a case: predict its plan, search its space, explain a figure."""

from __future__ import annotations

from costmodel.documents.library import Case
from costmodel.estimate.plan import Answer, answer, own_plan
from costmodel.estimate.setting import setting_of
from costmodel.explore.explain import Node
from costmodel.explore.explain import explain as explain_figure
from costmodel.explore.search import Found
from costmodel.explore.search import search as search_space

__all__ = ["explain", "predict", "search"]


def predict(case: Case) -> Answer:
    """Time, memory, communication and cost of the scenario's own plan."""
    setting = setting_of(case)
    return answer(setting, own_plan(setting))


def search(case: Case, size: int = 10, *, workers: int | None = None, pareto: str = "") -> Found:
    """The best plans of the scenario's space; with `pareto="x,y"` also the front of two results."""
    return search_space(case, size, workers=workers, pareto=pareto)


def explain(case: Case, quantity: str) -> Node:
    """The traced tree of one figure of the scenario's own plan."""
    setting = setting_of(case)
    return explain_figure(setting, own_plan(setting), quantity)
