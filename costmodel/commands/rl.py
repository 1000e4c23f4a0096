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
    from costmodel.explore.search.ranges import Axis


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


def sweep(case: LoadedScenario, axes: Sequence[Axis], show: str, *, refused: Sequence[tuple[str, bool]]) -> Reply:
    """The answer of `sweep`."""
    from costmodel.explore.rl.vary_rl import sweep as run_sweep
    from costmodel.report.terminal.rl import rl_vary as report

    without("sweep", refused)
    found = run_sweep(reinforced(case), axes, show)
    works = any(trial.works for trial in found.trials)
    lines, result = lambda: report.sweep(found), lambda: report.sweep_json(found)
    return Reply(lines, result, "points", yes=works, others=pages.of_rl_sweep(found))


def scale(case: LoadedScenario, ranks: str, *, weak: bool, verbose: bool, refused: Sequence[tuple[str, bool]]) -> Reply:
    """The answer of `scale`."""
    from costmodel.explore.rl.vary_rl import by_ranks
    from costmodel.report.terminal.rl import rl_vary as report

    without("scale", refused)
    if not ranks:
        raise fail("C010", "--ranks is missing", None, "--ranks 64..512")
    held = reinforced(case)
    found = by_ranks(held, ranks, weak=weak)
    lines, result = (
        lambda: report.scale(held, found, weak=weak, verbose=verbose),
        lambda: report.scale_json(held, found, weak=weak),
    )
    works = any(row.trial.works for row in found)
    return Reply(lines, result, "sizes", yes=works, others=pages.of_rl_scale(held, found, weak=weak))


def explain(case: LoadedScenario, quantity: str, depth: int) -> Reply:
    """The answer of `explain` about a figure of the scenario's plan."""
    from costmodel.explore.rl.explain_rl import explain as explain_figure
    from costmodel.report.terminal.rl import rl_tree

    asked = predict(reinforced(case))
    if asked.refused:
        return Reply(lambda: estimate_report.estimate(asked), lambda: rl_json.estimate(asked), yes=False)
    node = explain_figure(asked, quantity)
    return Reply(lambda: rl_tree.tree(asked, node, depth), lambda: rl_tree.tree_json(asked, node))


def check(cases: Sequence[LoadedScenario], *, verbose: bool, refused: Sequence[tuple[str, bool]]) -> Reply:
    """The answer of `check`."""
    from costmodel.explore.rl.compare_rl import check as run_check
    from costmodel.report.terminal.rl import rl_check as report

    without("check", refused)
    found = run_check([reinforced(case) for case in cases])
    kept = all(checked.kept for checked in found)
    lines, result = lambda: report.check(found, verbose=verbose), lambda: report.check_json(found)
    return Reply(lines, result, "scenarios", yes=kept, others=pages.of_rl_check(found))
