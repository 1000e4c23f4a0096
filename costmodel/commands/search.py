"""search: which plan is best."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from costmodel.commands import completion
from costmodel.commands.answer_options import PAGE, answering_in, optional
from costmodel.commands.by_workload import commands_of
from costmodel.commands.scenario_options import Question, question_command
from costmodel.commands.workload_commands import FRONT, TOP, SearchQuestion
from costmodel.ground.errors import fail
from costmodel.report.terminal.layout import Reply


class Keep(StrEnum):
    """Which plans a search stores in its folder."""

    BEST = "best"
    ALL = "all"


TopOption = Annotated[
    int | None,
    typer.Option(
        "--top", "-n", min=1, max=1000, help="How many plans to show", show_default=f"{TOP} with -v, {FRONT} of a front"
    ),
]
ParetoOption = Annotated[
    str,
    optional(
        "--pareto",
        metavar="X,Y",
        help="Show the plans that no other plan beats in both results",
        autocompletion=completion.pairs,
    ),
]
OverOption = Annotated[
    list[str] | None,
    optional(
        "--over",
        metavar="PATH=VALUES",
        help="Also search at each value of a key, e.g. cluster.nodes=16,32,64; may be repeated",
    ),
]


def _search_folder(text: str) -> Path:
    """The folder of --into; raises a fault for an empty name, such as from an unset variable."""
    if not text.strip():
        raise fail("C021", "--into names no folder", None, "name one, '.' for the working folder")
    if "\0" in text:
        raise fail("C021", "the name of the folder holds unprintable characters", None, "name another")
    return Path(text)


IntoOption = Annotated[
    Path | None,
    optional("--into", metavar="FOLDER", parser=_search_folder, help="Store the state of the search in this folder"),
]
KeepOption = Annotated[Keep, typer.Option("--keep", help="all: also store every valid plan, as Parquet")]
EngineOption = Annotated[
    str, typer.Option("--engine", metavar="ENGINE", help="Where the search runs: local, dask or dask=ADDRESS")
]
WaitOption = Annotated[
    str, typer.Option("--wait", metavar="TIME", help="How long to wait for Dask workers", show_default="1 min")
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", min=1, max=1024, help="Processes for large spaces; default: all cores")
]


@answering_in(*PAGE)
@question_command
def search(
    question: Question,
    top: TopOption = None,
    pareto: ParetoOption = "",
    why_not: Annotated[
        bool, typer.Option("--why-not", help="Explain every reason for rejection, with an example")
    ] = False,
    over: OverOption = None,
    into: IntoOption = None,
    keep: KeepOption = Keep.BEST,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the state in the folder")] = False,
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    wait: WaitOption = "",
    measure_next: Annotated[
        bool, typer.Option("--measure-next", help="Show how sure line 1 is, and what to measure before it is chosen")
    ] = False,
    measured: Annotated[
        list[str] | None,
        typer.Option(
            "--measured",
            metavar="LINE=TIME",
            help="Step, token or iteration time that a line of the ranking took, or its start-up log; may be repeated",
            show_default=False,
        ),
    ] = None,
) -> Reply:
    """Find the best plan: rank the valid DP × TP × PP layouts worth trying, or those the scenario lists.

    Examples:
      costmodel search llama-3-70b-512
      costmodel search llama-3-70b-512 --top 3 --set cluster.nodes=32 --set plan.zero=3
      costmodel search --model llama-3.1-8b --gpu h100 --gpus 64 --sequence 8192 --batch 4Mi-tokens
      costmodel search llama-3-70b-512 --pareto memory_peak,step_time
      costmodel search llama-3-70b-512 --over cluster.node=dgx-h100,dgx-h200
      costmodel search serve-llama-3.1-70b --over stack=vllm,sglang,trt-llm
      costmodel search llama-3-70b-512 --measure-next
      costmodel search llama-3-70b-512 --into FOLDER --keep all --resume > best.txt

    --set fixes a key of the plan, unless the scenario's search lists that key. The scenario's own plan is ranked, not
    fixed. Ctrl-C prints the best plans so far; --resume continues from there, even after a crash.
    Exit code 1 when no plan fits; then the nearest plan is shown, and what to set instead.

    Next: costmodel estimate SCENARIO --set plan.tp=…
    """
    from costmodel.explore.search.value_ranges import axes

    varied = axes(question.over(over or ()))
    case = question.varied({axis.path: f"--over {axis.path}" for axis in varied}, "--over")
    large = (into, keep is Keep.ALL, resume, engine, workers, wait)
    asked = SearchQuestion(top, pareto, varied, why_not, *large, measure_next, measured or ())
    return commands_of(case).search(case, asked)
