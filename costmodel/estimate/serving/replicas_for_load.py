"""Replicas that the scenario's rate needs: with headroom, while it grows, and while some of them are down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from costmodel.documents.schemas.default_values import Assumption
from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.run.economics import share
from costmodel.equations.serving.serving_economics import enough_of_each, replicas_needed, spare_rate, spare_replicas
from costmodel.estimate.serving.limits_chance import OWN, service_limits
from costmodel.estimate.serving.serving_inputs import ENOUGH_UP, ServingInputs
from costmodel.ground.equation import Number, term
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
    """Inputs at the rate that replicas are counted for, without headroom, growth or repair on top of it."""
    scenario, wanted = inputs.case.scenario, float(wanted_rate(inputs))
    assume = scenario.assume.model_copy(update={"headroom": 0.0, "growth": None, "availability": None})
    workload = scenario.workload.model_copy(update={"rate": wanted})
    held = scenario.model_copy(update={"assume": assume, "workload": workload})
    return replace(inputs, case=replace(inputs.case, scenario=held))


def wanted_rate(inputs: ServingInputs) -> Number:
    """Requests per second that replicas are counted for: the scenario's rate, with growth and headroom."""
    with term("headroom"):
        return _growing(inputs) * (1 + headroom_of(inputs))


def _growing(inputs: ServingInputs) -> Number:
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
        needed = replicas_needed(_growing(inputs), headroom_of(inputs), within)
    return with_spares(inputs, needed, kinds)


def with_spares(inputs: ServingInputs, needed: Number, kinds: int = 1) -> Number:
    """Replicas with spares for those in repair."""
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
