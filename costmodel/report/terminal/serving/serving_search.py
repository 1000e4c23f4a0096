"""Answers of a search of a serving scenario: the ranking, where the scenario's own plan stands, why others fail."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.text import Text

from costmodel.documents.schemas.results import is_money
from costmodel.documents.schemas.serving.serving_schema import usual_objective
from costmodel.estimate.machine.price import price_of
from costmodel.estimate.serving.limits_chance import OWN, breaks_exact_limit
from costmodel.estimate.serving.plan_columns import RARE
from costmodel.estimate.serving.reason_codes import OVERLOAD, REFUSALS
from costmodel.estimate.serving.service_limits import service_limits
from costmodel.estimate.shared.limits import Limit
from costmodel.explore.compare.input_paths import leaves
from costmodel.explore.kept_answers import layout_words
from costmodel.explore.serving.best_layout import fleet_settings, plan_settings
from costmodel.explore.serving.found_plans import RankedPlan, ServiceCounts, ServiceSearch, compared
from costmodel.ground.counts import number_of
from costmodel.ground.units import counted, percent, significant
from costmodel.report.terminal.search.varied_keys import headings
from costmodel.report.terminal.serving.fleet_words import gpus_words, rent_words, whole_nodes_words
from costmodel.report.terminal.serving.overload_words import brief
from costmodel.report.terminal.serving.serving_formatting import (
    bound_words,
    chance_of,
    counted_for,
    has_limits,
    limits_of_batch,
    never_kept_line,
    rate_words,
    result,
    share_words,
    unlimited,
    without_room,
)
from costmodel.report.terminal.serving.serving_reasons import past_bandwidth
from costmodel.report.terminal.serving.serving_variants import (
    OF_FLEETS,
    PAID,
    best_words,
    figure_cell,
    head_of,
    paid_apart,
    replica_words,
    result_head,
    stopped_lines,
    value_lines,
    variant_remarks,
    varied_cells,
    varied_heads,
)
from costmodel.report.terminal.serving.waiting_loads import waiting_lines
from costmodel.report.terminal.style.formatting import spaced
from costmodel.report.terminal.style.head import price_varies, prices
from costmodel.report.terminal.style.layout import CellTable, Line, typed
from costmodel.report.terminal.style.next_command import command, options_of
from costmodel.report.terminal.style.theme import BAD, DIM, WARN, styled

_SHOWN = ("tpot", "ttft_p99", OWN, "in_time_share")
_ENDS = ("tpot P90", "p99 P90")


def search(found: ServiceSearch, *, why_not: bool = False) -> list[Line]:
    """The best plans, how they stand under the load, and what refuses the others."""
    inputs, variants = found.inputs, found.variants
    tally = found.tally
    counts = f"{number_of(tally.candidates, 'plan')} · {tally.evaluated:,} valid · {tally.fit:,} fit"
    keeping = tally.kept
    ending = "s" if keeping == 1 else ""
    kept = f"keep{ending} all limits" if has_limits(inputs.case) else f"answer{ending} the load"
    counts += f" · {keeping:,} {kept}"
    counts += (
        f", {tally.safe:,} with a chance of {percent(found.safe, 2)}" if found.safe is not None and keeping else ""
    )
    lines: list[Line] = [*head_of(variants), styled(f"{counts} · {found.elapsed:.2f} s")]
    lines += stopped_lines(found)
    shown = [each.variant for each in found.best] or [found.nearest]
    lines += [*variant_remarks(variants, shown), Text()]
    after = _after_none(found)
    if not found.best:
        lines += [
            styled("No plan fits." if tally.evaluated else "No plan is valid.", BAD),
            *value_lines(found),
            *examples(found),
            *_tries(found),
        ]
        return [*lines, *([Text()] if after else []), *after]
    table = _table(found)
    of_plans = [
        *_yours(found),
        *_needs(found),
        *_waiting(found),
        *([styled(f"  {other}", WARN if found.unruled else DIM)] if (other := other_rule(found)) else []),
        *([] if why_not else shares(found)),
        *value_lines(found),
    ]
    of_plans += [*(examples(found) if why_not else []), *_tries(found)]
    lines += [styled(none, WARN)] if (none := none_is_safe(found)) else []
    lines += [table, *table_key(found, table.names), *_prices(found), *([Text()] if of_plans else []), *of_plans]
    best = found.best[0]
    verb = "Nearest" if best.broken else "Best" if found.is_safe else "Surest"
    verb = f"{verb}, plan 1" if (found.smaller or found.fleet) is not None else verb
    own = typed(f"{verb}:", command(inputs.case, "estimate", settings=plan_settings(found, best)))
    return [*lines, Text(), own, *_sized(found), *after]


def _sized(found: ServiceSearch) -> list[Line]:
    """The command for as many replicas as the rate needs, where the table has others."""
    fleet = found.smaller or found.fleet
    if fleet is None:
        return []
    kind = "replica" if fleet.prefill is None else "instance"
    named = f"With the {number_of(fleet.costs['replicas'], kind)} you need:"
    if found.smaller is not None:
        named = f"Fewest GPUs, {fleet.costs['gpus']:,.0f}:"
    return [typed(named, command(found.inputs.case, "estimate", settings=fleet_settings(found, fleet)))]


def _table(found: ServiceSearch) -> CellTable:
    variants, objective = found.variants, found.inputs.case.scenario.objective
    mixture = any(variants.of(each.variant).model.has_experts for each in found.best)
    copied = any("redundant_experts" in each.sizes for each in found.best)
    of_experts = ("ep", *(("redundant_experts",) if copied else ()), "dp_attention") if mixture else ()
    budget = () if "stack.budget" in variants.paths else ("budget",)
    shared = ("dcp",) if any("dcp" in each.sizes for each in found.best) else ()
    degrees = ("tp", "pp", *of_experts, *shared, "replicas", *budget)
    heads = {"dp_attention": "dpa", "replicas": "repl", "redundant_experts": "copies"}
    rates = rate_columns(found)
    money = () if all(math.isnan(each.costs[rates[-1]]) for each in found.best) else ("rent/M out",)
    own: tuple[str, ...] = () if objective in (*_SHOWN, *rates) else (compared(found.inputs),)
    if objective in OF_FLEETS and found.inputs.case.scenario.workload.rate is not None:
        rented = any(math.isfinite(each.costs["rent_needed"]) for each in found.best)
        own = ("gpus_needed", *((*paid_apart(found, found.best), "rent_needed") if rented else ()))
    timed = () if all(math.isnan(each.costs["in_time_share"]) for each in found.best) else ("in time",)
    rows = [
        _row(found, position, ranked, degrees, (*money, *own), timed) for position, ranked in enumerate(found.best, 1)
    ]
    over = varied_heads(variants)
    times = ("tpot", _ENDS[0], "ttft p99", _ENDS[1])
    figures = ("req/s", *times, *timed, "chance", "tok/s/GPU", *money, *(column_head(found, name) for name in own))
    names = ("#", *over, *(heads.get(name, name) for name in degrees), *figures, "binds", "")
    align = f"r{'k' * len(over)}{'r' * (len(degrees) + len(figures))}ll"
    further = (*(("tok/s/GPU",) if over or own else ()), *(money if own else ()))
    return CellTable(names, rows, align, drop=(*budget, "binds", *_ENDS[::-1], *timed, "chance", *further), indent="  ")


def _row(
    found: ServiceSearch,
    position: int,
    ranked: RankedPlan,
    degrees: Sequence[str],
    more: Sequence[str],
    timed: Sequence[str],
) -> tuple[str, ...]:
    costs = ranked.costs
    rate, throughput, rent = rate_columns(found)
    further = {"rent/M out": known(significant(costs[rent]))}
    return (
        f"{position}",
        *varied_cells(found.variants, ranked.variant),
        *(degree_words(ranked, name) for name in degrees),
        significant(costs[rate]),
        *(_time(found, name, costs[name]) for name in ("tpot", "tpot_high", "ttft_p99", "ttft_p99_high")),
        *(_percents(costs["in_time_share"]) for _ in timed),
        _chance(found, ranked),
        significant(costs[throughput]),
        *(further[name] if name in further else figure_cell(found, ranked, name) for name in more),
        ranked.binding,
        f"✗ {' '.join(ranked.broken)}" if ranked.broken else "at risk" if _is_risky(found, ranked) else "",
    )


def _is_risky(found: ServiceSearch, ranked: RankedPlan) -> bool:
    """Whether a plan lacks the chance that the search prefers."""
    return found.safe is not None and ranked.costs[OWN] < found.safe


def none_is_safe(found: ServiceSearch) -> str:
    """That no plan has the chance that the search prefers, and how sure those shown are; empty where one has."""
    if found.is_safe or found.safe is None or not found.works or not found.best:
        return ""
    all_limits = "meets all limits" if has_limits(found.inputs.case) else "answers the load"
    first = found.best[0].costs[OWN]
    none = f"No plan {all_limits} with a chance of {percent(found.safe, 2)}"
    if first >= max(plan.costs[OWN] for plan in found.best):
        return f"{none}. Plan 1 is the surest: {_percents(first)}"
    objective = found.inputs.case.scenario.objective
    return f"{none}. The surest first, of about equal chance by {objective}: plan 1 has {_percents(first)}"


def _time(found: ServiceSearch, name: str, value: float) -> str:
    """A time in the table; a dash for that between tokens where an answer is one token."""
    single = found.inputs.case.scenario.workload.single_token and name.startswith("tpot")
    return "—" if single else brief(name, value)


def _chance(found: ServiceSearch, ranked: RankedPlan) -> str:
    """The chance of a plan; a dash where it breaks a limit on what has no band, such as a rent."""
    sure = "T001" in ranked.broken and breaks_exact_limit(found.variants.of(ranked.variant), ranked.costs)
    return "—" if sure else _percents(ranked.costs[OWN])


def _percents(value: float) -> str:
    """A share; a dash where it is not known."""
    return "—" if math.isnan(value) else share_words(value, 0)


def known(text: str) -> str:
    """A figure; a dash where it is not known, or without end."""
    return "—" if text in ("nan", "inf") else text


def degree_words(ranked: RankedPlan, name: str) -> str:
    """A degree of a plan; apart, of prefill and of decode."""
    none = RARE.get(name, 1.0)
    own = counted(ranked.sizes.get(name, none))
    if ranked.prefill is None or name in ("pp", "budget", "redundant_experts"):
        return own
    return f"{counted(ranked.prefill.get(name, none))} → {own}"


def _prices(found: ServiceSearch) -> list[Text]:
    """The prices of plans that have their own, each once; nodes without one."""
    if not price_varies(found.variants.paths):
        return []
    shown = [*found.best]
    if found.inputs.case.scenario.objective in OF_FLEETS:  # the rent at each value stands in a table of its own
        shown += [part.best for part in found.service_parts if part.best is not None]
    cases = [found.variants.of(number).case for number in dict.fromkeys(each.variant for each in shown)]
    if found.your_rank and is_money(found.inputs.case.scenario.objective):
        cases.append(found.inputs.case)  # by whose price your own plan is ranked
    return prices(map(price_of, cases))


def _yours(found: ServiceSearch) -> Iterator[Text]:
    """Where the scenario's own plan stands."""
    own = found.yours
    if own is None:
        return
    written = leaves(found.inputs.case)
    named = zip(found.variants.paths, headings(found.variants.paths), strict=True)
    values = [f"{name} {spaced(written[path].text)}" for path, name in named if path in written]
    words = " · ".join([*values, layout_words(own), f"budget {own.evaluation.layout.budget[0]:,.0f}"])
    stands = f"ranks {found.your_rank:,} of {found.tally.evaluated:,}"
    if not found.your_rank:
        stands = f"is not valid: {', '.join(own.refused)}" if own.refused else "is not ranked: it has no price"
    yield styled(f"  yours ({words}) {stands}")


