"""search: which plan is best."""

from __future__ import annotations

from typing import Annotated

import typer

from costmodel.commands.shared import (
    Exit,
    ForceOption,
    Format,
    FormatOption,
    JsonOption,
    OutputOption,
    ScenarioArgument,
    SetOption,
    deliver,
)


def search(
    scenario: ScenarioArgument,
    top: Annotated[int, typer.Option("--top", "-n", min=1, max=1000, help="How many plans to show")] = 10,
    assignments: SetOption = None,
    form: FormatOption = Format.TABLE,
    as_json: JsonOption = False,
    output: OutputOption = None,
    force: ForceOption = False,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, max=1024, help="Processes for large spaces; all cores if left out")
    ] = None,
) -> None:
    """Which plan is best: every legal DP × TP × PP layout, ranked.

    Examples:

      costmodel search llama-3-70b-512

      costmodel search llama-3-70b-512 --top 3 --set cluster.nodes=32

    Exit code 1 when no plan fits; then the nearest is shown, and what would make it fit.
    Next: costmodel estimate SCENARIO --set plan.tp=…
    """
    from costmodel.documents.library import load
    from costmodel.explore.face import search as run
    from costmodel.report import machine, ranking

    found = run(load(scenario, assignments or ()), top, workers=workers)
    deliver(
        lambda: ranking.search(found, top),
        lambda: machine.search(found),
        as_json=as_json or form is Format.JSON,
        output=output,
        force=force,
    )
    if not found.best:
        raise typer.Exit(Exit.NO)
