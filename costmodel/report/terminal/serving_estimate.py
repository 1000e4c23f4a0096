"""The estimate of a serving plan in a terminal: times, rates, memory, cost, and what limits them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from costmodel.documents.schemas.default_values import SAFE
from costmodel.documents.schemas.results import machine_name
from costmodel.equations.serving.serving_economics import MONTH
from costmodel.estimate.answer_facts import subject_of
from costmodel.estimate.serving.predict_serving import REFUSALS, ServingAnswer
from costmodel.estimate.serving.replicas_for_load import fleet_of
from costmodel.estimate.serving.service_limits import OWN, breaks_exact_limit, service_limits
from costmodel.explore.answer_summaries import scalar, serving_plan_text
from costmodel.ground.counts import number_of
from costmodel.ground.units import chance_words, gib, percent, rounded_dollars, show, show_time, significant
from costmodel.report.answers.plan_parts import TimePart
from costmodel.report.document import computed, traced
from costmodel.report.terminal.formatting import BAND
from costmodel.report.terminal.head import (
    command,
    origin_lines,
    price_lines,
    remarks_of_plans,
    setting_options,
    subject_words,
)
from costmodel.report.terminal.layout import (
    BAD,
    DIM,
    HEAD,
    Abridged,
    CellTable,
    Detail,
    Line,
    chance_style,
    shell_line,
    short_or_full,
    styled,
)
from costmodel.report.terminal.serving_formatting import (
    TERMS,
    band_text,
    batch_limits_warning,
    chance_meaning,
    has_limits,
    limit_verdicts,
    load_words,
    never_kept_line,
    plan_words,
    rate_words,
    reason,
    result,
    unused_gpus_note,
    waiting_lines,
)

_OF_SOME = ("dcp_exposed", "ep_exposed", "pp_exposed", "tp_exposed", "draft_time")  # shown only where not zero
_FULL = 0.99  # of the highest rate
BINDS = {
    "prefill": "the instances for prompts limit",
    "transfer": "the links between prefill and decode limit",
    "budget": "the token budget of a step limits",
    "cache": "the KV cache limits",
    "sequences": "the engine's most sequences limit",
    "host link": "the link to the host, over which conversations come back, limits",
    "compute": "compute limits",
}


def estimate_lines(answer: ServingAnswer, benchmark: Mapping[str, float] | None = None) -> list[Line]:
    """Times, rates, memory and cost of a plan under its load; no figures if its times are not known.

    benchmark: the times that a benchmark of the load prints, if they are known and differ
    """
    settled = times_are_known(answer)
    return [*_overload_line(answer, followed=settled), *(_result_rows(answer, benchmark or {}) if settled else [])]


def times_are_known(answer: ServingAnswer) -> bool:
    """Whether the plan's times are known: it fits, and its time per token is finite."""
    single = answer.inputs.case.scenario.workload.single_token
    return (single or math.isfinite(answer.costs["tpot"])) and "M001" not in answer.broken


def has_tokens(answer: ServingAnswer) -> bool:
    """Whether the plan has a known time per token."""
    return times_are_known(answer) and not answer.inputs.case.scenario.workload.single_token


def bound_line(answer: ServingAnswer) -> Line:
    """A line on the bottlenecks of a plan, or that its times are not shown."""
    if answer.groups:
        return styled("Each kind of nodes takes the share of the load that its rate within limits is of all.")
    if "M001" in answer.broken:
        return styled("Does not fit; times of a plan that cannot run are not shown.", BAD)
    worded = bound_words if has_tokens(answer) else _rate_limit_words
    return Abridged(worded(answer), short=worded(answer, brief=True), added="")


def _overload_line(answer: ServingAnswer, *, followed: bool) -> list[Line]:
    """A line for a load above capacity: figures are at the highest rate that the plan can serve."""
    if not answer.overload:
        return []
    most = result("saturation_per_s", answer.costs["saturation_per_s"])
    short, words = f"  At {most}, its highest rate:", "where a higher rate ends"
    whole = f"  At {most}, its highest rate; more requests arrive, so the queue grows without bound"
    return [Abridged(f"{whole}:", BAD, short=short, added=words) if followed else styled(f"{whole}.", BAD)]