def _needs(found: ServiceSearch) -> Iterator[Text]:
    """How many replicas of the best plan the load needs, or of another one that needs fewer accelerators."""
    best = found.smaller or found.best[0]
    inputs = found.variants.of(best.variant)
    needed, rate = best.costs["replicas_needed"], inputs.case.scenario.workload.rate
    if rate is None or math.isnan(needed) or math.isinf(needed):
        return
    taken = f"{number_of(needed, 'replica')} of {replica_words(best.sizes)}"
    if best.prefill is not None:
        kinds = (f"{best.costs[f'{name}_needed']:,.0f} {name}" for name in ("prefill", "decode"))
        taken = f"{' and '.join(kinds)} instances"
    gpus = f"{gpus_words(inputs, best.costs['gpus_needed'])}{whole_nodes_words(inputs, best.costs['gpus_needed'])}"
    paths, stated = found.variants.paths, found.variants.values(best.variant)
    named = zip(headings(paths), stated.values(), strict=True)
    values = " · ".join(f"{name} {spaced(value)}" for name, value in named)
    taken += f" ({values})" if values else ""
    plan = "plan 1" if found.smaller is None else "another plan"
    yield styled(f"  With {plan}, {rate_words(rate, significant(rate))} need {taken}: {gpus}")
    yield styled(f"  {rent_words(inputs, best.costs['gpus_needed'])}")
    yield from _at_that_size(found)
    yield from _with_fewer(found)
    yield from counted_for(inputs.case)
    yield from unlimited(inputs)
    if found.safe is None and found.unruled is None:
        yield from without_room(inputs)


