"""Software for reinforcement learning: which trainer, which engine, and how weights and memory pass between them."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from costmodel.documents.schemas.base import (
    Document,
    Name,
    Portion,
    Quantity,
    Seconds,
    Share,
    Source,
    Sourced,
    no_keys,
    optional,
)
from costmodel.documents.schemas.base import as_written as _as_written
from costmodel.documents.schemas.rl.rl_workload import Algorithm, Rollouts
from costmodel.documents.schemas.serving.engine import Engine
from costmodel.documents.schemas.stack import StackReference

EngineReference = Annotated[Annotated[str, Tag("name")] | Annotated[Engine, Tag("inline")], Discriminator(_as_written)]
CopyRate = Annotated[float, Quantity("B/s", 1)]


class WeightSync(Sourced):
    """Rates at which all new weights reach the engines; the link between them may be slower."""

    whole: CopyRate = Field(description="Of weights that one rank of the trainer can gather matrix by matrix")
    sharded: CopyRate = Field(description="Of weights that tp, pp or ep of the trainer cut another way than engines")
    apart: CopyRate | None = optional(
        "Of sharded weights to engines on accelerators of their own; left out, as to others"
    )
    converted: bool = Field(
        default=False,
        description="Whether the trainer sends weights in the type that engines read; else engines convert what comes",
    )


class Sharing(Sourced):
    """How training and generation share an accelerator."""

    memory: Portion = Field(description="Share of the memory that an engine claims")
    sleeps: bool = Field(description="Whether engines give back weights and cache while training")
    offload: bool = Field(description="Whether states of training go to the host while answers are generated")
    balanced: bool = Field(description="Whether answers of an iteration are dealt to ranks by their length")


class RolloutHost(Sourced):
    """What generation costs beyond the steps of an engine that serves."""

    token: Seconds = Field(
        description="Time of an engine's host for each token of an answer that it samples and returns with its "
        "log-probability, in which its accelerators wait"
    )
    turn: Seconds = Field(
        default=0.0, description="To put engines to sleep and to wake them, once an iteration on shared accelerators"
    )


class IterationSpread(Sourced):
    """How far real iterations lie from what their phases explain; standard deviations, relative."""

    generation: Share = Field(description="Of generation: lengths are not log-normal, and grow")
    update: Share = Field(description="Of the passes of the trainer, beyond the error of a step")
    lengths: Share = Field(description="Of the mean length of answers from iteration to iteration")


class RlStack(Document):
    """One software for reinforcement learning, as it runs by default."""

    schema_: Literal["costmodel/stack/v1"] = Field(alias="schema", description="Kind and version of this document")
    name: Name = Field(description="Name; equals the file name")
    title: str = Field(description="Full name and version")
    kind: Literal["rl"] = Field(description="rl")
    like: Name | None = optional("Stack that everything left out is taken from, section by section")
    trainer: StackReference = Field(description="What trains, by name or written out")
    rollout: EngineReference = Field(description="Engine that generates, by name or written out")
    algorithms: list[Algorithm] = Field(min_length=1, description="Algorithms it offers")
    rollouts: list[Rollouts] = Field(min_length=1, description="Ways to generate that it offers")
    scored_by_trainer: list[Rollouts] = Field(
        description="Ways to generate after which the trainer computes old log-probabilities; else engines' count"
    )
    apart: bool = Field(description="Whether engines can have accelerators of their own")
    sync: WeightSync = Field(description="How new weights reach the engines")
    sharing: Sharing = Field(description="How training and generation share an accelerator")
    host: RolloutHost = Field(description="What generation costs beyond the steps of an engine that serves")
    spread: IterationSpread = Field(description="Error beyond that of a step and of an engine")
    sources: dict[str, Source] = Field(default_factory=no_keys, description="Sources by key")
