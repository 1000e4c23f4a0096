"""What the configurations of most families call the same sizes."""

from __future__ import annotations

from typing import Any

from costmodel.documents.schemas.model import Layers, Model


def whole(value: float) -> int:
    """A count as the whole number a configuration asks for; anything else is an error."""
    assert value == int(value)
    return int(value)


def sizes(model: Model) -> dict[str, Any]:
    return {
        "vocab_size": whole(model.vocab),
        "hidden_size": whole(model.hidden),
        "tie_word_embeddings": model.tied,
    }


def common(model: Model, kind: Layers) -> dict[str, Any]:
    assert kind.heads is not None
    return sizes(model) | {
        "num_hidden_layers": sum(whole(each.count) for each in model.layers),
        "num_attention_heads": whole(kind.heads),
        "max_position_embeddings": whole(model.max_sequence),
    }


def grouped(model: Model, kind: Layers, ffn_hidden: float) -> dict[str, Any]:
    assert kind.attention is not None
    return common(model, kind) | {
        "num_key_value_heads": whole(kind.attention.kv_heads),
        "head_dim": whole(kind.attention.head_dim),
        "intermediate_size": whole(ffn_hidden),
    }
