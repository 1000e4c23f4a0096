"""The answers about one collective: its time and bandwidth by message size, and a ring all-reduce step by step."""

from __future__ import annotations

import itertools
import math
import shlex
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.text import Text

from costmodel.documents.reader.library import UNMEASURED
from costmodel.estimate.machine.collective_time import ALGORITHMS, FITTED
from costmodel.estimate.shared.reasons import REMARKS
from costmodel.evidence.measure.ring import RingRun
from costmodel.explore.collective import Ring, RingStep, signed_error
from costmodel.ground.parsing import parse
from costmodel.ground.units import percent, show, show_time, significant
from costmodel.report.answers.explain import figure_rows, figures_section, tree_section
from costmodel.report.document import AnswerDocument, Cell, Column, Draw, Section, Table, Value
from costmodel.report.terminal.charts import line_chart
from costmodel.report.terminal.formatting import BAND, range_beside, signed_percent
from costmodel.report.terminal.head import machine_words
from costmodel.report.terminal.layout import HEAD, WARN, CellTable, Detail, Line, schema_head, shell_line, styled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from costmodel.evidence.calibrate.fit_from_kernels import Soundness
    from costmodel.explore.collective import CollectiveAnswer, SizeRow
    from costmodel.explore.explain.equation_trees import ExplainedFigure


# --- A collective by size


_PROGRAMS = {"send": "sendrecv_perf", "all_to_all": "alltoall_perf"}
_FASTER = 0.98  # of the time alone, under which a step counts a collective as faster: judged
_CHARTED = 3  # sizes from which on a chart explains more than the table
_WHY = {each.name: each.meaning for each in ALGORITHMS} | {
    "chain": "chain: small pieces follow each other over every link",
    "pairwise": "pairwise: each rank sends its own part to every other rank",
    "nvls-tree": "NVLS inside, a tree between",
}


def collective_document(answer: CollectiveAnswer) -> AnswerDocument:
    """The times of a collective by size, in the columns of nccl-tests, with measured times and a command to measure."""
    last = answer.rows[-1]
    fastest = f"{show(last.size, 'B')} take {show_time(last.time)}, {significant(last.busbw / 1e9)} GB/s busbw."
    slow = answer.sound is not None and answer.sound.verdict == "slower"
    return AnswerDocument(
        answer.case,
        _collective_title(answer),
        _head_lines(answer),
        fastest,
        "warn" if slow else "plain",
        [_sizes_section(answer), *_verdict_section(answer), *_chart_section(answer)],
        closing=[shell_line("Measure:", nccl_tests_command(answer)), shell_line("Next:", _explain_command(answer))],
    )


def _collective_title(answer: CollectiveAnswer) -> str:
    """The title of the answer: the operation and the machine."""
    return f"{_operation_words(answer.operation)} on {machine_words(answer.case)}"


def _head_lines(answer: CollectiveAnswer) -> list[Line]:
    """The machine, the group with its links, and remarks."""
    case, remarks = answer.case, [styled(remark, WARN) for remark in _remark_texts(answer)]
    links = f"{answer.inside:.0f} over {case.scale_up.name}" if answer.inside > 1 else ""
    apart = f"{answer.domains:.0f} domains over {case.scale_out.name}" if answer.domains > 1 else ""
    group = styled(f"one group of {_rank_words(answer)}: {' · '.join(filter(None, (links, apart)))}")
    return [styled(_collective_title(answer), HEAD), group, *remarks]


def _explain_command(answer: CollectiveAnswer) -> str:
    """The command that explains the time of the largest size."""
    size, words, settings = answer.rows[-1].size, [*answer.case.asked.words], [*answer.case.assignments]
    at = words.index("--model")  # a collective depends on none
    del words[at : at + 2]
    if "--gpus" not in words:
        settings.remove("cluster.nodes=1")  # as without --gpus
    text = show(size, "B").replace(" ", "")
    text = text if parse(text, "B") == size else f"{size:.0f}B"
    stated = (_operation_words(answer.operation), text, *([answer.wanted] if answer.wanted else []))
    return shlex.join(
        ["costmodel", "explain", "collective", *stated, *words, *(f"--set={setting}" for setting in settings)]
    )


