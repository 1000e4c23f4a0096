"""Energy of a generated token: of the nodes of all replicas, busy or waiting for requests."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from costmodel.equations.run.economics import mean_power, share
from costmodel.equations.serving.queues import occupied_share
from costmodel.equations.serving.serving_economics import token_energy
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, known_as, term


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
