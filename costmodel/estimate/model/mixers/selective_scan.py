"""A Mamba-1 mixer. Each channel counts as a head of width 1."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.schemas.mixers import SelectiveScan
from costmodel.documents.schemas.model import Model
from costmodel.equations.layers.state_space import (
    selective_scan_activations,
    selective_scan_flop,
    selective_scan_parameters,
    selective_scan_time,
    selective_scan_traffic,
)
from costmodel.equations.memory.kv_cache import state_cache_bytes
from costmodel.equations.parallelism.counts import tokens_in_micro_batch
from costmodel.estimate.model.mixers.mixer import CacheWidth, CoreSize, Matmul, Mixer
from costmodel.ground.equation import Number, term


def hold(model: Model, own: SelectiveScan, tp: Number) -> Mixer:
    """The mixer as one of tp ranks stores it; tp shards the channels."""
    inner = own.inner / tp
    options = {"normalised": own.norms, "biases": own.biases}
    held = selective_scan_parameters(model.hidden, inner, own.state, own.rank, own.conv, **options)
    return Mixer(inner, 0.0, 1.0, held)


def matrices(hidden: Number, own: SelectiveScan, part: Mixer, _tp: Number) -> Iterator[Matmul]:
    """The weight matrices as one rank multiplies them."""
    yield Matmul("scan in", 2.0 * part.heads, hidden)
    yield Matmul("scan steps", made(own), part.heads)
    yield Matmul("scan steps up", part.heads, own.rank)
    yield Matmul("scan out", hidden, part.heads)


def made(own: SelectiveScan) -> float:
    """Width of the scan's inputs that each token computes from all channels: low-rank step sizes, B and C.

    Ranks of tp hold some channels each, and sum it up.
    """
    return own.rank + 2.0 * own.state


def flop(own: SelectiveScan, _part: Mixer, size: CoreSize, *, causal: bool) -> Number:
    """Forward FLOP of the core; a scan is always causal."""
    del causal
    tokens = tokens_in_micro_batch(size.sequences, size.sequence)
    return selective_scan_flop(tokens, size.heads, own.state, own.conv)


def scan_time(own: SelectiveScan, part: Mixer, tokens: Number, attainable: Number, *, backward: bool) -> Number:
    """Time of the scan on the vector units; backward repeats the forward scan and has twice its work."""
    with term("exponentials"):
        decays = tokens * (part.heads * own.state)
    work = selective_scan_flop(tokens, part.heads, own.state, own.conv)
    return selective_scan_time(3.0 * work if backward else work, decays, attainable)


def traffic(
    _model: Model, own: SelectiveScan, part: Mixer, tokens: Number, element: Number, *, backward: bool
) -> Number:
    """Memory traffic of convolution, scan, gate and norms."""
    sizes = (part.heads, own.state, own.rank, element)
    return selective_scan_traffic(tokens, *sizes, normalised=own.norms, backward=backward)


def activations(own: SelectiveScan, part: Mixer, tokens: Number, element: Number, _split: Number) -> Number:
    """Saved activations, without the residual stream."""
    return selective_scan_activations(tokens, part.heads, own.state, own.rank, element, normalised=own.norms)


def cache(own: SelectiveScan, tp: Number, _tokens: Number, width: CacheWidth) -> Number:
    """Bytes of the state of a sequence in serving, whatever its length."""
    return state_cache_bytes(own.inner / tp, 1.0, 0.0, own.state, own.conv, width.state, width.wide)


def exchanged(_own: SelectiveScan, part: Mixer) -> tuple[tuple[Number, Number, float], ...]:
    """Shapes of inputs, steps, gates and outputs for an exchange; plans with cp are refused."""
    return ((part.heads, part.head_dim, 4.0),)
