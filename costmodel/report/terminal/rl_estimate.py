"""The estimate of an RL iteration in a terminal: results, phases, cost, and reasons against the plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from rich.text import Text

from costmodel.documents.reader.rl_scenario import RlCase
from costmodel.documents.schemas.default_values import SAFE
from costmodel.documents.schemas.results import RL_COLUMNS, machine_name
from costmodel.documents.schemas.rl import PHASES
from costmodel.estimate.answer_facts import subject_of
from costmodel.estimate.machine.number_formats import cap_over_rating
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.estimate.rl.rl_reason_codes import OWN, REFUSALS
from costmodel.estimate.shared.results import stated_limits
from costmodel.explore.answer_summaries import rl_plan_text
from costmodel.ground.units import (
    chance_words,
    counted,
    gib,
    percent,
    rounded_dollars,
    show,
    show_memory,
    show_time,
    significant,
)
from costmodel.report.answers.plan_parts import TimePart
from costmodel.report.document import computed, traced
from costmodel.report.terminal.formatting import BAND, ENDS, MISSES, and_list, range_beside, range_of
from costmodel.report.terminal.head import job_lines, origin_lines, price_lines, remarks_of_plans, subject_words
from costmodel.report.terminal.layout import BAD, HEAD, CellTable, Line, styled
from costmodel.report.terminal.refusals import reason as training_reason

NAMES = {
    "generation": "generation",
    "old_log_probabilities": "old log-probabilities",
    "reference_time": "reference",
    "reward_time": "reward model",
    "critic_time": "critic",
    "update_time": "update",
    "switch": "mode switch",
    "weight_sync": "weight sync",
}
assert tuple(NAMES) == PHASES


def result(name: str, value: float, digits: int = 3) -> str:
    """A result in words, with its unit."""
    unit = RL_COLUMNS[name].unit
    if math.isnan(value):
        return "unknown"
    if unit == "B":
        return show_memory(value, digits)
    if name == "answers_per_s":
        return f"{significant(value, digits)} a second"
    if unit == "1/s":
        return f"{significant(value, 4)} token/s"
    if name in ("longest", "rollout_ranks", "training_ranks"):
        return counted(round(value), 6)
    return percent(value, digits) if unit == "1" else show(value, unit, digits)


def fit_verdict(costs: Mapping[str, float]) -> str:
    """Whether a plan fits in memory, in words; its chance if that is small."""
    if costs["memory_share"] > 1:
        return "does not fit"
    chance = costs["fit_chance"]
    return "fits" if chance >= SAFE else f"at risk: {chance_words(chance)} to fit"


def band_text(results: Mapping[str, float], name: str) -> str:
    """The P10–P90 band of a result, with one unit; empty if it has none."""
    ends = [results[key] for key in (f"{name}_{end}" for end in ENDS) if key in results]
    return range_beside(partial(result, name), results[name], *ends) if len(ends) == len(ENDS) else ""


def rl_head_lines(case: RlCase, answer: RlAnswer | None = None, *, price: bool = False) -> list[Line]:
    """The head: model, machine, iteration, and the plan if there is one."""
    subject, job = subject_of(case), job_lines(case.asked.assumed)
    lines: list[Line] = [*job, styled(subject_words(subject), HEAD), styled(iteration_words(case))]
    if answer is not None:
        lines.append(styled(rl_plan_text(answer)))
    return [*lines, *(price_lines(subject.price) if price else []), *origin_lines(case)]


def iteration_words(case: RlCase) -> str:
    """The software and the iteration in one line."""
    workload = case.scenario.workload
    response = workload.response
    batch = f"{counted(workload.prompts)} pairs"
    if workload.generates:
        batch = f"{counted(workload.prompts)} × {counted(workload.samples)} answers"
    lengths = f"{counted(response.mean)} tokens (mean), {counted(response.limit)} at most"
    parts = [case.stack.name, workload.algorithm, f"{batch} of {lengths}"]
    if workload.staleness:
        parts.append(f"staleness {workload.staleness:g}, {workload.rollouts}")
    return " · ".join(parts)


def problem_lines(answer: RlAnswer) -> list[Line]:
    """Reasons against a plan, and remarks, with their codes."""
    codes = answer.refused or answer.broken
    lines: list[Line] = [styled(f"  ✗ {code} {REFUSALS[code].title}: {reason(answer, code)}", BAD) for code in codes]
    lines += [] if answer.refused else remarks_of_plans([answer.remarked])
    return [Text(), *lines] if lines else []


def reason(answer: RlAnswer, code: str) -> str:
    """A reason against a plan, with its numbers if it has any."""
    if code == "M001":
        memory = answer.memory
        phase = "generating" if memory.generates_fuller else "updating"
        return f"{gib(memory.peak)} of {gib(memory.usable)} GiB an accelerator while {phase}"
    if code == "M003" or code in answer.inputs.trainer.refused:
        return training_reason(answer.inputs.trainer, code)
    if code in ("M002", "T001"):
        return "; ".join(_missed_limits(answer, code))
    if code in OWN:
        return f"{REFUSALS[code].meaning} {_reason_details(answer, code)}".strip()
    return REFUSALS[code].meaning


def _reason_details(answer: RlAnswer, code: str) -> str:
    """The end of a reason: what the software offers, or the numbers of the split."""
    stack = answer.inputs.case.stack
    if code == "R010" and not answer.inputs.case.parts:
        plan, total = answer.inputs.plan, answer.inputs.split.ranks
        ranks = float(plan.rollout.ranks or 0) + plan.beside.all
        return f"{ranks:.0f} of {total:.0f}, in nodes of {float(answer.inputs.case.node.accelerators):.0f}."
    if code == "R018":
        inputs = answer.inputs
        batch = f"{counted(inputs.mini_batch)} ÷ dp {inputs.packing.dp:.0f} = {inputs.answers_of_rank:.0f} answers"
        return f"{batch} per rank and optimizer step, and micro_batch is {counted(float(inputs.plan.micro_batch))}."
    if code == "R011":
        return f"{stack.name} has {', '.join(stack.algorithms)}."
    return f"{stack.name} has {', '.join(stack.rollouts)}." if code == "R012" else ""


def _missed_limits(answer: RlAnswer, code: str) -> list[str]:
    """For each limit behind a reason code, a sentence on the result that misses it."""
    stated = []
    for limit in stated_limits(answer.inputs.case.scenario.limits):
        value = answer.costs.get(limit.column, math.nan)
        if ("M002" if limit.column == "memory_share" else "T001") == code and not limit.holds(value):
            bound = result(limit.column, float(limit.value))
            stated.append(f"{limit.key} {result(limit.column, value)} {MISSES[limit.kind]} {bound}")
    return stated


def estimate_lines(answer: RlAnswer) -> list[Line]:
    """The main results of an iteration, two per line."""
    costs, workload = answer.costs, answer.inputs.case.scenario.workload
    band = band_text(costs, "iteration_time")
    used = f"{gib(answer.memory.peak)} of {gib(answer.memory.usable)} GiB, {fit_verdict(costs)}"
    rows = [
        (
            "iteration",
            result("iteration_time", costs["iteration_time"]),
            "answers",
            result("answers_per_s", costs["answers_per_s"]),
        ),
        (BAND, band, "per GPU", result("tokens_per_s_per_gpu", costs["tokens_per_s_per_gpu"])),
        ("memory", used, "cost", _cost_line(answer)),
    ]
    lines: list[Line] = [CellTable([""] * 4, rows, "llll", headed=False)]
    if workload.iterations is not None and not math.isnan(costs["run_time"]):
        stated = f"{counted(workload.iterations)} iterations as stated"
        lines.append(styled(f"  run         {show_time(costs['run_time'])}{_run_cost_text(costs)}: {stated}"))
    return lines


def _run_cost_text(costs: dict[str, float]) -> str:
    """The rent of a run with its band, as text."""
    if math.isnan(costs["run_cost"]):
        return ""
    middle, low, high = (rounded_dollars(costs[name]) for name in ("run_cost", "run_cost_low", "run_cost_high"))
    return f", {middle} ({BAND} {range_of(low, high)})"


def _cost_line(answer: RlAnswer) -> str:
    """A line with the cost of an iteration and of the run; empty if no price is known."""
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
            computed("part", f"{costs[name] / whole * 100:.1f} %", costs[name] / whole, how, names),
        )
        for name in names
    ]


def generation_sentences(answer: RlAnswer) -> list[str]:
    """Sentences on generation: the longest answers, and the time that GPUs wait."""
    costs, found = answer.costs, answer.iteration.generated
    workload, engines = answer.inputs.case.scenario.workload, answer.inputs.engines
    assert engines is not None
    words = [f"the longest answer has {counted(round(costs['longest']), 6)} tokens; {_requests_at_a_time(answer)}"]
    if workload.rollouts == "batch":
        refilled = f"with continuous refill generation takes {show_time(float(found.refilled))}"
        words.append(f"the last eighth of the answers takes {show_time(costs['tail'])}; {refilled}")
    else:
        words.append("no tail: each answer that ends makes room for the next")
    if found.host:
        words.append(f"for {show_time(float(found.host))} of the generation GPUs wait for the host")
    if workload.staleness:
        words.append("the same for any staleness over 0; how many iterations a score needs is not predicted")
    beside = float(answer.iteration.beside)
    if beside:
        words.append(f"{show_time(beside)} hidden: the GPUs of {and_list(answer.inputs.apart)} work at the same time")
    if workload.staleness and costs["overlapped"] > beside:
        words.append(f"{show_time(costs['overlapped'] - beside)} hidden: training and generation run at the same time")
    elif not answer.inputs.split.colocated:
        words.append("training and generation wait for each other: staleness is 0")
    if cap_over_rating(answer.inputs.trainer.inputs.case) < 1:
        words.append("run.power.cap slows only training; rates of engines are without the cap")
    return words


def _requests_at_a_time(answer: RlAnswer) -> str:
    """How many answers an engine generates at a time, in words."""
    engines = answer.inputs.engines
    assert engines is not None
    return f"each engine runs {engines.together:,.0f} of its {engines.answers:,.0f} answers at once"


def bound_by(answer: RlAnswer) -> str:
    """The longest part of the iteration, in words; of a generation beside training, not if training takes longer."""
    costs = answer.costs
    others = [name for name in PHASES if name != "generation"]
    hidden = costs["overlapped"] > 0 and costs["generation"] < sum(costs[name] for name in others)
    name, value = max(((name, costs[name]) for name in (others if hidden else PHASES)), key=lambda item: item[1])
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
    sure = "" if chance >= SAFE else f" with a chance of {chance_words(chance)}"
    stated = f"{rate[0].upper()}{rate[1:]}, and the plan fits{sure} ({gib(costs['memory_peak'])} of "
    stated += f"{gib(answer.memory.usable)} GiB)."
    stated = f"{stated} Bound by {bound_by(answer)}."
    broken = "; ".join(reason(answer, code) for code in answer.broken)
    return f"This plan breaks a limit: {broken}. {stated}" if broken else stated
