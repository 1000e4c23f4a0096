"""Plan of an iteration: the trainer's plan, and the plan of generation on the same or on separate ranks."""

from typing import Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from costmodel.documents.schemas.base import Document, Portion, optional
from costmodel.documents.schemas.count_kinds import Gpus, Replicas
from costmodel.documents.schemas.plan import Plan


class RolloutPlan(Document):
    """What generates."""

    colocated: bool = Field(
        default=True, description="Whether it takes turns with the trainer on the same accelerators, or has its own"
    )
    ranks: Gpus | None = optional("Accelerators of its own: whole nodes, or some of one; the trainer has the others")
    tp: Gpus = Field(default=1, description="Tensor-parallel degree of one engine")
    ep: Gpus = Field(default=1, description="Expert-parallel degree of one engine")
    dp_attention: Replicas = Field(
        default=1, description="Groups of tp ranks of an engine that attend apart and share the experts"
    )
    memory: Portion | None = optional("Share of an accelerator's memory that an engine claims; left out, the stack's")
    offload: bool | None = optional(
        "Whether states of training are on the host while answers are generated; left out, the stack's"
    )

    @model_validator(mode="after")
    def _ranks(self) -> Self:
        if self.colocated and self.ranks is not None:
            sentence = "colocated rollouts take all accelerators; add colocated: false, or leave ranks out"
            raise PydanticCustomError("limit", sentence, {"keys": ("ranks",)})
        if not self.colocated and self.ranks is None:
            sentence = "rollouts on accelerators of their own need their number: ranks: 8"
            raise PydanticCustomError("limit", sentence, {"keys": ("colocated",)})
        if not self.colocated and self.offload:
            sentence = "nothing is moved away where training and generation have accelerators of their own"
            raise PydanticCustomError("limit", sentence, {"keys": ("offload",)})
        return self


class RlPlan(Plan):
    """The plan of the trainer, whose micro-batches hold sequences of mean length, and of what generates."""

    rollout: RolloutPlan = Field(default_factory=RolloutPlan.model_construct, description="What generates")


class RlSpace(Document):
    """What a search tries; a key left out takes every value that makes sense."""

    ranks: list[Gpus] | None = Field(
        default=None, min_length=1, description="Accelerators that generate alone; else colocated and every split"
    )
    rollout_tp: list[Gpus] | None = Field(default=None, min_length=1, description="Tensor-parallel degrees of engines")
    tp: list[Gpus] | None = Field(default=None, min_length=1, description="Tensor-parallel degrees of the trainer")
    cp: list[Gpus] | None = Field(default=None, min_length=1, description="Context-parallel degrees of the trainer")
