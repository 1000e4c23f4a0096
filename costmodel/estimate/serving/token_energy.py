"""Energy of a generated token: of the nodes of all replicas, busy or waiting for requests."""

from __future__ import annotations

from collections.abc import Mapping

from costmodel.equations.run.economics import share
from costmodel.equations.run.energy import mean_power
from costmodel.equations.serving.load.queues import occupied_share
from costmodel.equations.serving.serving_economics import token_energy
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, known_as, term


def busy_share(inputs: ServingInputs, columns: Mapping[str, Number]) -> Number:
    """Share of the time in which a replica has requests: all of it where each is replaced when it ends."""
    if inputs.case.scenario.workload.at_once is not None:
        return 1.0
    with term("requests of a replica"):
        here = columns["requests_per_s"] * columns["latency"] / columns["replicas"]
    return occupied_share(here)


def energy_per_token(inputs: ServingInputs, busy: Number, columns: Mapping[str, Number]) -> Number:
    """Energy of a generated token on accelerators that are busy for a share of the time."""
    drawn = mean_power(inputs.power.drawn, busy, inputs.power.idle_share)
    with term("all replicas"):
        power = columns["gpus"] * drawn
    return known_as("energy_per_token", token_energy(power, columns["output_tokens_per_s"]))


def busy_share_apart(prompts: Number, prefill_busy: Number, answers: Number, decoding: Number) -> Number:
    """Share of the time in which accelerators have work, where some compute prompts and others answers."""
    with term("busy"):
        busy = prompts * prefill_busy + answers * occupied_share(decoding)
    return share(busy, prompts + answers)
