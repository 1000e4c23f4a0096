"""State bytes of an optimizer for each parameter, without the master copy."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from costmodel.documents.schemas.base import (
    Bytes,
    Count,
    Document,
    Name,
    ParameterBytes,
    Source,
    Sourced,
    as_written,
    no_keys,
    optional,
)


class Projection(Document):
    """Gradients of a layer's matrices in a subspace of low rank, where their states live (GaLore)."""

    rank: Count = Field(description="Rank of the subspace")


class Orthogonalisation(Document):
    """Updates of matrices with equal singular values, by Newton-Schulz steps (Muon)."""

    steps: Count = Field(description="Newton-Schulz steps")


class Optimizer(Sourced):
    """One optimizer: its states, not its arithmetic, decide memory and the time of its step."""

    schema_: Literal["costmodel/optimizer/v1"] = Field(alias="schema", description="Kind and version of this document")
    name: Name = Field(description="Name; equals the file name")
    title: str = Field(description="Full name")
    moments: ParameterBytes = Field(description="Bytes of its states for a parameter, without the master copy")
    root: Bytes | None = optional("Root of its second moment, which a step that is not fused makes")
    as_weights: bool = Field(
        default=False, description="Whether its fp32 states have 16 bits where training software keeps nothing in fp32"
    )
    in_backward: bool = Field(
        default=False, description="Whether backward updates each layer at once and then frees its gradients"
    )
    paged: bool = Field(default=False, description="Whether its states move to the host where the device is full")
    projection: Projection | None = optional(
        "The subspace in which the states of a layer's matrices live; left out, all of it"
    )
    orthogonal: Orthogonalisation | None = Field(
        default=None, description="How updates of the layers' matrices are orthogonalised; left out, they are not"
    )
    sources: dict[str, Source] = Field(default_factory=no_keys, description="Sources by key")


OptimizerReference = Annotated[
    Annotated[str, Tag("name")] | Annotated[Optimizer, Tag("inline")], Discriminator(as_written)
]
