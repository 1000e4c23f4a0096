"""The model document of a config: layers gathered into kinds with counts, and the places of the file on every key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from costmodel.documents.reading import Items, Mapping, Real, Text, Whole, key_at
from costmodel.errors import Place
from costmodel.exchange.imported import Loss, Origin, Value
from costmodel.exchange.importers.huggingface.config import Config
from costmodel.exchange.importers.huggingface.family import Half

_TOP = ("vocab", "hidden", "positions", "max_sequence")
_MOST_KINDS = 64  # that may be mixed evenly
_UNEVEN = 1.0  # layers by which a kind may run ahead of or behind its share and still count as evenly mixed


def model(config: Config, name: str, title: str) -> dict[str, Any]:
    """The model as nested mappings whose leaves are values with origins."""
    made = Origin("file", "the file itself", config.place)
    tree: dict[str, Any] = {
        "schema": Value("costmodel/model/v1", made),
        "name": Value(name, made),
        "title": Value(title, made),
        **{key: config[key] for key in _TOP},
    }
    if config["position_rows"].value is not None:
        tree["position_rows"] = config["position_rows"]
    if config.flag("embedding_norm"):
        tree["embedding_norm"] = config["embedding_norm"]
    tree |= {"tied": config["tied"], "norm": config["norm"]}
    marks = config.family.layers(config)
    tree["layers"] = _kinds(config, marks)
    if config["prediction_depth"].value is not None and marks:
        last = {"count": Value(1, made), **config.family.build(config, marks[-1])}
        tree["prediction"] = {"depth": config["prediction_depth"], "layer": last}
    source = {"title": Value(f"config.json of {title}", made), "where": Value(config.file, made)}
    return tree | {"source": Value("config", made), "sources": {"config": source}}


def _kinds(config: Config, marks: Sequence[Hashable]) -> list[Half]:
    """One entry for each kind of layer, in the order in which they first come."""
    count = config["layer_count"].origin
    counts = Counter(marks)
    found = []
    for mark, often in counts.items():
        entry: Half = {"count": Value(often, count)}
        if mark == marks[0] and _leading(marks):
            entry["leading"] = Value(True, Origin("derived", "the first layers are of this kind, no others"))
        found.append(entry | config.family.build(config, mark))
    if not _even(marks[_leading(marks) :]):
        sentence = f"the {len(marks)} layers are mixed evenly here; in the file their order is another"
        config.losses.append(Loss("approximated", sentence, count.place))
    return found


def _leading(marks: Sequence[Hashable]) -> int:
    """How many layers at the start are of one kind that comes nowhere else; none where that is every layer."""
    ahead = next((index for index, mark in enumerate(marks) if mark != marks[0]), len(marks))
    return ahead if ahead < len(marks) and marks[0] not in marks[ahead:] else 0


def _even(marks: Sequence[Hashable]) -> bool:
    """Whether every kind keeps its share in every run of layers from the first."""
    counts = Counter(marks)
    for kind, often in counts.items() if len(counts) <= _MOST_KINDS else ():
        share, seen = often / len(marks), 0
        for index, mark in enumerate(marks):
            seen += mark == kind
            if abs(seen - share * (index + 1)) > _UNEVEN:
                return False
    return len(counts) <= _MOST_KINDS


def least_parameters(tree: dict[str, Any]) -> float:
    """Parameters of the tables and of the feed-forward matrices alone: a bound from below for what losses weigh."""
    hidden = tree["hidden"].value
    found = tree["vocab"].value * hidden * (1 if tree["tied"].value else 2)
    for kind in tree["layers"]:
        found += kind["count"].value * _feed_matrices(hidden, kind)
    return float(found)


def _feed_matrices(hidden: int, kind: Half) -> float:
    experts = kind.get("experts", {})
    parts = [(1, kind.get("mlp")), (1, experts.get("shared")), (experts["count"].value if experts else 0, experts)]
    found = 0.0
    for times, part in parts:
        if part:
            found += times * (3 if part["gated"].value else 2) * hidden * part["ffn_hidden"].value
    return found


# --- places


def placed(tree: dict[str, Any], whole: Place) -> tuple[Mapping, dict[str, Origin]]:
    """The document as if it had been read where the foreign text says it, and the origin of every value by its path."""
    origins: dict[str, Origin] = {}
    return _mapping(tree, whole, "", origins), origins


def _mapping(tree: dict[str, Any], whole: Place, path: str, origins: dict[str, Origin]) -> Mapping:
    built = Mapping()
    built.place = whole
    for name, value in tree.items():
        inner = f"{path}.{name}" if path else name
        at = (value.place if isinstance(value, Value) else None) or whole
        built[key_at(name, at, at)] = _node(value, whole, inner, origins)
    return built


def _node(value: Any, whole: Place, path: str, origins: dict[str, Origin]) -> Any:
    if isinstance(value, dict):
        return _mapping(value, whole, path, origins)
    if isinstance(value, list):
        items = Items(_node(item, whole, f"{path}.{index}", origins) for index, item in enumerate(value))
        items.places = [whole] * len(items)
        return items
    origins[path] = value.origin
    plain = value.value
    if plain is None or isinstance(plain, bool):
        return plain
    kind = Text if isinstance(plain, str) else Whole if isinstance(plain, int) else Real
    item: Any = kind(plain)
    item.place = value.place or whole
    return item
