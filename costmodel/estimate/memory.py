"""The memory ledger of a rank: its first, a middle and its last pipeline stage, and the worst of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.equation import Number, term
from costmodel.equations.activations import (
    checkpoint_activations,
    head_activations,
    logit_bytes,
    mask_bytes,
    mlp_activations,
    op_level_activations,
    score_activations,
    stream_activations,
)
from costmodel.equations.counting import divided, repeated
from costmodel.equations.overlap import bucket_bytes
from costmodel.equations.precision import linear_inputs, narrow_copy_bytes
from costmodel.equations.states import (
    gathered_bytes,
    gradient_bytes,
    gradient_copy_bytes,
    optimizer_bytes,
    overhead_bytes,
    reserved_bytes,
    weight_bytes,
)
from costmodel.estimate.block import Block, alone
from costmodel.estimate.context_traffic import context_buffers
from costmodel.estimate.expert_traffic import expert_data
from costmodel.estimate.experts import expert_activations, rows_of
from costmodel.estimate.mixers import mixer_activations
from costmodel.estimate.schedules import ends_held, live, stepped, weight_copies
from costmodel.estimate.setting import ELEMENT_BYTES, Setting
from costmodel.estimate.split import StageLayers
from costmodel.estimate.work import Shard, StageParameters, additions, local_tokens, shard, vocab_per_rank

LINES = (
    "weights",
    "gradients",
    "optimizer",
    "gathered",
    "buckets",
    "context",
    "activations",
    "recompute",
    "logits",
    "fragmentation",
    "runtime",
)
ALLOCATED = LINES[:9]
RESERVED = LINES[:10]
STAGES = ("first", "middle", "last")


@dataclass(frozen=True)
class Ledger:
    """Bytes by line and stage; every line is one entry per stage."""

    lines: dict[str, tuple[Number, Number, Number]]
    peaks: tuple[Number, Number, Number]
    worst: Number

    def line(self, name: str, stage: int) -> Number:
        """One line of one stage."""
        return self.lines[name][stage]


def layer_activations(setting: Setting, block: Block, part: Shard) -> Number:
    """Bytes one layer keeps for the backward of one micro-batch."""
    structure, model = block.structure, setting.model
    split = block.tp if structure.sequence_parallel else 1.0
    tokens = local_tokens(setting, block)
    mixer = part.mixer
    dropped = setting.dropped(structure.recompute)
    if dropped == "layer":
        return checkpoint_activations(tokens, model.hidden, setting.element, split)
    if dropped == "operations":
        sizes = (mixer.heads, mixer.kv_heads, mixer.head_dim) if mixer is not None else (0.0, 0.0, 0.0)
        kept = op_level_activations(tokens, model.hidden, *sizes, part.ffn_hidden, setting.element, split)
        return kept + divided(_expert_activations(setting, part, block), 2.0) if part.routed is not None else kept
    return whole_activations(setting, block, part, selective=dropped == "core")


def whole_activations(setting: Setting, block: Block, part: Shard, *, selective: bool) -> Number:
    """Bytes one layer keeps when nothing, or only the attention core, is computed again."""
    kernels, model = setting.stack.kernels, setting.model
    split = block.tp if block.structure.sequence_parallel else 1.0
    tokens = local_tokens(setting, block)
    with term("layer activations"):
        norms = (part.kind.norms, additions(part.kind))
        kept = stream_activations(tokens, model.hidden, *norms, setting.element, split, dropout=kernels.dropout)
        if setting.narrow is not None and setting.narrow.saved:
            kept = kept + _narrow_inputs(setting, part, tokens, split)
        if part.mixer is not None:
            kept = kept + mixer_activations(part.kind, part.mixer, tokens, setting.element, split)
        if part.kind.dense is not None:
            kept = kept + mlp_activations(tokens, part.ffn_hidden, setting.element, gated=part.kind.dense.gated)
        if part.routed is not None:
            kept = kept + _expert_activations(setting, part, block)
        if part.mixer is None or part.kind.state_space is not None:
            return kept
        return kept + score_activations(
            divided(block.micro_batch, block.cp),
            setting.sequence,
            part.mixer.heads,
            setting.element,
            kernel=kernels.attention,
            dropout=kernels.dropout,
            recompute="selective" if selective else "none",
        )


def _expert_activations(setting: Setting, part: Shard, block: Block) -> Number:
    """What the routed experts of a layer keep for the backward of one micro-batch."""
    if part.routed is None or setting.experts is None:
        return 0.0
    tokens = divided(local_tokens(setting, block), block.tp)
    rows = rows_of(part.routed, tokens, setting.experts.load)
    kept = expert_activations(setting.model.hidden, part.routed, rows, setting.element)
    if setting.narrow is None or not setting.narrow.saved:
        return kept
    sizes = (rows, setting.model.hidden, 1.0, part.routed.ffn_hidden)
    with term("experts' inputs kept narrow"):
        narrow = linear_inputs(*sizes, setting.recipe.operand, 1.0)
    with term("experts' inputs kept wide"):
        return kept + narrow - linear_inputs(*sizes, setting.element, 1.0)


def _narrow_inputs(setting: Setting, part: Shard, tokens: Number, split: Number) -> Number:
    """What keeping inputs narrow saves; the attention output is kept wide by its core and narrow beside it."""
    halves, hidden = additions(part.kind), setting.model.hidden
    out = 0.0 if part.mixer is None else repeated(part.mixer.heads, part.mixer.head_dim)
    with term("inputs kept narrow"):
        narrow = linear_inputs(tokens, hidden, halves, part.ffn_hidden + out, setting.recipe.operand, split)
    with term("inputs kept wide"):
        wide = linear_inputs(tokens, hidden, halves, part.ffn_hidden, setting.element, split)
    return narrow - wide


def ledger(
    setting: Setting, block: Block, layers: StageLayers, parameters: StageParameters, micro_batches: Number
) -> Ledger:
    """Every line for the first, a middle and the last stage."""
    last_stage = block.pp - 1
    stages = (last_stage - last_stage, np.minimum(last_stage, 1.0), last_stage)
    held = parameters.stages(block.pp, block.structure.schedule)
    kept = _activations(setting, block, layers)
    columns = [
        _stage(setting, block, parameters, held[position], kept[position], stages[position], micro_batches, position)
        for position in range(3)
    ]
    lines = {name: (columns[0][name], columns[1][name], columns[2][name]) for name in LINES}
    peaks = tuple(_total(column) for column in columns)
    worst = np.maximum(np.maximum(peaks[0], peaks[1]), peaks[2])
    return Ledger(lines, (peaks[0], peaks[1], peaks[2]), worst)


def _total(column: dict[str, Number]) -> Number:
    total: Number = column["weights"]
    for name in LINES[1:]:
        total = total + column[name]
    return total


def _stage(
    setting: Setting,
    block: Block,
    parameters: StageParameters,
    held: Number,
    kept: Kept,
    stage: Number,
    micro_batches: Number,
    position: int,
) -> dict[str, Number]:
    stack = setting.stack
    with term(f"{STAGES[position]} stage"):
        column = _all_states(setting, block, parameters, held, position)
        flying = live(block, micro_batches, stage)
        at_first, at_last = ends_held(block.structure.schedule, position)
        head = _last(setting, block) if at_last else np.where(block.pp == 1, _last(setting, block), 0.0)
        activations = repeated(flying, kept.layers)
        column["activations"] = activations + (_first(setting, block, flying) if at_first else 0.0)
        column["recompute"] = kept.whole
        column["logits"] = head
        column["gathered"] = _gathered(setting, block, parameters, position)
        column["context"] = _context(setting, block)
        column["buckets"] = _buckets(setting, block)
        allocated = column["weights"]
        for name in ALLOCATED[1:]:
            allocated = allocated + column[name]
        column["fragmentation"] = reserved_bytes(allocated, setting.fragmentation)
        runtime = stack.runtime
        column["runtime"] = overhead_bytes(runtime.context, runtime.communicators, runtime.communicator)
    return column


def _states(setting: Setting, block: Block, held: Number, over: Number) -> dict[str, Number]:
    """Weights, gradients and optimizer states of so many parameters sharded over so many ranks.

    FSDP's gradients stay whole in a pipeline.
    """
    zero, states = block.structure.zero, setting.stack.states
    moments = setting.case.optimizer.moments
    weights = weight_bytes(held, states.weights, states.compute, over, zero=zero, sharded_master=states.sharded_master)
    gradients = gradient_bytes(held, setting.gradient, over, zero=zero)
    if states.sharded_master and zero >= 2:
        whole = gradient_bytes(held, setting.gradient, over, zero=1)
        gradients = np.where(block.pp > 1, whole, gradients)
    if states.gradient_copies and zero <= 1:
        wide = setting.gradient == ELEMENT_BYTES["fp32"]
        gradients = gradients + gradient_copy_bytes(held, setting.gradient, over, of="all" if wide else "shard")
    return {
        "weights": weights,
        "gradients": gradients,
        "optimizer": optimizer_bytes(stepped(block, held), states.master, moments, over, zero=zero),
    }


def _converted(setting: Setting, block: Block, layers: Number, over: Number) -> Number:
    """What converted weights of the layers add to the kept ones, or take from them where they stand in for them."""
    narrow, zero = setting.narrow, block.structure.zero
    if narrow is None or not narrow.cached:
        return 0.0
    states = setting.stack.states
    with term("converted weights"):
        copies = narrow_copy_bytes(layers, setting.recipe.copies, over, sharded=zero == 3)
    if not narrow.primary:
        return copies
    return copies - weight_bytes(layers, states.weights, states.compute, over, zero=zero, sharded_master=False)


def _all_states(
    setting: Setting, block: Block, parameters: StageParameters, held: Number, position: int
) -> dict[str, Number]:
    """States of a stage: routed experts are sharded over the ranks that hold the same, all else over dp."""
    found = _states(setting, block, held, block.shards)
    layers = repeated(weight_copies(block.structure.schedule), parameters.held(position))
    found["weights"] = found["weights"] + _converted(setting, block, layers, block.shards)
    if setting.experts is None:
        return found
    with term("experts"):
        edp = expert_data(setting, block)
        _, at_last = ends_held(block.structure.schedule, position)
        ahead = parameters.routed_head if at_last else np.where(block.pp == 1, parameters.routed_head, 0.0)
        routed = _states(setting, block, parameters.routed_ranks[position] + ahead, edp)
        routed["weights"] = routed["weights"] + _converted(setting, block, parameters.routed_ranks[position], edp)
    return {name: value + routed[name] for name, value in found.items()}


@dataclass(frozen=True)
class Kept:
    """Activations of a stage's layers for one micro-batch, and the one layer that recompute holds whole."""

    layers: Number
    whole: Number


