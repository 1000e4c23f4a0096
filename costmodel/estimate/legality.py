"""Which plans make sense, and the named reason why not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.library import UNMEASURED
from costmodel.documents.model import Layers
from costmodel.documents.plan import Space
from costmodel.equation import Number
from costmodel.equations.counting import (
    divided,
    micro_batches_per_step,
    remainder,
    repeated,
    world_ranks,
)
from costmodel.estimate.block import Block, local_sequence
from costmodel.estimate.choices import choices_offered, too_many_layers, unknown_host, wrong_keys, wrong_offload
from costmodel.estimate.context_legality import chunked_sequence, context_not_offered, heads_exchanged, shard_replicas
from costmodel.estimate.expert_legality import expert_ranks, expert_widths, no_experts, whole_experts, whole_sequences
from costmodel.estimate.schedules import wrong_batches, wrong_shape
from costmodel.estimate.setting import Setting
from costmodel.estimate.split import indivisible, layer_count

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Rule:
    """A reason to refuse a plan, or to remark on it."""

    title: str
    meaning: str


REFUSALS = {
    "L001": Rule("dp tp cp pp ≠ ranks", "The degrees multiply to another number than the cluster has accelerators."),
    "L002": Rule(
        "layers % (pp vpp)",
        "pp · vpp must divide the layers, or them and the ends that the split counts as a layer; split: spread divides "
        "any, first_stage_layers and last_stage_layers state the ends.",
    ),
    "L003": Rule("heads % tp", "Tensor parallelism gives every rank whole query heads, so tp must divide the heads."),
    "L004": Rule(
        "kv heads, tp", "tp must divide the key and value heads, or be a multiple of them, which repeats them."
    ),
    "L005": Rule(
        "batch % (dp micro_batch)", "The global batch must be a whole number of micro-batches on every replica."
    ),
    "L006": Rule(
        "micro-batches, pp",
        "interleaved and chimera need a number of micro-batches that pp divides; zb-h1, looped-bfs at least pp; zb-h2, "
        "zb-v at least 2 pp − 1; v-half, v-min, dualpipev, dualpipe 2 pp, the last an even number.",
    ),
    "L007": Rule("widths % tp", "tp must divide the MLP's inner width and the hidden width."),
    "L008": Rule(
        "sequence % tp", "Sequence parallelism splits a rank's part of the sequence over tp, so tp must divide it."
    ),
    "L009": Rule(
        "schedule, pp, vpp",
        "interleaved and looped-bfs need pp ≥ 2 and vpp ≥ 2; zb-v, v-half, v-min and dualpipev vpp = 2; all others "
        "vpp = 1; dualpipe and chimera an even pp.",
    ),
    "L010": Rule(
        "same plan again",
        "At tp = 1 sequence parallelism changes nothing; at pp = 1 all schedules are one; at dp = cp = 1 all zero "
        "stages; at cp = 1 all cp_type.",
    ),
    "L011": Rule(
        "not in the stack", "The training software does not offer this zero stage, recompute mode or schedule."
    ),
    "L012": Rule(
        "sequence too long", "The sequence has more tokens than the model has learned positions for (max_sequence)."
    ),
    "L020": Rule("experts % ep", "Every rank holds whole experts, so ep must divide the experts of a layer."),
    "L021": Rule(
        "tp cp dp % (ep etp)",
        "Experts cut the ranks of a pipeline stage a second way, so ep · etp must divide tp · cp · dp, within each of "
        "dp_replicate replicas; EP adds no ranks.",
    ),
    "L022": Rule("expert width % etp", "etp must divide the inner width of an expert."),
    "L023": Rule(
        "experts, whole sequences",
        "With tp ≥ 2 a model with experts needs sequence parallelism: every rank sends its own tokens to the experts.",
    ),
    "L024": Rule("no experts", "The model has no experts for ep or etp to cut."),
    "L030": Rule(
        "sequence % (2 cp)",
        "A ring and gathered keys and values cut the sequence in 2 cp chunks, an early and a late one for each rank, "
        "so that causal attention is even; all-to-all cuts it in cp.",
    ),
    "L031": Rule(
        "heads % (tp cp)",
        "All-to-all context parallelism, and any of state-space layers, gives every rank whole heads, so tp · cp must "
        "divide the heads, and cp the key and value heads of a rank.",
    ),
    "L032": Rule(
        "dp_replicate", "Replicas of the shards must divide dp, and only zero 1 to 3 shards at all; otherwise it is 1."
    ),
    "L033": Rule("no such cp_type", "The training software does not offer this way of context parallelism."),
    "L040": Rule(
        "recompute keys",
        "recompute_modules belong to selective recompute, recompute_layers and recompute_method to full.",
    ),
    "L041": Rule("recompute layers", "A model chunk has no more layers than that; all of them is recompute: full."),
    "L042": Rule(
        "offload keys",
        "Parameters leave the device under zero 3 only, and with the optimizer; offload_to is for these two, "
        "offload_layers for activations.",
    ),
    "L043": Rule("host unknown", "Offload needs what the node's document may lack: host, memory, and for nvme drives."),
    "M001": Rule("does not fit", "Peak memory of the worst stage is over what is usable."),
    "M002": Rule("memory limit", "Peak memory is over the limit the scenario sets."),
    "M003": Rule("host too small", "What is offloaded takes more than the host's memory, or drives, of the node."),
    "T001": Rule("limit of the scenario", "A result other than memory is beyond a limit that the scenario sets."),
}

REMARKS = {
    "N001": Rule(
        "tp leaves the domain", "Tensor parallelism reaches across nodes, where its many small collectives are slow."
    ),
    "N002": Rule("kv heads repeat", "tp exceeds the key and value heads; they repeat on several ranks."),
    "N003": Rule("tight", "Peak memory is between 90 and 100 % of what is usable; a small change may not fit."),
    "N005": Rule(
        "never fitted",
        "No measured kernels of this accelerator were fitted; constants common to all are used, and bands are wider.",
    ),
    "N006": Rule(
        "longer than trained",
        "The sequence is longer than the model's max_sequence; rotary positions may need scaling.",
    ),
    "N007": Rule(
        "convention of GPT blocks", "That FLOP convention counts multi-head attention and an MLP of four times hidden."
    ),
    "N004": Rule("outside the fit", "A matmul has a side under 256, where the efficiency was not fitted."),
}


def micro_batches(setting: Setting, block: Block) -> Number:
    """Micro-batches of a replica in a step."""
    return micro_batches_per_step(setting.global_batch, block.dp, block.micro_batch)


def _rest(amount: Number, parts: Number) -> Mask:
    return np.asarray(remainder(amount, parts) != 0)


def _not_offered(setting: Setting, block: Block) -> Mask:
    structure, stack = block.structure, setting.stack
    offered = structure.zero in stack.zero and structure.recompute in stack.recompute
    offered = offered and choices_offered(setting, block)
    return np.full(len(block), not (offered and structure.schedule in stack.schedules))


def _other_world(setting: Setting, block: Block) -> Mask:
    ranks = setting.ranks
    return np.asarray(world_ranks(block.dp, block.tp, block.cp, block.pp) != ranks) | _rest(block.dp, 1.0)


def _too_long(setting: Setting, block: Block) -> Mask:
    learned = setting.model.positions == "learned"
    return np.full(len(block), learned and setting.sequence > setting.model.max_sequence)


def _heads(setting: Setting, block: Block) -> Mask:
    return _any(_rest(heads, block.tp) for kind in _kinds(setting) if (heads := kind.heads) is not None)


def _kv_heads(setting: Setting, block: Block) -> Mask:
    counts = {kind.attention.kv_heads for kind in _kinds(setting) if kind.attention is not None}
    return _any(_rest(kv_heads, block.tp) & _rest(block.tp, kv_heads) for kv_heads in counts)


def _widths(setting: Setting, block: Block) -> Mask:
    widths = {setting.model.hidden, *(kind.dense.ffn_hidden for kind in _kinds(setting) if kind.dense is not None)}
    return _any(_rest(width, block.tp) for width in widths)


def _sequence(setting: Setting, block: Block) -> Mask:
    if not block.structure.sequence_parallel:
        return np.zeros(len(block), dtype=bool)
    return _rest(local_sequence(setting.sequence, block), block.tp)


def _uneven(setting: Setting, block: Block) -> Mask:
    return _rest(layer_count(setting.model), repeated(block.pp, block.vpp))


def _layers(setting: Setting, block: Block) -> Mask:
    return indivisible(setting.model, block)


def _chunks(setting: Setting, block: Block) -> Mask:
    return wrong_shape(block)


def _batch(setting: Setting, block: Block) -> Mask:
    return _rest(setting.global_batch, repeated(block.dp, block.micro_batch))


def _batches_of_schedule(setting: Setting, block: Block) -> Mask:
    return wrong_batches(block, micro_batches(setting, block))


SWAPPED = {"tp-cp-pp-dp": ("dp", "pp"), "tp-dp-cp-pp": ("cp", "dp")}  # against tp-cp-dp-pp


def _repeats(setting: Setting, block: Block) -> Mask:
    """Rows that are another row of the same search under a different name; of each such set one stays."""
    structure, stack, space = block.structure, setting.stack, setting.case.scenario.search or Space()
    same = np.zeros(len(block), dtype=bool)
    if structure.sequence_parallel != stack.sequence_parallel:
        same |= (block.tp == 1) & (stack.sequence_parallel in (space.sequence_parallel or [stack.sequence_parallel]))
    zeros = set(space.zero or stack.zero).intersection(stack.zero)
    if structure.zero != min(zeros, default=structure.zero):
        same |= (block.dp == 1) & (block.cp == 1)
    if structure.schedule == "gpipe":
        same |= (block.pp == 1) & ("1f1b" in (space.schedule or stack.schedules))
    if space.split and structure.split != space.split[0]:
        same |= (block.pp == 1) | ((structure.split == "spread") & ("even" in space.split) & ~_uneven(setting, block))
    if structure.order in SWAPPED:
        one, other = (getattr(block, name) for name in SWAPPED[structure.order])
        same |= ((one == 1) | (other == 1)) & ("tp-cp-dp-pp" in (space.order or ["tp-cp-dp-pp"]))
    kinds = space.cp_type or stack.context_parallel
    if kinds and structure.cp_type != kinds[0]:
        same |= block.cp == 1
    idle = structure.recompute == "selective" and setting.dropped(structure.recompute) == "nothing"
    idle = idle and not structure.recompute_modules
    return same | (idle and "none" in (space.recompute or stack.recompute))


def _kinds(setting: Setting) -> Iterator[Layers]:
    """Every kind of layer, that of multi-token prediction too."""
    yield from setting.model.layers
    if setting.model.prediction is not None:
        yield setting.model.prediction.layer


def _any(masks: Iterator[Mask]) -> Mask:
    found: Mask = np.asarray(False)
    for mask in masks:
        found = found | mask
    return found


@dataclass(frozen=True)
class Check:
    """A rule's test, and the sizes it looks at: a grid is thinned as soon as those are known."""

    code: str
    needs: frozenset[str]
    refused: Callable[[Setting, Block], Mask]