def serving_head_lines(answer: ServingAnswer, *, price: bool = False) -> list[Line]:
    """The head: model, machine, the plan, and the price."""
    case = answer.inputs.case
    subject = subject_of(case)
    priced = price_lines(subject.price, shown=False) if price else []
    return [styled(subject_words(subject), HEAD), styled(plan_words(answer)), *priced, *origin_lines(case)]


def problem_lines(answer: ServingAnswer) -> list[Line]:
    """Reasons against a plan with remedies, and remarks, with their codes."""
    codes = answer.refused or answer.broken
    lines: list[Line] = [styled(f"  ✗ {code} {REFUSALS[code].title}: {reason(answer, code)}", BAD) for code in codes]
    lines += [] if answer.refused else waiting_lines(answer.inputs.case.scenario.workload, answer.costs)
    lines += [*(batch_limits_warning(answer.inputs.case) if codes else []), *_remedy_lines(answer)]
    lines += [] if answer.refused else remarks_of_plans([answer.remarked], nodes=[answer.inputs.case.node.name])
    return [Text(), *lines] if lines else []


def _remedy_lines(answer: ServingAnswer) -> list[Line]:
    """Lines on remedies, as options of the same command."""
    if answer.groups:
        return []
    if answer.broken and not answer.remedies:
        alone = answer.alone
        words = "" if alone is None else serving_plan_text(alone)
        return [never_kept_line(answer.inputs, None if alone is None else alone.costs, words)]
    aim = chance_meaning(answer.inputs.case)
    lines: list[Line] = []
    for place, ((first, *others), chance) in enumerate(zip(answer.remedies, answer.chances, strict=True)):
        options = setting_options(answer.inputs.case, first)
        values = " or ".join(
            " ".join(setting.partition("=")[2] for setting in each) for each in others if len(each) == 1
        )
        aside = f"{f' (or {values})' if values else ''}{_remedy_chance_words(answer, chance)}"
        if answer.partial and place in (0, answer.partial):
            lines.append(styled(f"    with these it {f'might {aim}' if place else f'fits, but would not {aim}'}:", BAD))
        mark = "try" if place in (0, answer.partial) else "   "
        tried = CellTable(("", ""), [(mark, f"{options}{aside}")], "kl", headed=False, indent="    ")
        lines.append(tried if place in (0, answer.partial) else Detail([tried], "further changes", spare=1))
    if answer.more:
        lines.append(shell_line("    more with:", command(answer.inputs.case, "search", free=True)))
    return lines


def _remedy_chance_words(answer: ServingAnswer, chance: float | None) -> str:
    """The chance after a remedy; one that searches prefer only of limits."""
    case = answer.inputs.case
    if chance is None or (chance >= SAFE and not has_limits(case)):
        return ""
    return f"   chance {'' if chance >= SAFE else f'to {chance_meaning(case)}: '}{chance_words(chance)}"


Row = tuple[str, str, str, str, str]
_MAIN = ("requests", "SLO met", "throughput", "memory", "whole batch")
_BANDED = ("first token", "per token")
_NONE = ("", "", "")
_PER_USER = ("per user", "tokens_per_s_per_user")
_NO_GAPS = ("per token", "none: an answer is one token", "", "", "")


def _token_times(answer: ServingAnswer) -> Iterator[Row]:
    """Rows with the time between tokens, and the time until the last token."""
    yield from _two_results(answer, ("per token", "tpot"), ("p99", "tpot_p99"), marks=("tpot", "tpot_p99"))
    yield from _two_results(answer, ("whole answer", "latency"), ("worst gap", "worst_gap"))


