"""Paths of keys: leaves of documents and trees by their paths, and the paths where documents name other documents."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from pydantic import BaseModel

from costmodel.ground.errors import Place
from costmodel.ground.record import record
from costmodel.ground.units import Figure

# --- leaves by their paths, in documents and in the trees they were read from


def at(here: Any, path: str) -> Any:
    """The value of a document or tree at a dotted path; None if the path leads nowhere."""
    for part in path.split("."):
        if isinstance(here, BaseModel):
            here = vars(here)
        elif isinstance(here, list):
            here = {str(index): item for index, item in enumerate(here)}
        here = here.get(part) if isinstance(here, dict) else None
    return here


def has_key(here: BaseModel, path: str) -> bool:
    """Whether a document's schema has a key at a path, even if its value is None."""
    above, _, last = path.rpartition(".")
    inside = at(here, above) if above else here
    return isinstance(inside, BaseModel) and last in type(inside).model_fields


def changed(here: Any, path: str, value: Any, *, checked: bool = True) -> Any:
    """A copy of a document with another value at an existing path; the changed part is validated if `checked`."""
    part, _, rest = path.partition(".")
    inner = changed(at(here, part), rest, value, checked=checked) if rest else value
    if isinstance(here, dict):
        return {**here, part: inner}
    if isinstance(here, list):
        return [inner if str(index) == part else item for index, item in enumerate(here)]
    if rest or not checked:
        return here.model_copy(update={part: inner})
    known = type(here).model_fields
    given = {known[name].alias or name: Figure(held) if type(held) is float else held for name, held in here}  # in SI
    return type(here).model_validate({**given, part: inner})


def place_at(tree: Any, *paths: str) -> Place | None:
    """The place in the file of the first of these paths that exists in the tree."""
    places = (getattr(at(tree, path), "place", None) for path in paths)
    return next((place for place in places if place is not None), None)


# --- where a scenario, and the documents it names, name other documents


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
