"""A serving engine as it runs by default: a stack with a date, since its behaviour changes with releases."""

from typing import Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.schemas.base import (
    Bytes,
    Count,
    Document,
    Name,
    NodeFlopRate,
    NonNegative,
    Portion,
    Positive,
    Rate,
    Seconds,
    Share,
    Source,
    Sourced,
    items,
    keyed,
    off,
    optional,
)
from costmodel.documents.schemas.precision import CacheType, DispatchType, Precision, WeightType
from costmodel.ground.counts import AttentionKernel

PoolDefinition = Literal["share-of-total", "share-of-free-before", "share-of-free-after"]


class EngineRelease(Sourced):
    """A release that changed what a document states, and where that is documented."""

    version: str = Field(pattern=r"^\d+(\.\d+)*$", description="Release", examples=['"0.21"'])
    date: str = Field(pattern=r"^\d{4}-\d\d(-\d\d)?$", description="Day it was published, or month")
    source: str = Field(description="Key of the release note, pull request or file under 'sources'")


class Release(Document):
    """The software release that a document describes."""

    version: str = Field(description="Release, or a range of them")
    date: str = Field(description="Month it was looked at")
    timed: str | None = optional("Releases of the benchmarks that its times are fitted to, where these are others")
    releases: list[EngineRelease] = items("Releases of that range that changed what is stated here, oldest first")


class GraphMemory(Sourced):
    """Memory of captured graphs inside the share."""

    dense: Bytes = Field(description="Of models without experts, for each batch size that a graph is captured for")
    experts: Bytes = Field(description="The same of models with experts")
    compressed: Bytes = Field(description="Of models with compressed attention, for all sizes together")


class EngineMemory(Sourced):
    """How an engine divides the memory of a device between weights, a step, and the cache."""

    definition: PoolDefinition = Field(
        description="What share is a share of: the device, what is free before loading, what is free after a dry run"
    )
    share: Portion | None = optional("That share; left out, by the engine's rule of thumb")
    no_eviction: bool = off("Whether a request begins only where its prompt and its whole answer will fit")
    preempts: bool = off(
        "Whether a request begins where its prompt alone fits, and loses its cache to older ones that grow"
    )
    driver: Bytes = Field(default=0.0, description="What nvidia-smi counts to the device and CUDA does not")
    logit: Bytes = Field(description="Bytes that sampling holds for each entry of the vocabulary and sequence")
    layer: Bytes = Field(description="Activations of a layer at the full budget, at least")
    context: Bytes = Field(description="Context and libraries of a device alone")
    group_context: Bytes = Field(description="The same of a device that talks to others")
    graphs: Bytes = Field(default=0.0, description="Captured graphs, where they are inside the share")
    graph: GraphMemory | None = optional("The same by kind of model; left out, none")
    logged: Literal["layers", "requests"] | None = optional(
        "What its start-up log counts as tokens of the pool: as if every layer kept every token, or those of requests "
        "of the longest length; left out, the log states none"
    )


class ThumbRule(Sourced):
    """The share that SGLang works out where none is written: 1 − what it leaves to activations and graphs."""

    base: Bytes = Field(description="Whatever the plan")
    chunk_token: Bytes = Field(description="For each token of a chunk of prompts")
    rank: Bytes = Field(description="For each tensor-parallel rank and pipeline stage")
    sequence: Bytes = Field(description="For each sequence of the largest captured batch")
    graph_size: Bytes = Field(default=0.0, description="For each size that graphs of prompts are captured at")
    graph_sizes: NonNegative = Field(default=0.0, description="Sizes that graphs of prompts are captured at")
    large: Bytes = Field(description="Devices with more memory than this leave the least below")
    least: Bytes = Field(description="What large devices leave at least")


class EngineDefaults(Document):
    """What an engine picks by the device; the first of several that fits counts."""

    memory: Bytes = Field(default=0.0, description="Memory of the device, at least")
    except_families: list[Name] = items("Architectures it does not count for")
    budget: Count = Field(description="Tokens of a step at most")
    sequences: Count = Field(description="Sequences of a step at most")
    captured: Count = Field(description="Largest batch that a graph is captured for")
    captured_of_few: Count | None = optional("The same with fewer than four tensor-parallel ranks; left out, the same")


class EngineHost(Sourced):
    """Host time of a step, besides the operations on the device."""

    step: Seconds = Field(description="Each step: scheduling, sampling, launching what is in no graph")
    look: Seconds = Field(default=0.0, description="Each look for new requests, of which poll states how often")
    sequence: Seconds = Field(default=0.0, description="For each sequence of it")


class EnginePromptLaunch(Sourced):
    """Host time of a step that Python launches: with prompts, for whose number of rows no graph is captured."""

    layer: Seconds = Field(description="Host time to launch the kernels of a layer")
    experts: Seconds = Field(description="The same of what a layer with experts has beyond these")
    latent: Seconds = Field(default=0.0, description="The same of latent attention")


