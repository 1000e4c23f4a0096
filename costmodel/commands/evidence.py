"""validate: how wrong are we, and where."""

from __future__ import annotations

from typing import Annotated

import typer

from costmodel.commands.shared import Exit, ForceOption, Format, FormatOption, JsonOption, OutputOption, deliver


def validate(
    tables: Annotated[
        list[str] | None, typer.Argument(help="Measured tables; all that are shipped if left out", show_default=False)
    ] = None,
    form: FormatOption = Format.TABLE,
    as_json: JsonOption = False,
    output: OutputOption = None,
    force: ForceOption = False,
) -> None:
    """Predicted against measured, for published runs, each held to its table's own tolerance.

    Examples:

      costmodel validate

      costmodel validate korthikanti-2022 --json

    Exit code 1 when a figure is out of its tolerance. Next: costmodel show korthikanti-2022
    """
    from costmodel.explore.validate import validated
    from costmodel.report import evidence

    found = validated(tables)
    deliver(
        lambda: evidence.validation(found),
        lambda: evidence.validation_json(found),
        as_json=as_json or form is Format.JSON,
        output=output,
        force=force,
    )
    if not all(figure.within for _, figures in found for figure in figures):
        raise typer.Exit(Exit.NO)