def _activations(setting: Setting, block: Block, layers: StageLayers) -> tuple[Kept, Kept, Kept]:
    """What the first, a middle and the last rank keep of a micro-batch."""
    kept: list[Number] = [0.0, 0.0, 0.0]
    extra: Number = 0.0
    for kind in setting.model.layers:
        part = shard(setting.model, kind, block.tp, block.ep, block.etp)
        each = layer_activations(setting, block, part)
        held = (layers.first, layers.middle, layers.last)
        for position, count in enumerate(held[:1] if layers.equal else held):
            kept[position] = kept[position] + repeated(layers.of_kind(setting.model, kind.count, count), each)
        dropped = setting.dropped(block.structure.recompute)
        if dropped == "layer":
            extra = np.maximum(extra, whole_activations(setting, block, part, selective=False))
        elif dropped == "operations":
            whole = whole_activations(setting, block, part, selective=False)
            extra = np.maximum(extra, np.maximum(whole - layer_activations(setting, block, part), 0.0))
    first, middle, last = (kept[0], kept[0], kept[0]) if layers.equal else kept
    return Kept(first, extra), Kept(middle, extra), Kept(last, extra)


def _first(setting: Setting, block: Block, live: Number) -> Number:
    if not setting.stack.kernels.dropout:
        return 0.0
    split = block.tp if block.structure.sequence_parallel else 1.0
    tokens = local_tokens(setting, block)
    return repeated(live, mask_bytes(tokens, setting.model.hidden, setting.element, split))


