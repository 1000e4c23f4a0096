"""A serving scenario: model, cluster, workload, engine, plan or space of plans, assumptions, limits."""

from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.schemas.base import (
    Count,
    Document,
    Gpus,
    Images,
    Multiple,
    Portion,
    Price,
    Quantity,
    Replicas,
    Seconds,
    Share,
    Stages,
    Watts,
    as_written,
    items,
    listed,
    off,
    optional,
)
from costmodel.documents.schemas.engine import Engine
from costmodel.documents.schemas.hardware import Cluster
from costmodel.documents.schemas.limits import ServingLimits
from costmodel.documents.schemas.model import ModelReference
from costmodel.documents.schemas.precision import CacheType, Precision, WeightType
from costmodel.ground.counts import LengthLaw
from costmodel.ground.units import Figure

GAPS = ("worst_gap", "tpot_p99")  # of these, what a step full of prompts makes
LEVEL_OF_USERS = ("tokens_per_s_per_user", "limits_chance", "in_time_share")  # as does at_least on these
BETWEEN_TOKENS = ("tpot", "tpot_p99", "worst_gap", "tokens_per_s_per_user")  # of answers of one token there is none


def without_gaps(limits: ServingLimits) -> ServingLimits:
    """The limits without those on the time between output tokens."""
    return limits.model_copy(update={name: type(getattr(limits, name))() for name in BETWEEN_TOKENS})


# Workload of an engine: lengths of prompts and answers, arrivals, and data types.

Traffic = Literal["steady", "burst"]

RequestRate = Annotated[float, Quantity("request/s", 1e-9, 1e6)]
Tokens = Annotated[float, Quantity("token", 1, whole=True)]
FewTokens = Annotated[float, Quantity("token", 0, whole=True)]
Requests = Annotated[float, Quantity("request", 1, 1e12, whole=True)]
Users = Annotated[float, Quantity("user", 1, 1e12, whole=True)]
Burstiness = Annotated[float, Quantity("1", 0.01, 100)]
Spread = Annotated[float, Quantity("1", 0, 10)]  # at 10, half of all log-normal lengths are below a tenth of the mean

LOADS = ("rate", "concurrency", "users", "requests")
BURSTS = ("arrival_spread", "burstiness")
CAPPED = ("rate", "concurrency")  # which a load may state together


class Lengths(Document):
    """Lengths that differ from request to request."""

    mean: Tokens = Field(description="Tokens, on average")
    spread: Spread = Field(default=0.0, description="Standard deviation over the mean; lengths are log-normal")


class OutputLengths(Lengths):
    """Lengths of answers; those of a batch may follow another law."""

    law: LengthLaw = Field(
        default="log-normal",
        description="Law of the lengths in a batch (requests): log-normal, or that of chats as in ShareGPT, where a "
        "quarter of the answers is under a seventh of the mean",
    )

    @model_validator(mode="after")
    def _unlike(self) -> Self:
        if self.law == "chat" and not self.spread:
            words = {"keys": ("law",)}
            raise PydanticCustomError("law", "answers of chats are unlike: state their spread, 1.05 in ShareGPT", words)
        return self


def _length(value: Any) -> str:
    return "lengths" if isinstance(value, dict | Lengths) else "same"


_Same = Annotated[Tokens, Tag("same")]
Length = Annotated[_Same | Annotated[Lengths, Tag("lengths")], Discriminator(_length)]
OutputLength = Annotated[_Same | Annotated[OutputLengths, Tag("lengths")], Discriminator(_length)]


class ServedAdapters(Document):
    """LoRA adapters that an engine holds beside the model; each request names one."""

    count: Count = Field(description="Adapters in memory; requests are spread evenly over them")
    rank: Count = Field(description="Rank of the largest adapter")


