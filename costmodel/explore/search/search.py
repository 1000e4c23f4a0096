"""Evaluate every valid plan of a space and keep the best."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from costmodel.documents.reader.override_case import vary
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.estimate.evaluate.evaluate_plans import missing_input
from costmodel.estimate.evaluate.predict import Answer, answer
from costmodel.estimate.machine.price import price_of
from costmodel.estimate.training.training_inputs import TrainingInputs, training_inputs
from costmodel.explore.safety import preferred_chance
from costmodel.explore.search.accumulator import Accumulator, SearchQuery
from costmodel.explore.search.bands import first_faster, with_bands
from costmodel.explore.search.changes import Remedy
from costmodel.explore.search.checkpoint import SearchFolder, asked_of, held
from costmodel.explore.search.engine import SearchStopped
from costmodel.explore.search.ranges import Axis
from costmodel.explore.search.rank import Ranked, Top, axes
from costmodel.explore.search.remedies import what_would_be_valid, what_would_work
from costmodel.explore.search.stream import SearchOptions, SearchProgress, results
from costmodel.explore.search.work_units import ScenarioVariants, candidates
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Place, fail
from costmodel.ground.plan_sizes import SIZES
from costmodel.ground.record import record

PRECISION = "workload.precision"
NO_PRECISION = "L044"


@record
class SearchResult:
    """The result of a search; if stopped, for the candidates so far.

    chances: that the first of the best plans is faster than each, where they are ranked by speed. remedies: of a search
    without a working or valid plan, see `with_remedies`; of several scenarios, for the nearest one. safe: the chance
    to fit that it prefers, where no limit states one.
    """

    inputs: TrainingInputs
    variants: ScenarioVariants
    tally: Accumulator
    yours: Answer | None
    elapsed: float
    stopped: bool = False
    chances: Sequence[float] = ()
    remedies: Sequence[Remedy] = ()
    safe: float | None = None

    @property
    def is_safe(self) -> bool:
        """Whether the best plans have the chance to fit that the search prefers."""
        return self.safe is None or self.tally.safe > 0

    @property
    def expected(self) -> Ranked | None:
        """The best plan whatever its chance to fit, where that is better than the first of those that are safe."""
        if not self.best or not self.tally.risky.rows:
            return None
        top, other = self.tally.top, self.tally.risky.rows[0]
        return other if other.score < top.sign * self.best[0].costs[top.objective] * (1 - SAME_SCORE) else None

    @property
    def best(self) -> list[Ranked]:
        """The best plans, best first; where none is safe, the surest first."""
        return self.tally.top.rows

    @property
    def your_rank(self) -> int | None:
        """The rank of the scenario's own plan, when it is valid and fits, surely where the search prefers that."""
        if self.yours is None or self.yours.refused or self.yours.broken or not self.is_safe:
            return None
        if self.safe is not None and self.yours.evaluation.costs.row()["fit_chance"] < self.safe:
            return None
        return self.tally.better_than_yours + 1

    @property
    def total(self) -> int:
        """The number of candidates."""
        return candidates(self.variants)

    def values(self, variant: int) -> dict[str, str]:
        """The values of the swept keys in a variant."""
        return self.variants.values(variant)

    def case_of(self, variant: int) -> ResolvedScenario:
        """The scenario of a variant."""
        return self.variants.of(variant) if self.variants.over else self.inputs.case

    def inputs_of(self, variant: int) -> TrainingInputs:
        """The inputs of a variant."""
        return self.variants.inputs(variant) if self.variants.over else self.inputs


SAME_SCORE = 1e-12  # relative; what rounding makes of equal ones


def _yours(inputs: TrainingInputs, sign: float, objective: str) -> tuple[Answer | None, float]:
    plan = inputs.case.scenario.plan
    if plan is None or inputs.case.held.all_keys:
        return None, -math.inf
    yours = answer(inputs, plan)
    score = sign * yours.evaluation.costs.row()[objective]
    return yours, score - SAME_SCORE * abs(score)


def _rankable(variants: ScenarioVariants) -> None:
    """A fault where the objective is unknown in one of the scenarios: its plans cannot be ranked."""
    objective = variants.case.scenario.objective
    if objective not in ("cost_per_mtoken", "run_cost") and (wanted := missing_input(variants.inputs(0), objective)):
        raise fail("C004", f"the objective is {objective}, which is not known", None, wanted)
    if objective not in ("cost_per_mtoken", "run_cost"):
        return
    cases = (variants.of(number) for number in range(len(variants)))
    without = dict.fromkeys(case.node.name for case in cases if not price_of(case).known)
    if without:
        wanted = missing_input(training_inputs(variants.case), objective) or "set assume.price, or leave them out"
        raise fail("C004", f"the objective is cost, but no price is known for {', '.join(without)}", None, wanted)


def _varied(case: ResolvedScenario, over: Sequence[Axis]) -> None:
    """A fault for a path that the search already lists, or whose values cannot share one ranking."""
    for axis in over:
        if axis.path == "objective":
            sentence, hint = "plans of several objectives make no one ranking", f"--set objective={axis.values[0]}"
        elif fault := not_to_vary(case, axis.path):
            sentence, hint = fault
        else:
            continue
        written = f"--over {axis.path}={','.join(axis.values)}"
        raise fail("C010", sentence, Place(COMMAND_LINE, 0, len("--over ") + 1, "", written, len(axis.path)), hint)


