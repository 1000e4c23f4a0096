"""A serving plan's estimate: conclusion first, figures with units, at home in 80 columns."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.text import Text

from costmodel.equations.serving.serving_economics import MONTH
from costmodel.estimate.evaluate.answer_facts import subject_of
from costmodel.estimate.serving.deployment_rent import by_whole_nodes
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.estimate.serving.reason_codes import REFUSALS
from costmodel.estimate.serving.serving_band import OWN
from costmodel.ground.counts import number_of
from costmodel.ground.units import gib, percent, rounded_dollars, show, show_time, significant
from costmodel.report.terminal.serving.serving_formatting import TERMS, limits_on, one, plan_words, reason, result
from costmodel.report.terminal.style.formatting import BAND, ENDS, between
from costmodel.report.terminal.style.head import origin_lines, price_lines, subject_words
from costmodel.report.terminal.style.layout import CellTable, Line, drawn
from costmodel.report.terminal.style.next_command import command, options_of
from costmodel.report.terminal.style.remark_lines import assumed_lines, remarks
from costmodel.report.terminal.style.theme import BAD, HEAD, bar, styled

_OF_SOME = ("dcp_exposed", "ep_exposed", "pp_exposed", "tp_exposed", "draft_time")  # shown only where not zero
BINDS = {
    "prefill": "the instances for prompts",
    "transfer": "the links between prefill and decode",
    "budget": "the token budget of a step",
    "cache": "the cache",
    "sequences": "the engine's limit on sequences",
    "host link": "the link to the host, over which conversations come back",
    "compute": "time: steps are full of work",
}


def estimate(answer: ServingAnswer, *, verbose: bool = False) -> list[Line]:
    """Times, rates, memory and cost of one plan under its load, and where a token's time goes."""
    if answer.refused:
        return [*titled(answer), *problems(answer), Text(), styled("Not a valid plan; nothing was computed.", BAD)]
    settled = math.isfinite(answer.costs["tpot"]) and "M001" not in answer.broken
    return [
        *titled(answer, price=True),
        *problems(answer),
        Text(),
        *_at_most(answer, followed=settled),
        *(_facts(answer) if settled else []),
        *(_where_it_goes(answer) if settled else []),
        Text(),
        *assumed_lines(answer.assumed, verbose=verbose),
        Text(),
        *([] if "M001" in answer.broken else [styled(bound_words(answer))]),
        following(answer, "explain", "tpot", before="Next:"),
        following(answer, "memory", before="     "),
    ]


def _at_most(answer: ServingAnswer, *, followed: bool) -> list[Line]:
    """Of a plan that cannot answer all that arrives: what the figures are of."""
    if not answer.overload:
        return []
    most = result("saturation_per_s", answer.costs["saturation_per_s"])
    end = ":" if followed else "."
    return [
        styled(f"  At {most}, the highest rate it can serve; at a higher rate the queue grows without bound{end}", BAD)
    ]


def titled(answer: ServingAnswer, *, price: bool = False) -> list[Line]:
    """What is asked about, and the plan."""
    case = answer.inputs.case
    subject = subject_of(case)
    priced = price_lines(subject.price) if price else []
    return [styled(subject_words(subject), HEAD), styled(plan_words(answer)), *priced, *origin_lines(case)]


def problems(answer: ServingAnswer) -> list[Line]:
    """What speaks against one plan, with its codes."""
    codes = answer.refused or answer.broken
    lines: list[Line] = [styled(f"  ✗ {code} {REFUSALS[code].title}: {reason(answer, code)}", BAD) for code in codes]
    lines += _tries(answer)
    lines += [] if answer.refused else remarks([answer.remarked])
    return [Text(), *lines] if lines else []


def _tries(answer: ServingAnswer) -> list[Line]:
    """What takes the problems away, as options of the same command."""
    lines: list[Line] = []
    for first, *others in answer.remedies:
        options = options_of(answer.inputs.case, first)
        values = " or ".join(" ".join(setting.partition("=")[2] for setting in each) for each in others)
        lines.append(drawn(f"    {'   ' if lines else 'try'}  {options}{f' (or {values})' if others else ''}"))
    return lines


def following(answer: ServingAnswer, verb: str, *words: str, before: str) -> Text:
    """The command to type next."""
    return drawn(f"{before} {command(answer.inputs.case, verb, *words)}")


