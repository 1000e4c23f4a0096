"""Replicas that the scenario's rate needs: with headroom, while it grows, and while some of them are down."""

from __future__ import annotations

import numpy as np

from costmodel.equations.run.economics import rate as rate_of
from costmodel.equations.serving.serving_economics import replicas_needed, spare_rate, spare_replicas
from costmodel.estimate.serving.serving_inputs import ENOUGH_UP, ServingInputs
from costmodel.ground.equation import Number, term


def replicas_for_load(inputs: ServingInputs, within: Number) -> Number:
    """Replicas, each of which keeps the limits up to a rate; not a number where the load is no rate."""
    assume, arriving = inputs.case.scenario.assume, inputs.case.scenario.workload.rate
    if arriving is None:
        return np.nan
    most: Number = arriving
    if assume.growth is not None:
        with term("while replicas start"):
            most = arriving + spare_rate(rate_of(assume.growth.rate, assume.growth.time), assume.growth.start)
    with np.errstate(divide="ignore"):  # no number of replicas keeps limits that one without load breaks
        needed = replicas_needed(most, assume.headroom or 0.0, within)
    if assume.availability is None:
        return needed
    with np.errstate(invalid="ignore"), term("in repair"):
        return needed + spare_replicas(needed, assume.availability, assume.enough_up or ENOUGH_UP)
