"""Parameters of a pipeline stage, and those of adapters."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from costmodel.documents.schemas.model import LatentAttention, Layers, Model
from costmodel.documents.schemas.scenario import Tuning
from costmodel.equations.kernels.flop import matmul_flop, training_flop
from costmodel.equations.layers.experts import dispatched_activations
from costmodel.equations.layers.parameters import (
    adapter_activations,
    adapter_parameters,
    frozen_flop,
    norm_parameters,
    packed_bytes,
    table_parameters,
)
from costmodel.equations.parallelism.counts import padded_vocab, tokens_in_micro_batch
from costmodel.equations.parallelism.recompute import activation_output_bytes, norm_output_bytes
from costmodel.equations.run.economics import share, tokens_per_step
from costmodel.estimate.model.feed_forward_kinds import ROUTED, Feed, RoutedExperts
from costmodel.estimate.model.mixers.mixer import Matmul
from costmodel.estimate.model.shards import (
    Shard,
    counted_kinds,
    entry_tables,
    has_head_parts,
    head_parameters,
    layer_count,
    layer_matmuls,
    position_rows,
    prediction_parameters,
    residual_additions,
    shard,
    tower_parameters,
    vision_parameters,
)
from costmodel.estimate.shared.plan_batch import Block, PerStage, largest, local_sequence, memoized, value_of_largest
from costmodel.estimate.training.parallelism.pipeline import (
    StageLayers,
    boundary_parameters,
    head_holder,
    is_plain_schedule,
    separate_embedding_and_head,
    weight_replication,
)
from costmodel.estimate.training.training_inputs import NF4, TrainingInputs
from costmodel.ground.counts import Module, Schedule
from costmodel.ground.equation import Number, term
from costmodel.ground.errors import Place
from costmodel.ground.record import record
from costmodel.ground.units import Figure


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

    tied: the first and the last stage both store the embedding table. Routed experts are separate, since they are
        sharded over fewer ranks: of a layer, of the first, a middle and the last rank, and beside the head.
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

    def embedding_and_head(self, pp: Number, schedule: Schedule) -> PerStage[Number]:
        """Parameters of embedding and head on the first, a middle and the last rank; a single rank holds both."""
        alone, (embedding, head) = pp == 1, boundary_parameters(schedule, self.embedding, self.head)
        return PerStage(np.where(alone, self.both, embedding), 0.0, np.where(alone, self.both, head))

    def fuller_end(self, pp: Number) -> Number:
        """Parameters of the larger one of embedding and head; a single stage has both, with a tied table once."""
        return np.where(pp == 1, self.both, np.maximum(self.embedding, self.head))

    def stages(self, pp: Number, schedule: Schedule) -> PerStage[Number]:
        """Parameters of the first, a middle and the last rank with embedding and head, all copies."""
        per_stage = PerStage(
            *(layers + end for layers, end in zip(self.ranks, self.embedding_and_head(pp, schedule), strict=True))
        )
        return _times_copies(schedule, per_stage)

    def routed_stages(self, block: Block) -> PerStage[Number]:
        """Parameters of routed experts on the first, a middle and the last rank, with all copies of weights."""
        return PerStage(*(held + head_holder(block, self.routed_head, at) for at, held in enumerate(self.routed_ranks)))

    def fullest(self, block: Block) -> LargestRankParameters:
        """Parameters of the rank with most parameters, including routed experts."""
        pp, schedule, (first, middle, last) = block.pp, block.structure.schedule, self.ranks
        if first is middle is last and is_plain_schedule(schedule):
            end = self.fuller_end(pp)
            return LargestRankParameters(middle + end, end, self.routed_ranks.middle + self.routed_head)
        held, routed = self.stages(pp, schedule), self.routed_stages(block)
        most = PerStage(*(rest + experts for rest, experts in zip(held, routed, strict=True)))
        ends = _times_copies(schedule, self.embedding_and_head(pp, schedule))
        return LargestRankParameters(*(value_of_largest(most, each) for each in (held, ends, routed)))

    def fullest_layers(self, schedule: Schedule) -> tuple[Number, Number]:
        """Parameters in the layers of the largest rank, with all copies: without routed experts, and only those."""
        held, routed = _times_copies(schedule, self.ranks), self.routed_ranks
        most = PerStage(*(rest + experts for rest, experts in zip(held, routed, strict=True)))
        return value_of_largest(most, held), value_of_largest(most, routed)


def _times_copies(schedule: Schedule, per_stage: PerStage[Number]) -> PerStage[Number]:
    """Parameters multiplied by the copies of weights that a schedule stores."""
    copies = weight_replication(schedule)
    return per_stage if copies == 1 else per_stage.each(lambda one: copies * one)


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
    embedding = _entry_parameters(model, embedding, last_norm, tp)
    both = embedding + last_norm if model.tied else embedding + head + last_norm
    extra = prediction_parameters(model, tp)
    if has_head_parts(model):
        extra = extra + head_parameters(model, rows)
    head, both = head + extra, both + extra
    copied = _copies_embedding(model, block.structure.schedule)
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
        routed_head=_prediction_experts(inputs, block),
    )


def _entry_parameters(model: Model, embedding: Number, norm: Number, tp: Number) -> Number:
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


def _copies_embedding(model: Model, schedule: Schedule) -> bool:
    """Whether multi-token prediction needs a copy of the embedding on the last stage; a tied table is already there."""
    return model.prediction is not None and not model.tied and separate_embedding_and_head(schedule)


def _prediction_experts(inputs: TrainingInputs, block: Block) -> Number:
    """Parameters of routed experts in multi-token prediction, on the last stage."""
    ahead = inputs.model.prediction
    if ahead is None:
        return 0.0
    return ahead.depth * shard(inputs.model, ahead.layer, block.tp, block.ep, block.etp).routed_parameters


def without_tower(inputs: TrainingInputs, block: Block, parameters: StageParameters) -> StageParameters:
    """Parameters without the frozen vision tower."""
    with term("but the frozen tower"):
        tower = tower_parameters(inputs.model, block.tp)
        return replace(parameters, embedding=parameters.embedding - tower, both=parameters.both - tower)


ISSUED = Figure(3.0, Place("LoRA", path="operations of an adapter forward: two products and the sum"))
UNPACKING = Figure(1.7, Place("bitsandbytes pull request 1747", path="old kernels over new ones, 1.36 to 2.07"))


@record
class Adapter:
    """The adapter of one weight matrix on a rank: outputs n, inputs k, the tensor it reads and its base matrix.

    It also has the ranks over which tokens are split where each of them stores the whole adapter, and the ranks over
    which its inner width is sharded.
    """

    name: str
    n: Number
    k: Number
    reads: str
    beside: str
    split: Number = 1.0
    inner: Number = 1.0


def adapters(inputs: TrainingInputs, part: Shard) -> Iterator[Adapter]:
    """The adapters of a layer, without adapters of routed experts."""
    if inputs.tuning is None:
        return
    hidden, cut = inputs.model.hidden, _adapter_shard_ranks(inputs, part.tp)
    found = list(_mixer_adapters(hidden, part, cut))
    if part.dense is not None:
        found += _feed_adapters(hidden, part.dense, cut, "mlp")
    yield from _named_adapters(inputs.tuning, found)


def routed_adapters(inputs: TrainingInputs, part: RoutedExperts | None) -> Iterator[Adapter]:
    """The adapters of each routed expert."""
    if inputs.tuning is None or not inputs.tuning.experts or part is None:
        return
    cut = _adapter_shard_ranks(inputs, part.etp)
    found = _feed_adapters(part.hidden, part.each, cut, "experts")
    yield from _named_adapters(inputs.tuning, found)


def _adapter_shard_ranks(inputs: TrainingInputs, ranks: Number) -> Number:
    """Number of ranks that shard both thin matrices of an adapter; 1 if the stack replicates one of them."""
    return ranks if inputs.stack.split_adapters else 1.0


def _named_adapters(tuning: Tuning, matrices: Iterable[Adapter]) -> Iterator[Adapter]:
    """Those adapters whose matrices the fine-tuning names."""
    return (adapter for adapter in matrices if tuning.modules is None or adapter.name in tuning.modules)


def _mixer_adapters(hidden: Number, part: Shard, cut: Number) -> Iterator[Adapter]:
    """The adapters on the weight matrices of a layer's mixer."""
    if part.mixer is None:
        return
    if part.kind.latent is not None:
        yield from _latent_adapters(hidden, part.kind.latent, part.mixer.heads, (part.tp, cut))
        return
    own = part.kind.attention
    keys = part.mixer.head_dim if own is None else own.head_dim
    values = keys if own is None else own.value_width
    yield Adapter("q", part.mixer.heads * keys, hidden, "attention", "qkv", inner=cut)
    for name in ("k", "v") if own is None else own.projected:
        width = part.mixer.kv_heads * (keys if name == "k" else values)
        yield Adapter(name, width, hidden, "attention", "qkv", inner=cut)
    yield Adapter("o", hidden / cut, part.mixer.heads * values, "core", "attention out")


