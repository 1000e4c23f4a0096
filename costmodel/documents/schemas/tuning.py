"""Which weights a run trains: all, or low-rank adapters on frozen weights."""

from typing import Literal

from pydantic import Field

from costmodel.documents.schemas.base import Document
from costmodel.documents.schemas.count_kinds import Elements
from costmodel.documents.schemas.model import Layers

Adapted = Literal["q", "k", "v", "q-down", "q-up", "kv-down", "kv-up", "o", "gate", "up", "down"]


class Tuning(Document):
    """Low-rank adapters on a frozen model; their scale (alpha) costs nothing and is not asked for."""

    method: Literal["lora", "qlora"] = Field(
        description="lora: frozen weights as the matmuls read them; qlora: those of the layers in 4-bit NormalFloat"
    )
    rank: Elements = Field(default=16, description="Inner width of an adapter")
    modules: list[Adapted] | None = Field(
        default=None,
        min_length=1,
        description="Weight matrices with an adapter; left out, all; gate is passed over where the MLP has none",
    )
    experts: bool = Field(
        default=True,
        description="Whether gate, up and down of every routed expert have adapters too, beside MLPs and shared ones",
    )


def adaptable(kind: Layers, *, experts: bool) -> tuple[Adapted, ...]:
    """The weight matrices of a layer that can have an adapter; with `experts`, also those of routed experts."""
    mixer: tuple[Adapted, ...] = () if kind.attention is None else ("q", *kind.attention.projected, "o")
    if kind.latent is not None:
        queries: tuple[Adapted, ...] = ("q",) if kind.latent.query_rank is None else ("q-down", "q-up")
        mixer = (*queries, "kv-down", "kv-up", "o")
    feeds = [feed for feed in (kind.dense, kind.experts if experts else None) if feed is not None]
    if not feeds:
        return mixer
    return (*mixer, "gate", "up", "down") if any(feed.gated for feed in feeds) else (*mixer, "up", "down")
