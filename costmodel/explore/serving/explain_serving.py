"""The equation trees of the figures of a serving plan.

The number of sequences in flight is found by bisection before tracing; everything computed from it is traced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from costmodel.documents.schemas.results import SERVING_COLUMNS
from costmodel.estimate.serving.evaluate_disaggregated import DisaggregatedEvaluation, evaluate_pairs
from costmodel.estimate.serving.evaluate_layouts import ServingEvaluation, chance_alone, cost_at_price, evaluate
from costmodel.estimate.serving.plan_columns import SIZES, PlanColumns, with_straddling
from costmodel.estimate.serving.predict_serving import ServingAnswer, filled, halves_of, layout_of, own_plan, routed
from costmodel.estimate.serving.service_limits import OWN, asking_chance
from costmodel.estimate.serving.serving_error_band import banded, end_factors
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.shared.results import Costs
from costmodel.explore.explain.equation_trees import ExplainedFigure, MadeTrees, TreeNames, tree_of, trees_of
from costmodel.ground.equation import Number, leaf, origin_of, term, trace
from costmodel.ground.units import Figure

# What the memory of the most loaded accelerator goes to, beside the pool that is a result.
LINES: dict[str, str] = {
    "weights": "memory of the most loaded accelerator for its part of the model's weights",
    "activations": "memory for one step at the full token budget, and for captured graphs",
    "runtime": "memory of the driver's context, its libraries and communication",
    "requested": "memory that the engine claims: weights, a step, the runtime and the cache pool",
}
LINES_OF = {"requested": "with_pool"}  # lines that memory has by another name


def explain(inputs: ServingInputs, *quantities: str) -> list[ExplainedFigure]:
    """The equation trees of figures of the scenario's own plan, from one traced evaluation.

    inputs: those of its answer, which knows what lies outside measured ranges
    """
    return explain_at_prices([inputs], *quantities)[0]


def explain_at_prices(priced: Sequence[ServingInputs], *quantities: str) -> list[list[ExplainedFigure]]:
    """The equation trees of one plan at each price; one evaluation if only money differs."""
    inputs, units = priced[0], {name: "B" if name in LINES else SERVING_COLUMNS[name].unit for name in quantities}
    with trace():
        found = _evaluated(asking_chance(inputs))
        banded = not {*quantities} <= {*LINES, *found.results.columns}
        figures = {**(_with_bands(inputs, found) if banded else found.results).columns}
        figures |= {name: getattr(found.memory, LINES_OF.get(name, name)) for name in quantities if name in LINES}
        every = [figures, *({**figures, **_money_at_price(other, found)} for other in priced[1:])]
        origins = [{name: origin_of(each.get(name), name) for name in quantities} for each in every]
    made: MadeTrees = {}
    books = [TreeNames(each.case.trees, SERVING_COLUMNS, {}) for each in priced]
    return [[*trees_of(book, each, units, made).values()] for book, each in zip(books, origins, strict=True)]


def _money_at_price(inputs: ServingInputs, found: ServingEvaluation | DisaggregatedEvaluation) -> Mapping[str, Number]:
    """The money of a traced evaluation at another price; all of a new one where it follows from more than a rate."""
    if isinstance(found, DisaggregatedEvaluation) or not _is_of_rate(inputs):
        return _evaluated(asking_chance(inputs)).results.columns
    return cost_at_price(inputs, found)


def explain_light(answer: ServingAnswer, *names: str) -> list[ExplainedFigure]:
    """The equation trees of the chance to meet limits and of P90 results, with only their last steps."""
    return [_chance(answer.inputs) if name == OWN else _end(answer, name) for name in names]


def _chance(inputs: ServingInputs) -> ExplainedFigure:
    """The equation tree of the chance of the scenario's own plan to meet every limit."""
    asked, plan = asking_chance(inputs), filled(inputs, own_plan(inputs))[0]
    if not _is_of_rate(inputs) or halves_of(inputs, plan) is not None:
        return explain(inputs, OWN)[0]
    with trace(), np.errstate(all="ignore"):
        origin = origin_of(chance_alone(asked, *with_straddling(asked, layout_of(inputs, plan)[0])), OWN)
    return tree_of(TreeNames(inputs.case.trees, SERVING_COLUMNS, {}), OWN, "1", origin)


