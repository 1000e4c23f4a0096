"""One plan, and a space of plans: the same keys, with lists."""

from typing import Literal

from pydantic import Field

from costmodel.documents.schemas.base import Document, ZeroStage, no_items, optional
from costmodel.documents.schemas.compression import Compression
from costmodel.documents.schemas.count_kinds import Chunks, Gpus, LayerCount, Replicas, Sequences, SomeLayers, Stages
from costmodel.documents.schemas.precision import Precision
from costmodel.documents.schemas.sites import Sites
from costmodel.documents.schemas.sync import USUAL, Synchronisation
from costmodel.ground.counts import (
    ContextParallel,
    Method,
    Module,
    Offloaded,
    Order,
    Recompute,
    Schedule,
    Split,
    Where,
)

Shares = Literal["proportional", "equal", "stages"]


class Plan(Document):
    """How one job is laid out; what is left out follows from the rest or from the stack."""

    dp: Replicas | None = optional("Data-parallel degree; by default derived from the other degrees")
    tp: Gpus = Field(default=1, description="Tensor-parallel degree")
    pp: Stages = Field(default=1, description="Pipeline stages")
    vpp: Chunks = Field(default=1, description="Model chunks per pipeline rank")
    micro_batch: Sequences = Field(default=1, description="Sequences in a forward pass of one replica")
    ep: Gpus = Field(
        default=1, description="Expert-parallel degree; divides the same ranks a second time and adds none"
    )
    etp: Gpus | None = optional("Expert-tensor-parallel degree: ranks that share each expert; default: the stack's")
    cp: Gpus = Field(default=1, description="Context-parallel degree: ranks that share each sequence")
    cp_type: ContextParallel | None = optional(
        "How cp ranks exchange keys and values: p2p (a ring), all-gather, or a2a (over the heads)"
    )
    dp_replicate: Replicas = Field(
        default=1, description="Replicas of the shards; dp / dp_replicate ranks share one copy"
    )
    zero: ZeroStage | None = optional("What is sharded over dp: 1 optimizer, 2 + gradients, 3 + weights")
    recompute: Recompute | None = optional("What is recomputed in backward instead of saved")
    recompute_modules: list[Module] | None = optional("Modules that selective recompute drops; default: the stack's")
    recompute_layers: SomeLayers | None = optional(
        "Layers that full recompute applies to (block) or recomputes together (uniform)"
    )
    recompute_method: Method = Field(
        default="block",
        description="block: the first layers of every model chunk; uniform: all layers, in groups of this size",
    )
    offload: list[Offloaded] = Field(default_factory=no_items, description="What is offloaded to the host")
    offload_to: Where = Field(default="cpu", description="Where offloaded optimizer states and parameters are stored")
    offload_layers: LayerCount | None = optional("Layers of the model whose activations are offloaded; default: all")
    schedule: Schedule | None = optional("Pipeline schedule")
    sequence_parallel: bool | None = optional("Shard norms and dropout over tp along the sequence")
    order: Order = Field(default="tp-cp-dp-pp", description="Placement of groups on the topology, innermost first")
    split: Split | None = optional(
        "How layers are assigned to stages; default: even if possible, otherwise one fewer at both ends or at the last"
    )
    first_stage_layers: LayerCount | None = optional("Layers of the first stage, instead of a split")
    last_stage_layers: LayerCount | None = optional("Layers of the last stage, instead of a split")
    compression: Compression = Field(
        default="none",
        description="Compression of gradients on the network: none, fp16, int8, one-bit, top-k 0.1 %, powersgd 4",
    )
    shares: Shares = Field(
        default="proportional",
        description="For unequal groups of nodes: proportional (micro-batches by speed), equal, or stages (each "
        "pipeline spans all groups in order, with layers by speed)",
    )
    sites: Sites | None = optional("Sites that synchronise from time to time; default: one site")
    sync: Synchronisation = Field(
        default=USUAL,
        description="How replicas synchronise: all-reduce; parameter-server N, with N extra server machines; "
        "async; stale N, at most N steps apart; first N, waiting only for the first N replicas",
    )


class Space(Document):
    """Lists of the plan's keys; one left out takes what --set gives the plan, or else every value that makes sense."""

    dp: list[Replicas] | None = Field(default=None, min_length=1, description="Data-parallel degrees")
    tp: list[Gpus] | None = Field(default=None, min_length=1, description="Tensor-parallel degrees")
    pp: list[Stages] | None = Field(default=None, min_length=1, description="Pipeline stages")
    vpp: list[Chunks] | None = Field(default=None, min_length=1, description="Model chunks per pipeline rank")
    micro_batch: list[Sequences] | None = Field(default=None, min_length=1, description="Sequences in a forward pass")
    ep: list[Gpus] | None = Field(default=None, min_length=1, description="Expert-parallel degrees")
    etp: list[Gpus] | None = Field(default=None, min_length=1, description="Expert-tensor-parallel degrees; else 1")
    cp: list[Gpus] | None = Field(
        default=None, min_length=1, description="Context-parallel degrees; default: 1, or more from 16,384 tokens"
    )
    cp_type: list[ContextParallel] | None = Field(default=None, min_length=1, description="Ways of context parallelism")
    dp_replicate: list[Replicas] | None = Field(
        default=None, min_length=1, description="Replicas of the shards; default: 1"
    )
    zero: list[ZeroStage] | None = Field(default=None, min_length=1, description="Sharding stages")
    recompute: list[Recompute] | None = Field(default=None, min_length=1, description="Recompute modes")
    recompute_modules: list[list[Module]] | None = Field(
        default=None, min_length=1, description="Sets of modules that selective recompute drops"
    )
    recompute_layers: list[SomeLayers] | None = Field(
        default=None, min_length=1, description="Layers of every model chunk that full recompute applies to"
    )
    recompute_method: list[Method] | None = Field(
        default=None, min_length=1, description="Ways to count recompute_layers; default: block"
    )
    offload: list[list[Offloaded]] | None = Field(
        default=None, min_length=1, description="Sets of what is offloaded to the host; [] for nothing"
    )
    offload_to: list[Where] | None = Field(
        default=None,
        min_length=1,
        description="Where offloaded optimizer states and parameters are stored; default: cpu",
    )
    offload_layers: list[LayerCount] | None = Field(
        default=None,
        min_length=1,
        description="Layers of the model whose activations are offloaded, to try; default: all",
    )
    schedule: list[Schedule] | None = Field(default=None, min_length=1, description="Pipeline schedules")
    sequence_parallel: list[bool] | None = Field(default=None, min_length=1, description="With, without, or both")
    precision: list[Precision] | None = Field(
        default=None, min_length=1, description="Precisions to try, instead of the workload's"
    )
    order: list[Order] | None = Field(default=None, min_length=1, description="Placements of groups, innermost first")
    split: list[Split] | None = Field(default=None, min_length=1, description="Ways to split layers into stages")
    first_stage_layers: list[LayerCount] | None = Field(
        default=None, min_length=1, description="Layers of the first stage to try, in addition to the splits"
    )
    last_stage_layers: list[LayerCount] | None = Field(
        default=None, min_length=1, description="Layers of the last stage to try, in every pair with those of the first"
    )
    compression: list[Compression] | None = Field(
        default=None, min_length=1, description="Compressions of gradients to try; default: none"
    )
    sync: list[Synchronisation] | None = Field(
        default=None, min_length=1, description="Kinds of plan.sync to try; default: all-reduce"
    )
    shares: list[Shares] | None = Field(
        default=None, min_length=1, description="Kinds of plan.shares to try; default: proportional"
    )
