"""measure: the operations of a training step, timed on the device at hand."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.text import Text

from costmodel.commands.shared import answering
from costmodel.report.reply import Reply
from costmodel.report.theme import DIM, console


class Kind(StrEnum):
    """Devices PyTorch can time."""

    CUDA = "cuda"
    CPU = "cpu"


DeviceOption = Annotated[
    Kind | None, typer.Option("--device", help="What to measure", show_default="the GPU, or the processor if none")
]
NameOption = Annotated[
    str | None,
    typer.Option("--gpu", metavar="NAME", help="Name to write, e.g. that of a document", show_default="the driver's"),
]
BriefOption = Annotated[bool, typer.Option("--brief", help="Few small shapes, to see that it works")]
CollectivesOption = Annotated[bool, typer.Option("--collectives", help="Collectives between the GPUs of this machine")]
RanksOption = Annotated[
    int | None, typer.Option("--ranks", min=2, max=64, help="Ranks of the collectives", show_default="all GPUs")
]


@answering
def measure(
    device: DeviceOption = None,
    gpu: NameOption = None,
    brief: BriefOption = False,
    collectives: CollectivesOption = False,
    ranks: RanksOption = None,
) -> Reply:
    """Times of the operations of a training step on this device: the table that calibrate reads.

    Matrix products, attention and memory-bound operators forward and backward, and a whole layer with its memory;
    a few minutes on one GPU. Needs PyTorch, which the extra measure brings.

    Examples:

      costmodel measure --device cpu --brief

      costmodel measure --gpu h100-sxm -o mine.csv

    Next: costmodel calibrate mine.csv --write
    """
    from costmodel.explore.measure.collectives import measured_collectives
    from costmodel.explore.measure.measure import WHOLE, Session, briefly, measured, named
    from costmodel.explore.measure.stopwatch import device as found
    from costmodel.report import measured as report

    here = found(device.value if device else None)
    if collectives:
        rows = measured_collectives(here, ranks)
    else:
        session = Session(here, WHOLE, _told)
        rows = measured(briefly(session) if brief else session)
    rows = named(rows, gpu)
    return Reply(lambda: report.table(here, rows), lambda: report.as_json(here, rows), rows="rows")


def _told(sentence: str) -> None:
    screen = console(stderr=True)
    if screen.is_terminal:
        screen.print(Text(sentence, style=DIM))
