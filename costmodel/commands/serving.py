"""What the commands answer for a scenario that serves; imported for such a scenario alone."""

from __future__ import annotations

from costmodel.documents.case import LoadedScenario
from costmodel.documents.serving.case import serving
from costmodel.estimate.serving.plan import ServingAnswer, predict
from costmodel.report.reply import Reply
from costmodel.report.serving import communication as communication_report
from costmodel.report.serving import estimate as estimate_report
from costmodel.report.serving import machine
from costmodel.report.serving import memory as memory_report


def _works(answer: ServingAnswer) -> bool:
    """Whether a plan is valid, fits, stands its load and keeps its limits."""
    return not (answer.refused or answer.broken)


def estimate(case: LoadedScenario, *, verbose: bool) -> Reply:
    """The answer of `estimate`."""
    asked, said = predict(serving(case)), estimate_report.estimate
    return Reply(lambda: said(asked, verbose=verbose), lambda: machine.estimate(asked), "plans", yes=_works(asked))


def memory(case: LoadedScenario, *, verbose: bool) -> Reply:
    """The answer of `memory`."""
    asked, said = predict(serving(case)), memory_report.memory
    return Reply(lambda: said(asked, verbose=verbose), lambda: machine.memory(asked), "ledger", yes=_works(asked))


def comm(case: LoadedScenario) -> Reply:
    """The answer of `comm`."""
    asked, said = predict(serving(case)), communication_report.communication
    return Reply(lambda: said(asked), lambda: machine.communication(asked), "transfers", yes=_works(asked))


def explain(case: LoadedScenario, quantity: str, depth: int) -> Reply:
    """The answer of `explain` about a figure of the scenario's plan."""
    from costmodel.explore.serving.explain import explain as explain_figure
    from costmodel.report.serving import tree

    asked = predict(serving(case))
    if asked.refused:
        return Reply(lambda: estimate_report.estimate(asked), lambda: machine.estimate(asked), yes=False)
    node = explain_figure(asked.inputs, quantity)
    return Reply(lambda: tree.tree(asked, node, depth), lambda: tree.tree_json(asked, node))


def search(case: LoadedScenario, top: int, *, why_not: bool) -> Reply:
    """The answer of `search`."""
    from costmodel.estimate.serving.inputs import inputs_of
    from costmodel.explore.serving.search import search as search_space
    from costmodel.report.serving import search as report

    found = search_space(inputs_of(serving(case)), top)
    rows = "refused" if why_not else "plans"
    lines, result = lambda: report.search(found, why_not=why_not), lambda: report.search_json(found)
    return Reply(lines, result, rows, yes=found.kept > 0)
