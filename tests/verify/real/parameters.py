"""Parameters of Hugging Face models built on the meta device from the shapes that are shipped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from costmodel.documents.library import names, read
from costmodel.documents.model import Layers, Model


def counted() -> dict[str, int]:
    """Parameters of every shipped model that transformers can build, by name."""
    found = {}
    for name in names("model"):
        model = read("model", name)
        build = builder(name)
        if build is not None:
            found[name] = parameters(build(model, model.layers[0]))
    return found


def builder(name: str) -> Callable[[Model, Layers], Any] | None:
    """What turns a shape into the configuration of its family."""
    return next((build for family, build in FAMILIES.items() if name.startswith(family)), None)


def parameters(config: Any) -> int:
    """Trainable numbers of a model that holds no memory; a shared table counts once."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    model.tie_weights()
    return sum(weight.numel() for weight in {id(weight): weight for weight in model.parameters()}.values())


def _whole(value: float) -> int:
    return int(value)


def _common(model: Model, kind: Layers) -> dict[str, Any]:
    return {
        "vocab_size": _whole(model.vocab),
        "hidden_size": _whole(model.hidden),
        "num_hidden_layers": sum(_whole(each.count) for each in model.layers),
        "num_attention_heads": _whole(kind.attention.heads),
        "tie_word_embeddings": model.tied,
    }


def _grouped(model: Model, kind: Layers) -> dict[str, Any]:
    return _common(model, kind) | {
        "num_key_value_heads": _whole(kind.attention.kv_heads),
        "head_dim": _whole(kind.attention.head_dim),
        "intermediate_size": _whole(kind.mlp.ffn_hidden),
        "max_position_embeddings": _whole(model.max_sequence),
    }


def _llama(model: Model, kind: Layers) -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(**_grouped(model, kind))


def _mistral(model: Model, kind: Layers) -> Any:
    from transformers import MistralConfig

    return MistralConfig(**_grouped(model, kind))


def _qwen2(model: Model, kind: Layers) -> Any:
    from transformers import Qwen2Config

    return Qwen2Config(**{key: value for key, value in _grouped(model, kind).items() if key != "head_dim"})


def _qwen3(model: Model, kind: Layers) -> Any:
    from transformers import Qwen3Config

    return Qwen3Config(**_grouped(model, kind))


def _gemma2(model: Model, kind: Layers) -> Any:
    from transformers import Gemma2Config

    return Gemma2Config(**_grouped(model, kind))


def _gemma3(model: Model, kind: Layers) -> Any:
    from transformers import Gemma3TextConfig

    return Gemma3TextConfig(**_grouped(model, kind))


def _nemotron(model: Model, kind: Layers) -> Any:
    from transformers import NemotronConfig

    return NemotronConfig(**_grouped(model, kind))


def _gpt2(model: Model, kind: Layers) -> Any:
    from transformers import GPT2Config

    return GPT2Config(
        vocab_size=_whole(model.vocab),
        n_embd=_whole(model.hidden),
        n_layer=_whole(kind.count),
        n_head=_whole(kind.attention.heads),
        n_inner=_whole(kind.mlp.ffn_hidden),
        n_positions=_whole(model.max_sequence),
        tie_word_embeddings=model.tied,
    )


def _opt(model: Model, kind: Layers) -> Any:
    from transformers import OPTConfig

    return OPTConfig(
        **_common(model, kind),
        ffn_dim=_whole(kind.mlp.ffn_hidden),
        max_position_embeddings=_whole(model.max_sequence),
        word_embed_proj_dim=_whole(model.hidden),
    )


def _bloom(model: Model, kind: Layers) -> Any:
    from transformers import BloomConfig

    return BloomConfig(
        vocab_size=_whole(model.vocab),
        hidden_size=_whole(model.hidden),
        n_layer=_whole(kind.count),
        n_head=_whole(kind.attention.heads),
        tie_word_embeddings=model.tied,
    )


def _neox(model: Model, kind: Layers) -> Any:
    from transformers import GPTNeoXConfig

    return GPTNeoXConfig(**_common(model, kind), intermediate_size=_whole(kind.mlp.ffn_hidden))


def _mpt(model: Model, kind: Layers) -> Any:
    from transformers import MptConfig

    return MptConfig(
        vocab_size=_whole(model.vocab),
        d_model=_whole(model.hidden),
        n_layers=_whole(kind.count),
        n_heads=_whole(kind.attention.heads),
        max_seq_len=_whole(model.max_sequence),
        tie_word_embeddings=model.tied,
    )


def _falcon(model: Model, kind: Layers) -> Any:
    from transformers import FalconConfig

    return FalconConfig(
        **_common(model, kind),
        ffn_hidden_size=_whole(kind.mlp.ffn_hidden),
        num_kv_heads=_whole(kind.attention.kv_heads),
        new_decoder_architecture=kind.norms == 2,
        multi_query=kind.attention.kv_heads == 1,
        parallel_attn=kind.parallel,
        bias=kind.mlp.biases,
        alibi=False,
    )


FAMILIES: dict[str, Callable[[Model, Layers], Any]] = {
    "llama": _llama,
    "mistral": _mistral,
    "qwen-2.5": _qwen2,
    "qwen-3": _qwen3,
    "gemma-2": _gemma2,
    "gemma-3": _gemma3,
    "nemotron": _nemotron,
    "gpt-neox": _neox,
    "gpt": _gpt2,
    "megatron": _gpt2,
    "opt": _opt,
    "bloom": _bloom,
    "pythia": _neox,
    "mpt": _mpt,
    "falcon": _falcon,
}