def _result_rows(answer: ServingAnswer, benchmark: Mapping[str, float]) -> list[Line]:
    """The main results, two per line, each with its limit and, below, its error band."""
    costs, total = answer.costs, gib(float(answer.evaluation.memory.total))
    of_one = "replica" if answer.plan.prefill is None else "decode"
    flying = f"{significant(costs['concurrency'])} a {of_one}"
    fits = f"{significant(costs['concurrency_steady'])} mean requests"
    held, limited = f"{gib(costs['memory_peak'])} of {total} GiB", bool(service_limits(answer.inputs))
    within = f"up to {result('rate_within_slo_per_s', costs['rate_within_slo_per_s'])}"
    most = ("within limits", "rate_within_slo_per_s", within) if limited else ("saturation", "saturation_per_s")
    beside = ("saturation", "saturation_per_s") if limited else _NONE
    single = answer.inputs.case.scenario.workload.single_token
    rows = [
        *_two_results(answer, ("first token", "ttft"), ("p99", "ttft_p99"), marks=("ttft_p99", "ttft")),
        *([_NO_GAPS] if single else _token_times(answer)),
        *([_benchmark_line(benchmark)] if benchmark else []),
        *_two_results(answer, ("requests", "requests_per_s"), most, mark=_chance_row(answer)),
        *_in_time_rows(answer),
        *_two_results(answer, ("load", "saturation_share", _load_words(costs)), beside),
        *_two_results(answer, ("throughput", "output_tokens_per_s"), _NONE if single else _PER_USER),
        *_two_results(
            answer,
            _NONE if answer.groups else ("in flight", "concurrency", flying),
            ("per GPU", "tokens_per_s_per_gpu"),
        ),
    ]
    if not answer.groups:
        rows.append(("memory", held, "cache pool", _pool_words(costs), limit_verdicts(answer, "memory_peak")))
        rows += _two_results(answer, _NONE, ("which holds", "concurrency_steady", fits))
        rows += [
            *_memory_limit_row(answer),
            *_batch_rows(answer),
            *_prefix_cache_rows(answer),
            *_speculation_lines(answer),
            *_disaggregated_lines(answer),
        ]
    chance = _chance_row(answer)
    marked = {chance: chance_style(costs[OWN])} if chance and math.isfinite(costs[OWN]) else {}
    main, whole = (
        CellTable([""] * 5, each, "lllll", headed=False, marked=marked) for each in ([*_main_lines(rows)], rows)
    )
    return [
        *short_or_full([main], [whole], "other results"),
        Detail(
            cost_and_energy_lines(answer)
            if not answer.inputs.case.kinds
            else [*_cost_lines(costs), *_rent_line(answer)],
            "what it costs",
            spare=1,
        ),
        *_node_kind_rows(answer),
    ]


def _main_lines(rows: Sequence[Row]) -> Iterator[Row]:
    """The rows of a short answer: times with their bands, rates, memory."""
    banded = False
    for row in rows:
        banded = row[0] in _BANDED or (banded and row[0] == BAND)
        if banded or row[0] in _MAIN:
            yield (
                row[0].ljust(len("whole answer")),
                *row[1:3],
                row[3].partition(", ")[0],
                row[4].removesuffix(" to answer all"),
            )


def _benchmark_line(printed: Mapping[str, float]) -> Row:
    """The mean times that a benchmark prints, which starts all users at once; other figures are of a steady load."""
    first, token = (result(name, printed[name]) for name in ("ttft", "tpot"))
    between = f"{token} mean TPOT" if math.isfinite(printed["tpot"]) else ""
    return "benchmark", f"{first} mean TTFT", "", between, "all start at once"


def _node_kind_rows(answer: ServingAnswer) -> list[Line]:
    """Rows for each kind of nodes: its plan, its share of the load, its rate and its rent."""
    if not answer.groups:
        return []
    heads = ("nodes", "plan", "share", "requests", "within limits", "per token", "ttft p99", "rent/M out")
    names = ("requests_per_s", "rate_within_slo_per_s", "tpot", "ttft_p99", "cost_per_mtoken")
    rows = [
        (
            f"{each.inputs.case.cluster.nodes:g} × {each.inputs.case.node.name}",
            serving_plan_text(each),
            percent(each.share),
            *(result(name, each.costs[name]) for name in names),
        )
        for each in answer.groups
    ]
    return [Text(), CellTable(heads, rows, "llrrrrrr", drop=("requests", "within limits")), *_idle_nodes_line(answer)]


