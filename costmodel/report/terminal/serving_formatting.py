"""Words of a service in a terminal: GPUs, loads, lengths and limits as text, and reasons against a plan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from rich.text import Text

from costmodel.documents.reader.resolved_scenario import counted_by_gpus
from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.results import SERVING_RESULTS, is_share
from costmodel.documents.schemas.serving import BETWEEN_TOKENS, Serving
from costmodel.equations.parallelism.counts import padded_vocab
from costmodel.estimate.model.feed_forward_kinds import dense_inner_widths
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.serving.evaluate_disaggregated import DisaggregatedEvaluation
from costmodel.estimate.serving.operating_point import longer_than_a_step
from costmodel.estimate.serving.predict_serving import REFUSALS, ServingAnswer, code_of
from costmodel.estimate.serving.replicas_for_load import (
    Fleet,
    fleet_of,
    headroom_of,
    replicas_that_answer,
    share_of_saturation,
)
from costmodel.estimate.serving.service_limits import OWN, service_limits, waiting_requests, waits_in_batch
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.shared.results import KINDS, Limit, stated_limits
from costmodel.explore.answer_summaries import scalar, serving_plan_text
from costmodel.explore.search.required_chance import preferred_chance
from costmodel.ground.counts import number_of
from costmodel.ground.units import (
    ALMOST_ALL,
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
from costmodel.report.terminal.formatting import ENDS, MISSES, range_beside, range_of
from costmodel.report.terminal.layout import BAD, DIM, WARN, styled

UNKNOWN = "No price known; --price 2.50USD/GPU/h adds their rent"


def gpus_words(inputs: ServingInputs, gpus: float) -> str:
    """A number of accelerators in words, with the nodes that hold them."""
    used, fleet = number_of(gpus, "GPU"), fleet_of(inputs, gpus)
    if fleet.built == 1:
        return used
    nodes = f"{number_of(fleet.nodes, 'node')} of {fleet.built:,.0f}"
    if fleet.each < fleet.built and fleet.nodes > 1:
        most = "" if fleet.whole == gpus else "at most "
        return f"{used} on {nodes}, {most}{fleet.each:,.0f} of each in use"
    return f"{used}, {nodes}" if fleet.whole == gpus and fleet.each == fleet.built else f"{used} on {nodes}"


def whole_nodes_words(inputs: ServingInputs, gpus: float) -> str:
    """The --gpus option for whole nodes, if the accelerators do not fill their nodes; else empty."""
    fleet = fleet_of(inputs, gpus)
    if not counted_by_gpus(inputs.case) or fleet.nodes == 1 or fleet.whole == gpus:
        return ""
    return f" (--gpus {fleet.whole:.0f})"


def rent_words(inputs: ServingInputs, gpus: float) -> str:
    """A sentence on the rent of accelerators for a month, with the rent of whole nodes if it differs."""
    fleet = fleet_of(inputs, gpus)
    if math.isnan(fleet.month):
        return UNKNOWN
    counted = number_of(fleet.nodes, "whole node") if fleet.by_node else number_of(fleet.gpus, "GPU")
    return f"Their rent is {rounded_dollars(fleet.month)} a month of 730 h for {counted}{unused_gpus_note(fleet)}"


def unused_gpus_note(fleet: Fleet) -> str:
    """A remark if accelerators are paid one by one and do not fill their nodes; else empty."""
    if fleet.by_node or math.isnan(fleet.month):
        return ""
    if fleet.each < fleet.built:
        return f"; {min(fleet.each, fleet.gpus):,.0f} of {fleet.built:,.0f} in a node, the others not paid for"
    if fleet.whole == fleet.gpus:
        return ""
    verb = "costs" if fleet.nodes == 1 else "cost"
    named = f"{number_of(fleet.nodes, 'whole node')} ({number_of(fleet.whole, 'GPU')})"
    return f"; {named} {verb} {rounded_dollars(fleet.month_whole)}"


def replica_words(sizes: Mapping[str, float]) -> str:
    """The parallel degrees of one replica."""
    degrees = {name: sizes.get(name, 1.0) for name in ("tp", "pp", "ep", "dp_attention", "dcp")}
    return " · ".join(f"{name} {counted(size)}" for name, size in degrees.items() if size > 1 or name == "tp")


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
    ("others' prefill", "prompts_between"),
)
NOTHING = 1e-6  # a share or a rate under which it prints as none


_DIGITS, _FINEST = 3, 6  # digits of a result, and the most where fewer do not show that it is not its limit


def share_words(value: float) -> str:
    """A share in percent; `>99.9 %` if it is close to 1.

    >>> share_words(0.789), share_words(0.99996), share_words(1.0)
    ('78.9 %', '>99.9 %', '100 %')
    """
    return ">99.9 %" if ALMOST_ALL <= value < 1 else percent(value)


def bound_words(name: str, bound: float, digits: int = 0) -> str:
    """The bound of a limit, with all the digits that the user stated, up to six.

    >>> bound_words("tpot", 0.025), bound_words("tpot", 0.02096)
    ('25.0 ms', '20.96 ms')
    """
    most = digits or _stated_digits(bound)
    return percent(bound, most) if is_share(name) else result(name, bound, most)


def distinct_digits(name: str, value: float, bound: float) -> int:
    """The fewest digits that show a difference between a result and its bound, or the digits of the bound.

    >>> distinct_digits("tpot", 0.02503, 0.025), distinct_digits("tpot", 0.03, 0.025)
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
        return "∞"
    if abs(value) < NOTHING and (is_share(name) or name.endswith("_per_s")):
        value = 0.0
    if unit == "B":
        return show_memory(value, digits)
    if name in ("requests_per_s", "saturation_per_s", "rate_within_slo_per_s", "in_time_per_s"):
        return f"{significant(value, digits)} /s"
    if unit == "1/s":
        return f"{significant(value, max(digits, 4))} token/s"
    if is_share(name) and digits == _DIGITS:
        return chance_words(value, 1) if name.endswith("_chance") else share_words(value)
    if is_share(name):
        return percent(value, digits)
    if unit != "1":
        return show(value, unit, digits)
    return counted(round(value, 1), 4) if abs(value) >= 100 or value.is_integer() else significant(value, digits)


