"""Priors of the constants of real steps, and the documents that share each constant."""

from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.schemas.base import Document, Name, Positive, Seconds, Source, items, keyed, off

OfEfficiencies = Literal["sustained.factor", "sustained.narrow", "sustained.variation", "network.share"]
OfStacks = Literal["overlap.dp", "overlap.tp", "launch.operation", "kernels.traffic_factor", "experts.grouped_share"]
OfBands = Literal["spread.step", "spread.unseen", "spread.experts"]
Leaf = Literal[OfEfficiencies, OfStacks, OfBands]


def kind_of(leaf: Leaf) -> str:
    """The kind of documents that contain a leaf."""
    return "efficiency" if leaf in get_args(OfEfficiencies) else "stack"


def on_a_scale(value: float, *, share: bool) -> bool:
    """Whether a value can be fitted on a log scale or, for a share, on a log-odds scale."""
    return value > 0 and not (share and value >= 1)


def _measured_in(value: Any) -> str:
    return "time" if isinstance(value, str) and value.endswith("s") else "number"


PriorMean = Annotated[Annotated[Positive, Tag("number")] | Annotated[Seconds, Tag("time")], Discriminator(_measured_in)]


class Prior(Document):
    """One number that leaves of several documents share: a value, and how far it may lie off."""

    name: str = Field(description="What it is called")
    documents: list[Name] = Field(min_length=1, description="Efficiencies or stacks that share it")
    leaf: Leaf = Field(description="Group and key in each of them")
    mean: PriorMean = Field(description="Value before any run; of a constant that is like another, over that one's")
    spread: Positive = Field(
        description="One standard deviation of the value's logarithm, of a share that of its log-odds"
    )
    share: bool = off("Whether it lies between 0 and 1 and log-odds are its scale")
    like: str = Field(default="", description="Constant that this one is so many times; its mean is then a ratio")

    @model_validator(mode="after")
    def _on_its_scale(self) -> Self:
        if not on_a_scale(self.mean, share=self.share):
            raise PydanticCustomError("prior", "a share lies between 0 and 1, anything else above 0")
        return self

    @property
    def kind(self) -> str:
        """The kind of the documents."""
        return kind_of(self.leaf)

    @property
    def group(self) -> str:
        """The group of the leaf in each document: the part of the path before the first dot."""
        return self.leaf.partition(".")[0]

    @property
    def key(self) -> str:
        """The key of the leaf in its group."""
        return self.leaf.partition(".")[2]


class Priors(Document):
    """Priors of the constants of real steps."""

    schema_: Literal["costmodel/prior/v1"] = Field(alias="schema", description="Kind and version of this document")
    name: Name = Field(description="Name; equals the file name")
    title: str = Field(description="One line")
    constants: list[Prior] = Field(min_length=1, description="Each with its value and the documents that share it")
    widths: list[Prior] = items("Spreads of stacks that widen a band, fitted on runs whose source is left out")
    sources: dict[str, Source] = keyed("Sources by key")
