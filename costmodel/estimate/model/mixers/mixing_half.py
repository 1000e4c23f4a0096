"""The mixing half of a layer: one mixer, or attention and another mixer in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from costmodel.documents.schemas.model import AnyMixer, Layers, Model, ScanMixer
from costmodel.equations.layers.state_space import (
    shared_output_activations,
    shared_output_parameters,
    shared_output_traffic,
)
from costmodel.estimate.model.feed_forward_kinds import feed_of
from costmodel.estimate.model.mixers.mixer import CacheWidth, CoreSize, Matmul, Mixer, MixerKind, SharedKeys
from costmodel.estimate.model.mixers.mixer_kinds import KINDS
from costmodel.ground.equation import Number, term
from costmodel.ground.record import record


def mixer_kinds(kind: Layers) -> Iterator[str]:
    """Names of a layer's mixers, such as `latent attention`."""
    return (KINDS[type(own)].label(own) for own in kind.mixers)


def layer_names_text(model: Model) -> str:
    """Names of all mixers in a model, and of its feed-forward halves but MLPs."""
    feeds = (feed_of(kind, 1.0) for kind in model.layers)
    mixers = (name for kind in model.layers for name in mixer_kinds(kind))
    return " + ".join(dict.fromkeys([*mixers, *(feed.label for feed in feeds if feed is not None and feed.label)]))


def mixer_shard(model: Model, kind: Layers, tp: Number) -> Mixer | None:
    """A layer's mixers (attention, Mamba …) as one of `tp` ranks stores them; None for a layer without a mixer."""
    held = [KINDS[type(own)].shard(model, own, tp) for own in kind.mixers]
    if len(held) < 2:
        return held[0] if held else None
    first, beside = held
    both = first.parameters + beside.parameters
    if kind.shared_output:
        with term("shared output"):
            both = both + shared_output_parameters(model.hidden, beside.heads)
    return replace(first, parameters=both, beside=beside)


def each_mixer(kind: Layers, part: Mixer) -> Iterator[tuple[MixerKind[Any], AnyMixer, Mixer]]:
    """Each mixer of a layer: its kind, its description in the model document, and its shard on a rank."""
    held = (part, part.beside or part)
    for own, mine in zip(kind.mixers, held, strict=False):
        yield KINDS[type(own)], own, mine


def mixer_matmuls(hidden: Number, kind: Layers, part: Mixer, tp: Number) -> Iterator[Matmul]:
    """Name and sizes of each weight matrix in a layer's mixers (attention, Mamba …), as one rank multiplies it."""
    for row, own, mine in each_mixer(kind, part):
        for matrix in row.matrices(hidden, own, mine, tp):
            if not kind.shared_output or matrix.name != "attention out":
                yield matrix


def core_flop(kind: Layers, part: Mixer, sequences: Number, sequence: Number, heads: Number, *, causal: bool) -> Number:
    """Forward FLOP of attention scores and values, or of scans, in one layer; `heads` are those of its first mixer."""
    found: list[Number] = []
    for row, own, mine in each_mixer(kind, part):
        size = CoreSize(sequences, sequence, mine.heads if found else heads)
        found.append(row.flop(own, mine, size, causal=causal))
    return sum(found[1:], start=found[0])


def without_scan(kind: Layers, part: Mixer) -> tuple[Layers, Mixer]:
    """A layer with its attention only, without the Mamba scan that runs in parallel to it."""
    return kind.model_copy(update={"selective_scan": None, "shared_output": False}), replace(part, beside=None)


def mixer_traffic(
    model: Model, kind: Layers, part: Mixer, tokens: Number, element: Number, *, backward: bool
) -> Number:
    """Bytes that a layer's mixers read and write, without matrix products and attention scores."""
    found = [
        row.traffic(model, own, mine, tokens, element, backward=backward) for row, own, mine in each_mixer(kind, part)
    ]
    if kind.shared_output and part.beside is not None:
        found.append(shared_output_traffic(tokens, part.beside.heads, element, backward=backward))
    return sum(found[1:], start=found[0])