def collective_explanation(
    answer: CollectiveAnswer, nodes: Mapping[str, ExplainedFigure], depth: int | None
) -> AnswerDocument:
    """The time of the largest size as a tree of equations, and the time that a training step counts for it."""
    last = answer.rows[-1]
    stated: list[tuple[ExplainedFigure, str, str]] = []
    for node in nodes.values():
        what = f"{_operation_words(answer.operation)} of {show(last.size, 'B')}"
        alone = f"{what} alone, by {last.algorithm}{_binding_words(answer)}"
        meant = alone if node.name == "time" else "the same in a training step, which computes at the same time"
        stated.append((node, show_time(node.value, 4), meant))
    conclusion = f"{'; '.join(f'{node.name} is {words}' for node, words, _ in stated)}."
    sections = [figures_section(stated), *(tree_section(*each, depth) for each in stated)]
    return AnswerDocument(
        answer.case, _collective_title(answer), _head_lines(answer), conclusion, "plain", sections, nodes=lambda: nodes
    )


def collective_explanation_json(answer: CollectiveAnswer, nodes: Mapping[str, ExplainedFigure]) -> dict[str, Any]:
    """The trees of equations as plain values; asked: the row numbers of the two times."""
    rows, asked = figure_rows([*nodes.values()])
    stated = {"operation": answer.operation, "size_bytes": answer.rows[-1].size, "algorithm": answer.rows[-1].algorithm}
    return {**schema_head("costmodel/explanation/v2"), **stated, "asked": asked, "figures": rows}


def _sizes_section(answer: CollectiveAnswer) -> Section:
    """The section with the table and the plot of all sizes."""
    reasons = [styled(f"  {words}") for words in _reason_texts(answer)]
    figures = [partial(_draw_busbw, answer)] if len(answer.rows) >= _CHARTED else []
    return Section("sizes", "By size", "", figures, table=_sizes_table(answer), beneath=reasons)


def _draw_busbw(answer: CollectiveAnswer) -> Draw:
    """A plot of the bus bandwidth in GB/s by message size, predicted and measured."""
    from costmodel.report.page.plots import Plot, PlotAxis, PlotLine, PlotPoint

    line = [(row.size, row.busbw) for row in answer.rows]
    points = [PlotPoint(size, rate, "first", f"{show(size, 'B')}: {significant(rate / 1e9)} GB/s", "predicted")
              for size, rate in line]  # fmt: skip
    points += [PlotPoint(row.size, row.measured_busbw, "second", "measured", "measured")
               for row in answer.rows if row.measured_busbw]  # fmt: skip
    seen = {point.role for point in points}
    legend = [each for each in (("first", "predicted"), ("second", "measured")) if each[0] in seen]
    x = PlotAxis("size", lambda size: show(size, "B"), True)
    y = PlotAxis("busbw, GB/s", lambda rate: significant(rate / 1e9), unit=1e9)
    words = f"{len(answer.rows)} sizes up to {show(answer.rows[-1].size, 'B')}."
    return Plot("sizes", "Bus bandwidth by size", words, x, y, points, [PlotLine(line, "first")], legend)


def _remark_texts(answer: CollectiveAnswer) -> tuple[str, ...]:
    """Remarks on the flags, and on sizes outside the range of the fits."""
    title = f"N054 {REMARKS['N054'].title}"
    return (*answer.remarks, *(f"{title}: {each.words}, so the band is wider" for each in answer.outside))


def _operation_words(operation: str) -> str:
    """The name of an operation with hyphens, such as all-reduce."""
    return operation.replace("_", "-")


def _rank_words(answer: CollectiveAnswer) -> str:
    """The number of ranks in words."""
    return "2 ranks" if answer.operation == "send" else f"{answer.ranks:,.0f} ranks"


def _sizes_table(answer: CollectiveAnswer) -> Table:
    """A table with a row for each size: its time, band, rates and algorithm, beside measured times."""
    beside, alone = answer.measured is not None, "GB/s alone, as nccl-tests measures it"
    columns = [Column("size"), Column("time"), Column(BAND, drop=6 if beside else 0)]
    columns += [Column("measured"), Column("error")] if beside else []
    columns += [Column("algbw", drop=3, legend=alone), Column("busbw", legend=alone)]
    columns += [Column("in step", drop=4, legend="GB/s busbw in a training step")]
    columns += [Column("inside", drop=1), Column("between", drop=2), Column("algorithm", "l", drop=5 if beside else 0)]
    return Table(columns, [_row_cells(row, measured=beside) for row in answer.rows])


