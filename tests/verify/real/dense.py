"""Configurations of the dense families, from the shapes that are shipped."""

from __future__ import annotations

from typing import Any

from costmodel.documents.schemas.model import Layers, Model

from .sizes import common, grouped, whole


def llama(model: Model, kind: Layers) -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(**_gated(model, kind))


def mistral(model: Model, kind: Layers) -> Any:
    from transformers import MistralConfig

    return MistralConfig(**_gated(model, kind))


def qwen2(model: Model, kind: Layers) -> Any:
    from transformers import Qwen2Config

    return Qwen2Config(**{key: value for key, value in _gated(model, kind).items() if key != "head_dim"})


def qwen3(model: Model, kind: Layers) -> Any:
    from transformers import Qwen3Config

    return Qwen3Config(**_gated(model, kind))


def gemma2(model: Model, kind: Layers) -> Any:
    from transformers import Gemma2Config

    return Gemma2Config(**_gated(model, kind))


def gemma3(model: Model, kind: Layers) -> Any:
    from transformers import Gemma3TextConfig

    return Gemma3TextConfig(**_gated(model, kind))


def nemotron(model: Model, kind: Layers) -> Any:
    from transformers import NemotronConfig

    return NemotronConfig(**_gated(model, kind))


def gpt2(model: Model, kind: Layers) -> Any:
    from transformers import GPT2Config

    return GPT2Config(
        vocab_size=whole(model.vocab),
        n_embd=whole(model.hidden),
        n_layer=whole(kind.count),
        n_head=whole(kind.attention.heads),
        n_inner=whole(kind.mlp.ffn_hidden),
        n_positions=whole(model.max_sequence),
        tie_word_embeddings=model.tied,
    )


def opt(model: Model, kind: Layers) -> Any:
    from transformers import OPTConfig

    return OPTConfig(
        **common(model, kind),
        ffn_dim=whole(kind.mlp.ffn_hidden),
        word_embed_proj_dim=whole(model.hidden),
    )


def bloom(model: Model, kind: Layers) -> Any:
    from transformers import BloomConfig

    return BloomConfig(
        vocab_size=whole(model.vocab),
        hidden_size=whole(model.hidden),
        n_layer=whole(kind.count),
        n_head=whole(kind.attention.heads),
        tie_word_embeddings=model.tied,
    )


def neox(model: Model, kind: Layers) -> Any:
    from transformers import GPTNeoXConfig

    return GPTNeoXConfig(**common(model, kind), intermediate_size=whole(kind.mlp.ffn_hidden))


def mpt(model: Model, kind: Layers) -> Any:
    from transformers import MptConfig

    return MptConfig(
        vocab_size=whole(model.vocab),
        d_model=whole(model.hidden),
        n_layers=whole(kind.count),
        n_heads=whole(kind.attention.heads),
        max_seq_len=whole(model.max_sequence),
        tie_word_embeddings=model.tied,
    )


def falcon(model: Model, kind: Layers) -> Any:
    from transformers import FalconConfig

    return FalconConfig(
        **common(model, kind),
        ffn_hidden_size=whole(kind.mlp.ffn_hidden),
        num_kv_heads=whole(kind.attention.kv_heads),
        new_decoder_architecture=kind.norms == 2,
        multi_query=kind.attention.kv_heads == 1,
        parallel_attn=kind.parallel,
        bias=kind.mlp.biases,
        alibi=False,
    )


def _gated(model: Model, kind: Layers) -> dict[str, Any]:
    assert kind.mlp is not None
    return grouped(model, kind, kind.mlp.ffn_hidden)
