"""FLOP of chunked cores of linear attention as transformers writes them in PyTorch, and bytes that layers save.

Qwen3-Next's layer is compiled around a core that saves what the fused kernels save; MiniMax's attention as it is.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import AttentionInterface, DeepseekV32Config, Qwen3NextConfig
from transformers.models.deepseek_v32.modeling_deepseek_v32 import DeepseekV32Indexer
from transformers.models.qwen3_next import modeling_qwen3_next as real

from .latent import _view
from .saved import compiled, saved

SEQUENCES, TOKENS, HIDDEN, CHUNK = 2, 128, 512, 64
LINEAR = {"heads": 8, "value_dim": 64, "key_heads": 4, "key_dim": 32, "conv": 4}
FFN_HIDDEN = 1024
ATTENTION = {"heads": 8, "kv_heads": 8, "head_dim": 64}


def counted() -> dict[str, Any]:
    """FLOP a token of the core's products, and bytes a token of the mixer and of a whole layer."""
    found: dict[str, Any] = {"hidden": HIDDEN, "sequences": SEQUENCES, "tokens": TOKENS, "chunk": CHUNK}
    found |= {"linear": LINEAR, "ffn_hidden": FFN_HIDDEN, "core": _core(), "compiled": _layer("linear_attention")}
    AttentionInterface.register("contiguous", _view)
    return found | {"attention": ATTENTION, "gated attention": _layer("full_attention"), "indexer": _indexer()}


def _core() -> float:
    """Products of the chunked gated delta rule; its triangular system is solved by a loop that counts none."""
    heads, key_dim, value_dim = LINEAR["heads"], LINEAR["key_dim"], LINEAR["value_dim"]
    q, k = (torch.randn(1, TOKENS, heads, key_dim) for _ in range(2))
    v, beta = torch.randn(1, TOKENS, heads, value_dim), torch.rand(1, TOKENS, heads)
    with FlopCounterMode(display=False) as counter:
        real.torch_chunk_gated_delta_rule(q, k, v, g=-beta, beta=beta, chunk_size=CHUNK)
    return counter.get_total_flops() / TOKENS


class _Core(torch.autograd.Function):
    """Saves what chunk_gated_delta_rule of flash-linear-attention saves, and the triangular systems."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
        ctx.save_for_backward(q, k, v, g, beta, q.new_empty(*v.shape[:3], CHUNK))
        return v.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        q, k, v, g, beta, _ = ctx.saved_tensors
        return q, k, v, g, beta


@torch._dynamo.disable
def _kernel(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, **_: Any) -> tuple[Tensor, None]:
    return _Core.apply(q, k, v, g, beta), None


def _indexer() -> dict[str, float]:
    """Its products a token, of all pairs: it has no mask, and nothing of it is saved."""
    sizes = {"index_n_heads": 4, "index_head_dim": 64, "q_lora_rank": 96, "qk_rope_head_dim": 32, "index_topk": 32}
    config = DeepseekV32Config(hidden_size=HIDDEN, **sizes)
    indexer = DeepseekV32Indexer(config, 0)
    positions = (torch.zeros(1, TOKENS, 32), torch.zeros(1, TOKENS, 32))
    given = (torch.randn(1, TOKENS, HIDDEN), torch.randn(1, TOKENS, 96), positions, torch.zeros(1, TOKENS, TOKENS))
    with FlopCounterMode(display=False) as counter:
        indexer(*given, None)
    return {**sizes, "flop": counter.get_total_flops() / TOKENS}


def _layer(kind: str) -> float:
    config = Qwen3NextConfig(
        vocab_size=64,
        hidden_size=HIDDEN,
        num_hidden_layers=1,
        layer_types=[kind],
        mlp_only_layers=[0],
        intermediate_size=FFN_HIDDEN,
        linear_num_value_heads=LINEAR["heads"],
        linear_value_head_dim=LINEAR["value_dim"],
        linear_num_key_heads=LINEAR["key_heads"],
        linear_key_head_dim=LINEAR["key_dim"],
        linear_conv_kernel_dim=LINEAR["conv"],
        num_attention_heads=ATTENTION["heads"],
        num_key_value_heads=ATTENTION["kv_heads"],
        head_dim=ATTENTION["head_dim"],
        attn_implementation="contiguous",
    )
    kernel = real.torch_chunk_gated_delta_rule
    real.torch_chunk_gated_delta_rule = _kernel
    try:
        layer = real.Qwen3NextDecoderLayer(config, 0).to(torch.bfloat16)
        for weight in layer.parameters():
            nn.init.normal_(weight, std=0.02)
        x = torch.randn(SEQUENCES, TOKENS, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
        positions = real.Qwen3NextRotaryEmbedding(config)(x, torch.arange(TOKENS)[None])
        return saved(compiled(layer), layer, x, position_embeddings=positions, attention_mask=None)
    finally:
        real.torch_chunk_gated_delta_rule = kernel
