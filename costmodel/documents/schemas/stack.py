"""Defaults and features of training software, neither hardware nor plan; the source of much of the error."""

from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from costmodel.documents.schemas.base import (
    Bytes,
    Communicators,
    Count,
    Document,
    Name,
    NonNegative,
    Operations,
    ParameterBytes,
    Portion,
    Positive,
    Rows,
    Seconds,
    Share,
    SomeParameters,
    Source,
    Sourced,
    Width,
    ZeroStage,
    as_written,
    items,
    keyed,
    listed,
    off,
    optional,
)
from costmodel.documents.schemas.compression import Method as CompressionMethod
from costmodel.documents.schemas.precision import DispatchType, Full, Narrow
from costmodel.ground.counts import (
    AttentionKernel,
    CollectiveAlgorithm,
    ContextParallel,
    Method,
    Module,
    Offloaded,
    Recompute,
    Schedule,
    StackAttention,
    Where,
)
from costmodel.ground.errors import Place
from costmodel.ground.units import Figure

GradientType = Literal["fp32", "bf16", "fp16"]
Compile = Literal["none", "blocks", "model"]
Loss = Literal["plain", "chunked", "fused"]
Axis = Literal["tp", "pp", "cp", "ep", "etp"]
AXES: tuple[Axis, ...] = ("tp", "pp", "cp", "ep", "etp")


class StateBytes(Sourced):
    """Bytes a parameter costs, before any sharding."""

    weights: Width = Field(description="The copy the optimizer's shard or the layer keeps for good")
    compute: Width = Field(description="A weight as the matmuls read it and the network gathers it")
    master: ParameterBytes = Field(description="fp32 copy the optimizer updates, where the kept weight is not it")
    sharded_master: bool = Field(
        description="The kept weight is the optimizer's, always sharded, and matmuls read a copy"
    )
    cast: bool = off("Matmuls read 16-bit copies of the kept weights that autocast holds until the loss")
    gradient_copies: bool = off("Gradients are kept in 16 bits and in fp32; of the shard only, if summed in 16 bits")
    sharded_gradient: ParameterBytes | None = optional("Gradient kept of a shard, where reduced ones are widened")
    in_backward: bool = off("Whether an optimizer can update each layer in backward")
    step_gradient: ParameterBytes | None = optional(
        "Gradient in fp32 that a step makes for each parameter it updates, for a moment"
    )
    step_roots: NonNegative | None = optional(
        "Tensors as large as the root of the second moment that a step holds of all parameters it updates"
    )
    sub_group: SomeParameters | None = Field(
        default=None,
        examples=["1 G"],
        description="Parameters that a step under zero 3 updates at a time; all of the rank's if left out",
    )
    freed_gradient: bool = off("Whether a step under zero 1 and 2 frees the kept gradient once it made one in fp32")


class LowPrecision(Sourced):
    """How linear maps in fp8 or narrower are trained."""

    recipes: list[Narrow] = Field(min_length=1, description="Recipes it offers; its default first")
    cached: bool = Field(description="Whether converted weights and their transposes are kept for the whole step")
    primary: bool = Field(description="Whether they stand in for the 16-bit weights, which are then not kept")
    gather: list[Narrow] = Field(description="Recipes whose weights of the layers cross the network in the narrow type")
    exchanged: list[Narrow] = items(
        "Recipes whose inputs, and gradients of outputs, sequence parallelism gathers in the narrow type"
    )
    saved: bool = Field(description="Whether inputs of linear maps are kept for backward in the narrow type")
    gates: bool = off("Whether inputs of gated activation functions are kept in the narrow type too")