class Beginning(Document):
    """A kind of beginnings that prompts share: the same tokens in some of all requests."""

    tokens: Tokens = Field(description="Tokens of such a beginning, part of the prompt")
    share: Share = Field(default=1.0, description="Share of requests that begin with one of this kind")
    count: Count = Field(default=1.0, description="Different beginnings of this kind, equally frequent")
    spacing: Annotated[float, Quantity("request", 1, 1e12)] | None = optional(
        "In place of a count: requests from one use of a beginning to the next, on average, as in a trace"
    )

    @model_validator(mode="after")
    def _one_frequency(self) -> Self:
        """Checks that a shared beginning states a count or a spacing, and that some requests have it."""
        if self.spacing is not None and "count" in self.model_fields_set:
            sentence = "count and spacing both state how often a beginning comes back: leave one of the two out"
            raise PydanticCustomError("load", sentence, {"keys": ("count", "spacing")})
        if self.share == 0:
            raise PydanticCustomError("load", "no request has it: leave it out", {"keys": ("share",)})
        return self

    @property
    def requests_apart(self) -> float:
        """The mean number of requests between two uses of a shared beginning."""
        return self.count / self.share if self.spacing is None else self.spacing


class Serving(Document):
    """A serving workload."""

    kind: Literal["serving"] = Field(description="serving")
    trace: str | None = optional(
        "File of requests with time, prompt and answer, whose moments stand for the keys left out here: the rate, the "
        "spread of arrivals, the lengths, and what prompts share; a CSV, or JSON lines as of Mooncake"
    )
    prompt: Length = Field(description="Tokens of a prompt: a number, or mean and spread")
    output: OutputLength = Field(description="Tokens of an answer: a number, or mean and spread")
    samples: Count = Field(
        default=1.0,
        description="Answers to each prompt, which share its cache: n or best_of of a request. Rates and requests in "
        "flight count prompts, and a request ends with its longest answer",
    )
    rate: RequestRate | None = optional(
        "Requests that arrive at random, at all replicas; a number without a unit is per second"
    )
    concurrency: Requests | None = optional(
        "Requests in flight on all replicas, each replaced when it ends, as in a benchmark; beside a rate "
        "how many are in flight at most, while others wait at the client, whose wait no time counts"
    )
    users: Users | None = optional(
        "Users of all replicas, each of whom thinks between requests; without a think_time so many are in flight"
    )
    requests: Requests | None = optional(
        "Requests of an offline batch, all there at the start; the time of the last answer counts"
    )
    think_time: Seconds | None = optional("Time between an answer and the user's next request")
    arrival_spread: Spread | None = optional(
        "For a rate: standard deviation of the gaps between arrivals at the service over their mean, above 1 in "
        "bursts; default: 1, at random"
    )
    burstiness: Burstiness | None = optional(
        "In its place: the shape of the gamma law of the gaps, below 1 in bursts, as --burstiness of vllm bench serve"
    )
    traffic: Traffic | None = optional(
        "For a concurrency: steady, or burst if all requests start at once as in benchmarks; default: steady"
    )
    shared_prefix: FewTokens = Field(
        default=0.0,
        description="Tokens that all requests begin with: part of the prompt, or with several turns a system prompt "
        "before the first one",
    )
    beginnings: list[Beginning] = items(
        "In its place: several beginnings with their shares of the requests; the cache keeps those that "
        "come back before newer tokens push them out"
    )
    adapters: ServedAdapters | None = optional(
        "LoRA adapters on every linear map of the layers except routed experts; default: none"
    )
    images: Images | None = optional(
        "Images among the tokens of a prompt, for models with a vision tower; default: none"
    )
    turns: Count = Field(
        default=1.0,
        description="Turns of a conversation. It begins with shared_prefix, and each turn adds prompt; a request sends "
        "all of it so far",
    )
    context: Tokens | None = optional("Tokens of the longest allowed request; default: the mean prompt and answer")
    precision: Precision = Field(default="bf16", description="Data type of the inputs of the layers' matrix products")
    weights: WeightType | None = optional(
        "Data type of the layers' weights; default: that of the model's checkpoint, or of the products"
    )
    expert_precision: Precision | None = optional(
        "Data type of the inputs of routed experts, if the checkpoint quantises only the experts"
    )
    expert_weights: WeightType | None = optional(
        "Data type of the weights of routed experts; default: that of the model's checkpoint, or of their products"
    )
    cache: CacheType = Field(
        default="bf16",
        description="Type of keys and values in the cache; default: that of the checkpoint, or of the checkpoints that "
        "the engine's users take for these products, else in 16 bits",
    )

    @model_validator(mode="after")
    def _one_load(self) -> Self:
        """Checks that exactly one load is given: rate, concurrency, users or requests, or a rate with a cap."""
        given = [name for name in LOADS if getattr(self, name) is not None]
        if len(given) != 1 and tuple(given) != CAPPED:
            stated = f"{' and '.join(given)} are given" if given else "no load is given"
            sentence = "{fault}; a load is one of rate, concurrency, users and requests, or a rate with a concurrency"
            kind: Literal["loads", "no_load"] = "loads" if given else "no_load"
            raise PydanticCustomError(kind, sentence, {"fault": stated, "keys": tuple(given)})
        return self

    @model_validator(mode="after")
    def _load_and_its_keys(self) -> Self:
        """Checks that keys such as think_time, traffic and beginnings belong to the kind of load given."""
        if self.think_time is not None and self.users is None and self.turns == 1:
            sentence = "think_time belongs to users, or to the turns of a conversation"
            raise PydanticCustomError("load", sentence, {"keys": ("think_time",)})
        if self.traffic is not None and (self.concurrency is None or self.rate is not None):
            sentence = "traffic belongs to a concurrency; requests of a rate or of users come at random"
            raise PydanticCustomError("load", sentence, {"keys": ("traffic",)})
        if self.beginnings and (self.shared_prefix or self.turns > 1):
            other = "shared_prefix" if self.shared_prefix else "turns"
            sentence = f"beginnings and {other} both state what prompts begin with: leave one of the two out"
            raise PydanticCustomError("load", sentence, {"keys": ("beginnings", other)})
        if (
            self.beginnings
            and sum(beginning.share for beginning in self.beginnings if beginning.spacing is None) > 1 + 1e-9
        ):
            raise PydanticCustomError("load", "the shares of beginnings are over 100 %", {"keys": ("beginnings",)})
        if sum(beginning.share * beginning.tokens for beginning in self.beginnings) >= self.mean("prompt"):
            words = {"keys": ("beginnings", "prompt")}
            raise PydanticCustomError("load", "beginnings are as long as the prompt: nothing would be left", words)
        bursts = [name for name in BURSTS if getattr(self, name) is not None]
        if len(bursts) > 1 or (bursts and self.rate is None):
            both = "arrival_spread and burstiness state the same: leave one of the two out"
            sentence = both if len(bursts) > 1 else f"{bursts[0]} belongs to a rate"
            raise PydanticCustomError("load", sentence, {"keys": tuple(bursts)})
        if self.turns == 1 and self.shared_prefix >= self.mean("prompt"):
            words = {"keys": ("shared_prefix", "prompt")}
            raise PydanticCustomError("load", "shared_prefix is as long as the prompt: nothing would be left", words)
        whole = self.opening + self.turns * (self.mean("prompt") + self.mean("output"))
        if self.context is not None and self.context < whole:
            sentence = "a context of {context} tokens holds no request of {whole}: write context: {whole} or more"
            lengths = {"context": f"{self.context:,.0f}", "whole": f"{whole:,.0f}", "keys": ("context",)}
            raise PydanticCustomError("load", sentence, lengths)
        return self

    @property
    def opening(self) -> float:
        """Tokens of a conversation before its first prompt."""
        return self.shared_prefix if self.turns > 1 else 0.0

    @property
    def at_once(self) -> float | None:
        """The number of requests in flight that does not depend on speed: of a benchmark or a batch."""
        return self.concurrency if self.requests is None else self.requests

    @property
    def single_token(self) -> bool:
        """Whether answers have one token, so that there is no time between output tokens."""
        return self.mean("output") <= 1

    def mean(self, name: Literal["prompt", "output"]) -> float:
        """The mean number of tokens of a prompt or an answer."""
        length = getattr(self, name)
        return length.mean if isinstance(length, Lengths) else length

    def spread(self, name: Literal["prompt", "output"]) -> float:
        """The standard deviation of prompt or answer lengths over their mean."""
        length = getattr(self, name)
        return length.spread if isinstance(length, Lengths) else Figure(0.0)

    @property
    def answer_law(self) -> LengthLaw:
        """The law of the lengths of answers."""
        return self.output.law if isinstance(self.output, OutputLengths) else "log-normal"


