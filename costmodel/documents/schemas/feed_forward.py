"""Feed-forward halves of layers: an MLP, or a mixture of experts."""

from typing import Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.schemas.base import Document, optional
from costmodel.documents.schemas.count_kinds import Elements, ExpertCount, Groups


class Mlp(Document):
    """The feed-forward half of a layer."""

    ffn_hidden: Elements = Field(description="Inner width")
    gated: bool = Field(description="Three matrices (SwiGLU and its kin) instead of two")
    biases: bool = Field(default=False, description="Biases on every matrix")


class Experts(Document):
    """A mixture of experts in the place of an MLP."""

    count: ExpertCount = Field(description="Routed experts")
    top_k: ExpertCount = Field(description="Routed experts a token goes to")
    ffn_hidden: Elements = Field(description="Inner width of a routed expert")
    gated: bool = Field(description="Three matrices (SwiGLU and its kin) instead of two")
    biases: bool = Field(default=False, description="Biases on every matrix of an expert")
    router_bias: bool = Field(default=False, description="A bias for every expert in the router")
    hashed: bool = Field(
        default=False, description="Experts of a token stand in a fixed table by its number; the router weighs them"
    )
    latent_dim: Elements | None = optional(
        "Width that routed experts read and write, two matrices lead to it and back; absent: the stream's"
    )
    module_runs: Literal["chosen", "all"] = Field(
        default="chosen", description="Experts that the model's own module in transformers runs on each token"
    )
    shared: Mlp | None = optional("Shared experts as one MLP of their whole width")
    shared_gate: bool = Field(default=False, description="A learned gate on the shared expert")
    groups: Groups | None = optional("Equal groups of neighbouring experts; see group_limit")
    group_limit: Groups | None = optional("Most groups that the experts of a token lie in; absent: any")

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if (self.groups is None) != (self.group_limit is None):
            keys = {"keys": ("groups", "group_limit")}
            raise PydanticCustomError("groups", "groups and group_limit stand together or not at all", keys)
        self._sensible_groups()
        if self.hashed and self.router_bias:
            keys = {"keys": ("hashed", "router_bias")}
            raise PydanticCustomError("hashed", "hashed experts are not chosen by scores: router_bias has no use", keys)
        if self.top_k > self.count:
            words = {"top_k": f"{self.top_k:g}", "count": f"{self.count:g}", "keys": ("top_k", "count")}
            raise PydanticCustomError("top_k", "top_k {top_k} is more than the {count} experts there are", words)
        return self

    def _sensible_groups(self) -> None:
        if self.groups is None or self.group_limit is None:
            return
        counts = {"groups": f"{self.groups:g}", "limit": f"{self.group_limit:g}", "count": f"{self.count:g}"}
        if self.count % self.groups:
            sentence = "{groups} groups do not divide the {count} experts"
            raise PydanticCustomError("groups", sentence, counts | {"keys": ("groups", "count")})
        if self.group_limit > self.groups:
            sentence = "group_limit {limit} is more than the {groups} groups there are"
            raise PydanticCustomError("groups", sentence, counts | {"keys": ("group_limit", "groups")})
        within = self.group_limit * self.count / self.groups
        if self.top_k > within:
            found = counts | {"top_k": f"{self.top_k:g}", "within": f"{within:g}", "keys": ("top_k", "group_limit")}
            sentence = "top_k {top_k} is more than the {within} experts of the {limit} groups a token may choose from"
            raise PydanticCustomError("groups", sentence, found)
