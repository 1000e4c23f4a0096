"""Searches for the best training plans of a scenario."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from costmodel.documents.reader.load_scenario import vary
from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario, training
from costmodel.documents.schemas.results import TRAINING_COLUMNS
from costmodel.estimate.machine.price import price_of
from costmodel.estimate.shared.plan_batch import Block, one_row
from costmodel.estimate.training.plan_constraints import CHECKS
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.estimate.training_answer.evaluate_training import evaluate, missing_input
from costmodel.estimate.training_answer.predict_training import NOT_SAFE, Answer, answer, unacceptable
from costmodel.explore.search.rank import NO_VARIANT, Top, axes
from costmodel.explore.search.required_chance import preferred_chance
from costmodel.explore.search.scenario_variants import Variants, fail_if_listed
from costmodel.explore.search.stream import PlanErrors, SearchOptions, SearchResult, through
from costmodel.explore.search.training_candidates import candidates, grids
from costmodel.explore.search.training_space import Ranked, TrainingSpace, TrainingTally, with_bands
from costmodel.explore.search.value_ranges import Axis
from costmodel.ground.counts import EXCHANGING, SIZES
from costmodel.ground.errors import CostModelError, fail

if TYPE_CHECKING:
    from costmodel.explore.search.cheapest_changes import Remedy

PRECISION = "workload.precision"
NO_PRECISION = "L044"
SCORED = ("step_time", "tokens_per_s_per_gpu", "tokens_per_s", "mfu")  # that one run of a source has of all plans


@dataclass
class TrainingSearch(SearchResult[TrainingInputs, Ranked]):
    """The result of a training search.

    chances: that the first of the best plans is faster than each, where they are ranked by speed. remedies: see
    `with_remedies`; of several scenarios without a working plan, for the nearest one
    """

    tally: TrainingTally
    yours: Answer | None
    chances: Sequence[float] = ()
    remedies: Sequence[Remedy] = ()

    @property
    def chance(self) -> str:
        """The result column with the chance to fit."""
        return "fit_chance"

    @property
    def expected(self) -> Ranked | None:
        """The best plan regardless of its chance to fit, if it beats the first safe one."""
        if not self.best or not self.tally.expected.rows:
            return None
        top, other = self.tally.top, self.tally.expected.rows[0]
        return other if other.score < top.sign * self.best[0].costs[top.objective] * (1 - SAME_SCORE) else None

    @property
    def your_rank(self) -> int | None:
        """The rank of the scenario's own plan; None where it is invalid, does not fit, or is not safe enough."""
        if self.yours is None or self.yours.refused or self.yours.broken or not self.is_safe:
            return None
        if self.safe is not None and self.yours.evaluation.costs.row()["fit_chance"] < self.safe:
            return None
        return self.tally.better_than_yours + 1

    def errors(self, plan: Ranked) -> PlanErrors:
        """The uncertainty of a plan's ranked result: kernels, links and clocks by their share of the step."""
        inputs, sizes = self.inputs_of(plan.variant), plan.sizes
        groups = {axis: sizes[axis] for axis in EXCHANGING if sizes[axis] > 1}
        ranks = float(inputs.all_ranks)
        return PlanErrors(plan.errors, float(inputs.stack.spread.step), ranks, ranks, groups)


SAME_SCORE = 1e-12  # relative; what rounding makes of equal ones


def _own_answer(inputs: TrainingInputs, sign: float, objective: str, *, bands: bool) -> tuple[Answer | None, float]:
    """The answer for the scenario's own plan, and the score that a plan must beat to rank above it."""
    plan = inputs.case.scenario.plan
    if plan is None or inputs.case.held.all_keys:
        return None, -math.inf
    yours = answer(inputs, plan, bands=bands)
    score = sign * yours.evaluation.costs.row()[objective]
    return yours, score - SAME_SCORE * abs(score)


def _rankable(variants: Variants[TrainingInputs]) -> None:
    """Raises a fault if the objective is unknown in one of the scenarios, so that plans cannot be ranked."""
    inputs = variants.inputs
    objective = inputs.case.scenario.objective
    if objective not in ("cost_per_mtoken", "run_cost"):
        if wanted := missing_input(next(variants.possible(), inputs), objective):
            raise fail("C004", f"the objective is {objective}, which is not known", None, wanted)
        return
    cases = (each.case for each in variants.possible())
    without = dict.fromkeys(case.node.name for case in cases if not price_of(case).known)
    if without:
        wanted = missing_input(inputs, objective) or "set assume.price, or leave them out"
        raise fail("C004", f"the objective is cost, but no price is known for {', '.join(without)}", None, wanted)