def _row_cells(row: SizeRow, *, measured: bool) -> list[Cell]:
    """The table row of one message size: time, band, measured time, rates, algorithm."""
    levels = ("–" if level is None else Value(show_time(level), level) for level in (row.inside, row.between))
    band = range_beside(show_time, row.time, row.low, row.high)
    rates = (significant(row.algbw / 1e9), significant(row.busbw / 1e9), significant(row.in_step_busbw / 1e9))
    real = row.measured
    beside = ("–", "–") if real is None else (show_time(real), signed_percent(signed_error(row.time, real)))
    known = (Value(show_time(row.time), row.time), band, *(beside if measured else ()))
    return [show(row.size, "B"), *known, *rates, *levels, row.algorithm]


def _reason_texts(answer: CollectiveAnswer) -> Iterator[str]:
    """Sentences on which algorithms are chosen and why, and on a fit borrowed from another collective."""
    if answer.operation == "send":
        yield "one send, over the slowest link between the two"
    else:
        for name in dict.fromkeys(row.algorithm for row in answer.rows):
            why = "by the fit of the library's own choice" if name == FITTED and answer.outside else _WHY[name]
            if name == FITTED and answer.case.efficiency.of == UNMEASURED:
                why = f"carried over from measured links: no collective was measured on {answer.case.scale_up.name}"
            yield f"{why}{_compared_algorithm(answer, name)}"
        if answer.rows[-1].waits:
            yield f"at {show(answer.rows[-1].size, 'B')}{_binding_words(answer)}"
        if answer.domains > 1 and any(row.in_step < _FASTER * row.time for row in answer.rows):
            yield "in step above busbw: predicted steps do not count that wait, so they may be too fast here"
    if answer.stand_in:
        yield f"inside as {_operation_words(answer.stand_in)}: no {_operation_words(answer.operation)} was fitted"


def _binding_words(answer: CollectiveAnswer) -> str:
    """Words on which link takes longest for the largest size, if those inside domains slow it down; else empty."""
    row, inner, outer = answer.rows[-1], answer.case.scale_up.name, answer.case.scale_out.name
    if not row.waits:
        return ""
    if (row.inside or 0.0) > (row.between or 0.0):
        return f": {inner} inside the domains takes longest"
    return f": {outer} between the domains takes longest, held back by {inner}, which passes its bytes on inside them"


def _compared_algorithm(answer: CollectiveAnswer, name: str) -> str:
    """The time of an algorithm and of the next best one, at the size where they differ most, as text."""
    rows = [row for row in answer.rows if row.algorithm == name and len(row.algorithms) > 1]
    if not rows:
        return ""
    row = rows[0] if name in ("tree", "fitted") else rows[-1]
    (mine, *_) = row.algorithms.values()
    slower = ((other, its) for other, its in row.algorithms.items() if show_time(its) != show_time(mine))
    other, its = next(slower, ("", 0.0))
    return f": {show_time(mine)} at {show(row.size, 'B')}, {other} {show_time(its)}" if other else ""


def _verdict_section(answer: CollectiveAnswer) -> list[Section]:
    """A section on whether the measured fabric is slower than healthy fabrics; empty without a measurement."""
    soundness = answer.sound
    if soundness is None:
        return []
    kind = answer.case.scale_out.name if answer.domains > 1 else answer.case.scale_up.name
    rates = f"{soundness.measured / 1e9:.3g} GB/s busbw, {soundness.predicted / 1e9:.3g} predicted"
    words = fabric_verdict(soundness, f" of this kind ({kind})")
    ahead = [styled(f"Measured from {show(soundness.message, 'B')}: {rates}:", HEAD)]
    beneath = [styled(f"  {words}", WARN if soundness.verdict == "slower" else "")]
    return [Section("measured", "Measured", f"{rates}.", ahead=ahead, beneath=beneath)]


def _chart_section(answer: CollectiveAnswer) -> list[Section]:
    """A section with the bus bandwidth by size as a chart for the terminal; empty for few sizes."""
    if len(answer.rows) < _CHARTED:
        return []
    points = [(row.size, row.busbw / 1e9) for row in answer.rows]
    real = [(row.size, row.measured_busbw / 1e9) for row in answer.rows if row.measured_busbw]
    title = "busbw, GB/s: ● predicted, ○ measured" if real else "busbw, GB/s"
    drawing = line_chart(points, ("size", title), (lambda size: show(size, "B"), significant), real)
    return [Section("chart", "", ahead=[drawing], face="terminal", detail="busbw drawn by size")]


