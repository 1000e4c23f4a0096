"""What the table of a search about serving shows of rates, and the words below it on what its columns are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.text import Text

from costmodel.documents.schemas.serving.serving_schema import usual_objective
from costmodel.estimate.serving.limits_chance import OWN
from costmodel.estimate.serving.reason_codes import OVERLOAD
from costmodel.estimate.serving.service_limits import service_limits
from costmodel.estimate.shared.limits import Limit
from costmodel.explore.serving.found_plans import FoundPlans, RankedPlan
from costmodel.ground.counts import number_of
from costmodel.ground.units import percent
from costmodel.report.terminal.serving.serving_formatting import bound_words, chance_of, limits_of_batch
from costmodel.report.terminal.serving.serving_reasons import past_bandwidth
from costmodel.report.terminal.serving.serving_variants import PAID, result_head
from costmodel.report.terminal.style.theme import BAD, DIM, styled

_AT_MOST = ("rate_within_slo_per_s", "tokens_per_gpu_within_limits", "cost_within_limits")
_AT_LOAD = ("requests_per_s", "tokens_per_s_per_gpu", "cost_per_mtoken")
_MOST_HEADS = ("most req/s", "most tok/s/GPU", "least rent/M out")
_USUAL = {  # objectives of loads that wait for answers
    "makespan": "the time to finish the batch",
    "latency": "the time of a whole answer under that load",
}
_SIGNS = {"at_most": "≤", "at_least": "≥", "target": "≈"}


def rate_columns(found: FoundPlans) -> tuple[str, str, str]:
    """Requests and tokens a second, and rent per token: at the highest rate; of a load that waits for answers, at the
    rate that it gets.
    """
    return _AT_LOAD if _waits(found) else _AT_MOST


def column_head(found: FoundPlans, name: str) -> str:
    """The head of a result's column, which distinguishes the highest rate from that of the load."""
    heads = dict(zip(_AT_MOST, _MOST_HEADS, strict=True)) if _waits(found) else {}
    return heads.get(name, result_head(name))


def _waits(found: FoundPlans) -> bool:
    return found.inputs.case.scenario.workload.rate is None


def table_key(found: FoundPlans, columns: Sequence[str]) -> Iterator[Text]:
    """What the columns mean."""
    yield from apart_words(found.best)
    yield from _ranked_by(found)
    yield from limits_of_batch(found.inputs.case)
    yield from _rates_words(found, columns)
    there = [name for name in ("tok/s/GPU", "rent/M out") if name in columns]
    beside = f"times and chance: at the scenario's load, to {chance_of(found.inputs.case)}"
    yield styled(f"  {' and '.join(there)}: at that rate; {beside}", DIM)
    yield from _rent_words(columns)
    if any(not math.isnan(each.costs["in_time_share"]) for each in found.best):
        yield styled(
            "  in time: requests at that load whose own first token and time per token are within the limits", DIM
        )
    if alike := sum(part.alike for part in found.parts):
        yield styled(f"  ep: {number_of(alike, 'plan')} with more of it and the same figures left out", DIM)
    if any(OVERLOAD & {*each.broken} for each in found.best):
        yield styled("  no end: requests arrive faster than they are answered; tpot is that at req/s", DIM)
    fastest = max((part.fastest for part in found.parts), default=math.inf)
    for limit in _limits(found):
        if past := past_bandwidth(limit, fastest):
            yield styled(f"  {_limit_words(limit)}{past}", BAD)


def _rent_words(columns: Sequence[str]) -> Iterator[Text]:
    """What the column of rents counts, and why plans that break a limit have none."""
    if PAID in columns:
        yield styled("  GPUs paid: those that the load needs; of a node with a price of its own, all of it", DIM)
        yield styled("  rent/month: of these for 730 h; rent/M out: of the GPUs in use alone", DIM)
    elif result_head("rent_needed") in columns:
        yield styled("  rent/month: of the GPUs that the load needs, for 730 h", DIM)


def _rates_words(found: FoundPlans, columns: Sequence[str]) -> Iterator[Text]:
    """What the rates are of."""
    limits = [_limit_words(limit) for limit in _limits(found)]
    kept = f"keeps {' and '.join(limits)}" if limits else "is answered"
    sure = (
        " as expected"
        if found.expected_rates
        else ""
        if found.safe is None
        else f" with a chance of {percent(found.safe, 2)}"
    )
    most = f"the highest rate that {kept}{sure}"
    if not _waits(found):
        yield styled(f"  req/s: {most}", DIM)
        return
    yield styled("  req/s: the rate at which the scenario's load is answered", DIM)
    own = [head for head in _MOST_HEADS if head in columns]
    if own:
        yield styled(f"  {own[0]}: {'' if own[0] == _MOST_HEADS[0] else 'at '}{most}", DIM)


def _ranked_by(found: FoundPlans) -> list[Text]:
    """What orders plans that run an offline batch, or a fixed number of requests in flight, at any of their rates."""
    scenario = found.inputs.case.scenario
    usual = usual_objective(scenario.workload)
    if usual not in _USUAL:
        return []
    if scenario.objective == usual:
        return [styled(f"  ranked by {usual}, {_USUAL[usual]}", DIM)]
    more = f"--set objective={usual} ranks by {_USUAL[usual]}"
    return [styled(f"  ranked by {column_head(found, scenario.objective)}; {more}", DIM)]


def apart_words(plans: Sequence[RankedPlan]) -> list[Text]:
    """What an arrow means, where a plan has instances apart."""
    apart = any(each.prefill is not None for each in plans)
    return [styled("  →: from the instances for prompts to those that generate", DIM)] if apart else []


def _limit_words(limit: Limit) -> str:
    bound = bound_words(limit.column, limit.value)
    return f"all with a chance of {bound}" if limit.column == OWN else f"{limit.key} {_SIGNS[limit.kind]} {bound}"


def _limits(found: FoundPlans) -> list[Limit]:
    """Limits that are the same at every value."""
    varied = {path.split(".")[1] for path in found.variants.paths if path.startswith("limits.")}
    return [limit for limit in service_limits(found.inputs) if limit.column not in varied]