def _idle_nodes_line(answer: ServingAnswer) -> list[Line]:
    """A line on kinds of nodes that answer no request within the limits."""
    used = {each.inputs.case.node.name for each in answer.groups}
    idle = [group.node.name for _, group in answer.inputs.case.groups if group.node.name not in used]
    return [styled(f"  no request: {', '.join(idle)}, which cannot answer one within the limits", BAD)] if idle else []


def _two_results(
    answer: ServingAnswer, left: tuple[str, ...], right: tuple[str, ...], marks: tuple[str, ...] = (), mark: str = ""
) -> Iterator[Row]:
    """Two results in one row, with labels and units; their error bands in the next row.

    marks: columns whose limits follow the figures and their bands; by default, the column of the second figure
    """
    texts = [each[2] if len(each) > 2 else result(each[1], answer.costs[each[1]]) for each in (left, right)]
    first, below = (*(limit_verdicts(answer, name) for name in marks or (right[1],)), "")[:2]
    yield left[0], texts[0], right[0], texts[1], mark or first
    bands = [band_text(answer.costs, each[1]) for each in (left, right)]
    labels = [BAND if each else "" for each in bands]
    if any(bands) or below:
        yield labels[0], bands[0], labels[1], bands[1], below


def _in_time_rows(answer: ServingAnswer) -> list[Row]:
    """Rows with the share and the rate of requests that meet their limits; empty without such limits."""
    if math.isnan(answer.costs["in_time_share"]):
        return []
    share = (
        f"{result('in_time_share', answer.costs['in_time_share'])} {limit_verdicts(answer, 'in_time_share')}".rstrip()
    )
    return [*_two_results(answer, ("SLO met", "in_time_share", share), ("goodput", "in_time_per_s"))]


def _memory_limit_row(answer: ServingAnswer) -> list[tuple[str, str, str, str, str]]:
    """Memory that is used before requests arrive, if a limit is on it."""
    limits = limit_verdicts(answer, "memory_share")
    if not limits:
        return []
    share = percent(answer.costs["memory_share"])
    return [("least memory", f"{share} of {gib(scalar(answer.evaluation.memory.allowed))} GiB", "", "", limits)]


def _chance_row(answer: ServingAnswer) -> str:
    """A row with the chance that all limits are met; without limits, that the load is answered.

    Empty if the plan breaks a limit on a result without a band, such as rent, as another line shows that.
    """
    if breaks_exact_limit(answer.inputs, answer.costs):
        return ""
    case, chance = answer.inputs.case, result(OWN, answer.costs[OWN])
    if has_limits(case):
        return f"chance {chance} {limit_verdicts(answer, OWN)}".rstrip()
    workload = case.scenario.workload
    if (
        workload.rate is not None
        and workload.concurrency is not None
        and answer.costs["requests_per_s"] < workload.rate
    ):
        return f"of {load_words(workload)}: no more are sent"
    return f"chance {chance} to answer all" if workload.rate is not None else ""


def _batch_rows(answer: ServingAnswer) -> list[tuple[str, str, str, str, str]]:
    """The time of a whole offline batch, and the share of it that is lost in its tail."""
    costs, requests = answer.costs, answer.inputs.case.scenario.workload.requests
    if requests is None:
        return []
    lost = f"{result('tail_share', costs['tail_share'])} of it"
    return [*_two_results(answer, ("whole batch", "makespan"), ("lost in its tail", "", lost))]


def _prefix_cache_rows(answer: ServingAnswer) -> list[tuple[str, str, str, str, str]]:
    """Rows on prefix-cache hits, and on how long a prefix stays in the cache."""
    workload, costs = answer.inputs.case.scenario.workload, answer.costs
    if not workload.shared_prefix and not workload.beginnings and workload.turns == 1:
        return []
    stays = costs["prefix_residency"]
    late = float(workload.think_time or 0.0) + costs["latency"] > stays
    words = f"{show_time(stays)} after its use" + (", users return later" if late and workload.turns > 1 else "")
    hits = ("prefix hits", result("prefix_hit", costs["prefix_hit"]), "kept for", words, "")
    return [hits, *_host_cache_rows(answer)]