def other_rule(found: ServiceSearch) -> str:
    """What the best plan takes by the other rule, and both chances: without --safe, or with it where it only shows."""
    other = found.other
    if other is None or other.broken or not found.best or found.expected_cluster is not None:
        return ""
    best, sized = found.best[0], found.fleet or found.best[0]
    is_counted = math.isfinite(best.costs["gpus_needed"])
    if found.unruled is not None:
        rule = "Not calibrated for this GPU, so the average prediction rules"
        more = number_of(other.costs["gpus"], "GPU")
        would = f"{_gpus_at(sized)}; a chance of {percent(found.unruled, 2)} would take {more}"
        return f"{rule}: {would}" if is_counted else rule
    if (other.sizes, other.prefill) == (sized.sizes, sized.prefill):
        return ""
    if is_counted:
        words = "" if _layout(other) == _layout(best) else f" ({best_words(other)})"
        return _two_sizes(other, sized, words)
    objective = found.inputs.case.scenario.objective
    figures = (
        f"{objective} {result(objective, other.costs[objective])}, {result(objective, best.costs[objective])} here"
    )
    return f"Without --safe: {best_words(other)} at {_percents(other.costs[OWN])}: {figures} (--safe off)"


def _gpus_at(plan: RankedPlan, words: str = "") -> str:
    """The accelerators of a plan with its chance."""
    return f"{number_of(plan.costs['gpus'], 'GPU')}{words} at {_percents(plan.costs[OWN])}"


