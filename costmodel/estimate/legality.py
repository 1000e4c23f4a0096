"""Which plans make sense, and the named reason why not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.equation import Number
from costmodel.equations.counting import (
    divided,
    micro_batches_per_step,
    remainder,
    repeated,
    world_size,
)
from costmodel.estimate.block import Block
from costmodel.estimate.setting import Setting

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Rule:
    """A reason to refuse a plan, or to remark on it."""

    title: str
    meaning: str


REFUSALS = {
    "L001": Rule("dp tp pp ≠ ranks", "The degrees multiply to another number than the cluster has accelerators."),
    "L002": Rule(
        "layers % (pp vpp)", "Every model chunk holds the same number of layers, so pp · vpp must divide the layers."
    ),
    "L003": Rule("heads % tp", "Tensor parallelism gives every rank whole query heads, so tp must divide the heads."),
    "L004": Rule(
        "kv heads, tp", "tp must divide the key and value heads, or be a multiple of them, which repeats them."
    ),
    "L005": Rule(
        "batch % (dp micro_batch)", "The global batch must be a whole number of micro-batches on every replica."
    ),
    "L006": Rule("micro-batches % pp", "The interleaved schedule needs a number of micro-batches that pp divides."),
    "L007": Rule("widths % tp", "tp must divide the MLP's inner width and the hidden width."),
    "L008": Rule("sequence % tp", "Sequence parallelism splits the sequence over tp ranks, so tp must divide it."),
    "L009": Rule("schedule, pp, vpp", "Interleaved needs pp ≥ 2 and vpp ≥ 2; the other schedules need vpp = 1."),
    "L010": Rule(
        "same plan again",
        "At tp = 1 sequence parallelism changes nothing; at pp = 1 all schedules are one; at dp = 1 all zero stages.",
    ),
    "L011": Rule(
        "not in the stack", "The training software does not offer this zero stage, recompute mode or schedule."
    ),
    "M001": Rule("does not fit", "Peak memory of the worst stage is over what is usable."),
    "M002": Rule("memory limit", "Peak memory is over the limit the scenario sets."),
    "T001": Rule("time or MFU limit", "The step is longer, or the MFU lower, than the scenario allows."),
}

REMARKS = {
    "N001": Rule(
        "tp leaves the domain", "Tensor parallelism reaches across nodes, where its many small collectives are slow."
    ),
    "N002": Rule(
        "kv heads repeat", "tp exceeds the key and value heads; they and their cache repeat on several ranks."
    ),
    "N003": Rule("tight", "Peak memory is between 90 and 100 % of what is usable; a small change may not fit."),
    "N004": Rule("outside the fit", "A matmul has a side under 256, where the efficiency was not fitted."),
}


def micro_batches(setting: Setting, block: Block) -> Number:
    """Micro-batches of a replica in a step."""
    return micro_batches_per_step(setting.global_batch, block.dp, block.micro_batch)


def _rest(amount: Number, parts: Number) -> Mask:
    return np.asarray(remainder(amount, parts) != 0)


def refusals(setting: Setting, block: Block, *, searching: bool = True) -> Iterator[tuple[str, Mask]]:
    """Masks of refused rows by reason, in the order they are asked."""
    structure, stack = block.structure, setting.stack
    offered = (
        structure.zero in stack.zero
        and structure.recompute in stack.recompute
        and structure.schedule in stack.schedules
    )
    yield "L011", np.full(len(block), not offered)
    node = setting.case.node
    ranks = world_size(setting.case.scenario.cluster.nodes, node.accelerators)
    yield "L001", np.asarray(repeated(block.dp, repeated(block.tp, block.pp)) != ranks)
    layers = sum(kind.count for kind in setting.model.layers)
    yield "L002", _rest(layers, repeated(block.pp, block.vpp))
    for kind in setting.model.layers:
        kv_heads = kind.attention.kv_heads
        yield "L003", _rest(kind.attention.heads, block.tp)
        yield "L004", _rest(kv_heads, block.tp) & _rest(block.tp, kv_heads)
        yield "L007", _rest(kind.mlp.ffn_hidden, block.tp) | _rest(setting.model.hidden, block.tp)
    yield "L005", _rest(setting.global_batch, repeated(block.dp, block.micro_batch))
    if structure.schedule == "interleaved":
        yield "L009", (block.pp < 2) | (block.vpp < 2)
        yield "L006", _rest(micro_batches(setting, block), block.pp)
    else:
        yield "L009", np.asarray(block.vpp != 1)
    if structure.sequence_parallel:
        yield "L008", _rest(setting.sequence, block.tp)
    if searching:
        yield "L010", _repeats(setting, block)


def _repeats(setting: Setting, block: Block) -> Mask:
    """Rows that are another row of the same search under a different name."""
    structure, stack = block.structure, setting.stack
    same = np.zeros(len(block), dtype=bool)
    if structure.sequence_parallel != stack.sequence_parallel:
        same |= block.tp == 1
    if structure.zero != min(stack.zero):
        same |= block.dp == 1
    if structure.schedule == "gpipe":
        same |= block.pp == 1
    idle = stack.kernels.selective == "core-attention" and stack.kernels.attention != "unfused"
    if structure.recompute == "selective" and idle:
        same |= True
    return same


def legal(setting: Setting, block: Block, *, searching: bool = True) -> tuple[Mask, dict[str, int]]:
    """The rows that make sense, and how many were refused first for each reason."""
    keep = np.ones(len(block), dtype=bool)
    counts: dict[str, int] = {}
    for code, refused in refusals(setting, block, searching=searching):
        fresh = int(np.count_nonzero(keep & refused))
        if fresh:
            counts[code] = counts.get(code, 0) + fresh
            keep &= ~refused
    return keep, counts


def remarks(setting: Setting, block: Block) -> Iterator[tuple[str, Mask]]:
    """What a legal plan should be told."""
    yield "N001", np.asarray(block.tp > setting.domain)
    kv_heads = min(kind.attention.kv_heads for kind in setting.model.layers)
    yield "N002", np.asarray(block.tp > kv_heads)
    narrow = min(kind.mlp.ffn_hidden for kind in setting.model.layers)
    yield "N004", np.asarray(divided(narrow, block.tp) < 256)
