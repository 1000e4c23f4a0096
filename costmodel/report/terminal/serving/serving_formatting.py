"""Words that answers about serving share: results as people read them, a plan and its load in a line, reasons."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.text import Text

from costmodel.documents.reader.serving_scenario import ServingCase
from costmodel.documents.schemas.serving.serving_limits import LEVEL_OF_USERS, SERVICE_LEVEL
from costmodel.documents.schemas.serving.serving_results import RESULTS, is_share
from costmodel.documents.schemas.serving.serving_workload import Serving
from costmodel.equations.parallelism.counts import padded_vocab
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.serving.evaluate_apart import ApartEvaluation
from costmodel.estimate.serving.limits_chance import OWN
from costmodel.estimate.serving.predict_serving import ServingAnswer, code_of
from costmodel.estimate.serving.reason_codes import REFUSALS
from costmodel.estimate.serving.service_limits import service_limits
from costmodel.estimate.shared.limits import KINDS, Limit, stated_limits
from costmodel.ground.counts import number_of
from costmodel.ground.units import counted, gib, percent, rounded_percent, show, show_memory, show_time, significant
from costmodel.report.terminal.style.formatting import ENDS, between
from costmodel.report.terminal.style.theme import DIM, WARN, styled

BOUNDING = frozenset({*SERVICE_LEVEL, *LEVEL_OF_USERS})  # limits on these bound the rate of a replica
MEMORY = ("cache_pool", "memory_peak", "kv_bytes_per_token")
_OVER = {"at_most": "over", "at_least": "under", "target": "off"}
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


def result(name: str, value: float | None, digits: int = 3) -> str:
    """A result as people read it."""
    name = name.removesuffix("_low").removesuffix("_high")
    unit = RESULTS[name].unit
    if value is None or math.isnan(value):
        return "unknown"
    if math.isinf(value):
        return "without end"
    if unit == "B":
        return show_memory(value, digits)
    if name in ("requests_per_s", "saturation_per_s", "rate_within_slo_per_s"):
        return f"{significant(value, digits)} /s"
    if unit == "1/s":
        return f"{significant(value, 4)} token/s"
    if name.endswith("_chance"):
        return rounded_percent(value, 1).replace("%", " %")
    if is_share(name):
        return percent(value, digits)
    if unit != "1":
        return show(value, unit, digits)
    return counted(round(value, 1), 4) if abs(value) >= 100 or value.is_integer() else significant(value, digits)


def band(costs: Mapping[str, float], name: str) -> str:
    """Both ends of a figure's band, without the unit twice; nothing where it has none, or both are the same."""
    low, high = (costs.get(f"{name}_{end}", math.nan) for end in ENDS)
    if math.isnan(low) or math.isnan(high) or low == high:
        return ""
    plain = name.startswith("concurrency")
    first, last = (significant(end) if plain else result(name, end) for end in (low, high))
    return "" if first == last else between(first, last)


def with_band(costs: Mapping[str, float], name: str) -> str:
    """A result, and what it is between."""
    found = band(costs, name)
    return f"{result(name, costs[name])} ({found})" if found else result(name, costs[name])


def rate_words(rate: float, shown: str) -> str:
    """A rate of requests, in the singular where it is one."""
    return f"{shown} request{'' if rate == 1 else 's'}/s"


def load_words(workload: Serving) -> str:
    """The load in a few words."""
    if workload.rate is not None:
        return rate_words(workload.rate, significant(workload.rate, 3).removesuffix(".00").removesuffix(".0"))
    if workload.concurrency is not None:
        burst = ", all started at once" if workload.traffic == "burst" else ""
        return f"{workload.concurrency:,.0f} in flight{burst}"
    if workload.requests is not None:
        return f"{workload.requests:,.0f} requests offline"
    return f"{workload.users:,.0f} users who think for {show_time(workload.think_time or 0.0)}"


def lengths_words(workload: Serving) -> str:
    """Mean lengths, and where all requests have them that they do."""
    lengths = [f"{name} {workload.mean(name):,.0f}" for name in ("prompt", "output")]
    same = [name for name in ("prompt", "output") if not workload.spread(name)]
    lengths += turn_words(workload)
    alike = {2: "all alike (spread 0)", 1: f"{same[0]}s all alike (spread 0)" if same else ""}
    return " · ".join([*lengths, *([alike[len(same)]] if same else [])])


