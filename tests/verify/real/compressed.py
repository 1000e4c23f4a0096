"""Bytes that DeepSeek-V4's layers as transformers has them save, their FLOP, and what they keep of a sequence.

Attention runs over a core that saves what a fused kernel saves: queries, the one tensor of keys and values, results.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import AttentionInterface, DeepseekV4Config
from transformers.cache_utils import DynamicCache
from transformers.models.deepseek_v4 import modeling_deepseek_v4 as real

from .saved import compiled, saved

SEQUENCES, TOKENS, HIDDEN, STREAMS = 2, 128, 512, 4
ATTENTION = {
    "heads": 8,
    "head_dim": 64,
    "rope_dim": 16,
    "query_rank": 96,
    "output_groups": 2,
    "output_rank": 48,
    "window": 32,
}
FFN_HIDDEN = 256
INDEXER = {"heads": 4, "head_dim": 32, "top_k": 8}
RATES = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 16}


def counted() -> dict[str, Any]:
    """Bytes and FLOP a token of attention of each kind, bytes of its cache, and bytes of a layer of several streams."""
    AttentionInterface.register("contiguous", _core)
    found: dict[str, Any] = {"hidden": HIDDEN, "streams": STREAMS, "sequences": SEQUENCES, "tokens": TOKENS}
    found |= {"attention": ATTENTION, "indexer": INDEXER, "ffn_hidden": FFN_HIDDEN, "layer": _layer()}
    found["kinds"] = [
        {"rate": rate, "saved": _attention(index), "flop": _flop(index), "cache": _cache(index)}
        for index, rate in enumerate(RATES.values())
    ]
    return found


def _config(attention: str = "contiguous", **other: Any) -> DeepseekV4Config:
    given: dict[str, Any] = {"sliding_window": ATTENTION["window"], "index_topk": INDEXER["top_k"], **other}
    return DeepseekV4Config(
        **given,
        vocab_size=64,
        hidden_size=HIDDEN,
        moe_intermediate_size=FFN_HIDDEN,
        num_hidden_layers=len(RATES),
        num_attention_heads=ATTENTION["heads"],
        head_dim=ATTENTION["head_dim"],
        partial_rotary_factor=ATTENTION["rope_dim"] / ATTENTION["head_dim"],
        q_lora_rank=ATTENTION["query_rank"],
        o_groups=ATTENTION["output_groups"],
        o_lora_rank=ATTENTION["output_rank"],
        hc_mult=STREAMS,
        index_n_heads=INDEXER["heads"],
        index_head_dim=INDEXER["head_dim"],
        n_routed_experts=4,
        num_experts_per_tok=2,
        layer_types=list(RATES),
        compress_rates={kind: rate for kind, rate in RATES.items() if rate},
        attn_implementation=attention,
    )


class _Core(torch.autograd.Function):
    """Saves what a fused kernel of attention saves, but for a figure of each query and head."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, kv: Tensor) -> Tensor:
        out = q.clone()
        ctx.save_for_backward(q, kv, out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        q, kv, _ = ctx.saved_tensors
        return q, kv


@torch._dynamo.disable
def _core(_: nn.Module, q: Tensor, kv: Tensor, *__: Any, **___: Any) -> tuple[Tensor, None]:
    return _Core.apply(q, kv).transpose(1, 2).contiguous(), None


def _plain(block: nn.Module) -> nn.Module:
    for weight in block.parameters():
        nn.init.normal_(weight, std=0.02)
    return block.to(torch.bfloat16)


def _positions(config: DeepseekV4Config, x: Tensor) -> tuple[Tensor, dict[str, Any]]:
    """Places of the tokens, and tables of rotation without entries and with them."""
    places, rotary = torch.arange(TOKENS)[None], real.DeepseekV4RotaryEmbedding(config)
    return places, {kind: rotary(x, position_ids=places, layer_type=kind) for kind in ("main", "compress")}


def _bytes(config: DeepseekV4Config, block: nn.Module, *shape: int) -> float:
    """Bytes a token that a compiled block saves of streams of that shape; the core takes no mask."""
    x = torch.randn(SEQUENCES, TOKENS, *shape, dtype=torch.bfloat16, requires_grad=True)
    places, tables = _positions(config, x)
    graph = compiled(block)

    def run(stream: Tensor, **rotations: Any) -> Any:
        return graph(stream, position_embeddings=rotations, position_ids=places, attention_mask=None)

    return saved(run, block, x, **tables)


def _attention(index: int) -> float:
    config = _config()
    return _bytes(config, _plain(real.DeepseekV4Attention(config, index)), HIDDEN)


def _flop(index: int) -> float:
    """Products of attention where every query reads all tokens and entries: nothing is left out of a square."""
    config = _config("eager", sliding_window=TOKENS, index_topk=TOKENS)
    block, x = real.DeepseekV4Attention(config, index), torch.randn(1, TOKENS, HIDDEN)
    places, tables = _positions(config, x)
    with FlopCounterMode(display=False) as counter:
        block(x, position_embeddings=tables, position_ids=places, attention_mask=None)
    return counter.get_total_flops() / TOKENS


def _cache(index: int) -> float:
    """Numbers that the layer keeps of a sequence: keys of its window but for the next token's, entries, index keys."""
    config = _config()
    cache, x = DynamicCache(config=config), torch.randn(1, TOKENS, HIDDEN)
    places, tables = _positions(config, x)
    block = real.DeepseekV4Attention(config, index)
    block(x, position_embeddings=tables, position_ids=places, attention_mask=None, cache=cache)
    layer = cache.layers[index]
    entries = getattr(layer, "compressed_kv", {}).values()
    return layer.keys.numel() + sum(each.numel() for each in entries)


class _Dense(nn.Module):
    """The shared expert alone, in place of all experts."""

    def __init__(self, config: DeepseekV4Config) -> None:
        super().__init__()
        self.shared = real.DeepseekV4MLP(config)

    def forward(self, x: Tensor, input_ids: Tensor | None = None) -> Tensor:
        return self.shared(x)


def _layer() -> float:
    """Bytes a token of a layer of several streams, without entries and with an MLP in place of its experts."""
    config = _config()
    layer = real.DeepseekV4DecoderLayer(config, 0)
    layer.mlp = _Dense(config)
    return _bytes(config, _plain(layer), STREAMS, HIDDEN)
