"""The whole run: its length and checkpoints, and how reliable its machines are."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, PlainValidator, Tag, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.keys.paths import REFERENCES
from costmodel.documents.schemas.base import (
    LEAST_FACTOR,
    Check,
    Document,
    EnergyPrice,
    Gpus,
    Multiple,
    Name,
    Price,
    Quantity,
    Rate,
    Seconds,
    Share,
    Source,
    Sourced,
    Watts,
    as_written,
    keyed,
    optional,
)
from costmodel.documents.schemas.practice import GridReference, PracticeReference
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
    sources: dict[str, Source] = keyed("Sources by key")

    @model_validator(mode="after")
    def _one_rate(self) -> Self:
        """Checks that failures state the rate of a node or of the whole job, not both."""
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
        """Checks that the low end of each rate's band is not above its high end."""
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


_SPAN = Quantity("s", 1e-3, 1e9)
Pause = Annotated[float, Quantity("s", 0, _SPAN.high)]
PartOfTime = Annotated[float, Quantity("1", 0, 1 - LEAST_FACTOR)]  # some is left for steps
TokenRate = Annotated[float, Quantity("token/s", 1)]
StoreRate = Annotated[float, Quantity("B/s", 1)]
Steps = Annotated[float, Quantity("step", 1, whole=True)]
_NODES = Quantity("node", 0, 1e9, whole=True)
_COVERED = Quantity("1", 0.5, 0.9999)
_TOKEN_BYTES = Quantity("B/token", 1e-3, 1e12)
Mode = Literal["sync", "async", "memory"]


def _interval(value: Any) -> Any:
    """The text "best", or the training time between two checkpoints."""
    return value if value == "best" else _SPAN.validate(value)


def _in_steps(value: Any) -> bool:
    """Whether a checkpoint interval is written as a number of steps."""
    return isinstance(value, str) and value.split()[1:] in (["step"], ["steps"])


Interval = Annotated[
    Literal["best"] | float,
    PlainValidator(_interval),
    WithJsonSchema({"type": "string", "examples": ["best", "30 min"]}),
]


def _spares(value: Any) -> Any:
    """A number of spare nodes, or the share of the time for which the spares should be enough."""
    if isinstance(value, str) and value.rstrip().endswith("%"):
        return _COVERED.validate(value)
    return _NODES.validate(value)


Spares = Annotated[
    float, PlainValidator(_spares), WithJsonSchema({"type": ["string", "number"], "examples": ["4 nodes", "99 %"]})
]


class Storage(Document):
    """A shared store, as the whole job reaches it."""

    write: StoreRate | None = optional("All writers together; left out, as the practice has it")
    read: StoreRate | None = optional("All readers together; left out, as the practice has it")


class Checkpointing(Document):
    """How the states of training are saved."""

    interval: Interval = Field(
        default="best", description="Useful time between checkpoints in storage, a number of steps, or best"
    )
    steps: Steps | None = optional("Steps between checkpoints, instead of interval")
    mode: Mode = Field(
        default="async",
        description="sync: training waits for storage; async: training waits for the copy to the host; memory: "
        "frequent copies in the memory of other hosts, and some in storage",
    )
    memory_interval: Interval = Field(default="best", description="Useful time between copies in memory, or best")
    storage: Storage = Field(default_factory=Storage.model_construct, description="Shared store")
    writer: Rate | None = optional("Write rate of one rank; default: no limit")
    block: Pause | None = optional(
        "Pause for a checkpoint; default: the copy over the host link plus the value of the practice"
    )
    interference: Share | None = optional("Share of training speed that a write in the background takes")
    reads: Literal["once", "by-each-replica"] = Field(
        default="once", description="Whether each byte is loaded once, or by each data-parallel replica"
    )

    @model_validator(mode="before")
    @classmethod
    def _interval_of_steps(cls, given: Any) -> Any:
        """An interval of 250 steps is that number of steps."""
        if isinstance(given, dict) and _in_steps(given.get("interval")) and given.get("steps") is None:
            return {**given, "interval": "best", "steps": given["interval"]}
        return given

    @model_validator(mode="after")
    def _one_interval(self) -> Self:
        if self.steps is not None and self.interval != "best":
            words = {"keys": ("interval", "steps")}
            raise PydanticCustomError("limit", "interval and steps both set how often; leave one out", words)
        return self


