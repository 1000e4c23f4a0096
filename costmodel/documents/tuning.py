"""Which weights a run trains: all, or low-rank adapters beside frozen ones."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from costmodel.documents.base import Count, Document

Adapted = Literal["q", "k", "v", "o", "gate", "up", "down"]


class Tuning(Document):
    """Low-rank adapters on a frozen model; their scale (alpha) costs nothing and is not asked for."""

    method: Literal["lora", "qlora"] = Field(
        description="lora: frozen weights as the matmuls read them; qlora: those of the layers in 4-bit NormalFloat"
    )
    rank: Count = Field(default=16, description="Inner width of an adapter")
    modules: list[Adapted] = Field(
        default=["q", "k", "v", "o", "gate", "up", "down"],
        min_length=1,
        description="Weight matrices with an adapter; gate is passed over where the MLP has none",
    )
