"""Memory of the head and the loss, on the rank that has them."""

from __future__ import annotations

import numpy as np

from costmodel.equations.memory.activations import head_activations, logit_bytes
from costmodel.equations.network.collectives import activation_message
from costmodel.estimate.model.residual_streams import stream_width
from costmodel.estimate.model.shards import shard
from costmodel.estimate.shared.memoize import RECOMPUTE, memoized
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.training.memory.activations import layer_activations
from costmodel.estimate.training.stage_parameters import local_tokens, vocab_per_rank
from costmodel.estimate.training.training_inputs import ELEMENT_BYTES, TrainingInputs
from costmodel.ground.equation import Number, term


@memoized(*RECOMPUTE, "sequence_parallel", "cp_type")
def loss_bytes(inputs: TrainingInputs, block: Block) -> Number:
    """Bytes saved by the head and the loss for the micro-batch in backward."""
    tokens = local_tokens(inputs, block)
    logits = logit_bytes(tokens, vocab_per_rank(inputs, block.tp), inputs.stack.buckets.loss)
    once = logits + head_activations(tokens, inputs.model.hidden, inputs.widths.element, block.sequence_ranks)
    if inputs.model.residual_streams is not None:
        with term("streams"):
            wide = activation_message(tokens, stream_width(inputs.model), inputs.widths.element)
            once = once + wide / block.sequence_ranks
    ahead = inputs.model.prediction
    if ahead is None:
        return once
    with term("multi-token prediction"):
        part = shard(inputs.model, ahead.layer, block.tp, block.ep, block.etp)
        joined = head_activations(tokens, inputs.model.hidden, inputs.widths.element, block.sequence_ranks)
        each = layer_activations(inputs, block, part) + joined + once
    return once + ahead.depth * each


def waiting_bytes(inputs: TrainingInputs, block: Block, micro_batches: Number) -> Number:
    """Bytes saved by the losses of the other micro-batches, where backward waits for every forward of a pipeline.

    They are the softmax, and the inputs of the head and of the norm before it.
    """
    tokens, width = local_tokens(inputs, block), min(inputs.stack.buckets.loss, ELEMENT_BYTES["fp32"])
    with term("losses that wait"):
        softmax = logit_bytes(tokens, vocab_per_rank(inputs, block.tp), width)
        each = softmax + head_activations(tokens, inputs.model.hidden, inputs.widths.element, block.sequence_ranks)
        return np.where(block.pp == 1, 0.0, micro_batches - 1.0) * each
