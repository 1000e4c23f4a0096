"""Replicas that the scenario's rate needs, with headroom, growth and failures; and what they cost: rent, energy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from costmodel.documents.reader.resolved_scenario import counted_by_gpus
from costmodel.documents.schemas.default_values import Assumption
from costmodel.equations.run.economics import mean_power, run_cost, share, whole_node_price
from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.serving.queues import occupied_share
from costmodel.equations.serving.serving_economics import (
    MONTH,
    accelerators_rented,
    enough_of_each,
    replicas_needed,
    spare_rate,
    spare_replicas,
    token_energy,
)
from costmodel.estimate.machine.price import price_of_rented_unit, price_per_accelerator
from costmodel.estimate.serving.service_limits import OWN, service_limits
from costmodel.estimate.serving.serving_inputs import ENOUGH_UP, ServingInputs
from costmodel.ground.equation import Number, known_as, term
from costmodel.ground.record import record
from costmodel.ground.units import percent

# Where no limit bounds what users see. At 80 % of saturation the line before full steps is two steps long, by
# queue_wait; at 90 % it is four and a half, at 95 % nine and a half.
USUAL_HEADROOM = 0.25


def headroom_of(inputs: ServingInputs) -> float:
    """Headroom above the rate when replicas are counted: stated, or a default if no limit leaves room."""
    stated = inputs.case.scenario.assume.headroom
    if stated is not None:
        return float(stated)
    return 0.0 if any(limit.column != OWN for limit in service_limits(inputs)) else USUAL_HEADROOM


def share_of_saturation(inputs: ServingInputs) -> float:
    """Load over saturation of a fleet that has this headroom and no limits."""
    return float(share(1.0, 1.0 + headroom_of(inputs)))


def assumed_headroom(inputs: ServingInputs) -> tuple[Assumption, ...]:
    """The default headroom as an assumption, if it has an effect."""
    scenario = inputs.case.scenario
    if scenario.workload.rate is None or scenario.assume.headroom is not None or not headroom_of(inputs):
        return ()
    origin = f"no limit on times: at most {percent(share_of_saturation(inputs), 2)} of saturation"
    return (Assumption("assume.headroom", percent(USUAL_HEADROOM, 2), origin),)


def without_headroom(inputs: ServingInputs) -> ServingInputs:
    """Inputs without headroom, so that replicas are counted at their highest rate."""
    scenario = inputs.case.scenario
    assume = scenario.assume.model_copy(update={"headroom": 0.0})
    return replace(inputs, case=replace(inputs.case, scenario=scenario.model_copy(update={"assume": assume})))


def at_wanted_rate(inputs: ServingInputs) -> ServingInputs:
    """The inputs at the rate that replicas are sized for, without adding headroom or growth again."""
    scenario, wanted = inputs.case.scenario, float(wanted_rate(inputs))
    assume = scenario.assume.model_copy(update={"headroom": 0.0, "growth": None, "availability": None})
    workload = scenario.workload.model_copy(update={"rate": wanted})
    held = scenario.model_copy(update={"assume": assume, "workload": workload})
    return replace(inputs, case=replace(inputs.case, scenario=held))


def wanted_rate(inputs: ServingInputs) -> Number:
    """Requests per second that replicas are sized for: the scenario's rate with growth and headroom."""
    with term("headroom"):
        return _rate_with_growth(inputs) * (1 + headroom_of(inputs))


def _rate_with_growth(inputs: ServingInputs) -> Number:
    """The scenario's rate, with the growth of the load while new replicas start."""
    growth, arriving = inputs.case.scenario.assume.growth, float(inputs.case.scenario.workload.rate or 0.0)
    if growth is None:
        return arriving
    with term("while replicas start"):
        return arriving + spare_rate(rate_of(growth.rate, growth.time), growth.start)


def replicas_for_load(inputs: ServingInputs, within: Number, kinds: int = 1) -> Number:
    """Replicas that a load needs if each meets the limits up to a rate; NaN if the load is not a rate.

    kinds: of replicas that are counted apart; enough of all kinds are up for the wanted share of time
    """
    if inputs.case.scenario.workload.rate is None:
        return np.nan
    with np.errstate(divide="ignore"):  # no number of replicas keeps limits that one without load breaks
        needed = replicas_needed(_rate_with_growth(inputs), headroom_of(inputs), within)
    return with_spares(inputs, needed, kinds)


def with_spares(inputs: ServingInputs, needed: Number, kinds: int = 1) -> Number:
    """Number of replicas, with spares for those in repair."""
    assume = inputs.case.scenario.assume
    if assume.availability is None:
        return needed
    enough = enough_of_each(float(assume.enough_up or ENOUGH_UP), float(kinds))
    with np.errstate(invalid="ignore"), term("in repair"):
        return needed + spare_replicas(needed, assume.availability, enough)


