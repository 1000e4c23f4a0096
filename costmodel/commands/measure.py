"""measure: times the operations of a training step on this device."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer
from rich.text import Text

from costmodel.commands import replies
from costmodel.commands.answer_options import answering, optional
from costmodel.commands.exit_codes import Exit
from costmodel.ground.errors import fail
from costmodel.report.terminal.layout import DIM, Reply, text_console


class DeviceKind(StrEnum):
    """The devices that PyTorch can time."""

    CUDA = "cuda"
    CPU = "cpu"


DeviceOption = Annotated[
    DeviceKind | None,
    typer.Option("--device", help="What to measure", show_default="the GPU, or the processor if none"),
]
NameOption = Annotated[
    str | None,
    typer.Option(
        "--gpu", metavar="NAME", help="Name of the GPU to write, e.g. that of a document", show_default="the driver's"
    ),
]
BriefOption = Annotated[bool, typer.Option("--brief", help="Only a few small shapes, as a quick test")]
CollectivesOption = Annotated[
    bool, typer.Option("--collectives", help="Also time collectives between the GPUs of this machine")
]
RanksOption = Annotated[
    int | None, typer.Option("--ranks", min=2, max=64, help="Ranks of the collectives", show_default="all GPUs")
]


MinutesOption = Annotated[
    float,
    typer.Option("--minutes", min=0.1, max=240, help="Total time; shapes that would exceed it are skipped and listed"),
]


EngineOption = Annotated[
    str | None,
    optional("--engine", metavar="SCENARIO", help="Which benchmarks of the plan of a scenario that serves to run"),
]


@answering
def measure(
    device: DeviceOption = None,
    gpu: NameOption = None,
    minutes: MinutesOption = 5.0,
    brief: BriefOption = False,
    collectives: CollectivesOption = False,
    ranks: RanksOption = None,
    engine: EngineOption = None,
) -> Reply:
    """Time the operations of a training step on this device, and write the table that calibrate reads.

    It times matrix products, attention and memory-bound operators, forward and backward, in a few minutes on one GPU.
    It needs PyTorch (the extra measure). Whole layers and their memory are measured only for comparison with the
    prediction from their parts; nothing is fitted to them. Ctrl-C keeps the finished rows.

    Examples:
      costmodel measure --device cpu --brief
      costmodel measure --gpu h100-sxm -o mine.csv
      costmodel measure --engine serve-llama-3.1-70b

    --engine runs nothing: it lists the benchmarks that determine the constants of an engine, on an accelerator without
    kernels too, with commands whose results calibrate --follow reads.

    Next: costmodel calibrate mine.csv --write
    """
    if engine is not None:
        return _benchmark_points_reply(engine, any((device, gpu, brief, collectives, ranks)))
    from costmodel.commands.progress import stop_on_interrupt
    from costmodel.evidence.measure.measure import (
        BRIEF,
        WHOLE,
        Session,
        measured,
        measured_collectives,
        misnamed,
        named,
        with_predictions,
    )
    from costmodel.evidence.measure.stopwatch import device as found_device
    from costmodel.report.answers import calibrate as report

    here = found_device(device.value if device else None)

    with stop_on_interrupt() as stopped:
        if collectives:
            timings = measured_collectives(here, ranks, stopped)
        else:
            timings = measured(Session(here, BRIEF if brief else WHOLE, 60 * minutes, _print_progress, stopped))
    if timings.stopped and not timings.rows:
        raise typer.Exit(Exit.INTERRUPTED)
    timings = replace(timings, rows=with_predictions(named(timings.rows, gpu)))
    for remark in filter(None, (misnamed(here, gpu), *report.measurement_remarks(timings))):
        text_console(stderr=True).print(Text(remark))
    answer, result = lambda: report.measured_document(here, timings), lambda: report.measured_json(here, timings)
    return replies.document_reply(answer, result, "rows", stopped=timings.stopped)


def _benchmark_points_reply(scenario: str, other: bool) -> Reply:
    """The benchmarks of an engine to run for calibration, with their commands."""
    from costmodel.documents.reader.load_scenario import load_any
    from costmodel.explore.serving.benchmark_points import benchmark_points
    from costmodel.report.answers import calibrate as report

    if other:
        raise fail("C009", "--engine times nothing on this device", None, "leave the options of a device out")
    case = load_any(scenario)
    points = benchmark_points(case, report.RESULTS_FOLDER)
    return replies.document_reply(
        lambda: report.points_document(case, points), lambda: report.points_json(case, points), "points"
    )


def _print_progress(sentence: str) -> None:
    screen = text_console(stderr=True)
    if screen.is_terminal:
        screen.print(Text(sentence, style=DIM))
