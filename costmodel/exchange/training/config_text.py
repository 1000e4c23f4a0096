"""The text of a configuration as a tree that knows its places: JSON, YAML, TOML."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from costmodel.documents.text.files import MAXIMUM_BYTES
from costmodel.documents.text.yaml_tree import Items, Mapping, key_at, parse
from costmodel.exchange.values.foreign_values import Lines, parse_json
from costmodel.ground.errors import Place, fail

_DEEPEST = 16  # levels of a configuration
_SECTION = re.compile(r"(?m)^[ \t]*\[([^\[\]\n]{1,200})\]")
_ENTRY = re.compile(r"(?m)^[ \t]*([A-Za-z0-9_.-]{1,80})[ \t]*=")


def tree_of(text: str, file: str) -> Mapping:
    """The mapping that a YAML, JSON or TOML text states."""
    if not is_toml(text):
        tree = parse_json(text, file) if text.lstrip().startswith("{") else parse(text, file, quoted=True)
    else:
        tree = _parse_toml(text, file)
    if not isinstance(tree, Mapping):
        raise fail("X001", "the text is no mapping of keys to values", Place(file))
    return tree


def is_toml(text: str) -> bool:
    """Whether a text is TOML: it has sections in brackets and entries with an equals sign.

    >>> is_toml("[training]\\nseq_len = 8192"), is_toml("training:\\n  seq_len: 8192")
    (True, False)
    """
    return _SECTION.search(text) is not None and _ENTRY.search(text) is not None


def _parse_toml(text: str, file: str) -> Mapping:
    """The tree of a TOML text, with the places of its keys."""
    if len(text) > MAXIMUM_BYTES // 4:
        raise fail("X010", f"{len(text):,} letters of TOML are more than are read", Place(file))
    try:
        plain = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise fail("D002", f"not TOML: {str(error)[:200]}", Place(file)) from None
    places = _places(text, file)
    return _with_places(plain, "", places, Place(file), 0)


def _places(text: str, file: str) -> dict[str, Place]:
    """The place of each key, by its dotted path."""
    lines, found, section = Lines(text, file), dict[str, Place](), ""
    marks = sorted([*_SECTION.finditer(text), *_ENTRY.finditer(text)], key=lambda match: match.start())
    for match in marks:
        if match.re is _SECTION:
            section = match.group(1).strip()
            continue
        path = f"{section}.{match.group(1)}" if section else match.group(1)
        found.setdefault(path, lines.place(match.start(1), path, len(match.group(1))))
    return found


def _with_places(plain: dict[str, Any], above: str, places: dict[str, Place], whole: Place, depth: int) -> Mapping:
    """The same tree with places; `above` is the path of the mapping."""
    if depth > _DEEPEST:
        raise fail("X010", f"nested over {_DEEPEST} levels", whole)
    built = Mapping()
    built.place = whole
    for name, value in plain.items():
        path = f"{above}.{name}" if above else name
        place = places.get(path, whole)
        if isinstance(value, dict):
            built[key_at(name, place, place)] = _with_places(value, path, places, whole, depth + 1)
        elif isinstance(value, list):
            items = Items(value)
            items.places = [place] * len(items)
            built[key_at(name, place, place)] = items
        else:
            built[key_at(name, place, place)] = value
    return built