def _two_sizes(expected: RankedPlan, safe: RankedPlan, words: str = "") -> str:
    """The accelerators by expected figures beside those for the preferred chance."""
    large = f"{counted(safe.costs['gpus'])} at {_percents(safe.costs[OWN])}"
    return f"{_gpus_at(expected, words)}, {large} (--safe off takes the first)"


def _layout(ranked: RankedPlan) -> list[dict[str, float]]:
    """The sizes of a plan but its number of replicas."""
    halves = [ranked.sizes, *([] if ranked.prefill is None else [ranked.prefill])]
    return [{name: size for name, size in half.items() if name != "replicas"} for half in halves]


def _waiting(found: ServiceSearch) -> list[Text]:
    """How many wait in line under the best plan, and which answer names the replicas that end the line."""
    workload = found.variants.of(found.best[0].variant).case.scenario.workload
    lines = waiting_lines(workload, found.best[0].costs, "With plan 1, ")
    named = "  More replicas shorten the line: the estimate named below prints how many end it"
    return [*lines, styled(named)] if lines and not found.best[0].broken else lines


def _at_that_size(found: ServiceSearch) -> Iterator[Text]:
    """Times and chance of the replicas that are needed, where the table has others."""
    fleet = found.smaller or found.fleet
    if fleet is None:
        return
    costs = fleet.costs
    kind = "replica" if fleet.prefill is None else "instance"
    many = f"With {number_of(costs['replicas'], kind)}"
    times = f"{result('tpot', costs['tpot'])} per token, first token {result('ttft_p99', costs['ttft_p99'])} (p99)"
    single = found.inputs.case.scenario.workload.single_token
    times = f"first token {result('ttft_p99', costs['ttft_p99'])} (p99)" if single else times
    yield styled(f"  {many}: {times}. Chance to {chance_of(found.inputs.case)}: {_percents(costs[OWN])}")


def _with_fewer(found: ServiceSearch) -> Iterator[Text]:
    """How to find a plan that needs fewer GPUs than the best one, where one does."""
    best = found.best[0]
    fewest = found.service_parts[[part.number for part in found.service_parts].index(best.variant)].fewest
    if fewest < best.costs["gpus_needed"]:
        fewer = gpus_words(found.variants.of(best.variant), fewest)
        yield styled(f"  Another plan needs {fewer}: --set objective=gpus_needed finds it")


def _tries(found: ServiceSearch) -> list[Line]:
    """Settings of the search under which a plan keeps every limit, and the best plan there."""
    if not found.remedies:
        return never_kept(found)
    rows = [
        (
            "try" if not place else "",
            options_of(found.inputs.case, (*remedy.settings, *remedy.plan)),
            f"{best_words(remedy.best)}, {number_of(remedy.best.costs['gpus'], 'GPU')}",
        )
        for place, remedy in enumerate(found.remedies)
    ]
    kept = "keeps all limits" if has_limits(found.inputs.case) else "answers the load"
    kept += f" with a chance of {percent(found.safe, 2)}" if found.safe is not None else ""
    then = "the best plan then" if any(remedy.best.broken for remedy in found.remedies) else kept
    return [Text(), CellTable(("", "what to set", then), rows, "lkl"), *_both_sizes(found)]


