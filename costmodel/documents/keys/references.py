"""Where a scenario, and the documents it names, name other documents: all by their paths in the scenario."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import field

from costmodel.ground.record import record


@record
class Reference:
    """A key that names a document: the document's kind and its attribute in a loaded scenario."""

    kind: str
    held: str
    links: tuple[str, ...] = ()  # the kinds of a fabric that may stand there
    inline: bool = True  # whether it may be written out in place of its name
    usual: str = ""  # the name where none is written
    usual_of: Mapping[str, str] = field(default_factory=dict)  # the same, of workloads that have another


REFERENCES = {
    "model": Reference("model", "model"),
    "stack": Reference("stack", "stack", usual="megatron-core", usual_of={"serving": "vllm", "rl": "verl"}),
    "workload.optimizer": Reference("optimizer", "optimizer", usual="adamw"),
    "cluster.node": Reference("node", "node"),
    "run.failures": Reference("reliability", "reliability", usual="typical"),
    "run.practice": Reference("practice", "practice", usual="usual"),
    "run.power.grid": Reference("grid", "grid", usual="us-average"),
    "stack.trainer": Reference("stack", "trainer"),
    "stack.rollout": Reference("stack", "rollout"),
    "cluster.node.accelerator": Reference("accelerator", "accelerator"),
    "cluster.node.scale_up.fabric": Reference("fabric", "scale_up", links=("scale-up", "host")),
    "cluster.node.scale_out.fabric": Reference("fabric", "scale_out", links=("scale-out",)),
    "cluster.node.host": Reference("fabric", "host", links=("host",)),
    "cluster.node.accelerator.efficiency": Reference("efficiency", "efficiency", inline=False),
    "cluster.node.scale_out.fabric.efficiency": Reference("efficiency", "network", inline=False),
}


@functools.cache
def holder(path: str) -> tuple[str, str]:
    """The path of the document that contains a key (empty for the scenario), and the rest of the key's path.

    >>> holder("cluster.node.scale_up.fabric"), holder("cluster.nodes")
    (('cluster.node', 'scale_up.fabric'), ('', 'cluster.nodes'))
    """
    above = max((named for named in REFERENCES if path.startswith(f"{named}.")), key=len, default="")
    return above, path.removeprefix(f"{above}.") if above else path


def _documents_above(path: str) -> int:
    """The number of documents above a document, not counting the scenario."""
    above, _ = holder(path)
    return 1 + _documents_above(above) if above else 0


# The paths of the table in the order in which their documents can be read: those together that wait for the same.
LEVELS = [list(paths) for _, paths in itertools.groupby(sorted(REFERENCES, key=_documents_above), key=_documents_above)]