def band_text(costs: Mapping[str, float], name: str, beside: float | None = None) -> str:
    """The P10–P90 band of a figure, with one unit; empty if it has none, or if both ends look equal.

    beside: a time whose unit the band takes, if it is not that of the figure
    """
    low, high = (costs.get(f"{name}_{end}", math.nan) for end in ENDS)
    if math.isnan(low) or math.isnan(high) or low == high:
        return ""
    plain = name.startswith("concurrency")
    first, last = (significant(end) if plain else result(name, end) for end in (low, high))
    if first == last:
        return ""
    return (
        range_of(first, last)
        if plain
        else range_beside(partial(result, name), beside or costs.get(name, math.nan), low, high)
    )


def rate_words(rate: float, shown: str) -> str:
    """A rate of requests, singular for a rate of 1."""
    return f"{shown} request{'' if rate == 1 else 's'}/s"


def load_words(workload: Serving) -> str:
    """The load in a few words, such as `10 requests/s`."""
    if workload.rate is not None:
        words = rate_words(workload.rate, significant(workload.rate, 3).removesuffix(".00").removesuffix(".0"))
        words += arrival_words(workload)
        return words if workload.concurrency is None else f"{words}, at most {workload.concurrency:,.0f} in flight"
    if workload.concurrency is not None:
        burst = ", all started at once" if workload.traffic == "burst" else ""
        return f"{workload.concurrency:,.0f} in flight{burst}"
    if workload.requests is not None:
        return f"{number_of(workload.requests, 'request')} offline"
    return f"{workload.users:,.0f} users who think for {show_time(workload.think_time or 0.0)}"


def arrival_words(workload: Serving) -> str:
    """The burstiness or spread of arrivals; empty for random arrivals."""
    if workload.burstiness is not None and workload.burstiness != 1:
        return f", burstiness {workload.burstiness:g}"
    return f", arrival spread {workload.arrival_spread:g}" if workload.arrival_spread not in (None, 1) else ""


