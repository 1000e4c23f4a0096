"""search: which plan is best."""

from __future__ import annotations

from typing import Annotated

import typer

from costmodel.commands import completion
from costmodel.commands.shared import ScenarioArgument, SetOption, answering
from costmodel.report.reply import Reply


@answering
def search(
    scenario: ScenarioArgument,
    top: Annotated[int, typer.Option("--top", "-n", min=1, max=1000, help="How many plans to show")] = 10,
    pareto: Annotated[
        str,
        typer.Option(
            "--pareto",
            metavar="X,Y",
            help="Weigh two results against each other: the plans that none beats in both",
            show_default=False,
            autocompletion=completion.pairs,
        ),
    ] = "",
    why_not: Annotated[bool, typer.Option("--why-not", help="Every reason to refuse, with an example")] = False,
    assignments: SetOption = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, max=1024, help="Processes for large spaces; all cores if left out")
    ] = None,
) -> Reply:
    """Which plan is best: the legal DP × TP × PP layouts worth trying, or those the scenario lists, ranked.

    Examples:

      costmodel search llama-3-70b-512

      costmodel search llama-3-70b-512 --top 3 --set cluster.nodes=32

      costmodel search llama-3-70b-512 --pareto memory_peak,step_time

      costmodel search llama-3-70b-512 --why-not

    Exit code 1 when no plan fits; then the nearest is shown, and what would make it fit.
    Next: costmodel estimate SCENARIO --set plan.tp=…
    """
    from costmodel.documents.library import load
    from costmodel.explore.face import search as run
    from costmodel.explore.refusals import examples
    from costmodel.report import machine, ranking

    found = run(load(scenario, assignments or ()), top, workers=workers, pareto=pareto)
    shown = examples(found) if why_not else None
    rows = "refused" if why_not else "pareto.plans" if pareto else "plans"
    lines, result = lambda: ranking.search(found, top, shown), lambda: machine.search(found, shown)
    return Reply(lines, result, rows, yes=bool(found.best))
