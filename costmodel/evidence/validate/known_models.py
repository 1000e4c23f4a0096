"""Finds the shipped model that the name of a row means, to fill missing columns."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.hub_names import squeezed
from costmodel.documents.schemas.model import Layers, Model
from costmodel.estimate.model.shards import layer_count
from costmodel.evidence.validate.imputation import Filling
from costmodel.exchange.tables.csv_cells import CsvRow

_WITHOUT_CELL = ("positions", "norm", "embedding_norm")  # facts of a model for which tables have no column
_FLAGS = ("glu", "tied_embeddings")


def completed(row: CsvRow, shelf: CachedReader) -> tuple[CsvRow, dict[str, str]]:
    """A row whose empty shape cells are filled from the shipped model of its name, if all other cells agree.

    And the list of filled cells.
    """
    model = _named(row, shelf)
    if model is None or (model.has_experts and row.text("arch").lower() == "dense"):
        return row, {}
    shape = _shape(model)
    alike = row.number("heads") if row.text("attention").lower() == "mha" else row.number("kv_heads")
    stated = {name: row.number(name) for name in shape} | {"kv_heads": alike}
    if any(stated[name] not in (None, value) for name, value in shape.items()):
        return row, {}
    known = {name: value for name, value in shape.items() if row.number(name) is None}
    shown = {name: str(bool(value)).lower() if name in _FLAGS else f"{value:g}" for name, value in known.items()}
    return replace(row, cells={**row.cells, **known}), shown | ({"shape": model.name} if known else {})


def _shape(model: Model) -> dict[str, float]:
    """The shape cells of a model that all its layers share."""
    shape: dict[str, set[float]] = {"hidden": {model.hidden}, "vocab": {model.vocab}, "tied_embeddings": {model.tied}}
    for kind in model.layers:
        if kind.attention is not None:
            shape.setdefault("kv_heads", set()).add(kind.attention.kv_heads)
            shape.setdefault("head_dim", set()).add(kind.attention.head_dim)
        if kind.mlp is not None:
            shape.setdefault("ffn", set()).add(kind.mlp.ffn_hidden)
        if (feed := kind.mlp or kind.experts) is not None:
            shape.setdefault("glu", set()).add(feed.gated)
        if (experts := kind.experts) is not None:
            cells = {"n_experts": experts.count, "topk": experts.top_k, "moe_ffn": experts.ffn_hidden}
            for name, value in cells.items():
                shape.setdefault(name, set()).add(value)
    return {name: values.pop() for name, values in shape.items() if len(values) == 1}


def known_model(filling: Filling, shelf: CachedReader) -> Model | None:
    """The shipped model of that name with experts, if width, experts and top-k match the row."""
    model = _named(filling.row, shelf)
    kind = with_experts(model) if model is not None else None
    if model is None or kind is None or kind.experts is None:
        return None
    experts, row = kind.experts, filling.row
    asked = [row.number(name) for name in ("hidden", "n_experts", "topk", "moe_ffn")]
    if asked != [model.hidden, experts.count, experts.top_k, experts.ffn_hidden]:
        return None
    filling.put("shape", model.name)
    return model


def known_dense(filling: Filling, shelf: CachedReader, dense: dict[str, Any]) -> dict[str, Any]:
    """Missing facts of a dense row, taken from the shipped model of its name if the layers match."""
    row = filling.row
    model, layers = _named(row, shelf), row.number("layers")
    if model is None or model.has_experts or (len(model.layers) > 1 and layers != layer_count(model)):
        return {}
    widths = {"hidden": row.number("hidden"), "ffn": dense["mlp"]["ffn_hidden"], "glu": dense["mlp"]["gated"]}
    widths |= {"kv_heads": dense["attention"]["kv_heads"], "head_dim": row.number("head_dim")}
    if any(widths.get(name) not in (None, value) for name, value in _shape(model).items()):
        return {}
    filling.put("shape", model.name)
    kinds = [kind.model_dump(exclude_none=True) for kind in model.layers]
    if len(kinds) == 1:
        kinds[0]["count"] = layers
    return {name: getattr(model, name) for name in _WITHOUT_CELL} | {"layers": kinds}


def known_whole(filling: Filling, shelf: CachedReader) -> dict[str, Any] | None:
    """The shipped model of the row's name, if layers and width match; for rows without standard attention."""
    row, model = filling.row, _named(filling.row, shelf)
    if model is None or row.number("layers") != layer_count(model) or row.number("hidden") != model.hidden:
        return None
    filling.put("shape", model.name)
    found = {name: getattr(model, name) for name in ("vocab", "tied", "positions", "norm")}
    if model.prediction is not None:
        filling.put("mtp", model.prediction.depth)
        found["prediction"] = model.prediction.model_dump(exclude_none=True)
    return found | {"layers": [kind.model_dump(exclude_none=True) for kind in model.layers]}


def with_experts(model: Model) -> Layers | None:
    """The layers of a model that have experts."""
    return next((kind for kind in model.layers if kind.experts is not None), None)


def _named(row: CsvRow, shelf: CachedReader) -> Model | None:
    """The shipped model whose name starts the row's, ignoring separators, if the attention heads match."""
    name = _name(squeezed(row.text("model_name")), shelf.names("model"))
    model: Model | None = shelf.document("model", name) if name else None
    if model is None:
        return None
    cores = (core for kind in model.layers for core in (kind.attention, kind.latent, kind.compressed))
    heads = {core.heads for core in cores if core is not None}
    return model if row.number("heads") in heads else None


@functools.lru_cache(maxsize=1024)
def _name(name: str, known: frozenset[str]) -> str:
    """The longest of these names that this one begins with, else the only one that begins with it."""
    if name in _OTHER_NAMES:
        return _OTHER_NAMES[name]
    longest = max((each for each in known if name.startswith(squeezed(each))), key=len, default="")
    longer = [each for each in known if squeezed(each).startswith(name)] if len(name) >= _SHORTEST_PREFIX else []
    return longest or (longer[0] if len(longer) == 1 else "")


_OTHER_NAMES = {"deepseekv316b": "deepseek-v2-lite"}  # a flavour of torchtitan's
_SHORTEST_PREFIX = 12  # letters of a name that is cut short
