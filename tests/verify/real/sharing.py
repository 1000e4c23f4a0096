"""Bytes that Gemma 4's layers as transformers has them save, and FLOP of Jamba's mixer and Nemotron's experts.

One layer of Gemma makes keys and values, one reads those of another; both read a table of their own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import AttentionInterface, Gemma4TextConfig, JambaConfig, NemotronHConfig
from transformers.models.gemma4.modeling_gemma4 import Gemma4TextDecoderLayer, Gemma4TextRotaryEmbedding
from transformers.models.jamba.modeling_jamba import JambaMambaMixer
from transformers.models.nemotron_h.modeling_nemotron_h import NemotronHMoE

from .latent import _view
from .saved import compiled, saved

SEQUENCES, TOKENS, HIDDEN, WIDTH = 2, 64, 512, 96
ATTENTION = {"heads": 8, "kv_heads": 8, "head_dim": 64}
FFN_HIDDEN = 1024
SCAN = {"inner": 1024, "state": 16, "rank": 48, "conv": 4}
EXPERTS = {"count": 8, "top_k": 2, "ffn_hidden": 256, "latent_dim": 128}


def counted() -> dict[str, Any]:
    """Bytes a token of compiled layers, with keys of their own or shared ones, with a table or none; FLOP a token."""
    AttentionInterface.register("contiguous", _view)
    found: dict[str, Any] = {"hidden": HIDDEN, "width": WIDTH, "ffn_hidden": FFN_HIDDEN, "attention": ATTENTION}
    found |= {"own": _layer(0, 0), "own with a table": _layer(0, WIDTH), "shared": _layer(2, 0)}
    found |= {"scan": {**SCAN, "flop": _scan()}, "experts": {**EXPERTS, "flop": _experts()}}
    return found


def _layer(index: int, width: int) -> float:
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


def _scan() -> float:
    """Products of the mixer, and its convolution; the scan itself is made of operations that the counter leaves out."""
    config = JambaConfig(
        hidden_size=HIDDEN,
        mamba_expand=SCAN["inner"] // HIDDEN,
        mamba_d_state=SCAN["state"],
        mamba_d_conv=SCAN["conv"],
        mamba_dt_rank=SCAN["rank"],
    )
    mixer = JambaMambaMixer(config, 0)
    with FlopCounterMode(display=False) as counter:
        mixer(torch.randn(1, TOKENS, HIDDEN))
    return counter.get_total_flops() / TOKENS


def _experts() -> float:
    """Products of routed experts, the way to them and back, the shared expert and the router."""
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
    return counter.get_total_flops() / TOKENS