class Restart(Document):
    """Time from an interruption until training continues, without loading the checkpoint."""

    detect: Pause | None = optional("Time until the failure is detected, in addition to start")
    start: Pause | None = optional("New nodes, processes, communicators")
    warm_up: Pause | None = optional("Slow first steps and data loader, in addition to start")
    ranks: Gpus | None = optional(
        "Accelerators on which the resharded job continues until the repair: whole replicas on the nodes "
        "that are left; default: a spare takes over"
    )


class PlannedStops(Document):
    """Stops for maintenance."""

    every: Seconds = Field(description="Wall time from one stop to the next")
    stop: Pause = Field(description="Duration of each stop")

    @model_validator(mode="after")
    def _leaves_time(self) -> Self:
        if self.stop >= self.every:
            sentence = "planned stops take all of the time: stop must be shorter than every"
            raise PydanticCustomError("limit", sentence, {"keys": ("every", "stop")})
        return self


class Elastic(Document):
    """Continuing without the replicas that have a rank on a failed node until it is repaired."""

    regroup: Pause | None = optional("Pause of all replicas when some leave or return; default: a start")
    repair: Seconds | None = optional("Time until the failed node is back; default: the repair time of run.failures")


def _elastic(value: Any) -> Any:
    """Turns true into an elastic job with default values, and false into None."""
    return {True: {}, False: None}.get(value, value) if isinstance(value, bool) else value


class Energy(Document):
    """Power that the job draws, and the grid that supplies it."""

    draw: Watts | None = optional("Power of each accelerator and its share of the node, in training")
    cap: Watts | None = optional("Power limit of each accelerator; default: its rated power")
    idle: Share | None = optional("Share of that power drawn while training is stopped")
    pue: Multiple | None = optional("Power of the data centre over the power of its nodes")
    grid: GridReference = Field(default=REFERENCES["run.power.grid"].usual, description="Grid, by name or written out")
    tariff: EnergyPrice | None = optional("Price of electricity; default: that of the grid")


class Spot(Document):
    """Nodes that can be taken away."""

    price: Price = Field(description="Price of one accelerator")
    preempted_every: Seconds = Field(description="Mean time until one node is preempted")
    notice: Seconds = Field(default=0.0, description="Time between the notice and the preemption")


class DataStore(Document):
    """The store that training data is read from."""

    read: StoreRate = Field(description="All readers together")
    token: Annotated[float, _TOKEN_BYTES] = Field(description="Bytes to read for each token")


class WholeRun(Document):
    """What happens around the steps; each key left out is the practice's, and listed as assumed."""

    steps: Steps | None = optional("Optimizer steps, instead of workload.tokens")
    failures: FailuresReference = Field(
        default=REFERENCES["run.failures"].usual, description="What interrupts the job, by name or written out"
    )
    practice: PracticeReference = Field(
        default=REFERENCES["run.practice"].usual, description="How the cluster is run, by name or written out"
    )
    checkpoint: Checkpointing = Field(default_factory=Checkpointing.model_construct, description="How states are saved")
    restart: Restart = Field(
        default_factory=Restart.model_construct, description="Cost of an interruption in addition to lost work"
    )
    spares: Spares = Field(
        default=0.0,
        description="Spare nodes, which are paid for: --set run.spares=4; or the share of the time for which they are "
        "enough: --set run.failures.repair=24h --set run.spares=99%",
    )
    elastic: Annotated[Elastic | None, BeforeValidator(_elastic)] = optional(
        "Continue with fewer replicas: true, or its times; default: restart"
    )
    evaluation: PartOfTime = Field(default=0.0, description="Share of the time spent on evaluation")
    planned: PlannedStops | None = optional("Planned stops; default: none")
    loader: TokenRate | None = optional("Tokens per second that the data loader delivers; default: no limit")
    data: DataStore | None = optional("Storage of the training data; default: no limit")
    power: Energy = Field(default_factory=Energy.model_construct, description="Energy and emissions")
    spot: Spot | None = optional("Preemptible nodes; default: none")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        """Checks that the ways to continue after a failure do not exclude each other."""
        if self.elastic is not None and self.checkpoint.mode == "memory":
            words = {"keys": ("elastic", "checkpoint.mode")}
            sentence = "elastic continues from the remaining replicas, so checkpoints in memory have no effect"
            raise PydanticCustomError("limit", sentence, words)
        others = {
            "elastic": self.elastic is not None,
            "spares": self.spares > 0,
            "checkpoint.mode": self.checkpoint.mode == "memory",
        }
        for key, stated in others.items():
            if self.restart.ranks is not None and stated:
                sentence = "restart.ranks continues on fewer ranks from storage; leave out one of the two"
                raise PydanticCustomError("limit", sentence, {"keys": ("restart.ranks", key)})
        return self
