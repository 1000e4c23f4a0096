"""The share of a conversation that a turn finds in the cache, and what cached prompt tokens cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.run.economics import share
from costmodel.equations.serving.cache_pool import hit_tokens, kept_beginning_tokens, kept_chance, scattered_hit
from costmodel.equations.serving.serving_economics import prompt_cost
from costmodel.estimate.machine.price import price_per_accelerator
from costmodel.estimate.serving.engine_memory import memory_use
from costmodel.estimate.serving.operating_point import ExactSteps, OperatingPoint, context_of, micro_batch
from costmodel.estimate.serving.plan_columns import PlanColumns, rows_of, where_rows
from costmodel.estimate.serving.prefill_decode_instances import prompt_time
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term, untraced
from costmodel.ground.solvers import distinct_values, last_within

LEAST = 1e-3  # requests after which a beginning is pushed out at least
T = TypeVar("T")


def with_conversation_hits(inputs: ServingInputs, replicas: float, *, hosted: bool = False) -> ServingInputs:
    """Inputs where each turn of a conversation finds its cache, as the scenario routes turns over this many replicas.

    hosted: whether the cache of a conversation comes back from host memory
    """
    load = inputs.load
    with term("conversation"):
        hit = cached_prompt_tokens(inputs, replicas)
        loaded = np.maximum(hit - load.common, 0.0) if hosted else 0.0
        kept = _kept_share(inputs, replicas) if hosted else 0.0
    return replace(inputs, load=replace(load, hit=hit, history=0.0, loaded=loaded, returning=kept))


def cached_prompt_tokens(inputs: ServingInputs, replicas: Number) -> Number:
    """Prompt tokens cached on the replica that a request goes to, with the given number of replicas."""
    load = inputs.load
    return hit_tokens(load.shared + _kept_share(inputs, replicas) * load.history, load.prompt, inputs.engine.block)


def _kept_share(inputs: ServingInputs, replicas: Number) -> Number:
    """Share of conversations whose next turn reaches the replica with their cache."""
    return 1.0 if inputs.case.scenario.assume.routing == "cache-aware" else scattered_hit(1.0, replicas)


def results_by_cache_place(
    inputs: ServingInputs,
    layout: PlanColumns,
    evaluate: Callable[[ServingInputs, PlanColumns], T],
    lost: Callable[[T, str], NDArray[np.bool_]],
) -> T:
    """Results of plans in which a turn finds its cache on the device, on the host, or nowhere.

    lost: whether the next turn comes after the cache was evicted, by the column with the seconds that it stays
    """
    found = _results_for_replicas(inputs, layout, evaluate, hosted=False)
    late = np.asarray(lost(found, "prefix_residency"))
    if inputs.host_pool is not None and late.any():
        found = where_rows(late, _results_for_replicas(inputs, layout, evaluate, hosted=True), found)
        late = late & np.asarray(lost(found, "host_residency"))
    if not late.any():
        return found
    always_evicted = replace(inputs, load=replace(inputs.load, history=0.0))
    return where_rows(late, evaluate(always_evicted, layout), found)


def results_with_prefix_cache(
    inputs: ServingInputs, layout: PlanColumns, evaluate: Callable[[ServingInputs, PlanColumns], T]
) -> T:
    """Results of plans whose prompts share prefixes, of which the KV-cache pool stores some."""
    with untraced(), np.errstate(all="ignore"):
        hits = np.round(np.broadcast_to(np.asarray(_cached_prefix_tokens(inputs, layout)), (len(layout),)))
    found: T | None = None
    for hit in distinct_values(hits):
        of_hit, mask = replace(inputs, load=replace(inputs.load, hit=float(hit))), hits == hit
        if mask.all():
            return evaluate(of_hit, layout)
        own = np.flatnonzero(mask)
        places = np.minimum(np.searchsorted(own, np.arange(len(mask))), len(own) - 1)  # of other rows, any
        held = rows_of(evaluate(of_hit, layout.at(mask)), places, len(own))
        found = held if found is None else where_rows(mask, held, found)
    assert found is not None
    return found


def shared_tokens(inputs: ServingInputs) -> Number:
    """Prompt tokens shared with other prompts of the same kind."""
    tokens: Number = 0.0
    for kind in inputs.beginnings:
        tokens = tokens + kind.share * kind.tokens
    return tokens


def _cached_prefix_tokens(inputs: ServingInputs, layout: PlanColumns) -> Number:
    """Prompt tokens found in the replica's cache, for several kinds of shared prefixes."""
    kinds, load = inputs.beginnings, inputs.load
    pool = np.maximum(np.asarray(memory_use(inputs, layout).tokens), 1.0)
    owned = layout.replicas if inputs.case.scenario.assume.routing == "cache-aware" else 1.0
    with term("new tokens"):
        new = load.prompt + load.generated - shared_tokens(inputs)

    def chances(lasting: Number) -> list[Number]:
        """For each kind of shared prefix, the chance that it is still cached after so many requests."""
        return [kept_chance(lasting, np.maximum(share(kind.spacing, owned), 1.0)) for kind in kinds]

    def filled(log: Number) -> Number:
        """The logarithm of cached tokens over those of the pool, if entries stay for exp(log) requests."""
        held = np.exp(log) * new
        for kind, chance in zip(kinds, chances(np.exp(log)), strict=True):
            held = held + kept_beginning_tokens(kind.share, kind.tokens, share(kind.spacing, owned), chance)
        filled_share: Number = np.log(held / pool)
        return filled_share

    rows = len(layout)
    lasting = np.exp(last_within(filled, np.full(rows, np.log(LEAST)), np.log(pool / new * np.ones(rows))))
    hit: Number = 0.0
    with term("beginnings"):
        for kind, chance in zip(kinds, chances(lasting), strict=True):
            hit = hit + kind.share * kind.tokens * chance
    return np.minimum(hit, load.prompt - 1.0)


