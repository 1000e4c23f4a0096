"""Sites that train alone and synchronise from time to time: local SGD, DiLoCo, streaming DiLoCo."""

from typing import Annotated, Literal

from pydantic import Field

from costmodel.documents.schemas.base import Count, Document, Quantity, Seconds

SiteCount = Annotated[float, Quantity("1", 2, 1e9, whole=True)]
SiteRate = Annotated[float, Quantity("B/s", 1)]
InnerSteps = Annotated[float, Quantity("step", 1, 1e12, whole=True)]
SiteType = Literal["fp32", "bf16", "fp16", "int8", "fp4"]


class Sites(Document):
    """Equal sites that share the nodes and the batch; the rest of the plan is of one site."""

    count: SiteCount = Field(description="How many")
    link: SiteRate = Field(description="What one site sends to others, one way, all its nodes together")
    latency: Seconds = Field(default=0.0, description="Of an exchange, beside its bytes")
    every: InnerSteps = Field(default=100, description="Steps of a site between two exchanges")
    dtype: SiteType = Field(default="fp32", description="Type the differences of the weights are exchanged in")
    fragments: Count = Field(default=1, description="Parts of the model that are exchanged one after another")
    overlap: InnerSteps | Literal[0] = Field(
        default=0, description="Steps that continue while a fragment is exchanged; 0 where training waits"
    )