# Plan of engines on the accelerators: one replica and the number of replicas; and a space of such plans.

Copies = Annotated[float, Quantity("1", 0, whole=True)]
_OF_ONE = ("tp", "pp", "ep", "dp_attention", "dcp", "replicas")
_NO_STAGES = (
    "instances for prefill and for decode have no pp: how a cache passes between pipeline stages of both is not "
    "modelled; leave pp out and state tp"
)
DRAFTS = ("eagle", "mtp", "ngram")  # any other is a model


ACCEPTED = ("acceptance", "chance", "length")


class Speculation(Document):
    """Tokens that a cheap draft proposes and one step of the model verifies."""

    tokens: Count = Field(description="Tokens drafted for each sequence and step", examples=["4"])
    acceptance: Share | None = Field(
        default=None,
        description="Accepted tokens over drafted ones, with so many drafted: the acceptance rate in the log of vLLM",
        examples=["42 %"],
    )
    chance: Share | None = optional(
        "In its place: the chance that a drafted token is accepted, given that those before it are"
    )
    length: Annotated[float, Quantity("token", 1)] | None = optional(
        "In its place: tokens that a step adds, with the model's own: the accept length in the log of "
        "SGLang, the mean acceptance length in that of vLLM"
    )
    depth: Count | None = optional("Levels of a tree of drafts, a pass of the draft for each; default: tokens, a chain")
    width: Count = Field(default=1.0, description="Tokens that a pass drafts beside each other: the topk of SGLang")
    draft: str = Field(
        description="eagle or mtp (a layer like the model's last, and its head), ngram (repeated text), or a model",
        examples=["eagle"],
    )

    @property
    def levels(self) -> float:
        """The number of draft passes: one for each level of the draft tree."""
        return self.tokens if self.depth is None else self.depth

    @property
    def tree_words(self) -> str:
        """The shape of the draft tree as written in a plan; empty for a chain."""
        depth = "" if self.depth is None else f", depth: {self.depth:g}"
        return depth if self.width == 1 else f"{depth}, width: {self.width:g}"

    @property
    def accepted_words(self) -> str:
        """The acceptance of draft tokens as written in a plan."""
        if self.length is not None:
            return f"length: {self.length:g}"
        name, share = ("chance", self.chance) if self.acceptance is None else ("acceptance", self.acceptance)
        return f"{name}: {100 * (share or 0.0):.4g} %"

    @model_validator(mode="after")
    def _accepted(self) -> Self:
        """Checks that acceptance is stated once, and that the draft tree is possible."""
        given = [name for name in ACCEPTED if getattr(self, name) is not None]
        if len(given) != 1:
            fault = f"{' and '.join(given)} are given" if given else "none is given"
            words = {"fault": fault, "keys": tuple(given)}
            sentence = "{fault}; how many drafted tokens are accepted is one of acceptance, chance and length"
            raise PydanticCustomError("accepted", sentence, words)
        if self.levels > self.tokens or self.width > self.tokens:
            sentence = "a tree of {tokens} tokens has neither more levels nor more tokens beside each other"
            words = {"tokens": f"{self.tokens:g}", "keys": ("depth", "width", "tokens")}
            raise PydanticCustomError("accepted", sentence, words)
        if self.width > 1 and self.depth is None:
            sentence = (
                "a tree that is {width} tokens wide has fewer levels than tokens: state depth, or leave width out"
            )
            raise PydanticCustomError("accepted", sentence, {"width": f"{self.width:g}", "keys": ("width",)})
        added = 1 + self.tokens * self.acceptance if self.acceptance is not None else self.length
        if added is not None and added > self.levels + 1 + 1e-9:
            key = "acceptance" if self.length is None else "length"
            words = {"most": f"{self.levels + 1:g}", "keys": (key, "depth" if self.depth else "tokens")}
            raise PydanticCustomError("accepted", "a step adds {most} tokens at most: drafted ones and its own", words)
        return self


