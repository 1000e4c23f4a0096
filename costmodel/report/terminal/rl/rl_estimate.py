"""An iteration of reinforcement learning: its time and where that goes, memory, cost, and what it waits for."""

from __future__ import annotations

import math

from costmodel.documents.schemas.default_values import SAFE
from costmodel.documents.schemas.results import machine_name
from costmodel.documents.schemas.rl.rl_results import PHASES
from costmodel.estimate.machine.number_formats import cap_over_rating
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.ground.units import counted, gib, rounded_dollars, rounded_percent, show_time, significant
from costmodel.report.answers.plan_parts import TimePart
from costmodel.report.document import made_of, traced
from costmodel.report.terminal.rl.rl_formatting import NAMES, fit_words, reason, result
from costmodel.report.terminal.style.formatting import BAND, ENDS, between
from costmodel.report.terminal.style.layout import CellTable, Line
from costmodel.report.terminal.style.theme import styled


def estimate_lines(answer: RlAnswer) -> list[Line]:
    """The figures one asks for first, two to a line."""
    costs, workload = answer.costs, answer.inputs.case.scenario.workload
    band = between(*(result("iteration_time", costs[f"iteration_time_{end}"]) for end in ENDS))
    used = f"{gib(answer.memory.peak)} of {gib(answer.memory.usable)} GiB, {fit_words(costs)}"
    rows = [
        (
            "iteration",
            result("iteration_time", costs["iteration_time"]),
            "answers",
            result("answers_per_s", costs["answers_per_s"]),
        ),
        (BAND, band, "per GPU", result("tokens_per_s_per_gpu", costs["tokens_per_s_per_gpu"])),
        ("memory", used, "cost", _cost(answer)),
    ]
    lines: list[Line] = [CellTable([""] * 4, rows, "llll", headed=False)]
    if workload.iterations is not None and not math.isnan(costs["run_time"]):
        stated = f"{counted(workload.iterations)} iterations as stated"
        lines.append(styled(f"  run         {show_time(costs['run_time'])}{_rent(costs)}: {stated}"))
    return lines


def _rent(costs: dict[str, float]) -> str:
    """The rent of a run with its band, rounded to the digits that the band supports."""
    if math.isnan(costs["run_cost"]):
        return ""
    middle, low, high = (rounded_dollars(costs[name]) for name in ("run_cost", "run_cost_low", "run_cost_high"))
    return f", {middle} ({BAND} {between(low, high)})"


def _cost(answer: RlAnswer) -> str:
    cost = answer.costs["iteration_cost"]
    if "M001" in answer.broken:
        return "—"
    return "set assume.price" if math.isnan(cost) else f"{rounded_dollars(cost)} an iteration"


def phase_parts(answer: RlAnswer) -> list[TimePart]:
    """The phases of an iteration."""
    costs = answer.costs
    names = [name for name in PHASES if costs[name]]
    whole, how = sum(costs[name] for name in names), "its time over that of all phases"
    return [
        TimePart(
            NAMES[name],
            costs[name],
            traced(show_time(costs[name]), costs[name], machine_name(name), name),
            made_of("part", f"{costs[name] / whole * 100:.1f} %", costs[name] / whole, how, names),
        )
        for name in names
    ]


def of_generation(answer: RlAnswer) -> list[str]:
    """Sentences on generation: the longest answers, and the time that GPUs wait."""
    costs, found = answer.costs, answer.iteration.generated
    workload, engines = answer.inputs.case.scenario.workload, answer.inputs.engines
    assert engines is not None
    words = [f"longest answer {counted(round(costs['longest']), 6)} tokens; {_at_a_time(answer)}"]
    if workload.rollouts == "batch":
        refilled = show_time(float(found.refilled))
        words.append(
            f"the last eighth of the answers takes {show_time(costs['tail'])}; refilled at once, all take {refilled}"
        )
    else:
        words.append("no tail: each answer that ends makes room for the next")
    if found.host:
        words.append(f"in {show_time(float(found.host))} of it GPUs wait while the host samples and returns tokens")
    if workload.staleness:
        words.append("the same for any staleness over 0; no law gives the iterations to a score")
    if costs["overlapped"]:
        words.append(f"{show_time(costs['overlapped'])} hidden: training and generation run at the same time")
    elif not answer.inputs.split.colocated:
        words.append("training and generation wait for each other: staleness is 0")
    if cap_over_rating(answer.inputs.trainer.inputs.case) < 1:
        words.append("run.power.cap slows only training; rates of engines are without the cap")
    return words


def _at_a_time(answer: RlAnswer) -> str:
    engines = answer.inputs.engines
    assert engines is not None
    return f"{engines.together:,.0f} of {engines.answers:,.0f} answers of an engine at a time"


def bound_by(answer: RlAnswer) -> str:
    """The longest part of the iteration."""
    costs = answer.costs
    name, value = max(((name, costs[name]) for name in PHASES), key=lambda item: item[1])
    share = significant(value / costs["iteration_time"] * 100, 2)
    if name == "generation":
        if answer.inputs.case.scenario.workload.rollouts == "batch" and costs["tail"] > value / 3:
            return f"the longest answers: generation is {share} % of the iteration"
        return f"generation, {share} % of the iteration"
    return f"the {NAMES[name]}, {share} % of the iteration"


def rl_conclusion(answer: RlAnswer) -> str:
    """The answer in a sentence or two."""
    if answer.refused:
        return f"This plan is not valid: {reason(answer, answer.refused[0]).rstrip('.')}. Nothing was computed."
    costs = answer.costs
    time = f"an iteration takes {result('iteration_time', costs['iteration_time'])}"
    if "M001" in answer.broken:
        return f"This plan does not fit: {reason(answer, 'M001')}. If it did, {time}."
    rate = f"{time}, {significant(costs['answers_per_s'], 3)} answers a second"
    chance = costs["fit_chance"]
    sure = "" if chance >= SAFE else f" with a chance of {rounded_percent(chance)}"
    stated = f"{rate[0].upper()}{rate[1:]}, and the plan fits{sure} ({gib(costs['memory_peak'])} of "
    stated += f"{gib(answer.memory.usable)} GiB)."
    stated = f"{stated} Bound by {bound_by(answer)}."
    broken = "; ".join(reason(answer, code) for code in answer.broken)
    return f"This plan breaks a limit: {broken}. {stated}" if broken else stated