def _latent_adapters(
    hidden: Number, latent: LatentAttention, heads: Number, over: tuple[Number, Number]
) -> Iterator[Adapter]:
    """The adapters on the weight matrices of latent attention (MLA).

    Down projections are replicated on every rank, and so are their adapters; the others are sharded.

    over: ranks of tensor parallelism, and ranks over which the matrix beside replicated inputs is sharded.
    """
    tp, cut = over
    queries = heads * (latent.nope_dim + latent.rope_dim)
    if latent.query_rank is None:
        yield Adapter("q", queries, hidden, "attention", "q", inner=cut)
    else:
        yield Adapter("q-down", latent.query_rank, hidden, "attention", "q down", tp)
        yield Adapter("q-up", queries, latent.query_rank, "query latent", "q up", inner=cut)
    yield Adapter("kv-down", latent.kv_rank + latent.rope_dim, hidden, "attention", "kv down", tp)
    keys = heads * (latent.nope_dim + latent.value_dim)
    yield Adapter("kv-up", keys, latent.kv_rank, "kv latent", "kv up", inner=cut)
    yield Adapter("o", hidden / cut, heads * latent.value_dim, "core", "attention out")


def _feed_adapters(hidden: Number, feed: Feed[Any], cut: Number, half: str) -> Iterator[Adapter]:
    """The adapters on the weight matrices of a feed-forward half."""
    for name in feed.input_matrices:
        yield Adapter(name, feed.inner, hidden, "mlp", f"{half} up", inner=cut)
    yield Adapter("down", hidden / cut, feed.inner, "activation", f"{half} down")