def turn_words(workload: Serving) -> list[str]:
    """The turns of a conversation, and what stands before them; nothing where each request stands alone."""
    if workload.turns == 1:
        return []
    opening = f" after {workload.opening:,.0f} shared" if workload.opening else ""
    return [f"{workload.turns:,.0f} turns{opening}"]


def plan_words(answer: ServingAnswer) -> str:
    """The engine, the plan and the load in one line."""
    inputs, workload = answer.inputs, answer.inputs.case.scenario.workload
    lengths = [f"{name} {workload.mean(name):,.0f}" for name in ("prompt", "output")]
    return " · ".join([inputs.engine.name, layout_words(answer), *lengths, *turn_words(workload), load_words(workload)])


def layout_words(answer: ServingAnswer) -> str:
    """The plan alone."""
    layout = answer.evaluation.layout
    halves = (("prefill", answer.plan.prefill), ("decode", answer.plan.decode))
    apart = [f"{name} {half.replicas:.0f} × {half_words(half)}" for name, half in halves if half is not None]
    sizes = apart or [half_words(layout)]
    drafts = answer.plan.speculation
    sizes += [f"{drafts.tokens:.0f} drafted by {drafts.draft}"] if drafts is not None else []
    copies = float(layout.redundant_experts[0])
    sizes += [f"{copies:.0f} cop{'ies' if copies > 1 else 'y'} of experts"] if copies else []
    replicas = float(layout.replicas[0])
    sizes += [] if apart else [f"{replicas:.0f} replica{'s' if replicas > 1 else ''}"]
    return " · ".join(sizes)


def half_words(layout: object) -> str:
    """The degrees of a replica or an instance."""
    degrees = {name: one(getattr(layout, name, 1.0)) for name in ("tp", "pp", "ep", "dp_attention", "dcp")}
    return " · ".join(f"{name} {degree:.0f}" for name, degree in degrees.items() if degree > 1 or name == "tp")


def unlimited(case: ServingCase) -> list[Text]:
    """That replicas are counted by saturation alone, and what leaves room; nothing where that is asked for."""
    scenario = case.scenario
    if scenario.assume.headroom or any(limit.column in BOUNDING for limit in stated_limits(scenario.limits)):
        return []
    more = "--safe 90%, --set assume.headroom=20% or limits leave room"
    return [styled(f"  No limit on times: replicas are sized for saturation; {more}", WARN)]


def without_room(case: ServingCase) -> list[Text]:
    """That replicas are counted by expected figures, where limits bound them and nothing asks for more."""
    limits = {limit.column for limit in stated_limits(case.scenario.limits)}
    if case.scenario.assume.headroom or OWN in limits or not limits & BOUNDING:
        return []
    return [styled("  Counted by expected figures; --safe 90% leaves room for their error", DIM)]


def counted_for(case: ServingCase) -> list[Text]:
    """What replicas are counted for beside the rate."""
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
            sign = {"at_most": "≤", "at_least": "≥", "target": "≈"}[limit.kind]
            mark = "✓" if limit.holds(answer.costs[column]) else "✗"
            stated.append(f"{mark} {sign} {result(column, float(limit.value)).replace('1.00 s', '1 s')}")
    return " ".join(stated)


def reason(answer: ServingAnswer, code: str) -> str:
    """One reason against a plan, in its own figures."""
    if code in _SENTENCES:
        return _SENTENCES[code](answer)
    broken = (_missed(limit, answer.costs) for limit in _broken(answer, code))
    return "; ".join(broken)


def _broken(answer: ServingAnswer, code: str) -> Iterator[Limit]:
    for limit in stated_limits(answer.inputs.case.scenario.limits):
        if code_of(limit) == code and not limit.holds(answer.costs[limit.column]):
            yield limit


