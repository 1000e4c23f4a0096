"""What makes an iteration of reinforcement learning larger: its prompts; engines keep their share of accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costmodel.documents.schemas.rl.rl_results import PHASES
from costmodel.explore.rank_sizes import RankGrowth

if TYPE_CHECKING:
    from costmodel.documents.reader.rl_scenario import RlCase


def growth_of(case: RlCase, *, weak: bool) -> RankGrowth:
    """The same iteration, or one whose prompts grow with the accelerators."""
    return RankGrowth(
        strong="the same iteration on all sizes",
        weak="prompts grow with the accelerators",
        grown="workload.prompts",
        shown=("iteration_time", "answers_per_s", "generation", "tail", "update_time"),
        figure="iteration_time",
        work="answers_per_s",
        time="iteration_time",
        terms=tuple(PHASES),
        each=lambda costs, size: costs["answers_per_s"] / size,
        settings=lambda ranks: _settings(case, ranks, weak=weak),
    )


def _settings(case: RlCase, ranks: float, *, weak: bool) -> list[str]:
    each, plan = float(case.node.accelerators), case.scenario.plan
    before = float(case.cluster.nodes) * each
    settings = [f"cluster.nodes={max(1.0, ranks / each):.0f}"]
    if ranks < each:
        settings.append(f"cluster.node.accelerators={ranks:.0f}")
    if plan is not None and plan.rollout.ranks is not None:
        grain = each if ranks > each else 1.0
        own = max(grain, round(float(plan.rollout.ranks) / before * ranks / grain) * grain)
        settings.append(f"plan.rollout.ranks={min(own, ranks - grain):.0f}")
    if weak:
        grown = case.scenario.workload.prompts / before * ranks
        settings.append(f"workload.prompts={max(1.0, round(grown)):.0f}")
    return settings
