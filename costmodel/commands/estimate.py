"""estimate, memory, comm: one plan."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.commands import completion, pages
from costmodel.commands.shared import PAGE, VerboseOption, answering_in
from costmodel.commands.short_form import Question, asking
from costmodel.report.terminal.style.answer import Reply
from costmodel.report.terminal.style.theme import WARN, styled

if TYPE_CHECKING:
    from rich.text import Text

    from costmodel.documents.reader.resolved_scenario import LoadedScenario
    from costmodel.estimate.evaluate.predict import Answer
    from costmodel.estimate.serving.predict_serving import ServingAnswer
    from costmodel.explore.explain.explained_answer import ExplainedAnswer

# Everything heavy is imported by the command that needs it, so that --help is quick.


def predicted(case: LoadedScenario) -> ExplainedAnswer:
    """The training scenario's own plan, evaluated and explained."""
    from costmodel.documents.reader.resolved_scenario import training
    from costmodel.explore.explain.explained_answer import explained_plan

    return explained_plan(training(case))


def works(asked: Answer | ServingAnswer) -> bool:
    """Whether a plan is valid, fits and keeps its limits."""
    return not (asked.refused or asked.broken)


def undecided(question: Question, asked: Answer) -> list[Text]:
    """How to ask for serving, if a model does not fit and no option states that it is trained."""
    if not question.is_undecided or "M001" not in asked.broken:
        return []
    return [styled("No option asks for serving, so this is training; --stack vllm asks for serving.", WARN)]


@answering_in(*PAGE)
@asking
def estimate(question: Question, verbose: VerboseOption = False) -> Reply:
    """How long a step takes, how much memory it needs, what it costs.

    Examples:
      costmodel estimate llama-3-70b-512
      costmodel estimate llama-3-70b-512 --set plan.tp=4 --set plan.pp=8
      costmodel estimate --model llama-3.1-8b --gpu h200 --gpus 16

    Exit code 1 when the plan is invalid, does not fit or breaks a limit.

    Next: costmodel search SCENARIO
    """
    case = question.loaded()
    if case.kind == "serving":
        from costmodel.commands import serving

        return serving.estimate(case, verbose=verbose)
    if case.kind == "rl":
        from costmodel.commands import rl

        return rl.estimate(case, verbose=verbose)
    from costmodel.report.machine import json_answer
    from costmodel.report.terminal.plan import estimate as report

    asked = predicted(case)
    doubt = undecided(question, asked)
    lines, forms = lambda: [*report.estimate(asked, verbose=verbose), *doubt], pages.of_plan(asked)
    return Reply(lines, lambda: json_answer.estimate(asked), "plans", yes=works(asked), others=forms)


_SCENARIO_OR_MODEL = Annotated[
    str | None,
    typer.Argument(
        help="A scenario or a model, by name or path; or only flags",
        show_default=False,
        autocompletion=completion.scenarios_and_models,
    ),
]


@answering_in(*PAGE)
@functools.partial(asking, argument=_SCENARIO_OR_MODEL)
def memory(question: Question, verbose: VerboseOption = False) -> Reply:
    """Where the bytes of the worst stage go, and whether they fit; for a model, its weights and states alone.

    Examples:
      costmodel memory llama-3-70b-512
      costmodel memory llama-3-70b
      costmodel memory llama-3-70b --gpu h100 --gpus 64

    Exit code 1 when the plan is invalid, does not fit or breaks a limit; in serving, only limits on memory count.

    Next: costmodel explain SCENARIO memory_peak
    """
    from costmodel.explore.explain.model_memory import is_model
    from costmodel.report.machine import json_answer
    from costmodel.report.terminal.plan import memory_breakdown

    if question.scenario is not None and is_model(question.scenario):
        if question.is_plain:
            return _model_memory(question.scenario, verbose=verbose)
        question = question.with_model()
    case = question.loaded()
    if case.kind == "serving":
        from costmodel.commands import serving

        return serving.memory(case, verbose=verbose)
    if case.kind == "rl":
        from costmodel.commands import rl

        return rl.memory(case, verbose=verbose)
    asked = predicted(case)
    doubt = undecided(question, asked)
    lines, forms = lambda: [*memory_breakdown.memory(asked, verbose=verbose), *doubt], pages.of_plan(asked, "memory")
    return Reply(lines, lambda: json_answer.memory(asked), "ledger", yes=works(asked), others=forms)


def _model_memory(model: str, *, verbose: bool) -> Reply:
    """A model alone."""
    from costmodel.explore.explain.model_memory import model_alone
    from costmodel.report.machine import json_answer
    from costmodel.report.terminal.plan import memory_breakdown

    facts, lines = model_alone(model), memory_breakdown.model_memory
    return Reply(lambda: lines(facts, verbose=verbose), lambda: json_answer.model_memory(facts), "recipes")


@answering_in(*PAGE)
@asking
def comm(question: Question) -> Reply:
    """Who talks over which link, how often, how long, and what of it is exposed.

    Examples:
      costmodel comm llama-3-70b-512
      costmodel comm llama-3-70b-512 --set plan.zero=3 --json

    Exit code 1 when the plan is invalid, does not fit or breaks a limit; in serving, only limits on transfers count.

    Next: costmodel explain SCENARIO tp_exposed
    """
    from costmodel.report.machine import json_answer
    from costmodel.report.terminal.plan import communication

    case = question.loaded()
    if case.kind == "serving":
        from costmodel.commands import serving

        return serving.comm(case)
    if case.kind == "rl":
        from costmodel.commands import rl

        return rl.comm(case)
    asked = predicted(case)
    lines, forms = lambda: communication.communication(asked), pages.of_plan(asked, "network")
    return Reply(lines, lambda: json_answer.communication(asked), "transfers", yes=works(asked), others=forms)