def _missed(limit: Limit, costs: Mapping[str, float]) -> str:
    value = costs[limit.column]
    stated = result(limit.column, value)
    if math.isnan(value):
        return f"{limit.key} is unknown, so it keeps no {limit.kind}"
    missed = f"{limit.key} {stated} is {_OVER[limit.kind]} its {limit.kind} {result(limit.column, float(limit.value))}"
    return missed + past_bandwidth(limit, costs["bandwidth_bound"])


def past_bandwidth(limit: Limit, most: float) -> str:
    """Why no engine keeps a limit on the time per token, if reading the weights takes longer; else nothing."""
    rates = {("tokens_per_s_per_user", "at_least"): limit.value, ("tpot", "at_most"): 1.0 / max(limit.value, 1e-12)}
    if not rates.get((limit.column, limit.kind), 0.0) > most:
        return ""
    allowed = result("bandwidth_bound", most)
    return f"; no engine can: reading the weights allows {allowed} for one user (explain bandwidth_bound)"


def _small(answer: ServingAnswer) -> str:
    memory, inputs = answer.evaluation.memory, answer.inputs
    need = [
        f"{name} {gib(one(value))}"
        for name, value in (("weights", memory.weights), ("a step", memory.activations), ("runtime", memory.runtime))
    ]
    request = f"one request of {inputs.load.longest:,.0f} tokens {gib(one(memory.one_request))}"
    return f"{', '.join(need)} and {request} GiB a GPU, of {gib(one(memory.allowed))} GiB that the engine may use"


def _over(answer: ServingAnswer) -> str:
    """More arrives than is answered: how much more, and how many replicas it would take."""
    workload, costs = answer.inputs.case.scenario.workload, answer.costs
    arriving, most = float(workload.rate or 0.0), costs["saturation_per_s"]
    rate = rate_words(arriving, significant(arriving))
    if answer.binding == "transfer":
        return f"{rate} on {_instances(answer)}{_full_links(answer)}"
    if answer.plan.prefill is not None:
        needed = instances_words(costs) if math.isfinite(costs["gpus_needed"]) else "no number of instances"
        kept = " within the limits" if service_limits(answer.inputs) else ""
        verb = "answer" if math.isfinite(costs["gpus_needed"]) else "answers"
        return f"{rate} on {_instances(answer)}; {needed} {verb} it{kept}"
    each = most / costs["replicas"]
    replicas = math.floor(arriving / each) + 1
    gpus = costs["gpus"] / costs["replicas"]
    within = costs["rate_within_slo_per_s"] / costs["replicas"]
    inside = f", {math.ceil(arriving / within):,d} to keep the limits" if within > 0 else ""
    taken = f"{number_of(replicas, 'replica')} ({number_of(replicas * gpus, 'GPU')}) answer it{inside}"
    plural = "s" if costs["replicas"] > 1 else ""
    fleet = f"{costs['replicas']:.0f} replica{plural}"
    return f"{rate} on {fleet}, at most {significant(most)}; {taken}"


def _instances(answer: ServingAnswer) -> str:
    """Instances of each kind, with the most that each kind answers."""
    evaluation, plan = answer.evaluation, answer.plan
    assert isinstance(evaluation, ApartEvaluation)
    assert plan.prefill is not None
    assert plan.decode is not None
    prefill, cache, sequences, _ = evaluation.most[:, 0]
    kinds = (("prefill", plan.prefill.replicas, prefill), ("decode", plan.decode.replicas, min(cache, sequences)))
    words = [f"{count:,.0f} {name} (at most {significant(float(most))})" for name, count, most in kinds]
    return f"{' and '.join(words)} instances"


def _full_links(answer: ServingAnswer) -> str:
    """Which links between instances are full, and what they carry."""
    near, case = answer.costs["gpus"] <= one(answer.inputs.domain), answer.inputs.case
    most = answer.costs["saturation_per_s"]
    carried = f"they carry the caches of at most {rate_words(most, significant(most))}"
    return f", and the links between them ({(case.scale_up if near else case.scale_out).name}) are full: {carried}"


def instances_words(costs: Mapping[str, float]) -> str:
    """Prefill and decode instances that the load needs, with their accelerators."""
    kinds = " and ".join(f"{costs[f'{name}_needed']:,.0f} {name}" for name in ("prefill", "decode"))
    return f"{kinds} instances ({number_of(costs['gpus_needed'], 'GPU')})"


