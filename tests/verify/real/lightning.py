"""FLOP of MiniMax's lightning attention in transformers, and bytes it saves: as it is, with the core in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import MiniMaxConfig
from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention

from .saved import compiled, saved

SEQUENCES, TOKENS, HIDDEN, CHUNK = 2, 128, 512, 32
HEADS, WIDTH = 8, 64


def counted() -> dict[str, Any]:
    """FLOP and bytes a token of the mixer alone."""
    found: dict[str, Any] = {"hidden": HIDDEN, "sequences": SEQUENCES, "tokens": TOKENS, "chunk": CHUNK}
    return found | {"heads": HEADS, "width": WIDTH, "flop": _flop(), "compiled": _saved()}


def _mixer() -> Any:
    config = MiniMaxConfig(
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        layer_types=["linear_attention", "full_attention"],
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        head_dim=WIDTH,
        block_size=CHUNK,
    )
    return MiniMaxLightningAttention(config, 0)


def _flop() -> float:
    with FlopCounterMode(display=False) as counter:
        _mixer()(torch.randn(1, TOKENS, HIDDEN), None, None)
    return counter.get_total_flops() / TOKENS


def _saved() -> float:
    mixer = _mixer().to(torch.bfloat16)
    for weight in mixer.parameters():
        nn.init.normal_(weight, std=0.02)
    x = torch.randn(SEQUENCES, TOKENS, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
    return saved(compiled(mixer), mixer, x, position_embeddings=None, attention_mask=None)
