"""The model of the library that has the same shape as another model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from costmodel.documents.reader.find_documents import find, said_first
from costmodel.documents.reader.library import names, read
from costmodel.documents.schemas.model import Model
from costmodel.documents.text.files import file_text
from costmodel.ground.errors import CostModelError

_BESIDE = {
    *("schema_", "name", "title", "source", "sources", "check", "note", "published"),
    *("stored", "stored_experts", "stored_wide", "stored_cache"),  # of a checkpoint, not the shape
}


def twin_of(model: Model) -> str:
    """The name of a library model of equal layers and tables, best of equal length too; nothing where there is none."""
    alike = {name: read("model", name).max_sequence for name in twins_of(model)}
    return next((name for name, longest in alike.items() if longest == model.max_sequence), next(iter(alike), ""))


def twins_of(model: Model) -> tuple[str, ...]:
    """The names of all library models of that shape, whatever their longest sequence."""
    return tuple(_alike(model))


def _alike(model: Model) -> Iterator[str]:
    for name in names("model"):
        try:
            text = file_text(str(find("model", name)))
            near = said_first(text, "hidden"), said_first(text, "vocab")
            if _figures(near) == (model.hidden, model.vocab) and shape(read("model", name)) == shape(model):
                yield name
        except CostModelError:  # a broken document of the working folder is no twin
            continue


def _figures(written: tuple[str, str]) -> tuple[float, ...]:
    heads = (text.split("#")[0].strip().replace("_", "") for text in written)
    return tuple(float(text) for text in heads if text.isdigit())


def shape(model: Model) -> dict[str, Any]:
    """A model without its origin, the order of its kinds of layers, and a longest sequence that costs nothing."""
    found = model.model_dump(exclude=_BESIDE if model.positions == "learned" else {*_BESIDE, "max_sequence"})
    found["layers"] = sorted(map(repr, found["layers"]))
    return found