class Instances(Document):
    """Instances that do one half of the work: prompts, or the tokens behind them."""

    tp: Gpus = Field(default=1, description="Tensor-parallel degree")
    ep: Gpus = Field(default=1, description="Expert-parallel degree")
    dp_attention: Replicas = Field(default=1, description="Groups of tp ranks that each attend to their own requests")
    dcp: Gpus = Field(default=1, description="Ranks of tp that divide the cache of a sequence by tokens")
    replicas: Replicas = Field(
        default=1, description="Instances of this kind; left out, as many of each as the accelerators hold"
    )

    node: str | None = optional(
        "Kind of node that they run on, one of those of cluster.groups, prefill on another than decode; left out, all "
        "nodes are of one kind"
    )

    @model_validator(mode="before")
    @classmethod
    def _without_stages(cls, stated: Any) -> Any:
        if isinstance(stated, dict) and "pp" in stated:
            raise PydanticCustomError("plan", _NO_STAGES, {"keys": ("pp",)})
        return stated


class ReplicaPlan(Document):
    """One replica of the engine, and how many there are; or instances for prompts and for tokens apart."""

    tp: Gpus = Field(default=1, description="Tensor-parallel degree")
    pp: Stages = Field(default=1, description="Pipeline stages")
    ep: Gpus = Field(
        default=1, description="Expert-parallel degree; divides the ranks of tp and dp_attention a second time"
    )
    dp_attention: Replicas = Field(
        default=1, description="Groups of tp ranks, each with its own requests, that share the experts"
    )
    dcp: Gpus = Field(
        default=1, description="Decode context parallelism: ranks of tp that divide the cache of a sequence by tokens"
    )
    replicas: Replicas | None = optional("Copies of the engine; default: as many as the accelerators hold")
    speculation: Speculation | None = optional("Speculative decoding; default: none")
    redundant_experts: Copies | None = optional(
        "Copies of routed experts of a layer, over all ranks of ep; default: none"
    )
    host_experts: Share | None = optional(
        "Share of the routed experts that lie in host memory and are computed by its processors; default: none"
    )
    prefill: Instances | None = optional("Instances that only compute prompts")
    decode: Instances | None = optional("Instances that only generate, from the cache sent to them")

    @model_validator(mode="after")
    def _both_halves(self) -> Self:
        """Checks that prefill and decode are stated together, and nothing that contradicts them."""
        if (self.prefill is None) != (self.decode is None):
            words = "state prefill and decode together: each computes what the other does not"
            raise PydanticCustomError("plan", words, {"keys": ("prefill", "decode")})
        beside = [name for name in _OF_ONE if name in self.model_fields_set]
        if self.prefill is not None and "pp" in beside:
            raise PydanticCustomError("plan", _NO_STAGES, {"keys": ("pp",)})
        if self.prefill is not None and beside:
            sentence = "{fault} is for engines that do both; prefill and decode have their own"
            raise PydanticCustomError("plan", sentence, {"fault": " and ".join(beside), "keys": tuple(beside)})
        nodes = [half.node for half in (self.prefill, self.decode) if half is not None]
        if nodes and (nodes.count(None) == 1 or (nodes[0] is not None and nodes[0] == nodes[1])):
            sentence = "prefill.node and decode.node name two kinds of nodes; leave both out where all run on one kind"
            raise PydanticCustomError("plan", sentence, {"keys": ("prefill", "decode")})
        return self