class KernelChoice(Sourced):
    """Which kernels run."""

    attention: StackAttention = Field(
        description="Class of the attention kernel; sdpa: the one that torch's scaled_dot_product_attention takes"
    )
    fallback: Literal["unfused", "memory-efficient"] = Field(
        default="unfused", description="Its class where that one does not run: in 32 bits, and on Volta and Turing"
    )
    dropout: bool = Field(description="Dropout after attention and MLP, with the masks kept")
    traffic_factor: Positive = Field(description="Memory-bound bytes over what fully fused kernels must read and write")
    traffic_of: Compile | None = optional("What is compiled where that holds; absent: nothing is compiled by torch")
    eager_factor: Positive | None = optional("The same of eager kernels; absent: 2")
    selective: Literal["core-attention", "op-level"] = Field(description="What selective recompute drops")
    full: Literal["whole", "early-stop"] = Field(
        default="whole", description="Where full recompute of a layer ends: early-stop leaves out its last matmul"
    )
    inputs: Literal["dropped", "kept"] = Field(
        default="dropped", description="Inputs gathered for sequence parallelism: dropped and gathered again, or kept"
    )
    copied: bool = off("Whether what sequence parallelism exchanges is copied, as the batch comes first in memory")
    head_norms: Literal["sharded", "gathered"] = Field(
        default="sharded",
        description="Norms of queries and keys by head under tensor parallelism: gathered leaves all heads on each "
        "rank, as in torchtitan until October 2025 (1870)",
    )
    compiled: bool = off(
        "Whether one graph of the whole model makes outputs of norms and activation functions again in "
        "backward, inside its kernels, and keeps none"
    )
    streams: Literal["fused", "separate"] = Field(
        default="fused", description="Norms and cross entropy in single passes, or in the kernels of 2021"
    )

    def runs(self, family: str) -> AttentionKernel:
        """The class of attention kernels on a family of accelerators: on Hopper torch uses cuDNN's kernels since 2.9
        (sdp_utils.cpp, check_prefer_cudnn_attention), which are of the class flash-3, and FlashAttention 2 elsewhere.
        """
        if self.attention == "sdpa":
            return "flash-3" if family == "hopper" else "flash-2"
        return self.attention


class Overlap(Sourced):
    """Share of a communication that can hide behind compute."""

    tp: Share = Field(description="Tensor-parallel all-gather and reduce-scatter behind their matmuls")
    dp: Share = Field(description="Gradient and weight traffic behind one micro-batch's backward and forward")
    weights: Share | None = optional("Updated weights on their way back behind the next forward; as dp if left out")
    ahead: bool = Field(
        default=True,
        description="Whether backward gathers a layer's weights beside the gradients of the one before, not after them",
    )
    pp: Share = Field(description="Steady-state sends between stages")
    cp: Share = Field(default=1.0, description="Ring of keys and values behind attention")


class HostLaunch(Sourced):
    """Host time."""

    operation: Seconds = Field(description="Host time to issue one operation")
    operations: Operations = Field(
        description="Operations a layer issues forward; backward issues twice as many, recompute again"
    )
    graphs: bool = off("Whether CUDA graphs issue them all, so that the host takes no time: P90 is without")

    @property
    def each(self) -> float:
        """Host time per operation; 0 if a CUDA graph launches it."""
        return Figure(0.0, Place("CUDA graphs", path="stack.launch.graphs")) if self.graphs else self.operation


class Runtime(Sourced):
    """Memory that no tensor of the model holds."""

    context: Bytes = Field(description="Driver context, loaded kernels, library workspaces")
    communicators: Communicators = Field(description="Communicators a rank opens")
    communicator: Bytes = Field(description="Buffers of one communicator")
    fragmentation: Share = Field(description="What the caching allocator reserves beyond what is allocated")