def length_words(workload: Serving) -> list[str]:
    """Mean lengths, and how many answers a prompt has."""
    several = "" if workload.samples == 1 else f"{workload.samples:,.0f} × "
    return [f"prompt {workload.mean('prompt'):,.0f}", f"output {several}{workload.mean('output'):,.0f}"]


def lengths_with_note(workload: Serving) -> str:
    """Mean prompt and answer lengths in words, with a note if all requests have them."""
    lengths = length_words(workload)
    same = [name for name in ("prompt", "output") if not workload.spread(name)]
    lengths += conversation_words(workload)
    alike = {2: "spread 0", 1: f"spread 0 of {same[0]}s" if same else ""}
    return " · ".join([*lengths, *([alike[len(same)]] if same else [])])


def conversation_words(workload: Serving) -> list[str]:
    """The turns of a conversation and its shared beginning; empty for single requests."""
    if workload.turns == 1:
        return []
    opening = f" after {workload.opening:,.0f} shared" if workload.opening else ""
    return [f"{workload.turns:,.0f} turns{opening}"]


_USUAL = "bf16"


def plan_words(answer: ServingAnswer) -> str:
    """The engine, the plan and the load in one line."""
    inputs, workload = answer.inputs, answer.inputs.case.scenario.workload
    lengths = [*number_type_words(workload), *length_words(workload)]
    return " · ".join(
        [inputs.engine.name, serving_plan_text(answer), *lengths, *conversation_words(workload), load_words(workload)]
    )


def number_type_words(workload: Serving) -> list[str]:
    """The data types of products, weights and cache that are not bf16, or not those of the products."""
    weights = workload.weights or workload.precision
    found: list[str] = [] if workload.precision == _USUAL else [workload.precision]
    found += [] if weights == workload.precision else [f"{weights} weights"]
    return [*found, *([] if workload.cache == _USUAL else [f"{workload.cache} cache"])]


def no_limits_warning(inputs: ServingInputs) -> list[Text]:
    """A warning that replicas are sized by saturation, if neither limits on times nor headroom are set."""
    if inputs.case.scenario.assume.headroom or service_limits(inputs):
        return []
    room = headroom_of(inputs)
    sized = f"at most {percent(share_of_saturation(inputs), 2)} of saturation" if room else "saturation"
    more = "state limits on times, or assume.headroom" if room else "limits or assume.headroom leave room"
    return [styled(f"  No limit on times: replicas are sized for {sized}; {more}", WARN)]


def batch_limits_warning(case: ServingCase) -> list[Text]:
    """A warning that limits on times from arrival do not suit an offline batch."""
    if not (found := waits_in_batch(case)):
        return []
    words = f"a batch arrives at once, so {' and '.join(found)} grows with its size: limit makespan instead"
    return [styled(f"  {words}", WARN)]


def chance_meaning(case: ServingCase) -> str:
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
        return styled(f"  No lever found: nothing that costmodel tries would {chance_meaning(inputs.case)}.", BAD)
    return styled(f"  No plan meets the limits, even for single requests. The nearest, {plan}, has {missed}", BAD)


def no_headroom_warning(inputs: ServingInputs) -> list[Text]:
    """A line that replicas are sized for the average prediction, if limits exist without a chance or headroom."""
    limits = {limit.column for limit in service_limits(inputs)}
    if inputs.case.scenario.assume.headroom or OWN in limits or not limits:
        return []
    return [styled("  Sized for the average prediction. Add --safe 90% to allow for its error", DIM)]


def headroom_line(case: ServingCase) -> list[Text]:
    """A line on what replicas are sized for beside the rate: headroom, growth, availability."""
    assume = case.scenario.assume
    parts = [f"{1 + assume.headroom:g} times the rate" if assume.headroom else "the rate"]
    if assume.growth is not None:
        parts.append(f"its growth in {show_time(assume.growth.start)}")
    if assume.availability is not None:
        parts.append(f"replicas that are up {percent(assume.availability)} of the time")
    if parts == ["the rate"]:
        return []
    return [styled(f"  Counted for {' and '.join([', '.join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)}")]


