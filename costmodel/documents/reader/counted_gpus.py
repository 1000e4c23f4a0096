"""The nodes of a cluster whose size is a number of accelerators: the flag --gpus states it, whatever the node."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.documents.keys.overrides import Assignment, path_of
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.ground.errors import Place, fail

GPUS, NODE, NODES, PART = "--gpus", "cluster.node", "cluster.nodes", "cluster.node.accelerators"


def nodes_of(case: LoadedScenario, gpus: int, place: Place, *, varies: bool = False) -> Iterator[Assignment]:
    """Assignments for a number of GPUs: full nodes or part of one node; a fault if they do not fill whole nodes.

    varies: whether the node differs between answers; then each answer reports its own fault
    """
    each = int(case.node.accelerators)
    if gpus > each and gpus % each and not varies:
        near = f"--gpus {gpus // each * each} or {(gpus // each + 1) * each}"
        idle = "; replicas may leave some of them idle" if case.kind == "serving" else ""
        sentence = f"{gpus} GPUs do not fill nodes of {each}, as {case.node.name} is"
        raise fail("C004", sentence, place, f"take {near}{idle}")
    yield Assignment(NODES, place, max(1, gpus // each), place)
    if gpus < each:
        yield Assignment(PART, place, gpus, place)


def counted_by_gpus(case: LoadedScenario) -> bool:
    """Whether --gpus states the size of the cluster."""
    return GPUS in case.asked.words and not {NODES, PART}.intersection(map(path_of, case.assignments))


def is_of_gpus(change: str | Assignment) -> bool:
    """Whether a change comes from `--gpus`."""
    return isinstance(change, Assignment) and change.place.text.startswith(f"{GPUS} ")


def gpus_of_flags(case: LoadedScenario) -> tuple[int, Place]:
    """The number that `--gpus` gives, and its place."""
    words = case.asked.words
    place = next(change.place for change in case.changes if is_of_gpus(change) and isinstance(change, Assignment))
    return int(words[words.index(GPUS) + 1]), place