class EngineLaunch(Sourced):
    """Host time of a step that replays no captured graph: the longer of its kernels and of Python."""

    operation: Seconds = Field(description="Host time to launch one kernel, at least")
    operations: Positive = Field(description="Kernels of a layer")
    prompts: EnginePromptLaunch | None = optional(
        "Steps that Python launches: with prompts, and all without graphs; left out, none"
    )


class EngineExecutors(Sourced):
    """What ways to run the processes of several devices take, beyond the host time of a step."""

    ray: Seconds = Field(description="Added to each step by Ray")


class EngineKernels(Sourced):
    """Which kernels run."""

    attention: AttentionKernel = Field(description="Class of the attention kernel of prompts")
    operation: Seconds = Field(description="Fixed time of a pass over the residual stream: a norm, an activation")
    own_all_reduce: Bytes = Field(default=0.0, description="Messages up to this take the engine's own all-reduce")


class OneSidedForm(Sourced):
    """Kernels inside one domain that send tokens to the ranks of their experts, and results back."""

    start: Seconds = Field(description="Fixed time of a dispatch or combine")
    inside_share: Share = Field(description="Share of the link inside a domain that they reach")


class DispatchForm(OneSidedForm):
    """One form of such kernels within and between domains."""

    across_share: Share = Field(description="Share of the network interface that they reach")


class EngineDispatch(Sourced):
    """How tokens reach experts on other ranks where these do not get all tokens; else, they are gathered."""

    from_domains: Count = Field(
        description="Nodes or domains that experts lie on, at least, for tokens to go to their experts alone"
    )
    element: DispatchType = Field(description="Type that tokens are sent in; results return in the type of activations")
    two_batches: bool = off("A step is two halves: the exchange of one hides behind the compute of the other")
    low_latency: DispatchForm = Field(description="Steps without prompts: a copy of a token to each of its experts")
    normal: DispatchForm = Field(description="Steps with prompts: one copy to a domain, which passes it on")
    one_sided: OneSidedForm | None = optional(
        "Inside one domain with a switch: one copy to each rank, in the type of the experts' products; left out, as "
        "between nodes"
    )


class EngineHostExperts(Sourced):
    """Routed experts in the host's memory, which its processors compute (plan.host_experts)."""

    rate: NodeFlopRate = Field(description="Rate of its kernels on the processors of a node")


class EngineHostCache(Sourced):
    """Cache that the host, its drives or a store keep beside the device's pool, where its size is stated."""

    size: Bytes | None = optional("Memory of the host, its drives or the store for each rank; left out, none")
    ratio: Positive | None = optional("The same as a multiple of the device's pool")
    on: Literal["memory", "drives", "store"] = Field(
        default="memory", description="Where it is: memory of the host, its drives, or a store behind the network"
    )
    rate: Rate | None = optional(
        "Rate at which each rank loads from there; left out, of its link to the host, its share of the drives, or its "
        "network interface"
    )
    keeps: Literal["copies", "evicted"] = Field(
        description="What the host holds: copies of all that is computed, or what the device's pool had no room for"
    )
    loads: Literal["whole", "layer"] = Field(
        description="Whether a prompt starts when all of its cache is back, or when that of the first layer is"
    )

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if self.size is not None and self.ratio is not None:
            words = {"keys": ("size", "ratio")}
            raise PydanticCustomError("host_cache", "size and ratio both state how much the host keeps", words)
        return self

    @property
    def kept(self) -> bool:
        """Whether the host has a cache at all."""
        return bool(self.size or self.ratio)


class EngineStart(Sourced):
    """Time of a replica from its start until it can answer."""

    fixed: Seconds = Field(description="Libraries, processes and the tokenizer")
    read: Rate = Field(description="Rate at which a rank reads its weights, as far as its share of the drives allows")
    layer: Seconds = Field(description="Compiling, or loading what was compiled, and a dry run: each layer")
    graph: Seconds = Field(description="Capturing a graph: each layer and batch size")


class EngineDecodeContext(Sourced):
    """Decode context parallelism: ranks of tp that divide the cache of a sequence by tokens."""

    caches: list[Literal["attention", "latent"]] = Field(
        min_length=1, description="Kinds of cache that it divides: of keys and values by heads, of latent vectors"
    )
    merged: Bytes | None = optional("Bytes of an element of the results that ranks sum up; left out, as activations")


class EngineBurst(Sourced):
    """What benchmarks that start all their requests at once see of the front end and of that start."""

    front: Seconds = Field(default=0.0, description="Of the front end, for each request")
    share: Portion = Field(description="Share of requests that belong to the start")


class EngineSpread(Sourced):
    """How far real runs lie from what kernels explain; standard deviations, relative."""

    tpot: Share = Field(description="Of the time per token of dense models")
    experts: Share = Field(description="The same of models with experts")
    ttft: Share = Field(description="Of the time to the first token")
    pool: Share = Field(description="Of the cache's pool")


