"""Published configurations, keys that matter alone, and reading them as the tests do."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from costmodel.documents.reader.validation_errors import validate
from costmodel.documents.schemas.model import Model
from costmodel.estimate.model.shards import model_parameters
from costmodel.exchange.huggingface import read_config
from costmodel.exchange.import_result import Imported
from costmodel.ground.errors import CostModelError, Fault

FILE = "config.json"
_NAS = (
    "8:2.625 8:5.25x5 -:2.625x2 8:5.25x3 -:3.28125 8:5.25x30 -:1.3125 -:2.625x2 -:1.3125 -:5.25 -:1.3125 -:2.625 "
    "-:1.3125x3 8:5.25 -:1.3125 -:1.0x2 -:1.3125 -:1.0x3 -:1.3125x2 -:0.5x2 -:1.0x2 -:0.5x2 -:1.0 -:0.5x2 8:5.25x9"
)

# Shipped models that are counted by a configuration of their own name alone.
_CONFIGURED = (
    "phi-3-mini phi-3-medium phi-4 phi-4-mini glm-4.5 glm-4.5-air olmo-2-7b olmo-2-13b olmo-2-32b olmo-3-7b olmo-3-32b "
    "smollm-3-3b ministral-8b mistral-nemo-12b mistral-small-24b mistral-large-2 ministral-3-3b ministral-3-8b "
    "ministral-3-14b command-r command-r-plus command-r7b command-a granite-4-h-small granite-4-h-tiny "
    "granite-4-h-micro granite-4-micro nemotron-super-49b nemotron-3-nano-30b-a3b mimo-7b "
    "deepseek-v3.2 deepseek-v4-pro deepseek-v4-flash glm-5 qwen-3-next-80b-a3b kimi-linear-48b-a3b minimax-text-01 "
    "falcon-h1-0.5b falcon-h1-7b "
    "falcon-h1-34b gemma-4-e2b gemma-4-e4b gemma-4-26b-a4b gemma-4-31b nemotron-3-ultra-550b-a55b jamba-1.5-mini "
    "jamba-1.5-large falcon-mamba-7b bert-base bert-large hymba-1.5b "
    "gemma-3n-e2b gemma-3n-e4b ernie-4.5-21b-a3b ernie-4.5-300b-a47b glm-4.7-flash"
)
CONFIGURED = _CONFIGURED.split()
# Shipped models with the configuration of the same shape.
TWINS = {
    "llama-3.1-8b": "llama-3.1-8b",
    "mistral-7b": "mistral-7b",
    "mistral-7b-v0.1": "mistral-7b-v0.1",
    "mixtral-8x7b": "mixtral-8x7b",
    "gpt-2-small": "gpt2",
    "qwen-3-0.6b": "qwen3-0.6b",
    "kimi-k2": "kimi-k2",
    "gemma-3-1b": "gemma-3-1b",
    "qwen-3-vl-30b-a3b": "qwen3-vl-30b-a3b",
    "qwen-3-vl-32b": "qwen3-vl-32b",
    "qwen-3-vl-235b-a22b": "qwen3-vl-235b-a22b",
    "bloom-560m": "bloom-560m",
    "opt-1.3b": "opt-1.3b",
    "deepseek-v3": "deepseek-v3",
    "gpt-oss-120b": "gpt-oss-120b",
    "nemotron-h-56b": "nemotron-h-56b",
    "qwen-3-coder-480b-a35b": "qwen3-coder-480b-a35b",
    "minimax-m2": "minimax-m2.5",
    "qwen-3.5-397b-a17b": "qwen3.5-397b-a17b",
    "qwen-3.5-122b-a10b": "qwen3.5-122b-a10b",
    "qwen-3.5-35b-a3b": "qwen3.5-35b-a3b",
    **{name: name for name in CONFIGURED},
}


@functools.cache
def configs() -> dict[str, dict[str, Any]]:
    """By name; Nemotron-Super's 80 blocks from a short form: heads in a group, width of the MLP, times."""
    found: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("configs.json").read_text("utf-8"))
    found["nemotron-super-49b"] = {
        "architectures": ["DeciLMForCausalLM"], "model_type": "nemotron-nas", "hidden_size": 8192,
        "num_attention_heads": 64, "num_hidden_layers": 80, "vocab_size": 128256, "max_position_embeddings": 131072,
        "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False, "block_configs": blocks(_NAS),
    }  # fmt: skip
    return found


def blocks(short: str) -> list[dict[str, Any]]:
    """block_configs of a short form."""
    found: list[dict[str, Any]] = []
    for part in short.split():
        group, rest = part.split(":")
        wide, _, times = rest.partition("x")
        attention = {"no_op": group == "-", "n_heads_in_group": None if group == "-" else int(group)}
        found += [{"attention": attention, "ffn": {"no_op": False, "ffn_mult": float(wide)}}] * int(times or 1)
    return found


def read(config: dict[str, Any] | str, **more: Any) -> Imported:
    """What the reader makes of a configuration."""
    text = config if isinstance(config, str) else json.dumps(config, indent=1)
    return read_config(text, FILE, **more)


def model(found: Imported) -> Model:
    """The document as the scenario reader would have it."""
    return validate(Model, found.document, FILE)


def parameters(found: Imported) -> float:
    """What the document counts and what it leaves out."""
    return float(model_parameters(model(found))) + sum(loss.parameters for loss in found.losses)


def faults(config: dict[str, Any] | str) -> tuple[Fault, ...]:
    """Why a configuration is refused."""
    try:
        read(config)
    except CostModelError as error:
        return error.faults
    raise AssertionError("it was read")


def shape(document: Model) -> dict[str, Any]:
    """A model without what says where it is from, its kinds of layers in no order."""
    beside = {"schema_", "name", "title", "source", "sources", "check", "note", "published"}
    found = document.model_dump(exclude=beside)
    found["layers"] = sorted(map(repr, found["layers"]))
    return found
