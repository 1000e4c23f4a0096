"""collective: one collective of a cluster, by size."""

from __future__ import annotations

from typing import Annotated

import typer

from costmodel.commands import completion
from costmodel.commands.answer_options import PAGE, SetOption, answering_in, optional, optional_argument
from costmodel.report.terminal.layout import Reply

OperationArgument = Annotated[
    str,
    optional_argument(
        help="all-reduce, all-gather, reduce-scatter, all-to-all, broadcast, reduce or send",
        autocompletion=completion.collectives,
    ),
]
SizeArgument = Annotated[
    list[str] | None,
    optional_argument(help="Bytes of the full buffer, as in nccl-tests; a single size is the largest of a table"),
]
GpuOption = Annotated[
    str | None, optional("--gpu", help="Accelerator, in its usual node", autocompletion=completion.accelerators)
]
NodeOption = Annotated[
    str | None, typer.Option("--node", help="Node", show_default="dgx-h100", autocompletion=completion.nodes)
]
GpusOption = Annotated[
    int | None, typer.Option("--gpus", min=2, help="How many, all in one group", show_default="those of a node")
]
MeasuredOption = Annotated[
    str | None, optional("--measured", metavar="FILE", help="Output of nccl-tests to compare with; '-' is stdin")
]
AlgorithmOption = Annotated[
    str | None,
    typer.Option(
        "--algorithm",
        help="ring, tree, nvls, nvls-tree, sharp or halving-doubling, as NCCL_ALGO would choose",
        show_default="the fastest",
    ),
]


@answering_in(*PAGE)
def collective(
    operation: OperationArgument,
    size: SizeArgument = None,
    gpu: GpuOption = None,
    node: NodeOption = None,
    gpus: GpusOption = None,
    measured: MeasuredOption = None,
    algorithm: AlgorithmOption = None,
    assignments: SetOption = None,
) -> Reply:
    """Predict a collective over all accelerators, run alone: time and bandwidth by size, levels and algorithm.

    Examples:
      costmodel collective all-reduce 1GB --gpus 64 --node dgx-h100
      costmodel collective all-to-all 16MB 64MB --gpu h200 --gpus 32
      costmodel collective all-reduce 16GB --algorithm ring
      costmodel collective all-reduce --gpus 8 --measured all_reduce_perf.txt

    "in step" is the busbw in a training step, which computes at the same time. The last line is the nccl-tests command
    that measures the collective. --measured reads sizes, ranks and accelerator from the file unless options give them.

    Next: costmodel explain busbw
    """
    from costmodel.commands.replies import document_reply
    from costmodel.explore.collective import collective as answer_of
    from costmodel.explore.scenario_from_flags import ScenarioFlags
    from costmodel.report.answers import collective as report

    flags = ScenarioFlags(gpu=gpu, node=node, gpus=gpus)
    answered = answer_of(operation, size or (), flags, tuple(assignments or ()), measured, algorithm=algorithm)
    return document_reply(
        lambda: report.collective_document(answered), lambda: report.collective_json(answered), "sizes", found=answered
    )