class ServingPlan(ReplicaPlan):
    """A plan of all nodes, or one of each kind of them."""

    groups: list[ReplicaPlan] | None = listed(
        "Plans of the kinds of nodes in cluster.groups, in their order; left out, one plan is of all"
    )

    @model_validator(mode="after")
    def _of_groups(self) -> Self:
        """Checks that a plan with groups of nodes states its degrees inside the groups only."""
        beside = [name for name in ("prefill", "decode", *_OF_ONE) if name in self.model_fields_set]
        if self.groups is not None and beside:
            sentence = "{fault} is of one plan, and groups have their own plans; state it in each of groups"
            raise PydanticCustomError("plan", sentence, {"fault": " and ".join(beside), "keys": tuple(beside)})
        return self

    @classmethod
    def of_kind(cls, plan: ReplicaPlan) -> Self:
        """The plan for one kind of nodes, as a plan of all nodes."""
        values = {name: getattr(plan, name) for name in type(plan).model_fields}
        return cls.model_construct(_fields_set=set(plan.model_fields_set), **values)


class ServingSpace(Document):
    """Lists of the plan's keys; a key left out takes every value that makes sense."""

    tp: list[Gpus] | None = listed("Tensor-parallel degrees")
    pp: list[Stages] | None = listed("Pipeline stages")
    ep: list[Gpus] | None = listed("Expert-parallel degrees")
    dp_attention: list[Replicas] | None = listed(
        "Groups of tp ranks with their own requests; default: 1, with latent attention all"
    )
    dcp: list[Gpus] | None = listed("Degrees of decode context parallelism to try; default: the plan's own")
    replicas: list[Replicas] | None = listed("Copies of the engine to try; default: as many as the accelerators hold")
    redundant_experts: list[Copies] | None = listed(
        "Numbers of copies of routed experts to try; default: the plan's own"
    )
    disaggregated: bool = off("Whether to also try plans with separate prefill and decode")
    budget: list[Tokens] | None = listed("Token budgets of a step to try; default: the engine's choice")


