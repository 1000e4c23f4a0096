"""Parameters of published configurations, those of tests/exchange/configs.json, as transformers builds their models."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from costmodel.exchange.huggingface import read_config
from costmodel.ground.errors import CostModelError

from .config_parameters import _built, _parameters

CONFIGS = Path(__file__).resolve().parents[2] / "exchange" / "configs.json"
RENAMED = {"kimi_k2": "deepseek_v3"}  # types of classes that transformers has under another name


def counted() -> dict[str, int]:
    """By name; of models that also see, those of the text half with its head, or of all where we read the tower.

    Left out are those whose class transformers lacks, and those that our reader refuses.
    """
    configs = json.loads(CONFIGS.read_text("utf-8"))
    found = {name: _of_config(config) for name, config in configs.items() if _is_read(config)}
    return {name: count for name, count in found.items() if count is not None}


def _is_read(config: dict[str, Any]) -> bool:
    try:
        return bool(read_config(json.dumps(config), "config.json"))
    except CostModelError:
        return False


def _of_config(given: dict[str, Any]) -> int | None:
    import transformers
    from transformers import CONFIG_MAPPING, AutoModel

    with contextlib.suppress(Exception):
        text = given.get("text_config", given)
        kind = RENAMED.get(text["model_type"], text["model_type"])
        plain = {key: value for key, value in text.items() if key not in ("rope_scaling", "quantization_config")}
        config = CONFIG_MAPPING[kind].from_dict({**plain, "model_type": kind})
        if "vision" in read_config(json.dumps(given), "config.json").document:
            whole = CONFIG_MAPPING[given["model_type"]].from_dict(given)
            return _parameters(_built(getattr(transformers, given["architectures"][0])._from_config, whole))
        if text is given:
            return _parameters(_built(getattr(transformers, given["architectures"][0])._from_config, config))
        tied = given.get("tie_word_embeddings", text.get("tie_word_embeddings", False))
        return _parameters(_built(AutoModel.from_config, config)) + (
            0 if tied else config.vocab_size * config.hidden_size
        )
    return None
