"""Why a serving plan is refused or breaks a limit, in its own figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from costmodel.equations.parallelism.counts import padded_vocab
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.serving.evaluate_apart import ApartEvaluation
from costmodel.estimate.serving.limits_chance import OWN, service_limits
from costmodel.estimate.serving.predict_serving import REFUSALS, ServingAnswer, code_of
from costmodel.estimate.serving.replicas_for_load import replicas_that_answer, share_of_saturation
from costmodel.estimate.serving.whole_prompts import longer_than_a_step
from costmodel.estimate.shared.limits import Limit, stated_limits
from costmodel.explore.kept_answers import layout_words, one
from costmodel.explore.safety import preferred_chance
from costmodel.ground.counts import number_of
from costmodel.ground.units import gib, percent, significant
from costmodel.report.terminal.serving.fleet_words import gpus_words
from costmodel.report.terminal.serving.serving_formatting import bound_words, digits_apart, rate_words, result

_OVER = {"at_most": "over", "at_least": "under", "target": "off"}


def reason(answer: ServingAnswer, code: str) -> str:
    """A reason against a plan, with its numbers."""
    if code in _SENTENCES:
        return _SENTENCES[code](answer)
    broken = (_missed(limit, answer.costs) for limit in _broken(answer, code))
    return "; ".join(broken)


def _broken(answer: ServingAnswer, code: str) -> Iterator[Limit]:
    for limit in stated_limits(answer.inputs.case.scenario.limits):
        if code_of(limit) == code and not limit.holds(answer.costs[limit.column]):
            yield limit


def _missed(limit: Limit, costs: Mapping[str, float]) -> str:
    value, bound = costs[limit.column], float(limit.value)
    if math.isnan(value):
        return f"{limit.key} is unknown, so it keeps no {limit.kind}"
    if limit.column == OWN:
        return _unsure(value, bound)
    digits = digits_apart(limit.column, value, bound)
    stated, allowed = result(limit.column, value, digits), bound_words(limit.column, bound, digits)
    just = "just " if stated == allowed else ""
    missed = f"{limit.key} {stated} is {just}{_OVER[limit.kind]} its {limit.kind} {allowed}"
    return missed + past_bandwidth(limit, costs["bandwidth_bound"])


def _unsure(value: float, asked: float) -> str:
    """A sentence that the chance to meet all limits is below the requested chance."""
    wanted = percent(asked, 2)
    if bound_words(OWN, value, 3) == bound_words(OWN, asked, 3):
        return f"the chance to meet all limits is just under the {wanted} asked for"
    return f"the chance to meet all limits is {result(OWN, value)}, under the {wanted} asked for"


def past_bandwidth(limit: Limit, most: float) -> str:
    """A note that no engine meets a limit on the time per token: reading weights takes longer; else empty."""
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
    """A sentence on a load above capacity, and on the replicas that it needs."""
    workload, costs = answer.inputs.case.scenario.workload, answer.costs
    arriving, most = float(workload.rate or 0.0), costs["saturation_per_s"]
    rate = rate_words(arriving, significant(arriving))
    if answer.binding == "transfer":
        return f"{rate} on {_instances(answer)}{_full_links(answer)}"
    if answer.plan.prefill is not None:
        needed = instances_words(answer) if math.isfinite(costs["gpus_needed"]) else "no number of instances"
        kept = " within the limits" if service_limits(answer.inputs) else _share_words(answer)
        verb = "answer" if math.isfinite(costs["gpus_needed"]) else "answers"
        return f"{rate} on {_instances(answer)}; {needed} {verb} it{kept}"
    taken = _replicas_for_it(answer, arriving)
    plural = "s" if costs["replicas"] > 1 else ""
    fleet = f"{costs['replicas']:.0f} replica{plural}"
    return f"{rate} on {fleet}, at most {significant(most)}; {taken}"


def _replicas_for_it(answer: ServingAnswer, arriving: float) -> str:
    """Replicas that answer the load, and replicas that also meet the limits or the headroom.

    For conversations only the latter: with more replicas, a turn finds less of its conversation in a cache.
    """
    costs, limited = answer.costs, bool(service_limits(answer.inputs))
    least, kept = costs["replicas_needed"], "" if limited else _share_words(answer)
    if answer.inputs.case.scenario.workload.turns > 1:
        kept = " within the limits" if limited else kept
        if not math.isfinite(least):
            return f"no number of replicas answers it{kept}"
        return f"{number_of(least, 'replica')} ({gpus_words(answer.inputs, costs['gpus_needed'])}) answer it{kept}"
    replicas, gpus = replicas_that_answer(costs, arriving)
    expected = " by expected figures" if preferred_chance(answer.inputs.case) else ""
    kept = f" to keep the limits{expected}" if limited else kept
    inside = f", {least:,.0f}{kept}" if math.isfinite(least) and kept else ""
    return f"{number_of(replicas, 'replica')} ({gpus_words(answer.inputs, gpus)}) answer it{inside}"


def _share_words(answer: ServingAnswer) -> str:
    """The share of saturation that replicas are sized for, if it is below 1; else empty."""
    share = share_of_saturation(answer.inputs)
    return f" at {percent(share, 2)} of saturation" if share < 1 else ""


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


def instances_words(answer: ServingAnswer) -> str:
    """Prefill and decode instances that the load needs, with their accelerators."""
    costs = answer.costs
    kinds = " and ".join(f"{costs[f'{name}_needed']:,.0f} {name}" for name in ("prefill", "decode"))
    return f"{kinds} instances ({gpus_words(answer.inputs, costs['gpus_needed'])})"


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
        if inputs.load.prompt_spread:
            share = percent(one(longer_than_a_step(inputs.load, inputs.budget)), 2)
            return f"{share} of the prompts are longer than a step of {budget:,.0f} tokens, which computes each whole"
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
