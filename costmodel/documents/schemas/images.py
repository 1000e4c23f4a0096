"""Images among the tokens of a sequence, for models with a vision tower."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from costmodel.documents.schemas.base import Document, Positive
from costmodel.documents.schemas.count_kinds import Tokens


class Images(Document):
    """Images of a sequence, or of a prompt."""

    count: Positive = Field(description="Images in a sequence, on average")
    tokens: Tokens = Field(description="Tokens of the text model that an image takes; they are among the sequence's")


class TrainingImages(Images):
    """Images of a training sequence, and whether the tower that reads them is trained."""

    tower: Literal["trained", "frozen"] = Field(
        default="trained", description="Whether the vision tower is trained; with adapters it is frozen always"
    )
