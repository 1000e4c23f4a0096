"""The rate of one user that no engine exceeds: every token reads the weights once."""

from __future__ import annotations

from costmodel.equations.layers.parameters import table_parameters
from costmodel.equations.run.economics import share
from costmodel.equations.serving.step.decode_step import fastest_user_rate
from costmodel.estimate.model.shards import shard
from costmodel.estimate.serving.engine_memory import map_weights, vocab_rows
from costmodel.estimate.serving.plan_columns import PlanColumns
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.ground.equation import Number, term


def read_per_rank(inputs: ServingInputs, layout: PlanColumns) -> Number:
    """Bytes of weights that each rank reads for one token: all layers, of routed experts the chosen ones, the head."""
    types = inputs.types
    read: Number = 0.0
    for kind in inputs.model.layers:
        part = shard(inputs.model, kind, layout.tp, layout.stage_ranks)
        with term("weights of a layer"):
            held = map_weights(inputs, part)
            if kind.experts is not None:
                chosen = share(kind.experts.top_k, kind.experts.count)
                held = held + chosen * (types.expert_weight * part.routed_parameters)
        read = read + kind.count * held
    with term("head"):
        return read + types.wide * table_parameters(vocab_rows(inputs, layout.tp), inputs.model.hidden)


def bandwidth_bound(inputs: ServingInputs, layout: PlanColumns) -> Number:
    """Tokens a second of one user at most; of drafts, the accepted ones come with each read."""
    with term("weights that a token reads"):
        read = layout.tp * read_per_rank(inputs, layout)
    rate = fastest_user_rate(read, layout.tp, inputs.memory_bandwidth)
    return rate if inputs.load.verified == 1 else inputs.load.accepted * rate
