"""A Mamba-2 mixer."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.schemas.mixers import StateSpace
from costmodel.documents.schemas.model import Model
from costmodel.equations.layers.state_space import (
    state_space_activations,
    state_space_flop,
    state_space_parameters,
    state_space_traffic,
    state_space_width,
)
from costmodel.equations.memory.kv_cache import state_cache_bytes
from costmodel.equations.parallelism.counts import kv_heads_per_rank, tokens_in_micro_batch
from costmodel.equations.parallelism.recompute import attention_output_bytes
from costmodel.estimate.model.mixers.mixer import CacheWidth, CoreSize, Matmul, Mixer
from costmodel.ground.equation import Number, term


def hold(model: Model, own: StateSpace, tp: Number) -> Mixer:
    """The mixer as one of tp ranks stores it."""
    heads, groups = own.heads / tp, kv_heads_per_rank(own.groups, tp)
    held = state_space_parameters(model.hidden, heads, own.head_dim, groups, own.state, own.conv)
    if not own.norm:
        held = held - heads * own.head_dim
    return Mixer(heads, groups, own.head_dim, held)


def matrices(hidden: Number, own: StateSpace, part: Mixer, _tp: Number) -> Iterator[Matmul]:
    """The weight matrices as one rank multiplies them."""
    yield Matmul("state in", state_space_width(part.heads, part.head_dim, part.kv_heads, own.state), hidden)
    yield Matmul("state out", hidden, part.heads * part.head_dim)


def flop(own: StateSpace, part: Mixer, size: CoreSize, *, causal: bool) -> Number:
    """Forward FLOP of the core; a scan is always causal."""
    del causal
    tokens = tokens_in_micro_batch(size.sequences, size.sequence)
    return state_space_flop(tokens, size.heads, own.head_dim, part.kv_heads, own.state, own.chunk, own.conv)


def traffic(_model: Model, own: StateSpace, part: Mixer, tokens: Number, element: Number, *, backward: bool) -> Number:
    """Memory traffic of convolution, scan, gate and norm."""
    sizes = (own.head_dim, part.kv_heads, own.state)
    return state_space_traffic(tokens, part.heads, *sizes, element, backward=backward)


def activations(own: StateSpace, part: Mixer, tokens: Number, element: Number, _split: Number) -> Number:
    """Saved activations, without the residual stream."""
    kept = state_space_activations(tokens, part.heads, own.head_dim, part.kv_heads, own.state, element)
    if own.norm:
        return kept
    with term("norm left out"):
        return kept - attention_output_bytes(tokens, part.heads, own.head_dim, element)


def cache(own: StateSpace, tp: Number, _tokens: Number, width: CacheWidth) -> Number:
    """Bytes of the state of a sequence in serving, whatever its length."""
    heads, groups = own.heads / tp, kv_heads_per_rank(own.groups, tp)
    return state_cache_bytes(heads, own.head_dim, groups, own.state, own.conv, width.state, width.wide)


def exchanged(own: StateSpace, part: Mixer) -> tuple[tuple[Number, Number, float], ...]:
    """Shapes of inputs, gates and outputs, and of B and C, for an exchange of heads for tokens."""
    return ((part.heads, part.head_dim, 3.0), (part.kv_heads, own.state, 2.0))
