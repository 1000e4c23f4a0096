"""Closed-loop benchmarks evaluated over many layouts at once, for one model, engine and pair of lengths."""

from __future__ import annotations

import numpy as np

from costmodel.equations.kernels.roofline import stream_time
from costmodel.equations.serving.closed_loop import loop_tokens_per_gpu
from costmodel.equations.serving.engine_step import experts_read
from costmodel.estimate.serving.concurrency import closed_loop
from costmodel.estimate.serving.constraints import invalid
from costmodel.estimate.serving.engine_memory import layer_weights, memory_use
from costmodel.estimate.serving.load import bounds_of
from costmodel.estimate.serving.operating_point import ExactSteps, operating_point
from costmodel.estimate.serving.plan_columns import PlanColumns, Rows
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.serving.steady_state import SteadyState
from costmodel.ground.equation import Number
from costmodel.ground.record import record


@record
class Benchmark:
    """What so many users in a closed loop see of each layout, and why some layouts cannot be."""

    state: SteadyState
    tokens_per_gpu: Rows
    floor: Rows  # time per token that memory bandwidth allows at best, without speculation
    refused: list[str]  # the first code of each row; empty where it is valid


def benchmark(inputs: ServingInputs, layout: PlanColumns, users: Rows, *, burst: bool) -> Benchmark:
    """Closed loops of so many users, one number for each layout."""
    memory = memory_use(inputs, layout)
    refused = [""] * len(layout)
    for code, mask in (("M001", np.broadcast_to(np.asarray(memory.pool <= 0), len(layout))), *invalid(inputs, layout)):
        for row in np.flatnonzero(mask):
            refused[row] = refused[row] or code
    with np.errstate(all="ignore"):  # rows that are refused
        bounds = bounds_of(inputs, layout, memory)
        many = np.minimum(users, bounds.least)
        point = operating_point(inputs, layout, many, ExactSteps(inputs, layout))
        state = closed_loop(inputs, layout, point, users, bounds.admitted, burst=burst)
        tokens = loop_tokens_per_gpu(users, inputs.load.output, state.ttft, state.tpot, layout.ranks)
        floor = np.broadcast_to(np.asarray(shortest_step(inputs, layout, many)), len(layout))
    return Benchmark(state, np.asarray(tokens), floor, refused)


def shortest_step(inputs: ServingInputs, layout: PlanColumns, decodes: Number) -> Number:
    """Time to read what so many sequences need of the weights once, at the datasheet's memory bandwidth."""
    nbytes: Number = 0.0
    for kind in inputs.model.layers:
        maps, routed = layer_weights(inputs, layout, kind)
        if kind.experts is not None:
            read = experts_read(decodes, kind.experts.top_k, kind.experts.count)
            routed = routed * (read / kind.experts.count)
        nbytes = nbytes + kind.count * (maps + routed)
    return stream_time(nbytes, inputs.memory_bandwidth, 1.0)
