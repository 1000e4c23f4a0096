"""Leaves by their paths, in documents and in the trees they were read from."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from costmodel.ground.errors import Place


def at(here: Any, path: str) -> Any:
    """The value of a document or tree at a dotted path; None if the path leads nowhere."""
    for part in path.split("."):
        if isinstance(here, BaseModel):
            here = vars(here)
        elif isinstance(here, list):
            here = {str(index): item for index, item in enumerate(here)}
        here = here.get(part) if isinstance(here, dict) else None
    return here


def has_key(here: BaseModel, path: str) -> bool:
    """Whether a document's schema has a key at a path, even if its value is None."""
    above, _, last = path.rpartition(".")
    inside = at(here, above) if above else here
    return isinstance(inside, BaseModel) and last in type(inside).model_fields


def changed(here: Any, path: str, value: Any, *, checked: bool = True) -> Any:
    """A copy of a document with another value at an existing path; the changed part is validated if `checked`."""
    part, _, rest = path.partition(".")
    inner = changed(at(here, part), rest, value, checked=checked) if rest else value
    if isinstance(here, dict):
        return {**here, part: inner}
    if isinstance(here, list):
        return [inner if str(index) == part else item for index, item in enumerate(here)]
    if rest or not checked:
        return here.model_copy(update={part: inner})
    given = {type(here).model_fields[name].alias or name: held for name, held in here}
    return type(here).model_validate({**given, part: inner})


def place_at(tree: Any, *paths: str) -> Place | None:
    """The place in the file of the first of these paths that exists in the tree."""
    places = (getattr(at(tree, path), "place", None) for path in paths)
    return next((place for place in places if place is not None), None)
