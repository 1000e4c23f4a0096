"""Routed experts of a layer in one fused call, and the way of tokens to them where groups of attention share them."""

from __future__ import annotations

import numpy as np

from costmodel.documents.schemas.model import Experts
from costmodel.equations.kernels.flop import matmul_flop
from costmodel.equations.kernels.roofline import matmul_time
from costmodel.equations.network.collectives import activation_message
from costmodel.equations.serving.step.decode_step import expert_layer_bytes, experts_read
from costmodel.estimate.machine.collective_time import collective_time
from costmodel.estimate.machine.process_groups import group
from costmodel.estimate.model.routed_experts import expert_matmuls
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term

CORNER = 1.5  # of the roofline of fused experts: their tables are fitted with it [kernel-fit]


def expert_layer(inputs: ServingInputs, layout: PlanColumns, experts: Experts, tokens: Number) -> Number:
    """Time of one layer's routed experts on the busiest rank, for all tokens of a step."""
    fit, types, hidden = inputs.experts, inputs.types, inputs.model.hidden
    assert fit is not None
    ranks = layout.stage_ranks
    with term("experts"):
        rows = experts.top_k * tokens
        up, down = expert_matmuls(hidden, experts, experts.ffn_hidden)
        flop = (matmul_flop(rows, up.n, up.k) + matmul_flop(rows, down.n, down.k)) / ranks
        read = experts_read(tokens, experts.top_k, experts.count)
        nbytes = expert_layer_bytes(read, rows, hidden, experts.ffn_hidden, types.expert_weight, types.wide)
        busiest = np.where(layout.ep > 1, inputs.imbalance, 1.0)
        return matmul_time(
            busiest * flop,
            busiest * (nbytes / ranks),
            types.expert_peak,
            inputs.memory_bandwidth,
            fit.compute_share,
            fit.memory_share,
            fit.start,
            CORNER,
            1.0,
        )


def expert_exchange(inputs: ServingInputs, layout: PlanColumns, tokens: Number) -> Number:
    """Tokens gathered from all groups of attention and results scattered back; nothing where there is one group."""
    if np.all(layout.dp_attention == 1):
        return 0.0
    ranks = group(inputs, "ep", layout.stage_ranks, 1.0)
    message = activation_message(tokens, inputs.model.hidden, inputs.types.wide)
    with term("gather tokens"):
        there = collective_time(inputs, message, ranks, "all_gather")
    with term("scatter results"):
        back = collective_time(inputs, message, ranks, "reduce_scatter")
    return np.where(layout.dp_attention > 1, there + back, 0.0)