EngineReference = Annotated[Annotated[str, Tag("name")] | Annotated[Engine, Tag("inline")], Discriminator(as_written)]


Availability = Annotated[float, Quantity("1", 0.2, 1)]  # below it, the count of many spares is not exact
Transfer = Literal["whole", "layer"]
Routing = Literal["random", "least-loaded", "cache-aware"]


_IN_TIME = ("in_time_share", "in_time_per_s")  # what a limit on times decides


class ExpertLoad(Document):
    """How tokens spread over experts; left out, evenly."""

    imbalance: Multiple | None = optional("Rows of the busiest rank's experts over the mean")


class RateGrowth(Document):
    """How fast the load grows, and how long a new replica takes to answer."""

    rate: RequestRate = Field(description="Requests per second that are added")
    time: Annotated[float, Quantity("s", 1e-3)] = Field(description="In how long")
    start: Seconds = Field(description="From the decision to a replica that answers")


class ServingAssumptions(Document):
    """Assumptions; every default used is reported in the answer."""

    experts: ExpertLoad = Field(default_factory=cache(ExpertLoad.model_construct), description="Mixture of experts")
    price: Price | None = optional("Of one accelerator; else the node's list price")
    power: Watts | None = optional("Of an accelerator and its share of the node while it serves; else the practice's")
    headroom: Share | None = optional(
        "Over the rate, for the number of replicas; else none, or 25 % where no limit bounds times"
    )
    growth: RateGrowth | None = optional("Of the rate while new replicas start, for the number of replicas; else none")
    availability: Availability | None = optional(
        "Share of time in which a replica is up (20 % at least), for the number of replicas; else all"
    )
    enough_up: Portion | None = optional("Share of time in which enough replicas are up; else 99.9 %")
    routing: Routing | None = optional(
        "Of requests to replicas: random, to the least loaded, or to the cache; else random"
    )
    network_share: Portion | None = optional("Share of the interface rate that collectives reach; else the fit's")
    cache_transfer: Transfer | None = optional(
        "From prefill to decode: whole behind the prompt, or layer by layer; else whole"
    )

    @model_validator(mode="after")
    def _spares(self) -> Self:
        """Checks that spare replicas have the availability from which they are computed."""
        if self.enough_up is not None and self.availability is None:
            words = {"keys": ("enough_up",)}
            raise PydanticCustomError("spares", "enough_up needs availability: how long each replica is up", words)
        if self.enough_up == 1 and self.availability != 1:
            words = {"keys": ("enough_up",)}
            raise PydanticCustomError("spares", "no number of replicas is always enough; write 99.99 %", words)
        return self


