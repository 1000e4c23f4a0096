"""FLOP of gpt-oss's attention with sinks in transformers, and bytes it saves around a core that saves what fused do."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import AttentionInterface, GptOssConfig
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssAttention, GptOssRotaryEmbedding

from .saved import compiled, saved

SEQUENCES, TOKENS, HIDDEN = 2, 64, 512
ATTENTION = {"heads": 8, "kv_heads": 2, "head_dim": 64}


def counted() -> dict[str, Any]:
    """FLOP and bytes a token of attention alone, and its parameters."""
    AttentionInterface.register("fused with sinks", _fused)
    config = _config("eager")
    mixer = GptOssAttention(config, 0)
    with FlopCounterMode(display=False) as counter:
        x = torch.randn(1, TOKENS, HIDDEN)
        mixer(x, position_embeddings=_positions(config, x), attention_mask=None)
    found: dict[str, Any] = {"hidden": HIDDEN, "sequences": SEQUENCES, "tokens": TOKENS, "attention": ATTENTION}
    found["parameters"] = sum(weight.numel() for weight in mixer.parameters())
    return found | {"flop": counter.get_total_flops() / TOKENS, "compiled": _saved()}


class _Core(torch.autograd.Function):
    """Saves what FlashAttention-3 with sinks saves: all it is given, its result, and one figure of each row."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, sinks: Tensor) -> Tensor:
        result = torch.empty_like(query.transpose(1, 2).contiguous())
        rows = query.new_empty(query.shape[:3], dtype=torch.float32)
        ctx.save_for_backward(query, key, value, sinks, result, rows)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return ctx.saved_tensors[:4]


@torch._dynamo.disable
def _fused(module: Any, query: Tensor, key: Tensor, value: Tensor, *_: Any, **given: Any) -> tuple[Tensor, None]:
    return _Core.apply(query, key, value, given["s_aux"]), None


def _config(core: str) -> Any:
    return GptOssConfig(
        hidden_size=HIDDEN,
        num_hidden_layers=1,
        layer_types=["full_attention"],
        num_attention_heads=ATTENTION["heads"],
        num_key_value_heads=ATTENTION["kv_heads"],
        head_dim=ATTENTION["head_dim"],
        attention_bias=True,
        attn_implementation=core,
    )


def _positions(config: Any, x: Tensor) -> Any:
    return GptOssRotaryEmbedding(config)(x, torch.arange(TOKENS)[None])


def _saved() -> float:
    config = _config("fused with sinks")
    mixer = GptOssAttention(config, 0).to(torch.bfloat16)
    for weight in mixer.parameters():
        nn.init.normal_(weight, std=0.02)
    x = torch.randn(SEQUENCES, TOKENS, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
    return saved(compiled(mixer), mixer, x, position_embeddings=_positions(config, x), attention_mask=None)