def _results_for_replicas(
    inputs: ServingInputs, layout: PlanColumns, evaluate: Callable[[ServingInputs, PlanColumns], T], *, hosted: bool
) -> T:
    """Results of plans if every turn finds the cache that its replica still has."""
    found: T | None = None
    for count in distinct_values(np.asarray(layout.replicas, dtype=np.float64)):
        held = evaluate(with_conversation_hits(inputs, float(count), hosted=hosted), layout)
        found = held if found is None else where_rows(np.asarray(layout.replicas == count), held, found)
    assert found is not None
    return found


def cached_cost(inputs: ServingInputs, layout: PlanColumns, point: OperatingPoint) -> Number:
    """Rent of a million cached prompt tokens: the extra time of a prompt over one without the cached prefix."""
    load = inputs.load
    if not np.any(load.hit):
        return np.nan
    bare = _without_hits(inputs)
    with term("without cached tokens"):
        carried = share(load.computed, point.rides)
        steps = ExactSteps(bare, layout, held=context_of(inputs))
        alone = steps.mixed(micro_batch(layout, point.concurrency), carried)
    with term("each cached token"):
        longer = np.maximum(point.mixed - alone, 0.0) * point.rides
        each = longer / _tokens_or_nan(load.hit)
    return prompt_cost(1e6, layout.ranks, price_per_accelerator(inputs.case), each)


def cached_cost_apart(inputs: ServingInputs, prefill: PlanColumns, prompt_token_time: Number) -> Number:
    """Rent of a million cached prompt tokens on prefill instances, from the time of each computed token."""
    load = inputs.load
    if not np.any(load.hit):
        return np.nan
    with term("without cached tokens"):
        alone = prompt_time(_without_hits(inputs), prefill).gamma
    with term("each cached token"):
        each = np.maximum(prompt_token_time - alone, 0.0) * load.computed / _tokens_or_nan(load.hit)
    return prompt_cost(1e6, prefill.ranks, price_per_accelerator(inputs.case), each)


def _without_hits(inputs: ServingInputs) -> ServingInputs:
    """The inputs if no prompt token is cached."""
    load = inputs.load
    return replace(inputs, load=replace(load, prompt=load.computed, hit=0.0))


def _tokens_or_nan(tokens: Number) -> Number:
    """The tokens, or NaN if there are none."""
    return np.where(np.asarray(tokens) > 0, tokens, np.nan)