class ExpertKernels(Sourced):
    """How a mixture of experts runs: grouped matmuls, and how tokens get to their experts and back."""

    half_rows: Rows = Field(description="Rows of an expert at which its matmuls reach half of their rate")
    looped: bool = Field(description="Whether the host issues one expert after another; else one kernel takes all")
    own_module: bool = off("Whether the model's own module in transformers runs, with all that it computes")
    fetched: Operations | None = optional(
        "Operations in which the host gathers and frees one matrix of one expert under zero 3, where it "
        "issues experts one after another; absent: they are gathered with their layer"
    )
    cut_as_tp: bool = off("Whether each expert is cut over as many ranks as tp where a plan states no etp, else one")
    permute: NonNegative = Field(description="Bytes of ordering tokens by expert, over reading and writing each once")
    masked: bool = off(
        "Whether products with masks, of each token with each place of its sequence's experts, fill and "
        "empty experts that are padded to a capacity"
    )
    grouped_share: Portion = Field(
        default=1.0, description="Share of a plain product's rate that long groups of different lengths reach"
    )
    deduplicated: bool = Field(description="One copy of a token to a node, or rank, that holds several of its experts")
    dispatch: DispatchType = Field(description="Type tokens are sent to their experts in")
    inside_share: Share = Field(description="Share of the link inside a domain that dispatch and combine reach")
    across_share: Share = Field(description="Share of the network interface that they reach")
    start: Seconds = Field(description="Fixed time of a dispatch or combine")
    overlap: Share = Field(description="Dispatch and combine that can hide behind the compute of their layer")
    overlap_in: list[Schedule] | None = optional("Pipeline schedules in which they hide; left out, all")
    shared_overlap: Share = Field(default=0.0, description="Dispatch and combine that can hide behind shared experts")
    occupied: Share = Field(default=0.0, description="Share of the device's compute that they take while they hide")
    tp_overlap: Share = Field(description="Tensor-parallel traffic of such a model that can hide behind its matmuls")


class Offloading(Sourced):
    """What can live on the host, and how its traffic is scheduled."""

    of: list[Offloaded] = Field(min_length=1, description="What can be kept on the host")
    to: list[Where] = Field(min_length=1, description="Where optimizer and parameters can be kept: cpu, nvme")
    gradients: bool = Field(
        description="With the optimizer, gradients are kept there too, and cross the link whenever they are reduced"
    )
    copies: ParameterBytes | None = optional(
        "Bytes of a parameter on the host beside its states, its sum of gradients and weights"
    )
    pinned: bool = off("Whether weights, gradients and copies lie in pinned memory, whose blocks are powers of two")
    together: bool = off("Whether parameters always go with the optimizer: a measured run names one for both")
    parameters_alone: bool = off("Whether parameters can be on the host while the optimizer stays on the device")
    returned: ParameterBytes | None = optional(
        "Bytes of an updated parameter that the device holds for a moment under zero 1 and 2"
    )
    usual: list[Offloaded] = items("What the software itself offloads with full recompute, unless a plan states more")
    overlap: Share = Field(description="Share of the traffic over the host link that can hide behind compute")
    early: bool = off("Whether the host updates what has been reduced while backward continues")


class Layouts(Sourced):
    """The axes of parallelism beside data parallelism that the software has, each with the release that brought it."""

    tp: str | None = optional("Release that brought tensor parallelism; absent: it has none")
    pp: str | None = optional("Release that brought pipeline stages; absent: it has none")
    cp: str | None = optional("Release that brought context parallelism; absent: it has none")
    ep: str | None = optional("Release that brought expert parallelism; absent: it has none")
    etp: str | None = optional("Release that brought expert-tensor parallelism; absent: it has none")


class Buckets(Sourced):
    """How gradients and weights are grouped for the network, and what the loss keeps."""

    size: Bytes = Field(description="Bytes of gradients in a bucket")
    per_rank: Bytes = Field(description="Bytes of gradients for each data-parallel rank, if that is larger")
    counted: bool = off("Whether both are of fp32 numbers, and buckets of narrower ones hold as many")
    live: NonNegative = Field(description="Buckets held beside the gradients themselves")
    live_sharded: NonNegative | None = optional(
        "The same under zero 3, where it differs: what is gathered there is no bucket"
    )
    prefetch: NonNegative = Field(description="Sharded units gathered ahead of the one in use")
    gathered: SomeParameters | None = Field(
        default=None,
        examples=["1 G"],
        description="Parameters gathered at a time under stage 3, of a larger matrix all; whole layers if left out",
    )
    loss: Bytes = Field(description="Bytes kept per logit")


class Elsewhere(Sourced):
    """How the software runs on parts of makers whose kernels it does not tune."""

    slower: dict[str, Positive] = Field(
        description="By maker, how many times longer its products and attention take than tuned kernels in a step"
    )
    spread: Share = Field(description="Standard deviation of the step there, relative")


