"""The training plan in a terminal: its settings, its verdict, and the reasons against it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from costmodel.estimate.shared.reasons import REFUSALS
from costmodel.estimate.shared.results import number, stated_limits
from costmodel.estimate.training.parallelism.pipeline import stage_layers
from costmodel.estimate.training_answer.evaluate_training import fits_at_p90, missing_input, verdict
from costmodel.estimate.training_answer.predict_training import ENDLESS, TOO_LARGE, usual_etp
from costmodel.explore.answer_summaries import degree_texts, schedule_texts
from costmodel.explore.plan_choice_text import recompute_and_offload_texts
from costmodel.ground.units import chance_words, gib, percent, show_time
from costmodel.report.terminal.formatting import TIME_TERMS, range_of
from costmodel.report.terminal.head import remarks_of_plans, scenario_head
from costmodel.report.terminal.layout import BAD, Line, styled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from costmodel.estimate.training_answer.predict_training import Answer
    from costmodel.explore.explain.plan_choice_effects import ExplainedAnswer


def memory_band_text(costs: dict[str, float]) -> str:
    """The P10–P90 band of peak memory."""
    return range_of(f"{gib(costs['memory_peak_low'])} GiB", f"{gib(costs['memory_peak_high'])} GiB")


def verdict_words(costs: Mapping[str, float]) -> str:
    """Whether a plan fits in memory, in words; its chance if its P90 does not fit."""
    if costs["memory_share"] > 1 or fits_at_p90(costs):
        return verdict(costs["memory_share"])
    return f"at risk: {chance_words(costs['fit_chance'])} to fit"


def plan_words(answer: Answer) -> str:
    """The degrees and choices of a plan in one line."""
    block, structure = answer.evaluation.block, answer.evaluation.block.structure
    sizes = degree_texts(block)
    if float(block.etp[0]) < usual_etp(answer.inputs, float(block.tp[0])):
        sizes.append("etp 1")
    layers = stage_layers(answer.inputs.model, block)
    held = [f"{number(each):g}" for each in layers.stages(float(block.pp[0]))]
    over = answer.inputs.groups and structure.shares == "stages"  # each group's layers are lines of their own
    if len(set(held)) > 1 and not over:
        sizes.append(f"layers {' '.join(held)}")
    return " · ".join([*sizes, *schedule_texts(block), *recompute_and_offload_texts(structure)])


_RARER = "no single key fixes this; state rarer failures under run.failures, or shorter stops for each of them"
_NOTHING = "no single key fixes this; costmodel search shows whether several together do"


def plan_head_lines(answer: Answer) -> list[Line]:
    """The head of an answer about one plan: the scenario, then the plan."""
    return [*scenario_head(answer.inputs.case), styled(plan_words(answer))]


def reason_lines(answer: ExplainedAnswer, codes: Iterable[str] = (*TOO_LARGE, ENDLESS)) -> list[Line]:
    """A line for each reason against a plan whose code is in `codes`."""
    found = (code for code in answer.refused or answer.broken if code in codes)
    return [styled(f"  ✗ {code} {REFUSALS[code].title}: {reason_against(answer, code)}", BAD) for code in found]


def reason_against(answer: Answer, code: str) -> str:
    """A reason against a plan; its words are imported once there is one."""
    from costmodel.report.terminal.refusals import reason

    return reason(answer, code)


def problem_lines(answer: ExplainedAnswer) -> list[Line]:
    """Reasons against a plan with remedies, and remarks, with their codes."""
    lines: list[Line] = []
    if codes := answer.refused or answer.broken:
        from costmodel.report.terminal.refusals import remedy_lines
    for found, alike in itertools.groupby(codes, key=answer.fixes.__getitem__):
        lines += reason_lines(answer, named := [*alike])
        nothing = _missing_input(answer) or (_RARER if ENDLESS in named else _NOTHING)
        lines += remedy_lines(found, indent="    ") or [styled(f"    {nothing}")]
    lines += [] if answer.refused else remarks_of_plans([answer.remarked], nodes=[answer.inputs.case.node.name])
    return [Text(), *lines] if lines else []


def _missing_input(answer: Answer) -> str:
    """The missing input for a limit on an unknown result; empty if there is none."""
    limits = () if answer.refused else stated_limits(answer.inputs.case.scenario.limits)
    return next((wanted for limit in limits if (wanted := missing_input(answer.inputs, limit.column))), "")


def plan_conclusion(answer: Answer) -> str:
    """The answer in a sentence or two."""
    inputs = answer.inputs
    if answer.refused:
        code = answer.refused[0]
        return f"This plan is not valid: {REFUSALS[code].title}, {reason_against(answer, code)}. Nothing was computed."
    costs = answer.evaluation.costs.row()
    step = f"a step takes {show_time(costs['step_time'])} at {percent(costs['mfu'])} MFU"
    memory = f"{gib(costs['memory_peak'])} of {gib(inputs.usable_memory)} GiB"
    if costs["memory_share"] > 1:
        return f"This plan does not fit: it needs {memory} on each accelerator. If it did, {step}."
    longest, part = max(((words, costs[name]) for words, name in TIME_TERMS), key=lambda item: item[1])
    room = "the plan just fits" if verdict(costs["memory_share"]) == "tight" else "the plan fits"
    room += "" if fits_at_p90(costs) else f" with a chance of {chance_words(costs['fit_chance'])}"
    stated = f"{step[0].upper()}{step[1:]}, and {room} ({memory}). "
    stated += f"The largest part of a step is {longest}, {percent(part / costs['step_time'])}."
    if not answer.broken:
        return stated
    words = "; ".join(reason_against(answer, code) for code in answer.broken)
    return f"This plan breaks a limit: {words}. {stated}"