def _invalid(answer: ServingAnswer, code: str) -> str:
    """An invalid plan's reason, with the sizes that do not go together."""
    plan, model, inputs = answer.plan, answer.inputs.model, answer.inputs
    if plan.prefill is not None and code == "L050":
        taken = layout_words(answer).replace(" · decode", " and decode")
        return f"{taken} need {answer.costs['gpus']:,.0f} accelerators, and the cluster has {one(inputs.ranks):,.0f}"
    if plan.prefill is not None:
        return REFUSALS[code].meaning
    layers, tp = model.cut_kinds, f"tp {plan.tp:g}"
    grouped = "groups of query heads" if any(kind.compressed is not None for kind in layers) else "query heads"
    counts: dict[str, tuple[str, Sequence[object]]] = {
        "L051": (grouped, [count for kind in layers for count in kind.head_counts]),
        "L053": ("padded words of the vocabulary", [padded_vocab(model.vocab, inputs.engine.vocab_multiple, 1.0)]),
        "L054": ("columns of an MLP", [kind.dense.ffn_hidden for kind in layers if kind.dense is not None]),
    }
    if code == "L050":
        needed = answer.costs["gpus"]
        return f"the replicas need {needed:,.0f} accelerators, and the cluster has {one(inputs.ranks):,.0f}"
    if code == "L052":
        heads = [kind.attention.kv_heads for kind in layers if kind.attention is not None]
        wrong = next((each for each in map(one, heads) if each % plan.tp and plan.tp % each), one(heads[0]))
        return f"{wrong:,.0f} key-value heads are neither divisible by {tp} nor a divisor of it"
    if code == "L062":
        prompt, budget = one(inputs.load.computed), one(inputs.budget)
        return f"a prompt of {prompt:,.0f} tokens is computed in one step, which holds {budget:,.0f}"
    if code in ("L063", "L064", "L065"):
        return _undivided(answer, code)
    if code == "L055":
        return f"pp {plan.pp:g} is more than the {one(layer_count(model)):,.0f} layers of the model"
    if code not in counts:
        return REFUSALS[code].meaning
    what, all_of_them = counts[code]
    undivided = next((each for each in map(one, all_of_them) if each % plan.tp), None)
    return REFUSALS[code].meaning if undivided is None else f"{undivided:,.0f} {what} are not divisible by {tp}"


def _undivided(answer: ServingAnswer, code: str) -> str:
    """Why ranks do not divide the cache of a sequence by tokens."""
    plan, engine = answer.plan, answer.inputs.engine
    if code == "L063":
        return f"tp {plan.tp:g} is not divisible by dcp {plan.dcp:g}"
    if code == "L064":
        own = [kind.attention for kind in answer.inputs.model.layers if kind.attention is not None]
        if not own:
            return REFUSALS[code].meaning
        most = max(own, key=lambda each: one(each.kv_heads))
        groups = (
            f"{one(most.kv_heads):,.0f} key-value heads with {one(most.heads) / one(most.kv_heads):,.0f} query heads"
        )
        return f"tp {plan.tp:g} has no {plan.dcp:g} ranks that hold the same of {groups} each"
    if engine.decode_context is None:
        return f"{engine.name} has no option that divides the cache by tokens among ranks of tp"
    caches = " and ".join(
        f"full {name}" if name == "attention" else f"{name} attention" for name in engine.decode_context.caches
    )
    return f"{engine.name} divides caches of {caches} by tokens; a layer has another, a window, a state or an indexer"


_SENTENCES = {"M001": _small, "S003": _over, "S004": _over, "S005": _over} | {
    code: (lambda answer, code=code: _invalid(answer, code)) for code in REFUSALS if code.startswith("L")
}


def one(value: object) -> float:
    """The plain number of a plan alone."""
    import numpy as np

    return float(np.asarray(value).flat[0])


def joined(parts: Iterable[str]) -> str:
    """Parts of a line, those that are empty left out."""
    return "   ".join(part for part in parts if part)
