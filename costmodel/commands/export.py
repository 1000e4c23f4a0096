"""export: a plan of costmodel as a file that starts a training."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from costmodel.commands.shared import answering
from costmodel.commands.short_form import Question, asking
from costmodel.report.terminal.style.answer import Filed, Reply


class ExportFormat(StrEnum):
    """Formats that are written."""

    MEGATRON = "megatron"
    BRIDGE = "bridge"
    TORCHTITAN = "torchtitan"
    DEEPSPEED = "deepspeed"
    ACCELERATE = "accelerate"
    HF = "hf"


@answering
@asking
def export(
    question: Question,
    to: Annotated[ExportFormat, typer.Option("--to", help="Format of the file")] = ExportFormat.MEGATRON,
    rank: Annotated[
        int | None,
        typer.Option("--rank", min=1, max=1000, help="Plan of this rank in the search; else the scenario's own"),
    ] = None,
    lossy: Annotated[bool, typer.Option("--lossy", help="Write all but the keys the format cannot express")] = False,
) -> Reply:
    """A plan as options or a configuration of the software that trains it; without a plan the best of the search.

    Examples:
      costmodel export llama-3-70b-512 --to megatron
      costmodel export llama-3-70b-512 --to torchtitan --lossy
      costmodel export llama-3-70b-512 --to megatron --rank 3 > train.sh
      costmodel export mine.yaml --to deepspeed -o ds.json > what-was-printed.txt

    The version that the options are of is printed. The file is read back before it is written, and must give the same
    plan. Exit code 1, and nothing written, where it cannot express a key; --lossy writes the rest.

    Next: costmodel import FILE
    """
    from costmodel.documents.reader.resolved_scenario import training
    from costmodel.explore.export_plan import export_plan
    from costmodel.report.terminal.documents import exports as report

    found = export_plan(training(question.loaded(planned=False)), to.value, rank)
    return Reply(
        lambda: report.text(found, lossy=lossy),
        lambda: report.as_json(found),
        yes=lossy or not found.file.faults,
        filed=Filed(lambda _path: report.file_text(found), lambda path: report.summary(found, path)),
    )
