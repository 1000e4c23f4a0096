"""Documents changed in place: keys replaced or added, everything else, comments and order too, as it was written."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from costmodel.documents.folders import FOLDER_OF
from costmodel.documents.library import _text, find

_WIDTH = 120
Changes = Mapping[tuple[str, ...], Mapping[str, Any]]


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = _WIDTH
    return yaml


def rewritten(text: str, changes: Changes, dropped: tuple[str, ...] = ()) -> str:
    """The text with the entries at these paths changed: a key of an entry is replaced, added, or with None removed."""
    yaml = _yaml()
    tree = yaml.load(text)
    for name in dropped:
        tree.pop(name, None)
    for path, values in changes.items():
        entry = _entry(tree, path)
        for name, value in values.items():
            if value is None:
                entry.pop(name, None)
            else:
                _set(entry, name, CommentedMap(value) if isinstance(value, Mapping) else value, list(values))
    written = io.StringIO()
    yaml.dump(tree, written)
    return written.getvalue()


def _set(entry: Any, name: str, value: Any, order: list[str]) -> None:
    """A key where it stands, or a new one behind those it follows."""
    if name in entry:
        entry[name] = value
        return
    before = [known for known in order[: order.index(name)] if known in entry]
    entry.insert(list(entry).index(before[-1]) + 1 if before else len(entry), name, value)


def _entry(tree: Any, path: tuple[str, ...]) -> Any:
    """The mapping at a path; made where there is none, before the sources so that they stay last."""
    for name in path:
        if name not in tree:
            before = list(tree).index("sources") if "sources" in tree else len(tree)
            tree.insert(before, name, CommentedMap())
        tree = tree[name]
    return tree


def document_text(kind: str, name: str) -> str:
    """The text of a document as it is found by its name."""
    return _text(str(find(kind, name)))


def place_of(kind: str, name: str) -> Path:
    """The file in the working folder that goes before every other document of that name."""
    return Path(FOLDER_OF[kind]) / f"{name}.yaml"
