"""Training scenarios: the workload, its optimizer and adapters, the plan, and assumptions."""

import functools
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    ModelWrapValidatorHandler,
    PlainValidator,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from costmodel.documents.keys.paths import REFERENCES
from costmodel.documents.schemas.base import (
    TOKENS,
    Bytes,
    Chunks,
    Count,
    Document,
    Elements,
    FromTokens,
    Gpus,
    InTokens,
    LayerCount,
    Multiple,
    Name,
    ParameterBytes,
    PartIn,
    Portion,
    Positive,
    Price,
    Quantity,
    Rent,
    Replicas,
    Seconds,
    Sequences,
    Share,
    Sites,
    SomeLayers,
    Source,
    Sourced,
    Stages,
    StragglerAssumption,
    Tokens,
    TrainingImages,
    ZeroStage,
    as_written,
    items,
    keyed,
    listed,
    off,
    optional,
)
from costmodel.documents.schemas.compression import Compression, CompressionAssumption
from costmodel.documents.schemas.hardware import Cluster
from costmodel.documents.schemas.model import Layers, ModelReference
from costmodel.documents.schemas.precision import DispatchType, Precision
from costmodel.documents.schemas.stack import GradientType, StackReference
from costmodel.documents.schemas.sync import USUAL, Synchronisation
from costmodel.ground.counts import ContextParallel, Method, Module, Offloaded, Order, Recompute, Schedule, Split, Where
from costmodel.ground.parsing import UnitError, late_pattern, parse
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.documents.schemas.run import WholeRun
else:
    WholeRun = Annotated[Any, PartIn("run.WholeRun")]

Fit = Literal["kaplan", "deepseek"]
_FORM = late_pattern(r"(kaplan|deepseek)(?: +(.+))?")
_OF: dict[str, tuple[str, float, float, str]] = {
    "kaplan": ("1", 0.5, 20.0, "kaplan 2.0, of a loss in nats a token"),
    "deepseek": ("FLOP", 1e15, 1e30, "deepseek 1e24 FLOP, of the work of the run"),
}


@record
class BatchFit:
    """A published fit of the critical batch, and the loss or total work at which it is evaluated."""

    fit: Fit
    at: float


@functools.lru_cache(maxsize=64)
def batch_fit(text: str) -> BatchFit:
    """The fit that a text such as "kaplan 2.0" names.

    >>> batch_fit("kaplan 2.0")
    BatchFit(fit='kaplan', at=2.0)
    """
    match = _FORM.fullmatch(" ".join(text.split()))
    assert match is not None
    fit: Any = match[1]
    unit, least, most, wanted = _OF[fit]
    try:
        at = parse(match[2] or "", unit)
    except UnitError:
        at = 0.0
    if not least <= at <= most:
        sentence = "{given} is no critical batch; write {wanted}"
        raise PydanticCustomError("quantity_unit", sentence, {"given": f"'{text[:40]}'", "wanted": wanted})
    return BatchFit(fit, at)


def _critical(value: Any) -> Any:
    """A number of tokens, or the text of a fit."""
    if isinstance(value, str) and _FORM.fullmatch(" ".join(value.split())):
        batch_fit(str(value))
        return value
    return TOKENS.validate(value)


CriticalBatch = Annotated[
    float | str,
    PlainValidator(_critical),
    WithJsonSchema({"type": ["string", "number"], "examples": ["4 M", "kaplan 2.0", "deepseek 1e24 FLOP"]}),
]


class Projection(Document):
    """Gradients of a layer's matrices in a subspace of low rank, where their states live (GaLore)."""

    rank: Count = Field(description="Rank of the subspace")


class Orthogonalisation(Document):
    """Updates of matrices with equal singular values, by Newton-Schulz steps (Muon)."""

    steps: Count = Field(description="Newton-Schulz steps")


class Optimizer(Sourced):
    """One optimizer: its states, not its arithmetic, decide memory and the time of its step."""

    schema_: Literal["costmodel/optimizer/v1"] = Field(alias="schema", description="Kind and version of this document")
    name: Name = Field(description="Name; equals the file name")
    title: str = Field(description="Full name")
    moments: ParameterBytes = Field(description="Bytes of its states for a parameter, without the master copy")
    root: Bytes | None = optional("Root of its second moment, which a step that is not fused makes")
    as_weights: bool = off("Whether its fp32 states have 16 bits where training software keeps nothing in fp32")
    in_backward: bool = off("Whether backward updates each layer at once and then frees its gradients")
    paged: bool = off("Whether its states move to the host where the device is full")
    projection: Projection | None = optional(
        "The subspace in which the states of a layer's matrices live; left out, all of it"
    )
    orthogonal: Orthogonalisation | None = optional(
        "How updates of the layers' matrices are orthogonalised; left out, they are not"
    )
    sources: dict[str, Source] = keyed("Sources by key")


