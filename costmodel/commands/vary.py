"""sweep, scale, sensitivity, solve: how results change with inputs, and which inputs reach a target."""

from __future__ import annotations

from typing import Annotated

import typer

from costmodel.commands.answer_options import PAGE, answering_in, optional
from costmodel.commands.replies import document_reply
from costmodel.commands.scenario_options import Question, question_command, with_plan
from costmodel.report.terminal.layout import Reply

BestOption = Annotated[
    bool,
    typer.Option(
        "--best", help="Use the best plan at each value, within the plan keys of --set, instead of the scenario's plan"
    ),
]
OverOption = Annotated[
    list[str],
    optional(
        "--over",
        metavar="PATH=VALUES",
        help="A key and its values: 1,2,4 · 1,2 s (a unit for both) · 1..8 · 25..400 GB/s*2 · 8..64+8; repeatable",
    ),
]
ShowOption = Annotated[
    str, typer.Option("--show", metavar="A,B", help="Results to show; in training by default step_time,mfu,memory_peak")
]


@answering_in("jsonl", "parquet", *PAGE)
@question_command
def sweep(
    question: Question,
    over: OverOption,
    show: ShowOption = "",
    best: BestOption = False,
    chart: Annotated[bool, typer.Option("--chart", help="Draw the first result along the only axis")] = False,
) -> Reply:
    """Show how results change with any key of the scenario, including hardware figures, or with several keys at once.

    Examples:
      costmodel sweep llama-3-70b-512 --over plan.tp=1,2,4,8 --over plan.micro_batch=1,2 --show mfu,memory_peak
      costmodel sweep llama-3-70b-512 --over "cluster.fabric.bandwidth=25..400 GB/s*2" --show step_time --chart
      costmodel sweep --model llama-3.1-8b --gpu h100 --over cluster.nodes=1,2,4

    An invalid combination is a row with the reason. If the scenario has no plan, the best plan is used for each row.
    Ctrl-C prints the rows so far.
    Exit code 1 when no combination works, or a key accepts none of these values (D006, D007, D009, D010).

    Next: costmodel solve SCENARIO --over PATH --for 'mfu>=45 %'
    """
    from costmodel.commands.progress import watch_until_interrupt
    from costmodel.explore.search.value_ranges import axes
    from costmodel.explore.vary.sweep import sweep as run
    from costmodel.explore.workloads import workload_of
    from costmodel.report.answers import sweep as report

    varied = axes(question.over(over))
    case = question.varied({axis.path: f"--over {axis.path}" for axis in varied}, "--over")
    with watch_until_interrupt("combinations") as pace:
        swept = run(workload_of(case), varied, show, best=best, alone=question.is_alone, pace=pace)
    return document_reply(
        lambda: report.sweep_document(swept, chart=chart),
        lambda: report.sweep_json(swept),
        "points",
        yes=swept.is_answered,
        stopped=len(swept.points) < swept.total,
        found=swept,
    )


def _option_of_sizes(ranks: str, rate: str) -> str:
    """The option that states the sizes of `scale`: --ranks, or --rate for a service."""
    if ranks:
        return "--ranks"
    return "--rate" if rate else "the rate"


@answering_in(*PAGE)
@question_command
def scale(
    question: Question,
    ranks: Annotated[
        str, typer.Option("--ranks", metavar="A..B", help="Accelerators: 64..4096 doubles; 64,96,128 or 8..64+8")
    ] = "",
    rate: Annotated[
        str,
        typer.Option(
            "--rate", metavar="A..B", help="For a serving scenario: requests per second, written as for --ranks"
        ),
    ] = "",
    weak: Annotated[bool, typer.Option("--weak/--strong", help="Grow the batch with the ranks, or keep it")] = False,
    best: BestOption = False,
) -> Reply:
    """Show what more accelerators gain: strong or weak scaling, where efficiency falls, and which terms grow.

    Examples:
      costmodel scale llama-3-70b-512 --ranks 64..4096
      costmodel scale llama-3-70b-512 --ranks 64..1024 --weak --best
      costmodel scale --model llama-3.1-8b --gpu h100 --ranks 8..64

    Efficiency is the throughput per accelerator relative to the smallest size; dp follows from the ranks.
    If the scenario has no plan, the best plan is used at each size. A serving scenario is scaled by --rate, with as
    many replicas as its limits need. Exit code 1 when no size works.

    Next: costmodel search SCENARIO --set cluster.nodes=…
    """
    from costmodel.commands.progress import watch_until_interrupt
    from costmodel.explore.vary.scale import scale as run
    from costmodel.explore.workloads import workload_of
    from costmodel.report.answers import scale as report

    sized = {"workload.rate": "--rate"} if rate and question.scenario else {}
    case = question.of_rate(rate).varied({"cluster.nodes": _option_of_sizes(ranks, rate), **sized})
    with watch_until_interrupt("sizes") as pace:
        sizes_tried = run(workload_of(case), ranks, rate, weak=weak, best=best, alone=question.is_alone, pace=pace)
    works = any(row.found.point.works for row in sizes_tried.rows)
    document, result = lambda: report.scale_document(sizes_tried), lambda: report.scale_json(sizes_tried)
    return document_reply(document, result, "sizes", yes=works, stopped=sizes_tried.stopped, found=sizes_tried)


