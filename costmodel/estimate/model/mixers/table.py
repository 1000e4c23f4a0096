"""The table of mixers, and the mixing half of a layer: one mixer, or attention and another mixer in parallel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from costmodel.documents.schemas.mixers import (
    AnyMixer,
    Attention,
    CompressedAttention,
    LatentAttention,
    LinearAttention,
    ScanMixer,
    SelectiveScan,
    StateSpace,
)
from costmodel.documents.schemas.model import Layers, Model
from costmodel.equations.layers.state_space import (
    shared_output_activations,
    shared_output_parameters,
    shared_output_traffic,
)
from costmodel.estimate.model.mixers import (
    compressed_attention,
    grouped_attention,
    latent_attention,
    linear_attention,
    selective_scan,
    state_space,
)
from costmodel.estimate.model.mixers.mixer import CacheWidth, CoreSize, Matmul, Mixer, MixerKind
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record

KINDS: dict[type[AnyMixer], MixerKind] = {
    Attention: grouped_attention,
    LatentAttention: latent_attention,
    CompressedAttention: compressed_attention,
    StateSpace: state_space,
    LinearAttention: linear_attention,
    SelectiveScan: selective_scan,
}


def mixer_kinds(kind: Layers) -> Iterator[str]:
    """Names of a layer's mixers, such as `latent attention`."""
    if kind.attention is not None:
        yield "attention with sinks" if kind.attention.sinks else "attention"
    if kind.latent is not None:
        yield "latent attention" if kind.latent.indexer is None else "attention to selected tokens"
    if kind.compressed is not None:
        yield "compressed attention"
    if kind.state_space is not None:
        yield "state space"
    if kind.linear is not None:
        yield f"linear attention ({kind.linear.rule})"
    if kind.selective_scan is not None:
        yield "selective scan"


def layer_words(model: Model) -> str:
    """Names of all mixers in a model, and `experts` if tokens are routed."""
    routed = any(kind.experts is not None and kind.experts.count > 1 for kind in model.layers)  # one is an MLP
    mixers = dict.fromkeys(name for kind in model.layers for name in mixer_kinds(kind))
    return " + ".join([*mixers, *(["experts"] if routed else [])])


def mixer(model: Model, kind: Layers, tp: Number) -> Mixer | None:
    """A layer's mixers as one of tp ranks stores them; None without a mixer."""
    held = [KINDS[type(own)].hold(model, own, tp) for own in kind.mixers]
    if len(held) < 2:
        return held[0] if held else None
    first, beside = held
    both = first.parameters + beside.parameters
    if kind.shared_output:
        with term("shared output"):
            both = both + shared_output_parameters(model.hidden, beside.heads)
    return replace(first, parameters=both, beside=beside)


def each(kind: Layers, part: Mixer) -> Iterator[tuple[MixerKind, AnyMixer, Mixer]]:
    """Each mixer of a layer: its module, its part of the document, and its shard on a rank."""
    held = (part, part.beside or part)
    for own, mine in zip(kind.mixers, held, strict=False):
        yield KINDS[type(own)], own, mine


def mixer_matmuls(hidden: Number, kind: Layers, part: Mixer, tp: Number) -> Iterator[Matmul]:
    """The weight matrices of a layer's mixers."""
    for row, own, mine in each(kind, part):
        for matrix in row.matrices(hidden, own, mine, tp):
            if not kind.shared_output or matrix.name != "attention out":
                yield matrix


def core_flop(kind: Layers, part: Mixer, sequences: Number, sequence: Number, heads: Number, *, causal: bool) -> Number:
    """Forward FLOP of a layer's cores; `heads` are those of the first mixer."""
    found: list[Number] = []
    for row, own, mine in each(kind, part):
        size = CoreSize(sequences, sequence, mine.heads if found else heads)
        found.append(row.flop(own, mine, size, causal=causal))
    return sum(found[1:], start=found[0])


def without_scan(kind: Layers, part: Mixer) -> tuple[Layers, Mixer]:
    """A layer's attention without the selective scan in parallel to it."""
    return kind.model_copy(update={"selective_scan": None, "shared_output": False}), replace(part, beside=None)


def mixer_traffic(
    model: Model, kind: Layers, part: Mixer, tokens: Number, element: Number, *, backward: bool
) -> Number:
    """Memory traffic of a layer's mixers, without matrix products and scores."""
    found = [row.traffic(model, own, mine, tokens, element, backward=backward) for row, own, mine in each(kind, part)]
    if kind.shared_output and part.beside is not None:
        found.append(shared_output_traffic(tokens, part.beside.heads, element, backward=backward))
    return sum(found[1:], start=found[0])