OptimizerReference = Annotated[
    Annotated[str, Tag("name")] | Annotated[Optimizer, Tag("inline")], Discriminator(as_written)
]


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
    offload: list[Offloaded] = items("What is offloaded to the host; empty: what the software does itself")
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

    dp: list[Replicas] | None = listed("Data-parallel degrees")
    tp: list[Gpus] | None = listed("Tensor-parallel degrees")
    pp: list[Stages] | None = listed("Pipeline stages")
    vpp: list[Chunks] | None = listed("Model chunks per pipeline rank")
    micro_batch: list[Sequences] | None = listed("Sequences in a forward pass")
    ep: list[Gpus] | None = listed("Expert-parallel degrees")
    etp: list[Gpus] | None = listed("Expert-tensor-parallel degrees; else 1")
    cp: list[Gpus] | None = listed("Context-parallel degrees; default: those with 4,000 tokens or more a rank; else 1")
    cp_type: list[ContextParallel] | None = listed("Ways of context parallelism")
    dp_replicate: list[Replicas] | None = listed("Replicas of the shards; default: 1")
    zero: list[ZeroStage] | None = listed("Sharding stages")
    recompute: list[Recompute] | None = listed("Recompute modes")
    recompute_modules: list[list[Module]] | None = listed("Sets of modules that selective recompute drops")
    recompute_layers: list[SomeLayers] | None = listed("Layers of every model chunk that full recompute applies to")
    recompute_method: list[Method] | None = listed("Ways to count recompute_layers; default: block")
    offload: list[list[Offloaded]] | None = listed("Sets of what is offloaded to the host; [] for nothing")
    offload_to: list[Where] | None = listed("Where offloaded optimizer states and parameters are stored; default: cpu")
    offload_layers: list[LayerCount] | None = listed(
        "Layers of the model whose activations are offloaded, to try; default: all"
    )
    schedule: list[Schedule] | None = listed("Pipeline schedules")
    sequence_parallel: list[bool] | None = listed("With, without, or both")
    precision: list[Precision] | None = listed("Precisions to try, instead of the workload's")
    order: list[Order] | None = listed("Placements of groups, innermost first")
    split: list[Split] | None = listed("Ways to split layers into stages")
    first_stage_layers: list[LayerCount] | None = listed("Layers of the first stage to try, in addition to the splits")
    last_stage_layers: list[LayerCount] | None = listed(
        "Layers of the last stage to try, in every pair with those of the first"
    )
    compression: list[Compression] | None = listed("Compressions of gradients to try; default: none")
    sync: list[Synchronisation] | None = listed("Kinds of plan.sync to try; default: all-reduce")
    shares: list[Shares] | None = listed("Kinds of plan.shares to try; default: proportional")


Adapted = Literal["q", "k", "v", "q-down", "q-up", "kv-down", "kv-up", "o", "gate", "up", "down"]


class Tuning(Document):
    """Low-rank adapters on a frozen model; their scale (alpha) costs nothing and is not asked for."""

    method: Literal["lora", "qlora"] = Field(
        description="lora: frozen weights as the matmuls read them; qlora: those of the layers in 4-bit NormalFloat"
    )
    rank: Elements = Field(default=16, description="Inner width of an adapter")
    modules: list[Adapted] | None = listed(
        "Weight matrices with an adapter; left out, all; gate is passed over where the MLP has none"
    )
    experts: bool = Field(
        default=True,
        description="Whether gate, up and down of every routed expert have adapters too, beside MLPs and shared ones",
    )


def adaptable(kind: Layers, *, experts: bool) -> tuple[Adapted, ...]:
    """The weight matrices of a layer that can have an adapter; with `experts`, also those of routed experts."""
    mixer: tuple[Adapted, ...] = () if kind.attention is None else ("q", *kind.attention.projected, "o")
    if kind.latent is not None:
        queries: tuple[Adapted, ...] = ("q",) if kind.latent.query_rank is None else ("q-down", "q-up")
        mixer = (*queries, "kv-down", "kv-up", "o")
    feeds = [feed for feed in (kind.dense, kind.experts if experts else None) if feed is not None]
    if not feeds:
        return mixer
    return (*mixer, *max((feed.projected for feed in feeds), key=len), "down")


