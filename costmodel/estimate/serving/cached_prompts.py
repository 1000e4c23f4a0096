"""What prompt tokens cost that are already in the cache: the attention of the others to them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.equations.run.economics import share
from costmodel.equations.serving.serving_economics import prompt_cost
from costmodel.estimate.machine.price import price_per_accelerator
from costmodel.estimate.serving.instances import prompt_time
from costmodel.estimate.serving.operating_point import ExactSteps, OperatingPoint, context_of, micro_batch
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term


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
        each = longer / _some(load.hit)
    return prompt_cost(1e6, layout.ranks, price_per_accelerator(inputs.case), each)


def cached_cost_apart(inputs: ServingInputs, prefill: PlanColumns, prompt_token_time: Number) -> Number:
    """Rent of a million cached prompt tokens on prefill instances, from the time of each computed token."""
    load = inputs.load
    if not np.any(load.hit):
        return np.nan
    with term("without cached tokens"):
        alone = prompt_time(_without_hits(inputs), prefill).gamma
    with term("each cached token"):
        each = np.maximum(prompt_token_time - alone, 0.0) * load.computed / _some(load.hit)
    return prompt_cost(1e6, prefill.ranks, price_per_accelerator(inputs.case), each)


def _without_hits(inputs: ServingInputs) -> ServingInputs:
    """Inputs whose prompts have only the computed tokens, without a cached prefix."""
    load = inputs.load
    return replace(inputs, load=replace(load, prompt=load.computed, hit=0.0))


def _some(tokens: Number) -> Number:
    """The tokens, or NaN where there are none."""
    return np.where(np.asarray(tokens) > 0, tokens, np.nan)
