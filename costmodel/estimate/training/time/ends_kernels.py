"""Time of embedding and head on one accelerator, forward and backward, without communication."""

from __future__ import annotations

from costmodel.equations.kernels.memory_traffic import embedding_traffic, loss_traffic
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.estimate.model.residual_streams import stream_head
from costmodel.estimate.model.shards import layer_count
from costmodel.estimate.shared.memoize import memoized
from costmodel.estimate.shared.plan_batch import Block
from costmodel.estimate.shared.time_breakdown import ForwardBackward, TimeByCategory
from costmodel.estimate.training.stage_parameters import local_tokens, vocab_per_rank
from costmodel.estimate.training.time.layer_kernels import plain_product, stream
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.equation import term


@memoized()
def head_pass(inputs: TrainingInputs, block: Block) -> ForwardBackward:
    """The head and the loss."""
    tokens = local_tokens(inputs, block)
    vocab = vocab_per_rank(inputs, block.tp)
    with term("head"):
        table = Matmul("head", vocab, inputs.model.hidden)
        head = plain_product(inputs, tokens, table, trained=inputs.tuning is None)
        if inputs.model.head_transform:
            square = Matmul("head transform", inputs.model.hidden / block.tp, inputs.model.hidden, block.tp)
            head = head + plain_product(inputs, tokens, square, trained=inputs.tuning is None)
        for matrix in stream_head(inputs.model, block.tp):
            head = head + plain_product(inputs, tokens, matrix, trained=inputs.tuning is None)
        fused = inputs.stack.kernels.streams == "fused"
        loss = stream(inputs, loss_traffic(tokens, vocab, inputs.widths.element, fused=fused))
    return head + ForwardBackward(TimeByCategory(memory_bound=loss), TimeByCategory())


@memoized()
def embedding_pass(inputs: TrainingInputs, block: Block) -> ForwardBackward:
    """The lookup and its gradient."""
    tokens = local_tokens(inputs, block)
    with term("embedding"):
        nbytes = embedding_traffic(tokens, inputs.model.hidden, inputs.widths.element)
        if inputs.model.layer_embedding is not None:
            entries = layer_count(inputs.model) * inputs.model.layer_embedding.width
            nbytes = nbytes + embedding_traffic(tokens, entries, inputs.widths.element)
        lookup = stream(inputs, nbytes)
    return ForwardBackward(
        TimeByCategory(memory_bound=lookup),
        TimeByCategory(memory_bound=lookup) if inputs.tuning is None else TimeByCategory(),
    )
