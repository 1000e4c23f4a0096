"""What a plan has to do: FLOP and bytes of a layer, of the ends, and of a step. No hardware speeds here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from costmodel.documents.model import Layers, Model
from costmodel.documents.stack import Recompute
from costmodel.equation import Number, term
from costmodel.equations.arithmetic import (
    attention_flop,
    korthikanti_recompute_flop,
    matmul_flop,
    megatron_flop,
    palm_flop,
    six_n_flop,
    training_flop,
    windowed_attention_flop,
)
from costmodel.equations.counting import (
    divided,
    kv_heads_per_rank,
    layers_per_stage,
    padded_vocab,
    repeated,
)
from costmodel.equations.economics import tokens_per_step
from costmodel.equations.parameters import (
    attention_parameters,
    mlp_parameters,
    norm_parameters,
    table_parameters,
)
from costmodel.estimate.setting import Setting


@dataclass(frozen=True)
class Matmul:
    """A weight matrix as one rank multiplies it: so many columns n, inner dimension k."""

    name: str
    n: Number
    k: Number


@dataclass(frozen=True)
class Shard:
    """One layer kind as a tensor-parallel rank holds it."""

    kind: Layers
    heads: Number
    kv_heads: Number
    ffn_hidden: Number
    parameters: Number


def shard(model: Model, kind: Layers, tp: Number) -> Shard:
    """A layer kind cut over tp ranks."""
    attention, mlp = kind.attention, kind.mlp
    heads = divided(attention.heads, tp)
    kv_heads = kv_heads_per_rank(attention.kv_heads, tp)
    ffn_hidden = divided(mlp.ffn_hidden, tp)
    with term("layer"):
        held = (
            attention_parameters(
                model.hidden,
                heads,
                kv_heads,
                attention.head_dim,
                biases=attention.biases,
                output_bias=attention.output_bias,
            )
            + mlp_parameters(model.hidden, ffn_hidden, gated=mlp.gated, biases=mlp.biases)
            + repeated(kind.norms, norm_parameters(model.hidden, norm=model.norm))
        )
        if attention.qk_norm:
            held = held + repeated(2.0, norm_parameters(attention.head_dim, norm=model.norm))
    return Shard(kind, heads, kv_heads, ffn_hidden, held)


def additions(kind: Layers) -> float:
    """Residual additions of a layer, and its tensor-parallel exchanges per direction: parallel halves share one."""
    return 1.0 if kind.parallel else 2.0


def core_flop(kind: Layers, sequences: Number, sequence: Number, heads: Number, *, causal: bool) -> Number:
    """Work of the attention core, forward, within the layer's window if it has one."""
    attention = kind.attention
    if attention.window is None:
        return attention_flop(sequences, sequence, heads, attention.head_dim, causal=causal)
    return windowed_attention_flop(sequences, sequence, heads, attention.head_dim, attention.window, causal=causal)


def matmuls(setting: Setting, part: Shard) -> Iterator[Matmul]:
    """The weight matrices of a layer as one rank holds them."""
    hidden, head_dim = setting.model.hidden, part.kind.attention.head_dim
    queries = repeated(part.heads, head_dim)
    keys_and_values = repeated(2.0, repeated(part.kv_heads, head_dim))
    yield Matmul("qkv", queries + keys_and_values, hidden)
    yield Matmul("attention out", hidden, queries)
    up = repeated(2.0, part.ffn_hidden) if part.kind.mlp.gated else part.ffn_hidden
    yield Matmul("mlp up", up, hidden)
    yield Matmul("mlp down", hidden, part.ffn_hidden)


def vocab_per_rank(setting: Setting, tp: Number) -> Number:
    """Rows of the padded embedding one rank holds."""
    return divided(padded_vocab(setting.model.vocab, setting.stack.vocab_multiple, tp), tp)


@dataclass(frozen=True)
class StageParameters:
    """Parameters of a rank before sharding over dp: of a layer (mean and largest), of all layers, of the ends."""

    layer: Number
    largest: Number
    layers: Number
    table: Number
    embedding: Number
    head: Number
    both: Number
    tied: bool

    def ends(self, pp: Number) -> Number:
        """What the fuller end adds to its layers; the only stage holds both ends, a tied table once."""
        return np.where(pp == 1, self.both, np.maximum(self.embedding, self.head))