class Engine(Document):
    """A serving engine with its default settings and constants."""

    schema_: Literal["costmodel/stack/v1"] = Field(alias="schema", description="Kind and version of this document")
    name: Name = Field(description="Name; equals the file name")
    title: str = Field(description="Full name and version")
    kind: Literal["serving"] = Field(description="serving")
    like: Name | None = optional("Engine that everything left out is taken from, section by section")
    makers: list[str] = items("Makers of the accelerators it describes the engine on; absent: not stated")
    runs_on: list[str] = items("Makers of all accelerators that it runs on; absent: not stated")
    as_of: Release = Field(description="Releases it describes")
    memory: EngineMemory = Field(description="How memory is divided")
    thumb_rule: ThumbRule | None = optional("The share where memory.share is left out")
    defaults: list[EngineDefaults] = Field(min_length=1, description="What it picks by the device")
    budget: Count | None = optional("Tokens of a step of each attention group at most, instead of the default")
    sequences: Count | None = optional("Sequences of a step at most, instead of the default")
    captured: Count | None = optional(
        "Sequences of an attention group up to which steps replay a captured graph, instead of the default; the host "
        "launches the kernels of larger ones, as it does with prompts"
    )
    block: Count = Field(description="Tokens of a block of the cache")
    prefix_cache: bool = Field(description="Whether beginnings that prompts share are computed once")
    host_cache: EngineHostCache | None = optional("Cache on the host; left out, the engine keeps none there")
    host_experts: EngineHostExperts | None = optional(
        "Experts that the host computes; left out, it can have none there"
    )
    chunked: bool = Field(
        default=True,
        description="Whether a prompt may be computed in parts, over several steps; otherwise a step takes whole "
        "prompts only, and one that does not fit beside the sequences of a step waits, with all behind it",
    )
    mixed: bool = Field(
        default=True,
        description="Whether sequences that decode share the steps of prompts; otherwise they stop while prompts have "
        "steps of their own",
    )
    poll: Count = Field(default=1.0, description="Steps of decoding between two looks for new requests")
    prompt_wait: Count | None = optional(
        "Steps that prompts wait at most until every attention group has one; left out, they do not wait"
    )
    expert_ranks: Literal["any", "all"] = Field(
        default="any",
        description="Ranks over which expert parallelism places experts: any number that divides those of a stage, or "
        "all of them",
    )
    graphs: bool = Field(
        default=True,
        description="Whether the host replays captured graphs; otherwise it launches each kernel, and a step takes the "
        "longer of its device time and its launches",
    )
    vocab_multiple: Count = Field(description="The vocabulary is padded to a multiple of this, which tp must divide")
    precisions: list[Precision] = Field(min_length=1, description="Types that it multiplies in")
    weights: list[WeightType] = Field(min_length=1, description="Types that it keeps weights in")
    caches: list[CacheType] = Field(min_length=1, description="Types that it keeps keys and values in")
    checkpoint_caches: dict[Precision, CacheType] = keyed(
        "Types of the cache in the usual checkpoints for it, by the type of their products; else 16 bits"
    )
    kernels: EngineKernels = Field(description="Which kernels run")
    host: EngineHost = Field(description="Host time")
    launch: EngineLaunch | None = optional("Host time without graphs; left out, graphs must be true")
    executors: EngineExecutors | None = optional(
        "Other ways to run the processes of several devices; left out, there are none"
    )
    executor: Literal["mp", "ray"] | None = optional(
        "How they run: as processes of the engine, or by Ray; left out, mp"
    )
    dispatch: EngineDispatch | None = optional(
        "Expert parallelism over many domains; left out, tokens are gathered everywhere"
    )
    decode_context: EngineDecodeContext | None = optional(
        "Decode context parallelism; left out, the engine has none that a plan states"
    )
    start: EngineStart | None = optional("A replica's start; left out, it is not known")
    burst: EngineBurst = Field(description="The start of benchmarks")
    spread: EngineSpread = Field(description="Error beyond that of the kernels, for the band of an answer")
    sources: dict[str, Source] = keyed("Sources by key")

    @model_validator(mode="after")
    def _known_executor(self) -> Self:
        if self.executor == "ray" and self.executors is None:
            words = {"keys": ("executor",), "name": self.name}
            raise PydanticCustomError("executor", "{name} has no executor of Ray; leave executor out", words)
        return self

    @model_validator(mode="after")
    def _known_launches(self) -> Self:
        """Checks that an engine without CUDA graphs states the host time of launches."""
        if not self.graphs and self.launch is None:
            words = {"keys": ("graphs",), "name": self.name}
            raise PydanticCustomError(
                "launch", "{name} states no host time of launches; add launch, or leave graphs out", words
            )
        return self

    @property
    def step_host(self) -> float:
        """Host time per step, including request polling and the executor."""
        added = self.executors.ray if self.executor == "ray" and self.executors is not None else None
        own = self.host.step + self.host.look / self.poll if self.host.look else self.host.step
        return own if added is None else own + added

    def picked(self, memory: float, family: str) -> EngineDefaults:
        """The engine's defaults for a device; the last entry of the list if none fits."""
        fitting = (
            default for default in self.defaults if memory >= default.memory and family not in default.except_families
        )
        return next(fitting, self.defaults[-1])
