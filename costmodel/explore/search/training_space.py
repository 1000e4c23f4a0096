"""The search space of training plans: its parts, their evaluation, and bands of results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.documents.schemas.results import BAND_ENDS, OF_RUN, OF_STEP, TRAINING_COLUMNS, ResultColumn, machine_name
from costmodel.equations.run.economics import share
from costmodel.estimate.answer_facts import facts_of, row_facts
from costmodel.estimate.shared.plan_batch import Block, Mask, Structure
from costmodel.estimate.shared.results import Costs, stated_limits
from costmodel.estimate.training.plan_constraints import remarks
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training.training_step import TrainingStep
from costmodel.estimate.training_answer.evaluate_training import best_case, evaluate, memory_costs, over_peak, reached
from costmodel.estimate.training_answer.predict_training import NOT_SAFE, TOO_LARGE, unacceptable
from costmodel.estimate.training_answer.training_error_band import banded, kind_errors, working
from costmodel.explore.search.rank import Axes, Front, Order, Tally, Top
from costmodel.explore.search.space_interface import Keep, Space
from costmodel.explore.search.training_candidates import PartialPlans, SubSpace, grids, stem, valid_blocks
from costmodel.ground.counts import SIZES
from costmodel.ground.equation import Number
from costmodel.ground.record import record

CANDIDATES_A_PIECE = 1 << 22
_MOST_KEPT = 31 << 20  # bytes; glibc takes no larger size


@record
class Ranked:
    """A ranked training plan with its results."""

    structure: Structure
    sizes: dict[str, float]
    costs: dict[str, float]
    score: float
    variant: int = 0  # which of the scenarios searched together
    remarked: tuple[str, ...] = ()  # known of plans that have their bands, as are the shares of each kind of error
    errors: Mapping[str, float] = field(default_factory=dict)
    broken: tuple[str, ...] = ()

    @property
    def key(self) -> Order:
        """Sort key that orders equal scores identically on every machine."""
        choices = map(str, vars(self.structure).values())
        return (self.score, self.costs["memory_peak"], *self.sizes.values(), *choices, self.variant)


@record
class EvaluatedBlock:
    """The plans of a block with their results."""

    block: Block
    costs: Costs

    def column(self, name: str) -> NDArray[np.float64]:
        """The values of a result, one for each plan."""
        return self.costs.column(name)

    def ties(self, places: NDArray[np.intp]) -> tuple[NDArray[np.float64], ...]:
        """Sort keys of plans with equal scores: the memory, then the sizes."""
        sizes = (getattr(self.block, name)[places] for name in reversed(SIZES))
        return (*sizes, self.costs.column("memory_peak")[places])

    def plan(self, place: int, score: float) -> Ranked:
        """The plan at a place, with its score."""
        sizes = {name: float(getattr(self.block, name)[place]) for name in SIZES}
        return Ranked(self.block.structure, sizes, self.costs.row(place), score)


@dataclass
class TrainingTally(Tally[Ranked]):
    """The result of a part of a training search.

    nearest, closest: the best plan over memory, and over a limit, until a plan works. surest: plans that meet the
    limits but may not fit, until a plan is safe
    """

    nearest: Top[Ranked] = field(default_factory=lambda: _empty_top(1, "memory_share"))
    closest: Top[Ranked] = field(default_factory=lambda: _empty_top(1, "memory_share"))
    surest: Top[Ranked] = field(default_factory=lambda: _empty_top(1, "fit_chance"))

    @property
    def missed_by_least(self) -> list[Ranked]:
        """The best plan that only breaks a limit; if there is none, the plan that exceeds memory by least."""
        return self.closest.rows or self.nearest.rows

    def settle(self, reason: str = NOT_SAFE) -> None:
        """Takes the surest plans if none is safe; else keeps a risky plan only if it beats the best safe one."""
        super().settle(reason)
        if self.safe:
            self.surest.rows = []
            self.expected.rows = [row for row in self.expected.rows if row.score < self.top.rows[0].score]
        elif self.kept:
            self.top.rows = self.surest.rows


def _empty_top(size: int, objective: str) -> Top[Ranked]:
    return Top(size, objective, TRAINING_COLUMNS[objective].sign)


@record
class GridPart:
    """A range of placements in a sub-space."""

    grid: SubSpace
    start: int
    stop: int

    @property
    def candidates(self) -> int:
        """The number of plans in this part of the grid."""
        return (self.stop - self.start) * self.grid.behind * len(self.grid.structures)


def grid_parts(inputs: TrainingInputs) -> Iterator[GridPart]:
    """Splits all plans of a scenario into parts of bounded size."""
    for grid in grids(inputs):
        step = max(1, CANDIDATES_A_PIECE * grid.placements // max(1, len(grid)))
        for start in range(0, grid.placements, step):
            yield GridPart(grid, start, min(start + step, grid.placements))


# Results that follow from the time of a step, so that a bound of the time bounds them.
OF_TIME = ("step_time", "tokens_per_s_per_gpu", "tokens_per_s", "flop_rate", "mfu", "hfu")
_ROUNDING = 1e-9  # relative


@record
class TrainingSpace(Space[TrainingInputs, Ranked, GridPart]):
    """The plans of a training scenario; `bar` is the score of its own plan.

    counted: whether plans are counted that cannot be among the best, by whether they fit
    """

    size: int
    objective: str
    axes: Axes | None = None
    safe: float | None = None
    bar: float = -math.inf
    counted: bool = True

    @property
    def grain(self) -> int:
        """The number of plans in a part."""
        return CANDIDATES_A_PIECE

    def pieces(self, inputs: TrainingInputs) -> Iterator[tuple[GridPart, int]]:
        """Ranges of placements of each grid; their work is the number of plans."""
        return ((part, part.candidates) for part in grid_parts(inputs))

    def empty(self) -> TrainingTally:
        """The result of no plans."""
        return TrainingTally(
            _empty_top(self.size, self.objective),
            _empty_top(1, self.objective),
            Front(self.axes) if self.axes else None,
            Front(self.axes) if self.axes and self.safe is not None else None,
            closest=_empty_top(1, self.objective),
            surest=_empty_top(self.size, "fit_chance"),
        )

    def searched(self, inputs: TrainingInputs, piece: GridPart, keep: Keep | None) -> TrainingTally:
        """The result of the plans in a part."""
        _keep_freed_memory()
        found = self.empty()
        part = found.part()
        rows = stem(inputs, piece.grid, part.refused, piece.start, piece.stop)
        stretch(inputs, piece.grid, rows, self, found, keep)
        part.candidates = piece.candidates
        return found

    def read(self, written: dict[str, Any]) -> Ranked:
        """A plan; JSON has no tuples."""
        choices: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in written["structure"].items()
        }
        return Ranked(**{**written, "structure": Structure(**choices), "remarked": (), "broken": ()})

    def facts(self, inputs: TrainingInputs) -> dict[str, int | float | str]:
        """Model, machine and job, for a table of all plans."""
        return row_facts(facts_of(inputs.case))

    def columns(self, inputs: TrainingInputs) -> Mapping[str, ResultColumn]:
        """The result columns of a step, or of the whole run."""
        return OF_STEP if inputs.run is None else OF_RUN


def _keep_freed_memory() -> None:
    """Frees a large array once, so that glibc stops returning memory to the system after every block.

    Otherwise glibc returns and requests the pages of every block's columns again, which takes a third of the time.
    """
    np.empty(_MOST_KEPT, dtype=np.uint8)


def stretch(
    inputs: TrainingInputs,
    grid: SubSpace,
    rows: PartialPlans,
    wanted: TrainingSpace,
    tally: TrainingTally,
    keep_all: Keep | None = None,
) -> None:
    """Evaluates the plans that extend partial plans, and adds them to a tally; `keep_all` receives every block."""
    part, top = tally.part(), tally.top
    bounded = keep_all is None and _is_bounded(inputs, wanted)
    for block, counts in valid_blocks(inputs, grid, rows, part.refused):
        outranked = bounded and _is_outranked(inputs, block, wanted, tally)
        if outranked and not wanted.counted:
            continue
        costs = memory_costs(inputs, block) if outranked else evaluate(inputs, block).costs
        found = EvaluatedBlock(block, costs)
        if keep_all is not None:
            keep_all(int(np.count_nonzero(counts)), _table(block, costs, counts))
        keep = fit = counts
        for code, broken in unacceptable(inputs, costs):
            part.refused[code] += int(np.count_nonzero(keep & broken))
            keep = keep & ~broken
            fit = keep if code in TOO_LARGE else fit
        part.evaluated += int(np.count_nonzero(counts))
        part.fit += int(np.count_nonzero(fit))
        part.kept += int(np.count_nonzero(keep))
        safe = keep if wanted.safe is None else keep & (costs.column("fit_chance") >= wanted.safe)
        part.safe += int(np.count_nonzero(safe))
        if outranked:
            continue
        tally.better_than_yours += int(np.count_nonzero(top.sign * costs.column(top.objective)[safe] < wanted.bar))
        top.add(found, safe)
        if tally.front:
            tally.front.add(found, keep if "fit_chance" in (tally.front.axes.x, tally.front.axes.y) else safe)
        _add_risky(tally, found, keep & ~safe)
        if not part.kept:
            tally.nearest.add(found, counts & ~keep)
            tally.closest.add(found, counts & ~keep & (costs.column("memory_share") <= 1))
    part.best = next(iter(top.rows), None)
    part.surest = next(iter(tally.surest.rows), None)


def _is_bounded(inputs: TrainingInputs, wanted: TrainingSpace) -> bool:
    """Whether a bound of the step time decides what a search lists: all else that it asks of plans is their memory."""
    limits = stated_limits(inputs.case.scenario.limits)
    alone = not (inputs.groups or inputs.sites or inputs.run)
    return alone and wanted.axes is None and wanted.objective in OF_TIME and all(limit.of_memory for limit in limits)


def _is_outranked(inputs: TrainingInputs, block: Block, wanted: TrainingSpace, tally: TrainingTally) -> bool:
    """Whether each plan of a block is worse than all that are listed, and than your own.

    First by a bound that structures share; where plans need not be counted, by the times of their steps too.
    """
    top = tally.top
    if not tally.part().safe or len(top.rows) < top.size or block.structure.sync != Structure.sync:
        return False
    listed = max(top.sign * top.rows[-1].costs[top.objective], wanted.bar)
    worse = listed + _ROUNDING * abs(listed)
    if np.all(top.sign * best_case(inputs, block, top.objective) > worse):
        return True
    return not wanted.counted and bool(np.all(top.sign * reached(inputs, block, top.objective) > worse))


def _add_risky(tally: TrainingTally, found: EvaluatedBlock, risky: Mask) -> None:
    """Adds plans that meet the limits but may not fit: the best one, and the surest ones until a plan is safe."""
    if not risky.any():
        return
    top = tally.top
    bar = top.rows[0].score if top.rows else math.inf
    tally.expected.add(found, risky & (top.sign * found.column(top.objective) < bar))
    if not tally.part().safe:
        tally.surest.add(found, risky)
        if tally.risky_front:
            tally.risky_front.add(found, risky)


def _table(block: Block, costs: Costs, counts: Mask) -> dict[str, Any]:
    """The valid plans of a block: their choices, sizes and results."""
    return {
        **{choice.name: getattr(block.structure, choice.name) for choice in fields(Structure)},
        **{name: np.asarray(getattr(block, name))[counts].astype(np.int64) for name in SIZES},
        **{machine_name(name): costs.column(name)[counts] for name in costs.columns},
    }


SURE = 0.9  # chance from which one plan counts as faster than another


def unsure(chances: Sequence[float]) -> int:
    """The number of leading plans that may be the fastest: those before the first that the best one surely beats."""
    return next((place for place, chance in enumerate(chances) if chance >= SURE), len(chances))


def with_bands(inputs: TrainingInputs, plans: Sequence[Ranked]) -> list[Ranked]:
    """Adds bands and remarks to plans; plans of one structure are evaluated together."""
    found = list(plans)
    for structure in dict.fromkeys(plan.structure for plan in plans):
        places = [place for place, plan in enumerate(plans) if plan.structure == structure]
        sizes = (np.array([plans[place].sizes[name] for place in places], dtype=np.float64) for name in SIZES)
        block = Block(structure, *sizes)
        evaluation = banded(inputs, evaluate(inputs, block))
        costs, shares = evaluation.costs, error_shares(inputs, evaluation.step)
        errors = {kind: np.broadcast_to(np.asarray(share), len(block)) for kind, share in shares.items()}
        stated = {code: np.broadcast_to(mask, len(block)) for code, mask in remarks(inputs, block)}
        stated["N011"] = over_peak(costs)
        taken, high = costs.column("memory_share"), costs.column("memory_peak_high")
        stated["N023"] = (taken <= 1) & (high * taken > costs.column("memory_peak"))
        for row, place in enumerate(places):
            ends = {name: float(costs.column(name)[row]) for name in BAND_ENDS if name in costs.columns}
            whole = plans[place].costs | ends
            remarked = tuple(code for code, mask in stated.items() if mask[row])
            found[place] = replace(
                plans[place],
                costs={name: whole[name] for name in TRAINING_COLUMNS if name in whole},
                remarked=remarked,
                errors={kind: float(share[row]) for kind, share in errors.items()},
            )
    return found


def error_shares(inputs: TrainingInputs, step: TrainingStep) -> dict[str, Number]:
    """The error of each kind as a share of the step time without the pipeline bubble."""
    whole = working(step)
    return {name: share(error, whole) for name, error in kind_errors(inputs, step).items()}