def adapter_matmuls(inputs: TrainingInputs, adapter: Adapter) -> tuple[Matmul, Matmul]:
    """The two products of an adapter."""
    assert inputs.tuning is not None
    rank = inputs.tuning.rank
    down = Matmul(f"{adapter.name} down", rank / adapter.inner, adapter.k)
    return down, Matmul(f"{adapter.name} up", adapter.n, rank)


def adapter_launches(inputs: TrainingInputs, kind: Layers, beside: Container[str] | None = None) -> Number:
    """Kernels of a layer's adapters over the kernels of the layer; those of routed experts run as grouped products."""
    part = shard(inputs.model, kind, 1.0)
    matrices = (*adapters(inputs, part), *routed_adapters(inputs, part.routed))
    count = sum(1.0 for adapter in matrices if beside is None or adapter.beside in beside)
    return share(ISSUED * count, inputs.stack.launch.operations)


def packed_matrices(inputs: TrainingInputs, kind: Layers) -> tuple[str, ...]:
    """The 4-bit matrices of a layer, which are unpacked before every use; those of routed experts in groups."""
    if not inputs.has_packed_weights:
        return ()
    part = shard(inputs.model, kind, 1.0)
    routed = () if part.routed is None else ROUTED
    return (*(matrix.name for matrix in layer_matmuls(inputs.model, part)), *routed)


def _adapter_parameters(inputs: TrainingInputs, matrices: Iterable[Adapter]) -> Number:
    """Total parameters of several adapters."""
    assert inputs.tuning is not None
    total: Number = 0.0
    for adapter in matrices:
        with term(adapter.name):
            total = total + adapter_parameters(inputs.tuning.rank, adapter.n, adapter.k / adapter.inner)
    return total


def trained_per_layer(inputs: TrainingInputs, part: Shard) -> Number:
    """Trained parameters of one layer, without routed experts."""
    return _adapter_parameters(inputs, adapters(inputs, part))


