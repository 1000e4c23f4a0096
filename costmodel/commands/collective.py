"""collective: one collective of a cluster, by size."""

from __future__ import annotations

from typing import Annotated

import typer

from costmodel.commands import completion
from costmodel.commands.shared import SetOption, answering
from costmodel.report.terminal.style.answer import Reply


@answering
def collective(
    operation: Annotated[
        str,
        typer.Argument(
            help="all-reduce, all-gather, reduce-scatter, all-to-all or send",
            show_default=False,
            autocompletion=completion.collectives,
        ),
    ],
    size: Annotated[
        list[str],
        typer.Argument(help="Bytes of the full buffer, as nccl-tests counts it; one heads a table", show_default=False),
    ],
    gpu: Annotated[
        str | None,
        typer.Option(
            "--gpu",
            help="Accelerator, in the node it is usually found in",
            show_default=False,
            autocompletion=completion.accelerators,
        ),
    ] = None,
    node: Annotated[
        str | None, typer.Option("--node", help="Node", show_default="dgx-h100", autocompletion=completion.nodes)
    ] = None,
    gpus: Annotated[
        int | None, typer.Option("--gpus", min=2, help="How many, all in one group", show_default="those of a node")
    ] = None,
    assignments: SetOption = None,
) -> Reply:
    """How long a collective over all accelerators takes, by size, with its bandwidths, levels and algorithm.

    Examples:
      costmodel collective all-reduce 1GB --gpus 64 --node dgx-h100
      costmodel collective all-to-all 16MB 64MB --gpu h200 --gpus 32

    The last line is the command of nccl-tests that measures it.

    Next: costmodel explain busbw
    """
    from costmodel.explore.collective import collective as answer_of
    from costmodel.explore.short_form import DEFAULT_NODE, ScenarioFlags
    from costmodel.report.terminal.plan import collective as report

    machine = DEFAULT_NODE if gpu is None and node is None else node
    alone = () if gpus is not None else ("cluster.nodes=1",)
    flags = ScenarioFlags(gpu=gpu, node=machine, gpus=gpus)
    found = answer_of(operation, size, flags, (*alone, *(assignments or ())))
    return Reply(lambda: report.collective(found), lambda: report.collective_json(found), "sizes")
