"""A case with some values overridden, without reading its file or standard input again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from costmodel.documents.keys.overrides import Assignment, path_of
from costmodel.documents.reader.library import DocumentReader
from costmodel.documents.reader.load_scenario import any_from
from costmodel.documents.reader.resolved_scenario import (
    NODE,
    NODES,
    PART,
    LoadedScenario,
    ResolvedScenario,
    counted_by_gpus,
    gpus_of_flags,
    is_of_gpus,
    nodes_of,
    training,
)
from costmodel.documents.text.yaml_tree import copied


def vary(case: ResolvedScenario, assignments: Iterable[str]) -> ResolvedScenario:
    """A loaded training scenario with further assignments, as if they had been given when it was loaded."""
    return training(vary_any(case, assignments))


def vary_any(case: LoadedScenario, assignments: Iterable[str]) -> LoadedScenario:
    """A loaded scenario of any workload with further assignments.

    They are applied to the original tree together with the earlier assignments, so that earlier changes inside a
    document also apply to its replacement. If `--gpus` was given and the node changes, the number of nodes follows.
    """
    further = tuple(assignments)
    paths = {*map(path_of, further)}
    if NODE in paths and paths.isdisjoint((NODES, PART)) and counted_by_gpus(case):
        kept = tuple(change for change in case.changes if not (is_of_gpus(change) and path_of(change) == PART))
        one = _load_varied(case, (*kept, *further))
        return _load_varied(case, (*kept, *further, *nodes_of(one, *gpus_of_flags(case))), further)
    return _load_varied(case, (*case.changes, *further), further)


def _load_varied(
    case: LoadedScenario, changes: tuple[str | Assignment, ...], further: tuple[str, ...] = ()
) -> LoadedScenario:
    """The scenario loaded again with these changes; `further` are assignments that are added to its command line."""
    reader = DocumentReader(
        digests=dict(case.digests), trees=dict(case.trees), own=list(case.own), read=dict(case.read)
    )
    original = case.original or case.tree
    tree = copied(original) if original else case.document.model_dump(by_alias=True, exclude_none=True)
    varied = any_from(reader, tree, case.file, changes)
    return replace(varied, name=case.name, asked=case.asked, assignments=(*case.assignments, *further))
