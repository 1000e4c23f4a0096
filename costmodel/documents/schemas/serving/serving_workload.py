"""Workload of an engine: lengths of prompts and answers, arrivals, and data types."""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.schemas.base import Count, Document, Quantity, Seconds, Share, no_items, optional
from costmodel.documents.schemas.images import Images
from costmodel.documents.schemas.precision import CacheType, Precision, WeightType
from costmodel.ground.units import Figure

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


def _length(value: Any) -> str:
    return "lengths" if isinstance(value, dict | Lengths) else "same"


Length = Annotated[Annotated[Tokens, Tag("same")] | Annotated[Lengths, Tag("lengths")], Discriminator(_length)]


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
    output: Length = Field(description="Tokens of an answer: a number, or mean and spread")
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
    beginnings: list[Beginning] = Field(
        default_factory=no_items,
        description="In its place: several beginnings with their shares of the requests; the cache keeps those that "
        "come back before newer tokens push them out",
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
        given = [name for name in LOADS if getattr(self, name) is not None]
        if len(given) != 1 and tuple(given) != CAPPED:
            stated = f"{' and '.join(given)} are given" if given else "no load is given"
            sentence = "{fault}; a load is one of rate, concurrency, users and requests, or a rate with a concurrency"
            kind: Literal["loads", "no_load"] = "loads" if given else "no_load"
            raise PydanticCustomError(kind, sentence, {"fault": stated, "keys": tuple(given)})
        return self

    @model_validator(mode="after")
    def _load_and_its_keys(self) -> Self:
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
        if self.beginnings and sum(each.share for each in self.beginnings if each.spacing is None) > 1 + 1e-9:
            raise PydanticCustomError("load", "the shares of beginnings are over 100 %", {"keys": ("beginnings",)})
        if sum(each.share * each.tokens for each in self.beginnings) >= self.mean("prompt"):
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
