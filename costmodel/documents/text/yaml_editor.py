"""Edits documents in place: replaces or adds keys, and preserves everything else, including comments and order."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.representer import RoundTripRepresenter

from costmodel.documents.reader.find_documents import find
from costmodel.documents.reader.folders import FOLDER_OF, is_checkout, is_shipped, shipped_file
from costmodel.documents.schemas.base import OWN
from costmodel.documents.text.files import file_text
from costmodel.ground.errors import Place, fail

_WIDTH = 120
_INDENTED = re.compile(r"^( *)[^\s#-][^\n]*:[^\n]*\n(?: *#[^\n]*\n)*\1  - ", re.MULTILINE)  # a list right of its key
Changes = Mapping[tuple[str, ...], Mapping[str, Any]]


def _new_yaml() -> YAML:
    """A ruamel.yaml reader and writer that keeps quotes, comments and null as they are."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = _WIDTH
    yaml.representer.add_representer(type(None), _null)
    return yaml


def _null(representer: RoundTripRepresenter, _value: None) -> Any:
    """The word null, as shipped documents have it, where ruamel would leave the value out."""
    return representer.represent_scalar("tag:yaml.org,2002:null", "null")


def rewritten(text: str, changes: Changes, dropped: tuple[str, ...] = (), nowhere: str = "") -> str:
    """The text with changed entries at these paths; in each entry, keys are replaced, added, or removed if None.

    First, the `dropped` parts are removed, and the key `nowhere` from every entry. Sources that costmodel made and that
    nothing cites any more are removed, too.
    """
    yaml = _new_yaml()
    if _INDENTED.search(text):
        yaml.indent(mapping=2, sequence=4, offset=2)
    tree = yaml.load(text)
    for name in dropped:
        tree.pop(name, None)
    for entry in list(_entries(tree)):
        _remove(entry, nowhere)
    for path, values in changes.items():
        _change(_entry(tree, path), values)
    cited = {entry.get("source") for entry in _entries(tree)}
    for name in [name for name in tree.get("sources", ()) if name.startswith(OWN) and name not in cited]:
        _remove(tree["sources"], name)
    written = io.StringIO()
    yaml.dump(tree, written)
    return written.getvalue()


def _entries(tree: Any) -> Iterator[Any]:
    """Every mapping in a tree."""
    if isinstance(tree, Mapping):
        yield tree
        for part in tree.values():
            yield from _entries(part)


def _change(entry: Any, values: Mapping[str, Any]) -> None:
    """Changes an entry to these values; a mapping inside it keeps its comments and loses keys without a new value."""
    for name, value in values.items():
        if value is None:
            _remove(entry, name)
        elif isinstance(value, Mapping):
            _set(entry, name, entry.get(name) or CommentedMap(), list(values))
            gone = {known: None for known in entry[name] if known not in value}
            _change(entry[name], {**value, **gone})
        else:
            _set(entry, name, value, list(values))


def _remove(entry: Any, name: str) -> None:
    """Removes a key; a comment after it stays, because it is often the heading of the next part."""
    if name not in entry:
        return
    position = list(entry).index(name)
    holder, key = _last_line_below(entry, name)
    comment = holder.ca.items.pop(key, None)
    entry.pop(name)
    if comment and position:
        holder, key = _last_line_below(entry, list(entry)[position - 1])
        holder.ca.items.setdefault(key, comment)


def _last_line_below(entry: Any, name: str) -> tuple[Any, str]:
    """The mapping and key of the last line below a key."""
    while isinstance(entry[name], Mapping) and entry[name]:
        entry, name = entry[name], list(entry[name])[-1]
    return entry, name


def _set(entry: Any, name: str, value: Any, order: list[str]) -> None:
    """Sets an existing key, or inserts a new key in the given order."""
    if name in entry:
        entry[name] = value
        return
    before = [known for known in order[: order.index(name)] if known in entry]
    entry.insert(list(entry).index(before[-1]) + 1 if before else 0, name, value)


def _entry(tree: Any, path: tuple[str, ...]) -> Any:
    """The mapping at a path; missing mappings are inserted before `sources`, which stays last."""
    for name in path:
        if name not in tree:
            before = list(tree).index("sources") if "sources" in tree else len(tree)
            tree.insert(before, name, CommentedMap())
        tree = tree[name]
    return tree


def document_text(kind: str, name: str) -> str:
    """The text of a document that is found by its name."""
    return file_text(str(find(kind, name)))


def in_use(path: Path) -> str:
    """The text of a document in the working folder, else of the shipped document it would replace; may be empty."""
    return next((place.read_text("utf-8") for place in (path, shipped_file(str(path))) if place.is_file()), "")


def refuse_shipped(paths: Iterable[Path]) -> None:
    """Raises a fault for a shipped document, which is the prior for your runs and must not change."""
    for path in paths:
        if is_shipped(path) or is_checkout(Path()):
            raise fail("C002", f"{path} is a shipped file", Place(str(path)), "run calibrate in your own folder")


def place_of(kind: str, name: str) -> Path:
    """The file in the working folder that takes precedence over other documents of this name."""
    return Path(FOLDER_OF[kind]) / f"{name}.yaml"
