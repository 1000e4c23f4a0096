"""What the rows of a table are of, in every row: so that tables of several answers can be stacked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from costmodel.documents.case import Case

_READ_FROM = {
    "model": ("model",),
    "cluster": ("cluster.node",),
    "nodes": ("cluster.nodes",),
    "gpus": ("cluster.nodes", "cluster.node"),
    "sequence": ("workload.sequence",),
    "global_batch": ("workload.global_batch",),
}


def row_facts(case: Case) -> dict[str, str | int | float]:
    """Model, cluster, sequence and batch of a scenario."""
    cluster, workload = case.scenario.cluster, case.scenario.workload
    return {
        "model": case.model.name,
        "cluster": case.node.name,
        "nodes": _whole(cluster.nodes),
        "gpus": _whole(cluster.nodes * case.node.accelerators),
        "sequence": _whole(workload.sequence),
        "global_batch": _whole(workload.global_batch),
    }


def facts_without(case: Case, paths: Iterable[str]) -> dict[str, str | int | float | None]:
    """The same where these leaves are not what the scenario says: null for what is read from them."""
    changed = [f"{path}." for path in paths]

    def is_open(leaf: str) -> bool:
        return any(f"{leaf}.".startswith(path) or path.startswith(f"{leaf}.") for path in changed)

    return {fact: None if any(map(is_open, _READ_FROM[fact])) else value for fact, value in row_facts(case).items()}


def with_facts(facts: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows with what they are of ahead of what they say."""
    return [{**facts, **row} for row in rows]


def _whole(value: float) -> int | float:
    return int(value) if float(value).is_integer() else float(value)