def limit_verdicts(answer: ServingAnswer, column: str) -> str:
    """Whether a result meets the limits on it, and which these are."""
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


def joined_parts(parts: Iterable[str]) -> str:
    """The non-empty parts of a line, joined."""
    return "   ".join(part for part in parts if part)


def reason(answer: ServingAnswer, code: str) -> str:
    """A reason against a plan, with its numbers."""
    if code in _SENTENCES:
        return _SENTENCES[code](answer)
    broken = (_missed_limit(limit, answer.costs) for limit in _broken_limits(answer, code))
    return "; ".join(broken)


def _broken_limits(answer: ServingAnswer, code: str) -> Iterator[Limit]:
    """The limits that the plan breaks, of the kind that the code stands for."""
    for limit in stated_limits(answer.inputs.case.scenario.limits):
        if code_of(limit) == code and not limit.holds(answer.costs[limit.column]):
            yield limit


def _missed_limit(limit: Limit, costs: Mapping[str, float]) -> str:
    """A sentence on a result that misses its limit."""
    value, bound = costs[limit.column], float(limit.value)
    if math.isnan(value):
        return f"the limit on {limit.key} cannot be checked: {limit.key} is unknown"
    if limit.column == OWN:
        return _low_chance(value, bound)
    digits = distinct_digits(limit.column, value, bound)
    stated, allowed = result(limit.column, value, digits), bound_words(limit.column, bound, digits)
    just = "just " if stated == allowed else ""
    missed = f"{limit.key} {stated} {just}{MISSES[limit.kind]} {allowed}"
    return missed + faster_than_memory(limit, costs["bandwidth_bound"])


def _low_chance(value: float, asked: float) -> str:
    """A sentence that the chance to meet all limits is lower than requested."""
    wanted = percent(asked, 2)
    if bound_words(OWN, value, 3) == bound_words(OWN, asked, 3):
        return f"the chance to meet all limits is just under the {wanted} asked for"
    return f"the chance to meet all limits is {result(OWN, value)}, under the {wanted} asked for"


def faster_than_memory(limit: Limit, most: float) -> str:
    """A note that no engine meets a limit on the time per token: reading weights takes longer; else empty."""
    rates = {("tokens_per_s_per_user", "at_least"): limit.value, ("tpot", "at_most"): 1.0 / max(limit.value, 1e-12)}
    if not rates.get((limit.column, limit.kind), 0.0) > most:
        return ""
    allowed = result("bandwidth_bound", most)
    return f"; no engine can: reading the weights allows {allowed} for one user (explain bandwidth_bound)"


def _does_not_fit(answer: ServingAnswer) -> str:
    """A sentence on what does not fit: weights, a step, the runtime and one request against the memory."""
    memory, inputs = answer.evaluation.memory, answer.inputs
    need = [
        f"{name} {gib(scalar(value))}"
        for name, value in (("weights", memory.weights), ("step", memory.activations), ("runtime", memory.runtime))
    ]
    request = f"one request of {inputs.load.longest:,.0f} tokens {gib(scalar(memory.one_request))}"
    whole = f"{gib(scalar(memory.least_for_one_request))} of {gib(scalar(memory.allowed))} GiB per GPU"
    return f"needs {whole}: {', '.join(need)}, {request}"


def _over_capacity(answer: ServingAnswer) -> str:
    """A sentence on a load above capacity, and on the replicas that it needs."""
    workload, costs = answer.inputs.case.scenario.workload, answer.costs
    arriving, most = float(workload.rate or 0.0), costs["saturation_per_s"]
    rate = rate_words(arriving, significant(arriving))
    if answer.binding == "transfer":
        return f"{rate} on {_instance_rates(answer)}{_overloaded_links(answer)}"
    if answer.plan.prefill is not None:
        needed = instances_words(answer) if math.isfinite(costs["gpus_needed"]) else "no number of instances"
        kept = " within the limits" if service_limits(answer.inputs) else _saturation_share_words(answer)
        verb = "serve" if math.isfinite(costs["gpus_needed"]) else "serves"
        return f"{rate} on {_instance_rates(answer)}; {needed} {verb} all{kept}"
    serve = f"serve{'' if costs['replicas'] > 1 else 's'} at most {significant(most)} of {rate}"
    return f"{number_of(costs['replicas'], 'replica')} {serve}; {_needed_replicas(answer, arriving)}"