def _host_cache_rows(answer: ServingAnswer) -> list[tuple[str, str, str, str, str]]:
    """Rows on hits in the host's KV cache, how long entries stay, and whether loading is faster than prefill."""
    costs, gain = answer.costs, answer.costs["host_load_gain"]
    if answer.inputs.host_pool is None:
        return []
    stays = f"{show_time(costs['host_residency'])} after its use"
    rows = [("from the host", result("host_hit", costs["host_hit"]), "kept for", stays, "")]
    if not costs["host_hit"]:
        return rows
    word = f"{significant(gain)} × as fast as computing" if gain >= 1 else "slower than computing it again"
    delay = show_time(costs["host_load_exposed"])
    busy = result("host_link_utilisation", costs["host_link_utilisation"])
    return [*rows, ("loading adds", f"{delay}, link {busy} busy", "which is", word, "")]


def _speculation_lines(answer: ServingAnswer) -> list[tuple[str, str, str, str, str]]:
    """The tokens and the gain of speculative decoding, and up to which batch it gains."""
    if answer.plan.speculation is None:
        return []
    costs = answer.costs
    most = costs["speculation_break_even"]
    until = "at any batch" if math.isinf(most) else f"up to {significant(most)} in flight" if most else "at no batch"
    gain = f"{significant(costs['speculation_gain'])} × as fast"
    return [("drafts", f"{significant(costs['accepted_tokens'])} tokens a step", "gain", f"{gain}, {until}", "")]


def _disaggregated_lines(answer: ServingAnswer) -> list[tuple[str, str, str, str, str]]:
    """Separate prefill and decode: the KV-cache transfer, the balance, and the gain."""
    if answer.plan.prefill is None:
        return []
    costs = answer.costs
    gain = costs["disaggregation_gain"]
    pays = "alone" if math.isinf(gain) else f"{significant(gain)} × replicas that do both"
    ratio = f"{significant(costs['prefill_per_decode'])} a decode"
    hidden = f"{show_time(costs['transfer_exposed'])} after the prompt"
    return [
        *_two_results(answer, ("cache sent", "transfer_time"), ("exposed", "transfer_exposed", hidden)),
        ("prefill busy", result("prefill_utilisation", costs["prefill_utilisation"]), "balance", ratio, ""),
        *([] if math.isnan(gain) else [("gain", pays, "", "", "")]),
    ]


def _load_words(costs: dict[str, float]) -> str:
    """The load of a plan in words: its share of the highest rate, and the requests in flight."""
    return f"{result('saturation_share', costs['saturation_share'])} of saturation"


def _pool_words(costs: dict[str, float]) -> str:
    """The tokens in the KV-cache pool in words."""
    return f"{gib(costs['cache_pool'])} GiB, {significant(costs['cache_pool_tokens'] / 1e3, 4)} k tokens"


def token_parts(answer: ServingAnswer) -> list[TimePart]:
    """The terms of the time per token, each with its band."""
    costs = answer.costs
    longest = max(costs[key] for _, key in TERMS)  # whose unit all times have
    return [
        TimePart(
            name,
            costs[key],
            traced(show_time(costs[key]), costs[key], machine_name(key), key),
            computed(
                "part", f"{costs[key] / costs['tpot'] * 100:.1f} %", costs[key] / costs["tpot"], " / ", [key, "tpot"]
            ),
            band_text(costs, key, longest),
        )
        for name, key in TERMS
        if key not in _OF_SOME or costs[key]
    ]


def terms_without_band(answer: ServingAnswer) -> list[Line]:
    """Lines on which terms have no error band."""
    costs = answer.costs
    parts = (*TERMS, *((("cache sent", "transfer_time"),) if answer.plan.prefill is not None else ()))
    without = [name for name, key in parts if costs[key] > 0 and not band_text(costs, key)]
    words = f"    {', '.join(without)}: no range, never measured"
    return [Abridged(words, DIM, short="", added="what ranges rest on")] if without else []


