"""The layouts that a serving search tries: those that the scenario lists, or all that make sense."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np

from costmodel.documents.keys.overrides import stated_paths
from costmodel.documents.schemas.serving import GAPS
from costmodel.estimate.serving.constraints import invalid_halves
from costmodel.estimate.serving.plan_columns import PlanColumns, prefill_beside
from costmodel.estimate.serving.predict_serving import apart_is_modelled
from costmodel.estimate.serving.serving_inputs import ServingInputs
from costmodel.estimate.shared.results import stated_limits
from costmodel.explore.serving.fleet_size import most_accelerators, with_most_replicas
from costmodel.ground.errors import CostModelError, fail
from costmodel.ground.solvers import distinct_values

BUDGETS = (2048.0, 8192.0, 16384.0)  # tried beside what the engine picks
SMALL_BUDGETS = (512.0, 1024.0)  # and these, where a limit bounds what a step full of prompts makes
COUNTS = 12  # numbers of decode instances that are tried with each pair of layouts


def _no_room(inputs: ServingInputs) -> CostModelError:
    """The fault for fixed plan keys that take more accelerators than there are."""
    sentence, plan = "search lists no plan that the cluster has room for", inputs.case.scenario.plan
    sizes = {name: float(getattr(plan, name, None) or 1.0) for name in ("tp", "pp", "dp_attention")}
    if math.prod(sizes.values()) <= float(inputs.ranks):
        return fail("C004", sentence, inputs.case.place("search"))
    taken = " × ".join(f"{name} {size:.0f}" for name, size in sizes.items() if size > 1)
    sentence = f"{sentence}: {taken} is {math.prod(sizes.values()):.0f} GPUs, and it has {float(inputs.ranks):.0f}"
    hint = "a smaller degree, or more nodes"
    if sizes["dp_attention"] > 1 and sizes["tp"] > 1:
        hint = "tp counts inside a group of attention: SGLang's --tp 8 --dp 8 is tp 1, dp_attention 8"
    largest = max(sizes, key=lambda name: sizes[name])
    return fail("C004", sentence, inputs.case.place(f"plan.{largest}", "plan"), hint)


def _budgets(inputs: ServingInputs) -> list[float]:
    """Token budgets of a step to try; small ones only if a limit bounds the gap between tokens."""
    if inputs.engine.budget is not None:
        return [float(inputs.budget)]
    limits = stated_limits(inputs.case.scenario.limits)
    small = SMALL_BUDGETS if any(limit.kind == "at_most" and limit.column in GAPS for limit in limits) else ()
    return sorted({*BUDGETS, *small, float(inputs.budget)})


def candidates(inputs: ServingInputs) -> PlanColumns:
    """Every plan of the space; raises a fault if there is none."""
    ranks, plan = float(inputs.ranks), inputs.case.scenario.plan
    degrees = _powers_of_two(ranks)

    def listed(name: str, usual: Iterable[float]) -> list[float]:
        return _listed_values(inputs, name) or [float(value) for value in usual]

    mixture = inputs.model.has_experts
    axes = (
        listed("tp", degrees),
        listed("pp", (pp for pp in degrees)),
        listed("ep", degrees if mixture else (1.0,)),
        listed("dp_attention", degrees if mixture else (1.0,)),
        listed("budget", _budgets(inputs)),
        listed("redundant_experts", () if plan is None else (plan.redundant_experts or 0.0,)) or [0.0],
        listed("dcp", (1.0 if plan is None else plan.dcp,)),
    )
    columns = [axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")]
    tp, pp, ep, groups, _, copies, dcp = columns
    each = np.asarray(pp * (tp * groups))
    sensible = each <= ranks
    if mixture:
        sensible &= (ep == 1) | (ep == tp * groups) | (len(axes[2]) == 1)
        sensible &= (copies == 0) | (ep > 1) | (len(axes[-2]) == 1)
    sensible &= (tp % dcp == 0) | (len(axes[-1]) == 1)
    tp, pp, ep, groups, budget, copies, dcp, each = (column[sensible] for column in (*columns, each))
    counts = listed("replicas", ())
    if counts:
        rows = np.arange(len(tp)).repeat(len(counts))
        many = np.tile(np.array(counts), len(tp))
        tp, pp, ep, groups, budget, copies, dcp = (each[rows] for each in (tp, pp, ep, groups, budget, copies, dcp))
        return PlanColumns(tp, pp, ep, groups, many, budget, copies, dcp)
    if not len(tp):
        raise _no_room(inputs)
    return with_most_replicas(inputs, PlanColumns(tp, pp, ep, groups, np.ones(len(tp)), budget, copies, dcp))


def _listed_values(inputs: ServingInputs, name: str) -> list[float]:
    """The values of a size that --set or the search states; empty if the search is free."""
    space, plan = inputs.case.scenario.search, inputs.case.scenario.plan
    if plan is not None and f"plan.{name}" in stated_paths(inputs.case.assignments):  # the command line's stays
        stated = getattr(plan, name)
        return [] if name == "replicas" and stated is None else [float(stated or 0.0)]
    return [float(value) for value in getattr(space, name, None) or ()]


def replicas_are_open(inputs: ServingInputs) -> bool:
    """Whether the search chooses the number of replicas."""
    return not _listed_values(inputs, "replicas")


def ep_is_open(inputs: ServingInputs) -> bool:
    """Whether the search chooses how experts are divided."""
    return inputs.model.has_experts and not _listed_values(inputs, "ep")


def _powers_of_two(most: float) -> list[float]:
    return list(itertools.takewhile(lambda degree: degree <= most, (2.0**power for power in range(20))))


def valid_pairs(inputs: ServingInputs, layout: PlanColumns) -> tuple[PlanColumns, PlanColumns]:
    """Valid pairs of prefill and decode layouts; none unless the scenario's search asks for them."""
    space = inputs.case.scenario.search
    if space is None or not space.disaggregated:
        nothing = layout.at(slice(0, 0))
        return nothing, nothing
    prefill, decode = pairs(inputs, layout)
    kept = np.ones(len(decode), dtype=bool)
    for _, mask in invalid_halves(inputs, prefill, decode):
        kept &= ~mask
    return prefill.at(kept), decode.at(kept)


