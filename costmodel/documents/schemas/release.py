"""Defaults of recipes and launch scripts by software release, for runs whose settings were not stated."""

from typing import Annotated, Literal

from pydantic import Field

from costmodel.documents.schemas.base import Document, Name, Source, Sourced, no_items, no_keys, optional
from costmodel.documents.schemas.precision import Precision

Version = Annotated[str, Field(pattern=r"^\d\d\.\d\d(\.\d\d)?$")]


class ReleaseLaunch(Document):
    """The setting of one model on some accelerators, in some releases."""

    model: str = Field(default="", description="What the model's name begins with; left out, any")
    accelerators: list[Name] = Field(default_factory=no_items, description="Accelerators; left out, any")
    first: Version | None = Field(default=None, description="First release", examples=['"26.02"'])
    last: Version | None = Field(default=None, description="Last release, its patches too", examples=['"26.02.01"'])
    precision: Precision | None = optional("Precision of the layers; left out, any")
    value: str = Field(description="Value of the run's cell")


class LaunchDefaults(Sourced):
    """Launches of one software; the first that fits a run is taken."""

    software: str = Field(description="As the column framework names it; the release is the number behind")
    table: str = Field(default="", description="What the run's cell source holds; left out, anything")
    features: list[ReleaseLaunch] = Field(
        default_factory=no_items, description="What an empty cell of features stands for"
    )
    recompute: list[ReleaseLaunch] = Field(
        default_factory=no_items, description="What an empty cell of recompute stands for"
    )
    plan: list[ReleaseLaunch] = Field(
        default_factory=no_items,
        description="Numbers of empty cells of layout and batch, as column=number;column=number, or number/gpu",
    )


class Releases(Document):
    """What launches switch on."""

    schema_: Literal["costmodel/release/v1"] = Field(alias="schema", description="Kind and version of this document")
    name: Name = Field(description="Name; equals the file name")
    title: str = Field(description="One line")
    launches: list[LaunchDefaults] = Field(min_length=1, description="By software, the first that fits before others")
    sources: dict[str, Source] = Field(default_factory=no_keys, description="Sources by key")
