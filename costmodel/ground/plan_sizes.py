"""The sizes of a plan, a row for each: columns, grids, headings and words of plans are made from these rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class PlanSize:
    """A size of a plan, by its key.

    decides: the smallest part of a figure that differs with it: a layer on a rank, a whole stage, chunks, a batch.
    always: named in every plan; other sizes only where they are over one.
    placed: takes part in how the ranks of the cluster are divided, before experts divide them a second way.
    way: the choice that says how it is done.
    """

    key: str
    decides: Literal["layer", "stage", "chunks", "batch"]
    always: bool = False
    placed: bool = False
    heading: str = ""
    way: str = ""

    @property
    def head(self) -> str:
        """The heading of its column."""
        return self.heading or self.key


PLAN_SIZES = (
    PlanSize("dp", "stage", always=True, placed=True),
    PlanSize("tp", "layer", always=True, placed=True),
    PlanSize("pp", "stage", always=True, placed=True),
    PlanSize("vpp", "chunks", always=True),
    PlanSize("micro_batch", "batch", always=True, heading="mb"),
    PlanSize("ep", "layer"),
    PlanSize("etp", "layer"),
    PlanSize("cp", "layer", placed=True, way="cp_type"),
    PlanSize("dp_replicate", "stage", placed=True, heading="rep"),
)
SIZES = tuple(size.key for size in PLAN_SIZES)
HEADS = {size.key: size.head for size in PLAN_SIZES}
OF_ITSELF_ONE = tuple(size.key for size in PLAN_SIZES if not size.always)
PLACED = tuple(size.key for size in PLAN_SIZES if size.placed)
BEHIND_PLACES = tuple(size.key for size in PLAN_SIZES if not size.placed and size.decides in ("layer", "stage"))
IN_ORDER = ("tp", "pp", "dp", *OF_ITSELF_ONE, "vpp", "micro_batch")  # as plans are read
WAYS = {size.key: size.way for size in PLAN_SIZES if size.way}
EXCHANGING = ("tp", "cp", "ep", "pp", "dp")  # whose traffic has a result of its own; others count to one of these


def deciding(*parts: str) -> tuple[str, ...]:
    """The sizes that decide figures of these parts."""
    return tuple(size.key for size in PLAN_SIZES if size.decides in parts)
