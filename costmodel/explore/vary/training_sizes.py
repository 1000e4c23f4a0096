"""What makes a training job larger: its batch, with more accelerators; a plan's own dp follows from their number."""

from __future__ import annotations

import math

from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario, training
from costmodel.equations.data_parallel.batch_size import steps_for_batch
from costmodel.equations.run.economics import share
from costmodel.estimate.shared.critical_batch import critical_batch
from costmodel.estimate.shared.results import number
from costmodel.estimate.training.plan_constraints import micro_batches
from costmodel.estimate.training_answer.evaluate_training import TERM_COLUMNS
from costmodel.estimate.training_answer.predict_training import Answer
from costmodel.estimate.training_answer.training_facts import facts_of
from costmodel.explore.purchase.smallest_size import RankGrowth
from costmodel.explore.workload_interface import PlanAnswer
from costmodel.ground.errors import Fault
from costmodel.ground.units import counted

_EACH = "tokens_per_s_per_gpu"


def growth_of(case: ResolvedScenario, *, weak: bool, best: bool) -> RankGrowth:
    """How training scales: the batch stays (strong scaling), or grows with the ranks (weak scaling)."""
    return RankGrowth(
        strong="strong scaling, the same batch",
        weak="weak scaling, the batch grows with the ranks",
        grown="workload.global_batch",
        shown=("step_time", "mfu", "memory_peak"),
        figure=_EACH,
        work=_EACH,
        time="step_time",
        terms=tuple(TERM_COLUMNS.values()),
        each=lambda costs, size: costs[_EACH],
        settings=lambda ranks: _settings(case, ranks, weak=weak, best=best),
        paces=_paces,
        uneven=lambda ranks: _uneven_groups(case, ranks),
    )


def _paces(case: LoadedScenario, plan_answer: PlanAnswer) -> tuple[float, float]:
    """Micro-batches for each stage, and steps to a loss over the least."""
    assert isinstance(plan_answer, Answer)
    block, held = plan_answer.evaluation.block, training(case)
    facts, critical = facts_of(held), critical_batch(held.scenario.workload)
    waves = number(share(micro_batches(plan_answer.inputs, block), block.pp))
    batch = facts.global_batch * facts.sequence
    return waves, math.nan if critical is None else float(steps_for_batch(1.0, float(critical), batch))


def _uneven_groups(case: ResolvedScenario, ranks: float) -> Fault | None:
    """A fault for a number of accelerators that does not keep the proportion of the groups; else None."""
    cluster, all_of_it = case.scenario.cluster, case.scenario.cluster.nodes * case.node.accelerators
    if all((group.nodes * ranks / all_of_it).is_integer() for group in cluster.groups or []):
        return None
    per_group = all_of_it / math.gcd(*(int(group.nodes) for group in cluster.groups or []))
    sentence = f"{counted(ranks)} accelerators do not divide among the groups as they are"
    return Fault("C010", sentence, None, f"groups keep their proportion in multiples of {counted(per_group)}")


def _settings(case: ResolvedScenario, ranks: float, *, weak: bool, best: bool) -> list[str]:
    """Settings for a cluster of that size: whole nodes, or a part of one."""
    node, scenario = case.node, case.scenario
    whole, groups = ranks >= node.accelerators, scenario.cluster.groups or []
    own = scenario.cluster.nodes * node.accelerators
    if groups:
        part = ranks / own
        settings = [f"cluster.groups.{at}.nodes={group.nodes * part:.12g}" for at, group in enumerate(groups)]
    else:
        settings = [f"cluster.nodes={ranks / node.accelerators if whole else 1:.12g}"]
    if not whole:
        settings.append(f"cluster.node.accelerators={ranks:.12g}")
    if not best and scenario.plan is not None and scenario.plan.dp is not None:
        settings.append("plan.dp=null")
    if weak:
        settings.append(f"workload.global_batch={scenario.workload.global_batch * ranks / own:.12g}")
    return settings