class RunSpread(Sourced):
    """How far real runs lie from what kernels and counts explain; standard deviations, relative."""

    step: Share = Field(description="Of the step among runs of one source: settings that were not recorded")
    unseen: Share = Field(
        description="Of the step of a run whose source is not among those fitted: scale of a Student t, 3 degrees of "
        "freedom; nothing of it where your own runs were fitted"
    )
    experts: Share = Field(description="Of the step of a model with experts: how tokens are ordered, sent and dropped")
    launch: Share = Field(description="Of the time the device waits for the host")
    overlap: Share = Field(description="Of the shares of communication that hide, as a part of the communication")
    memory: Share = Field(description="Of all memory: releases, flags and uses that no line of the ledger holds")
    states: Share = Field(description="Of weights, gradients, optimizer states and buffers")
    activations: Share = Field(description="Of activations, recompute and logits")
    allocator: Share = Field(description="Of fragmentation, context and communicators")


# Traffic of memory-bound kernels over what fully fused ones need.
EAGER = Figure(2.0, Place("training-runs-fit", path="eager kernels"))
BLOCKS = Figure(1.43, Place("training-runs-fit", path="compiled blocks"))
WHOLE = Figure(1.0, Place("ansel-2024", path="every chain between two products is one kernel"))
_LOSSES = {
    "fused": Figure(4.0, Place("stack.loss", path="16-bit logits and their gradient")),
    "chunked": Figure(1.5, Place("torchtune", path="an eighth of 12 B: CEWithChunkedOutputLoss makes 8 chunks")),
}
_TWO = Figure(2.0, Place("stack.weights", path="bf16"))
_NONE = Figure(0.0, Place("stack.weights", path="bf16: no copy in fp32"))


def _alone(states: StateBytes) -> dict[str, object]:
    """Training states only in bf16: no fp32 copy anywhere."""
    gone = {"master": _NONE, "cast": False, "gradient_copies": False, "step_gradient": None, "freed_gradient": False}
    shard = None if states.sharded_gradient is None else _TWO
    return {**gone, "weights": _TWO, "compute": _TWO, "sharded_gradient": shard}


