"""A case with some values overridden, without reading its file or standard input again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from costmodel.documents.reader.library import DocumentReader
from costmodel.documents.reader.resolved_scenario import LoadedScenario, ResolvedScenario, any_from, training
from costmodel.documents.text.yaml_tree import copied


def vary(case: ResolvedScenario, assignments: Iterable[str]) -> ResolvedScenario:
    """A loaded training scenario with further assignments, as if they had been given on loading."""
    return training(vary_any(case, assignments))


def vary_any(case: LoadedScenario, assignments: Iterable[str]) -> LoadedScenario:
    """The same of a scenario of any workload.

    They are put into the tree as it was read, together with the earlier ones: what was set in a document holds in
    another that takes its place.
    """
    further = tuple(assignments)
    reader = DocumentReader(
        digests=dict(case.digests), trees=dict(case.trees), own=list(case.own), read=dict(case.read)
    )
    original = case.original or case.tree
    tree = copied(original) if original else case.document.model_dump(by_alias=True, exclude_none=True)
    varied = any_from(reader, tree, case.file, (*case.changes, *further))
    return replace(varied, name=case.name, asked=case.asked, assignments=(*case.assignments, *further))