def trained_in_routed_experts(inputs: TrainingInputs, part: RoutedExperts | None) -> Number:
    """Trained parameters of the routed experts of one layer: a pair of thin matrices for each matrix of an expert."""
    if part is None:
        return 0.0
    with term("experts"):
        return part.local * _adapter_parameters(inputs, routed_adapters(inputs, part))


def trained_parameters(
    inputs: TrainingInputs, block: Block, layers: StageLayers, parameters: StageParameters
) -> StageParameters:
    """Trained parameters of a rank: all, or its adapters; embedding and head have those of multi-token prediction."""
    if inputs.tuning is None:
        return without_tower(inputs, block, parameters) if inputs.tower_frozen else parameters
    with term("adapters"):
        each, routed = zip(*(_trained_of_kind(inputs, block, kind) for kind in inputs.model.layers), strict=True)
        means = layers.means(inputs.model, each)
        copies = weight_replication(block.structure.schedule)
        of_routed = layers.means(inputs.model, [copies * one for one in routed])
        head, head_routed = _trained_prediction(inputs, block)
    return StageParameters(
        layer=means.middle,
        largest=largest(*each),
        ranks=layers.each(means),
        table=0.0,
        embedding=0.0,
        head=head,
        both=head,
        tied=False,
        routed_layer=largest(*routed),
        routed_ranks=layers.each(of_routed),
        routed_head=head_routed,
    )


def _trained_of_kind(inputs: TrainingInputs, block: Block, kind: Layers) -> tuple[Number, Number]:
    """Trained parameters of a rank in one layer of a kind, and in its routed experts."""
    part = shard(inputs.model, kind, block.tp, block.ep, block.etp)
    return trained_per_layer(inputs, part), trained_in_routed_experts(inputs, part.routed)


def _trained_prediction(inputs: TrainingInputs, block: Block) -> tuple[Number, Number]:
    """Trained parameters of multi-token prediction: adapters in its layers, none in its projections."""
    ahead = inputs.model.prediction
    if ahead is None:
        return 0.0, 0.0
    with term("multi-token prediction"):
        module, routed = _trained_of_kind(inputs, block, ahead.layer)
        return ahead.depth * module, ahead.depth * routed


def packed_weight_bytes() -> Number:
    """Bytes of a weight in 4-bit NormalFloat with its share of the scales."""
    return packed_bytes(1.0, *NF4)


def frozen_weight_bytes(inputs: TrainingInputs) -> Number:
    """Bytes of a frozen weight in the layers. With qlora the norms, which are negligible, count as packed."""
    assert inputs.tuning is not None
    return packed_weight_bytes() if inputs.tuning.method == "qlora" else inputs.stack.states.compute


def frozen_bytes(inputs: TrainingInputs, layers: Number, held: Number) -> Number:
    """Bytes of a rank's frozen weights: of layers, and of embedding and head in 16 bits."""
    with term("frozen weights"):
        return frozen_weight_bytes(inputs) * layers + inputs.stack.states.compute * (held - layers)


def _saved_inputs(inputs: TrainingInputs, part: Shard, modules: tuple[Module, ...]) -> set[str]:
    """Tensors that must be saved as inputs, for adapter gradients or for named recompute modules."""
    read = {adapter.reads for adapter in adapters(inputs, part)}
    if part.routed is not None and part.routed.of.count == 1:
        read |= {adapter.reads for adapter in routed_adapters(inputs, part.routed)} & {"mlp"}
    if _feed_modules(part) & set(modules):
        read.add("mlp")
    if "mla-up-projection" in modules and part.kind.latent is not None:
        read |= {"query latent", "kv latent"} if part.kind.latent.query_rank else {"attention", "kv latent"}
    return read


def _feed_modules(part: Shard) -> set[str]:
    """The modules whose recompute repeats a layer's MLP or its shared experts."""
    return {"mlp"} if part.kind.experts is None else {"moe", "shared-experts"}


