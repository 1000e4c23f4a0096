"""Answers of the commands for reinforcement learning; imported only for such scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from costmodel.commands import pages
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.rl_scenario import reinforced
from costmodel.estimate.rl.predict_rl import predict
from costmodel.ground.errors import fail
from costmodel.report.machine import rl_json
from costmodel.report.terminal.rl import rl_communication as communication_report
from costmodel.report.terminal.rl import rl_estimate as estimate_report
from costmodel.report.terminal.rl import rl_memory_lines as memory_report
from costmodel.report.terminal.style.answer import Reply

if TYPE_CHECKING:
    pass


def estimate(case: LoadedScenario, *, verbose: bool) -> Reply:
    """The answer of `estimate`."""
    asked, stated = predict(reinforced(case)), estimate_report.estimate
    return Reply(lambda: stated(asked, verbose=verbose), lambda: rl_json.estimate(asked), "plans", yes=asked.works,
                 others=pages.of_rl_plan(asked))  # fmt: skip


def memory(case: LoadedScenario, *, verbose: bool) -> Reply:
    """The answer of `memory`."""
    asked, stated = predict(reinforced(case)), memory_report.memory
    return Reply(lambda: stated(asked, verbose=verbose), lambda: rl_json.memory(asked), "ledger", yes=asked.works,
                 others=pages.of_rl_plan(asked, "memory"))  # fmt: skip


def comm(case: LoadedScenario) -> Reply:
    """The answer of `comm`."""
    asked, stated = predict(reinforced(case)), communication_report.communication
    return Reply(lambda: stated(asked), lambda: rl_json.communication(asked), "transfers", yes=asked.works,
                 others={"html": pages.of_rl_plan(asked)["html"]})  # fmt: skip


def run(case: LoadedScenario, *, verbose: bool) -> Reply:
    """The answer of `run`."""
    from costmodel.documents.reader.override_case import vary_any
    from costmodel.report.terminal.rl import rl_run as report

    held = reinforced(case)
    asked = predict(held if held.scenario.run is not None else reinforced(vary_any(held, ["run={}"])))
    return Reply(lambda: report.run(asked, verbose=verbose), lambda: report.run_json(asked), "plans", yes=asked.works,
                 others=pages.of_rl_plan(asked))  # fmt: skip


def without(command: str, given: Sequence[tuple[str, bool]]) -> None:
    """A fault for options that a command takes of other workloads: one without effect is refused."""
    names = [name for name, value in given if value]
    if names:
        sentence = f"{command} of reinforcement learning has no {', '.join(names)}"
        raise fail("C030", sentence, None, "leave it out")


def search(case: LoadedScenario, top: int, *, why_not: bool, refused: Sequence[tuple[str, bool]]) -> Reply:
    """The answer of `search`."""
    from costmodel.explore.rl.search_splits import search as search_space
    from costmodel.report.terminal.rl import rl_search as report

    without("search", refused)
    found = search_space(reinforced(case), top)
    rows, forms = "refused" if why_not else "plans", pages.of_rl_search(found)
    lines, result = lambda: report.search(found, why_not=why_not), lambda: report.search_json(found)
    return Reply(lines, result, rows, yes=found.works, others=forms)


def explain(case: LoadedScenario, quantity: str, depth: int) -> Reply:
    """The answer of `explain` about a figure of the scenario's plan."""
    from costmodel.explore.rl.explain_rl import explain as explain_figure
    from costmodel.report.terminal.rl import rl_tree

    asked = predict(reinforced(case))
    if asked.refused:
        return Reply(lambda: estimate_report.estimate(asked), lambda: rl_json.estimate(asked), yes=False)
    node = explain_figure(asked, quantity)
    return Reply(lambda: rl_tree.tree(asked, node, depth), lambda: rl_tree.tree_json(asked, node))
