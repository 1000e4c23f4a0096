"""The sizes of a plan, a row for each: columns, grids, headings and words of plans are made from these rows."""

from __future__ import annotations

from typing import Literal

from costmodel.ground.record import record


@record
class PlanSize:
    """A size of a plan, such as a degree of parallelism, identified by its key.

    decides: the smallest unit whose figures depend on it: a layer on a rank, a stage, chunks, or a batch. placed:
    whether it divides the ranks of the cluster (before experts divide them a second way). counted: the axis whose
    results include its traffic, if it has no results of its own. way: the key of the choice that names its variant.
    """

    key: str
    decides: Literal["layer", "stage", "chunks", "batch"]
    placed: bool = False
    heading: str = ""
    counted: str = ""
    way: str = ""

    @property
    def head(self) -> str:
        """The column heading."""
        return self.heading or self.key


PLAN_SIZES = (
    PlanSize("dp", "stage", placed=True),
    PlanSize("tp", "layer", placed=True),
    PlanSize("pp", "stage", placed=True),
    PlanSize("vpp", "chunks"),
    PlanSize("micro_batch", "batch", heading="mb"),
    PlanSize("ep", "layer"),
    PlanSize("etp", "layer", counted="ep"),
    PlanSize("cp", "layer", placed=True, way="cp_type"),
    PlanSize("dp_replicate", "stage", placed=True, heading="rep"),
)
SIZES = tuple(size.key for size in PLAN_SIZES)
HEADS = {size.key: size.head for size in PLAN_SIZES}
ALWAYS = ("tp", "pp", "dp", "vpp", "micro_batch")  # named in every plan, in this order; others where they are over one
OF_ITSELF_ONE = tuple(size.key for size in PLAN_SIZES if size.key not in ALWAYS)
IN_ORDER = (*ALWAYS, *OF_ITSELF_ONE)  # as plans are read
PLACED = tuple(size.key for size in PLAN_SIZES if size.placed)
BEHIND_PLACES = tuple(size.key for size in PLAN_SIZES if not size.placed and size.decides in ("layer", "stage"))
WAYS = {size.key: size.way for size in PLAN_SIZES if size.way}
EXCHANGING = ("tp", "cp", "ep", "pp", "dp")  # whose traffic has a result of its own; others count to one of these


def deciding(*parts: str) -> tuple[str, ...]:
    """The sizes on which figures of these parts depend."""
    return tuple(size.key for size in PLAN_SIZES if size.decides in parts)