def _facts(answer: ServingAnswer) -> list[Line]:
    """The figures one asks for first, two to a line, each with the limit on it."""
    costs, total = answer.costs, gib(float(answer.evaluation.memory.total))

    def stated(name: str) -> str:
        return result(name, costs[name])

    def band(name: str) -> str:
        return _band(costs, name)

    of_one = "replica" if answer.plan.prefill is None else "decode"
    fits = f"{significant(costs['concurrency_steady'])} mean requests fit"
    rows = [
        ("first token", stated("ttft"), "p99", stated("ttft_p99"), limits_on(answer, "ttft_p99")),
        (BAND, band("ttft"), BAND, band("ttft_p99"), limits_on(answer, "ttft")),
        ("per token", stated("tpot"), "p99", stated("tpot_p99"), limits_on(answer, "tpot")),
        (BAND, band("tpot"), "per user", stated("tokens_per_s_per_user"), limits_on(answer, "tpot_p99")),
        ("whole answer", stated("latency"), "worst gap", stated("worst_gap"), limits_on(answer, "worst_gap")),
        ("requests", stated("requests_per_s"), "within limits", stated("rate_within_slo_per_s"), _chance(answer)),
        ("utilisation", stated("utilisation"), "saturation", stated("saturation_per_s"), ""),
        ("in flight", f"{significant(costs['concurrency'])} a {of_one}", "cache", fits, ""),
        ("throughput", stated("output_tokens_per_s"), "per GPU", stated("tokens_per_s_per_gpu"), ""),
        (
            "memory",
            f"{gib(costs['memory_peak'])} of {total} GiB",
            "cache pool",
            _pool(costs),
            limits_on(answer, "memory_peak"),
        ),
    ]
    rows += _least(answer)
    rows += _offline(answer)
    rows += _beginnings(answer)
    rows += _speculation(answer)
    rows += _apart(answer)
    return [
        CellTable([""] * 5, rows, "lllll", headed=False),
        styled(f"  cost          {_cost(costs)}"),
        *_rent(answer),
        *_energy(costs),
    ]


def _band(costs: Mapping[str, float], name: str) -> str:
    """What a result is between, where it has an end."""
    ends = [costs[f"{name}_{end}"] for end in ENDS]
    return between(*(result(name, end) for end in ends)) if all(map(math.isfinite, ends)) else "—"


def _least(answer: ServingAnswer) -> list[tuple[str, str, str, str, str]]:
    """What is taken before requests come, where a limit bounds it."""
    limits = limits_on(answer, "memory_share")
    if not limits:
        return []
    share = percent(answer.costs["memory_share"])
    return [("least memory", f"{share} of {gib(one(answer.evaluation.memory.allowed))} GiB", "", "", limits)]


def _chance(answer: ServingAnswer) -> str:
    """The chance that every limit is kept, by the bands."""
    return f"chance {result(OWN, answer.costs[OWN])} {limits_on(answer, OWN)}".rstrip()


def _offline(answer: ServingAnswer) -> list[tuple[str, str, str, str, str]]:
    """When the last answer of a batch is there, and what its longest answers cost."""
    costs, requests = answer.costs, answer.inputs.case.scenario.workload.requests
    if requests is None:
        return []
    lost = f"{result('tail_share', costs['tail_share'])} of it"
    return [("whole batch", result("makespan", costs["makespan"]), "lost in its tail", lost, "")]


def _beginnings(answer: ServingAnswer) -> list[tuple[str, str, str, str, str]]:
    """What prompts find in the cache, and how long that stays."""
    workload, costs = answer.inputs.case.scenario.workload, answer.costs
    if not workload.shared_prefix and workload.turns == 1:
        return []
    stays = costs["prefix_residency"]
    late = float(workload.think_time or 0.0) + costs["latency"] > stays
    words = f"{show_time(stays)} unused" + (": too short" if late and workload.turns > 1 else "")
    hits = ("prefix hits", result("prefix_hit", costs["prefix_hit"]), "stays", words, "")
    return [hits, *_on_host(answer)]


def _on_host(answer: ServingAnswer) -> list[tuple[str, str, str, str, str]]:
    """What of it comes back from the host, how long that stays, and whether loading is faster than computing."""
    costs, gain = answer.costs, answer.costs["host_load_gain"]
    if answer.inputs.host_pool is None:
        return []
    stays = f"{show_time(costs['host_residency'])} unused"
    rows = [("from the host", result("host_hit", costs["host_hit"]), "stays", stays, "")]
    if not costs["host_hit"]:
        return rows
    word = f"{significant(gain)} × as fast as computing" if gain >= 1 else "slower than computing it again"
    delay = show_time(costs["host_load_exposed"])
    busy = result("host_link_utilisation", costs["host_link_utilisation"])
    return [*rows, ("loading adds", f"{delay}, link {busy} busy", "which is", word, "")]


