"""The shipped model that the name of a row means, for what no column says."""

from __future__ import annotations

import functools
import re
from typing import Any

from costmodel.documents.model import Layers, Model
from costmodel.documents.shelf import Shelf
from costmodel.estimate.shapes.split import layer_count
from costmodel.explore.validate.fills import Filling

_BETWEEN = re.compile(r"[^a-z0-9]+")


def known_model(filling: Filling, shelf: Shelf) -> Model | None:
    """The shipped model with experts of that name, where width, experts and choice of them are the row's."""
    model = _named(filling, shelf)
    kind = with_experts(model) if model is not None else None
    if model is None or kind is None or kind.experts is None:
        return None
    experts, row = kind.experts, filling.row
    asked = [row.number(name) for name in ("hidden", "n_experts", "topk", "moe_ffn")]
    if asked != [model.hidden, experts.count, experts.top_k, experts.ffn_hidden]:
        return None
    filling.put("shape", model.name)
    return model


def known_layers(filling: Filling, shelf: Shelf) -> list[dict[str, Any]] | None:
    """Layers of the shipped dense model of that name that are not all alike, where width and layers are the row's."""
    model, row = _named(filling, shelf), filling.row
    if model is None or len(model.layers) == 1 or model.has_experts:
        return None
    if (row.number("hidden"), row.number("layers")) != (model.hidden, layer_count(model)):
        return None
    filling.put("shape", model.name)
    return [kind.model_dump(exclude_none=True) for kind in model.layers]


def with_experts(model: Model) -> Layers | None:
    """The layers of a model that have experts."""
    return next((kind for kind in model.layers if kind.experts is not None), None)


def _named(filling: Filling, shelf: Shelf) -> Model | None:
    """The shipped model whose name the row's begins with, whatever is between its letters and figures, and whose
    attention has as many heads.
    """
    name = _name(_squeezed(filling.row.text("model_name")), shelf.names("model"))
    model: Model | None = shelf.document("model", name) if name else None
    if model is None:
        return None
    heads = {core.heads for kind in model.layers for core in (kind.attention, kind.latent) if core is not None}
    return model if filling.row.number("heads") in heads else None


@functools.lru_cache(maxsize=1024)
def _name(said: str, known: frozenset[str]) -> str:
    """The longest of these names that this one begins with."""
    return max((name for name in known if said.startswith(_squeezed(name))), key=len, default="")


def _squeezed(name: str) -> str:
    return _BETWEEN.sub("", name.lower())
