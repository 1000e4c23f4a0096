"""Answers of the commands for training; imported only for such scenarios."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costmodel.commands.workload_commands import TOP, SearchQuestion, running_search, search_reply
from costmodel.documents.reader.resolved_scenario import LoadedScenario, training
from costmodel.ground.counts import number_of
from costmodel.ground.errors import Place, fail
from costmodel.report.terminal.layout import Reply

if TYPE_CHECKING:
    from costmodel.explore.explain.plan_choice_effects import ExplainedAnswer
    from costmodel.report.answers.export import AnyExport
    from costmodel.report.answers.training_view import TrainingView

_WHY = "costmodel search with the same flags and --why-not shows why"


def explained_answer(case: LoadedScenario) -> ExplainedAnswer:
    """The answer for the scenario's own plan, with fixes and effects of its choices."""
    from costmodel.explore.explain.plan_choice_effects import explained_plan

    return explained_plan(training(case))


def view(case: LoadedScenario, question: str) -> TrainingView:
    """The answer for the scenario's plan as commands show it; for a report, of the best plan if none is stated."""
    from costmodel.report.answers.training_view import TrainingView

    if question != "report":
        return TrainingView(explained_answer(case))
    from costmodel.explore.page.report_facts import searched_once, with_plan_of

    held = training(case)
    if held.scenario.plan is not None:
        return TrainingView(explained_answer(held), held)
    found = searched_once(held)
    return TrainingView(explained_answer(with_plan_of(held, found)), held, found)


def search(case: LoadedScenario, question: SearchQuestion) -> Reply:
    """The answer of `search`."""
    from costmodel.explore.search.search import search as search_space
    from costmodel.explore.search.search import with_examples, with_remedies
    from costmodel.report.answers.search_training import TrainingWords

    with running_search(question, case) as how:
        ranking = search_space(training(case), question.top or TOP, pareto=question.pareto, over=question.over, how=how)
        ranking = with_remedies(ranking)
    return search_reply(TrainingWords(with_examples(ranking) if question.why_not else ranking), question)


def usual_plan(case: LoadedScenario) -> str:
    """A phrase for the stack's default plan, if --set states a plan key or --stack another stack; else empty."""
    from costmodel.explore.flag_defaults import usual_stack

    held = training(case)
    chosen = held.scenario.plan is not None or held.stack.name != usual_stack(held)
    return f"defaults of stacks/{held.stack.name}" if chosen else ""


def best_plan(case: LoadedScenario) -> tuple[dict[str, str], str]:
    """Settings of the best plan of a search, or of the nearest to fit, and a phrase on where they are from."""
    from costmodel.estimate.shared.reasons import REFUSALS
    from costmodel.explore.search.search import search as search_space
    from costmodel.explore.search.training_remedies import plan_settings

    held = training(case)
    ranking = search_space(held, 1, workers=1, bands=False, counted=False)
    rows = ranking.best or ranking.tally.missed_by_least
    if not rows:
        most = ranking.tally.refused.most_common(1)
        why = f": {REFUSALS[most[0][0]].meaning} ({most[0][0]})" if most else ""
        raise fail("C004", f"no plan of the search is valid{why}", Place(case.file), _WHY)
    which = "the nearest to fit" if not ranking.best else "the best" if ranking.is_safe else "the surest to fit"
    origin = f"{which} of {number_of(ranking.tally.candidates, 'plan')} of costmodel search"
    return plan_settings(ranking.inputs_of(rows[0].variant), rows[0]), origin


OTHER_PLANS = "if you set one with --set plan.tp=…, its other keys take their defaults"
WITHOUT: dict[str, tuple[str, str]] = {}


def usual_format(case: LoadedScenario) -> str:
    """The default export format: options of Megatron-LM."""
    return "megatron"


def export(case: LoadedScenario, to: str, rank: int | None) -> AnyExport:
    """A plan in a format."""
    from costmodel.explore.import_export.export_plan import export_plan

    return export_plan(training(case), to, rank)
