"""The plan that a scenario speaks of: its own, the best of its space, or the one of a rank."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.scenario import Plan
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training_answer.evaluate_training import evaluate
from costmodel.estimate.training_answer.predict_training import (
    Answer,
    answer,
    own_plan,
    plan_block,
    plan_to_mapping,
    predict,
    unacceptable,
    withheld,
)
from costmodel.explore.search.scenario_variants import not_to_vary
from costmodel.explore.search.search import listed_by_search, search
from costmodel.explore.search.training_space import Ranked
from costmodel.ground.counts import SIZES
from costmodel.ground.errors import COMMAND_LINE, Place, fail


def answered(case: ResolvedScenario, *, best: bool = False, bands: bool = True) -> Answer:
    """Evaluates the scenario's own plan; its best plan when asked for, or when it has none.

    Where no plan keeps everything, that is the one nearest to it: the best that breaks only limits, or else the one
    that needs the least memory.
    """
    if not best and case.scenario.plan is not None:
        return predict(case, bands=bands)
    search_result = search(case, 1, workers=1, bands=False)
    rows = search_result.best or search_result.tally.missed_by_least
    if not rows:
        hint = "costmodel search SCENARIO --why-not shows why"
        raise fail("C004", "no plan of the search is valid", Place(case.file), hint)
    return answer(search_result.inputs_of(rows[0].variant), plan_of(rows[0]), bands=bands)


def by_search(case: ResolvedScenario, paths: Sequence[str], *, best: bool) -> bool:
    """Whether answers along these paths are each the best of a search: if asked for, or if no plan is written.

    A value of `plan.KEY` is then held in the search.
    """
    for path in paths if best else ():
        if fault := not_to_vary(path, partial(listed_by_search, case)):
            raise fail("C010", fault[0], Place(COMMAND_LINE, 0, 1, path, "--best", len("--best")), fault[1])
    return best or (case.scenario.plan is None and not any(path.startswith("plan.") for path in paths))


def ranked(case: ResolvedScenario, rank: int) -> Answer:
    """The answer for the plan at a rank of the search, counted from 1; rank 0 is the scenario's own plan."""
    if rank == 0:
        return predict(case)
    search_result = search(case, rank, workers=1, bands=False)
    if len(search_result.best) < rank:
        place = Place(case.file)
        raise fail("C004", f"the search finds {len(search_result.best)} plans that fit, so none of rank {rank}", place)
    row = search_result.best[rank - 1]
    return answer(search_result.inputs_of(row.variant), plan_of(row))


def plan_of(row: Ranked) -> Plan:
    """A row of a ranking as the plan a scenario would write."""
    return Plan.model_validate({**row.sizes, **plan_to_mapping(row.structure)})


def planned(case: ResolvedScenario) -> Plan:
    """The scenario's own plan; without one, the best plan of its search."""
    if case.scenario.plan is not None:
        return case.scenario.plan
    block = answered(case).evaluation.block
    sizes = {name: number(getattr(block, name)) for name in SIZES}
    return Plan.model_validate({**sizes, **plan_to_mapping(block.structure)})


def row_results(inputs: TrainingInputs, result: str, rows: int) -> list[float]:
    """A result of the scenario's own plan in each variant; a variant is a row in columns of the inputs. Results that an
    unusable plan does not have are withheld.
    """
    block, _ = plan_block(inputs, own_plan(inputs))
    with np.errstate(all="ignore"):
        costs = evaluate(inputs, block.at(np.zeros(rows, dtype=np.intp))).costs
        against = [*unacceptable(inputs, costs)]
    broken = [[code for code, mask in against if mask[row]] for row in range(rows)]
    values = costs.column(result)
    return [float(withheld({result: value}, codes)[result]) for value, codes in zip(values, broken, strict=True)]
