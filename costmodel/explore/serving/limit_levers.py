"""Settings that may help a plan to keep a limit that a lower rate does not help: tried before they are offered."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.schemas.serving.serving_limits import GAPS
from costmodel.estimate.serving.predict_serving import ServingAnswer, code_of
from costmodel.estimate.shared.limits import Limit, stated_limits
from costmodel.explore.serving.best_layout import budget_settings
from costmodel.explore.serving.fleet_size import EASED

_RENTED = ("rent_per_month", "gpus", "nodes", "replicas", "cost_of_batch")
_SMALLEST, _MOST = 256.0, 32  # token budget; numbers of replicas that are tried


def limit_levers(answer: ServingAnswer) -> Iterator[Iterator[tuple[str, ...]]]:
    """Settings by kind, the nearest first, for the limits that a plan breaks."""
    broken = [limit for limit in stated_limits(answer.inputs.case.scenario.limits) if _breaks(answer, limit)]
    if any(limit.kind == "at_most" and limit.column in GAPS for limit in broken):
        yield _smaller_budgets(answer)
    if answer.plan.prefill is None and any(_is_eased(limit) for limit in broken):
        yield ((f"plan.replicas={count}",) for count in range(int(answer.costs["replicas"]) - 1, 0, -1)[:_MOST])


def _breaks(answer: ServingAnswer, limit: Limit) -> bool:
    return code_of(limit) in answer.broken and not limit.holds(answer.costs[limit.column])


def _is_eased(limit: Limit) -> bool:
    """Whether fewer replicas help to keep a limit."""
    return limit.column in EASED.get(limit.kind, ()) or (limit.kind == "at_most" and limit.column in _RENTED)


def _smaller_budgets(answer: ServingAnswer) -> Iterator[tuple[str, ...]]:
    """Token budgets of half as much each: a step that prompts fill takes shorter."""
    budget = float(answer.inputs.budget) / 2.0
    while budget >= _SMALLEST:
        yield tuple(f"{path}={value}" for path, value in budget_settings(answer.inputs, budget).items())
        budget /= 2.0
