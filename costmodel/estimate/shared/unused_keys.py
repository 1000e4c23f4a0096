"""Keys of a cluster that no figure of a workload depends on, each with the reason, where a scenario states them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.documents.schemas.default_values import Assumption
from costmodel.ground.errors import COMMAND_LINE

WITHOUT_EFFECT = "without effect"
_PART, _IN, _OUT, _HOST = (
    f"cluster.node.{key}" for key in ("accelerator", "scale_up.fabric", "scale_out.fabric", "host")
)
_EVERY = {  # of every workload
    **dict.fromkeys((f"{links}.latency" for links in (_IN, _OUT, _HOST)), "fits of collectives have the measured one"),
    **dict.fromkeys((f"{links}.copies" for links in (_IN, _OUT)), "copies go over the links to the host"),
    f"{_HOST}.reduces": "no collective adds up in the links to the host",
    f"{_PART}.chip": "fits of kernels have the measured rates",
    f"{_PART}.held_against": "it describes the document",
    f"{_PART}.found_in": "cluster.node names the node",
}
_SERVING = {
    "cluster.node.drives": "an engine keeps nothing on drives",
    "cluster.node.memory.bandwidth": "no optimizer step runs on the host",
    "cluster.node.memory.cores": "no optimizer step runs on the host",
    f"{_PART}.operands": "an engine reads its weights one way",
}
_MULTIPLIED = {f"{_PART}.peak.int8": "training has no products in int8"}
UNUSED: dict[str, dict[str, str]] = {
    "training": {**_EVERY, **_MULTIPLIED},
    "serving": {**_EVERY, **_SERVING},
    "rl": {**_EVERY, **_MULTIPLIED},
}


def unused_keys(case: LoadedScenario) -> tuple[Assumption, ...]:
    """The stated keys of the cluster that no figure of a workload depends on, each with the reason."""
    stated, reasons = [*stated_leaves(case, ("cluster",))], UNUSED[case.kind]
    return tuple(
        Assumption(leaf, WITHOUT_EFFECT, reason)
        for leaf in stated
        for path, reason in reasons.items()
        if f"{leaf}.".startswith(f"{path}.")
    )


def stated_leaves(case: LoadedScenario, sections: Iterable[str]) -> Iterator[str]:
    """Paths of the leaves that the scenario states itself, not a document that it names."""
    files = (COMMAND_LINE, case.file)

    def leaves(here: Any, path: str) -> Iterator[str]:
        for key, value in enumerate(here) if isinstance(here, list) else here.items():
            inner, place = f"{path}.{key}", getattr(key, "place", None)
            if isinstance(value, dict) or (isinstance(value, list) and value and isinstance(value[0], dict)):
                yield from leaves(value, inner)
            elif place is not None and place.file in files:
                yield inner

    for section in sections:
        if isinstance(case.tree.get(section), dict):
            yield from leaves(case.tree[section], section)