def _check(code: str, needs: str, refused: Callable[[Setting, Block], Mask]) -> Check:
    return Check(code, frozenset(needs.split()), refused)


CHECKS = (
    _check("L011", "", _not_offered),
    _check("L012", "", _too_long),
    _check("L040", "", wrong_keys),
    _check("L041", "pp vpp", too_many_layers),
    _check("L042", "", wrong_offload),
    _check("L043", "", unknown_host),
    _check("L001", "dp tp cp pp", _other_world),
    _check("L003", "tp", _heads),
    _check("L004", "tp", _kv_heads),
    _check("L007", "tp", _widths),
    _check("L033", "cp", context_not_offered),
    _check("L030", "cp", chunked_sequence),
    _check("L031", "tp cp", heads_exchanged),
    _check("L008", "tp cp", _sequence),
    _check("L032", "dp dp_replicate", shard_replicas),
    _check("L010", "dp tp cp pp", _repeats),
    _check("L023", "tp", whole_sequences),
    _check("L024", "ep etp", no_experts),
    _check("L020", "ep", whole_experts),
    _check("L022", "etp", expert_widths),
    _check("L021", "dp tp cp ep etp dp_replicate", expert_ranks),
    _check("L009", "pp vpp", _chunks),
    _check("L002", "pp vpp", _layers),
    _check("L005", "dp micro_batch", _batch),
    _check("L006", "dp pp micro_batch", _batches_of_schedule),
)
OF_A_SEARCH = frozenset({"L010"})


