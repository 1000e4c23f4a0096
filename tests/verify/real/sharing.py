"""Bytes that Gemma 4's layers as transformers has them save, and bytes and FLOP of Nemotron's narrow experts.

One layer of Gemma makes keys and values, one values from its keys, one reads those of another.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import AttentionInterface, Gemma4TextConfig, NemotronHConfig
from transformers.models.gemma4.modeling_gemma4 import Gemma4TextDecoderLayer, Gemma4TextRotaryEmbedding
from transformers.models.nemotron_h.modeling_nemotron_h import NemotronHMoE

from .latent import _view
from .saved import compiled, saved

SEQUENCES, TOKENS, HIDDEN, WIDTH = 2, 64, 512, 96
ATTENTION = {"heads": 8, "kv_heads": 8, "head_dim": 64}
FFN_HIDDEN = 1024
EXPERTS = {"count": 8, "top_k": 2, "ffn_hidden": 256, "latent_dim": 128}


def counted() -> dict[str, Any]:
    """Bytes a token of compiled layers, with keys of their own or shared ones, with a table or none; experts."""
    AttentionInterface.register("contiguous", _view)
    found: dict[str, Any] = {"hidden": HIDDEN, "width": WIDTH, "ffn_hidden": FFN_HIDDEN, "attention": ATTENTION}
    found |= {"own": _layer(0, 0), "own with a table": _layer(0, WIDTH), "shared": _layer(2, 0)}
    found |= {"values from keys": _layer(0, 0, same=True)}
    found |= {"experts": {**EXPERTS, **_experts()}}
    return found


def _layer(index: int, width: int, *, same: bool = False) -> float:
    config = Gemma4TextConfig(
        vocab_size=64,
        hidden_size=HIDDEN,
        intermediate_size=FFN_HIDDEN,
        num_hidden_layers=3,
        num_attention_heads=ATTENTION["heads"],
        num_key_value_heads=ATTENTION["kv_heads"],
        head_dim=ATTENTION["head_dim"],
        global_head_dim=ATTENTION["head_dim"],
        layer_types=["full_attention"] * 3,
        num_kv_shared_layers=1,
        hidden_size_per_layer_input=width,
        attention_k_eq_v=same,
        attn_implementation="contiguous",
    )
    layer = Gemma4TextDecoderLayer(config, index).to(torch.bfloat16)
    for weight in layer.parameters():
        nn.init.normal_(weight, std=0.02)
    x = _stream(HIDDEN)
    positions = Gemma4TextRotaryEmbedding(config)(x, torch.arange(TOKENS)[None], "full_attention")
    given: dict[str, Any] = {"position_embeddings": positions, "attention_mask": None}
    shape = (SEQUENCES, ATTENTION["kv_heads"], TOKENS, ATTENTION["head_dim"])
    keys = tuple(torch.randn(*shape, dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    entry = _stream(width) if width else None

    def run(stream: Any, **more: Any) -> Any:
        shared = {"full_attention": keys} if layer.self_attn.is_kv_shared_layer else {}
        return layer(stream, entry, shared_kv_states=shared, **more)

    whole = saved(compiled(run), layer, x, **given)
    read = sum(each.nbytes for each in keys) / (SEQUENCES * TOKENS)
    return whole - read if layer.self_attn.is_kv_shared_layer else whole


def _stream(width: int) -> Any:
    return torch.randn(SEQUENCES, TOKENS, width, dtype=torch.bfloat16, requires_grad=True)


def _experts() -> dict[str, float]:
    """Routed experts, the way to them and back, the shared expert and the router: products, and what is saved."""
    config = NemotronHConfig(
        hidden_size=HIDDEN,
        moe_intermediate_size=EXPERTS["ffn_hidden"],
        moe_latent_size=EXPERTS["latent_dim"],
        moe_shared_expert_intermediate_size=EXPERTS["ffn_hidden"],
        n_routed_experts=EXPERTS["count"],
        num_experts_per_tok=EXPERTS["top_k"],
        n_group=1,
        topk_group=1,
    )
    block = NemotronHMoE(config, 0)
    for weight in block.parameters():
        nn.init.normal_(weight, std=0.02)
    with FlopCounterMode(display=False) as counter:
        block(torch.randn(1, TOKENS, HIDDEN))
    flop = counter.get_total_flops() / TOKENS
    config._experts_implementation = "grouped_mm"
    return {"flop": flop, "compiled": saved(compiled(block.to(torch.bfloat16)), block, _stream(HIDDEN))}