def bound_words(answer: ServingAnswer, *, brief: bool = False) -> str:
    """The longest term of the time per token, and the bottleneck of the rate, as a sentence.

    brief: without the rate within limits, which the table above has
    """
    costs = answer.costs
    longest, value = max(((name, costs[key]) for name, key in TERMS), key=lambda item: item[1])
    share = f"{value / costs['tpot'] * 100:.0f} % of a token's time" if costs["tpot"] else ""
    words = _term_words(longest)
    chance, stated = costs[OWN], bool(_chance_row(answer)) and has_limits(answer.inputs.case)
    sure = f"{_chance_sentence(answer)} " if stated and math.isfinite(chance) else ""
    return f"{sure}{words[0].upper()}{words[1:]} takes {share}. {_rate_limit_words(answer, brief=brief)}"


def _rate_limit_words(answer: ServingAnswer, *, brief: bool = False) -> str:
    """The bottleneck of the rate; for a fixed number of users or requests, whether more would raise the rate."""
    workload, costs = answer.inputs.case.scenario.workload, answer.costs
    more = "users" if workload.users is not None else "requests in flight" if workload.concurrency is not None else ""
    if not more:
        allowed, most = costs["rate_within_slo_per_s"], costs["saturation_per_s"]
        if not has_limits(answer.inputs.case) or not allowed < _FULL * most:
            return f"{_rate_limit(answer)} the rate."
        kept, served = result("rate_within_slo_per_s", allowed), result("saturation_per_s", most)
        limit = f"{BINDS[answer.binding]} the rate to {served}."
        return f"{limit[0].upper()}{limit[1:]}" if brief else f"Limits are met up to {kept} on average; {limit}"
    rate, most = costs["requests_per_s"], costs["saturation_per_s"]
    waiting = costs["concurrency"] >= _FULL * costs["concurrency_steady"]
    if rate < _FULL * most and not waiting:
        highest = result("saturation_per_s", most)
        return f"More {more} would raise the rate, to {highest} at most: there {BINDS[answer.binding]} it."
    shown = result("requests_per_s", rate) if waiting else result("saturation_per_s", most)
    return f"More {more} would not raise the rate, {shown}: {BINDS[answer.binding]} it."


def _rate_limit(answer: ServingAnswer) -> str:
    """The start of a sentence on what limits the rate."""
    words = BINDS[answer.binding]
    return f"{words[0].upper()}{words[1:]}"


def cost_and_energy_lines(answer: ServingAnswer) -> list[Line]:
    """Cost of tokens, rent of all replicas, and energy of a token."""
    return [*_cost_lines(answer.costs), *_rent_line(answer), *_energy_line(answer.costs)]


def _cost_lines(costs: dict[str, float]) -> list[Line]:
    """Lines on the rent per million tokens, with its error band."""
    if math.isnan(costs["cost_per_mtoken"]):
        return [styled("  cost          no price known; --price 2.50USD/GPU/h sets one")]
    words, every = _cost_words(costs), result("cost_per_mtoken", costs["cost_per_mtoken"])
    whole = f"  cost          {words}; or {every} per M generated, prompts counted as free"
    lines: list[Line] = [Abridged(whole, short=f"  cost          {words}", added="other results")]
    named = (("prompt", "cost_per_minput"), ("cached", "cost_per_mcached"), ("generated", "cost_per_moutput"))
    bands = [(words, band_text(costs, name)) for words, name in (*named, ("all rent", "cost_per_mtoken"))]
    stated = " · ".join(f"{words} {found}" for words, found in bands if found)
    return [*lines, Abridged(f"  {BAND}     {stated}", short="", added="other results")] if stated else lines


def _cost_words(costs: dict[str, float]) -> str:
    prompts, answers = (result(name, costs[name]) for name in ("cost_per_minput", "cost_per_moutput"))
    if not math.isnan(costs["cost_per_mcached"]):
        prompts = f"{prompts} ({result('cost_per_mcached', costs['cost_per_mcached'])} cached)"
    return f"{prompts} per M prompt tokens and {answers} per M generated"