def _needed_replicas(answer: ServingAnswer, arriving: float) -> str:
    """Replicas that answer the load, and replicas that also meet the limits or the headroom."""
    costs, limited = answer.costs, bool(service_limits(answer.inputs))
    least, kept = costs["replicas_needed"], "" if limited else _saturation_share_words(answer)
    if answer.inputs.case.scenario.workload.turns > 1:
        kept = " within the limits" if limited else kept
        if not math.isfinite(least):
            return f"no number of replicas serves all{kept}"
        return f"{number_of(least, 'replica')} ({gpus_words(answer.inputs, costs['gpus_needed'])}) serve all{kept}"
    replicas, gpus = replicas_that_answer(costs, arriving)
    expected = " on average" if preferred_chance(answer.inputs.case) else ""
    kept = f" meet the limits{expected}" if limited else kept
    inside = f", {least:,.0f}{kept}" if math.isfinite(least) and kept else ""
    return f"{number_of(replicas, 'replica')} ({gpus_words(answer.inputs, gpus)}) serve all{inside}"


def _saturation_share_words(answer: ServingAnswer) -> str:
    """The share of saturation that replicas are sized for, if it is below 1; else empty."""
    share = share_of_saturation(answer.inputs)
    return f" at {percent(share, 2)} load" if share < 1 else ""


def _instance_rates(answer: ServingAnswer) -> str:
    """Prefill and decode instances in words, with the highest rate of each kind."""
    evaluation, plan = answer.evaluation, answer.plan
    assert isinstance(evaluation, DisaggregatedEvaluation)
    assert plan.prefill is not None
    assert plan.decode is not None
    prefill, cache, sequences, _ = evaluation.most[:, 0]
    kinds = (("prefill", plan.prefill.replicas, prefill), ("decode", plan.decode.replicas, min(cache, sequences)))
    words = [f"{count:,.0f} {name} (at most {significant(float(most))})" for name, count, most in kinds]
    return f"{' and '.join(words)} instances"


def _overloaded_links(answer: ServingAnswer) -> str:
    """Which links between instances are full, and what they carry."""
    near, case = answer.costs["gpus"] <= scalar(answer.inputs.domain), answer.inputs.case
    most = answer.costs["saturation_per_s"]
    carried = f"they carry the caches of at most {rate_words(most, significant(most))}"
    return f", and the links between them ({(case.scale_up if near else case.scale_out).name}) are full: {carried}"


def instances_words(answer: ServingAnswer) -> str:
    """Prefill and decode instances that the load needs, with their accelerators."""
    costs = answer.costs
    kinds = " and ".join(f"{costs[f'{name}_needed']:,.0f} {name}" for name in ("prefill", "decode"))
    return f"{kinds} instances ({gpus_words(answer.inputs, costs['gpus_needed'])})"