def mixer_activations(kind: Layers, part: Mixer, tokens: Number, element: Number, split: Number) -> Number:
    """Bytes that a layer's mixers save for backward, without the residual stream and the attention scores."""
    found = [row.activations(own, mine, tokens, element, split) for row, own, mine in each_mixer(kind, part)]
    if kind.shared_output and part.beside is not None:
        found.append(shared_output_activations(tokens, part.beside.heads, element))
    return sum(found[1:], start=found[0])


def narrow_width(hidden: Number, kind: Layers) -> Number | None:
    """Width of the narrow input that tp ranks gather, if the mixer projects its input down first; else None."""
    found = (KINDS[type(own)].narrow_width(hidden, own) for own in kind.mixers)
    return next((width for width in found if width is not None), None)


def picked_keys(kind: Layers) -> float:
    """Keys that an indexer selects per token; tp ranks gather their indices, as each selects for its own tokens."""
    return sum((KINDS[type(own)].picked_keys(own) for own in kind.mixers), start=0.0)


def score_heads(kind: Layers, part: Mixer, *, fused: bool) -> Number:
    """Heads that write scores for one sequence; unfused compressed attention also writes scores of entries."""
    own = kind.mixers[0]
    return part.heads if fused else KINDS[type(own)].score_heads(own, part)


def inner_all_reduce_width(kind: Layers) -> float:
    """Width of the tensor that tp ranks all-reduce inside a mixer (the inputs of a selective scan); else 0."""
    return sum((KINDS[type(own)].inner_all_reduce_width(own) for own in kind.mixers), start=0.0)


def mixer_cache(kind: Layers, tp: Number, tokens: Number, width: CacheWidth) -> Number:
    """Cache bytes of one layer for a sequence with so many tokens in serving, on a rank of tp."""
    found = [KINDS[type(own)].cache(own, tp, tokens, width) for own in kind.mixers]
    return sum(found[1:], start=found[0]) if found else 0.0


def cache_read(kind: Layers, tp: Number, tokens: Number, width: CacheWidth) -> Number:
    """KV-cache bytes that one decode query reads in a layer: in sparse attention, those of the selected tokens."""
    found = [KINDS[type(own)].cache_read(own, tp, tokens, width) for own in kind.mixers]
    return sum(found[1:], start=found[0]) if found else 0.0


def shared_keys(kind: Layers, tokens: Number) -> SharedKeys | None:
    """The keys that one query reads out of so many tokens, if all heads share them; else None."""
    found = (KINDS[type(own)].shared_keys(own, tokens) for own in kind.mixers)
    return next((keys for keys in found if keys is not None), None)


def token_bytes(kind: Layers, width: CacheWidth) -> Number:
    """Cache bytes that each token adds in a layer without a window, with all heads."""
    growing = [KINDS[type(own)].token_bytes(own, width) for own in kind.mixers if not isinstance(own, ScanMixer)]
    return growing[0] if growing else 0.0


def state_bytes(kind: Layers, tp: Number, width: CacheWidth) -> Number:
    """Bytes of a layer's recurrent states, which a step writes back whole."""
    states = [own for own in kind.mixers if isinstance(own, ScanMixer)]
    found = [KINDS[type(own)].cache(own, tp, 0.0, width) for own in states]
    return sum(found[1:], start=found[0]) if found else 0.0


@record
class CacheKind:
    """Layers with the same kind of cache: their name, their number, and bytes for each requested column."""

    name: str
    layers: float
    held: tuple[float, ...]


def cache_kinds(model: Model, columns: tuple[Callable[[Layers], Number], ...]) -> list[CacheKind]:
    """The kinds of layers with a cache; each column is a function of one layer, summed over the layers of a kind."""
    found: dict[str, CacheKind] = {}
    for kind in model.layers:
        if not kind.mixers:
            continue
        name = " and ".join(KINDS[type(own)].cache_label(own) for own in kind.mixers)
        before = found.get(name, CacheKind(name, 0.0, (0.0,) * len(columns)))
        elements = (float(kind.count * column(kind)) for column in columns)
        held = tuple(old + new for old, new in zip(before.held, elements, strict=True))
        found[name] = CacheKind(name, before.layers + float(kind.count), held)
    return list(found.values())
