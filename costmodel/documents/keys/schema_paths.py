"""Looks up a path in the JSON Schema of a document: a key, its values, examples of quantities."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, TypeAdapter

Location = tuple[int | str, ...]


@functools.cache
def _json_schema(kind: type[BaseModel]) -> dict[str, Any]:
    return TypeAdapter(kind).json_schema(by_alias=True)


def schema_tree(kind: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of a kind of document, with references at the top resolved."""
    return resolved(kind, _json_schema(kind))


def resolved(kind: type[BaseModel], node: dict[str, Any]) -> dict[str, Any]:
    """A schema node with references resolved; of several alternatives the mapping or list is returned."""
    definitions = _json_schema(kind).get("$defs", {})
    while "$ref" in node:
        node = definitions[node["$ref"].rsplit("/", 1)[-1]]
    for choice in node.get("anyOf", []) + node.get("oneOf", []):
        inner = resolved(kind, choice)
        if "properties" in inner or "items" in inner or "additionalProperties" in inner:
            return inner
    return node


def schema_at(kind: type[BaseModel], location: Location) -> dict[str, Any]:
    """The JSON Schema at a location."""
    node = resolved(kind, _json_schema(kind))
    for part in location:
        inner = inner_node(node, part)
        node = node if inner is None else resolved(kind, inner)
    return node


def inner_node(node: dict[str, Any], part: int | str) -> dict[str, Any] | None:
    """The schema of a key or a list item; None if there is none."""
    if "items" in node and str(part).isdecimal():
        return dict(node["items"])
    inner = node.get("properties", {}).get(part, node.get("additionalProperties"))
    return inner if isinstance(inner, dict) else None


def key_of(kind: type[BaseModel], path: str) -> dict[str, Any] | None:
    """The JSON Schema of a key by its path, without list indices; None if there is no such key."""
    node: dict[str, Any] | None = _json_schema(kind)
    for part in path.split("."):
        if node is None:
            return None
        here = resolved(kind, node)
        if "items" in here and not part.isdecimal():
            here = resolved(kind, here["items"])
        node = inner_node(here, part)
    return node


def choices_of(kind: type[BaseModel], path: str) -> list[str]:
    """The named values that a key can take: true and false, the values of a choice, or lists of one of them."""
    kinds = _kinds(kind, path)
    if any(inner.get("type") == "boolean" for inner in kinds):
        return ["true", "false"]
    listed = [f"[{value}]" for inner in kinds for value in inner.get("items", {}).get("enum", [])]
    named = [str(value) for inner in kinds for value in inner.get("enum", [inner["const"]] if "const" in inner else [])]
    return named + listed


def examples_of(kind: type[BaseModel], path: str) -> list[str] | None:
    """Example quantities for a key; None if the key takes no number."""
    kinds = _kinds(kind, path)
    if not any("examples" in inner or inner.get("type") in ("integer", "number") for inner in kinds):
        return None
    return [str(sample) for inner in (key_of(kind, path) or {}, *kinds) for sample in inner.get("examples", [])]


def samples_of(kind: type[BaseModel], node: dict[str, Any]) -> Iterator[str]:
    """Sample values for a schema node: its examples, its choices, or a mapping of its required keys."""
    for branch in (node, *node.get("anyOf", ()), *node.get("oneOf", ())):
        inner = resolved(kind, branch)
        yield from map(str, (*inner.get("examples", ()), *inner.get("enum", ())))
        if inner.get("type") in ("integer", "number"):
            yield str(inner.get("minimum", 1))
        if inner.get("type") == "boolean":
            yield "true"
        if "properties" in inner:
            required = {key: next(samples_of(kind, inner["properties"][key]), "") for key in inner.get("required", ())}
            yield f"{{{', '.join(f'{key}: {sample}' for key, sample in required.items())}}}"


def has_default(kind: type[BaseModel], path: str) -> bool:
    """Whether a key has a default and rejects null; then null resets the key."""
    above, _, last = path.rpartition(".")
    holder = resolved(kind, (key_of(kind, above) if above else _json_schema(kind)) or {})
    node = holder.get("properties", {}).get(last, {})
    nullable = any(branch.get("type") == "null" for branch in node.get("anyOf", ()))
    return bool(node) and not nullable and last not in holder.get("required", ())


def _kinds(kind: type[BaseModel], path: str) -> list[dict[str, Any]]:
    """The JSON Schemas of all alternatives for a key."""
    node = key_of(kind, path) or {}
    return list(node.get("anyOf", [node]))


def item_at(kind: type[BaseModel], location: Location) -> dict[str, Any]:
    """The JSON Schema of an item of the list at a location."""
    return resolved(kind, inner_node(schema_at(kind, location), "0") or {})


def holders_of(kind: type[BaseModel], name: str) -> list[str]:
    """The top-level keys whose mapping contains a key of this name, except keys that name documents."""
    top = schema_at(kind, ()).get("properties", {})
    own = [key for key, node in top.items() if "oneOf" not in node]
    return [key for key in own if name in resolved(kind, top[key]).get("properties", {})]
