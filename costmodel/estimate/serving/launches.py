"""Time in which the device waits for launches: without captured graphs the host launches every kernel of a step."""

from __future__ import annotations

import numpy as np

from costmodel.equations.kernels.roofline import host_bound_time
from costmodel.equations.serving.engine_step import eager_launch_time, prompt_launch_time
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.serving.expert_step import halved
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


@record
class Launches:
    """Host time to launch the kernels of a step; None if it replays a captured graph."""

    decode: Number | None = None  # of a step without prompts
    prompts: Number | None = None  # of one with


def launches_of(inputs: ServingInputs, layout: PlanColumns) -> Launches:
    """Host time of launches in steps without and with prompts; twice for a batch in two halves."""
    engine, launch, kinds = inputs.engine, inputs.engine.launch, inputs.model.layers
    if launch is None or (engine.graphs and launch.prompts is None):
        return Launches()
    both = halved(inputs, layout)
    with term("launches"):
        times = 1.0 if both is None else np.where(both, 2.0, 1.0)
        layers, each = layer_count(inputs.model), launch.prompts
        eager = times * eager_launch_time(layers, launch.operations, launch.operation)
        if each is None:
            return Launches(eager, eager)
        mixed = sum(kind.count for kind in kinds if kind.experts is not None)
        latent = sum(kind.count for kind in kinds if kind.latent is not None)
        python = times * prompt_launch_time(layers, each.layer, mixed, each.experts, latent, each.latent)
        return Launches(None, python) if engine.graphs else Launches(*(np.maximum(python, eager),) * 2)


def launch_wait(device: Number, launches: Number) -> Number:
    """Time that launches add to a step with this device time."""
    with term("launches"):
        return host_bound_time(device, launches) - device