def stage_parameters(setting: Setting, tp: Number, pp: Number) -> StageParameters:
    """Parameters a rank holds in its layers, in the embedding and in the head."""
    model = setting.model
    first, *others = model.layers
    largest = shard(model, first, tp).parameters
    layers = repeated(layers_per_stage(first.count, pp), largest)
    for kind in others:
        layer = shard(model, kind, tp).parameters
        largest = np.maximum(largest, layer)
        layers = layers + repeated(layers_per_stage(kind.count, pp), layer)
    mean = divided(layers, layers_per_stage(layer_count(model), pp)) if others else largest
    rows = vocab_per_rank(setting, tp)
    with term("embedding"):
        table = embedding = table_parameters(rows, model.hidden)
    with term("head"):
        head = table_parameters(rows, model.hidden)
    last_norm = norm_parameters(model.hidden, norm=model.norm)
    if model.positions == "learned":
        with term("positions"):
            embedding = embedding + table_parameters(_position_rows(model), model.hidden)
    if model.embedding_norm:
        embedding = embedding + last_norm
    both = embedding + last_norm if model.tied else embedding + head + last_norm
    return StageParameters(mean, largest, layers, table, embedding, head + last_norm, both, model.tied)


def _position_rows(model: Model) -> float:
    return model.max_sequence if model.position_rows is None else model.position_rows


def layer_count(model: Model) -> Number:
    """Layers of all kinds; of a single kind the figure as it was written."""
    first, *others = (kind.count for kind in model.layers)
    return sum(others, start=first)


def model_parameters(model: Model) -> Number:
    """Parameters of the whole model, as published counts have them: no padding, tied once."""
    total = norm_parameters(model.hidden, norm=model.norm)
    for kind in model.layers:
        total = total + repeated(kind.count, shard(model, kind, 1.0).parameters)
    total = total + repeated(1.0 if model.tied else 2.0, table_parameters(model.vocab, model.hidden))
    if model.positions == "learned":
        total = total + table_parameters(_position_rows(model), model.hidden)
    if model.embedding_norm:
        total = total + norm_parameters(model.hidden, norm=model.norm)
    return total


@dataclass(frozen=True)
class StepFlop:
    """Work of a whole step: under the convention asked for, and executed."""

    model: Number
    executed: Number


def _forward_flop(setting: Setting, *, causal: bool) -> tuple[Number, Number, Number]:
    """Forward work of a step: all weight matrices of the layers, the attention core, the head."""
    model = setting.model
    tokens = tokens_per_step(setting.global_batch, setting.sequence)
    linear: Number = 0.0
    core: Number = 0.0
    for kind in model.layers:
        part = shard(model, kind, 1.0)
        for matrix in matmuls(setting, part):
            with term(matrix.name):
                linear = linear + repeated(kind.count, matmul_flop(tokens, matrix.n, matrix.k))
        each = core_flop(kind, setting.global_batch, setting.sequence, kind.attention.heads, causal=causal)
        core = core + repeated(kind.count, each)
    with term("head"):
        head = matmul_flop(tokens, model.vocab, model.hidden)
    return linear, core, head


def recomputed_flop(setting: Setting, recompute: Recompute, linear: Number, core: Number) -> Number:
    """Forward work that backward does a second time."""
    dropped = setting.dropped(recompute)
    if dropped == "layer":
        return linear + core
    if dropped == "operations":
        return divided(linear, 2.0)
    return core if dropped == "core" else repeated(0.0, core)


def step_flop(setting: Setting, recompute: Recompute) -> StepFlop:
    """Work of a step under the scenario's FLOP convention."""
    convention, model = setting.convention, setting.model
    linear, core, head = _forward_flop(setting, causal=convention == "model-causal")
    useful = training_flop(linear + core + head)
    again = recomputed_flop(setting, recompute, linear, core)
    kind = model.layers[0]
    layers = layer_count(model)
    tokens = tokens_per_step(setting.global_batch, setting.sequence)
    if convention == "6n":
        useful = six_n_flop(model_parameters(model), tokens)
    elif convention == "palm":
        attention = kind.attention
        useful = palm_flop(
            model_parameters(model), tokens, layers, attention.heads, attention.head_dim, setting.sequence
        )
    elif convention in ("korthikanti", "megatron-2021"):
        whole = convention == "megatron-2021"
        vocab = padded_vocab(model.vocab, setting.stack.vocab_multiple, 1.0)
        useful = megatron_flop(setting.global_batch, setting.sequence, layers, model.hidden, vocab, recomputed=whole)
        if whole:
            return StepFlop(useful, useful)
        if recompute == "selective":
            again = korthikanti_recompute_flop(setting.global_batch, setting.sequence, layers, model.hidden)
    return StepFlop(useful, useful + again)
