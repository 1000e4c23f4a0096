"""Results of a step in a terminal, and what changes do to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from costmodel.documents.schemas.results import machine_name
from costmodel.estimate.machine.price import price_of
from costmodel.estimate.training_answer.predict_training import TOO_LARGE, Answer
from costmodel.ground.units import gib, percent, show, show_time, significant
from costmodel.report.answers.plan_parts import TimePart
from costmodel.report.document import traced
from costmodel.report.terminal.plan.plan_lines import memory_band, verdict_words
from costmodel.report.terminal.style.formatting import BAND, ENDS, TIME_TERMS, between
from costmodel.report.terminal.style.head import price_lines
from costmodel.report.terminal.style.layout import CellTable, Line, shorter, styled

if TYPE_CHECKING:
    from costmodel.estimate.shared.plan_batch import Block
    from costmodel.estimate.training.training_inputs import TrainingInputs
    from costmodel.explore.explain.effects import ExplainedAnswer
    from costmodel.report.terminal.style.layout import Line


def effect_lines(answer: ExplainedAnswer, *, fully: bool = False) -> list[Line]:
    """A line for each choice; fully with further remarks."""
    lines: list[Line] = []
    for each in answer.effects:
        name = each.key.rpartition(".")[2]
        if math.isnan(each.without):
            lines += [styled(f"  {name} {each.value}"), *(styled(f"    {words}") for words in each.words)]
            continue
        saves = f"{'saves' if each.saved >= 0 else 'costs'} {show_time(abs(each.saved))} a step"
        lines.append(styled(f"  {name} {each.value}: {saves}, {show_time(each.without)} without it"))
        lines += [styled(f"    {words}") for words in each.words if fully or each.always]
    return lines


def with_effects(result: dict[str, Any], answer: ExplainedAnswer) -> dict[str, Any]:
    """A result for programs, with the effects where there are any."""
    if not answer.effects:
        return result
    values = [
        {
            "key": each.key,
            "value": each.value,
            "step_time_s": each.step_time,
            "without_s": None if math.isnan(each.without) else each.without,
            "saved_s": None if math.isnan(each.without) else each.saved,
            "words": list(each.words),
        }
        for each in answer.effects
    ]
    return {**result, "effects": values}


def blank(lines: Sequence[Line]) -> list[Line]:
    """Lines, an empty one before them where there are any."""
    return [Text(), *lines] if lines else []


OF_SOME = ("cp_exposed", "ep_exposed", "offload_exposed")  # shown only where not zero
# Terms that only some plans can have, by the axes of which one must have several ranks.
_OF_AXES = {"tp_exposed": ("tp",), "pp_exposed": ("pp",), "bubble": ("pp",), "dp_exposed": ("dp", "cp")}
_DUST = 1e-8  # share of a step below which a term is none


def estimate_lines(answer: ExplainedAnswer) -> list[Line]:
    """Time, memory and cost of a plan."""
    costs = answer.evaluation.costs.row()
    return [
        *_main(_figures(answer, costs)),
        *_cost(answer, costs),
        *_run(answer, costs),
        *effect_lines(answer),
    ]


def _main(rows: Sequence[Sequence[str]]) -> list[Line]:
    """The rows of a short answer: time, memory, throughput and MFU."""
    times, bands, rate, shares, *_ = rows
    short = CellTable([""] * 4, [times, bands, (*rate[:2], *shares[:2])], "llll", headed=False)
    return shorter([short], [CellTable([""] * 4, rows, "llll", headed=False)], "rates per GPU")


def bound_by(answer: Answer) -> str:
    """The longest term of the step."""
    costs = answer.evaluation.costs.row()
    return max(TIME_TERMS, key=lambda item: costs[item[1]])[0]


def _run(answer: ExplainedAnswer, costs: dict[str, float]) -> list[Line]:
    """A line on the goodput of the run, if the scenario has one."""
    if answer.evaluation.run is None:
        return []
    if math.isnan(costs["goodput"]):
        return [styled("  run         —; details: costmodel run")]
    share = between(*(percent(costs[f"goodput_{end}"]) for end in ENDS))
    return [styled(f"  run         goodput {percent(costs['goodput'])} ({share}); details: costmodel run")]


def _figures(answer: ExplainedAnswer, costs: dict[str, float]) -> list[tuple[str, str, str, str]]:
    """The main results of a plan, two per line."""
    usable = costs["memory_peak"] / costs["memory_share"] if answer.inputs.groups else answer.inputs.usable
    peak = f"{gib(costs['memory_peak'])} of {gib(usable)} GiB   {verdict_words(costs)}"
    each = f"{significant(costs['tokens_per_s_per_gpu'], 4)} token/s, {show(costs['flop_rate'], 'FLOP/s')}"
    efficient = f"{percent(costs['communication_efficiency'])} efficient"
    several = [("scaling", percent(costs["scaling_efficiency"]), "communication", efficient)]
    return [
        ("step time", f"{show_time(costs['step_time'])}{_if_large(answer)}", "memory", peak),
        (BAND, between(*(show_time(costs[f"step_time_{end}"]) for end in ENDS)), BAND, memory_band(costs)),
        ("throughput", show(costs["tokens_per_s"], "token/s"), "per GPU", each),
        ("MFU", percent(costs["mfu"]), "HFU", percent(costs["hfu"])),
        *(several if answer.inputs.ranks > 1 else []),
    ]


def _if_large(answer: ExplainedAnswer) -> str:
    """The phrase `, if it fitted` for the time of a plan that is too large; else empty."""
    return "" if TOO_LARGE.isdisjoint(answer.broken) else ", if it fitted"


def step_parts(answer: Answer) -> list[TimePart]:
    """The terms of the step that the plan can have."""
    block, costs = answer.evaluation.block, answer.evaluation.costs.row()
    return [
        TimePart(
            name,
            costs[key],
            traced(_term(costs[key], costs["step_time"]), costs[key], machine_name(key), key),
            f"{costs[key] / costs['step_time'] * 100:.1f} %",
        )
        for name, key in TIME_TERMS
        if costs[key] or _possible(block, key)
    ]


def _possible(block: Block, key: str) -> bool:
    """Whether a plan can have a term of the step, although its time is zero here."""
    if key in _OF_AXES:
        return any(getattr(block, axis)[0] > 1 for axis in _OF_AXES[key])
    return key not in OF_SOME


def _term(value: float, step: float) -> str:
    """A term of the step as text; a negligible one is shown as 0."""
    return show_time(value if value > _DUST * step else 0.0)


def _cost(answer: ExplainedAnswer, costs: dict[str, float]) -> list[Text]:
    """The cost, its price and the origin of that; prices that were left out. None of a plan that cannot run."""
    price, indent = price_of(answer.inputs.case), " " * len("  cost        ")
    if price.known and math.isnan(costs["cost_per_mtoken"]):
        return [styled("  cost        —")]
    stated = styled(f"  cost        {_cost_words(answer.inputs, costs)}")
    return [stated, *price_lines(price, indent)[not price.known :]]


def _cost_words(inputs: TrainingInputs, costs: dict[str, float]) -> str:
    """The cost of tokens and of the whole run in words, or which price is missing."""
    budget, words = inputs.case.scenario.workload.tokens, f"{show(costs['cost_per_mtoken'], 'USD')} per Mtoken"
    lasting = ""
    if budget is not None and not math.isnan(costs["run_time"]):
        lasting = f"{show_time(costs['run_time'])} for {show(budget, '')} tokens"
    if math.isnan(costs["cost_per_mtoken"]):
        missing = f"no price known for {inputs.case.node.name}; --price 2.50USD/GPU/h sets one"
        return f"{lasting}; {missing}" if lasting else missing
    return f"{words}, {show(costs['run_cost'], 'USD')} and {lasting}" if lasting else words
