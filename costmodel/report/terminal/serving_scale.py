"""What the answer of `scale` shows of a service below its table: replicas for a rate, rents, and risks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from costmodel.documents.reader.serving_scenario import ServingCase, serving
from costmodel.documents.schemas.results import machine_name
from costmodel.estimate.serving.plan_columns import sizes_of
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.estimate.serving.replicas_for_load import fleet_of
from costmodel.estimate.serving.service_limits import OWN, service_limits
from costmodel.estimate.shared.results import stated_limits
from costmodel.explore.search.required_chance import preferred_chance, stated_chance
from costmodel.explore.serving.remedy_trials import ServingTrial
from costmodel.explore.serving.scale_by_rate import FewerGpus, trial_at
from costmodel.explore.vary.scale import ScaledSize, ScalingResult
from costmodel.ground.counts import number_of
from costmodel.ground.units import chance_words, percent, rounded_dollars, significant
from costmodel.report.data_formats.answer_fields import finite
from costmodel.report.terminal.head import command
from costmodel.report.terminal.layout import BAD, DIM, WARN, Line, shell_line, styled
from costmodel.report.terminal.serving_formatting import (
    has_limits,
    headroom_line,
    no_limits_warning,
    rate_words,
    reason,
    replica_words,
    unused_gpus_note,
)

_SURE, _TOSS = 0.9, 0.05  # the chance that --safe 90% asks for; one so near to a half is called a coin toss


def lines_below_sizes(found: ScalingResult) -> list[Line]:
    """Lines below the table of `scale` for a service."""
    case = serving(found.asked.case)
    trials = [trial_at(row.found) for row in found.rows]
    kept, fewer = [trial for trial in trials if trial.works], found.more
    if not kept or kept[0].answer is None:
        return _unreachable_limits(case, trials)
    stated = [
        *_unreachable_limits(case, trials),
        *_replica_rate(kept),
        *_fewer_gpus_line(case, fewer),
        *_whole_nodes_line(kept),
    ]
    stated += [
        *headroom_line(case),
        *no_limits_warning(kept[0].answer.inputs),
        *_expected_gpus_line(kept),
        *_low_chance_warning(case, kept),
    ]
    return stated


def size_fields(row: ScaledSize) -> dict[str, Any]:
    """Further fields of a row of `scale` for a service."""
    trial = trial_at(row.found)
    few, alone = None if trial.expected is None else trial.expected.costs, trial.alone
    return {
        "without_safe": None if few is None else {name: finite(few[name]) for name in ("gpus", OWN)},
        "alone": None if alone is None else {"codes": list(alone.broken), **_single_request_results(alone)},
    }


def _replica_rate(kept: Sequence[ServingTrial]) -> list[Line]:
    """The rate up to which one replica meets the limits; for separate instances, the meaning of their numbers."""
    answers = [trial.answer for trial in kept if trial.answer is not None]
    if answers[0].plan.prefill is not None:
        verb = "meet the limits" if service_limits(answers[0].inputs) else "answer the load"
        return [styled(f"repl: prefill → decode instances, the fewest GPUs of both that {verb}")]
    if len({replica_words(sizes_of(answer.evaluation.layout)) for answer in answers}) > 1:
        return []
    each = answers[0].costs
    sized = each if kept[0].one is None else kept[0].one.costs
    one, gpus = sized["rate_within_slo_per_s"] / sized["replicas"], each["gpus"] / each["replicas"]
    up_to = rate_words(one, significant(one))
    limited, case = service_limits(answers[0].inputs), answers[0].inputs.case
    verb = "is expected to meet the limits up to" if limited else "answers at most"
    safe = stated_chance(case) if kept[0].one is None else preferred_chance(case)
    if safe is not None:
        met = "meets the limits" if limited else "answers"
        up_to = f"{up_to} with a chance of {percent(safe, 2)}"
        verb = f"{met} up to"
    layout = answers[0].evaluation.layout
    plan = f"{replica_words(sizes_of(layout))} · budget {float(layout.budget[0]):,.0f}"
    return [styled(f"Each replica, {number_of(gpus, 'GPU')} ({plan}), {verb} {up_to}.")]


def _fewer_gpus_line(case: ServingCase, fewer: object) -> list[Line]:
    """The command for a plan with fewer accelerators, if a search found one."""
    if not isinstance(fewer, FewerGpus) or fewer.trial.answer is None:
        return []
    taken = number_of(fewer.trial.answer.costs["gpus"], "GPU")
    words, rate = f"Another plan takes {taken} at {_rate_text(fewer.trial)}:", _rate_text(fewer.trial)
    if "--rate" in case.asked.words:
        return [shell_line(words, command(case, "scale", settings={**fewer.settings, "workload.rate": rate}))]
    return [shell_line(words, command(case, "scale", "--rate", rate, settings=fewer.settings))]


def _whole_nodes_line(kept: Sequence[ServingTrial]) -> list[Line]:
    """Which GPUs the rents count, if the GPUs of a rate do not fill their nodes."""
    answers = [(trial, trial.answer) for trial in kept if trial.answer is not None]
    fleets = [(_rate_text(trial), fleet_of(answer.inputs, answer.costs["gpus"])) for trial, answer in answers]
    if any(each.by_node and each.gpus < each.whole for _, each in fleets):
        return [styled("  a month: rent of whole nodes; rent/M out: of the GPUs in use")]
    open_ = [(rate, each) for rate, each in fleets if unused_gpus_note(each)]
    if not open_:
        return []
    months = ", ".join(f"{rounded_dollars(each.month_whole)} at {rate}" for rate, each in open_)
    first = open_[0][1]
    more = unused_gpus_note(first) if first.each < first.built else f"; of whole nodes {months}"
    return [styled(f"  a month: rent of the GPUs in use{more}")]


def _unreachable_limits(case: ServingCase, trials: Sequence[ServingTrial]) -> list[Line]:
    """The limits that no number of replicas keeps, since requests one at a time break them."""
    alone = next((trial.alone for trial in trials if trial.alone is not None), None)
    if alone is None:
        return []
    missed = ", ".join(reason(alone, code) for code in alone.broken)
    words = f"No number of replicas meets the limits. Even for one request: {missed}."
    return [styled(f"  {words}", BAD), shell_line("  other plans:", command(case, "search"))]


def _low_chance_warning(case: ServingCase, kept: Sequence[ServingTrial]) -> list[Line]:
    """A warning on the chance to meet the limits, if it is low and the scenario requires none."""
    if not has_limits(case) or any(limit.column == OWN for limit in stated_limits(case.scenario.limits)):
        return []
    chances = [trial.answer.costs.get(OWN, math.nan) for trial in kept if trial.answer is not None]
    lowest = min((chance for chance in chances if not math.isnan(chance)), default=1.0)
    if lowest >= _SURE:
        return []
    toss = ", a coin toss" if abs(lowest - 0.5) < _TOSS else ""
    safe = preferred_chance(case)
    apart = kept[0].answer is not None and kept[0].answer.plan.prefill is not None
    more = "--safe 90% asks for more" if safe is None or apart else f"no number of replicas has {percent(safe, 2)}"
    return [styled(f"  The limits are met with a chance of {chance_words(lowest)}{toss}; {more}", WARN)]


def _expected_gpus_line(kept: Sequence[ServingTrial]) -> list[Line]:
    """The accelerators that expected figures need, with their chance to meet the limits."""
    sizes = [(_rate_text(trial), trial.answer.costs, trial.expected.costs) for trial in kept
             if trial.answer is not None and trial.expected is not None]  # fmt: skip
    words = (
        f"{few['gpus']:,.0f} GPUs: {chance_words(few[OWN])} chance; {costs['gpus']:,.0f}: {chance_words(costs[OWN])}"
        f" ({rate})"
        for rate, costs, few in sizes
    )
    return [styled(f"  {'; '.join(words)}; --safe off shows the first", DIM)] if sizes else []


def _rate_text(trial: ServingTrial) -> str:
    """The rate of a size as text."""
    return trial.settings[0].partition("=")[2]


def _single_request_results(alone: ServingAnswer) -> dict[str, Any]:
    """The results of a plan with one request at a time, as costs by name."""
    return {machine_name(name): finite(alone.costs[name]) for name in ("ttft", "ttft_p99", "tpot", "latency")}
