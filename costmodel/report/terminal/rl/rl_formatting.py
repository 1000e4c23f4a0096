"""Words that answers about reinforcement learning share: results, an iteration and its plan in a line, reasons."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.text import Text

from costmodel.documents.reader.rl_scenario import RlCase
from costmodel.documents.schemas.default_values import SAFE
from costmodel.documents.schemas.results import RL_COLUMNS
from costmodel.documents.schemas.rl.rl_results import PHASES
from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.rl.predict_rl import RlAnswer
from costmodel.estimate.rl.rl_reason_codes import OWN, REFUSALS
from costmodel.estimate.shared.limits import stated_limits
from costmodel.explore.kept_answers import both_words
from costmodel.ground.units import counted, gib, percent, rounded_percent, show, show_memory, significant
from costmodel.report.terminal.search.refusals import reason as training_reason
from costmodel.report.terminal.style.formatting import ENDS, between
from costmodel.report.terminal.style.head import job_lines, origin_lines, price_lines, remarks, subject_words
from costmodel.report.terminal.style.layout import Line
from costmodel.report.terminal.style.theme import BAD, HEAD, styled

NAMES = {
    "generation": "generation",
    "old_log_probabilities": "old log-probabilities",
    "reference_time": "reference",
    "reward_time": "reward model",
    "critic_time": "critic",
    "update_time": "update",
    "switch": "switch of states",
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


def fit_words(costs: Mapping[str, float]) -> str:
    """Whether a plan fits; its chance to where that is too small."""
    if costs["memory_share"] > 1:
        return "does not fit"
    chance = costs["fit_chance"]
    return "fits" if chance >= SAFE else f"at risk: {rounded_percent(chance)} to fit"


def band(costs: Mapping[str, float], name: str) -> str:
    """The P10–P90 band of a result, with one unit; empty if it has none."""
    ends = [costs[key] for key in (f"{name}_{end}" for end in ENDS) if key in costs]
    return between(*(result(name, value) for value in ends)) if len(ends) == len(ENDS) else ""


def titled(case: RlCase, answer: RlAnswer | None = None, *, price: bool = False) -> list[Line]:
    """The head: model, machine, iteration, and the plan if there is one."""
    subject, job = subject_of(case), job_lines(case.asked.assumed)
    lines: list[Line] = [*job, styled(subject_words(subject), HEAD), styled(iteration_words(case))]
    if answer is not None:
        lines.append(styled(both_words(answer)))
    return [*lines, *(price_lines(subject.price) if price else []), *origin_lines(case)]


def iteration_words(case: RlCase) -> str:
    """The software and the iteration in one line."""
    workload = case.scenario.workload
    response = workload.response
    batch = f"{counted(workload.prompts)} pairs"
    if workload.generates:
        batch = f"{counted(workload.prompts)} × {counted(workload.samples)} answers"
    lengths = f"{counted(response.mean)} tokens, {counted(response.limit)} at most"
    parts = [case.stack.name, workload.algorithm, f"{batch} of {lengths}"]
    if workload.staleness:
        parts.append(f"staleness {workload.staleness:g}, {workload.rollouts}")
    return " · ".join(parts)


def problems(answer: RlAnswer) -> list[Line]:
    """Reasons against a plan, and remarks, with their codes."""
    codes = answer.refused or answer.broken
    lines: list[Line] = [styled(f"  ✗ {code} {REFUSALS[code].title}: {reason(answer, code)}", BAD) for code in codes]
    lines += [] if answer.refused else remarks([answer.remarked])
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
        return "; ".join(_missed(answer, code))
    if code in OWN:
        return f"{REFUSALS[code].meaning} {_own(answer, code)}".strip()
    return REFUSALS[code].meaning


def _own(answer: RlAnswer, code: str) -> str:
    """The end of a reason: the choices of the software, or the numbers of the split."""
    stack = answer.inputs.case.stack
    if code == "R010" and not answer.inputs.case.parts:
        ranks, total = float(answer.inputs.plan.rollout.ranks or 0), answer.inputs.split.ranks
        return f"{ranks:.0f} of {total:.0f}, in nodes of {float(answer.inputs.case.node.accelerators):.0f}."
    if code == "R018":
        inputs = answer.inputs
        batch = f"{counted(inputs.mini_batch)} over dp {inputs.packing.dp:.0f} are {inputs.answers_of_rank:.0f}"
        return f"{batch}, and the micro-batch is {counted(float(inputs.plan.micro_batch))}."
    if code == "R011":
        return f"{stack.name} has {', '.join(stack.algorithms)}."
    return f"{stack.name} has {', '.join(stack.rollouts)}." if code == "R012" else ""


def _missed(answer: RlAnswer, code: str) -> list[str]:
    stated = []
    for limit in stated_limits(answer.inputs.case.scenario.limits):
        value = answer.costs.get(limit.column, math.nan)
        if ("M002" if limit.column == "memory_share" else "T001") == code and not limit.holds(value):
            bound = result(limit.column, float(limit.value))
            stated.append(f"{limit.key} {result(limit.column, value)} is beyond its {limit.kind} {bound}")
    return stated