def _end(answer: ServingAnswer, name: str) -> ExplainedFigure:
    """The equation tree of the P90 of a result: the plan with all times longer by a traced factor."""
    with trace():
        factor = origin_of(end_factors(answer.inputs)[1], "factor")
    result, book = name.removesuffix("_high"), TreeNames(answer.inputs.case.trees, SERVING_COLUMNS, {})
    unit, longer = SERVING_COLUMNS[result].unit, tree_of(book, "factor on all times at P90", "1", factor)
    inner = [longer, ExplainedFigure(result, answer.costs[result], unit)]
    return ExplainedFigure(name, answer.costs[name], unit, operation="with all times longer", beneath=inner)


def _is_of_rate(inputs: ServingInputs) -> bool:
    """Whether results follow from one rate alone, not from a cap or from what replicas have cached."""
    workload = inputs.case.scenario.workload
    alone = workload.rate is not None and workload.concurrency is None
    return alone and not inputs.depends_on_count and not inputs.beginnings


def traced_evaluation(inputs: ServingInputs) -> ServingEvaluation | DisaggregatedEvaluation:
    """Evaluates the scenario's own plan with tracing."""
    with trace():
        return _evaluated(asking_chance(inputs))


def explain_all(
    inputs: ServingInputs, evaluation: ServingEvaluation | DisaggregatedEvaluation
) -> dict[str, ExplainedFigure]:
    """The equation trees of every result and memory line; shared parts are one node."""
    with trace():
        results, use = _with_bands(inputs, evaluation), evaluation.memory
        origins = {name: origin_of(column, name) for name, column in results.columns.items() if name in SERVING_COLUMNS}
        lines = {"weights": use.weights, "activations": use.activations, "runtime": use.runtime, "cache": use.pool}
        held = {f"{name}_bytes": origin_of(value, name) for name, value in lines.items()}
    units = {name: SERVING_COLUMNS[name].unit for name in origins} | dict.fromkeys(held, "B")
    return trees_of(TreeNames(inputs.case.trees, SERVING_COLUMNS, {}), origins | held, units)


def _with_bands(inputs: ServingInputs, found: ServingEvaluation | DisaggregatedEvaluation) -> Costs:
    """The results of a traced evaluation with the ends of their bands, traced."""
    ends = []
    for name, factor in zip(("faster", "slower"), end_factors(inputs), strict=True):
        with term(f"all {name}"), np.errstate(all="ignore"):
            end = _evaluated(inputs, np.atleast_1d(factor))
            ends.append((end.results.columns, end.overloaded))
    return banded(inputs, found, *ends)


def _evaluated(inputs: ServingInputs, time_factor: Any = None) -> ServingEvaluation | DisaggregatedEvaluation:
    """Evaluates the scenario's own plan; `time_factor` is set in the columns of the plan."""
    plan, _ = filled(inputs, own_plan(inputs))
    halves = halves_of(inputs, plan)
    if halves is None:
        layout, _ = layout_of(inputs, plan)
        known = _knowing(inputs, layout, plan, "plan")
        return evaluate(inputs, replace(known, time_factor=time_factor))
    prefill, decode = (
        _knowing(inputs, layout, half, f"plan.{name}")
        for layout, half, name in zip(halves, (plan.prefill, plan.decode), ("prefill", "decode"), strict=True)
    )
    prefill, decode = (replace(half, time_factor=time_factor) for half in (prefill, decode))
    return evaluate_pairs(routed(inputs, halves[0]), prefill, decode)


def _knowing(inputs: ServingInputs, layout: PlanColumns, plan: object, path: str) -> PlanColumns:
    """A plan's columns, which record where they are written."""
    columns: dict[str, Any] = {}
    for name in SIZES:
        value = inputs.budget if name == "budget" else getattr(plan, name, None)
        written = value if isinstance(value, Figure) else None
        columns[name] = leaf(getattr(layout, name), f"{path}.{name}", written)
    return PlanColumns(**columns)
