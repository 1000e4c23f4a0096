"""Parameters of a rank: in a layer and in embedding and head. No hardware rates here."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from costmodel.documents.schemas.model import Model
from costmodel.equations.layers.parameters import norm_parameters, table_parameters
from costmodel.equations.parallelism.counts import padded_vocab, tokens_in_micro_batch
from costmodel.estimate.model.layer_embeddings import entry_tables
from costmodel.estimate.model.shards import (
    has_head_parts,
    head_parameters,
    layer_count,
    position_rows,
    prediction_parameters,
    shard,
    tower_parameters,
    vision_parameters,
)
from costmodel.estimate.shared.per_stage import PerStage, memoized, value_of_largest
from costmodel.estimate.shared.plan_batch import Block, largest, local_sequence
from costmodel.estimate.training.parallelism.pipeline import (
    StageLayers,
    boundary_parameters,
    head_holder,
    is_plain,
    separate_embedding_and_head,
    weight_replication,
)
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.ground.counts import Schedule
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


def local_tokens(inputs: TrainingInputs, block: Block) -> Number:
    """Tokens of a micro-batch on one rank, outside attention."""
    return tokens_in_micro_batch(block.micro_batch, local_sequence(inputs.layer_sequence, block))


def head_tokens(inputs: TrainingInputs, block: Block) -> Number:
    """Tokens of a micro-batch on one rank that reach the head."""
    return tokens_in_micro_batch(block.micro_batch, local_sequence(inputs.sequence, block))


def vocab_per_rank(inputs: TrainingInputs, tp: Number) -> Number:
    """Rows of the padded embedding on one rank."""
    return padded_vocab(inputs.model.vocab, inputs.stack.vocab_multiple, tp) / tp


class LargestRankParameters(NamedTuple):
    """Parameters of the largest rank with all copies: replicated over dp, in embedding and head, routed experts."""

    held: Number
    ends: Number
    routed: Number


@record
class StageParameters:
    """Parameters of a rank before sharding over dp: per layer (mean, largest), in its layers, in embedding and head.

    tied: both ends of a pipeline hold the table. Routed experts are separate, since they are sharded over fewer ranks:
    of a layer, of the first, a middle and the last rank, and beside the head.
    """

    layer: Number
    largest: Number
    ranks: PerStage[Number]
    table: Number
    embedding: Number
    head: Number
    both: Number
    tied: bool
    routed_layer: Number
    routed_ranks: PerStage[Number]
    routed_head: Number

    def ends(self, pp: Number, schedule: Schedule) -> PerStage[Number]:
        """Parameters of embedding and head on the first, a middle and the last rank; a single rank holds both."""
        alone, (embedding, head) = pp == 1, boundary_parameters(schedule, self.embedding, self.head)
        return PerStage(np.where(alone, self.both, embedding), 0.0, np.where(alone, self.both, head))

    def fuller_end(self, pp: Number) -> Number:
        """Parameters of the larger one of embedding and head; a single stage has both, with a tied table once."""
        return np.where(pp == 1, self.both, np.maximum(self.embedding, self.head))

    def stages(self, pp: Number, schedule: Schedule) -> PerStage[Number]:
        """Parameters of the first, a middle and the last rank with embedding and head, all copies."""
        held = PerStage(*(layers + end for layers, end in zip(self.ranks, self.ends(pp, schedule), strict=True)))
        return _copied(schedule, held)

    def routed_stages(self, block: Block) -> PerStage[Number]:
        """Parameters of routed experts on the first, a middle and the last rank, with all copies of weights."""
        return PerStage(*(held + head_holder(block, self.routed_head, at) for at, held in enumerate(self.routed_ranks)))

    def fullest(self, block: Block) -> LargestRankParameters:
        """Parameters of the rank with most parameters, including routed experts."""
        pp, schedule, (first, middle, last) = block.pp, block.structure.schedule, self.ranks
        if first is middle is last and is_plain(schedule):
            end = self.fuller_end(pp)
            return LargestRankParameters(middle + end, end, self.routed_ranks.middle + self.routed_head)
        held, routed = self.stages(pp, schedule), self.routed_stages(block)
        most = PerStage(*(rest + experts for rest, experts in zip(held, routed, strict=True)))
        ends = _copied(schedule, self.ends(pp, schedule))
        return LargestRankParameters(*(value_of_largest(most, each) for each in (held, ends, routed)))

    def fullest_layers(self, schedule: Schedule) -> tuple[Number, Number]:
        """Parameters in the layers of the largest rank, with all copies: without routed experts, and only those."""
        held, routed = _copied(schedule, self.ranks), self.routed_ranks
        most = PerStage(*(rest + experts for rest, experts in zip(held, routed, strict=True)))
        return value_of_largest(most, held), value_of_largest(most, routed)


def _copied(schedule: Schedule, held: PerStage[Number]) -> PerStage[Number]:
    """Parameters multiplied by the copies of weights that a schedule stores."""
    copies = weight_replication(schedule)
    return held if copies == 1 else held.each(lambda one: copies * one)


@memoized("schedule")
def stage_parameters(inputs: TrainingInputs, block: Block, layers: StageLayers) -> StageParameters:
    """Parameters of a rank in its layers, in the embedding and in the head."""
    model, tp = inputs.model, block.tp
    held = [shard(model, kind, tp, block.ep, block.etp) for kind in model.layers]
    means = layers.means(model, [part.parameters for part in held])
    copies = weight_replication(block.structure.schedule)
    rows = vocab_per_rank(inputs, tp)
    with term("embedding"):
        table = embedding = table_parameters(rows, model.hidden)
    with term("head"):
        head = table_parameters(rows, model.hidden)
    last_norm = norm_parameters(model.hidden, norm=model.norm)
    embedding = _with_entry(model, embedding, last_norm, tp)
    both = embedding + last_norm if model.tied else embedding + head + last_norm
    extra = prediction_parameters(model, tp)
    if has_head_parts(model):
        extra = extra + head_parameters(model, rows)
    head, both = head + extra, both + extra
    copied = _embeds_again(model, block.structure.schedule)
    if copied:
        head = head + np.where(block.pp > 1, table, 0.0)
    return StageParameters(
        layer=means.middle,
        largest=largest(*(part.parameters for part in held)),
        ranks=layers.each(means),
        table=table,
        embedding=embedding,
        head=head + last_norm,
        both=both,
        tied=model.tied or copied,
        routed_layer=largest(*(part.routed_parameters for part in held)),
        routed_ranks=layers.each(layers.means(model, [copies * part.routed_parameters for part in held])),
        routed_head=_routed_ahead(inputs, block),
    )


def _with_entry(model: Model, embedding: Number, norm: Number, tp: Number) -> Number:
    """Parameters of the embedding and of everything else on the first stage before its layers."""
    if model.positions == "learned":
        with term("positions"):
            embedding = embedding + table_parameters(position_rows(model), model.hidden)
    if model.layer_embedding is not None:
        embedding = embedding + entry_tables(model, layer_count(model), tp)
    if model.meta_tokens is not None:
        embedding = embedding + table_parameters(model.meta_tokens, model.hidden)
    if model.token_types is not None:
        embedding = embedding + table_parameters(model.token_types, model.hidden)
    if model.vision is not None:
        embedding = embedding + vision_parameters(model, tp)
    return embedding + norm if model.embedding_norm else embedding


def _embeds_again(model: Model, schedule: Schedule) -> bool:
    """Whether multi-token prediction needs a copy of the embedding on the last stage; a tied table is already there."""
    return model.prediction is not None and not model.tied and separate_embedding_and_head(schedule)


def _routed_ahead(inputs: TrainingInputs, block: Block) -> Number:
    """Parameters of routed experts in multi-token prediction, on the last stage."""
    ahead = inputs.model.prediction
    if ahead is None:
        return 0.0
    return ahead.depth * shard(inputs.model, ahead.layer, block.tp, block.ep, block.etp).routed_parameters


def without_tower(inputs: TrainingInputs, block: Block, held: StageParameters) -> StageParameters:
    """Parameters without the frozen vision tower."""
    with term("but the frozen tower"):
        tower = tower_parameters(inputs.model, block.tp)
        return replace(held, embedding=held.embedding - tower, both=held.both - tower)
