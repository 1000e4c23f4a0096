"""Linear attention: Gated DeltaNet, Kimi Delta Attention, lightning attention."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.schemas.mixers import LinearAttention
from costmodel.documents.schemas.model import Model
from costmodel.equations.layers.parameters import table_parameters
from costmodel.equations.layers.state_space import (
    linear_attention_activations,
    linear_attention_flop,
    linear_attention_traffic,
    linear_attention_width,
    linear_gate_columns,
    linear_gate_parameters,
    linear_state_bytes,
)
from costmodel.equations.parallelism.counts import tokens_in_micro_batch
from costmodel.estimate.model.mixers.mixer import CacheWidth, CoreSize, Matmul, Mixer
from costmodel.ground.equation import Number, term


def hold(model: Model, own: LinearAttention, tp: Number) -> Mixer:
    """The mixer as one of tp ranks stores it; tp shards the key heads."""
    heads, key_heads = own.heads / tp, own.key_heads / tp
    part = Mixer(heads, key_heads, own.value_dim, 0.0)
    with term("linear attention"):
        held = linear_gate_parameters(heads, own.value_dim, key_heads, own.key_dim, own.conv or 0.0, rule=own.rule)
        for matrix in _projections(model.hidden, own, part):
            held = held + table_parameters(matrix.n, matrix.k)
    return Mixer(heads, key_heads, own.value_dim, held)


def _projections(hidden: Number, own: LinearAttention, part: Mixer) -> Iterator[Matmul]:
    yield Matmul("linear qkv", linear_attention_width(part.heads, own.value_dim, part.kv_heads, own.key_dim), hidden)
    columns = linear_gate_columns(part.heads, own.value_dim, own.key_dim, rule=own.rule)
    yield Matmul("linear gates", columns, hidden)
    yield Matmul("linear out", hidden, part.heads * own.value_dim)


def matrices(hidden: Number, own: LinearAttention, part: Mixer, _tp: Number) -> Iterator[Matmul]:
    """The weight matrices as one rank multiplies them."""
    *ahead, out = _projections(hidden, own, part)
    yield from ahead
    if own.rule == "kimi-delta":
        yield Matmul("linear decay up", part.kv_heads * own.key_dim, own.key_dim)
        yield Matmul("linear gate up", part.heads * own.value_dim, own.value_dim)
    yield out


def flop(own: LinearAttention, part: Mixer, size: CoreSize, *, causal: bool) -> Number:
    """Forward FLOP of the core; a scan is always causal."""
    del causal
    tokens = tokens_in_micro_batch(size.sequences, size.sequence)
    sizes = (own.value_dim, part.kv_heads, own.key_dim, own.chunk, own.conv or 0.0)
    return linear_attention_flop(tokens, size.heads, *sizes, rule=own.rule)


def traffic(
    _model: Model, own: LinearAttention, part: Mixer, tokens: Number, element: Number, *, backward: bool
) -> Number:
    """Memory traffic of convolution, scan, gate and norm."""
    sizes = (part.heads, own.value_dim, part.kv_heads, own.key_dim, own.chunk)
    return linear_attention_traffic(tokens, *sizes, element, rule=own.rule, backward=backward)


def activations(own: LinearAttention, part: Mixer, tokens: Number, element: Number, _split: Number) -> Number:
    """Saved activations, without the residual stream."""
    sizes = (part.heads, own.value_dim, part.kv_heads, own.key_dim, own.chunk)
    return linear_attention_activations(tokens, *sizes, element, rule=own.rule)


def cache(own: LinearAttention, tp: Number, _tokens: Number, width: CacheWidth) -> Number:
    """Bytes of the state of a sequence in serving, whatever its length."""
    sizes = (own.heads / tp, own.value_dim, own.key_heads / tp, own.key_dim, own.conv or 1.0)
    return linear_state_bytes(*sizes, width.state, width.wide)


def exchanged(own: LinearAttention, part: Mixer) -> tuple[tuple[Number, Number, float], ...]:
    """Shapes of values, gates and results, and of queries and keys, for an exchange of heads for tokens."""
    return ((part.heads, own.value_dim, 3.0), (part.kv_heads, own.key_dim, 2.0))
