"""Defaults of cluster operation: storage, restarts and power."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from costmodel.documents.schemas.base import (
    Document,
    EnergyPrice,
    Multiple,
    Name,
    Positive,
    Quantity,
    Seconds,
    Share,
    Source,
    Sourced,
    as_written,
    keyed,
    optional,
)

CarbonIntensity = Annotated[float, Quantity("kg/J")]
StoreRate = Annotated[float, Quantity("B/node/s", 1)]


class NodeStorage(Sourced):
    """Bandwidth of a shared store for each node of a job on the whole cluster."""

    write: StoreRate = Field(description="For each node")
    read: StoreRate = Field(description="For each node")


class CheckpointStop(Sourced):
    """Time for which an asynchronous checkpoint stops training, besides the copy to the host."""

    overhead: Seconds = Field(description="To plan it and to agree that all have copied")


class WriteInterference(Sourced):
    """Slowdown of training while a checkpoint is written in the background."""

    share: Share = Field(description="Share of training speed while it lasts")


class RestartTime(Sourced):
    """Time from an interruption until training continues, without loading the checkpoint."""

    time: Seconds = Field(description="Detection, new nodes, start of processes and communicators")
    low: Seconds = Field(description="Low end of the band, P10")
    high: Seconds = Field(description="High end of the band, P90")


class NodeDraw(Sourced):
    """Power that nodes draw in training."""

    rated: Share = Field(description="Share of the rated power of the node")
    part: Positive = Field(description="Multiple of the accelerators' power, where the node's rating is unknown")


class ServingDraw(Sourced):
    """Power of nodes that run a service, as a share of their rating."""

    rated: Share = Field(description="Share of the rated power of the node")
    spread: Share = Field(description="Standard deviation of its logarithm from service to service")


class IdleDraw(Sourced):
    """Power that nodes draw while training stands still."""

    share: Share = Field(description="Share of what they draw in training")


class Cooling(Sourced):
    """Power of the data centre beside that of its nodes."""

    pue: Multiple = Field(description="Power of the data centre over that of its nodes")


class StepVariation(Sourced):
    """Variation of step times within one job."""

    tail: Multiple = Field(description="Ninetieth percentile of the time of a step over its median")


class Practice(Document):
    """How a cluster is run: storage, checkpoints, restarts, power, cooling and failures."""

    schema_: Literal["costmodel/practice/v1"] = Field(alias="schema", description="Kind and version of this document")
    name: Name = Field(description="Name; equals the file name")
    title: str = Field(description="Which cluster")
    storage: NodeStorage = Field(description="Shared store")
    stop: CheckpointStop = Field(description="Stop for an asynchronous checkpoint")
    interference: WriteInterference = Field(description="Write in the background")
    restart: RestartTime = Field(description="Restart")
    draw: NodeDraw = Field(description="Power in training")
    serving: ServingDraw = Field(description="Power in serving")
    idle: IdleDraw = Field(description="Power while training stands still")
    cooling: Cooling = Field(description="Power of the data centre")
    steps: StepVariation = Field(description="How steps vary; for diagnose alone")
    sources: dict[str, Source] = keyed("Sources by key")


class Tariff(Sourced):
    """Price of electricity on this grid."""

    price: EnergyPrice = Field(description="For energy at the meter of the data centre")


class PowerGrid(Sourced):
    """An electricity grid in a year."""

    schema_: Literal["costmodel/grid/v1"] = Field(alias="schema", description="Kind and version of this document")
    name: Name = Field(description="Name; equals the file name")
    title: str = Field(description="Place and year")
    intensity: CarbonIntensity = Field(description="Carbon dioxide of its electricity, by location")
    tariff: Tariff | None = optional("Price of its electricity")
    sources: dict[str, Source] = keyed("Sources by key")


PracticeReference = Annotated[
    Annotated[str, Tag("name")] | Annotated[Practice, Tag("inline")], Discriminator(as_written)
]
GridReference = Annotated[Annotated[str, Tag("name")] | Annotated[PowerGrid, Tag("inline")], Discriminator(as_written)]
