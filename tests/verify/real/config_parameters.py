"""Parameters of models that transformers builds on the meta device from configurations of every family we read."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from costmodel.exchange.huggingface.family import Family

from .config_cases import Changes, changed, changes, families, named, small

BALANCE = "e_score_correction_bias"  # a buffer here, a tensor of the checkpoint
WINDOWS = ("sliding_attention", "chunked_attention", "local")


def counted() -> dict[str, Any]:
    """By family: the count of its default model, and the small configuration with changes, each with its count.

    What the class refuses to build is left out: null where it wants a number, options that contradict each other.
    """
    return {family.name: _of_family(family) for family in families()}


def _of_family(family: Family) -> dict[str, Any]:
    base, found = small(family), []
    for given in changes(family):
        figures = _figures(family, changed(base, given))
        if figures is not None:
            found.append([given, *figures])
    default = _figures(family, {})
    return {"default": default and default[0], "small": {**named(family), **base}, "cases": found}


def _figures(family: Family, given: Changes) -> tuple[int, int] | None:
    """Parameters of the model, and of its layers those with a window; nothing if the class does not build it."""
    import transformers
    from transformers import AutoModel

    whole = given if "attn_config" not in given or family.name != "dbrx" else _rotary(given)
    with contextlib.suppress(Exception):
        config = getattr(transformers, family.configuration).from_dict(json.loads(json.dumps(whole)))
        text_alone = family.classes[0].endswith("ForConditionalGeneration")
        model = _built(
            AutoModel.from_config if text_alone else getattr(transformers, family.classes[0])._from_config, config
        )
        head = 0 if not text_alone or given.get("tie_word_embeddings") else config.vocab_size * config.hidden_size
        return _parameters(model) + head, _windows(config)
    return None


def _rotary(given: Changes) -> Changes:
    """DBRX's attention reads a rotary base that its configuration does not declare."""
    return {**given, "attn_config": {**given["attn_config"], "rope_theta": 5e5}}


def _built(build: Any, config: Any) -> Any:
    import torch

    with torch.device("meta"):
        model = build(config)
    model.tie_weights()
    return model


def _parameters(model: Any) -> int:
    held = {id(weight): weight.numel() for weight in model.parameters()}
    balance = sum(buffer.numel() for name, buffer in model.named_buffers() if name.endswith(BALANCE))
    return sum(held.values()) + balance


def _windows(config: Any) -> int:
    """Layers whose attention has a window that is shorter than the longest sequence."""
    sizes = (getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size", "window_size"))
    window = next((size for size in sizes if size), None)
    if window is None or window >= config.max_position_embeddings:
        return 0
    types = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None)
    return config.num_hidden_layers if types is None else sum(kind in WINDOWS for kind in types)
