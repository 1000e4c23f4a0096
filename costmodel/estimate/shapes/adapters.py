"""Low-rank adapters on frozen weights: which matrices a rank adds, what it trains, and how frozen weights are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from costmodel.documents.model import Layers
from costmodel.documents.stack import Module
from costmodel.equation import Number, term
from costmodel.equations.adapters import adapter_activations, adapter_parameters, frozen_flop, packed_bytes
from costmodel.equations.arithmetic import matmul_flop, training_flop
from costmodel.equations.counting import repeated
from costmodel.equations.economics import share, tokens_per_step
from costmodel.equations.recompute import activation_output_bytes, norm_output_bytes
from costmodel.estimate.block import Block
from costmodel.estimate.setting import NF4, Setting
from costmodel.estimate.shapes.mixers import Matmul
from costmodel.estimate.shapes.split import StageLayers
from costmodel.estimate.shapes.work import Shard, StageParameters, additions, shard

ISSUED = 3.0  # operations of an adapter forward: two products and the sum
INPUT_OF = {"q": "attention", "k": "attention", "v": "attention", "gate": "mlp", "up": "mlp", "down": "activation"}


@dataclass(frozen=True)
class Adapter:
    """The adapter of one weight matrix as a rank holds it: outputs n, inputs k."""

    name: str
    n: Number
    k: Number


def adapters(setting: Setting, part: Shard) -> Iterator[Adapter]:
    """The adapters of a layer."""
    if setting.tuning is None:
        return
    assert part.mixer is not None
    hidden, head_dim = setting.model.hidden, part.mixer.head_dim
    queries, keys = repeated(part.mixer.heads, head_dim), repeated(part.mixer.kv_heads, head_dim)
    sizes = {
        "q": (queries, hidden),
        "k": (keys, hidden),
        "v": (keys, hidden),
        "o": (hidden, queries),
        "gate": (part.ffn_hidden, hidden),
        "up": (part.ffn_hidden, hidden),
        "down": (hidden, part.ffn_hidden),
    }
    for name in dict.fromkeys(setting.tuning.modules):
        if name != "gate" or (part.kind.dense is not None and part.kind.dense.gated):
            yield Adapter(name, *sizes[name])


def thin(setting: Setting, adapter: Adapter) -> tuple[Matmul, Matmul]:
    """The two products of an adapter."""
    assert setting.tuning is not None
    rank = setting.tuning.rank
    return Matmul(f"{adapter.name} down", rank, adapter.k), Matmul(f"{adapter.name} up", adapter.n, rank)


def issued(setting: Setting, kind: Layers) -> Number:
    """Operations of a layer's adapters over those of the layer."""
    count = sum(1.0 for _ in adapters(setting, shard(setting.model, kind, 1.0)))
    return share(repeated(ISSUED, count), setting.stack.launch.operations)


def trained_in(setting: Setting, part: Shard) -> Number:
    """Trained parameters of one layer."""
    assert setting.tuning is not None
    total: Number = 0.0
    for adapter in adapters(setting, part):
        with term(adapter.name):
            total = total + adapter_parameters(setting.tuning.rank, adapter.n, adapter.k)
    return total


def trained(setting: Setting, block: Block, layers: StageLayers, held: StageParameters) -> StageParameters:
    """What of a rank's parameters is trained: all, or its adapters; the ends have none."""
    if setting.tuning is None:
        return held
    mean: Number = 0.0
    largest: Number = 0.0
    with term("adapters"):
        for kind in setting.model.layers:
            each = trained_in(setting, shard(setting.model, kind, block.tp))
            mean = mean + repeated(share(kind.count, layers.total), each)
            largest = np.maximum(largest, each)
    first, middle, last = layers.each(mean)
    only = StageParameters(mean, largest, first, middle, last, table=0.0, embedding=0.0, head=0.0, both=0.0, tied=False)
    routed = (held.routed_layer, held.routed_ranks, held.routed_head)
    return replace(only, routed_layer=routed[0], routed_ranks=routed[1], routed_head=routed[2])


def packed_width() -> Number:
    """Bytes of a weight in 4-bit NormalFloat with its share of the scales."""
    return packed_bytes(1.0, *NF4)


def frozen_width(setting: Setting) -> Number:
    """Bytes of a frozen weight of the layers; of qlora's the norms, too small to tell, count as packed."""
    assert setting.tuning is not None
    return packed_width() if setting.tuning.method == "qlora" else setting.stack.states.compute


def frozen_bytes(setting: Setting, layers: Number, held: Number) -> Number:
    """Weights of a rank that nobody trains: of the layers, and wide those of the ends."""
    with term("frozen weights"):
        return repeated(frozen_width(setting), layers) + repeated(setting.stack.states.compute, held - layers)


def unread_inputs(
    setting: Setting, part: Shard, modules: tuple[Module, ...], sizes: tuple[Number, Number, Number]
) -> Number:
    """Inputs that only the gradient of a frozen weight would read, but for those that named modules drop anyway.

    They are the outputs of norms and of the activation function; sizes: tokens, bytes of an element, ranks split over.
    """
    assert setting.tuning is not None
    tokens, width, split = sizes
    read = {INPUT_OF.get(name) for name in setting.tuning.modules}
    halves = 0.0
    if "norms" not in modules:
        unread = {"attention", "mlp"} - read
        halves = float(len(unread)) if additions(part.kind) == 2 else float(len(unread) == 2)
    with term("inputs nobody reads"):
        spared = norm_output_bytes(tokens, setting.model.hidden, halves, width, split)
        if "activation" in read or {"mlp", "mlp-activation"} & set(modules):
            return spared
        return spared + activation_output_bytes(tokens, part.ffn_hidden, width)


def between(setting: Setting, part: Shard, tokens: Number) -> Number:
    """Bytes between the thin matrices of a layer."""
    if setting.tuning is None:
        return 0.0
    count = sum(1.0 for _ in adapters(setting, part))
    return adapter_activations(tokens, setting.tuning.rank, count, setting.element)


def useful_flop(setting: Setting, linear: Number, core: Number, head: Number) -> Number:
    """Model work of a step: three times forward, and twice where the weights are frozen."""
    if setting.tuning is None:
        return training_flop(linear + core + head)
    with term("frozen"):
        frozen = frozen_flop(linear + head)
    with term("trained"):
        return frozen + training_flop(core + adapters_flop(setting))


def adapters_flop(setting: Setting) -> Number:
    """Forward work of all adapters in a step."""
    tokens = tokens_per_step(setting.global_batch, setting.sequence)
    total: Number = 0.0
    for kind in setting.model.layers:
        part = shard(setting.model, kind, 1.0)
        for adapter in adapters(setting, part):
            for matrix in thin(setting, adapter):
                total = total + repeated(kind.count, matmul_flop(tokens, matrix.n, matrix.k))
    return total
