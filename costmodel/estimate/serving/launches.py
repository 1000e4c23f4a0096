"""Time in which the device waits for launches: without captured graphs the host launches every kernel of a step."""

from __future__ import annotations

import numpy as np

from costmodel.equations.kernels.roofline import host_bound_time
from costmodel.equations.serving.engine_step import eager_launch_time
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.serving.expert_step import halved
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term


def eager_launches(inputs: ServingInputs, layout: PlanColumns) -> Number | None:
    """Time the host needs to launch the kernels of a step; None where captured graphs are replayed.

    Two halves of a batch are launched one after the other.
    """
    launch = inputs.engine.launch
    if inputs.engine.graphs or launch is None:
        return None
    with term("launches"):
        once = eager_launch_time(layer_count(inputs.model), launch.operations, launch.operation)
        both = halved(inputs, layout)
        return once if both is None else np.where(both, 2.0, 1.0) * once


def launch_wait(device: Number, launches: Number) -> Number:
    """What launches add to a step whose operations take so long on the device."""
    with term("launches"):
        return host_bound_time(device, launches) - device
