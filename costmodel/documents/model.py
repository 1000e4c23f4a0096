"""Model shapes: a short list of layer kinds with counts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from costmodel.documents.base import Count, Document, Name, Source, Sourced


class Attention(Document):
    """Multi-head or grouped-query attention."""

    heads: Count = Field(description="Query heads")
    kv_heads: Count = Field(description="Key and value heads; equal to heads without grouping")
    head_dim: Count = Field(description="Width of a head")
    biases: bool = Field(default=False, description="Biases on the query, key and value projections")
    output_bias: bool = Field(default=False, description="Bias on the output projection")
    qk_norm: bool = Field(default=False, description="Queries and keys normalised head by head before the scores")
    window: Count | None = Field(default=None, description="Tokens a query sees, its own the last; absent: all")


class Mlp(Document):
    """The feed-forward half of a layer."""

    ffn_hidden: Count = Field(description="Inner width")
    gated: bool = Field(description="Three matrices (SwiGLU and its kin) instead of two")
    biases: bool = Field(default=False, description="Biases on every matrix")


class Layers(Document):
    """So many layers of one kind."""

    count: Count = Field(description="How many layers")
    parallel: bool = Field(default=False, description="Both halves read the layer's input and are added in one go")
    norms: Count = Field(
        default=2.0, description="Normalisations of the stream: 1 if parallel halves share it, 4 with one behind each"
    )
    attention: Attention = Field(description="Attention half")
    mlp: Mlp = Field(description="Feed-forward half")


class Published(Sourced):
    """A parameter count somebody published, to hold ours against."""

    parameters: Count = Field(description="Exact or as rounded in the source")
    exact: bool = Field(default=True, description="Exact to the digit, or a rounded headline figure")


class Model(Sourced):
    """The shape of a transformer."""

    schema_: Literal["costmodel/model/v1"] = Field(alias="schema", description="Kind and version of this document")
    name: Name = Field(description="Name; equals the file name")
    title: str = Field(description="Full name")
    vocab: Count = Field(description="Rows of the embedding as released, padding included; a stack may pad further")
    hidden: Count = Field(description="Width of the residual stream")
    positions: Literal["learned", "rotary", "alibi"] = Field(
        description="Learned embedding (counts parameters), rotary, or linear biases on the scores"
    )
    max_sequence: Count = Field(description="Longest sequence trained on; rows of a learned position embedding")
    position_rows: Count | None = Field(default=None, description="Rows of a learned position embedding if not as many")
    embedding_norm: bool = Field(default=False, description="Normalisation between the embedding and the first layer")
    tied: bool = Field(description="Whether embedding and head share one matrix")
    norm: Literal["layernorm", "layernorm-no-bias", "rmsnorm"] = Field(description="Kind of normalisation")
    layers: list[Layers] = Field(min_length=1, description="Layer kinds with counts")
    published: Published | None = Field(default=None, description="Published parameter count")
    sources: dict[str, Source] = Field(default_factory=dict, description="Sources by key")
