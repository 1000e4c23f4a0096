"""estimate, memory, comm: one plan looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.commands import completion
from costmodel.commands.shared import ScenarioArgument, SetOption, VerboseOption, answering
from costmodel.report.reply import Reply

if TYPE_CHECKING:
    from costmodel.documents.case import LoadedScenario
    from costmodel.estimate.plan import Answer
    from costmodel.estimate.serving.plan import ServingAnswer

# Everything heavy is imported by the command that needs it, so that --help is quick.


def predicted(case: LoadedScenario) -> Answer:
    """The training scenario's own plan, evaluated."""
    from costmodel.documents.case import training
    from costmodel.estimate.plan import predict

    return predict(training(case))


def works(asked: Answer | ServingAnswer) -> bool:
    """Whether a plan is valid, fits and keeps its limits."""
    return not (asked.refused or asked.broken)


@answering
def estimate(scenario: ScenarioArgument, assignments: SetOption = None, verbose: VerboseOption = False) -> Reply:
    """How long a step takes, how much memory it needs, what it costs.

    Examples:
      costmodel estimate llama-3-70b-512
      costmodel estimate llama-3-70b-512 --set plan.tp=4 --set plan.pp=8

    Exit code 1 when the plan is not legal, does not fit or breaks a limit.

    Next: costmodel search SCENARIO
    """
    from costmodel.documents.case import load_any

    case = load_any(scenario, assignments or ())
    if case.kind == "serving":
        from costmodel.commands import serving

        return serving.estimate(case, verbose=verbose)
    from costmodel.report import estimate as report
    from costmodel.report import machine

    asked = predicted(case)
    said = report.estimate
    return Reply(lambda: said(asked, verbose=verbose), lambda: machine.estimate(asked), "plans", yes=works(asked))


@answering
def memory(
    scenario: Annotated[
        str,
        typer.Argument(
            help="A scenario or a model, by name or path",
            show_default=False,
            autocompletion=completion.scenarios_and_models,
        ),
    ],
    assignments: SetOption = None,
    verbose: VerboseOption = False,
) -> Reply:
    """Where the bytes of the worst stage go, and whether they fit; for a model, its weights and states alone.

    Examples:
      costmodel memory llama-3-70b-512
      costmodel memory llama-3-70b

    Exit code 1 when the plan is not legal, does not fit or breaks a limit.

    Next: costmodel explain SCENARIO memory_peak
    """
    from costmodel.documents.case import load_any
    from costmodel.explore.explain.alone import alone, is_model
    from costmodel.report import ledger, machine

    if is_model(scenario) and not assignments:
        facts = alone(scenario)
        return Reply(lambda: ledger.model_memory(facts), lambda: machine.model_memory(facts), "recipes")
    case = load_any(scenario, assignments or ())
    if case.kind == "serving":
        from costmodel.commands import serving

        return serving.memory(case, verbose=verbose)
    asked = predicted(case)
    said = ledger.memory
    return Reply(lambda: said(asked, verbose=verbose), lambda: machine.memory(asked), "ledger", yes=works(asked))


@answering
def comm(scenario: ScenarioArgument, assignments: SetOption = None) -> Reply:
    """Who talks over which link, how often, how long, and what of it is exposed.

    Examples:
      costmodel comm llama-3-70b-512
      costmodel comm llama-3-70b-512 --set plan.zero=3 --json

    Exit code 1 when the plan is not legal, does not fit or breaks a limit.

    Next: costmodel explain SCENARIO tp_exposed
    """
    from costmodel.documents.case import load_any
    from costmodel.report import communication, machine

    case = load_any(scenario, assignments or ())
    if case.kind == "serving":
        from costmodel.commands import serving

        return serving.comm(case)
    asked = predicted(case)
    said = communication.communication
    return Reply(lambda: said(asked), lambda: machine.communication(asked), "transfers", yes=works(asked))
