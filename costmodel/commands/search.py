"""search: which plan is best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costmodel.commands import completion, pages
from costmodel.commands.shared import PAGE, answering_in
from costmodel.commands.short_form import Question, asking
from costmodel.ground.errors import Place, fail
from costmodel.report.terminal.style.answer import Reply

if TYPE_CHECKING:
    from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario
    from costmodel.explore.search.ranges import Axis
    from costmodel.explore.search.search import SearchResult
    from costmodel.explore.search.stream import SearchOptions


TOP, FRONT = 10, 40  # rows shown by default: of a ranking, of a front


class Keep(StrEnum):
    """What a search keeps in its folder."""

    BEST = "best"
    ALL = "all"


TopOption = Annotated[
    int | None,
    typer.Option(
        "--top", "-n", min=1, max=1000, help="How many plans to show", show_default=f"{TOP}, of a front {FRONT}"
    ),
]
ParetoOption = Annotated[
    str,
    typer.Option(
        "--pareto",
        metavar="X,Y",
        help="Show the plans that no other plan beats in both results",
        show_default=False,
        autocompletion=completion.pairs,
    ),
]
OverOption = Annotated[
    list[str] | None,
    typer.Option(
        "--over",
        metavar="PATH=VALUES",
        help="Also search at each value of a key, e.g. cluster.nodes=16,32,64; may be repeated",
        show_default=False,
    ),
]


def _folder(text: str) -> Path:
    """The folder that is named; an empty name, as of an unset variable, is not the working folder."""
    if not text.strip():
        raise fail("C021", "--into names no folder", None, "name one, '.' for the working folder")
    if "\0" in text:
        raise fail("C021", "the name of the folder holds characters that do not print", None, "name another")
    return Path(text)


IntoOption = Annotated[
    Path | None,
    typer.Option(
        "--into",
        metavar="FOLDER",
        parser=_folder,
        help="Store the state of the search in this folder",
        show_default=False,
    ),
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
@asking
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
) -> Reply:
    """Find the best plan: rank the valid DP × TP × PP layouts worth trying, or those the scenario lists.

    Examples:
      costmodel search llama-3-70b-512
      costmodel search llama-3-70b-512 --top 3 --set cluster.nodes=32 --set plan.zero=3
      costmodel search --model llama-3.1-8b --gpu h100 --gpus 64 --sequence 8192 --batch 4Mi-tokens
      costmodel search llama-3-70b-512 --pareto memory_peak,step_time
      costmodel search llama-3-70b-512 --over cluster.node=dgx-h100,dgx-h200
      costmodel search serve-llama-3.1-70b --over stack=vllm,sglang,trt-llm
      costmodel search llama-3-70b-512 --into FOLDER --keep all --resume > best.txt

    --set fixes a key of the plan, unless the scenario's search lists that key; the plan of the file is only ranked.
    Ctrl-C prints the best plans so far; --resume continues from there, even after a crash.
    Exit code 1 when no plan fits; then the nearest plan is shown, and what to set instead.

    Next: costmodel estimate SCENARIO --set plan.tp=…
    """
    from costmodel.documents.reader.resolved_scenario import training
    from costmodel.explore.search.ranges import axes

    varied = axes(over or ())
    case = question.varied({axis.path: f"--over {axis.path}" for axis in varied}, "--over")
    if case.kind != "training":
        given = [("--into", into is not None), ("--keep all", keep is Keep.ALL), ("--resume", resume)]
        given += [("--engine", engine != "local"), ("--workers", workers is not None), ("--wait", bool(wait))]
        return _other_wing(case, top, pareto, varied, why_not=why_not, given=given)
    from costmodel.explore.search.refusals import examples
    from costmodel.explore.search.stream import SearchOptions
    from costmodel.report.machine import json_answer
    from costmodel.report.terminal.search import ranking

    if into is None and (resume or keep is Keep.ALL):
        raise fail("C021", f"{'--resume' if resume else '--keep all'} needs a folder", None, "add --into FOLDER")
    how = SearchOptions(engine, workers, into, keep is Keep.ALL, resume, wait=_seconds(wait))
    found = _found(training(case), how, top or TOP, pareto, varied)
    shown = examples(found) if why_not else None
    rows = "refused" if why_not else "pareto.plans" if pareto else "plans"
    count = top or (FRONT if pareto else TOP)
    lines, result = lambda: ranking.search(found, count, shown), lambda: json_answer.search(found, shown)
    forms = pages.of_search(found)
    return Reply(lines, result, rows, yes=bool(found.best), stopped=found.stopped, others=forms)


def _other_wing(
    case: LoadedScenario,
    top: int | None,
    pareto: str,
    over: Sequence[Axis],
    *,
    why_not: bool,
    given: Sequence[tuple[str, bool]],
) -> Reply:
    """The search of another workload, whose space is small: it takes none of the options for large ones."""
    if case.kind == "rl":
        from costmodel.commands import rl

        return rl.search(
            case, top or TOP, why_not=why_not, refused=[("--pareto", bool(pareto)), ("--over", bool(over)), *given]
        )
    from costmodel.commands import serving

    serving.without("search", [*given, ("--why-not beside --pareto", bool(pareto) and why_not)])
    if pareto:
        return serving.pareto(case, top or FRONT, pareto, over)
    return serving.search(case, top or TOP, over, why_not=why_not)


def _found(case: ResolvedScenario, how: SearchOptions, top: int, pareto: str, over: Sequence[Axis]) -> SearchResult:
    """The search itself, watched and ready to be stopped."""
    from costmodel.commands.output import printed
    from costmodel.commands.progress import metered, stoppable
    from costmodel.explore.search.search import search, with_remedies
    from costmodel.report.terminal.style.progress import of_search
    from costmodel.report.terminal.style.theme import styled

    objective = case.scenario.objective
    with stoppable() as stop, metered() as show:
        watch, notify = (
            lambda sight: show(of_search(sight, objective)),
            lambda words: printed([styled(words)], stderr=True),
        )
        how = replace(how, watch=watch, stop=stop, notify=notify)
        return with_remedies(search(case, top, pareto=pareto, over=over, how=how))


def _seconds(text: str) -> float:
    """How long to wait, in seconds."""
    from costmodel.explore.search.engine import WAIT
    from costmodel.ground.parsing import UnitError, parse

    try:
        seconds = parse(text, "s") if text else WAIT
    except UnitError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        place = Place("command line", 0, 8, "", f"--wait {text}", max(1, len(text)))
        raise fail("C020", f"'{text}' is no time", place, "for example --wait '5 min'")
    return seconds
