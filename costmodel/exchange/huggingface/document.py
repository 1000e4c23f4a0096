"""The model document of a config, and a bound from below for its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from costmodel.exchange.huggingface.family import Config, Half
from costmodel.exchange.imported import Loss, Origin, OriginValue
from costmodel.exchange.values.layer_kinds import gathered

_OF_HEAD = {"head_transform": "head_transform", "head_bias": "head_has_bias"}
_TOP = ("vocab", "hidden", "positions", "max_sequence")


def model(config: Config, name: str, title: str) -> dict[str, Any]:
    """The model as nested mappings whose leaves are values with origins."""
    made = Origin("file", "the file itself", config.place)
    tree: dict[str, Any] = {
        "schema": OriginValue("costmodel/model/v1", made),
        "name": OriginValue(name, made),
        "title": OriginValue(title, made),
        **{key: config[key] for key in _TOP},
    }
    if config["position_rows"].value is not None:
        tree["position_rows"] = config["position_rows"]
    tree |= {key: config[key] for key in ("embedding_norm", "token_types", "meta_tokens") if config[key].value}
    if config["streams"].value is not None:
        tree["residual_streams"] = config["streams"]
    if config["stream_rule"].value is not None:
        tree["stream_rule"] = config["stream_rule"]
    if config["entry_width"].value is not None:
        tree["layer_embedding"] = {"rows": config["entry_rows"], "width": config["entry_width"]}
    tree |= {"tied": config["tied"], "norm": config["norm"]}
    tree |= {key: config[name] for key, name in _OF_HEAD.items() if config.flag(name)}
    marks = config.family.layers(config)
    tree["layers"], losses = gathered(
        marks, lambda mark: config.family.build(config, mark), config["layer_count"].origin
    )
    config.losses.extend(losses)
    if config["prediction_depth"].value is not None and marks:
        ahead = config.family.ahead
        layer = config.family.build(config, marks[-1]) if ahead is None else ahead(config)
        tree["prediction"] = {
            "depth": config["prediction_depth"],
            "layer": {"count": OriginValue(1, made), **layer},
        }
    source = {"title": OriginValue(f"config.json of {title}", made), "where": OriginValue(config.file, made)}
    return tree | {"source": OriginValue("config", made), "sources": {"config": source}}


def lone_routers(tree: dict[str, Any]) -> Iterator[Loss]:
    """The routers of layers with one expert: classes build them, and costmodel has none, for there is no choice."""
    alone = [kind for kind in tree["layers"] if "experts" in kind and kind["experts"]["count"].value == 1]
    if alone:
        rows = sum(kind["count"].value for kind in alone)
        yield Loss("approximated", "a router to one expert is not counted", None, float(rows * tree["hidden"].value))


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
