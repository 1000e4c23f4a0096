"""Selects the plan that a training question is about: the scenario's own, one of its search, or a stored result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.documents.schemas.results import TRAINING_COLUMNS, machine_name
from costmodel.documents.schemas.scenario import Plan
from costmodel.estimate.answer_facts import Facts, facts_of
from costmodel.estimate.shared.plan_batch import plan_to_mapping
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.training_inputs import TrainingInputs
from costmodel.estimate.training_answer.evaluate_training import evaluate
from costmodel.estimate.training_answer.predict_training import (
    Answer,
    answer,
    own_plan,
    plan_block,
    predict,
    unacceptable,
    withheld,
)
from costmodel.explore.compare.compare import (
    MEMORY,
    TRAFFIC,
    MovedFigure,
    Side,
    is_stored,
    moved_figures,
    side_of_answer,
)
from costmodel.explore.compare.input_paths import InputValue, input_values
from costmodel.explore.search.scenario_variants import not_to_vary
from costmodel.explore.search.search import TrainingSearch, listed_by_search, search
from costmodel.explore.search.training_space import Ranked
from costmodel.ground.counts import SIZES
from costmodel.ground.errors import COMMAND_LINE, Place, fail
from costmodel.ground.parsing import parse

# --- the plan that a scenario speaks of: its own, the best of its space, or the one of a rank


def answer_of_own_or_best(case: ResolvedScenario, *, best: bool = False, bands: bool = True) -> Answer:
    """The answer for the scenario's own plan; for the best plan of its search if asked for, or if it has no plan.

    If no plan meets everything, the nearest one: the best that only breaks limits, else the one with the least memory.
    """
    if not best and case.scenario.plan is not None:
        return predict(case, bands=bands)
    search_result = search(case, 1, workers=1, bands=False, counted=False)
    rows = search_result.best or search_result.tally.missed_by_least
    if not rows:
        hint = "costmodel search SCENARIO --why-not shows why"
        raise fail("C004", "no plan of the search is valid", Place(case.file), hint)
    return answer(search_result.inputs_of(rows[0].variant), plan_of_row(rows[0]), bands=bands)


def is_by_search(case: ResolvedScenario, paths: Sequence[str], *, best: bool) -> bool:
    """Whether each answer along these paths has the best plan of a search: if asked for, or if no plan is stated.

    A value of `plan.KEY` is then fixed in the search.
    """
    for path in paths if best else ():
        if fault := not_to_vary(path, partial(listed_by_search, case)):
            raise fail("C010", fault[0], Place(COMMAND_LINE, 0, 1, path, "--best", len("--best")), fault[1])
    return best or (case.scenario.plan is None and not any(path.startswith("plan.") for path in paths))


def answer_of_rank(case: ResolvedScenario, rank: int) -> Answer:
    """The answer for the plan at a rank of the search, counted from 1; rank 0 is the scenario's own plan."""
    if rank == 0:
        return predict(case)
    search_result = search(case, rank, workers=1, bands=False, counted=False)
    if len(search_result.best) < rank:
        place = Place(case.file)
        raise fail("C004", f"the search finds {len(search_result.best)} plans that fit, so none of rank {rank}", place)
    row = search_result.best[rank - 1]
    return answer(search_result.inputs_of(row.variant), plan_of_row(row))


def plan_of_row(row: Ranked) -> Plan:
    """A row of a ranking as a plan document."""
    return Plan.model_validate({**row.sizes, **plan_to_mapping(row.structure)})


def own_or_best_plan(case: ResolvedScenario) -> Plan:
    """The scenario's own plan; without one, the best plan of its search."""
    if case.scenario.plan is not None:
        return case.scenario.plan
    block = answer_of_own_or_best(case).evaluation.block
    sizes = {name: number(getattr(block, name)) for name in SIZES}
    return Plan.model_validate({**sizes, **plan_to_mapping(block.structure)})


def results_in_variants(inputs: TrainingInputs, result: str, rows: int) -> list[float]:
    """A result of the scenario's plan in each variant, a row of the columns of `inputs`; NaN if withheld."""
    block, _ = plan_block(inputs, own_plan(inputs))
    with np.errstate(all="ignore"):
        costs = evaluate(inputs, block.at(np.zeros(rows, dtype=np.intp))).costs
        against = [*unacceptable(inputs, costs)]
    broken = [[code for code, mask in against if mask[row]] for row in range(rows)]
    values = costs.column(result)
    return [float(withheld({result: value}, codes)[result]) for value, codes in zip(values, broken, strict=True)]