def nccl_tests_command(answer: CollectiveAnswer) -> str:
    """The nccl-tests command that measures these sizes."""
    program = _PROGRAMS.get(answer.operation, f"{answer.operation}_perf")
    sizes = f"-b {math.floor(answer.rows[0].size)} -e {math.ceil(answer.rows[-1].size)}{_factor_option(answer)}"
    each, nodes = answer.case.node.accelerators, answer.case.scenario.cluster.nodes
    if nodes == 1:
        return f"{program} {sizes} -g {2 if answer.operation == 'send' else int(each)}"
    return f"mpirun -np {answer.ranks:.0f} -N {each:.0f} {program} {sizes} -g 1"


def _factor_option(answer: CollectiveAnswer) -> str:
    """The nccl-tests option -f for the factor between sizes; empty for a single size."""
    sizes = [row.size for row in answer.rows]
    steps = {round(after / before, 6) for before, after in itertools.pairwise(sizes)}
    return f" -f {steps.pop():g}" if len(steps) == 1 else " -f 2" if steps else ""


def collective_json(answer: CollectiveAnswer) -> dict[str, Any]:
    """The predicted collective as plain values."""
    return {
        **schema_head("costmodel/collective/v1"),
        "operation": answer.operation,
        "ranks": int(answer.ranks),
        "ranks_inside": int(answer.inside),
        "domains": int(answer.domains),
        "accelerator": answer.case.accelerator.name,
        "node": answer.case.node.name,
        "measure": nccl_tests_command(answer),
        "inside_as": answer.stand_in or None,
        "remarks": list(_remark_texts(answer)),
        "measured": _measured_fields(answer),
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
                "algorithms_s": row.algorithms,
                "in_step_s": row.in_step,
                "in_step_busbw_bytes_per_s": row.in_step_busbw,
                "measured_s": row.measured,
                "error": None if row.measured is None else signed_error(row.time, row.measured),
            }
            for row in answer.rows
        ],
    }


def fabric_verdict(soundness: Soundness, kind: str = "") -> str:
    """How fast a measured fabric is beside healthy ones, in words; kind: words on what they have in common."""
    same, apart = soundness.verdict == "sound", percent(soundness.apart, 2)
    speed = "as fast as" if same else f"{percent(abs(soundness.error), 2)} {soundness.verdict} than"
    return f"{speed} healthy fabrics{kind}, which differ by up to {apart}"


def fabric_fields(soundness: Soundness) -> dict[str, Any]:
    """A measured fabric beside healthy ones as plain values: bus bandwidths in bytes per second, and the verdict."""
    return {
        "from_bytes": soundness.message,
        "busbw_bytes_per_s": soundness.measured,
        "sound_busbw_bytes_per_s": soundness.predicted,
        "error": soundness.error,
        "apart": soundness.apart,
        "verdict": soundness.verdict,
    }


def _measured_fields(answer: CollectiveAnswer) -> dict[str, Any] | None:
    """Measured and predicted bus bandwidth as plain values, with the verdict on the fabric."""
    soundness, measured = answer.sound, answer.measured
    if soundness is None or measured is None:
        return None
    return {"file": measured.file, "device": measured.device, **fabric_fields(soundness)}


# --- the table of a ring all-reduce: a step a row, a rank a column


_MOST_RANK_COLUMNS, _MOST_RANK_COLUMNS_MEASURED = 6, 5  # ranks of which each has a column; beside measured times
_BRIEF = 3  # steps of each half in a short answer