def _trained(value: Any) -> str:
    return "full" if isinstance(value, str) else "adapters"


def _method_alone(value: Any) -> Any:
    """Turns the name of a method into adapters with default values."""
    return {"method": value} if isinstance(value, str) and value in ("lora", "qlora") else value


Trained = Annotated[
    Annotated[Literal["full"], Tag("full")] | Annotated[Tuning, Tag("adapters")],
    Discriminator(_trained),
    BeforeValidator(_method_alone, json_schema_input_type=Literal["full", "lora", "qlora"] | Tuning),
]


class LearningRate(Document):
    """A learning rate that is known to be good, and the batch it is good for."""

    base: Annotated[float, Quantity("1", 1e-12, 1e3)] = Field(
        description="Learning rate that is known to be good", examples=["3e-4"]
    )
    batch: Sequences = Field(description="Batch that it is good for", examples=["256 sequences", "4M tokens"])
    rule: Literal["linear", "sqrt"] | None = optional(
        "How it grows with the batch; default: linear for SGD, else the square root"
    )


FlopConvention = Literal["model-causal", "model-full", "6n", "palm", "megatron-2021", "korthikanti"]


class Training(Document):
    """A training workload."""

    kind: Literal["training"] = Field(description="training")
    sequence: Tokens = Field(description="Tokens in a sequence")
    global_batch: Sequences = Field(description="Sequences in an optimizer step")
    tokens: Tokens | None = Field(
        default=None, examples=["15 T"], description="Tokens of the whole run; needed for days and cost"
    )
    critical_batch: CriticalBatch | None = optional(
        "Batch at which a loss takes twice the minimum number of steps, or a fit for it: kaplan 2.0 "
        "(a loss), deepseek 1e24 FLOP (work of the run); scale then counts the steps of each batch"
    )
    learning_rate: LearningRate | None = optional(
        "A learning rate with its batch; estimate then prints the one for the global batch"
    )
    precision: Precision = Field(default="bf16", description="Data type of matmul inputs, and how they are scaled")
    gradients: GradientType | None = optional(
        "Data type in which gradients are accumulated and reduced; default: the stack's"
    )
    tuning: Trained = Field(
        default="full", description="full trains every weight; lora, qlora or {method: qlora, rank: 8} train adapters"
    )
    images: TrainingImages | None = optional(
        "Images among the tokens of a sequence, for models with a vision tower; default: none"
    )
    optimizer: OptimizerReference = Field(
        default=REFERENCES["workload.optimizer"].usual, description="Optimizer, by name or written out"
    )


class OverlapAssumption(Document):
    """Shares of a communication that can hide behind compute; left out, the stack's."""

    tp: Share | None = optional("Tensor parallelism")
    dp: Share | None = optional("Data parallelism")
    weights: Share | None = optional("All-gather of updated weights; default: as dp if the stack states nothing")
    pp: Share | None = optional("Sends between pipeline stages")
    ep: Share | None = optional("Dispatch to experts and combine")
    cp: Share | None = optional("Ring of keys and values, overlapped with attention")


class ExpertAssumption(Document):
    """How tokens spread over experts, and how they get there; left out, evenly, and as the stack does it."""

    imbalance: Multiple | None = optional("Rows of the busiest rank's experts over the mean")
    capacity: Positive | None = optional(
        "Capacity factor to which experts are padded; tokens above it are dropped; absent: dropless"
    )
    dispatch: DispatchType | None = optional("Data type in which tokens are sent to their experts")
    shared_overlap: Share | None = optional("Share of dispatch and combine that can hide behind shared experts")
    deduplicated: bool | None = optional("Send one copy of a token to a node or rank that holds several of its experts")
    host: Seconds | None = optional(
        "Host time to issue an operation of one expert, if a stack loops over experts; default: that of any operation"
    )


