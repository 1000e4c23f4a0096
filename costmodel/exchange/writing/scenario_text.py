"""The scenario of a case as YAML, with the flag or default behind every value that is from one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from costmodel.documents.keys.overrides import Assignment, path_of
from costmodel.documents.keys.paths import place_at
from costmodel.documents.keys.references import REFERENCES
from costmodel.documents.reader.find_documents import is_path
from costmodel.documents.reader.resolved_scenario import LoadedScenario
from costmodel.exchange.writing.document_text import document_text
from costmodel.ground.errors import COMMAND_LINE

_FIRST = ("schema", "title", "model", "cluster", "workload", "stack", "plan")


def scenario_text(case: LoadedScenario, path: Path, title: str) -> str:
    """The scenario as YAML for a file at `path`; paths of documents are made relative to its folder."""
    tree = {key: case.tree[key] for key in dict.fromkeys((*_FIRST, *case.tree)) if key in case.tree}
    tree["title"] = title
    for name, reference in REFERENCES.items():
        _beside(tree, name.split("."), case, path, reference.kind)
    return document_text(tree, dict(_comments(case)), ["Written by costmodel: --write"])


def _beside(tree: dict[str, Any], parts: list[str], case: LoadedScenario, path: Path, kind: str) -> None:
    """Rewrites a document path so that it is relative to the folder of the new file."""
    here, above = tree, list[str]()
    for part in parts[:-1]:
        inner = here.get(part)
        if not isinstance(inner, dict):
            return
        here[part] = dict(inner)  # the case keeps its own
        here, above = here[part], [*above, part]
    named = here.get(parts[-1])
    if isinstance(named, str) and is_path(named) and kind:
        place = place_at(case.tree, ".".join((*above, parts[-1])))
        begins = Path(place.file).parent if place is not None and place.line else Path()
        moved = os.path.relpath(begins / named, path.parent)
        here[parts[-1]] = moved if os.sep in moved else f".{os.sep}{moved}"


def _comments(case: LoadedScenario) -> Iterator[tuple[str, str]]:
    """The comment for each path: the option that set it, or the reason for its default."""
    for change in case.changes:
        if isinstance(change, Assignment):
            yield change.path, change.place.text
        else:
            yield path_of(change), f"--set {change}"
    for item in case.asked.assumed:
        yield item.path, item.origin
    plan = next((item.origin for item in case.asked.assumed if item.path == "plan"), "")
    for key in case.tree.get("plan") or () if plan else ():
        place = place_at(case.tree, f"plan.{key}")
        if place is not None and place.file == COMMAND_LINE:
            yield f"plan.{key}", plan
