"""Lines about the money and the energy that a serving plan takes: for tokens, for a batch, and for a month."""

from __future__ import annotations

import math

from costmodel.equations.serving.serving_economics import MONTH
from costmodel.estimate.serving.deployment_rent import fleet_of
from costmodel.estimate.serving.predict_serving import ServingAnswer
from costmodel.ground.counts import number_of
from costmodel.ground.units import rounded_dollars, show
from costmodel.report.terminal.serving.fleet_words import unpaid_words
from costmodel.report.terminal.serving.serving_formatting import band, result
from costmodel.report.terminal.style.formatting import BAND
from costmodel.report.terminal.style.layout import Line
from costmodel.report.terminal.style.theme import styled


def money_and_energy(answer: ServingAnswer) -> list[Line]:
    """Cost of tokens, rent of all replicas, and energy of a token."""
    return [*_costs(answer.costs), *_rent(answer), *_energy(answer.costs)]


def _costs(costs: dict[str, float]) -> list[Line]:
    """Rent for tokens, and what it may be where steps take longer or shorter."""
    if math.isnan(costs["cost_per_mtoken"]):
        return [styled("  cost          no price known; --price 2.50USD/GPU/h sets one")]
    lines: list[Line] = [styled(f"  cost          {_cost(costs)}")]
    named = (("prompt", "cost_per_minput"), ("cached", "cost_per_mcached"), ("generated", "cost_per_moutput"))
    bands = [(words, band(costs, name)) for words, name in (*named, ("all rent", "cost_per_mtoken"))]
    stated = " · ".join(f"{words} {found}" for words, found in bands if found)
    return [*lines, styled(f"  {BAND}     {stated}")] if stated else lines


def _cost(costs: dict[str, float]) -> str:
    prompts, answers = (result(name, costs[name]) for name in ("cost_per_minput", "cost_per_moutput"))
    if not math.isnan(costs["cost_per_mcached"]):
        prompts = f"{prompts} ({result('cost_per_mcached', costs['cost_per_mcached'])} cached)"
    every = result("cost_per_mtoken", costs["cost_per_mtoken"])
    return f"{prompts} per M prompt tokens and {answers} per M generated; all rent on generated tokens: {every} per M"


def _rent(answer: ServingAnswer) -> list[Line]:
    """What all replicas cost together, and an offline batch on them; nothing where no price is known."""
    costs = answer.costs
    if math.isnan(costs["rent_per_month"]):
        return []
    fleet = fleet_of(answer.inputs, costs["gpus"])
    used, nodes = number_of(fleet.gpus, "GPU"), number_of(fleet.nodes, "node")
    paid = f"{used} in {nodes}, rented whole" if fleet.by_node else f"{used}{unpaid_words(fleet)}"
    month, batch = (rounded_dollars(costs[name]) for name in ("rent_per_month", "cost_of_batch"))
    whole = [styled(f"  batch rent    {batch}")] if answer.inputs.case.scenario.workload.requests is not None else []
    hour = rounded_dollars(costs["rent_per_month"] * 3600 / MONTH)
    return [styled(f"  rent          {month} a month of 730 h, {hour} an hour: {paid}"), *whole]


def _energy(costs: dict[str, float]) -> list[Line]:
    """What a generated token takes, and all replicas together."""
    if math.isnan(costs["energy_per_token"]):
        return [styled("  energy        no power known; --set 'assume.power=900 W' sets that of an accelerator")]
    each = result("energy_per_token", costs["energy_per_token"])
    power = show(costs["energy_per_token"] * costs["output_tokens_per_s"], "J/s")
    return [styled(f"  energy        {each} per generated token ({band(costs, 'energy_per_token')}), {power} in total")]
