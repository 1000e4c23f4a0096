"""Nodes of several kinds in one job: each kind as a separate cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from costmodel.documents.keys.paths import place_at
from costmodel.ground.errors import fail

if TYPE_CHECKING:
    from costmodel.documents.schemas.scenario import Scenario

C = TypeVar("C", bound=Any)


def node_groups(
    scenario: Scenario, tree: dict[str, Any], loaded: Callable[[Scenario], C]
) -> tuple[tuple[float, C], ...]:
    """The nodes of each kind with the case in which all nodes are of it; none where all are of one kind."""
    groups = scenario.cluster.groups or []
    kinds = {str(group.node): group.node for group in groups}
    if len(kinds) < 2:
        return ()
    found = []
    for name, node in kinds.items():
        cluster = scenario.cluster.model_copy(update={"node": node, "groups": None, "between": None})
        count = sum(float(group.nodes) for group in groups if str(group.node) == name)
        found.append((count, loaded(scenario.model_copy(update={"cluster": cluster}))))
    if len({case.node.accelerators for _, case in found}) > 1:
        sentence = "nodes of all groups need the same number of accelerators"
        hint = "write a node out with fewer accelerators of those it is built with"
        raise fail("D010", sentence, place_at(tree, "cluster.groups"), hint)
    return tuple(found)
