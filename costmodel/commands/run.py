"""run: the whole training run."""

from __future__ import annotations

from costmodel.commands import pages
from costmodel.commands.estimate import works
from costmodel.commands.shared import PAGE, VerboseOption, answering_in
from costmodel.commands.short_form import Question, asking
from costmodel.report.terminal.style.answer import Reply


@answering_in(*PAGE)
@asking
def run(question: Question, verbose: VerboseOption = False) -> Reply:
    """How long the whole run takes with failures, checkpoints and restarts; what it costs, draws and emits.

    Examples:
      costmodel run llama-3-70b-512
      costmodel run llama-3-70b-512 --set run.failures=rsc-1 --set run.checkpoint.mode=sync
      costmodel run --model llama-3.1-8b --gpu h100 --gpus 64

    Keys that the scenario omits under run get defaults, listed with their source. Exit code 1 when the plan is not
    valid, does not fit or breaks a limit.

    Next: costmodel explain SCENARIO goodput --set run={}
    """
    from costmodel.documents.reader.override_case import vary
    from costmodel.documents.reader.resolved_scenario import training
    from costmodel.explore.explain.explained_answer import explained_plan
    from costmodel.report.terminal.plan import run as report

    loaded = question.loaded()
    if loaded.kind == "rl":
        from costmodel.commands import rl

        return rl.run(loaded, verbose=verbose)
    case = training(loaded)
    asked = explained_plan(case if case.scenario.run is not None else vary(case, ["run={}"]))
    lines, forms = lambda: report.run(asked, verbose=verbose), pages.of_run(asked)
    return Reply(lines, lambda: report.run_json(asked), "plans", yes=works(asked), others=forms)
