"""The whole run of one training plan in a terminal: time, cost, emissions, losses, and possible improvements."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from costmodel.equations.run.economics import energy_cost
from costmodel.estimate.machine.price import price_of
from costmodel.estimate.run.whole_run import (
    COVERED,
    RunFigures,
    reshard,
    shares,
    spares_of,
    spares_wanted,
    speed_of_fewer,
    waiting_time,
)
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.failed_node import replicas_lost, whole_replicas
from costmodel.estimate.training_answer.evaluate_training import missing_input
from costmodel.ground.units import counted, percent, rounded_dollars, show, show_time, significant
from costmodel.report.answers.plan_parts import PlanRun, RunChange, RunFigure
from costmodel.report.data_formats.answer_fields import finite
from costmodel.report.terminal.formatting import range_beside, range_of, result
from costmodel.report.terminal.head import price_lines
from costmodel.report.terminal.layout import styled

if TYPE_CHECKING:
    from rich.text import Text

    from costmodel.estimate.training_answer.predict_training import Answer
    from costmodel.explore.explain.plan_choice_effects import ExplainedAnswer
    from costmodel.explore.explain.plan_remedies import RunOutlook


WELL = 0.95  # goodput from which what moves it is not asked about
_SPARES = "--set run.failures.repair=24h --set run.spares=99%"
_ENDLESS = 100.0  # times what is expected: hardly any work is saved
_FIGURES = (
    ("run time", "run_time"),
    ("cost", "run_cost"),
    ("goodput", "goodput"),
    ("energy", "energy"),
    ("emissions", "emissions"),
)


def training_run(answer: ExplainedAnswer) -> PlanRun:
    """The run of a plan."""
    found, costs = run_of(answer), answer.evaluation.costs.row()
    runs = not math.isnan(costs["goodput"])
    levers = improvements_of(answer).levers if costs["goodput"] < WELL else ()
    return PlanRun(
        [_run_figure(answer, *each, costs) for each in _FIGURES],
        run_parts(answer, found) if runs else {},
        "steps",
        _run_facts(answer, found, costs),
        _run_price_lines(answer),
        [RunChange(each.words, each.goodput, each.settings) for each in levers if each.goodput > costs["goodput"]],
        largest_part(answer, found) if runs else "",
        _run_fields(answer, found) if runs else {},
    )


def _run_fields(answer: ExplainedAnswer, found: RunFigures) -> dict[str, Any]:
    """Details of the run as plain values."""
    asked = answer.inputs.run
    assert asked is not None
    best, in_memory = improvements_of(answer).at_best_interval, asked.checkpoint.mode == "memory"
    return {
        "steps": finite(number(found.steps)),
        "interruptions": finite(number(found.interruptions)),
        "saves_to_memory": number(found.at.saves) if in_memory else None,
        "memory_interval_s": number(found.at.memory_interval) if in_memory else None,
        "load_s": number(found.saved.load),
        "best_interval_s": number(best.at.interval),
        "best_goodput": number(best.goodput),
        "electricity_usd": finite(_electricity_cost(answer)),
        "spares": finite(number(spares_of(answer.inputs, asked))),
        "spares_for_99_percent": finite(number(spares_wanted(answer.inputs, replace(asked, spares=0.0)))),
        "levers": [
            {"words": lever.words, "set": list(lever.settings), "goodput": lever.goodput}
            for lever in improvements_of(answer).levers
        ],
    }


def improvements_of(answer: ExplainedAnswer) -> RunOutlook:
    """The changes that would improve a run; the answer must have a run."""
    assert answer.outlook is not None
    return answer.outlook


def run_of(answer: Answer) -> RunFigures:
    """The figures of a run; the answer must have one."""
    found = answer.evaluation.run
    assert found is not None
    return found


def _run_price_lines(answer: Answer) -> list[Text]:
    """Lines on the price that the cost uses."""
    spot = None if answer.inputs.run is None else answer.inputs.run.spot
    if spot is not None:
        return [styled(f"  at {significant(float(spot.price) * 3600)} USD/GPU/h (run.spot.price of the scenario)")]
    return price_lines(price_of(answer.inputs.case), "  ", shown=False)


def _run_figure(answer: Answer, words: str, name: str, costs: dict[str, float]) -> RunFigure:
    """A result of the run with its band, or the missing input."""
    wanted = missing_input(answer.inputs, name)
    if wanted:
        return RunFigure(words, name, "unknown", wanted)
    if math.isnan(costs[name]):
        return RunFigure(words, name, "—", "")
    low, high = (costs[f"{name}_{end}"] for end in ("low", "high"))
    endless = name != "goodput" and high > _ENDLESS * costs[name]  # a share ends at the whole
    text = partial(result, name)
    band = range_of(text(low), "∞") if endless else range_beside(text, costs[name], low, high)
    of = " of CO2" if name == "emissions" else ""
    return RunFigure(words, name, f"{text(costs[name])}{of}", band)


def run_parts(answer: Answer, found: RunFigures) -> dict[str, float]:
    """Shares of the wall time: the steps and each loss."""
    assert answer.inputs.run is not None
    lost = {name: number(value) for name, value in shares(answer.inputs.run, found).items()}
    return {"steps": number(found.goodput), **lost}


def largest_part(answer: Answer, found: RunFigures) -> str:
    """The largest loss of the run; `steps` if little is lost."""
    parts = run_parts(answer, found)
    steps = parts.pop("steps")
    return "steps" if steps >= WELL else max(parts, key=lambda name: parts[name])


def _run_facts(answer: ExplainedAnswer, found: RunFigures, costs: dict[str, float]) -> list[tuple[str, str]]:
    """Pairs of label and text on interruptions, checkpoints, restarts and spare nodes."""
    asked = answer.inputs.run
    assert asked is not None
    band = f" ({range_beside(show_time, costs['mtbf'], costs['mtbf_low'], costs['mtbf_high'])})"
    band = band if costs["mtbf_low"] < costs["mtbf_high"] else ""
    count = number(found.interruptions) if costs["goodput"] == costs["goodput"] else math.nan
    counts = f", {counted(round(count))} in the run" if math.isfinite(count) else ""
    failures = ("failures", f"one every {show_time(costs['mtbf'])}{band}{counts}")
    rows = [failures, *_spare_node_facts(answer, costs), *_power_facts(answer, costs)]
    stop, write = show_time(costs["checkpoint_blocking"]), show_time(costs["checkpoint_write"])
    usable = "" if asked.checkpoint.mode == "sync" else f", complete {write} later"
    rows.append(("checkpoint", f"{show(costs['checkpoint_size'], 'B')}, blocks training for {stop}{usable}"))
    rows.append(("interval", _interval_facts(answer, found)))
    load = f"{show_time(number(found.saved.load))} to load the checkpoint"
    load += "" if asked.spares or asked.elastic or asked.restart.ranks else "; a replacement is assumed to be ready"
    rows.append(("restart", f"{show_time(costs['restart_time'])} ({load})"))
    rows += _fewer_ranks_facts(answer, found)
    rows += _electricity_facts(answer, costs)
    rows += _data_wait_facts(answer, found)
    return rows


def _interval_facts(answer: ExplainedAnswer, found: RunFigures) -> str:
    """The checkpoint interval, and the gain of the best interval if another one is stated."""
    asked = answer.inputs.run
    assert asked is not None
    every = show_time(number(found.at.interval))
    if asked.elastic is not None:
        return f"{every}; elastic continues without checkpoints"
    if asked.checkpoint.mode == "memory":
        every += f" to storage, {show_time(number(found.at.memory_interval))} to memory"
    if asked.checkpoint.interval is None and asked.checkpoint.steps is None:
        return f"a checkpoint every {every} of work, the optimum"
    best = improvements_of(answer).at_best_interval
    gained = number(best.goodput) - number(found.goodput)
    return f"{every} of work; {show_time(number(best.at.interval))} is best: {significant(gained * 100, 2)} points more"


def _spare_node_facts(answer: Answer, costs: dict[str, float]) -> list[tuple[str, str]]:
    """Spare nodes that are paid for or needed, and what the run is without them."""
    asked = answer.inputs.run
    assert asked is not None
    paid = f"{counted(number(spares_of(answer.inputs, asked)))} paid for; " if asked.spares else ""
    at_once = asked.elastic is None and asked.restart.ranks is None
    wanted = number(spares_wanted(answer.inputs, asked))
    if wanted != wanted:
        return [("spares", f"{paid or 'none; '}add {_SPARES}")]
    most = number(spares_wanted(answer.inputs, asked, "high"))
    time = percent(asked.spares if 0 < asked.spares < 1 else COVERED, 3).replace(".0 ", " ")
    covered = f"{paid}{counted(wanted)} nodes ({counted(most)} at P90) cover repairs {time} of the time"
    return [*([("no spares", _no_spares_words(answer, costs))] if at_once else []), ("spares", covered)]


def _no_spares_words(answer: Answer, costs: dict[str, float]) -> str:
    """The time and the cost of a run that waits for each repair."""
    asked, case = answer.inputs.run, answer.inputs.case
    assert asked is not None
    wall = costs["run_time"] + number(waiting_time(answer.inputs, asked, costs["run_time"]))
    ranks = number(answer.inputs.all_ranks)
    rented = ranks + number(spares_of(answer.inputs, asked)) * case.node.accelerators
    cost = costs["run_cost"] * wall / costs["run_time"] * ranks / rented
    paid = f", {rounded_dollars(cost)}" if math.isfinite(cost) else ""
    return f"{show_time(wall)}{paid}, as each failure waits for its repair"


def _power_facts(answer: Answer, costs: dict[str, float]) -> list[tuple[str, str]]:
    """The mean power of the run at the meter, and what it emits; empty if they are not known."""
    asked, power = answer.inputs.run, costs["energy"] / costs["run_time"]
    if asked is None or not math.isfinite(power):
        return []
    emitted = f"; {result('emissions', costs['emissions'])} of CO2 in all" if math.isfinite(costs["emissions"]) else ""
    return [("power", f"{show(power, 'W')} at the meter on average{emitted}")]


def _fewer_ranks_facts(answer: Answer, found: RunFigures) -> list[tuple[str, str]]:
    """Pairs of label and text on running with fewer ranks after an interruption; empty if that is impossible."""
    asked, block = answer.inputs.run, answer.evaluation.block
    if asked is not None and asked.elastic is not None:
        lost, replicas = (number(each) for each in (replicas_lost(answer.inputs, block), whole_replicas(block)))
        node = f"takes {counted(lost, 3)} of {counted(replicas)} replicas away"
        return [("failed node", f"{node} until its repair, {show_time(asked.elastic.repair)}")]
    if asked is None or asked.restart.ranks is None:
        return []
    left, repair = asked.restart.ranks, asked.failures.repair
    assert repair is not None
    speed = percent(number(speed_of_fewer(answer.inputs, asked, block)), 3)
    moved = show_time(number(reshard(answer.inputs, asked, block, found.saved)))
    return [
        ("until repair", f"{counted(left)} ranks for {show_time(repair)}, at {speed} of the speed; {moved} to reshard")
    ]


def _electricity_facts(answer: Answer, costs: dict[str, float]) -> list[tuple[str, str]]:
    """The cost of energy, if a tariff is stated."""
    asked = answer.inputs.run
    if asked is None or asked.power.tariff is None or costs["energy"] != costs["energy"]:
        return []
    tariff = asked.power.tariff
    paid = show(float(energy_cost(costs["energy"], tariff)), "USD")
    return [("electricity", f"{paid} at {show(tariff, 'USD/J')}, included in the rent")]


def _data_wait_facts(answer: Answer, found: RunFigures) -> list[tuple[str, str]]:
    """Pairs of label and text on a step that waits for data; empty if it does not."""
    step = answer.evaluation.costs.row()["step_time"]
    useful = number(found.useful) / number(found.steps)
    if not useful > step * (1 + 1e-9):
        return []
    return [("data", f"each step waits: {show_time(useful)} for its data, {show_time(step)} of computing")]


def _electricity_cost(answer: Answer) -> float:
    """The cost of the electricity of a run in USD; None if no tariff is stated."""
    tariff = None if answer.inputs.run is None else answer.inputs.run.power.tariff
    energy = answer.evaluation.costs.row()["energy"]
    return math.nan if tariff is None else number(energy_cost(energy, tariff))
