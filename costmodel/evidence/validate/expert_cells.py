"""Reads the expert cells of a row: layers, how experts are cut, how tokens are dispatched."""

from __future__ import annotations

import re
from typing import Any

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.schemas.model import Layers
from costmodel.documents.schemas.stack import ExpertKernels, Stack
from costmodel.estimate.model.shards import layer_count
from costmodel.evidence.validate.imputation import Filling
from costmodel.evidence.validate.known_models import known_model, with_experts
from costmodel.evidence.validate.layouts import RowLayout
from costmodel.exchange.tables.csv_cells import CsvRow

_CAPACITY = re.compile(r"capacity factor (\d+(\.\d+)?)")
_NO_PREDICTION = re.compile(r"\b(?:w/o|without|no) MTP\b", re.IGNORECASE)
_DROPPED = re.compile(r"(?<!\bno )token[-_ ]?drop(?!\w*=(?:false|off|no|0))")
_CUTS_APART = "Megatron-Bridge"
MOST_APART = 64  # ranks that share the experts, the most in published runs


def has_experts(row: CsvRow) -> bool:
    """Whether the model of a row has any."""
    return row.text("arch").lower() == "moe" or (row.number("n_experts") or 0) > 0


def expert_layers(filling: Filling, shelf: CachedReader, dense: dict[str, Any]) -> dict[str, Any]:
    """The layers of a row with experts, dense layers first; the shipped model fills missing columns."""
    row, known = filling.row, known_model(filling, shelf)
    layers, plain = row.number("layers") or 0.0, row.number("n_dense_layers") or 0.0
    found: dict[str, Any] = {}
    if known is not None and layers == layer_count(known):
        if known.prediction is not None and not _NO_PREDICTION.search(row.text("notes")):
            filling.put("mtp", known.prediction.depth)
            found["prediction"] = known.prediction.model_dump(exclude_none=True)
        return found | {"layers": [kind.model_dump(exclude_none=True) for kind in known.layers]}
    kind, shape = with_experts(known) if known else None, dict(dense)
    mixer = {"attention": shape.pop("attention")}
    if kind is not None and kind.latent is not None:
        mixer = {"latent": kind.latent.model_dump(exclude_none=True)}
    if kind is not None and kind.compressed is not None:
        mixer = {"compressed": kind.compressed.model_dump(exclude_none=True)}
    feeding = shape.pop("mlp")
    experts: dict[str, Any] = {
        "count": row.number("n_experts"),
        "top_k": row.number("topk"),
        "ffn_hidden": filling.number("moe_ffn", feeding["ffn_hidden"]),
        "gated": feeding["gated"],
    }
    experts |= _shared(filling, kind, experts)
    found["layers"] = [{**shape, **mixer, "count": layers - plain, "experts": experts}]
    if plain:
        found["layers"].insert(0, {**shape, **mixer, "count": plain, "leading": True, "mlp": feeding})
    return found


def _shared(filling: Filling, kind: Layers | None, experts: dict[str, Any]) -> dict[str, Any]:
    """The shared experts and the routing limits: from the shipped model, else as many experts of the routed width."""
    shared = filling.row.number("n_shared_experts") or 0.0
    if kind is not None and kind.experts is not None:
        stated = kind.experts.model_dump(exclude_none=True)
        names = ("shared", "shared_gate", "router_bias", "groups", "group_limit")
        return {name: stated[name] for name in names if name in stated}
    if not shared:
        return {}
    width = float(shared * experts["ffn_hidden"])
    return {"shared": {"ffn_hidden": width, "gated": experts["gated"]}}


def expert_degrees(filling: Filling, layout: RowLayout) -> dict[str, float]:
    """The sharding of experts: as stated, else Megatron's default, spread over as many ranks as possible."""
    row = filling.row
    if not has_experts(row):
        return {}
    ep, etp = row.number("ep"), row.number("etp")
    if etp is None:
        divides = layout.in_stage % (layout.tp * (ep or 1.0)) == 0
        etp = filling.put("etp", layout.tp if divides and _CUTS_APART not in row.text("framework") else 1.0)
    if ep is None:
        count, ranks = row.number("n_experts") or 1.0, layout.in_stage / etp
        fitting = [many for many in range(1, MOST_APART + 1) if count % many == 0 and ranks % many == 0]
        ep = filling.put("ep", 1.0 if filling.sharded() else float(max(fitting, default=1)))
    return {"ep": ep, "etp": etp}


def expert_assumptions(filling: Filling, stack: Stack) -> dict[str, Any]:
    """Assumptions about dropped tokens and dispatch."""
    row, notes = filling.row, filling.row.text("notes")
    if not has_experts(row) or stack.experts is None:
        return {}
    capacity = _CAPACITY.search(notes)
    dropped = capacity is not None or _DROPPED.search(filling.said) is not None
    stated: dict[str, Any] = {}
    if dropped:
        stated["capacity"] = float(capacity[1]) if capacity else 1.0
    else:
        stated["imbalance"] = filling.put("imbalance", 1.0)
    stated["deduplicated"] = _deduplicated(filling, stack.experts, dropped=dropped)
    if "moe_a2a_overlap" not in filling.features():
        return {"experts": stated}
    return {"experts": stated, "overlap": {"ep": filling.put("overlap.ep", stack.overlap.dp)}}


def _deduplicated(filling: Filling, kernels: ExpertKernels, *, dropped: bool) -> bool:
    """Whether a token is sent once to a rank with several of its experts; only the plain all-to-all can drop tokens."""
    features = filling.features().lower()
    if any(name in features for name in ("deepep", "hybridep")):
        return True
    plain = dropped or "alltoall" in features or filling.by_recipe
    return filling.put("deduplicated", kernels.deduplicated and not plain)