def _both_sizes(found: ServiceSearch) -> list[Text]:
    """The accelerators of the smallest larger cluster by expected figures beside those for the preferred chance."""
    fewer, safe = found.expected_cluster, found.safe_cluster
    if fewer is None or safe is None:
        return []
    return [styled(f"  {_two_sizes(fewer, safe)}")]


def _after_none(found: ServiceSearch) -> list[Line]:
    """The search to ask next, where a remedy is settings of it."""
    if not found.remedies:
        return []
    settings = dict(setting.split("=", 1) for setting in found.remedies[0].settings)
    return [typed("Next:", command(found.inputs.case, "search", settings=settings))]


_NAMED = 4  # reasons, of which the others are counted together


def never_kept(found: ServiceSearch) -> list[Line]:
    """The limits that no plan keeps, since requests one at a time break them, with the plan that is nearest."""
    if found.works or found.stopped:
        return []
    alone = found.alone
    words = "" if alone is None else best_words(alone).partition(" ✗")[0]
    return [never_kept_line(found.inputs, None if alone is None else alone.costs, words)]


def shares(found: ServiceSearch) -> list[Line]:
    """The most frequent reasons, with the share of all plans that each refuses."""
    counts = found.tally.whole
    codes = [code for code, _ in counts.against()]
    words = [f"{code} {REFUSALS[code].title} {percent(counts.share(code))}" for code in codes[:_NAMED]]
    others = sum(counts.share(code) for code in codes[_NAMED:])
    more = [f"others {percent(others)}, --why-not lists them"] if others else []
    return [styled(f"  why not   {' · '.join([*words, *more])}", DIM)] if words else []


def examples(found: ServiceSearch) -> Iterator[Line]:
    """What refuses plans, with how many at each value, and one of them."""
    if not any(found.tally.refused.values()):
        return
    paths = found.variants.paths
    rows = [
        (
            *map(spaced, found.variants.values(part.number).values()),
            code,
            f"{count:,}",
            REFUSALS[code].title,
            _example(part, code),
        )
        for part in found.service_parts
        for code, count in part.against()
    ]
    yield from [Text()] if paths else []
    yield CellTable((*headings(paths), "code", "plans", "why", "for example"), rows, f"{'k' * len(paths)}lrll")


def _example(part: ServiceCounts, code: str) -> str:
    sizes = part.examples[code].sizes
    return " · ".join(f"{name} {counted(sizes[name])}" for name in sizes if sizes[name] > 1)


_AT_MOST = ("rate_within_slo_per_s", "tokens_per_gpu_within_limits", "cost_within_limits")
_AT_LOAD = ("requests_per_s", "tokens_per_s_per_gpu", "cost_per_mtoken")
_MOST_HEADS = ("most req/s", "most tok/s/GPU", "least rent/M out")
_USUAL = {  # objectives of loads that wait for answers
    "makespan": "the time to finish the batch",
    "latency": "the time of a whole answer under that load",
}
_SIGNS = {"at_most": "≤", "at_least": "≥", "target": "≈"}


def rate_columns(found: ServiceSearch) -> tuple[str, str, str]:
    """Requests and tokens a second, and rent per token: at the highest rate; of a load that waits for answers, at the
    rate that it gets.
    """
    return _AT_LOAD if _waits(found) else _AT_MOST


def column_head(found: ServiceSearch, name: str) -> str:
    """The head of a result's column, which distinguishes the highest rate from that of the load."""
    heads = dict(zip(_AT_MOST, _MOST_HEADS, strict=True)) if _waits(found) else {}
    return heads.get(name, result_head(name))


def _waits(found: ServiceSearch) -> bool:
    return found.inputs.case.scenario.workload.rate is None


def table_key(found: ServiceSearch, columns: Sequence[str]) -> Iterator[Text]:
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
    if alike := sum(part.alike for part in found.service_parts):
        yield styled(f"  ep: {number_of(alike, 'plan')} with more of it and the same figures left out", DIM)
    if any(OVERLOAD & {*each.broken} for each in found.best):
        yield styled("  no end: requests arrive faster than they are answered; tpot is that at req/s", DIM)
    fastest = max((part.fastest for part in found.service_parts), default=math.inf)
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


def _rates_words(found: ServiceSearch, columns: Sequence[str]) -> Iterator[Text]:
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


def _ranked_by(found: ServiceSearch) -> list[Text]:
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


def _limits(found: ServiceSearch) -> list[Limit]:
    """Limits that are the same at every value."""
    varied = {path.split(".")[1] for path in found.variants.paths if path.startswith("limits.")}
    return [limit for limit in service_limits(found.inputs) if limit.column not in varied]
