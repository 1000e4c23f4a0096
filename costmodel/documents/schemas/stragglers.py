"""Assumptions of a scenario about slow ranks that others wait for."""

from typing import Literal

from pydantic import Field

from costmodel.documents.schemas.base import Document, Portion, Share, optional


class StragglerAssumption(Document):
    """Ranks whose time varies, and parts that are slow; left out, none beside the spread of alike parts."""

    jitter: Share | None = optional("Standard deviation of a rank's time over its mean, drawn anew each time")
    each: Literal["micro-batch", "step"] = Field(
        default="micro-batch", description="How often jitter is drawn: for each micro-batch, or for a whole step"
    )
    spread: Share | None = optional(
        "Standard deviation of a spread that stays for the whole job, beside assume.variation"
    )
    slow_part: Portion | None = optional("Speed of the compute of one slow accelerator over that of the others")
    slow_link: Portion | None = optional("Rate of one slow network interface over that of the others")
