"""A collective by size: time with its band, nccl-tests' bandwidths, levels and algorithm, and how to measure it."""

from __future__ import annotations

import itertools
import math
from typing import Any

from rich.text import Text

from costmodel.explore.collective import CollectiveAnswer, SizeRow
from costmodel.ground.units import show, show_time, significant
from costmodel.report.terminal.style.answer import head
from costmodel.report.terminal.style.charts import line
from costmodel.report.terminal.style.formatting import BAND, between
from costmodel.report.terminal.style.head import machine_words
from costmodel.report.terminal.style.layout import CellTable, Line, typed
from costmodel.report.terminal.style.theme import HEAD, styled

_PROGRAMS = {"send": "sendrecv_perf", "all_to_all": "alltoall_perf"}
_WHY = {
    "ring": "ring: the least bytes on every link",
    "pairwise": "pairwise: each rank sends a part of its own to every other",
    "tree": "tree: fewer steps, which counts where latency does",
    "one send": "one send, over the slowest link between the two",
}


def collective(answer: CollectiveAnswer) -> list[Line]:
    """Columns as nccl-tests, and the command that would measure them."""
    case = answer.case
    links = f"{answer.inside:.0f} over {case.scale_up.name}" if answer.inside > 1 else ""
    apart = f"{answer.domains:.0f} domains over {case.scale_out.name}" if answer.domains > 1 else ""
    rows = [_cells(answer, row) for row in answer.rows]
    names = ("size", "time", BAND, "algbw", "busbw", "inside", "between", "algorithm")
    lines: list[Line] = [
        styled(f"{answer.operation.replace('_', '-')} on {machine_words(case)}", HEAD),
        styled(f"one group of {_ranks(answer)}: {' · '.join(filter(None, (links, apart)))}"),
        Text(),
        CellTable(names, rows, "rrrrrrrl", drop=("inside", "between", "algbw")),
        styled("  algbw, busbw in GB/s; inside and between are the times of the two levels, which overlap in part"),
        *(styled(f"  {_WHY[name]}") for name in dict.fromkeys(row.algorithm for row in answer.rows)),
    ]
    if len(answer.rows) > 2:
        points = [(row.size, row.busbw / 1e9) for row in answer.rows]
        lines += [Text(), line(points, ("size", "busbw, GB/s"), (lambda size: show(size, "B"), significant))]
    return [*lines, Text(), typed("Measure:", measuring(answer))]


def _ranks(answer: CollectiveAnswer) -> str:
    return "2 ranks" if answer.operation == "send" else f"{answer.ranks:,.0f} ranks"


def _cells(answer: CollectiveAnswer, row: SizeRow) -> tuple[str, ...]:
    levels = ("–" if level is None else show_time(level) for level in (row.inside, row.between))
    band = between(show_time(row.low), show_time(row.high))
    rates = (significant(row.algbw / 1e9), significant(row.busbw / 1e9))
    return (show(row.size, "B"), show_time(row.time), band, *rates, *levels, row.algorithm)


def measuring(answer: CollectiveAnswer) -> str:
    """The command of nccl-tests that measures these sizes."""
    program = _PROGRAMS.get(answer.operation, f"{answer.operation}_perf")
    sizes = f"-b {math.floor(answer.rows[0].size)} -e {math.ceil(answer.rows[-1].size)}{_factor(answer)}"
    each, nodes = answer.case.node.accelerators, answer.case.scenario.cluster.nodes
    if nodes == 1:
        return f"{program} {sizes} -g {2 if answer.operation == 'send' else int(each)}"
    return f"mpirun -np {answer.ranks:.0f} -N {each:.0f} {program} {sizes} -g 1"


def _factor(answer: CollectiveAnswer) -> str:
    """The option for the steps between sizes, where they are alike."""
    sizes = [row.size for row in answer.rows]
    steps = {round(after / before, 6) for before, after in itertools.pairwise(sizes)}
    return f" -f {steps.pop():g}" if len(steps) == 1 else " -f 2" if steps else ""


def collective_json(answer: CollectiveAnswer) -> dict[str, Any]:
    """The same as plain values."""
    return {
        **head("costmodel/collective/v1"),
        "operation": answer.operation,
        "ranks": int(answer.ranks),
        "ranks_inside": int(answer.inside),
        "domains": int(answer.domains),
        "accelerator": answer.case.accelerator.name,
        "node": answer.case.node.name,
        "measure": measuring(answer),
        "sizes": [
            {
                "size_bytes": row.size,
                "time_s": row.time,
                "time_p10_s": row.low,
                "time_p90_s": row.high,
                "algbw_bytes_per_s": row.algbw,
                "busbw_bytes_per_s": row.busbw,
                "inside_s": row.inside,
                "between_s": row.between,
                "algorithm": row.algorithm,
            }
            for row in answer.rows
        ],
    }
