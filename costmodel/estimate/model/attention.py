"""The mixing half of a layer as one rank holds it: attention, latent attention, or a state-space mixer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from costmodel.documents.schemas.model import Attention, LatentAttention, Layers, Model, StateSpace
from costmodel.equations.kernels.flop import attention_flop, windowed_attention_flop
from costmodel.equations.kernels.memory_traffic import head_norm_traffic, rotary_traffic
from costmodel.equations.layers.parameters import attention_parameters, norm_parameters, table_parameters
from costmodel.equations.layers.sequence_mixers import (
    compressed_query_parameters,
    latent_activations,
    latent_attention_parameters,
    mean_head_dim,
    state_space_activations,
    state_space_flop,
    state_space_parameters,
    state_space_traffic,
    state_space_width,
)
from costmodel.equations.memory.activations import attention_activations, head_norm_activations
from costmodel.equations.parallelism.counts import kv_heads_per_rank, tokens_in_micro_batch
from costmodel.ground.equation import Number, term


@dataclass(frozen=True)
class Matmul:
    """A weight matrix as one rank multiplies it: so many columns n, inner dimension k.

    Of one that several ranks hold whole, each for a part of the tokens, the columns are split over them.
    """

    name: str
    n: Number
    k: Number
    split: Number = 1.0


@dataclass(frozen=True)
class Mixer:
    """Heads of a rank, the width that its core works in, and its parameters."""

    heads: Number
    kv_heads: Number
    head_dim: Number
    parameters: Number


def mixer(model: Model, kind: Layers, tp: Number) -> Mixer | None:
    """The mixing half cut over tp ranks, if the layer has one."""
    if kind.latent is not None:
        return _latent(model, kind.latent, tp)
    if kind.state_space is not None:
        return _state_space(model, kind.state_space, tp)
    return None if kind.attention is None else _attention(model, kind.attention, tp)


def _attention(model: Model, attention: Attention, tp: Number) -> Mixer:
    heads = attention.heads / tp
    kv_heads = kv_heads_per_rank(attention.kv_heads, tp)
    biases = {"biases": attention.biases, "output_bias": attention.output_bias}
    held = attention_parameters(model.hidden, heads, kv_heads, attention.head_dim, **biases)
    if attention.qk_norm:
        held = held + 2.0 * norm_parameters(attention.head_dim, norm=model.norm)
    if attention.qk_norm_whole:
        widths = heads * attention.head_dim + kv_heads * attention.head_dim
        held = held + norm_parameters(widths, norm=model.norm)
    if attention.sinks:
        held = held + heads
    return Mixer(heads, kv_heads, attention.head_dim, held)


def _latent(model: Model, latent: LatentAttention, tp: Number) -> Mixer:
    """Every rank holds the matrices down to the narrow vectors whole, its heads of those up from them."""
    heads = latent.heads / tp
    query = latent.nope_dim + latent.rope_dim
    if latent.query_rank is None:
        queries = table_parameters(heads * query, model.hidden)
    else:
        queries = compressed_query_parameters(model.hidden, heads, query, latent.query_rank)
    rest = latent_attention_parameters(
        model.hidden, heads, latent.kv_rank, latent.nope_dim, latent.rope_dim, latent.value_dim
    )
    return Mixer(heads, heads, mean_head_dim(query, latent.value_dim), queries + rest)


def _state_space(model: Model, space: StateSpace, tp: Number) -> Mixer:
    heads, groups = space.heads / tp, kv_heads_per_rank(space.groups, tp)
    held = state_space_parameters(model.hidden, heads, space.head_dim, groups, space.state, space.conv)
    return Mixer(heads, groups, space.head_dim, held)


def mixer_matmuls(hidden: Number, kind: Layers, part: Mixer, tp: Number) -> Iterator[Matmul]:
    """The weight matrices of the mixing half; what every rank does on its part of the sequence is cut over tp too."""
    if kind.latent is not None:
        yield from _latent_matmuls(hidden, kind.latent, part, tp)
        return
    inner = part.heads * part.head_dim
    if kind.state_space is not None:
        columns = state_space_width(part.heads, part.head_dim, part.kv_heads, kind.state_space.state)
        yield Matmul("state in", columns, hidden)
        yield Matmul("state out", hidden, inner)
        return
    keys_and_values = 2.0 * (part.kv_heads * part.head_dim)
    yield Matmul("qkv", inner + keys_and_values, hidden)
    yield Matmul("attention out", hidden, inner)


def _latent_matmuls(hidden: Number, latent: LatentAttention, part: Mixer, tp: Number) -> Iterator[Matmul]:
    query = part.heads * (latent.nope_dim + latent.rope_dim)
    if latent.query_rank is None:
        yield Matmul("q", query, hidden)
    else:
        yield Matmul("q down", latent.query_rank / tp, hidden, tp)
        yield Matmul("q up", query, latent.query_rank)
    yield Matmul("kv down", (latent.kv_rank + latent.rope_dim) / tp, hidden, tp)
    yield Matmul("kv up", part.heads * (latent.nope_dim + latent.value_dim), latent.kv_rank)
    yield Matmul("attention out", hidden, part.heads * latent.value_dim)


def core_flop(kind: Layers, part: Mixer, sequences: Number, sequence: Number, heads: Number, *, causal: bool) -> Number:
    """Work of the core, forward, within the layer's window if it has one."""
    if kind.state_space is not None:
        space, tokens = kind.state_space, tokens_in_micro_batch(sequences, sequence)
        sizes = (space.head_dim, part.kv_heads, space.state, space.chunk, space.conv)
        return state_space_flop(tokens, heads, *sizes)
    window = kind.attention.window if kind.attention is not None else None
    if window is None:
        return attention_flop(sequences, sequence, heads, part.head_dim, causal=causal)
    return windowed_attention_flop(sequences, sequence, heads, part.head_dim, window, causal=causal)


