"""The section of `search` on what to measure before one of its plans is chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from costmodel.estimate.machine.price import price_of
from costmodel.explore.search.next_measurement import KERNELS, SECONDS, START, Advice, Measurement, logged_pool_ratio
from costmodel.explore.search.rank import Plan
from costmodel.explore.search.scenario_variants import Inputs
from costmodel.explore.workloads import workload_of
from costmodel.ground.errors import Place, fail
from costmodel.ground.parsing import UnitError, parse
from costmodel.ground.units import chance_words, counted, percent, rounded_dollars, show_time, significant
from costmodel.report.answers.search import SearchWords
from costmodel.report.data_formats.answer_fields import finite
from costmodel.report.document import Cell, Column, Section, Table, Value
from costmodel.report.terminal.formatting import and_list
from costmodel.report.terminal.head import command
from costmodel.report.terminal.layout import DIM, HEAD, Line, shell_line, styled

_SHOWN = 6  # measurements in a terminal
_IMPLAUSIBLE_RATIO = 10.0  # times the prediction, or less, from which a time is of something else
_HOUR = 3600.0


def measured_ratios(
    words: SearchWords[Inputs, Plan], texts: Sequence[str]
) -> tuple[dict[int, float], dict[int, float]]:
    """The ratio of measured to predicted time by line of the ranking, and of logged to predicted KV cache.

    Raises:
        CostModelError: a text is not a line of the ranking with a time or a log
    """
    usual, plans, gains = workload_of(words.case).usual_result, words.found.best, dict[int, float]()
    pools = dict[int, float]()
    for text in texts:
        line, _, time = text.partition("=")
        place = Place("command line", 0, 12, "", f"--measured {text}", max(1, len(text)))
        example = f"for example --measured '2={show_time(plans[0].costs[usual])}'" if plans else ""
        if Path(time).is_file() and line.isdecimal() and 1 <= int(line) <= len(plans):
            pools[int(line)] = logged_pool_ratio(words.found, int(line), time, place)
            continue
        try:
            at, seconds = int(line), parse(time, "s")
        except (ValueError, UnitError):
            at, seconds = 0, math.nan
        if not (1 <= at <= len(plans) and 0 < seconds < math.inf):
            hint = (
                f"{example}: a line from 1 to {len(plans)} and its {usual} with a unit, or a start-up log of its engine"
            )
            raise fail("C025", f"'{text}' is not a line of the ranking with its {usual}", place, hint)
        ratio = seconds / plans[at - 1].costs[usual]
        if at in gains or not 1 / _IMPLAUSIBLE_RATIO < ratio < _IMPLAUSIBLE_RATIO:
            twice = f"line {at} is measured twice"
            than = f"{significant(max(ratio, 1 / ratio))} times {'more' if ratio > 1 else 'less'} than predicted"
            odd = f"'{text}' is {than}"
            raise fail("C025", twice if at in gains else odd, place, f"state the {usual} of each line once, {example}")
        gains[at] = ratio
    return gains, pools


def next_measurement_section(words: SearchWords[Inputs, Plan], advice: Advice, given: Sequence[str]) -> Section:
    """The section on the certainty of the best plan, the cost and gain of each measurement, and its commands.

    given: the measurements, as the user typed them
    """
    first = advice.order[0][0]
    stated = (
        f"Plan {first} is really the best of these {advice.compared} with a chance of {chance_words(advice.chance)}; "
        f"the real best is on average {percent(advice.loss, 2)} better in {words.found.ranked_by}."
    )
    ahead: list[Line] = [styled("What to measure next", HEAD), styled(f"  {stated}")]
    none = "" if advice.measurements else "No measurement of ten minutes saves more than it takes."
    beneath: list[Line] = [styled(f"  {none}")] if none else [*_result_commands(words, advice, given)]
    return Section(
        "measure-next",
        "What to measure next",
        f"{stated} {none}".strip(),
        ahead=[*ahead, *_new_ranking_lines(words, advice)],
        table=_measurements_table(words, advice) if advice.measurements else None,
        beneath=beneath,
    )


def _measurements_table(words: SearchWords[Inputs, Plan], advice: Advice) -> Table:
    """A table of measurements: their GPU hours, cost, gain, and the shortest job for which they pay."""
    prices = {measurement: _price(words, advice, measurement) for measurement in advice.measurements}
    priced, has_end = any(map(math.isfinite, prices.values())), any(math.isfinite(price.saved) for price in prices)
    columns = [Column("measure", "l"), Column("GPUs"), Column("GPU hours", drop=2)]
    columns += [Column("cost", legend="the rent of these GPU hours")] if priced else []
    columns += [Column("gain", legend=f"expected, of {words.found.ranked_by}")]
    columns += [Column("saves", legend="expected, of the whole job")] if has_end else []
    columns.append(Column("pays after", legend="the job length from which measuring pays"))
    rows = list[list[Cell]]()
    for each in advice.measurements:
        row: list[Cell] = [measurement_words(each), counted(each.ranks), significant(each.busy / _HOUR)]
        cost = each.busy * prices[each]
        row += ([Value(rounded_dollars(cost), cost)] if math.isfinite(cost) else ["unknown"]) if priced else []
        row += [Value(percent(each.gain, 2), each.gain)]
        row += [Value(show_time(each.saved), each.saved)] if has_end else []
        rows.append([*row, Value(show_time(each.pays_after), each.pays_after)])
    return Table(columns, rows, sortable=True, most=_SHOWN)


def _new_ranking_lines(words: SearchWords[Inputs, Plan], advice: Advice) -> list[Line]:
    """Lines with the ranking after the measurements; empty without any."""
    if not (advice.measured or advice.pools):
        return []
    name = words.found.ranked_by
    usual = workload_of(words.case).usual_result
    lines: list[Line] = [styled("  With what was measured:")]
    for place, (line, change) in enumerate(advice.order, 1):
        plan = words.found.best[line - 1]
        now = words.result(name, plan.costs[name] * change)
        seen = (
            f", measured {show_time(plan.costs[usual] * advice.measured[line], 4)}" if line in advice.measured else ""
        )
        seen += f", cache of {percent(advice.pools[line], 3)} of the predicted one" if line in advice.pools else ""
        lines.append(styled(f"  {place:>3}  line {line}: {words.line(plan)}: {name} {now}{seen}", DIM))
    if name != usual and advice.measured:
        lines.append(styled(f"       {name} is taken to move as {usual} does", DIM))
    return lines


def best_measured_command(words: SearchWords[Inputs, Plan], advice: Advice) -> list[Line]:
    """The command for the best plan after the measurements; empty without any."""
    if not (advice.measured or advice.pools):
        return []
    first = advice.order[0][0]
    settings = words.settings(words.found.best[first - 1])
    return [shell_line(f"Next, plan {first}, the best now:", command(words.case, "estimate", settings=settings))]


def _price(words: SearchWords[Inputs, Plan], advice: Advice, each: Measurement) -> float:
    """The price in USD per second of an accelerator that a measurement uses."""
    plan = words.found.best[(each.lines[0] if each.lines else advice.order[0][0]) - 1]
    return float(price_of(words.found.inputs_of(plan.variant).case).each)


def measurement_words(each: Measurement) -> str:
    """A measurement in words, such as `plans 1 and 2 for ten minutes`."""
    if each.name == START:
        return f"start-up log of plan {each.lines[0]}"
    if each.lines:
        return f"{'plans' if len(each.lines) > 1 else 'plan'} {and_list(map(str, each.lines))} for ten minutes"
    return "kernels of one GPU" if each.name == KERNELS else f"collectives of {each.name}"


def _result_commands(words: SearchWords[Inputs, Plan], advice: Advice, given: Sequence[str]) -> list[Line]:
    """Commands that read the results of measurements, one for each kind of measurement shown."""
    lines, shown = list[Line](), advice.measurements[:_SHOWN]
    if runs := next((each.lines for each in shown if each.lines and each.name != START), ()):
        named = [part for time in (*given, *(f"{line}=TIME" for line in runs)) for part in ("--measured", time)]
        named += [
            part for axis in words.found.variants.over for part in ("--over", f"{axis.path}={','.join(axis.values)}")
        ]
        named += ["--top", f"{len(words.found.best)}"]
        lines.append(shell_line("Then:", command(words.case, "search", *named)))
    if any(each.name == KERNELS for each in shown):
        lines.append(
            shell_line("Kernels:", "costmodel measure -o kernels.csv && costmodel calibrate kernels.csv --write")
        )
    if start := next((each for each in shown if each.name == START), None):
        log = ("--measured", f"{start.lines[0]}=start.log", "--top", f"{len(words.found.best)}")
        lines.append(shell_line("Start-up log:", command(words.case, "search", *log)))
    if any(each.name not in ("", KERNELS, START) for each in shown):
        lines.append(shell_line("Collectives, the output of nccl-tests:", "costmodel calibrate nccl.txt --write"))
    return lines


def next_measurement_json(words: SearchWords[Inputs, Plan], advice: Advice) -> dict[str, Any]:
    """The certainty of the best plan and all measurements as plain values."""
    return {
        "compared": advice.compared,
        "best": advice.order[0][0],
        "chance": advice.chance,
        "expected_loss": advice.loss,
        "result": words.found.ranked_by,
        "order": [
            {
                "line": line,
                "over_predicted": change,
                "measured": line in advice.measured,
                "pool_over_predicted": advice.pools.get(line),
            }
            for line, change in advice.order
        ],
        "measurements": [
            _measurement_fields(measurement, _price(words, advice, measurement)) for measurement in advice.measurements
        ],
    }


def _measurement_fields(each: Measurement, price: float) -> Mapping[str, Any]:
    """A measurement as plain values: its cost in USD and GPU hours, and its gain."""
    return {
        "measure": measurement_words(each),
        "lines": list(each.lines),
        "gpus": each.ranks,
        "seconds": SECONDS * max(len(each.lines), 1),
        "gpu_hours": each.busy / _HOUR,
        "cost_usd": finite(each.busy * price),
        "gain": each.gain,
        "saved_s": finite(each.saved),
        "pays_after_s": finite(each.pays_after),
    }
