"""FLOP of a layer of BERT as transformers has it, and bytes it saves; attention is of all tokens to all."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode
from transformers import AttentionInterface, BertConfig
from transformers.models.bert.modeling_bert import BertLayer

from .saved import compiled, saved

SEQUENCES, TOKENS, HIDDEN = 2, 64, 512
HEADS, FFN_HIDDEN = 8, 2048


def counted() -> dict[str, Any]:
    """Bytes a token of a compiled layer without dropout, and FLOP a token with its core in products."""
    AttentionInterface.register("both ways", _both_ways)
    found = {"hidden": HIDDEN, "tokens": TOKENS, "heads": HEADS, "ffn_hidden": FFN_HIDDEN}
    x = torch.randn(SEQUENCES, TOKENS, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        _layer("eager")(x, None)
    flop = counter.get_total_flops() / (SEQUENCES * TOKENS)
    layer = _layer("both ways")
    return {**found, "flop": flop, "compiled": saved(compiled(layer), layer, x, attention_mask=None)}


def _layer(core: str) -> Any:
    config = BertConfig(
        hidden_size=HIDDEN,
        num_attention_heads=HEADS,
        intermediate_size=FFN_HIDDEN,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation=core,
    )
    layer = BertLayer(config, 0).to(torch.bfloat16)
    for weight in layer.parameters():
        nn.init.normal_(weight, std=0.02)
    return layer


def _both_ways(_: Any, query: Tensor, key: Tensor, value: Tensor, *_given: Any, **_more: Any) -> tuple[Tensor, None]:
    """Fused attention without a mask; its output has the layout of kernels: heads inside tokens."""
    query = query.transpose(1, 2).contiguous().transpose(1, 2)
    return functional.scaled_dot_product_attention(query, key, value).transpose(1, 2), None
