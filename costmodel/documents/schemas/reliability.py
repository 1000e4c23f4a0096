"""How often jobs on a cluster are interrupted, as published or as you know your own."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.schemas.base import (
    Check,
    Document,
    Name,
    Quantity,
    Seconds,
    Source,
    Sourced,
    as_written,
    no_keys,
    optional,
)
from costmodel.documents.schemas.count_kinds import Gpus
from costmodel.ground.errors import quoted_value
from costmodel.ground.parsing import example


def _of_nodes(value: Any) -> Any:
    """Checks that the unit of a rate names the node, so that a rate of the whole job is not mistaken for it."""
    if isinstance(value, str) and "node" not in value:
        words = {"given": quoted_value(value), "sample": example("1/node/s")}
        sentence = "{given} is no rate of nodes; write e.g. {sample}, and one of the whole job under job"
        raise PydanticCustomError("quantity_unit", sentence, words)
    return value


_MOST = 1 / 3600  # an interruption an hour
NodeRate = Annotated[float, Quantity("1/node/s", 1e-15, _MOST), BeforeValidator(_of_nodes)]
JobTime = Annotated[float, Quantity("s", 1)]
JobRate = Annotated[float, Quantity("run/s", 0, _MOST)]
SoftShare = Annotated[float, Quantity("1", 0, 0.999)]


class JobFailures(Sourced):
    """Interruptions of a job that do not grow with its nodes: those by software."""

    rate: JobRate = Field(description="Of a job")
    low: JobRate | None = optional("Low end of the band; else the rate")
    high: JobRate | None = optional("High end of the band; else the rate")


class SoftFailures(Sourced):
    """Interruptions that spare the memory of the hosts."""

    share: SoftShare = Field(description="Share of all that a restart of processes on the same nodes cures")


class Repair(Sourced):
    """Time for which a failed node is missing."""

    time: Seconds = Field(description="From the failure until the node can be used again")


def _time_alone(value: Any) -> Any:
    """Turns a plain time into a repair of that time."""
    return {"time": value} if isinstance(value, str) else value


class Failures(Document):
    """Interruptions of a job by its nodes, with the band of the rate."""

    schema_: Literal["costmodel/reliability/v1"] = Field(
        default="costmodel/reliability/v1", alias="schema", description="Kind and version of this document"
    )
    name: str = Field(default="", description="Name; of a document equal to the file name")
    title: str = Field(default="", description="Which cluster")
    rate: NodeRate | None = Field(
        default=None, description="Interruptions by one node; or every", examples=["3.8 /1000 node-days"]
    )
    every: JobTime | None = Field(
        default=None, description="Time between interruptions of a whole job, in the place of rate", examples=["3 h"]
    )
    gpus: Gpus | None = optional("Accelerators of the job that every was observed on; default: those of this job")
    low: NodeRate | None = optional("Low end of the band, P10; else the rate")
    high: NodeRate | None = optional("High end of the band, P90; else the rate")
    job: JobFailures | None = optional("Those that do not grow with the nodes; left out, none")
    soft: SoftFailures | None = optional("Those that spare host memory; left out, none")
    repair: Annotated[Repair | None, BeforeValidator(_time_alone)] = optional("Of a node; wanted for spare nodes")
    source: str | None = optional("Key of the source of the rates")
    check: Check = Field(default="seen", description="seen: read in that source; known: page not re-read")
    note: str | None = optional("What a reader should know about these figures")
    sources: dict[str, Source] = Field(default_factory=no_keys, description="Sources by key")

    @model_validator(mode="after")
    def _one_rate(self) -> Self:
        if (self.rate is None) == (self.every is None):
            sentence = "state one of the two: rate, of a node, or every, of the whole job"
            raise PydanticCustomError("limit", sentence, {"keys": ("rate", "every")})
        beside = tuple(key for key in ("low", "high", "job") if getattr(self, key) is not None)
        if self.every is not None and beside:
            sentence = "every counts all interruptions of the job and has no {beside} beside it"
            raise PydanticCustomError("limit", sentence, {"keys": beside, "beside": ", ".join(beside)})
        if self.gpus is not None and self.every is None:
            raise PydanticCustomError("limit", "gpus goes with every", {"keys": ("gpus",)})
        return self

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for rates, path in ((self, ""), (self.job, "job.")):
            if rates is not None and rates.low is not None and rates.high is not None and rates.low > rates.high:
                words = {"keys": (f"{path}low", f"{path}high")}
                raise PydanticCustomError("band", "low is more than high", words)
        return self


class Reliability(Failures):
    """Published counts of interruptions of jobs on one cluster."""

    schema_: Literal["costmodel/reliability/v1"] = Field(
        alias="schema", description="Kind and version of this document"
    )
    name: Name = Field(description="Name; equals the file name")
    title: str = Field(description="Which cluster")
    source: str = Field(description="Key of the source of the rates")


FailuresReference = Annotated[
    Annotated[str, Tag("name")] | Annotated[Failures, Tag("inline")], Discriminator(as_written)
]