def replicas_that_answer(costs: Mapping[str, float], rate: float) -> tuple[float, float]:
    """Replicas and accelerators that answer a rate without regard to limits, from the results of one plan."""
    count = float(replicas_needed(rate, 0.0, share(costs["saturation_per_s"], costs["replicas"])))
    return count, float(count * share(costs["gpus"], costs["replicas"]))


@record
class Fleet:
    """Accelerators that a load needs, and the nodes that contain them.

    whole: accelerators of all these nodes that the job may use
    month: rent of the paid accelerators for 730 hours [USD]; NaN if no price is known
    month_whole: the same if whole nodes are rented
    by_node: whether the price is for whole nodes
    """

    gpus: float
    nodes: float
    each: float  # in use of a node
    built: float  # in a node
    whole: float
    month: float
    month_whole: float
    by_node: bool

    @property
    def paid(self) -> float:
        """Accelerators that are paid for."""
        return self.whole if self.by_node else self.gpus


def by_whole_nodes(inputs: ServingInputs) -> bool:
    """Whether whole nodes are rented: the list price is per node, and the scenario states no price."""
    listed = inputs.case.node.list_price
    return inputs.case.stated_price is None and not inputs.case.groups and listed is not None and listed.per == "node"


def rent_needed(inputs: ServingInputs, gpus: Number) -> Number:
    """Rent per month of the accelerators that a load needs, counted as in `fleet_of`."""
    listed = inputs.case.node.list_price
    if not by_whole_nodes(inputs) or listed is None:
        return run_cost(MONTH, gpus, price_per_accelerator(inputs.case))
    each: Number = inputs.case.node.accelerators
    if counted_by_gpus(inputs.case):
        each = np.where(np.asarray(gpus) > inputs.ranks, max(each, inputs.case.node.built), each)
    with term("whole nodes"):
        whole = accelerators_rented(gpus, each)
    return run_cost(MONTH, share(whole, each), price_of_rented_unit(listed, inputs.case.node, inputs.case.accelerator))


def rent_columns(inputs: ServingInputs, gpus: Number, makespan: Number) -> dict[str, Number]:
    """Nodes for the given number of accelerators, and their rent for a month and for an offline batch."""
    each = inputs.case.node.accelerators
    with term("whole nodes"):
        whole = accelerators_rented(gpus, each)
    paid, price = whole if by_whole_nodes(inputs) else gpus, price_per_accelerator(inputs.case)
    return {
        "nodes": share(whole, each),
        "rent_per_month": run_cost(MONTH, paid, price),
        "cost_of_batch": run_cost(makespan, paid, price),
    }


def fleet_of(inputs: ServingInputs, gpus: float) -> Fleet:
    """The nodes for the given number of accelerators, and their rent.

    Where --gpus asked for a part of a node and more are needed, every node is filled with replicas.
    """
    node, by_node = inputs.case.node, by_whole_nodes(inputs)
    each, built, price = float(node.accelerators), float(node.built), float(price_per_accelerator(inputs.case))
    if counted_by_gpus(inputs.case) and gpus > float(inputs.ranks):
        if by_node:
            price = float(whole_node_price(price, each, built))
        each = max(each, built)
    whole = float(accelerators_rented(gpus, each))
    month, month_whole = (float(run_cost(MONTH, count, price)) for count in (whole if by_node else gpus, whole))
    return Fleet(gpus, float(share(whole, each)), each, built, whole, month, month_whole, by_node)


def busy_share(inputs: ServingInputs, columns: Mapping[str, Number]) -> Number:
    """Share of the time in which replicas have requests; in a closed loop, requests per replica, at most 1."""
    at_once = inputs.case.scenario.workload.at_once
    if at_once is not None:
        return np.minimum(at_once / columns["replicas"], 1.0)
    with term("requests of a replica"):
        here = columns["requests_per_s"] * columns["latency"] / columns["replicas"]
    return occupied_share(here)


def energy_per_token(inputs: ServingInputs, busy: Number, columns: Mapping[str, Number]) -> Number:
    """Energy per generated token, if accelerators are busy for this share of the time."""
    drawn = mean_power(inputs.power.drawn, busy, inputs.power.idle_share)
    with term("all replicas"):
        power = columns["gpus"] * drawn
    return known_as("energy_per_token", token_energy(power, columns["output_tokens_per_s"]))


def busy_share_apart(
    inputs: ServingInputs, prompts: Number, prefill_busy: Number, answers: Number, decoding: Number
) -> Number:
    """Share of the time in which accelerators work, with separate prefill and decode.

    prompts, answers: accelerators of each kind. decoding: requests in flight of one instance that answers.
    """
    closed = inputs.case.scenario.workload.at_once is not None
    occupied = np.minimum(decoding, 1.0) if closed else occupied_share(decoding)
    with term("busy"):
        busy = prompts * prefill_busy + answers * occupied
    return share(busy, prompts + answers)
