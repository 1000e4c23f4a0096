"""A serving scenario: model, cluster, workload, engine, plan or space of plans, assumptions, limits."""

from functools import cache
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.schemas.base import (
    Document,
    Multiple,
    Portion,
    Price,
    Quantity,
    Seconds,
    Share,
    Watts,
    as_written,
    optional,
)
from costmodel.documents.schemas.hardware import Cluster
from costmodel.documents.schemas.model import ModelReference
from costmodel.documents.schemas.serving.engine import Engine
from costmodel.documents.schemas.serving.serving_limits import ServingLimits
from costmodel.documents.schemas.serving.serving_plan import ServingPlan, ServingSpace
from costmodel.documents.schemas.serving.serving_workload import RequestRate, Serving

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
    model: ModelReference = Field(description="Model, by name or written out")
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
        return any(each.at_most is not None for each in times) or limits.tokens_per_s_per_user.at_least is not None
