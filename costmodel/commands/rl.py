"""Answers of the commands for reinforcement learning; imported only for such scenarios."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costmodel.commands.workload_commands import TOP, SearchQuestion, running_search, search_reply
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.reader.rl_scenario import reinforced
from costmodel.estimate.rl.predict_rl import predict
from costmodel.report.terminal.layout import Reply

if TYPE_CHECKING:
    from costmodel.report.answers.export import AnyExport
    from costmodel.report.answers.rl_view import RlView


def view(case: LoadedScenario, question: str) -> RlView:
    """The answer for the scenario's plan as commands show it."""
    from costmodel.report.answers.rl_view import RlView

    return RlView(predict(reinforced(case)))


def search(case: LoadedScenario, question: SearchQuestion) -> Reply:
    """The answer of the command `search`: the best splits of the accelerators."""
    from costmodel.explore.rl import search as search_space
    from costmodel.report.answers.search_rl import RlWords

    with running_search(question, case) as how:
        ranking = search_space(reinforced(case), question.top or TOP, question.over, question.pareto, how)
    return search_reply(RlWords(ranking), question)


def usual_plan(case: LoadedScenario) -> str:
    """Empty: a search finds the plan keys that flags leave open."""
    return ""


def best_plan(case: LoadedScenario) -> tuple[dict[str, str], str]:
    """Settings of the best split of a search, and a phrase on where they are from."""
    from costmodel.explore.answer_summaries import rl_settings
    from costmodel.explore.rl import search_best_plan

    ranking = search_best_plan(reinforced(case))
    which = "the plan nearest to the limits"
    if ranking.works:
        which = "the best plan" if ranking.is_safe else "the plan surest to fit"
    return rl_settings(ranking.answer_of(ranking.best[0])), f"{which} of costmodel search"


OTHER_PLANS = "change it with --set plan.tp=…"
WITHOUT = {
    "pipeline": (
        "pipeline is for training: in RL only the trainer has a pipeline",
        "give a scenario that trains the model",
    ),
    "diagnose": (
        "diagnose is for training: in RL each phase is measured apart",
        "costmodel estimate shows each phase, sensitivity what moves them",
    ),
}


def usual_format(case: LoadedScenario) -> str:
    """The export format of the scenario's software, or the first format."""
    from costmodel.explore.workload_flags import flags_of

    name, formats = reinforced(case).stack.name, flags_of(case.kind).formats
    return name if name in formats else formats[0]


def export(case: LoadedScenario, to: str, rank: int | None) -> AnyExport:
    """A plan in a format."""
    from costmodel.explore.import_export.export_plan import export_iteration

    return export_iteration(reinforced(case), to, rank)