def _speculation(answer: ServingAnswer) -> list[tuple[str, str, str, str, str]]:
    """What drafts bring, and up to where."""
    if answer.plan.speculation is None:
        return []
    costs = answer.costs
    most = costs["speculation_break_even"]
    until = "at any batch" if math.isinf(most) else f"up to {significant(most)} in flight" if most else "at no batch"
    gain = f"{significant(costs['speculation_gain'])} × as fast"
    return [("drafts", f"{significant(costs['accepted_tokens'])} tokens a step", "gain", f"{gain}, {until}", "")]


def _apart(answer: ServingAnswer) -> list[tuple[str, str, str, str, str]]:
    """How prefill and decode share the work, what is sent between them, and whether it pays."""
    if answer.plan.prefill is None:
        return []
    costs = answer.costs
    gain = costs["disaggregation_gain"]
    pays = "alone" if math.isinf(gain) else f"{significant(gain)} × replicas that do both"
    ratio = f"{significant(costs['prefill_per_decode'])} a decode"
    hidden = f"{show_time(costs['transfer_exposed'])} after the prompt"
    return [
        ("cache sent", show_time(costs["transfer_time"]), "exposed", hidden, ""),
        ("prefill busy", result("prefill_utilisation", costs["prefill_utilisation"]), "balance", ratio, ""),
        ("gain", pays, "", "", ""),
    ]


def _pool(costs: dict[str, float]) -> str:
    return f"{gib(costs['cache_pool'])} GiB, {significant(costs['cache_pool_tokens'] / 1e3, 4)} k tokens"


def _cost(costs: dict[str, float]) -> str:
    if math.isnan(costs["cost_per_mtoken"]):
        return "no price known; --price 2.50USD/GPU/h sets one"
    prompts, answers = (result(name, costs[name]) for name in ("cost_per_minput", "cost_per_moutput"))
    if not math.isnan(costs["cost_per_mcached"]):
        prompts = f"{prompts} ({result('cost_per_mcached', costs['cost_per_mcached'])} cached)"
    every = result("cost_per_mtoken", costs["cost_per_mtoken"])
    return f"{prompts} per M prompt tokens and {answers} per M generated; all rent, {every} per M generated"


def _rent(answer: ServingAnswer) -> list[Line]:
    """What all replicas cost together, and an offline batch on them; nothing where no price is known."""
    costs = answer.costs
    if math.isnan(costs["rent_per_month"]):
        return []
    used, nodes = number_of(costs["gpus"], "GPU"), number_of(costs["nodes"], "node")
    paid = f"{used} in {nodes}, rented whole" if by_whole_nodes(answer.inputs) else used
    month, batch = (rounded_dollars(costs[name]) for name in ("rent_per_month", "cost_of_batch"))
    whole = [styled(f"  whole batch   {batch}")] if answer.inputs.case.scenario.workload.requests is not None else []
    hour = rounded_dollars(costs["rent_per_month"] * 3600 / MONTH)
    return [styled(f"  rent          {month} a month of 730 h, {hour} an hour: {paid}"), *whole]


def _energy(costs: dict[str, float]) -> list[Line]:
    """What a generated token takes, and all replicas together."""
    if math.isnan(costs["energy_per_token"]):
        return [styled("  energy        no power known; --set 'assume.power=900 W' sets that of an accelerator")]
    each = result("energy_per_token", costs["energy_per_token"])
    band = between(*(result("energy_per_token", costs[f"energy_per_token_{end}"]) for end in ENDS))
    power = show(costs["energy_per_token"] * costs["output_tokens_per_s"], "J/s")
    return [styled(f"  energy        {each} per generated token ({band}), {power} in total")]


def _where_it_goes(answer: ServingAnswer) -> list[Line]:
    """The terms of the time per token, longest first."""
    costs = answer.costs
    terms = [(name, costs[key]) for name, key in TERMS if key not in _OF_SOME or costs[key]]
    longest = max(value for _, value in terms)
    rows = [
        (name, show_time(value), bar(value / longest, 28), f"{value / costs['tpot'] * 100:.1f} %")
        for name, value in sorted(terms, key=lambda item: -item[1])
    ]
    shares = CellTable(("term", "time", "", "of the token"), rows, "lrlr", headed=False, drop=("",), indent="    ")
    return [Text(), styled("  where a token's time goes", HEAD), shares]


def bound_words(answer: ServingAnswer) -> str:
    """The longest term of a token's time, and what binds the rate first."""
    costs = answer.costs
    longest, value = max(((name, costs[key]) for name, key in TERMS), key=lambda item: item[1])
    share = f"{value / costs['tpot'] * 100:.0f} % of a token's time" if costs["tpot"] else ""
    return f"Bound by {longest}, {share}. The rate is bound by {BINDS[answer.binding]}."
