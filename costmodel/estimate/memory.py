"""The memory ledger of a rank: its first, a middle and its last pipeline stage, and the worst of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.equation import Number, term
from costmodel.equations.activations import (
    attention_activations,
    checkpoint_activations,
    head_activations,
    head_norm_activations,
    logit_bytes,
    mask_bytes,
    mlp_activations,
    op_level_activations,
    score_activations,
    stream_activations,
)
from costmodel.equations.counting import layers_per_stage, repeated, tokens_in_micro_batch
from costmodel.equations.overlap import bucket_bytes
from costmodel.equations.pipeline import in_flight
from costmodel.equations.precision import linear_inputs, narrow_copy_bytes
from costmodel.equations.states import (
    gathered_bytes,
    gradient_bytes,
    optimizer_bytes,
    overhead_bytes,
    reserved_bytes,
    weight_bytes,
)
from costmodel.estimate.block import Block
from costmodel.estimate.setting import Setting
from costmodel.estimate.work import Shard, StageParameters, additions, shard, vocab_per_rank

LINES = (
    "weights",
    "gradients",
    "optimizer",
    "gathered",
    "buckets",
    "activations",
    "recompute",
    "logits",
    "fragmentation",
    "runtime",
)
ALLOCATED = LINES[:8]
RESERVED = LINES[:9]
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
    tokens = tokens_in_micro_batch(block.micro_batch, setting.sequence)
    head_dim = part.kind.attention.head_dim
    dropped = setting.dropped(structure.recompute)
    if dropped == "layer":
        return checkpoint_activations(tokens, model.hidden, setting.element, split)
    if dropped == "operations":
        return op_level_activations(
            tokens,
            model.hidden,
            part.heads,
            part.kv_heads,
            head_dim,
            part.ffn_hidden,
            setting.element,
            split,
        )
    return whole_activations(setting, block, part, selective=dropped == "core")


def whole_activations(setting: Setting, block: Block, part: Shard, *, selective: bool) -> Number:
    """Bytes one layer keeps when nothing, or only the attention core, is computed again."""
    kernels, model = setting.stack.kernels, setting.model
    split = block.tp if block.structure.sequence_parallel else 1.0
    tokens = tokens_in_micro_batch(block.micro_batch, setting.sequence)
    with term("layer activations"):
        norms = (part.kind.norms, additions(part.kind))
        kept = (
            stream_activations(tokens, model.hidden, *norms, setting.element, split, dropout=kernels.dropout)
            + attention_activations(tokens, part.heads, part.kv_heads, part.kind.attention.head_dim, setting.element)
            + mlp_activations(tokens, part.ffn_hidden, setting.element, gated=part.kind.mlp.gated)
            + score_activations(
                block.micro_batch,
                setting.sequence,
                part.heads,
                setting.element,
                kernel=kernels.attention,
                dropout=kernels.dropout,
                recompute="selective" if selective else "none",
            )
        )
        if setting.narrow is not None and setting.narrow.saved:
            kept = kept + _narrow_inputs(setting, part, tokens, split)
        if not part.kind.attention.qk_norm:
            return kept
        head_dim = part.kind.attention.head_dim
        return kept + head_norm_activations(tokens, part.heads, part.kv_heads, head_dim, setting.element)


def _narrow_inputs(setting: Setting, part: Shard, tokens: Number, split: Number) -> Number:
    """What keeping inputs narrow saves; the attention output is kept wide by its core and narrow beside it."""
    halves, hidden = additions(part.kind), setting.model.hidden
    out = repeated(part.heads, part.kind.attention.head_dim)
    with term("inputs kept narrow"):
        narrow = linear_inputs(tokens, hidden, halves, part.ffn_hidden + out, setting.recipe.operand, split)
    with term("inputs kept wide"):
        wide = linear_inputs(tokens, hidden, halves, part.ffn_hidden, setting.element, split)
    return narrow - wide


def _stage_parameters(parameters: StageParameters, pp: Number) -> tuple[Number, Number, Number]:
    """Parameters of the first, a middle and the last stage; one stage holds both ends."""
    alone = pp == 1
    first = parameters.layers + np.where(alone, parameters.both, parameters.embedding)
    last = parameters.layers + np.where(alone, parameters.both, parameters.head)
    return first, parameters.layers, last


def ledger(setting: Setting, block: Block, parameters: StageParameters, micro_batches: Number) -> Ledger:
    """Every line for the first, a middle and the last stage."""
    last_stage = block.pp - 1
    stages = (last_stage - last_stage, np.minimum(last_stage, 1.0), last_stage)
    held = _stage_parameters(parameters, block.pp)
    columns = [
        _stage(setting, block, parameters, held[position], stages[position], micro_batches, position)
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
    stage: Number,
    micro_batches: Number,
    position: int,
) -> dict[str, Number]:
    stack = setting.stack
    with term(f"{STAGES[position]} stage"):
        column = _states(setting, block, held)
        column["weights"] = column["weights"] + _converted(setting, block, parameters.layers)
        live = _live(block, micro_batches, stage)
        activations, extra = _layers(setting, block, live)
        head = _last(setting, block) if position == 2 else np.where(block.pp == 1, _last(setting, block), 0.0)
        column["activations"] = activations + (_first(setting, block, live) if position == 0 else 0.0)
        column["recompute"] = extra
        column["logits"] = head
        column["gathered"] = _gathered(setting, block, parameters, position)
        column["buckets"] = _buckets(setting, block)
        allocated = column["weights"]
        for name in ALLOCATED[1:]:
            allocated = allocated + column[name]
        column["fragmentation"] = reserved_bytes(allocated, setting.fragmentation)
        runtime = stack.runtime
        column["runtime"] = overhead_bytes(runtime.context, runtime.communicators, runtime.communicator)
    return column


def _states(setting: Setting, block: Block, held: Number) -> dict[str, Number]:
    """Weights, gradients and optimizer states of so many parameters; FSDP's gradients stay whole in a pipeline."""
    zero, states = block.structure.zero, setting.stack.states
    moments = setting.case.optimizer.moments
    weights = weight_bytes(
        held, states.weights, states.compute, block.dp, zero=zero, sharded_master=states.sharded_master
    )
    gradients = gradient_bytes(held, setting.gradient, block.dp, zero=zero)
    if states.sharded_master and zero >= 2:
        whole = gradient_bytes(held, setting.gradient, block.dp, zero=1)
        gradients = np.where(block.pp > 1, whole, gradients)
    return {
        "weights": weights,
        "gradients": gradients,
        "optimizer": optimizer_bytes(held, states.master, moments, block.dp, zero=zero),
    }


