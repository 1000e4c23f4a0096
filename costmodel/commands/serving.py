"""Answers of the commands for serving; imported only for such scenarios."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from costmodel.commands import pages
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.estimate.serving.predict_serving import ServingAnswer, broken_of, predict
from costmodel.estimate.serving.waiting_requests import waiting_requests
from costmodel.ground.errors import fail
from costmodel.report.machine import serving_json
from costmodel.report.terminal.serving import serving_estimate as estimate_report
from costmodel.report.terminal.style.answer import Reply

if TYPE_CHECKING:
    from costmodel.explore.search.ranges import Axis
    from costmodel.explore.serving.found_plans import FoundPlans
    from costmodel.explore.serving.pareto import ServingFront


def _works(answer: ServingAnswer) -> bool:
    """Whether a plan is valid, fits, stands its load and keeps its limits."""
    return not (answer.refused or answer.broken)


_OF_MEMORY = frozenset({
    "memory_peak", "memory_share", "cache_pool", "cache_pool_tokens", "kv_bytes_per_token", "concurrency_worst",
    "concurrency_steady", "concurrency",
})  # fmt: skip
_SENT = frozenset({"tp_exposed", "dcp_exposed", "ep_exposed", "pp_exposed", "transfer_time", "transfer_exposed"})


def predicted(case: ServingCase, shown: Collection[str] | None = None) -> ServingAnswer:
    """The scenario's own plan evaluated, with remedies where it needs any.

    shown: the results that the command shows, where limits on others are not its concern
    """
    answer = predict(case)
    answer = answer if shown is None else replace(answer, broken=broken_of(answer, shown))
    if _works(answer):
        return answer
    from costmodel.explore.serving.serving_remedies import with_remedies

    return with_remedies(answer)


def estimate(case: LoadedScenario, *, verbose: bool) -> Reply:
    """The answer of `estimate`."""
    held = serving(case)
    asked = predicted(held)
    if waiting_requests(held.scenario.workload, asked.costs):
        from costmodel.explore.serving.user_levers import with_room_for_all

        asked = with_room_for_all(asked)
    lines, forms = lambda: estimate_report.estimate(asked, verbose=verbose), pages.of_serving_plan(held, asked)
    return Reply(lines, lambda: serving_json.estimate(asked), "plans", yes=_works(asked), others=forms)


def memory(case: LoadedScenario, *, verbose: bool) -> Reply:
    """The answer of `memory`."""
    from costmodel.explore.serving.cache_levers import levers
    from costmodel.report.terminal.serving import serving_memory as report

    held = serving(case)
    asked = predicted(held, _OF_MEMORY)
    tried = [] if asked.refused else levers(asked)
    lines = functools.partial(report.memory, asked, tried, verbose=verbose)
    forms = pages.of_serving_plan(held, asked, "memory")
    return Reply(lines, lambda: serving_json.memory(asked), "ledger", yes=_works(asked), others=forms)


def comm(case: LoadedScenario) -> Reply:
    """The answer of `comm`."""
    from costmodel.report.terminal.serving import serving_communication as report

    held = serving(case)
    asked = predicted(held, _SENT)
    forms = {"html": pages.of_serving_plan(held, asked)["html"]}
    lines, result = lambda: report.communication(asked), lambda: serving_json.communication(asked)
    return Reply(lines, result, "transfers", yes=_works(asked), others=forms)


def explain(case: LoadedScenario, label: str, depth: int) -> Reply:
    """The answer of `explain` about a figure of the scenario's plan, or a label of an answer about it."""
    from costmodel.estimate.serving.predict_serving import WITHOUT_ROOM
    from costmodel.explore.serving.explain_serving import explain as explain_figure
    from costmodel.explore.serving.labelled_figures import labelled
    from costmodel.report.terminal.serving import serving_tree as report

    asked = predicted(serving(case))
    meant = labelled(asked, label)
    if meant.page is not None:
        about = meant.page
        return Reply(lambda: report.about(meant, about), lambda: report.about_json(meant, about))
    unknown = "M001" in asked.broken and not any(name in WITHOUT_ROOM for name in meant.figures)
    if asked.refused or unknown:
        return Reply(lambda: estimate_report.estimate(asked), lambda: serving_json.estimate(asked), yes=False)
    nodes = [explain_figure(asked.inputs, figure) for figure in meant.figures]
    return Reply(lambda: report.trees(asked, label, nodes, depth), lambda: report.trees_json(asked, nodes))


def search(case: LoadedScenario, top: int, over: Sequence[Axis], *, why_not: bool) -> Reply:
    """The answer of `search`."""
    from costmodel.commands.progress import paced
    from costmodel.estimate.serving.serving_inputs import inputs_of
    from costmodel.explore.serving.search_layouts import search as search_space
    from costmodel.explore.serving.search_remedies import with_search_remedies

    with paced("values") as watcher:
        found = search_space(inputs_of(serving(case)), top, over, watcher)
    return found_reply(with_search_remedies(found), why_not=why_not)


def found_reply(found: FoundPlans, *, why_not: bool = False) -> Reply:
    """What a search found as an answer."""
    from costmodel.report.machine.serving_search_json import search_json
    from costmodel.report.terminal.serving import serving_search as report

    rows, forms = "refused" if why_not else "plans", pages.of_serving_search(found)
    lines, result = lambda: report.search(found, why_not=why_not), lambda: search_json(found)
    return Reply(lines, result, rows, yes=found.works, stopped=found.stopped, others=forms)


def pareto(case: LoadedScenario, top: int, axes: str, over: Sequence[Axis]) -> Reply:
    """The answer of `search --pareto`."""
    from costmodel.commands.progress import paced
    from costmodel.estimate.serving.serving_inputs import inputs_of
    from costmodel.explore.serving.pareto import front

    with paced("values") as watcher:
        found = front(inputs_of(serving(case)), axes, over, watcher)
    return front_reply(found, top)


def front_reply(found: ServingFront, top: int) -> Reply:
    """A front as an answer."""
    from costmodel.report.terminal.serving import serving_front as report

    lines, result = lambda: report.front(found, top), lambda: report.front_json(found)
    return Reply(lines, result, "pareto.plans", yes=bool(found.points), stopped=found.stopped)


_SMALL = "a search of a service takes seconds; --top 10000 -o plans.csv keeps its plans"
_INSTEAD: dict[str, str] = {
    **dict.fromkeys(("--into", "--keep all", "--resume", "--engine", "--workers", "--wait"), _SMALL),
    "--why-not beside --pareto": "leave --pareto out; a front has only plans that no other beats",
}


def without(command: str, given: Sequence[tuple[str, bool]]) -> None:
    """A fault for options that a command takes of training alone: one without effect is refused."""
    names = [name for name, value in given if value]
    if names:
        sentence = f"{command} of a scenario that serves has no {', '.join(names)}"
        raise fail("C030", sentence, None, _INSTEAD.get(names[0], "leave it out"))