def not_to_vary(case: ResolvedScenario, path: str) -> tuple[str, str] | None:
    """The reason why a search cannot sweep a path, and what to do instead; empty where it can."""
    space, (_, _, key) = case.scenario.search, path.rpartition(".")
    if path == "plan":
        return "a search takes values of one key of the plan", "for example plan.tp"
    if path not in (PRECISION, f"plan.{key}") or space is None or getattr(space, key, None) is None:
        return None
    return f"search.{key} lists values of {path} already", "leave one of the two out"


def _own_ahead(top: Top, yours: Answer | None) -> list[Ranked]:
    """The rows in order, with the scenario's own plan before equally good ones."""
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
) -> SearchResult:
    """The best plans of a scenario's space, and the Pareto front of two results.

    Over several scenarios if keys are swept.
    """
    began = time.perf_counter()
    how = how or SearchOptions(workers=workers)
    _ = how.by  # a fault of the engine comes before any work
    precisions, lacking = possible_precisions(case)
    variants = ScenarioVariants(case, (*over, *precisions))
    variants.checked()
    _rankable(variants)
    _varied(case, over)
    safe = preferred_chance(case)
    wanted = SearchQuery(size, axes=axes(pareto, case.scenario.objective) if pareto else None, safe=safe)
    tally = wanted.tally(case.scenario.objective)
    inputs = training_inputs(case)
    yours, bar = _yours(inputs, tally.top.sign, tally.top.objective)
    wanted = replace(wanted, bar=bar)
    stopped = _counted(variants, wanted, tally, how, of_run=inputs.run is not None)
    if lacking:
        refused = lacking * (candidates(variants) // len(precisions[0].values))
        tally.candidates, tally.refused[NO_PRECISION] = tally.candidates + refused, refused
    tally.settle()
    if safe is None or tally.safe:
        tally.top.rows = _own_ahead(tally.top, yours)
    _add_bands(variants, tally)
    elapsed = time.perf_counter() - began
    chances = first_faster(inputs, tally.top.rows) if safe is None or tally.safe else ()
    return SearchResult(inputs, variants, tally, yours, elapsed, stopped=stopped, chances=chances, safe=safe)


def with_remedies(found: SearchResult) -> SearchResult:
    """The same result; where nothing works, with what would."""
    if found.best or found.stopped:
        return found
    if not found.tally.missed_by_least:
        return replace(found, remedies=what_would_be_valid(found.inputs_of(0)))
    nearest = found.tally.missed_by_least[0]
    return replace(found, remedies=what_would_work(found.inputs_of(nearest.variant), nearest))


def possible_precisions(case: ResolvedScenario) -> tuple[tuple[Axis, ...], int]:
    """The precisions of the space, the scenario's own first, and the number of those that no hardware here can run."""
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
    """The precisions of the space that cannot run; empty if none can, because the first one then reports the reason."""
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


def _add_bands(variants: ScenarioVariants, tally: Accumulator) -> None:
    """Bands for the plans of all lists, which are evaluated together."""
    lists = [best for _, best in tally.lists()]
    rows = iter(_banded(variants, [row for best in lists for row in best.rows]))
    for best in lists:
        best.rows = list(islice(rows, len(best.rows)))


def _banded(variants: ScenarioVariants, rows: Sequence[Ranked]) -> list[Ranked]:
    """Plans with their bands, each with the inputs of its variant."""
    places: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(row.variant, []).append(place)
    found = list(rows)
    for variant, mine in places.items():
        for place, row in zip(mine, with_bands(variants.inputs(variant), [rows[at] for at in mine]), strict=True):
            found[place] = row
    return found


def _counted(
    variants: ScenarioVariants, wanted: SearchQuery, tally: Accumulator, how: SearchOptions, *, of_run: bool
) -> bool:
    """Accumulate every piece, with a checkpoint in a folder if named; returns whether it was stopped."""
    if how.folder is None:
        return _through(variants, wanted, tally, how, None)
    asked = asked_of(variants, wanted, plans=how.plans)
    with held(how.folder, asked, tally, plans=how.plans, resume=how.resume) as kept:
        kept.of_run = of_run
        return _through(variants, wanted, tally, how, kept)


def _through(
    variants: ScenarioVariants, wanted: SearchQuery, tally: Accumulator, how: SearchOptions, kept: SearchFolder | None
) -> bool:
    """Accumulate every piece that is not counted yet; returns whether it was stopped early."""
    total, stopped = candidates(variants), False
    try:
        parts = kept.parts if kept else None
        for found in results(variants, wanted, how, kept.done if kept else 0, total, parts):
            tally.merge(found)
            if kept:
                kept.count(tally, found.evaluated)
            how.watch(
                SearchProgress(tally.candidates, total, tally.evaluated, tally.top.rows[0] if tally.top.rows else None)
            )
    except SearchStopped:
        stopped = True
    if kept:
        kept.close(tally, complete=not stopped)
    return stopped
