"""Which accelerators train and which generate: each part as a cluster."""

from __future__ import annotations

import math

from costmodel.documents.reader.rl_scenario import RlCase
from costmodel.documents.schemas.hardware import Cluster, Node
from costmodel.documents.schemas.rl.rl_plan import RolloutPlan
from costmodel.equations.parallelism.counts import world_size
from costmodel.ground.record import record
from costmodel.ground.units import Figure


@record
class ClusterPart:
    """A cluster with so many accelerators."""

    ranks: float
    cluster: Cluster
    node: Node


@record
class RankSplit:
    """The accelerators that train and those that generate; identical if they are colocated."""

    trainer: ClusterPart
    rollout: ClusterPart
    colocated: bool
    possible: bool

    @property
    def ranks(self) -> float:
        """All accelerators of trainer and engines."""
        return self.trainer.ranks if self.colocated else self.trainer.ranks + self.rollout.ranks


def rank_split(case: RlCase, plan: RolloutPlan, *, generates: bool) -> RankSplit:
    """How trainer and engines share the accelerators; if the split is not possible, both get all of them."""
    if case.parts:
        trainer, engines = (_of_kind(nodes, each) for nodes, each in case.parts)
        beside = plan.colocated and "colocated" in plan.model_fields_set
        return RankSplit(trainer, engines, False, not beside and plan.ranks in (None, engines.ranks))
    every = float(world_size(case.cluster.nodes, case.node.accelerators))
    whole = part_of(case, every)
    assert whole is not None
    if plan.colocated or not generates:
        return RankSplit(whole, whole, True, True)
    assert plan.ranks is not None
    parts = part_of(case, every - plan.ranks), part_of(case, plan.ranks)
    if parts[0] is None or parts[1] is None:
        return RankSplit(whole, whole, True, False)
    return RankSplit(parts[0], parts[1], False, True)


def _of_kind(nodes: float, case: RlCase) -> ClusterPart:
    """All nodes of one kind as a cluster part."""
    cluster = case.cluster.model_copy(update={"nodes": Figure(nodes)})
    return ClusterPart(float(world_size(nodes, case.node.accelerators)), cluster, case.node)


def part_of(case: RlCase, ranks: float) -> ClusterPart | None:
    """A cluster part of whole nodes, or of some accelerators of one node; None if the number allows neither."""
    each, cluster, node = float(case.node.accelerators), case.cluster, case.node
    nodes = ranks / each
    if ranks < 1 or (nodes > 1 and not nodes.is_integer()):
        return None
    if nodes < 1:
        node = node.model_copy(update={"accelerators": Figure(ranks), "built_with": node.built})
    count = Figure(max(1.0, math.floor(nodes)), getattr(cluster.nodes, "place", None))
    if count == cluster.nodes and node is case.node:
        return ClusterPart(ranks, cluster, node)
    pod = None if cluster.pod is None or cluster.pod >= count else cluster.pod
    return ClusterPart(ranks, cluster.model_copy(update={"nodes": count, "pod": pod}), node)