def pairs(inputs: ServingInputs, layout: PlanColumns) -> tuple[PlanColumns, PlanColumns]:
    """Pairs of prefill and decode layouts with one pipeline stage, with as many instances as the cluster holds.

    Raises:
        CostModelError: the load is not modelled for disaggregated plans
    """
    apart_is_modelled(inputs)
    ranks = most_accelerators(inputs)
    alone = layout.at(layout.pp == 1)
    degrees = (alone.tp, alone.ep, alone.dp_attention, alone.redundant_experts, alone.dcp)
    shapes = distinct_values(np.stack(degrees), axis=1).T
    rows = []
    for first, second in itertools.product(shapes, shapes):
        if first[3] != second[3]:  # a plan has as many copies on both
            continue
        own, other = first[0] * first[2], second[0] * second[2]
        counts = distinct_values(np.geomspace(1, max((ranks - own) // other, 1), COUNTS).round())
        for count in counts[counts * other + own <= ranks]:
            rows.append((*first, (ranks - count * other) // own, *second, count))
    columns = np.array(rows, dtype=np.float64).reshape(-1, 12).T
    one, budget = np.ones(columns.shape[1]), np.full(columns.shape[1], float(inputs.budget))
    halves = (
        PlanColumns(tp, one, ep, groups, count, budget, copies, dcp)
        for tp, ep, groups, copies, dcp, count in (columns[:6], columns[6:])
    )
    prefill, decode = halves
    return prefill_beside(inputs, prefill, decode), decode