def _rent_line(answer: ServingAnswer) -> list[Line]:
    """The rent of all replicas, and of an offline batch; empty if no price is known."""
    costs = answer.costs
    if math.isnan(costs["rent_per_month"]):
        return []
    if answer.inputs.case.kinds:
        month, hour = (rounded_dollars(costs["rent_per_month"] * part) for part in (1.0, 3600 / MONTH))
        return [styled(f"  rent          {month} a month of 730 h, {hour} an hour: {number_of(costs['gpus'], 'GPU')}")]
    fleet = fleet_of(answer.inputs, costs["gpus"])
    used, nodes = number_of(fleet.gpus, "GPU"), number_of(fleet.nodes, "node")
    paid = f"{used} in {nodes}, rented whole" if fleet.by_node else f"{used}{unused_gpus_note(fleet)}"
    month, batch = (rounded_dollars(costs[name]) for name in ("rent_per_month", "cost_of_batch"))
    whole = [styled(f"  batch rent    {batch}")] if answer.inputs.case.scenario.workload.requests is not None else []
    hour = rounded_dollars(costs["rent_per_month"] * 3600 / MONTH)
    return [styled(f"  rent          {month} a month of 730 h, {hour} an hour: {paid}"), *whole]


def _energy_line(costs: dict[str, float]) -> list[Line]:
    """Energy per generated token, and the power of all replicas."""
    if math.isnan(costs["energy_per_token"]):
        return [styled("  energy        no power known; --set 'assume.power=900 W' sets that of an accelerator")]
    each = result("energy_per_token", costs["energy_per_token"])
    power = show(costs["energy_per_token"] * costs["output_tokens_per_s"], "J/s")
    words = f"  energy        {each} per generated token ({band_text(costs, 'energy_per_token')}), {power} in total"
    return [Abridged(words, short="", added="other results")]


def serving_conclusion(answer: ServingAnswer) -> str:
    """The answer in a sentence or two."""
    if answer.refused:
        code = answer.refused[0]
        return f"This plan is not valid: {reason(answer, code)}. Nothing was computed."
    if "M001" in answer.broken:
        return f"This plan does not fit: {reason(answer, 'M001')}."
    costs = answer.costs
    if not math.isfinite(costs["ttft"]):
        most = result("saturation_per_s", costs["saturation_per_s"])
        return f"This plan cannot answer what arrives: it answers at most {most}, and queues grow without end."
    times = f"first token after {result('ttft', costs['ttft'])}, then one every {result('tpot', costs['tpot'])}"
    rate = f"It answers {rate_words(costs['requests_per_s'], significant(costs['requests_per_s']))}: {times}. "
    rate += f"{_longest_term(answer)} {_rate_limit(answer)} the rate."
    broken = "; ".join(reason(answer, code) for code in answer.broken)
    return f"This plan breaks a limit: {broken}. {rate}" if broken else f"{_chance_sentence(answer)} {rate}"


def _chance_sentence(answer: ServingAnswer) -> str:
    """A sentence with the chance that all limits are met, or that all requests are answered."""
    chance = answer.costs[OWN]
    limited = has_limits(answer.inputs.case)
    if math.isnan(chance):
        return "All limits are met." if limited else "All requests are answered."
    return f"The chance to {'meet all limits' if limited else 'answer all requests'} is {chance_words(chance)}."


def _longest_term(answer: ServingAnswer) -> str:
    """The longest term of the time per token."""
    costs = answer.costs
    words, value = max(((words, costs[name]) for words, name in TERMS), key=lambda item: item[1])
    words = _term_words(words)
    return f"{words[0].upper()}{words[1:]} takes the largest part of a token's time, {percent(value / costs['tpot'])}."


def _term_words(term: str) -> str:
    """The name of a term of the time per token as the subject of a sentence."""
    return {"others' prefill": "other requests' prefill"}.get(term, term)
