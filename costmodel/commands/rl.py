"""Answers of the commands for reinforcement learning; imported only for such scenarios."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from costmodel.commands import pages
from costmodel.commands.workload_commands import TOP, SearchQuestion, no_answer, search_reply, searching
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.rl_scenario import reinforced
from costmodel.estimate.rl.predict_rl import predict
from costmodel.report.machine import rl_json
from costmodel.report.terminal.rl import rl_communication as communication_report
from costmodel.report.terminal.rl import rl_estimate as estimate_report
from costmodel.report.terminal.rl import rl_memory_lines as memory_report
from costmodel.report.terminal.style.answer import Reply

if TYPE_CHECKING:
    from costmodel.explore.page.rl_facts import RlFacts
    from costmodel.report.page.content import HtmlPage
    from costmodel.report.page.scenarios_page import ScenarioEntry
    from costmodel.report.terminal.documents.exports import Found


def estimate(case: LoadedScenario, *, verbose: bool) -> Reply:
    """The answer of `estimate`."""
    asked, stated = predict(reinforced(case)), estimate_report.estimate
    return Reply(lambda: stated(asked, verbose=verbose), lambda: rl_json.estimate(asked), "plans", yes=asked.works,
                 others=pages.of_rl_plan(asked), found=asked)  # fmt: skip


def memory(case: LoadedScenario, *, verbose: bool) -> Reply:
    """The answer of `memory`."""
    asked, stated = predict(reinforced(case)), memory_report.memory
    return Reply(lambda: stated(asked, verbose=verbose), lambda: rl_json.memory(asked), "ledger", yes=asked.works,
                 others=pages.of_rl_plan(asked, "memory"), found=asked)  # fmt: skip


def comm(case: LoadedScenario) -> Reply:
    """The answer of `comm`."""
    asked, stated = predict(reinforced(case)), communication_report.communication
    return Reply(lambda: stated(asked), lambda: rl_json.communication(asked), "transfers", yes=asked.works,
                 others={"html": pages.of_rl_plan(asked)["html"]}, found=asked)  # fmt: skip


def run(case: LoadedScenario, *, verbose: bool) -> Reply:
    """The answer of `run`."""
    from costmodel.documents.reader.override_case import vary_any
    from costmodel.report.terminal.rl import rl_run as report

    held = reinforced(case)
    asked = predict(held if held.scenario.run is not None else reinforced(vary_any(held, ["run={}"])))
    return Reply(lambda: report.run(asked, verbose=verbose), lambda: report.run_json(asked), "plans", yes=asked.works,
                 others=pages.of_rl_plan(asked), found=asked)  # fmt: skip


def search(case: LoadedScenario, asked: SearchQuestion) -> Reply:
    """The answer of `search`."""
    from costmodel.explore.rl.search_splits import search as search_space
    from costmodel.report.answers.search_rl import RlWords

    with searching(asked, case) as how:
        found = search_space(reinforced(case), asked.top or TOP, asked.over, asked.pareto, how)
    return search_reply(RlWords(found), asked)


def explain(case: LoadedScenario, quantity: str, depth: int) -> Reply:
    """The answer of `explain` about a figure of the scenario's plan."""
    from costmodel.explore.rl.explain_rl import explain as explain_figure
    from costmodel.report.terminal.rl import rl_tree

    asked = predict(reinforced(case))
    if asked.refused:
        return Reply(lambda: estimate_report.estimate(asked), lambda: rl_json.estimate(asked), yes=False, found=asked)
    node = explain_figure(asked, quantity)
    return Reply(lambda: rl_tree.tree(asked, node, depth), lambda: rl_tree.tree_json(asked, node), found=node)


def explain_plan(case: LoadedScenario) -> Reply:
    """A fault: a search has them beside each other."""
    raise no_answer(
        case,
        (
            "explain compares plans of training; search ranks those of reinforcement learning",
            f"costmodel search {case.name}",
        ),
    )


def report(case: LoadedScenario) -> Reply:
    """The answer of `report`: the plan, the splits of its accelerators, and what moves it."""
    from costmodel.report.machine.formats import markdown_text
    from costmodel.report.page.forms import html_form

    def page() -> HtmlPage:
        from costmodel.report.page.rl_page import rl_report

        return rl_report(_facts(case), pages.command_line())

    def text() -> str:
        from costmodel.report.terminal.rl.rl_sections import report as sections

        return markdown_text(sections(_facts(case)))

    reply = estimate(case, verbose=False)
    return replace(reply, others={**reply.others, "html": html_form(page), "markdown": text})


def figure(case: LoadedScenario, name: str) -> Reply:
    """One figure of the plan alone."""
    if name not in FIGURES:
        raise pages.no_figure("reinforcement learning", name, FIGURES)
    return pages.figure_alone(pages.of_rl_plan(predict(reinforced(case)), name))


FIGURES = ("time", "memory")


def page_entry(case: LoadedScenario) -> ScenarioEntry:
    """What a page of several scenarios shows of it."""
    from costmodel.report.page.rl_page import scenario_entry

    return scenario_entry(_facts(case))


def _facts(case: LoadedScenario) -> RlFacts:
    from costmodel.explore.page.rl_facts import RlFacts

    return RlFacts(predict(reinforced(case)))


def best_plan(case: LoadedScenario) -> tuple[dict[str, str], str] | None:
    """None: no flags describe reinforcement learning."""
    return None


PLANS_AHEAD = False
WITHOUT = {
    "pipeline": (
        "an iteration has several phases in turn; stages are those of its trainer alone",
        "costmodel pipeline of a scenario that trains the model",
    ),
    "diagnose": (
        "an iteration is no single step: its phases are measured apart",
        "costmodel estimate shows each phase, sensitivity what moves them",
    ),
    "export": (
        "no format has both plans of an iteration, that of the trainer and that of the engines",
        "costmodel export of a scenario that trains, or serves, the model",
    ),
}
FORMATS = ()


def usual_format(case: LoadedScenario) -> str:
    """A fault: no format has both plans of an iteration."""
    raise no_answer(case, WITHOUT["export"])


def export(case: LoadedScenario, to: str, rank: int | None) -> Found:
    """A fault: no format has both plans of an iteration."""
    raise no_answer(case, WITHOUT["export"])
