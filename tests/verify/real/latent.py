"""Bytes that DeepSeek-V3's layers as transformers has them save for backward: latent attention, MLP or experts.

Keys and values are given one width here: the CPU's fused core takes no others.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, DeepseekV3Config
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3DecoderLayer, DeepseekV3RotaryEmbedding

from .saved import compiled, saved

SEQUENCES, TOKENS, HIDDEN = 2, 64, 512
LATENT = {"heads": 8, "query_rank": 192, "kv_rank": 128, "nope_dim": 64, "rope_dim": 32, "value_dim": 96}
DENSE = {"ffn_hidden": 1024}
EXPERTS = {"count": 8, "top_k": 2, "ffn_hidden": 256}


def counted() -> dict[str, Any]:
    """Bytes a token of a compiled layer: with an MLP, the same with values as a view, and with experts."""
    AttentionInterface.register("copied", _copied)
    AttentionInterface.register("view", _view)
    found: dict[str, Any] = {"hidden": HIDDEN, "sequences": SEQUENCES, "tokens": TOKENS, "latent": LATENT}
    found["mlp"] = {**DENSE, "compiled": _layer(0, "copied"), "values as a view": _layer(0, "view")}
    found["experts"] = {**EXPERTS, "compiled": _layer(1, "copied")}
    return found


def _layer(index: int, core: str) -> float:
    config = _config(core)
    layer = DeepseekV3DecoderLayer(config, index).to(torch.bfloat16)
    for weight in layer.parameters():
        nn.init.normal_(weight, std=0.02)
    x = torch.randn(SEQUENCES, TOKENS, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
    positions = DeepseekV3RotaryEmbedding(config)(x, torch.arange(TOKENS)[None])
    return saved(compiled(layer), layer, x, position_embeddings=positions, attention_mask=None)


def _copied(module: Any, query: Tensor, key: Tensor, value: Tensor, *given: Any, **more: Any) -> tuple[Tensor, None]:
    """Fused attention on values of their own, as Megatron-Core gives them to it."""
    return _view(module, query, key, value.clone(), *given, **more)


def _view(module: Any, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> tuple[Tensor, None]:
    """Fused attention; its output has the layout of the queries, here that of kernels: heads inside tokens."""
    query = query.transpose(1, 2).contiguous().transpose(1, 2)
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2), None


def _config(core: str) -> Any:
    """One layer with an MLP, one with experts and a shared one."""
    config = DeepseekV3Config(
        vocab_size=64,
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=LATENT["heads"],
        q_lora_rank=LATENT["query_rank"],
        kv_lora_rank=LATENT["kv_rank"],
        qk_nope_head_dim=LATENT["nope_dim"],
        qk_rope_head_dim=LATENT["rope_dim"],
        v_head_dim=LATENT["value_dim"],
        intermediate_size=DENSE["ffn_hidden"],
        first_k_dense_replace=1,
        n_routed_experts=EXPERTS["count"],
        num_experts_per_tok=EXPERTS["top_k"],
        moe_intermediate_size=EXPERTS["ffn_hidden"],
        n_shared_experts=1,
        n_group=1,
        topk_group=1,
        attn_implementation=core,
    )
    config._experts_implementation = "grouped_mm"
    return config
