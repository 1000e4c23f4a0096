"""Every value a case rests on, by the path that --set would take to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from costmodel.documents.library import Case
from costmodel.errors import Place
from costmodel.units import Figure

# Where a scenario names a document, and where the case holds it.
HELD = {
    "model": "model",
    "stack": "stack",
    "workload.optimizer": "optimizer",
    "cluster.node": "node",
    "cluster.node.accelerator": "accelerator",
    "cluster.node.scale_up.fabric": "scale_up",
    "cluster.node.scale_out.fabric": "scale_out",
    "cluster.node.host": "host",
    "cluster.node.accelerator.efficiency": "efficiency",
    "cluster.node.scale_out.fabric.efficiency": "network",
}
_TALK = frozenset({"schema_", "title", "source", "sources", "check", "note", "name", "of", "vendor", "provider"})
_ASIDE = frozenset({"search", "limits", "fitted", "year", "family"})


@dataclass(frozen=True)
class Value:
    """One value, and where it was written if it was."""

    value: Any
    place: Place | None = None

    @property
    def text(self) -> str:
        """As it was written, else as a plain number or word."""
        place = self.place
        if place is not None and place.text and isinstance(self.value, float):
            return place.text[place.column - 1 : place.column - 1 + place.width].strip("'\" ")
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return f"{self.value:.10g}" if isinstance(self.value, float) else str(self.value)


def leaves(case: Case) -> dict[str, Value]:
    """Everything predictions can depend on: the scenario, and the documents it names in the places that name them."""
    return dict(_walk(case, "", case.scenario))


def _walk(case: Case, path: str, value: Any) -> Iterator[tuple[str, Value]]:
    if path in HELD:
        document = getattr(case, HELD[path])
        if document is None:
            return
        named = getattr(document, "name", None) or getattr(document, "of", "")
        yield path, Value(str(named), getattr(value, "place", None))
        value = document
    if isinstance(value, BaseModel):
        for name, inner in value:
            if name not in _TALK and name not in _ASIDE:
                yield from _walk(case, f"{path}.{name}" if path else name, inner)
    elif isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from _walk(case, f"{path}.{key}", inner)
    elif path not in HELD and value is not None:
        yield path, Value(value, getattr(value, "place", None))


def changed(case: Case, path: str, value: float) -> Case:
    """The case with one number of one of its documents changed; its bounds are checked as on reading."""
    prefix = max((held for held in HELD if path.startswith(f"{held}.")), key=len, default="")
    attribute = HELD.get(prefix, "scenario")
    parts = path.removeprefix(prefix).strip(".").split(".")
    return replace(case, **{attribute: _put(getattr(case, attribute), parts, value)})


def _put(here: Any, parts: list[str], value: float) -> Any:
    part, *rest = parts
    if isinstance(here, dict):
        return {**here, part: _put(here[part], rest, value) if rest else Figure(value)}
    if isinstance(here, list):
        return [_put(item, rest, value) if str(index) == part else item for index, item in enumerate(here)]
    if rest:
        return here.model_copy(update={part: _put(getattr(here, part), rest, value)})
    given = {type(here).model_fields[name].alias or name: inner for name, inner in here}
    return type(here).model_validate({**given, part: Figure(value)})