def listed_by_search(case: ResolvedScenario, path: str) -> str:
    """The key of the scenario's search that lists values of a key; empty if there is none."""
    space, (_, _, key) = case.scenario.search, path.rpartition(".")
    is_listed = path in (PRECISION, f"plan.{key}") and getattr(space, key, None) is not None
    return key if is_listed else ""


def _own_ahead(top: Top[Ranked], yours: Answer | None) -> list[Ranked]:
    """The ranked rows, with the scenario's own plan before plans with the same score."""
    if yours is None:
        return top.rows
    block, score = yours.evaluation.block, top.sign * yours.evaluation.costs.row()[top.objective]
    own = (block.structure, {name: float(getattr(block, name)[0]) for name in SIZES})

    def place(row: Ranked) -> tuple[float, bool]:
        as_good = math.isclose(row.score, score, rel_tol=SAME_SCORE)
        return (score, (row.structure, row.sizes) != own) if as_good else (row.score, True)

    return sorted(top.rows, key=place)


def search(
    case: ResolvedScenario,
    size: int = 10,
    *,
    workers: int | None = None,
    pareto: str = "",
    over: Sequence[Axis] = (),
    how: SearchOptions | None = None,
    bands: bool = True,
    counted: bool = True,
) -> TrainingSearch:
    """The best plans of a scenario's space, and the Pareto front of two results.

    Over several scenarios if keys are swept. bands: whether these are looked at, and the chances to be the best.
    counted: whether plans are counted by whether they fit that cannot be among the best
    """
    began = time.perf_counter()
    how = how or SearchOptions(workers=workers)
    precisions, lacking = possible_precisions(case)
    inputs = training_inputs(case)
    variants = Variants(inputs, inputs_of_case, (*over, *precisions))
    fail_if_listed(over, partial(listed_by_search, case))
    variants.checked(None)
    _rankable(variants)
    objective, safe = case.scenario.objective, preferred_chance(case)
    traded = axes(pareto, objective, TRAINING_COLUMNS) if pareto else None
    yours, bar = _own_answer(inputs, TRAINING_COLUMNS[objective].sign, objective, bands=bands)
    space = TrainingSpace(size, objective, traded, safe, bar, counted)
    tally = space.empty()
    stopped, total = through(space, variants, tally, how)
    if lacking:
        refused = lacking * (total // len(precisions[0].values))
        part = tally.part(NO_VARIANT)
        part.candidates, part.refused[NO_PRECISION] = refused, refused
    tally.settle()
    if safe is None or tally.safe:
        tally.top.rows = _own_ahead(tally.top, yours)
    found = TrainingSearch(variants, tally, yours, 0.0, total, stopped, safe)
    found = with_ranges(found) if bands else found
    return replace(found, elapsed=time.perf_counter() - began)


def with_ranges(found: TrainingSearch) -> TrainingSearch:
    """Adds the bands of the plans that are listed, and the chances of the first to be the fastest."""
    from costmodel.explore.search.next_measurement import first_better

    _add_bands(found.variants, found.tally)
    return replace(found, chances=first_better(found)) if found.ranked_by in SCORED and found.is_safe else found


def inputs_of_case(case: LoadedScenario) -> TrainingInputs:
    """The training inputs of a scenario."""
    return training_inputs(training(case))


def with_remedies(found: TrainingSearch) -> TrainingSearch:
    """Adds remedies to a search in which no plan works, or in which the batch refuses nearly all."""
    from costmodel.explore.search.training_remedies import batch_that_divides, what_would_be_valid, what_would_work

    if found.stopped or (found.best and found.variants.over):
        return found
    if found.best:
        return replace(found, remedies=batch_that_divides(found.inputs, found.best[0], found.tally))
    if not found.tally.missed_by_least:
        return replace(found, remedies=what_would_be_valid(found.inputs_of(found.nearest)))
    nearest = found.tally.missed_by_least[0]
    return replace(found, remedies=what_would_work(found.inputs_of(nearest.variant), nearest))


def possible_precisions(case: ResolvedScenario) -> tuple[tuple[Axis, ...], int]:
    """The precisions to search, the scenario's own first, and how many listed ones cannot run here."""
    names, lacking = _listed_precisions(case), lacking_precisions(case)
    if not names:
        return (), 0
    held = [name for name in names if name not in lacking]
    held.sort(key=lambda name: name != case.scenario.workload.precision)
    return (Axis(PRECISION, tuple(held)),), len(lacking)


def _listed_precisions(case: ResolvedScenario) -> list[str]:
    listed = case.scenario.search.precision if case.scenario.search else None
    return list(dict.fromkeys(listed or ()))


def lacking_precisions(case: ResolvedScenario) -> list[str]:
    """The listed precisions that cannot run; empty if none can, as the first one then reports the reason."""
    names = _listed_precisions(case)
    lacking = [name for name in names if not _runs(case, name)]
    return lacking if len(lacking) < len(names) else []


def _runs(case: ResolvedScenario, precision: str) -> bool:
    """Whether accelerator and stack support it."""
    try:
        training_inputs(vary(case, [f"{PRECISION}={precision}"]))
    except CostModelError as error:
        if any(fault.code != "D016" for fault in error.faults):
            raise
        return False
    return True


def _add_bands(variants: Variants[TrainingInputs], tally: TrainingTally) -> None:
    """Bands for the plans of all lists and the best at each value, which are evaluated together."""
    lists = [best for _, best in tally.lists()]
    parts = [part for part in tally.parts.values() if part.number >= 0 and variants.over]
    at_values = [row for part in parts for row in (part.best or part.surest,) if row is not None]
    rows = iter(_with_bands(variants, [*(row for best in lists for row in best.rows), *at_values]))
    for best in lists:
        best.rows = list(islice(rows, len(best.rows)))
    for part in parts:
        part.best = next(rows) if part.best or part.surest else None


def _with_bands(variants: Variants[TrainingInputs], rows: Sequence[Ranked]) -> list[Ranked]:
    """Plans with their bands, each with the inputs of its variant."""
    places: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(row.variant, []).append(place)
    found = list(rows)
    for variant, mine in places.items():
        for place, row in zip(mine, with_bands(variants.of(variant), [rows[at] for at in mine]), strict=True):
            found[place] = row
    return found


# ── Examples of refused plans ─────────────────────────────────────────────────────────────────────────────────────────


def with_examples(found: TrainingSearch) -> TrainingSearch:
    """Adds an example plan for each reason that refused plans."""
    for code, row in examples(found).items():
        found.tally.part(row.variant).examples[code] = row
    return found


def examples(found: TrainingSearch) -> dict[str, Ranked]:
    """The first plan of the space for each reason that refused plans."""
    wanted = {code for code, count in found.tally.refused.items() if count and code != NO_PRECISION}
    shown: dict[str, Ranked] = {}
    for variant in (part.number for part in found.parts if part.fault is None):
        inputs = found.inputs_of(variant)
        for block in itertools.chain.from_iterable(map(candidates, grids(inputs))):
            if wanted <= shown.keys():
                return shown
            for code, refused in _rows_by_reason(inputs, block, wanted - shown.keys(), found.safe):
                shown.setdefault(code, _refused_example(inputs, refused, code, variant))
    return shown


def _rows_by_reason(
    inputs: TrainingInputs, block: Block, missing: set[str], safe: float | None
) -> Iterator[tuple[str, Block]]:
    """The rows of a block by their first reason."""
    for check in CHECKS:
        broken = check.refused(inputs, block)
        if broken.any():
            yield check.code, block.at(broken)
            block = block.at(~broken)
    if not len(block) or not missing.difference(check.code for check in CHECKS):
        return
    keep = np.ones(len(block), dtype=bool)
    costs = evaluate(inputs, block).costs
    risky = () if safe is None else ((NOT_SAFE, costs.column("fit_chance") < safe),)
    for code, broken in (*unacceptable(inputs, costs), *risky):
        if (keep & broken).any():
            yield code, block.at(keep & broken)
        keep &= ~broken


def _refused_example(inputs: TrainingInputs, refused: Block, code: str, variant: int) -> Ranked:
    """A refused plan of a block, with results if it is valid."""
    sizes = {name: float(getattr(refused, name)[0]) for name in SIZES}
    valid = code not in {check.code for check in CHECKS}
    costs = evaluate(inputs, one_row(refused.structure, **sizes)).costs.row() if valid else {}
    return Ranked(refused.structure, sizes, costs, 0.0, variant)