def mixer_activations(kind: Layers, part: Mixer, tokens: Number, element: Number, split: Number) -> Number:
    """Saved activations of a layer's mixers, without the residual stream and the scores."""
    found = [row.activations(own, mine, tokens, element, split) for row, own, mine in each(kind, part)]
    if kind.shared_output and part.beside is not None:
        found.append(shared_output_activations(tokens, part.beside.heads, element))
    return sum(found[1:], start=found[0])


def narrow_width(hidden: Number, kind: Layers) -> Number | None:
    """Width of the narrow input that tp ranks gather, if the mixer projects its input down first; else None."""
    if kind.latent is not None:
        with term("latents"):
            return (kind.latent.query_rank or hidden) + kind.latent.kv_rank + kind.latent.rope_dim
    if kind.compressed is not None:
        with term("narrow queries and keys"):
            return kind.compressed.query_rank + kind.compressed.head_dim + compressed_attention.sent(kind.compressed)
    return None


def picked_keys(kind: Layers) -> float:
    """Keys that an indexer selects per token; tp ranks gather their indices, as each selects for its own tokens."""
    own = kind.latent if kind.latent is not None else kind.compressed and kind.compressed.entries
    return own.indexer.top_k if own and own.indexer is not None else 0.0


def score_heads(kind: Layers, part: Mixer, *, fused: bool) -> Number:
    """Heads that write scores for one sequence; unfused compressed attention also writes scores of entries."""
    if fused or kind.compressed is None or kind.compressed.entries is None:
        return part.heads
    with term("scores of entries"):
        return part.heads + part.heads / kind.compressed.entries.rate


def summed_inside(kind: Layers) -> float:
    """Width of the tensor that tp ranks all-reduce inside a mixer: the inputs of a selective scan; else 0."""
    return 0.0 if kind.selective_scan is None else selective_scan.made(kind.selective_scan)


def mixer_cache(kind: Layers, tp: Number, tokens: Number, width: CacheWidth) -> Number:
    """Cache bytes of one layer for a sequence with so many tokens in serving, on a rank of tp."""
    found = [KINDS[type(own)].cache(own, tp, tokens, width) for own in kind.mixers]
    return sum(found[1:], start=found[0]) if found else 0.0


def cache_read(kind: Layers, tp: Number, tokens: Number, width: CacheWidth) -> Number:
    """Cache bytes that a query reads: of selected tokens in sparse attention; shared keys come from another layer."""
    if kind.latent is not None:
        return latent_attention.read(kind.latent, tokens, width)
    if kind.compressed is not None:
        return compressed_attention.read(kind.compressed, tokens, width)
    if kind.attention is not None and kind.attention.shared_kv:
        return grouped_attention.read(kind.attention, tp, tokens, width) + state_bytes(kind, tp, width)
    return mixer_cache(kind, tp, tokens, width)


@record
class SharedKeys:
    """The keys that all heads of a layer share, so that matrix products may bound decode attention.

    Their number, their width, and the width of their rotary part.
    """

    count: Number
    width: Number
    rope_dim: Number


def shared_keys(kind: Layers, tokens: Number) -> SharedKeys | None:
    """The keys that one query reads out of so many tokens, if all heads share them; else None."""
    if kind.latent is not None:
        return SharedKeys(latent_attention.picked(kind.latent, tokens), kind.latent.kv_rank, kind.latent.rope_dim)
    if kind.compressed is not None:
        return SharedKeys(compressed_attention.picked(kind.compressed, tokens), kind.compressed.head_dim, 0.0)
    return None


def token_bytes(kind: Layers, width: CacheWidth) -> Number:
    """Cache bytes that each token adds in a layer without a window, with all heads."""
    if kind.attention is not None and kind.attention.window is not None:
        return 0.0
    if kind.compressed is not None:
        return compressed_attention.grown(kind.compressed, 1.0, width)
    growing = [own for own in kind.mixers if not isinstance(own, ScanMixer)]
    return KINDS[type(growing[0])].cache(growing[0], 1.0, 1.0, width) if growing else 0.0


def state_bytes(kind: Layers, tp: Number, width: CacheWidth) -> Number:
    """Bytes of a layer's recurrent states, which a step writes back whole."""
    states = [own for own in kind.mixers if isinstance(own, ScanMixer)]
    found = [KINDS[type(own)].cache(own, tp, 0.0, width) for own in states]
    return sum(found[1:], start=found[0]) if found else 0.0