class Stack(Document):
    """One training software, as it runs by default."""

    schema_: Literal["costmodel/stack/v1"] = Field(alias="schema", description="Kind and version of this document")
    name: Name = Field(description="Name; equals the file name")
    title: str = Field(description="Full name and version")
    like: Name | None = optional("Stack that everything left out is taken from, section by section")
    makers: list[str] = items("Makers of the accelerators it describes the software on; absent: not stated")
    layouts: Layouts | None = optional("Axes of parallelism it has; absent: not stated, and every one is taken")
    compile: Compile | None = optional(
        "What torch.compile takes: none, each of the blocks, the whole model; absent: as its kernels are"
    )
    loss: Loss | None = optional(
        "Cross entropy: plain keeps buckets.loss, fused 16-bit logits and their gradient, chunked one "
        "eighth of the logits at a time; absent: plain"
    )
    loss_limit: Bytes | None = optional(
        "With loss chunked, bytes that it keeps at most: a longer batch is cut into more chunks; absent: no limit"
    )
    weights: Literal["bf16"] | None = optional(
        "bf16: weights, gradients and moments have 16 bits alone; absent: as in states"
    )
    gradients: GradientType = Field(description="Type gradients are accumulated in")
    reduced: GradientType | None = optional(
        "Type gradients are reduced over the network in; left out, as they are accumulated"
    )
    whole_sums: bool = off("Whether zero 1 and 2 all-reduce gradients and drop what other ranks keep")
    zero: list[ZeroStage] = Field(min_length=1, description="Sharding stages it offers, its default first")
    pipelined_zero: list[ZeroStage] | None = listed(
        "Those it offers in a pipeline, its default there first; left out, all"
    )
    recompute: list[Recompute] = Field(min_length=1, description="Recompute modes it offers, its default first")
    recompute_modules: list[Module] = items("What selective recompute can drop by name; absent: not chosen by name")
    recompute_methods: list[Method] = items("Full recompute of some layers: block, uniform; absent: of all or none")
    offload: Offloading | None = optional("Host and drives as memory; absent: never used")
    schedules: list[Schedule] = Field(
        min_length=1, description="Pipeline schedules it offers; the first is taken of a measured run that names none"
    )
    post_validation: bool = off("Whether stages step on their own and check the gradient norm afterwards")
    split_sends: bool = off(
        "Whether tp ranks that all hold the same send a part each to the next stage, which gathers it"
    )
    split_adapters: bool = off("Whether tp cuts both matrices of an adapter; else only the one that meets what is cut")
    collectives: list[CollectiveAlgorithm] = Field(
        default=["tree"],
        description="Algorithms of all-reduces beside rings and what fits hold already; the fastest counts",
    )
    context_parallel: list[ContextParallel] = items(
        "Ways of context parallelism it offers, its default first; left out, none"
    )
    compression: list[CompressionMethod] = items("Ways to compress gradients that it offers; left out, none")
    sequence_parallel: bool = Field(description="Whether tensor parallelism comes with sequence parallelism by default")
    vocab_multiple: Count = Field(description="The vocabulary is padded to a multiple of this times tp")
    states: StateBytes = Field(description="Bytes per parameter")
    kernels: KernelChoice = Field(description="Which kernels run")
    low_precision: LowPrecision | None = optional("Linear maps in fp8 and narrower; absent: it has none")
    full_precision: list[Full] = items("Types in 32 bits that it trains in")
    overlap: Overlap = Field(description="What hides behind compute")
    launch: HostLaunch = Field(description="Host time")
    runtime: Runtime = Field(description="Memory beside the model's tensors")
    experts: ExpertKernels | None = optional("Mixture of experts; absent: not offered")
    buckets: Buckets = Field(description="Grouping of traffic, and the loss")
    spread: RunSpread = Field(description="Error beyond that of the kernels, for the band of an answer")
    elsewhere: Elsewhere | None = optional("Makers whose kernels it does not tune; absent: none is known")
    sources: dict[str, Source] = keyed("Sources by key")

    @model_validator(mode="after")
    def _as_chosen(self) -> Self:
        """Kernels, loss and states as the keys compile, loss and weights state them."""
        self.__dict__.update(self._changed())
        return self

    def _changed(self) -> dict[str, object]:
        """The parts of the stack that `compile`, `loss` and `weights` change."""
        changed: dict[str, object] = {}
        if self.compile is not None and self.compile != self.kernels.traffic_of:
            factor = {"none": self.kernels.eager_factor or EAGER, "blocks": BLOCKS, "model": WHOLE}[self.compile]
            kind = {"traffic_factor": factor, "traffic_of": self.compile, "compiled": self.compile == "model"}
            changed["kernels"] = self.kernels.model_copy(update=kind)
        kept = self.buckets.loss
        if self.loss in _LOSSES:
            kept = _LOSSES[self.loss]
        elif self.compile == "model":
            kept = min(kept, _LOSSES["fused"])  # values in fp32 stay inside a kernel
        if kept != self.buckets.loss:
            changed["buckets"] = self.buckets.model_copy(update={"loss": kept})
        if self.weights == "bf16":
            changed |= {"gradients": "bf16", "states": self.states.model_copy(update=_alone(self.states))}
        return changed

    def chosen(self, key: Literal["compile", "loss"], value: str) -> Self:
        """A copy of the stack with another value for `compile` or `loss`."""
        found = self.model_copy(update={key: value})
        return found.model_copy(update=found._changed())

    def untuned(self, maker: str) -> float:
        """The factor by which matrix products and attention are slower on parts of a maker."""
        return 1.0 if self.elsewhere is None else self.elsewhere.slower.get(maker, 1.0)

    def has(self, axis: Axis) -> bool:
        """Whether the software supports an axis of parallelism."""
        return self.layouts is None or getattr(self.layouts, axis) is not None

    def offloaded_by_itself(self, recompute: str) -> tuple[Offloaded, ...]:
        """What the software keeps on the host with this recompute where no plan asks for it."""
        return tuple(self.offload.usual) if self.offload is not None and recompute == "full" else ()

    def zero_with(self, pp: float) -> list[ZeroStage]:
        """The ZeRO stages that the stack supports with this pipeline size, the default first."""
        return self.zero if pp == 1 else self.pipelined_zero or self.zero


StackReference = Annotated[Annotated[str, Tag("name")] | Annotated[Stack, Tag("inline")], Discriminator(as_written)]