@answering_in(*PAGE)
@question_command
def sensitivity(
    question: Question,
    of: Annotated[
        str,
        typer.Option(
            "--of", metavar="RESULT", help="The result to examine", show_default="step_time, tpot, iteration_time"
        ),
    ] = "",
    top: Annotated[
        int | None,
        typer.Option("--top", "-n", min=1, max=1000, help="How many figures to show", show_default="16 with -v"),
    ] = None,
) -> Reply:
    """Show which inputs affect the answer most: fitted constants vary by their spread, all others by 10 %.

    Examples:
      costmodel sensitivity llama-3-70b-512
      costmodel sensitivity llama-3-70b-512 --of memory_peak --top 5

    The last lines show the gain from 10 % more of each hardware figure, the bottleneck first.

    Next: costmodel solve SCENARIO --over PATH --for 'mfu>=45 %'
    """
    from costmodel.commands.progress import watch_without_stop
    from costmodel.explore.search.rank import named_result
    from costmodel.explore.vary.sensitivity import sensitivity as run
    from costmodel.explore.workloads import workload_of
    from costmodel.report.answers import sensitivity as report

    asked = workload_of(with_plan(question.loaded()))
    with watch_without_stop("figures") as pace:
        knobs = run(asked, named_result(of, asked.columns, "--of", of) if of else "", pace)
    return document_reply(
        lambda: report.sensitivity_document(knobs, top), lambda: report.sensitivity_json(knobs), "figures", found=knobs
    )


@answering_in(*PAGE)
@question_command
def solve(
    question: Question,
    over: Annotated[
        str, typer.Option("--over", metavar="PATH[=A..B]", help="The key to change, and optionally the range to search")
    ],
    wanted: Annotated[str, typer.Option("--for", metavar="RESULT>=VALUE", help="The target")],
    best: BestOption = False,
) -> Reply:
    """Find the values of one key that reach a target, a deadline or a budget.

    Examples:
      costmodel solve llama-3-70b-512 --over cluster.fabric.bandwidth --for "mfu>=45 %"
      costmodel solve llama-3-70b-512 --over cluster.nodes=8..256*2 --for "run_time<=200 d"

    Only plans that are valid, fit and meet their limits count. After Ctrl-C the answer covers the values tried so far.
    Exit code 1 when no value reaches the target.

    Next: costmodel estimate SCENARIO --set PATH=VALUE
    """
    from costmodel.commands.progress import watch_until_interrupt
    from costmodel.documents.keys.overrides import full
    from costmodel.explore.vary.solve import solve as run
    from costmodel.explore.workloads import workload_of
    from costmodel.report.answers import solve as report

    name, ranged, values = over.partition("=")
    path = name.strip() if ranged and name.strip() == "gpus" else question.key_of(name.strip())
    case = question.varied({full(path): f"--over {path}"} if ranged else {})
    with watch_until_interrupt("values") as pace:
        varied = f"{path}{ranged}{values}"
        solution = run(workload_of(case), varied, wanted, best=best, alone=question.is_alone, pace=pace)
    return document_reply(
        lambda: report.solve_document(solution),
        lambda: report.solve_json(solution),
        "ranges",
        yes=bool(solution.reaches),
        stopped=solution.stopped,
        found=solution,
    )
