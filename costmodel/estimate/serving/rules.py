"""Reasons to refuse a serving plan, by code, and which rows each of them refuses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from costmodel.equations.counting import padded_vocab, repeated
from costmodel.estimate.legality.masks import leaves_rest
from costmodel.estimate.legality.rules import REFUSALS as TRAINING
from costmodel.estimate.legality.rules import Rule
from costmodel.estimate.serving.inputs import ServingInputs
from costmodel.estimate.serving.layout import Layout
from costmodel.estimate.shapes.split import layer_count

Mask = NDArray[np.bool_]

INVALID = {
    "L050": Rule("too many GPUs", "The replicas need more accelerators than the cluster has."),
    "L051": Rule("heads % tp", "Tensor parallelism gives every rank whole query heads, so tp must divide the heads."),
    "L052": Rule("kv heads, tp", "tp must divide the key and value heads, or be a multiple of them; they then repeat."),
    "L053": Rule("vocabulary % tp", "Engines cut the padded vocabulary evenly, so tp must divide it."),
    "L054": Rule("widths % tp", "tp must divide the inner width of an MLP."),
    "L055": Rule("stages, layers", "A pipeline has at most as many stages as the model has layers."),
    "L056": Rule(
        "ep, tp dp_attention",
        "Experts cut the ranks of a stage a second way: ep must divide tp · dp_attention, and the experts of a layer, "
        "and what is left the inner width of an expert.",
    ),
    "L057": Rule("no experts", "Without experts there is nothing for ep to cut, and dp_attention is replicas."),
}
LIMITS = {
    "M001": Rule(
        "does not fit", "Weights, a step and one request take more than the engine may use of an accelerator."
    ),
    "M002": TRAINING["M002"],
    "S001": Rule("time per token", "The time per output token is over its limit at this load."),
    "S002": Rule("first token", "The time to the first token is over its limit at this load."),
    "S003": Rule("cache full", "The requests in flight at this load need more cache than the pool holds."),
    "S004": Rule("token budget", "Steps are full: their budget of tokens passes fewer requests than arrive."),
    "S005": Rule("above saturation", "Requests take more time than there is, so that queues grow without end."),
    "T001": Rule("limit of the scenario", "Another result is beyond a limit that the scenario sets."),
}
REFUSALS = {**INVALID, **LIMITS}


def invalid(inputs: ServingInputs, layout: Layout) -> Iterator[tuple[str, Mask]]:
    """Rows that make no sense, by the reason."""
    model, tp = inputs.model, layout.tp
    yield "L050", np.asarray(repeated(layout.replicas, layout.ranks) > inputs.ranks)
    mixers = [kind.attention or kind.latent or kind.state_space for kind in model.layers if kind.heads is not None]
    yield "L051", _any(layout, (leaves_rest(mixer.heads, tp) for mixer in mixers if mixer))
    heads = [kind.attention.kv_heads for kind in model.layers if kind.attention is not None]
    yield "L052", _any(layout, (leaves_rest(each, tp) & leaves_rest(tp, each) for each in heads))
    vocab = padded_vocab(model.vocab, inputs.engine.vocab_multiple, 1.0)
    yield "L053", leaves_rest(vocab, tp)
    widths = [kind.dense.ffn_hidden for kind in model.layers if kind.dense is not None]
    yield "L054", _any(layout, (leaves_rest(width, tp) for width in widths))
    yield "L055", np.asarray(layout.pp > layer_count(model))
    yield from _experts(inputs, layout)


def _experts(inputs: ServingInputs, layout: Layout) -> Iterator[tuple[str, Mask]]:
    found = [kind.experts for kind in inputs.model.layers if kind.experts is not None]
    if not found:
        yield "L057", np.asarray((layout.ep > 1) | (layout.dp_attention > 1))
        return
    ranks = layout.stage_ranks
    wrong = leaves_rest(ranks, layout.ep)
    for experts in found:
        parts = repeated(layout.ep, experts.ffn_hidden)
        wrong = wrong | leaves_rest(experts.count, layout.ep) | leaves_rest(parts, ranks)
    yield "L056", wrong


def _any(layout: Layout, masks: Iterator[Mask]) -> Mask:
    found: Mask = np.zeros(len(layout), dtype=bool)
    for mask in masks:
        found = found | mask
    return found