Objective = Literal[
    "rate_within_slo_per_s",
    "tokens_per_gpu_within_limits",
    "cost_within_limits",
    "gpus_needed",
    "tpot",
    "tpot_p99",
    "ttft",
    "ttft_p99",
    "latency",
    "in_time_share",
    "makespan",
    "rent_per_month",
    "cost_of_batch",
    "energy_per_token",
]


def usual_objective(workload: Serving) -> Objective:
    """The default objective of a search: makespan for a batch, latency for a fixed number of requests in flight
    (by Little's law it decides the rate), else the rate within the limits.
    """
    if workload.requests is not None:
        return "makespan"
    if workload.concurrency is not None or workload.users is not None:
        return "latency"
    return "rate_within_slo_per_s"


class ServingScenario(Document):
    """Everything one question about serving needs."""

    schema_: Literal["costmodel/scenario/v1"] = Field(alias="schema", description="Kind and version of this document")
    title: str = Field(description="One line for the reader of the file; answers print what was computed")
    model: ModelReference = Field(description="Model: a name, or the keys of a model document")
    cluster: Cluster = Field(description="Where it runs")
    workload: Serving = Field(description="What it is asked to do")
    stack: EngineReference = Field(default="vllm", description="Engine, by name or written out")
    plan: ServingPlan | None = optional("One plan")
    search: ServingSpace | None = optional("The same keys with lists; by default every valid plan")
    assume: ServingAssumptions = Field(
        default_factory=cache(ServingAssumptions.model_construct), description="Assumptions"
    )
    limits: ServingLimits = Field(
        default_factory=cache(ServingLimits.model_construct), description="What a plan must keep"
    )
    objective: Objective = Field(
        default="rate_within_slo_per_s",
        description="What search orders by; by default rate_within_slo_per_s, of an offline batch makespan, of a "
        "concurrency tpot",
    )

    @model_validator(mode="after")
    def _usual_objective(self) -> Self:
        if "objective" not in self.model_fields_set:
            object.__setattr__(self, "objective", usual_objective(self.workload))
        return self

    @model_validator(mode="after")
    def _replicas_of_a_rate(self) -> Self:
        """Checks that keys which count replicas for a rate have a rate."""
        stated = [name for name in ("headroom", "growth", "availability") if getattr(self.assume, name) is not None]
        if stated and self.workload.rate is None:
            words = {"key": stated[0], "keys": ("assume",)}
            raise PydanticCustomError("spares", "assume.{key} counts replicas for a rate, and none is stated", words)
        if self.objective == "gpus_needed" and self.workload.rate is None:
            keys = {"keys": ("objective",)}
            raise PydanticCustomError("spares", "gpus_needed counts GPUs for a rate, and none is stated", keys)
        stated = [name for name in _IN_TIME if name in self.limits.model_fields_set]
        if (stated or self.objective == "in_time_share") and not self._bounds_requests():
            sentence = "{name} counts requests within limits on their times, and none is stated, as limits.ttft.at_most"
            place = ("limits", stated[0]) if stated else ("objective",)
            raise PydanticCustomError("spares", sentence, {"name": (*stated, "in_time_share")[0], "keys": place})
        return self

    def _bounds_requests(self) -> bool:
        """Whether a limit applies to single requests and so decides which of them are in time."""
        limits = self.limits
        times = (limits.ttft, limits.ttft_p99, limits.tpot, limits.tpot_p99)
        return any(time.at_most is not None for time in times) or limits.tokens_per_s_per_user.at_least is not None


SERVING: dict[str, type[BaseModel]] = {"scenario": ServingScenario, "stack": Engine}
