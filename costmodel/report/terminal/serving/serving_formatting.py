"""Words that answers about serving share: results as people read them, a plan and its load in a line, reasons."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from rich.text import Text

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.results import SERVING_RESULTS, is_share
from costmodel.documents.schemas.serving.serving_schema import BETWEEN_TOKENS, Serving
from costmodel.estimate.serving.limits_chance import OWN, service_limits, waits_in_batch
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.estimate.serving.replicas_for_load import headroom_of, share_of_saturation
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.shared.limits import KINDS, stated_limits
from costmodel.explore.kept_answers import layout_words
from costmodel.ground.counts import number_of
from costmodel.ground.units import counted, percent, rounded_percent, show, show_memory, show_time, significant
from costmodel.report.terminal.style.formatting import ENDS, between
from costmodel.report.terminal.style.theme import BAD, DIM, WARN, styled

TERMS = (
    ("matrix multiply", "matmul"),
    ("attention", "attention"),
    ("memory-bound ops", "memory_bound"),
    ("tp all-reduce", "tp_exposed"),
    ("shared context", "dcp_exposed"),
    ("expert exchange", "ep_exposed"),
    ("pipeline sends", "pp_exposed"),
    ("host", "host_time"),
    ("drafts", "draft_time"),
    ("prompts between", "prompts_between"),
)
NOTHING = 1e-6  # a share or a rate under which it prints as none


_DIGITS, _FINEST = 3, 6  # digits of a result, and the most where fewer do not show that it is not its limit
_ALMOST_ALL = 0.9995  # a share from which 99.9 % rounds to 100 %


def share_words(value: float, decimals: int | None = None) -> str:
    """A share in percent; `>99.9 %` if it is close to 1.

    decimals: the number of decimals, for tables

    >>> share_words(0.789), share_words(0.99996), share_words(1.0), share_words(0.789, 0)
    ('78.9 %', '>99.9 %', '100 %', '79 %')
    """
    if _ALMOST_ALL <= value < 1:
        return ">99.9 %"
    return percent(value) if decimals is None else rounded_percent(value, decimals).replace("%", " %")


def bound_words(name: str, bound: float, digits: int = 0) -> str:
    """The bound of a limit, with all the digits that the user stated, up to six.

    >>> bound_words("tpot", 0.025), bound_words("tpot", 0.02096)
    ('25.0 ms', '20.96 ms')
    """
    most = digits or _stated_digits(bound)
    return percent(bound, most) if is_share(name) else result(name, bound, most)


def digits_apart(name: str, value: float, bound: float) -> int:
    """The fewest digits that show a difference between a result and its bound, or the digits of the bound.

    >>> digits_apart("tpot", 0.02503, 0.025), digits_apart("tpot", 0.03, 0.025)
    (4, 3)
    """
    least = _stated_digits(bound)
    tried = range(least, _FINEST + 1)
    return next((each for each in tried if result(name, value, each) != bound_words(name, bound, each)), least)


def _stated_digits(bound: float) -> int:
    """The number of digits that state a bound, up to six."""
    tried = range(_DIGITS, _FINEST)
    return next((each for each in tried if math.isclose(float(f"{bound:.{each - 1}e}"), bound)), _FINEST)


def result(name: str, value: float | None, digits: int = 3) -> str:
    """A result in words; a dash for times between tokens if an answer has one token."""
    name = name.removesuffix("_low").removesuffix("_high")
    unit = SERVING_RESULTS[name].unit
    if value is None or math.isnan(value):
        return "—" if name in BETWEEN_TOKENS else "unknown"
    if math.isinf(value):
        return "without end"
    if abs(value) < NOTHING and (is_share(name) or name.endswith("_per_s")):
        value = 0.0
    if unit == "B":
        return show_memory(value, digits)
    if name in ("requests_per_s", "saturation_per_s", "rate_within_slo_per_s", "in_time_per_s"):
        return f"{significant(value, digits)} /s"
    if unit == "1/s":
        return f"{significant(value, max(digits, 4))} token/s"
    if is_share(name) and digits == _DIGITS:
        return share_words(value, 1) if name.endswith("_chance") else share_words(value)
    if is_share(name):
        return percent(value, digits)
    if unit != "1":
        return show(value, unit, digits)
    return counted(round(value, 1), 4) if abs(value) >= 100 or value.is_integer() else significant(value, digits)


def band(costs: Mapping[str, float], name: str) -> str:
    """The P10–P90 band of a figure, with one unit; empty if it has none, or if both ends look equal."""
    low, high = (costs.get(f"{name}_{end}", math.nan) for end in ENDS)
    if math.isnan(low) or math.isnan(high) or low == high:
        return ""
    plain = name.startswith("concurrency")
    first, last = (significant(end) if plain else result(name, end) for end in (low, high))
    return "" if first == last else between(first, last)


def rate_words(rate: float, shown: str) -> str:
    """A rate of requests, singular for a rate of 1."""
    return f"{shown} request{'' if rate == 1 else 's'}/s"


def load_words(workload: Serving) -> str:
    """The load in a few words."""
    if workload.rate is not None:
        words = rate_words(workload.rate, significant(workload.rate, 3).removesuffix(".00").removesuffix(".0"))
        words += burst_words(workload)
        return words if workload.concurrency is None else f"{words}, at most {workload.concurrency:,.0f} in flight"
    if workload.concurrency is not None:
        burst = ", all started at once" if workload.traffic == "burst" else ""
        return f"{workload.concurrency:,.0f} in flight{burst}"
    if workload.requests is not None:
        return f"{number_of(workload.requests, 'request')} offline"
    return f"{workload.users:,.0f} users who think for {show_time(workload.think_time or 0.0)}"


def burst_words(workload: Serving) -> str:
    """The burstiness or spread of arrivals; empty for random arrivals."""
    if workload.burstiness is not None and workload.burstiness != 1:
        return f", burstiness {workload.burstiness:g}"
    return f", arrival spread {workload.arrival_spread:g}" if workload.arrival_spread not in (None, 1) else ""


def length_words(workload: Serving) -> list[str]:
    """Mean lengths, and how many answers a prompt has."""
    several = "" if workload.samples == 1 else f"{workload.samples:,.0f} × "
    return [f"prompt {workload.mean('prompt'):,.0f}", f"output {several}{workload.mean('output'):,.0f}"]


def lengths_words(workload: Serving) -> str:
    """Mean lengths, and where all requests have them that they do."""
    lengths = length_words(workload)
    same = [name for name in ("prompt", "output") if not workload.spread(name)]
    lengths += turn_words(workload)
    alike = {2: "spread 0", 1: f"spread 0 of {same[0]}s" if same else ""}
    return " · ".join([*lengths, *([alike[len(same)]] if same else [])])


def turn_words(workload: Serving) -> list[str]:
    """The turns of a conversation and its shared beginning; empty for single requests."""
    if workload.turns == 1:
        return []
    opening = f" after {workload.opening:,.0f} shared" if workload.opening else ""
    return [f"{workload.turns:,.0f} turns{opening}"]


def plan_words(answer: ServingAnswer) -> str:
    """The engine, the plan and the load in one line."""
    inputs, workload = answer.inputs, answer.inputs.case.scenario.workload
    lengths = length_words(workload)
    return " · ".join([inputs.engine.name, layout_words(answer), *lengths, *turn_words(workload), load_words(workload)])


def unlimited(inputs: ServingInputs) -> list[Text]:
    """A warning that replicas are sized by saturation, if neither limits on times nor headroom are set."""
    if inputs.case.scenario.assume.headroom or service_limits(inputs):
        return []
    room = headroom_of(inputs)
    sized = f"at most {percent(share_of_saturation(inputs), 2)} of saturation" if room else "saturation"
    more = "state limits on times, or assume.headroom" if room else "limits or assume.headroom leave room"
    return [styled(f"  No limit on times: replicas are sized for {sized}; {more}", WARN)]


def limits_of_batch(case: ServingCase) -> list[Text]:
    """A warning that limits on times from arrival do not suit an offline batch."""
    if not (found := waits_in_batch(case)):
        return []
    words = f"a batch arrives at once, so {' and '.join(found)} grows with its size: limit makespan instead"
    return [styled(f"  {words}", WARN)]


def chance_of(case: ServingCase) -> str:
    """What a chance refers to: all limits, or without limits the load."""
    return "meet all limits" if has_limits(case) else "answer all that arrives"


def has_limits(case: ServingCase) -> bool:
    """Whether the scenario states any limit."""
    return any(True for _ in stated_limits(case.scenario.limits))


def never_kept_line(inputs: ServingInputs, alone: Mapping[str, float] | None, plan: str) -> Text:
    """A line that no change helps; if single requests already break limits, with the results of the nearest plan.

    alone: the results of this plan with one request at a time
    """
    costs = alone or {}
    limits = (limit for limit in service_limits(inputs) if costs and not limit.holds(costs[limit.column]))
    missed = ", ".join(f"{limit.key} {result(limit.column, costs[limit.column])}" for limit in limits)
    if not missed:
        return styled(f"  No lever found: nothing that costmodel tries would {chance_of(inputs.case)}.", BAD)
    nearest = f"the nearest, {plan}, has {missed}"
    return styled(f"  No plan keeps the limits, even of one request at a time: {nearest}", BAD)


def without_room(inputs: ServingInputs) -> list[Text]:
    """A line that replicas are sized for the average prediction, if limits exist without a chance or headroom."""
    limits = {limit.column for limit in service_limits(inputs)}
    if inputs.case.scenario.assume.headroom or OWN in limits or not limits:
        return []
    return [styled("  Sized for the average prediction. Add --safe 90% to allow for its error", DIM)]


def counted_for(case: ServingCase) -> list[Text]:
    """A line on what replicas are sized for in addition to the rate: headroom, growth, availability."""
    assume = case.scenario.assume
    parts = [f"{1 + assume.headroom:g} times the rate" if assume.headroom else "the rate"]
    if assume.growth is not None:
        parts.append(f"its growth in {show_time(assume.growth.start)}")
    if assume.availability is not None:
        parts.append(f"replicas that are up {percent(assume.availability)} of the time")
    if parts == ["the rate"]:
        return []
    return [styled(f"  Counted for {' and '.join([', '.join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)}")]


def limits_on(answer: ServingAnswer, column: str) -> str:
    """Whether a result keeps the limits on it, and which these are."""
    stated = []
    for limit in stated_limits(answer.inputs.case.scenario.limits):
        if limit.column == column and limit.kind in KINDS:
            value, bound = answer.costs[column], float(limit.value)
            sign = {"at_most": "≤", "at_least": "≥", "target": "≈"}[limit.kind]
            if not limit.holds(value) and result(column, value) == bound_words(column, bound):
                sign = {"at_most": "just over", "at_least": "just under"}.get(limit.kind, sign)
            mark = "✓" if limit.holds(value) else "✗"
            stated.append(f"{mark} {sign} {bound_words(column, bound).replace('1.00 s', '1 s')}")
    return " ".join(stated)


def joined(parts: Iterable[str]) -> str:
    """The non-empty parts of a line, joined."""
    return "   ".join(part for part in parts if part)