# --- sides of a comparison by name


def training_side(name: str, case: ResolvedScenario, rank: int | None, *, changed: bool) -> Side:
    """A scenario as one side of a comparison: a stored result if nothing changed, or a plan of its search."""
    stored = next(iter(case.trees.values()), None)
    if isinstance(stored, dict) and is_stored(case) and not changed:
        return _stored_side(name, case, stored, 1 if rank is None else rank)
    return side_of_answer(name, answer_of_own_or_best(case) if rank is None else answer_of_rank(case, rank))


def gain_over_own_plan(search_result: TrainingSearch) -> list[MovedFigure]:
    """The results in which the best plan differs from the scenario's own; empty if the own plan is not ranked."""
    if search_result.yours is None or search_result.your_rank is None or not search_result.best:
        return []
    rows = search_result.yours.evaluation.costs.row(), search_result.best[0].costs
    before, after = ({machine_name(name): value for name, value in row.items()} for row in rows)
    return moved_figures(before, after)


def _stored_side(name: str, case: ResolvedScenario, result: Mapping[str, Any], rank: int) -> Side:
    """A stored result as one side of a comparison, with the figures that it had when written."""
    plans = result.get("plans")
    plans = plans if isinstance(plans, list) else []
    if not 1 <= rank <= len(plans) or not isinstance(plans[rank - 1], dict):
        hint = "write it again with --json, or ask for another rank"
        raise fail("C004", f"this result has {len(plans)} plans, so none of rank {rank}", Place(name), hint)
    plan = plans[rank - 1]
    values = {path: value for path, value in input_values(case).items() if not path.startswith("plan.")}
    stated = {key: value for key, value in plan.items() if key in Plan.model_fields and value is not None}
    values |= {f"plan.{key}": InputValue(_plain_text(value)) for key, value in stated.items()}
    digests = {str(item.get("name")): str(item.get("digest")) for item in _stored_rows(result, "documents")}
    held = {key: float(plan[key]) for key in map(machine_name, TRAINING_COLUMNS) if _is_number(plan.get(key))}
    held |= _stored_memory_lines(_stored_rows(result, "ledger")) | _stored_transfers(_stored_rows(result, "transfers"))
    assumed = {str(item.get("path")): str(item.get("value")) for item in _stored_rows(result, "assumed")}
    parts = tuple(part for part, key in ((MEMORY, "ledger"), (TRAFFIC, "transfers")) if key in result)
    return Side(name, values, held, digests, assumed=assumed, facts=_facts_at_stored_price(case, plan), parts=parts)


def _facts_at_stored_price(case: ResolvedScenario, plan: Mapping[str, Any]) -> Facts:
    """The facts of a case, at the price of the stored result."""
    facts, each, source = facts_of(case), plan.get("price_usd_per_gpu_h"), plan.get("price_source")
    if not _is_number(each) or not isinstance(source, str):
        return facts
    price = replace(
        facts.price,
        each=parse(f"{each!r} USD/h", "USD/s"),
        stated=source,
        foreign=(),
        assumed=bool(plan.get("price_assumed")),
        others=None,
    )
    return replace(facts, price=price)


def _plain_text(value: Any) -> Any:
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return float(value) if _is_number(value) else value if isinstance(value, bool) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _stored_rows(result: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    rows = result.get(key)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _stored_memory_lines(stages: list[dict[str, Any]]) -> dict[str, float]:
    """Bytes of each memory line on the fullest stage of a stored result."""
    peaks = [stage for stage in stages if _is_number(stage.get("peak_bytes"))]
    worst = max(peaks, key=lambda stage: float(stage["peak_bytes"]), default={})
    names = [name for name in worst if name.endswith("_bytes") and name != "peak_bytes" and _is_number(worst[name])]
    return {f"{MEMORY}{name}": float(worst[name]) for name in names}


def _stored_transfers(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Seconds and bytes of each collective of a stored result, by name."""
    totals: dict[str, float] = {}
    for row in rows:
        if not all(_is_number(row.get(key)) for key in ("time_s", "count", "volume_bytes")):
            continue
        name = f"{TRAFFIC}{row.get('group')} {row.get('operation')}".replace("_", "-")
        for key, value in (
            (f"{name}.time_s", row["time_s"] * row["count"]),
            (f"{name}.volume_bytes", row["volume_bytes"]),
        ):
            totals[key] = totals.get(key, 0.0) + value
    return totals
