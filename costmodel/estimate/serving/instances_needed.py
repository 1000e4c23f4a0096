"""Prefill and decode instances that the scenario's rate needs, each kind by itself."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.estimate.serving.apart_columns import SeenApart
from costmodel.estimate.serving.instance_pairs import FEWEST_PER_S, InstancePairs, bare_transfer
from costmodel.estimate.serving.instances import cache_transfer
from costmodel.estimate.serving.plan_columns import SIZES, PlanColumns, Rows
from costmodel.estimate.serving.replica_kinds import distinct, numbered_factors, rows_of
from costmodel.estimate.serving.replicas_for_load import replicas_for_load, wanted_rate
from costmodel.ground.equation import Number, untraced

KINDS = 2  # of instances, enough of both of which must be up
MORE = 4  # numbers of decode instances that are tried, from the fewest on
_IDLE = 1e-3  # of what an instance answers: one that keeps the limits with less than that load keeps them with none
_SAME = 1e-9  # by which a rate may differ that is divided and multiplied again


def instances_needed(pairs: InstancePairs) -> tuple[Number, Number]:
    """Instances for prompts and for tokens, the fewest accelerators of both that keep the limits at the rate.

    Without end where no number keeps them; not a number where the load is no rate. The pairs are looked at often, so
    they should be quick ones.
    """
    if pairs.inputs.case.scenario.workload.rate is None:
        return np.nan, np.nan
    kinds, which = _kinds(pairs)
    with untraced(), np.errstate(all="ignore"):
        rates = _rates(kinds)
        prefill, decode = (replicas_for_load(pairs.inputs, each, KINDS) for each in rates)
        moved = _on_other_links(kinds, prefill, decode)
        if moved is not None:
            crossed, other = moved
            rates = [np.where(crossed, *both) for both in zip(_rates(other), rates, strict=True)]
    first, second = (replicas_for_load(pairs.inputs, each[which], KINDS) for each in rates)
    return first, second


def _kinds(pairs: InstancePairs) -> tuple[InstancePairs, NDArray[np.intp]]:
    """The pairs without those that differ only in how many instances they have, and which of them each row is."""
    halves = (pairs.prefill, pairs.decode)
    near = np.asarray(_accelerators(*halves) <= pairs.inputs.domain, dtype=np.float64)
    columns = [np.asarray(getattr(half, name)) for half in halves for name in SIZES if name != "replicas"]
    if pairs.decode.straddles is not None:
        columns.append(pairs.decode.straddles)
    first, which = distinct([*columns, near, *numbered_factors(pairs.decode)])
    names = ("prompt", "transfer", "steps", "most", "held")
    parts: dict[str, Any] = {name: rows_of(getattr(pairs, name), first, len(pairs.decode)) for name in names}
    return replace(pairs, prefill=halves[0].at(first), decode=halves[1].at(first), **parts), which


def _accelerators(prefill: PlanColumns, decode: PlanColumns) -> Rows:
    return np.asarray(prefill.replicas * prefill.ranks + decode.replicas * decode.ranks)


def _rates(pairs: InstancePairs) -> list[Rows]:
    """Requests a second of an instance of each kind, where together they take the fewest accelerators."""
    wanted = float(wanted_rate(pairs.inputs))
    links = pairs.transfer
    passed = np.minimum(1 / np.asarray(pairs.prompt.full), np.asarray(links.sent))
    decoded = np.minimum(np.asarray(pairs.decoded(pairs.most)), np.asarray(links.received))

    def over(prompts: Rows, answers: Rows, many: Rows) -> Rows:
        least = np.minimum(passed / prompts, decoded / answers)
        held = {**pairs.held, "saturation_per_s": least}

        def seen_at_load(factor: Rows) -> SeenApart:
            busier = pairs.in_flight_of_one(np.minimum(factor * answers, decoded))
            return pairs.seen_at(factor * prompts, busier)

        seen = pairs.seen_at(prompts, many)
        return np.asarray(np.maximum(pairs.over(seen, np.ones(len(least)), held, seen_at_load), 1 / least))

    idle = np.full(len(pairs.decode), FEWEST_PER_S)
    highest = pairs.kept(decoded, lambda rate: over(idle, rate, pairs.in_flight_of_one(rate)))
    fewest = np.ceil(wanted / highest)
    best = [np.zeros(len(idle)), np.zeros(len(idle))]
    least = np.full(len(idle), np.inf)
    for more in range(MORE):
        each = wanted / (fewest + more)
        many = pairs.in_flight_of_one(np.minimum(each, decoded))
        prompts = pairs.kept(passed, partial(over, answers=each, many=many))
        gpus = np.ceil(wanted / prompts) * pairs.prefill.ranks + (fewest + more) * pairs.decode.ranks
        fewer = np.asarray(gpus < least)
        best = [np.where(fewer, *both) for both in zip((prompts, each * (1 + _SAME)), best, strict=True)]
        least = np.where(fewer, gpus, least)
    full = (passed, decoded)
    return [np.where(rate < _IDLE * most, 0.0, rate) for rate, most in zip(best, full, strict=True)]


def _on_other_links(pairs: InstancePairs, first: Number, second: Number) -> tuple[Rows, InstancePairs] | None:
    """Rows that so many instances move to other links, and the pairs there: a network, or those of one domain."""
    prefill, decode = (_with(layout, count) for layout, count in ((pairs.prefill, first), (pairs.decode, second)))
    now, then = _accelerators(pairs.prefill, pairs.decode), _accelerators(prefill, decode)
    domain = np.asarray(pairs.inputs.domain)
    crossed = np.asarray((now <= domain) != (then <= domain))
    if not crossed.any():
        return None
    links = bare_transfer(cache_transfer(pairs.inputs, prefill, decode, pairs.prompt.own))
    return crossed, replace(pairs, transfer=links)


def _with(layout: PlanColumns, count: Number) -> PlanColumns:
    return replace(layout, replicas=np.broadcast_to(np.asarray(count, dtype=np.float64), len(layout)))
