"""Drafts of engines: how many tokens they propose, and what proposes them; no command states how many are accepted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from costmodel.exchange.importers.launch.layer import Layer
from costmodel.exchange.values.foreign_keys import ForeignKeys

_MTP = ("mtp", "nextn", "deepseek_mtp", "glm4_moe_mtp", "qwen3_next_mtp", "ernie_mtp", "mimo_mtp", "mtpeagle")
_NGRAM = ("ngram", "lookahead")


def draft_of(method: str) -> str:
    """The draft that a method's name stands for; empty where none does.

    >>> draft_of("EAGLE3"), draft_of("NEXTN"), draft_of("ngram_gpu"), draft_of("medusa")
    ('eagle', 'mtp', 'ngram', '')
    """
    name = method.lower().replace("-", "_")
    if name.startswith(_NGRAM):
        return "ngram"
    if name in _MTP:
        return "mtp"
    return "eagle" if name.startswith("eagle") else ""


def fill_draft(keys: ForeignKeys, layer: Layer, name: str, method: str, tokens: Any, kind: str = "") -> None:
    """Tokens and draft that an option of this name states, where its method does not; another draft is a loss."""
    kind, count = kind or draft_of(method), _count(tokens)
    if not kind or count is None:
        stated = f"{method[:40]} with {str(tokens)[:20]} tokens" if method else "a draft without a method"
        keys.lose("not expressible", f"{name}: {stated}", name)
        return
    layer.facts["plan.speculation.tokens"] = keys.derived(count, name, name)
    layer.facts["plan.speculation.draft"] = keys.derived(kind, f"{name}: {method[:40]}", name)


def _count(value: Any, least: int = 1) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 6 and int(text) >= least else None


def json_option(keys: ForeignKeys, name: str) -> dict[str, Any] | None:
    """The keys of an option that is written as JSON; nothing where it is not stated or not that."""
    stated = keys[name].value
    if stated is None:
        return None
    try:
        found = dict(stated) if isinstance(stated, Mapping) else json.loads(str(stated)[:100_000])
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    keys.refuse("X005", f"{name} is no JSON of keys to values", name)
    return None


def fill_copies(keys: ForeignKeys, layer: Layer, name: str, copies: Any) -> None:
    """Copies of experts that an option states; engines hold them where they balance the load of experts."""
    count = 0 if copies is None else _count(copies, least=0)
    if count is None:
        keys.refuse("X005", f"{name}: {str(copies)[:20]} is no number of experts", name)
    elif count and not keys["enable-eplb"].value:
        keys.lose("approximated", f"{count} copies of experts, placed without regard to their load", name)
    if count:
        layer.facts["plan.redundant_experts"] = keys.derived(count, name, name)


def fill_vllm_draft(keys: ForeignKeys, layer: Layer) -> None:
    """The JSON behind --speculative-config."""
    name = "speculative-config"
    found = json_option(keys, name)
    if found is None:
        return
    method = found.get("method") or ("eagle" if "eagle" in str(found.get("model", "")).lower() else "")
    fill_draft(keys, layer, name, str(method), found.get("num_speculative_tokens"))


def fill_sglang_draft(keys: ForeignKeys, layer: Layer) -> None:
    """A chain of drafted tokens; several chains at once are a loss.

    EAGLE without a draft of its own, or with the model itself, is the layer of the model that predicts further tokens:
    NEXTN is another name of it.
    """
    name = "speculative-algorithm"
    method, steps = keys[name].value, keys["speculative-num-steps"].value
    if method is None:
        return
    drafted = keys["speculative-num-draft-tokens"].value
    if steps is None and drafted is not None:
        steps = drafted - 1 if draft_of(str(method)) != "ngram" else drafted
    if (keys["speculative-eagle-topk"].value or 1) > 1:
        keys.lose("approximated", "several chains of drafts at once: here one", "speculative-eagle-topk")
    own = keys["speculative-draft-model-path"].value in (None, keys["model-path"].value)
    fill_draft(keys, layer, name, str(method), steps, "mtp" if str(method).upper() == "EAGLE" and own else "")


def fill_trtllm_draft(keys: ForeignKeys, layer: Layer) -> None:
    """The mapping under speculative_config."""
    name = "speculative_config"
    stated = keys[name].value
    if isinstance(stated, Mapping):
        tokens = next(
            (stated[key] for key in ("max_draft_len", "num_nextn_predict_layers") if stated.get(key) is not None), None
        )
        fill_draft(keys, layer, name, str(stated.get("decoding_type", "")), tokens)
