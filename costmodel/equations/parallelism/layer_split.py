"""Layers of pipeline ranks where the layers do not divide evenly: lighter ends, stated ends, the rest spread."""

from __future__ import annotations

import numpy as np

from costmodel.ground.equation import Number, equation


@equation
def layers_beside_ends(layers: Number, pp: Number, slots: Number) -> Number:
    """Layers of a rank between the ends when embedding, head or both count as a layer.

    (L + e) / pp

    layers L · pp · slots: ends that count as a layer, e; each of their ranks holds one layer fewer
    → layers of a rank between, in all its chunks
    Source: megatron-lm --account-for-embedding-in-pipeline-split; llama-3-2024 §3.3.2
    Monotone: increasing in layers, slots; decreasing in pp
    >>> layers_beside_ends(126.0, 16.0, 2.0)
    8.0
    """
    return (layers + slots) / pp


@equation
def layers_between(layers: Number, pp: Number, layers_first: Number, layers_last: Number) -> Number:
    """Layers of a rank between two ends whose layers are stated.

    (L − L₁ − Lₗ) / (pp − 2); if pp < 3, the smaller of the two

    layers L · pp · layers_first L₁: layers of the first rank · layers_last Lₗ: layers of the last rank
    → layers of a rank between, in all its chunks
    Source: megatron-lm --decoder-first-pipeline-num-layers
    >>> float(layers_between(61.0, 16.0, 3.0, 2.0))
    4.0
    """
    between = (layers - layers_first - layers_last) / np.maximum(pp - 2, 1)
    return np.where(pp < 3, np.minimum(layers_first, layers_last), between)


@equation
def full_chunk_layers(layers: Number, pp: Number, vpp: Number) -> Number:
    """Layers of a model chunk where all but those at the ends hold as many.

    ⌈L / (pp v)⌉

    layers L · pp · vpp v → layers of a chunk between the ends
    Source: megatron-bridge recipes/deepseek
    Monotone: increasing in layers
    >>> float(full_chunk_layers(61.0, 4.0, 4.0))
    4.0
    """
    return np.ceil(layers / (pp * vpp))


@equation
def cut_before(chunk_layers: Number, missing_first: Number, stage: Number) -> Number:
    """Layers before a chunk where all hold as many but the first, which holds fewer.

    max(i C − e, 0)

    chunk_layers C: layers of a chunk between the ends · missing_first e: layers that the first chunk has less
    stage i: position of the chunk in the model from 0
    → layers
    Source: composition
    Monotone: increasing in chunk_layers, stage; decreasing in missing_first
    >>> float(cut_before(2.0, 1.0, 3.0))
    5.0
    """
    return np.maximum(stage * chunk_layers - missing_first, 0.0)


@equation
def stated_before(
    layers: Number, pp: Number, vpp: Number, layers_first: Number, layers_middle: Number, stage: Number
) -> Number:
    """Layers before a chunk where the ranks hold stated numbers, in as many chunks each.

    (⌊i / pp⌋ L + B) / v; B = 0 if r = 0, else L₁ + (r − 1) Lₘ, r = i mod pp

    layers L · pp · vpp v · layers_first L₁: layers of the first rank
    layers_middle Lₘ: layers of a rank between the ends · stage i: position of the chunk in the model from 0
    → layers
    Source: megatron-lm --decoder-first-pipeline-num-layers
    >>> float(stated_before(61.0, 16.0, 1.0, 3.0, 4.0, 15.0))
    59.0
    """
    rank = np.mod(stage, pp)
    inside = np.where(rank > 0, layers_first + (rank - 1) * layers_middle, 0.0)
    return (np.floor(stage / pp) * layers + inside) / vpp


@equation
def leading_layers(layers_leading: Number, layers_before: Number, layers: Number) -> Number:
    """Layers of a chunk that are of the leading kind, which comes before all others.

    min(max(Lₐ − B, 0), L)

    layers_leading Lₐ: layers of the model that come first · layers_before B: layers of the chunks before it
    layers L: layers of the chunk
    → layers of the leading kind
    Source: deepseek-2024 §4.2
    Monotone: increasing in layers_leading, layers; decreasing in layers_before
    >>> float(leading_layers(3.0, 2.0, 2.0))
    1.0
    """
    return np.minimum(np.maximum(layers_leading - layers_before, 0.0), layers)


@equation
def spread_before(layers: Number, pp: Number, vpp: Number, stage: Number) -> Number:
    """Layers before a chunk when the chunks take them in turn, from the first.

    i ⌊L / (pp v)⌋ + min(i, L mod (pp v))

    layers L · pp · vpp v · stage i: position of the chunk in the model from 0 → layers
    Source: torchtitan pipeline_parallel.py
    Monotone: increasing in layers, stage
    >>> float(spread_before(70.0, 12.0, 1.0, 11.0))
    65.0
    """
    return stage * np.floor(layers / (pp * vpp)) + np.minimum(stage, np.mod(layers, pp * vpp))


@equation
def mirrored_layers(in_flight: Number, layers_first: Number, layers_last: Number) -> Number:
    """Layers that an end rank of a pipeline run both ways keeps activations of, in the mean of its live micro-batches.

    ((x − 1) L₁ + Lₗ) / x

    in_flight x: micro-batches live at the peak · layers_first L₁: layers of the first stage
    layers_last Lₗ: layers of the last stage, which the same rank runs for the other direction
    → layers
    Source: deepseek-dualpipe; li-2021; composition
    Holds: dualpipe and chimera, by simulation for p from 4 to 16: one micro-batch is live in the last stage
    Monotone: increasing in layers_first, layers_last
    >>> mirrored_layers(17.0, 4.0, 1.0) * 17
    65.0
    """
    return ((in_flight - 1) * layers_first + layers_last) / in_flight


@equation
def spread_layers(layers: Number, pp: Number, vpp: Number, stage: Number) -> Number:
    """Layers of a rank when the chunks take them in turn, from the first.

    v ⌊L / (pp v)⌋ + ⌈(r − i) / pp⌉,  r = L mod (pp v)

    layers L · pp · vpp v · stage i: position in the pipeline from 0 → layers of that rank, in all its chunks
    Source: torchtitan pipeline_parallel.py
    Monotone: increasing in layers; decreasing in stage
    >>> float(spread_layers(70.0, 12.0, 1.0, 0.0)), float(spread_layers(70.0, 12.0, 1.0, 11.0))
    (6.0, 5.0)
    """
    chunks = pp * vpp
    left = np.mod(layers, chunks)
    return vpp * np.floor(layers / chunks) + np.maximum(np.ceil((left - stage) / pp), 0.0)
