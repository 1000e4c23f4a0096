"""The degrees, layers and sequences of a measured run: as stated, else by fixed rules."""

from __future__ import annotations

import math
import re

from costmodel.documents.reader.resolved_scenario import proxy_node
from costmodel.documents.schemas.hardware import Node
from costmodel.documents.schemas.stack import Stack
from costmodel.estimate.training.parallelism.pipeline import LOOPED, fewest_micro_batches, is_later
from costmodel.evidence.validate.imputation import LAST_OF_2021, Filling
from costmodel.evidence.validate.spelling import CannotModel, invalid, needed
from costmodel.ground.record import record

LAST_BY_STAGE = 2024
DEGREES = ("tp", "pp", "cp", "dp")
_GROUP = re.compile(r"(?:FSDP group|zero1_group)=([1-9]\d*)")
_SLICES = re.compile(r"\bslices=([1-9]\d*)")


@record
class RowLayout:
    """The degrees of a row."""

    ranks: float
    tp: float
    pp: float
    dp: float
    cp: float

    @property
    def in_stage(self) -> float:
        """Ranks of a pipeline stage."""
        return float(self.ranks / self.pp)


def layout_of(filling: Filling) -> RowLayout:
    """The parallel degrees of a row; a missing degree follows from the ranks and the others, dp first."""
    row = filling.row
    ranks, dp = row.number("gpus"), row.number("dp")
    unstated = [name for name in DEGREES if row.number(name) is None]
    left = "" if ranks is None else "dp" if dp is None else next(iter(unstated), "")
    unknown = [name for name in unstated if name in ("tp", "pp")]
    alone = filling.sharded() or (dp is not None and dp == ranks)
    if not alone and set(unknown) - {left}:
        raise CannotModel("V006", f"{', '.join(unknown)} empty")
    if ranks is None:
        next(needed(row, "dp"))
    degrees = {name: filling.number(name, 1.0) for name in DEGREES if name != left}
    whole = math.prod(degrees.values())
    if ranks is None:
        ranks = filling.infer("gpus", whole)
    if left:
        if not (ranks / whole).is_integer():
            raise invalid("L001")
        degrees[left] = filling.infer(left, ranks / whole) if left != "dp" else ranks / whole
    return RowLayout(ranks, **degrees)


def micro_batch(filling: Filling, global_batch: float, dp: float, usual: float) -> float:
    """The micro-batch of a row: stated, else by gradient accumulation, else by rule so that it divides the batch."""
    row = filling.row
    stated, accumulated = row.number("micro_batch"), row.number("grad_accum")
    if stated is not None:
        return stated
    share = global_batch / dp
    if accumulated is not None and (share / accumulated).is_integer():
        return filling.put("micro_batch", share / accumulated)
    wanted = max(1.0, float(round(usual)))
    while wanted > 1 and not (share / wanted).is_integer():
        wanted -= 1
    return filling.put("micro_batch", wanted)


def usual_micro_batch(filling: Filling, share: float, pp: float, tokens: float) -> float:
    """Sequences of a micro-batch that is not stated: torchtitan's defaults, else one in a pipeline, else by tokens.

    torchtitan does not accumulate; in a pipeline it made a micro-batch for each stage, since 2025 of one sequence.
    """
    if "torchtitan" not in filling.row.text("framework").lower():
        return 1.0 if pp > 1 else tokens
    if pp == 1:
        return share
    return share / pp if filling.year() <= LAST_BY_STAGE else 1.0


def replicas(filling: Filling, dp: float) -> float:
    """Number of shard replicas, from the group that FSDP or ZeRO 1 names, or from slices of the cluster; else 1."""
    features = filling.features()
    named = _GROUP.search(f"{features} {filling.row.text('notes')}")
    if named is None and (slices := _SLICES.search(features)):
        return filling.put("dp_replicate", 1.0 if dp % float(slices[1]) else float(slices[1]))
    group = float(named[1]) if named else (_hsdp_shard_ranks(filling) or dp) if "HSDP" in features else dp
    if group >= dp:
        return 1.0
    return filling.put("dp_replicate", 1.0 if dp % group else dp / group)


def _hsdp_shard_ranks(filling: Filling) -> float | None:
    """Ranks over which HSDP shards: those of a node, or of a domain of links that is larger than a node."""
    stand = proxy_node(filling.shelf, filling.accelerator())
    if stand is None:
        return filling.row.number("gpus_per_node")
    node: Node = filling.shelf.document("node", stand.node)
    linked = node.scale_up.domain > node.accelerators
    return node.scale_up.domain if linked else filling.row.number("gpus_per_node")


def chunks(filling: Filling, stack: Stack, layers: float, pp: float, count: float, *, schedule: str) -> float:
    """Model chunks per pipeline rank: as stated, else the most that divide a stage's layers."""
    stated = filling.row.number("vp")
    if pp == 1:
        return 1.0 if stated in (None, 1.0) else filling.put("vp", 1.0)
    if stated is not None:
        return stated
    most = 2 if filling.year() <= LAST_OF_2021 else 8
    fullest = math.ceil(layers / pp)
    shown = schedule in LOOPED or (not schedule and "vp" in filling.row.written)
    fit = shown and "interleaved" in stack.schedules and math.fmod(count, pp) == 0
    filled = [v for v in range(2, most + 1) if fit and fullest % v == 0 and float(pp * v) <= layers + 2]
    return filling.put("vp", float(max(filled, default=2 if schedule in LOOPED else 1)))


def usual_schedule(filling: Filling, stack: Stack, layers: float, pp: float, count: float) -> str:
    """The schedule of a pipeline where none is named: the stack's first, DualPipe of HAI-LLM, where it can run."""
    usual = stack.schedules[0]
    enough = bool(count >= fewest_micro_batches(usual, pp))
    can = pp % 2 == 0 and layers % pp == 0 and enough and filling.row.number("vp") is None
    return filling.put("schedule", usual) if is_later(usual) and can else "1f1b"


def split(filling: Filling, layers: float, chunks: float) -> str:
    """How layers are split over pipeline stages: the even or uneven split that the numbers allow."""
    if layers % chunks == 0:
        return "even"
    if (layers + 2) % chunks == 0:
        return filling.put("stages", "lighter-ends")
    if (layers + 1) % chunks == 0:
        return filling.put("stages", "lighter-last")
    missing = -layers % chunks
    full = filling.by_nvidia() and missing < 2 * math.ceil(layers / chunks)
    return filling.put("stages", "full-chunks" if full else "spread")
