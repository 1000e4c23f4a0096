"""FLOP of a layer of Gemma 3n in transformers, and bytes it saves: streams it alternates between, a narrow branch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import AttentionInterface, Gemma3nTextConfig
from transformers.models.gemma3n.modeling_gemma3n import Gemma3nRotaryEmbedding, Gemma3nTextDecoderLayer

from .latent import _view
from .saved import compiled, saved

SEQUENCES, TOKENS, HIDDEN, FFN_HIDDEN, STREAMS, RANK, WIDTH = 2, 64, 512, 1024, 4, 32, 96
ATTENTION = {"heads": 8, "kv_heads": 8, "head_dim": 64}


def counted() -> dict[str, Any]:
    """FLOP and bytes a token of a whole layer, of its streams one after the other."""
    AttentionInterface.register("contiguous", _view)
    found: dict[str, Any] = {"hidden": HIDDEN, "sequences": SEQUENCES, "tokens": TOKENS, "ffn_hidden": FFN_HIDDEN}
    found |= {"streams": STREAMS, "rank": RANK, "width": WIDTH, "attention": ATTENTION}
    return found | {"flop": _flop(), "compiled": _saved(), "compiled with sparse gates": _saved(0.95)}


def _layer(core: str, sparse: float = 0.0) -> tuple[Any, Any]:
    config = Gemma3nTextConfig(
        vocab_size=64,
        vocab_size_per_layer_input=64,
        hidden_size=HIDDEN,
        hidden_size_per_layer_input=WIDTH,
        intermediate_size=FFN_HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=ATTENTION["heads"],
        num_key_value_heads=ATTENTION["kv_heads"],
        head_dim=ATTENTION["head_dim"],
        layer_types=["full_attention"] * 2,
        num_kv_shared_layers=1,
        altup_num_inputs=STREAMS,
        laurel_rank=RANK,
        activation_sparsity_pattern=[sparse, 0.0],
        attn_implementation=core,
    )
    return config, Gemma3nTextDecoderLayer(config, 0)


def _given(config: Any, sequences: int, dtype: torch.dtype) -> tuple[Tensor, Any, Tensor]:
    """All streams, positions and the layer's entry."""
    shapes = (STREAMS, sequences, TOKENS, HIDDEN), (sequences, TOKENS, WIDTH)
    streams, entry = (torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in shapes)
    return streams, Gemma3nRotaryEmbedding(config)(streams[0], torch.arange(TOKENS)[None], "full_attention"), entry


def _flop() -> float:
    config, layer = _layer("eager")
    streams, positions, entry = _given(config, 1, torch.float32)
    with FlopCounterMode(display=False) as counter:
        layer(streams, positions, entry, shared_kv_states={})
    return counter.get_total_flops() / TOKENS


def _saved(sparse: float = 0.0) -> float:
    config, layer = _layer("contiguous", sparse)
    layer = layer.to(torch.bfloat16)
    for weight in layer.parameters():
        nn.init.normal_(weight, std=0.02)
    streams, positions, entry = _given(config, SEQUENCES, torch.bfloat16)

    def run(given: Tensor, **more: Any) -> Any:
        return layer(given, per_layer_input=entry, shared_kv_states={}, attention_mask=None, **more)

    a_row: float = saved(compiled(run), layer, streams, position_embeddings=positions)  # of a stream and sequence
    return a_row * STREAMS / TOKENS