def _converted(setting: Setting, block: Block, layers: Number) -> Number:
    """What converted weights of the layers add to the kept ones, or take from them where they stand in for them."""
    narrow, zero = setting.narrow, block.structure.zero
    if narrow is None or not narrow.cached:
        return 0.0
    states = setting.stack.states
    with term("converted weights"):
        copies = narrow_copy_bytes(layers, setting.recipe.copies, block.dp, sharded=zero == 3)
    if not narrow.primary:
        return copies
    return copies - weight_bytes(layers, states.weights, states.compute, block.dp, zero=zero, sharded_master=False)


def _live(block: Block, micro_batches: Number, stage: Number) -> Number:
    """Micro-batches in flight; one stage is no pipeline, there each backward follows its forward."""
    schedule = block.structure.schedule
    live = in_flight(block.pp, micro_batches, block.vpp, stage, schedule=schedule)
    return np.where(block.pp == 1, 1.0, live) if schedule == "gpipe" else live


def _layers(setting: Setting, block: Block, live: Number) -> tuple[Number, Number]:
    """Activations of all layers in flight, and the one layer that full recompute holds whole."""
    kept: Number = 0.0
    extra: Number = 0.0
    for kind in setting.model.layers:
        part = shard(setting.model, kind, block.tp)
        layers = layers_per_stage(kind.count, block.pp)
        kept = kept + repeated(live, repeated(layers, layer_activations(setting, block, part)))
        dropped = setting.dropped(block.structure.recompute)
        if dropped == "layer":
            extra = np.maximum(extra, whole_activations(setting, block, part, selective=False))
        elif dropped == "operations":
            whole = whole_activations(setting, block, part, selective=False)
            extra = np.maximum(extra, np.maximum(whole - layer_activations(setting, block, part), 0.0))
    return kept, extra


def _first(setting: Setting, block: Block, live: Number) -> Number:
    if not setting.stack.kernels.dropout:
        return 0.0
    split = block.tp if block.structure.sequence_parallel else 1.0
    tokens = tokens_in_micro_batch(block.micro_batch, setting.sequence)
    return repeated(live, mask_bytes(tokens, setting.model.hidden, setting.element, split))


def _last(setting: Setting, block: Block) -> Number:
    split = block.tp if block.structure.sequence_parallel else 1.0
    tokens = tokens_in_micro_batch(block.micro_batch, setting.sequence)
    logits = logit_bytes(tokens, vocab_per_rank(setting, block.tp), setting.stack.buckets.loss)
    return logits + head_activations(tokens, setting.model.hidden, setting.element, split)


def _gathered(setting: Setting, block: Block, parameters: StageParameters, position: int) -> Number:
    if block.structure.zero != 3:
        return 0.0
    stack = setting.stack
    with term("largest unit"):
        ends = np.where(block.pp == 1, parameters.both, (parameters.embedding, 0.0, parameters.head)[position])
        unit = gathered_bytes(parameters.largest, setting.gathered, setting.gradient, stack.buckets.prefetch)
        outer = repeated(stack.states.compute, ends)
    return np.where(block.dp > 1, unit + outer, 0.0)


def _buckets(setting: Setting, block: Block) -> Number:
    buckets = setting.stack.buckets
    size = repeated(buckets.live, bucket_bytes(buckets.size, buckets.per_rank, block.dp))
    return np.where(block.dp > 1, size, 0.0)
