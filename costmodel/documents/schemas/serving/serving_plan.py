"""How engines are laid out over the accelerators: one replica, and how many; and a space of such plans."""

from __future__ import annotations

from pydantic import Field

from costmodel.documents.schemas.base import Count, Document, Share
from costmodel.documents.schemas.count_kinds import Gpus, Replicas, Stages
from costmodel.documents.schemas.serving.serving_workload import Tokens

DRAFTS = ("eagle", "mtp", "ngram")  # any other is a model


class Speculation(Document):
    """Tokens that a cheap draft proposes and one step of the model verifies."""

    tokens: Count = Field(description="Tokens drafted for each sequence and step")
    acceptance: Share = Field(description="Share of drafted tokens that is accepted, each given those before it")
    draft: str = Field(
        description="eagle or mtp, a layer like the model's last and its head; ngram, text that repeats; or a model"
    )


class ServingPlan(Document):
    """One replica of the engine, and how many there are."""

    tp: Gpus = Field(default=1, description="Tensor-parallel degree")
    pp: Stages = Field(default=1, description="Pipeline stages")
    ep: Gpus = Field(default=1, description="Expert-parallel degree; the ranks of tp and dp_attention cut another way")
    dp_attention: Replicas = Field(
        default=1, description="Groups of tp ranks that each attend to requests of their own and share the experts"
    )
    replicas: Replicas | None = Field(
        default=None, description="Copies of the engine; left out, as many as the accelerators hold"
    )
    speculation: Speculation | None = Field(default=None, description="Speculative decoding; left out, none")


class ServingSpace(Document):
    """Lists of the plan's keys; a key left out takes every value that makes sense."""

    tp: list[Gpus] | None = Field(default=None, min_length=1, description="Tensor-parallel degrees")
    pp: list[Stages] | None = Field(default=None, min_length=1, description="Pipeline stages")
    ep: list[Gpus] | None = Field(default=None, min_length=1, description="Expert-parallel degrees")
    dp_attention: list[Replicas] | None = Field(
        default=None, min_length=1, description="Groups of tp ranks that attend apart; else 1, of latent attention all"
    )
    replicas: list[Replicas] | None = Field(
        default=None, min_length=1, description="Copies of the engine; else as many as the accelerators hold"
    )
    budget: list[Tokens] | None = Field(
        default=None, min_length=1, description="Tokens of a step at most; else what the engine picks"
    )
