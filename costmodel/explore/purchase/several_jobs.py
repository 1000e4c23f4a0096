"""Several jobs at the same time on one kind of machine: accelerators, idle ones, cost, and whether all fit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from costmodel.equations.run.economics import share
from costmodel.equations.serving.serving_economics import MONTH
from costmodel.explore.purchase.buy import MOST, UNITS, PurchaseComparison, terms_order
from costmodel.explore.purchase.offers import Machine
from costmodel.explore.purchase.purchase import Purchase, Rent, money_figures
from costmodel.ground.equation import Number, leaf
from costmodel.ground.record import record

if TYPE_CHECKING:
    from costmodel.explore.explain.equation_trees import ExplainedFigure


def shared_nodes(engines: Iterable[float], built: float) -> int:
    """The number of nodes that hold these engines side by side, placing the largest first.

    This is the minimum if sizes are powers of two, as degrees of tensor parallelism are.

    >>> shared_nodes([4, 4, 4, 2, 1, 1], 8), shared_nodes([12, 4], 8)
    (2, 2)
    """
    nodes, free = 0, list[float]()
    for gpus in sorted(engines, reverse=True):
        whole, rest = divmod(gpus, built)
        nodes += int(whole)
        place = next((number for number, room in enumerate(free) if room >= rest), len(free))
        if rest and place == len(free):
            free.append(built)
        if rest:
            free[place] -= rest
    return nodes + len(free)


@record
class MachineForJobs:
    """One kind of machine for several jobs, with the result of each job.

    most: accelerators for all jobs together. supply: site power for all jobs [W]
    """

    machine: Machine
    jobs: tuple[Purchase, ...]
    most: float = math.inf
    supply: float = math.inf

    def figures(self) -> dict[str, Number]:
        """Accelerators of each job; accelerators, nodes, idle ones and rent of all jobs; each figure traced."""
        jobs = [money_figures(row, MONTH) for row in self.jobs if row.works]
        placed = (place for place, row in enumerate(self.jobs, 1) if row.works)
        numbers: dict[str, Number] = {f"job {place}": job["GPUs"] for place, job in zip(placed, jobs, strict=True)}
        if self.each_works:
            for job, row in zip(jobs, self.jobs, strict=True):
                job["idle"] = job["nodes"] * row.built - job["GPUs"]
            names = ("GPUs", "nodes", "idle", *(["rent", "whole nodes"] if all("rent" in job for job in jobs) else []))
            numbers |= {name: sum((job[name] for job in jobs[1:]), start=jobs[0][name]) for name in names}
            if "whole nodes" in numbers and self.share_nodes:
                kept = share(leaf(self.shared, "nodes that jobs share"), numbers["nodes"])
                numbers["whole nodes"] = numbers["whole nodes"] * kept
        return numbers

    @property
    def each_works(self) -> bool:
        """Whether every job has a plan that meets its limits."""
        return all(row.works for row in self.jobs)

    @property
    def works(self) -> bool:
        """Whether every job has a plan that meets its limits, and all jobs fit together."""
        return self.each_works and self.missing == 0 and not self.power > self.supply

    @property
    def gpus(self) -> float:
        """The accelerators of all jobs."""
        return sum(row.gpus for row in self.jobs)

    @property
    def expected(self) -> float:
        """The accelerators of all jobs by expected figures; NaN if one job has no such plan."""
        plans = [row.plans.expected or row.plans.safe for row in self.jobs]
        return sum(math.nan if plan is None else plan.gpus for plan in plans)

    @property
    def nodes(self) -> float:
        """The nodes of all jobs if no two jobs share a node."""
        return sum(row.nodes for row in self.jobs)

    @property
    def shared(self) -> float:
        """The nodes of all jobs if engines of several jobs may share a node."""
        return float(shared_nodes((gpus for row in self.jobs for gpus in row.engines), self.jobs[0].built))

    @property
    def there(self) -> float:
        """The nodes in a cluster of at most `most` accelerators."""
        return math.inf if math.isinf(self.most) else math.ceil(self.most / self.jobs[0].built)

    @property
    def missing(self) -> float:
        """The accelerators that are missing for all jobs; those of the missing nodes if only nodes are missing."""
        nodes = max(self.shared - self.there, 0.0)
        return self.gpus - self.most if self.gpus > self.most else nodes * self.jobs[0].built

    @property
    def power(self) -> float:
        """The power that a site supplies for the nodes of all jobs, W."""
        return self.shared * self.jobs[0].each

    @property
    def share_nodes(self) -> bool:
        """Whether all jobs fit only if engines of several jobs share nodes."""
        return self.nodes > self.there

    @property
    def rent(self) -> Rent:
        """The monthly rent of all accelerators in use, and of all nodes."""
        rents = [row.rent(MONTH) for row in self.jobs]
        kept = float(share(self.shared, self.nodes)) if self.share_nodes else 1.0
        whole = sum(rent.whole for rent in rents) * kept
        return Rent(sum(rent.in_use for rent in rents), whole, self.jobs[0].rents_each)

    @property
    def done(self) -> float:
        """Seconds until the last job with an end is done; 0 if none has an end."""
        return max((row.time for row in self.jobs if math.isfinite(row.time)), default=0.0)

    @property
    def whole_cost(self) -> float:
        """The rent [USD] until all jobs with an end are done, paid for all jobs."""
        return sum(row.rent(min(row.time, self.done)).billed for row in self.jobs)

    @property
    def rent_after(self) -> float:
        """The monthly rent [USD] of the jobs without an end."""
        return sum(row.rent(MONTH).billed for row in self.jobs if math.isinf(row.time))


@record
class SeveralJobs:
    """All machines for several jobs: those on which all jobs fit together come first, cheapest first."""

    jobs: tuple[PurchaseComparison, ...]
    rows: tuple[MachineForJobs, ...]

    def trees(self) -> dict[str, ExplainedFigure]:
        """The equation trees of all figures, by figure name and machine."""
        from costmodel.explore.explain.equation_trees import traced_figures

        units = UNITS | {f"job {place}": "1" for place in range(1, len(self.jobs) + 1)}
        traced = ((row, traced_figures(row.figures, units)) for row in self.rows)
        return {f"{name} of {row.machine.name}": tree for row, trees in traced for name, tree in trees.items()}

    @property
    def one_gpu(self) -> tuple[int, ...]:
        """The numbers of the jobs whose engines fit together into the memory of one GPU."""
        shares = [job.asked.engine_share for job in self.jobs]
        stated = sorted((share, place) for place, share in enumerate(shares, 1) if share is not None)
        together = itertools.accumulate(share for share, _ in stated)
        places = sorted(place for (_, place), total in zip(stated, together, strict=True) if total <= 1)
        return tuple(places) if len(places) > 1 else ()

    @property
    def best(self) -> MachineForJobs | None:
        """The cheapest machine on demand; if there is none, the cheapest on other terms, spot last."""
        working = [row for row in self.rows if row.works]
        return min(working, key=lambda row: terms_order(row.jobs[0]), default=None)

    @property
    def nearest(self) -> MachineForJobs | None:
        """The best machine; if there is none, the one with the fewest missing accelerators."""
        alone = (row for row in self.rows)
        return self.best or min(alone, key=lambda row: row.missing, default=None)


def machines_for_several_jobs(
    jobs: Sequence[PurchaseComparison], most: float = MOST, power: float = math.inf
) -> SeveralJobs:
    """Combines the results of jobs that run at the same time, for each machine tried for all of them.

    Jobs do not slow each other down, so each takes its own fewest accelerators.
    most, power: accelerators and watts for all jobs together
    """
    of_each = [{row.machine: row for row in job.rows} for job in jobs]
    machines = [machine for machine in of_each[0] if all(machine in rows for rows in of_each)]
    room = most if most < MOST else math.inf
    rows_of_machines = [
        MachineForJobs(machine, tuple(rows[machine] for rows in of_each), room, power) for machine in machines
    ]

    def order(row: MachineForJobs) -> tuple[bool, bool, float, float]:
        """Sort key of a machine: those with room for all jobs first, then by rent."""
        return not row.works, not row.each_works, math.inf if math.isnan(row.rent.billed) else row.rent.billed, row.gpus

    return SeveralJobs(tuple(jobs), tuple(sorted(rows_of_machines, key=order)))