def _invalid_plan(answer: ServingAnswer, code: str) -> str:
    """An invalid plan's reason, with the sizes that do not go together."""
    plan, model, inputs = answer.plan, answer.inputs.model, answer.inputs
    if plan.prefill is not None and code == "L050":
        taken = serving_plan_text(answer).replace(" · decode", " and decode")
        return f"{taken} need {answer.costs['gpus']:,.0f} accelerators, and the cluster has {scalar(inputs.ranks):,.0f}"
    if plan.prefill is not None:
        return REFUSALS[code].meaning
    layers, tp = model.cut_kinds, f"tp {plan.tp:g}"
    grouped = "groups of query heads" if any(kind.compressed is not None for kind in layers) else "query heads"
    counts: dict[str, tuple[str, Sequence[object]]] = {
        "L051": (grouped, [count for kind in layers for count in kind.head_counts]),
        "L053": ("padded words of the vocabulary", [padded_vocab(model.vocab, inputs.engine.vocab_multiple, 1.0)]),
        "L054": ("columns of an MLP", dense_inner_widths(layers)),
    }
    if code == "L050":
        needed = answer.costs["gpus"]
        return f"the replicas need {needed:,.0f} accelerators, and the cluster has {scalar(inputs.ranks):,.0f}"
    if code == "L052":
        heads = [kind.attention.kv_heads for kind in layers if kind.attention is not None]
        wrong = next((each for each in map(scalar, heads) if each % plan.tp and plan.tp % each), scalar(heads[0]))
        return f"{wrong:,.0f} key-value heads are neither divisible by {tp} nor a divisor of it"
    if code == "L062":
        prompt, budget = scalar(inputs.load.computed), scalar(inputs.budget)
        if inputs.load.prompt_spread:
            share = percent(scalar(longer_than_a_step(inputs.load, inputs.budget)), 2)
            return f"{share} of the prompts are longer than a step of {budget:,.0f} tokens, which computes each whole"
        return f"a prompt of {prompt:,.0f} tokens is computed in one step, which holds {budget:,.0f}"
    if code in ("L063", "L064", "L065"):
        return _indivisible_cache(answer, code)
    if code == "L055":
        return f"pp {plan.pp:g} is more than the {scalar(layer_count(model)):,.0f} layers of the model"
    if code not in counts:
        return REFUSALS[code].meaning
    what, all_of_them = counts[code]
    undivided = next((each for each in map(scalar, all_of_them) if each % plan.tp), None)
    return REFUSALS[code].meaning if undivided is None else f"{undivided:,.0f} {what} are not divisible by {tp}"


def _indivisible_cache(answer: ServingAnswer, code: str) -> str:
    """Why ranks do not divide the cache of a sequence by tokens."""
    plan, engine = answer.plan, answer.inputs.engine
    if code == "L063":
        return f"tp {plan.tp:g} is not divisible by dcp {plan.dcp:g}"
    if code == "L064":
        own = [kind.attention for kind in answer.inputs.model.layers if kind.attention is not None]
        if not own:
            return REFUSALS[code].meaning
        most = max(own, key=lambda each: scalar(each.kv_heads))
        kv_heads, query_heads = scalar(most.kv_heads), scalar(most.heads)
        groups = f"{kv_heads:,.0f} key-value heads with {query_heads / kv_heads:,.0f} query heads"
        return f"tp {plan.tp:g} has no {plan.dcp:g} ranks that hold the same of {groups} each"
    if engine.decode_context is None:
        return f"{engine.name} has no option that divides the cache by tokens among ranks of tp"
    caches = " and ".join(
        f"full {name}" if name == "attention" else f"{name} attention" for name in engine.decode_context.caches
    )
    return f"{engine.name} divides caches of {caches} by tokens; a layer has another, a window, a state or an indexer"


_SENTENCES = {"M001": _does_not_fit, "S003": _over_capacity, "S004": _over_capacity, "S005": _over_capacity} | {
    code: (lambda answer, code=code: _invalid_plan(answer, code)) for code in REFUSALS if code.startswith("L")
}


def waiting_lines(workload: Serving, costs: Mapping[str, float], before: str = "") -> list[Text]:
    """A line on how many requests wait for their first token; empty if few do."""
    waiting = waiting_requests(workload, costs)
    if not waiting:
        return []
    everyone, name = workload.users or workload.concurrency or 0.0, "users" if workload.users else "requests"
    words = f"{before}{waiting:,.0f} of {everyone:,.0f} {name} wait for their first token at a time: replicas are full"
    return [styled(f"  {words}", WARN)]


def overload_lines(answer: ServingAnswer) -> list[Text]:
    """A line for a load above capacity: figures are at the highest rate that the plan can serve."""
    if not answer.overload:
        return []
    most = result("saturation_per_s", answer.costs["saturation_per_s"])
    words = f"figures at {most}, the highest rate it can serve; more requests arrive, so the queue grows without bound"
    return [styled(f"  ✗ {' '.join(answer.overload)}: {words}", BAD)]