def _last(setting: Setting, block: Block) -> Number:
    split = block.tp if block.structure.sequence_parallel else 1.0
    tokens = local_tokens(setting, block)
    logits = logit_bytes(tokens, vocab_per_rank(setting, block.tp), setting.stack.buckets.loss)
    return logits + head_activations(tokens, setting.model.hidden, setting.element, split)


def _gathered(setting: Setting, block: Block, parameters: StageParameters, position: int) -> Number:
    if block.structure.zero != 3:
        return 0.0
    stack = setting.stack
    with term("largest unit"):
        at_first, at_last = ends_held(block.structure.schedule, position)
        held = (parameters.embedding if at_first else 0.0) + (parameters.head if at_last else 0.0)
        ends = np.where(block.pp == 1, parameters.both, held)
        largest = parameters.largest + parameters.routed_layer
        unit = gathered_bytes(largest, setting.gathered, setting.gradient, stack.buckets.prefetch)
        outer = repeated(stack.states.compute, ends)
    return np.where(block.shards > 1, unit + outer, 0.0)


def _context(setting: Setting, block: Block) -> Number:
    """Other ranks' tokens held while the layer that needs most of them runs."""
    if alone(block.cp):
        return 0.0
    held: Number = 0.0
    for kind in setting.model.layers:
        held = np.maximum(held, context_buffers(setting, block, shard(setting.model, kind, block.tp)))
    return held


def _buckets(setting: Setting, block: Block) -> Number:
    buckets = setting.stack.buckets
    size = repeated(buckets.live, bucket_bytes(buckets.size, buckets.per_rank, block.shards))
    return np.where((block.dp > 1) | (block.cp > 1), size, 0.0)
