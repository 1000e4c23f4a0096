"""Every key that --set takes: its path, the values it takes, its default and what it means, from the schemas."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel

from costmodel.documents.keys.overrides import full, short
from costmodel.documents.keys.paths import REFERENCES
from costmodel.documents.keys.schema_paths import choices_of, examples_of, key_of, resolved, schema_tree
from costmodel.documents.keys.suggestions import nearest
from costmodel.documents.keys.workload_keys import SCENARIOS
from costmodel.documents.reader.folders import names
from costmodel.ground.errors import COMMAND_LINE, Place, fail

_ABOUT = {"schema", "source", "sources", "check", "note"}  # keys that state where a document is from


class ScenarioKey(NamedTuple):
    """A key: its path, its possible values in words, its default in words, and its meaning.

    of: the workload to which the key is limited: training, serving or rl; empty if training and serving both have it
    """

    path: str
    values: str
    default: str
    meaning: str
    of: str = ""


@functools.cache
def all_keys() -> tuple[ScenarioKey, ...]:
    """All keys of scenarios and of the documents that they name, in schema order."""
    keys: dict[str, ScenarioKey] = {}
    for of, schema in SCENARIOS.items():
        for key in _keys_inside(schema, "", schema_tree(schema)):
            first = keys.setdefault(key.path, key._replace(of=of))
            if (first.of, of) == ("training", "serving"):
                keys[key.path] = first._replace(of="")
    return tuple(keys.values())


def keys_of(prefix: str) -> list[ScenarioKey]:
    """The keys whose path starts with a prefix, else those that contain it; all keys for an empty prefix.

    >>> [key.path for key in keys_of("workload.s")], [key.values for key in keys_of("plan.zero")]
    (['workload.sequence'], ['0 | 1 | 2 | 3'])
    """
    wanted = short(full(prefix)) if prefix else ""
    found = [key for key in all_keys() if key.path.startswith(wanted)]
    found = found or [key for key in all_keys() if prefix in key.path]
    if not found:
        close = nearest(prefix, [key.path for key in all_keys()])
        hint = f"did you mean {close}?" if close else "costmodel list keys shows them all"
        raise fail("C003", f"no key begins with '{prefix}'", Place(COMMAND_LINE), hint)
    return found


def values_of(path: str) -> list[str]:
    """Values to complete for a key: names of documents, named choices, or quantities as examples."""
    path = full(path)
    if path in REFERENCES:
        return names(REFERENCES[path].kind)
    choices = [choices_of(schema, path) for schema in SCENARIOS.values()]
    if path == "workload.kind":  # each schema has its own
        return [value for listed in choices for value in listed]
    examples = [examples_of(schema, path) or [] for schema in SCENARIOS.values()]
    return next(filter(None, (*choices, *examples)), [])


def _keys_inside(schema: type[BaseModel], path: str, node: dict[str, Any]) -> Iterator[ScenarioKey]:
    """The keys inside a mapping, or inside the items of a list of mappings."""
    for name, value in node.get("properties", {}).items():
        inner = f"{path}.{name}" if path else name
        if name in _ABOUT and path != "workload":
            continue
        held = resolved(schema, value)
        item = resolved(schema, held["items"]) if "items" in held else {}
        if inner in REFERENCES or not (held.get("properties") or item.get("properties")):
            yield ScenarioKey(short(inner), _words(schema, inner), _default(value), value.get("description", ""))
        if held.get("properties"):
            yield from _keys_inside(schema, inner, held)
        elif item.get("properties"):
            yield from _keys_inside(schema, f"{inner}.0", item)


def _words(schema: type[BaseModel], path: str) -> str:
    """The possible values of a key, in a few words."""
    if path in REFERENCES:
        kind = REFERENCES[path].kind
        return f"name of a{'n' if kind[0] in 'aeo' else ''} {kind}"
    choices = choices_of(schema, path)
    if choices:
        listed = all(choice.startswith("[") for choice in choices)
        return f"list of {', '.join(choice[1:-1] for choice in choices)}" if listed else " | ".join(choices)
    if "items" in resolved(schema, key_of(schema, path) or {}):
        return "list"
    examples = examples_of(schema, path)
    if examples is None:
        return "text"
    return f"e.g. {examples[0]}" if examples else "number"


def _default(node: dict[str, Any]) -> str:
    """The default of a key as text; empty if it has none or if other keys decide."""
    default = node.get("default")
    if default is None or isinstance(default, dict | list):
        return ""
    return (
        str(default).lower()
        if isinstance(default, bool)
        else f"{default:g}"
        if isinstance(default, float)
        else str(default)
    )