def unneeded_input_bytes(
    inputs: TrainingInputs, part: Shard, modules: tuple[Module, ...], sizes: tuple[Number, Number, Number]
) -> Number:
    """Bytes of saved inputs that only the gradient of a frozen weight would need.

    Inputs that named modules drop are not counted. They are the outputs of norms and of the activation function.

    sizes: tokens, bytes per element, ranks over which tokens are split
    """
    tokens, width, split = sizes
    read, latent = _saved_inputs(inputs, part, modules), part.kind.latent
    halves = 0.0
    if "norms" not in modules:
        unread = {"attention", "mlp"} - read
        halves = float(len(unread)) if residual_additions(part.kind) == 2 else float(len(unread) == 2)
    with term("unused inputs"):
        spared = norm_output_bytes(tokens, inputs.model.hidden, halves, width, split)
        if latent is not None and "query latent" not in read:
            spared = spared + norm_output_bytes(tokens, latent.query_rank or 0.0, 1.0, inputs.widths.element, split)
        if latent is not None and "kv latent" not in read:
            spared = spared + norm_output_bytes(tokens, latent.kv_rank, 1.0, inputs.widths.element, split)
        dropped = _feed_modules(part) | ({"mlp-activation"} if part.kind.experts is None else set())
        if "activation" in read or dropped & set(modules):
            return spared
        return spared + activation_output_bytes(tokens, part.ffn_hidden, width)


def unneeded_expert_input_bytes(
    inputs: TrainingInputs, part: RoutedExperts, modules: tuple[Module, ...], sizes: tuple[Number, Number]
) -> Number:
    """Bytes of saved inputs that only gradients of frozen routed experts would need; sizes: rows, bytes per element."""
    rows, width = sizes
    read = {adapter.reads for adapter in routed_adapters(inputs, part)}
    spared: Number = 0.0
    with term("unused inputs"):
        if "mlp" not in read:
            spared = spared + dispatched_activations(rows, part.hidden, part.of.count, width)
        if "activation" not in read and "moe-activation" not in modules:
            spared = spared + activation_output_bytes(rows, part.each.inner, width)
    return spared


def adapter_activation_bytes(inputs: TrainingInputs, part: Shard, tokens: Number) -> Number:
    """Saved bytes between the two thin matrices of a layer's adapters, without routed experts."""
    return _adapter_bytes(inputs, adapters(inputs, part), tokens)


def expert_adapter_activation_bytes(inputs: TrainingInputs, part: RoutedExperts, rows: Number) -> Number:
    """Saved bytes between the two thin matrices of the routed experts' adapters."""
    return _adapter_bytes(inputs, routed_adapters(inputs, part), rows)


def _adapter_bytes(inputs: TrainingInputs, matrices: Iterable[Adapter], tokens: Number) -> Number:
    """Bytes saved between the two thin matrices of these adapters for this many tokens."""
    total: Number = 0.0
    for adapter in matrices:
        assert inputs.tuning is not None
        tokens_here = tokens / adapter.split
        total = total + adapter_activations(tokens_here, inputs.tuning.rank, inputs.widths.element)
    return total


def useful_flop(inputs: TrainingInputs, linear: Number, core: Number, head: Number) -> Number:
    """Model FLOP of a step: three times forward, or twice where the weights are frozen."""
    if inputs.tuning is None:
        return training_flop(linear + core + head)
    with term("frozen"):
        frozen = frozen_flop(linear + head)
    with term("trained"):
        return frozen + training_flop(core + adapters_flop(inputs))


def adapters_flop(inputs: TrainingInputs) -> Number:
    """Forward FLOP of all adapters in a step."""
    total: Number = 0.0
    for kind, count in counted_kinds(inputs.model):
        for _, flop in thin_flop(inputs, kind):
            total = total + count * flop
    return total


def thin_flop(inputs: TrainingInputs, kind: Layers) -> Iterator[tuple[str, Number]]:
    """Forward FLOP of every thin product of a layer in a step, with the name of its base matrix."""
    tokens = tokens_per_step(inputs.global_batch, inputs.layer_sequence)
    part = shard(inputs.model, kind, 1.0)
    for adapter in adapters(inputs, part):
        for matrix in adapter_matmuls(inputs, adapter):
            yield adapter.beside, matmul_flop(tokens, matrix.n, matrix.k)
    for adapter in routed_adapters(inputs, part.routed):
        assert kind.experts is not None
        rows = kind.experts.top_k * tokens
        for matrix in adapter_matmuls(inputs, adapter):
            yield adapter.beside, matmul_flop(rows, matrix.n, matrix.k)