def mixer_traffic(
    model: Model, kind: Layers, part: Mixer, tokens: Number, element: Number, *, backward: bool
) -> Number:
    """Bytes of rotation and of the norms inside, or of a state-space core."""
    if kind.state_space is not None:
        sizes = (kind.state_space.head_dim, part.kv_heads, kind.state_space.state)
        return state_space_traffic(tokens, part.heads, *sizes, element, backward=backward)
    nbytes: Number = 0.0
    if model.positions == "rotary":
        rotated = part.head_dim if kind.latent is None else kind.latent.rope_dim
        nbytes = rotary_traffic(tokens, part.heads, part.kv_heads, rotated, element)
    if kind.attention is not None and (kind.attention.qk_norm or kind.attention.qk_norm_whole):
        nbytes = nbytes + head_norm_traffic(
            tokens, part.heads, part.kv_heads, part.head_dim, element, backward=backward
        )
    return nbytes


def mixer_activations(kind: Layers, part: Mixer, tokens: Number, element: Number, split: Number) -> Number:
    """What the mixing half keeps beside the stream and the scores."""
    if kind.state_space is not None:
        sizes = (kind.state_space.head_dim, part.kv_heads, kind.state_space.state)
        return state_space_activations(tokens, part.heads, *sizes, element)
    with term("mixer"):
        kept = attention_activations(tokens, part.heads, part.kv_heads, part.head_dim, element)
        if kind.latent is not None:
            narrow = (kind.latent.query_rank or 0.0, kind.latent.kv_rank, kind.latent.rope_dim)
            return kept + latent_activations(tokens, *narrow, element) / split
        if kind.attention is not None and (kind.attention.qk_norm or kind.attention.qk_norm_whole):
            kept = kept + head_norm_activations(tokens, part.heads, part.kv_heads, part.head_dim, element)
        return kept