def legal(setting: Setting, block: Block, checks: Iterable[Check]) -> tuple[Mask, dict[str, int]]:
    """The rows that pass, and how many were refused first for each reason."""
    keep = np.ones(len(block), dtype=bool)
    counts: dict[str, int] = {}
    for check in checks:
        refused = keep & check.refused(setting, block)
        fresh = int(np.count_nonzero(refused))
        if fresh:
            counts[check.code] = fresh
            keep &= ~refused
    return keep, counts


def refusals(setting: Setting, block: Block) -> tuple[str, ...]:
    """Every reason to refuse the plan of a block of one row."""
    return tuple(
        check.code for check in CHECKS if check.code not in OF_A_SEARCH and check.refused(setting, block).any()
    )


def remarks(setting: Setting, block: Block) -> Iterator[tuple[str, Mask]]:
    """What a legal plan should be told."""
    yield "N001", np.asarray(block.tp > setting.domain)
    yield "N005", np.full(len(block), setting.case.efficiency.of == UNMEASURED)
    counts = [kind.attention.kv_heads for kind in setting.model.layers if kind.attention is not None]
    yield "N002", np.asarray(block.tp > min(counts, default=math.inf))
    yield "N004", _any(np.asarray(divided(width, block.tp) < 256) for width in _inner_widths(setting))
    yield "N007", np.full(len(block), setting.convention in ("megatron-2021", "korthikanti") and not _gpt(setting))
    longer = setting.sequence > setting.model.max_sequence
    yield "N006", np.full(len(block), longer and setting.model.positions != "learned")


def _gpt(setting: Setting) -> bool:
    """Whether every layer is what Megatron's closed forms count."""
    wide = float(repeated(4.0, setting.model.hidden))
    return all(_gpt_layer(kind, wide) for kind in setting.model.layers)


def _gpt_layer(kind: Layers, wide: float) -> bool:
    mlp, attention = kind.mlp, kind.attention
    if mlp is None or attention is None:
        return False
    return not mlp.gated and mlp.ffn_hidden == wide and attention.kv_heads == attention.heads


def _inner_widths(setting: Setting) -> Iterator[Number]:
    """Sides of a layer's matmuls that tensor parallelism cuts."""
    for kind in setting.model.layers:
        if kind.dense is not None:
            yield kind.dense.ffn_hidden
        if kind.attention is not None:
            yield repeated(kind.attention.heads, kind.attention.head_dim)