class Assumptions(Document):
    """Assumptions; every default used is reported in the answer."""

    overlap: OverlapAssumption = Field(
        default_factory=cache(OverlapAssumption.model_construct),
        description="Shares of communication that overlap with compute",
    )
    experts: ExpertAssumption = Field(
        default_factory=cache(ExpertAssumption.model_construct), description="Mixture of experts"
    )
    compression: CompressionAssumption = Field(
        default_factory=cache(CompressionAssumption.model_construct), description="Compressed gradients"
    )
    stragglers: StragglerAssumption = Field(
        default_factory=cache(StragglerAssumption.model_construct), description="Slow ranks that others wait for"
    )
    fragmentation: Share | None = optional("Share that the caching allocator adds; default: the stack's")
    price: Price | None = optional("Price of one accelerator of this node only; default: the node's list price")
    server_price: Rent | None = optional(
        "Price of a server machine of plan.sync: parameter-server; default: not counted"
    )
    sustained: Positive | None = optional(
        "Slowdown of a real step relative to isolated kernels; default: the fitted value"
    )
    variation: Share | None = optional(
        "Variation in speed between equal accelerators, one standard deviation; default: the fitted value"
    )
    network_share: Portion | None = optional(
        "Share of the interface rate that collectives reach; default: the fitted value"
    )
    host_update: Portion | None = optional(
        "Share of the host memory bandwidth that an optimizer step on the host reaches"
    )
    host_share: Portion | None = optional("Share of the host link rate that large copies reach; default: the fabric's")
    mfu_peak: Literal["bf16", "fp16", "fp8", "fp4"] | None = optional(
        "Data type whose peak the MFU refers to; default: that of the matmuls"
    )
    flop_convention: FlopConvention = Field(default="model-causal", description="Which FLOP the MFU counts")


class Scenario(Document):
    """Everything one question needs."""

    schema_: Literal["costmodel/scenario/v1"] = Field(alias="schema", description="Kind and version of this document")
    title: str = Field(description="One line for the reader of the file; answers print what was computed")
    model: ModelReference = Field(description="Model: a name, or the keys of a model document")
    cluster: Cluster = Field(description="Where it runs")
    workload: Training = Field(description="What it does")
    stack: StackReference = Field(default="megatron-core", description="Training software, by name or written out")
    plan: Plan | None = optional("One plan")
    search: Space | None = optional("Values to try, as lists under the keys of plan; default: every valid plan")
    assume: Assumptions = Field(default_factory=cache(Assumptions.model_construct), description="Assumptions")
    run: WholeRun | None = optional("The whole run: failures, checkpoints, energy; default: only the steps")
    limits: Annotated[Document, PartIn("limits.Limits")] = Field(
        default_factory=cache(Document.model_construct), description="Limits that a plan must meet"
    )
    objective: Literal[
        "step_time",
        "tokens_per_s_per_gpu",
        "cost_per_mtoken",
        "goodput",
        "run_time",
        "run_cost",
        "energy",
        "emissions",
    ] = Field(
        default="tokens_per_s_per_gpu", description="Objective of the search; goodput, energy and emissions need run"
    )

    @property
    def from_tokens(self) -> list[tuple[str, FromTokens]]:
        """Every batch size that was written in tokens, with its key."""
        batches = [("workload.global_batch", self.workload.global_batch)]
        batches += [] if self.plan is None else [("plan.micro_batch", self.plan.micro_batch)]
        batches += (
            [] if self.search is None else [("search.micro_batch", item) for item in self.search.micro_batch or ()]
        )
        return [(path, batch) for path, batch in batches if isinstance(batch, FromTokens)]

    @model_validator(mode="wrap")
    @classmethod
    def _in_sequences(cls, value: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        """Converts batch sizes in tokens to sequences of the workload's length."""
        scenario = read(value)
        workload, plan, search = scenario.workload, scenario.plan, scenario.search
        changed: dict[str, Any] = {}
        if isinstance(workload.global_batch, InTokens):
            batch = _sequences(workload.global_batch, workload.sequence, "workload.global_batch")
            changed["workload"] = workload.model_copy(update={"global_batch": batch})
        if plan is not None and isinstance(plan.micro_batch, InTokens):
            batch = _sequences(plan.micro_batch, workload.sequence, "plan.micro_batch")
            changed["plan"] = plan.model_copy(update={"micro_batch": batch})
        if search is not None and search.micro_batch is not None:
            batches = [
                _sequences(batch, workload.sequence, f"search.micro_batch.{index}")
                for index, batch in enumerate(search.micro_batch)
            ]
            changed["search"] = search.model_copy(update={"micro_batch": batches})
        return scenario.model_copy(update=changed) if changed else scenario


def _sequences(batch: float, sequence: float, path: str) -> float:
    """A batch size in sequences; a fault for a batch in tokens that is smaller than one sequence."""
    if not isinstance(batch, InTokens):
        return batch
    if batch < sequence:
        sentence = "{tokens} tokens are less than a sequence of {sequence}; write e.g. '1 sequence'"
        words = {"tokens": f"{batch:,.0f}", "sequence": f"{sequence:,.0f}", "keys": (path,)}
        raise PydanticCustomError("quantity_unit", sentence, words)
    return FromTokens(batch, sequence)