def ring_lines(found: Ring, origin: str = "", ran: RingRun | None = None) -> list[Line]:
    """Which rank sends which chunk in each step of a ring all-reduce, and the total time.

    origin: where the rate of a link comes from, if it is not stated. ran: a real run to compare with
    """
    chunk = show(found.message / found.ranks, "B")
    link = f"{show(found.bandwidth, 'B/s')}{f' ({origin})' if origin else ''}"
    lines: list[Line] = [
        Text.assemble(("ring-all-reduce", HEAD), f"  {found.ranks} ranks, {show(found.message, 'B')} each"),
        Text(),
        styled(f"  The buffer is cut into {found.ranks} chunks of {chunk}. In each step every rank sends one chunk to"),
        styled("  the next rank: n − 1 steps add the chunks up, n − 1 more pass the sums on."),
        styled(f"  A step takes {show_time(found.each)}: {_latency_words(found)} and {chunk} over {link}."),
        *_slow_hop_lines(found),
        Text(),
    ]
    brief = [step for step in found.steps if step.number < _BRIEF]
    if len(brief) < len(found.steps):
        lines.append(Detail([_ring_table(found, brief, ran)], brief=True))
        lines.append(Detail([_ring_table(found, found.steps, ran)], f"all {len(found.steps)} steps"))
    else:
        lines.append(_ring_table(found, found.steps, ran))
    across = _MOST_RANK_COLUMNS if ran is None else _MOST_RANK_COLUMNS_MEASURED
    if found.ranks > across:
        lines.append(styled(f"  ranks {across} to {found.ranks - 1} likewise: rank r sends one chunk further on"))
    sent = show(found.message * 2 * (found.ranks - 1) / found.ranks, "B")
    lines += [Text(), styled(f"  all {len(found.steps)} steps take {show_time(found.total)}; each rank sends {sent}")]
    lines += _ring_run_lines(found, ran) if ran else []
    lines += [styled("  a cell is the chunk and the rank it goes to; formula: costmodel explain ring_time")]
    return lines


def _latency_words(found: Ring) -> str:
    """The latency of a step, or the option that states one."""
    return show_time(found.latency) if found.latency else "no latency (--latency)"


def _slow_hop_lines(found: Ring) -> list[Line]:
    """Lines on the hops between domains, for which every step waits if they are the slower ones."""
    if found.domain >= found.ranks:
        return []
    last, inside = found.domain - 1, show(found.inside, "B/s")
    slow = "so each step waits for the network" if found.bandwidth < found.inside else "no more than the network"
    hops = f"hops such as {last} → {last + 1} cross the network"
    return [
        styled(f"  Each {found.domain} ranks share a domain: {hops} over all its interfaces"),
        styled(f"  at once, a ring for each. Hops inside have {inside}, {slow}."),
    ]


def _ring_table(found: Ring, steps: Sequence[RingStep], ran: RingRun | None) -> CellTable:
    """The chunk that each of the first ranks sends in these steps, and to which rank."""
    across = _MOST_RANK_COLUMNS if ran is None else _MOST_RANK_COLUMNS_MEASURED
    shown = range(min(found.ranks, across))
    rows = [
        (
            f"{found.steps.index(step) + 1}",
            "adds" if step.half == "scatter" else "passes on",
            show_time(step.starts),
            *([] if ran is None else [show_time(ran.steps[found.steps.index(step)])]),
            *(f"{step.chunks[rank]} → {(rank + 1) % found.ranks}" for rank in shown),
        )
        for step in steps
    ]
    names = ("step", "", "starts", *(["took"] if ran else []), *(f"rank {rank}" for rank in shown))
    return CellTable(names, rows, f"rlr{'r' * (len(names) - 3)}")


def _ring_run_lines(found: Ring, ran: RingRun) -> list[Line]:
    """Lines on a real run of the ring: its time, the bytes sent, and whether the sums are right."""
    times = f"  measured here: {show_time(ran.total)}, predicted {found.total / ran.total - 1:+.0%}"
    sums = "every rank has the sums" if ran.summed else "a rank does not have the sums"
    lines: list[Line] = [styled(f"{times}; each rank sent {show(float(ran.sent), 'B')}; {sums}")]
    if found.ranks > ran.processors:
        sentence = f"  {found.ranks} processes share {ran.processors} processors, so steps vary"
        lines.append(styled(f"{sentence}; steps that add take longer", WARN))
    return lines


def ring_json(found: Ring, ran: RingRun | None = None) -> dict[str, Any]:
    """The ring all-reduce as plain values, in seconds and bytes."""
    real: dict[str, Any] = {}
    if ran is not None:
        real = {"total_s": ran.total, "steps_s": list(ran.steps), "sent_bytes": ran.sent, "summed": ran.summed}
    return {
        **schema_head("costmodel/ring/v1"),
        "ranks": found.ranks,
        "message_bytes": found.message,
        "bandwidth_bytes_per_s": found.bandwidth,
        "latency_s": found.latency,
        "step_s": found.each,
        "total_s": found.total,
        "steps": [
            {"half": step.half, "step": step.number, "starts_s": step.starts, "chunks": list(step.chunks)}
            for step in found.steps
        ],
        **({"measured": real} if real else {}),
    }
