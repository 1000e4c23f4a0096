"""FLOP of Qwen3-VL's vision tower as transformers has it, and bytes that a compiled layer of it saves."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode
from transformers import AttentionInterface, Qwen3VLVisionConfig
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionBlock, Qwen3VLVisionModel

from .saved import compiled, saved

GRID = 16  # patches on a side of the image
TOWER = {"depth": 3, "hidden_size": 256, "intermediate_size": 640, "num_heads": 4, "patch_size": 16}
OUT = 512
JOINED = [1]  # layers whose results lead to the text model by a projector of their own


def counted() -> dict[str, Any]:
    """FLOP of the whole tower for an image; bytes a patch of one layer."""
    AttentionInterface.register("flash_contiguous", _core)
    return {**TOWER, "out": OUT, "joined": len(JOINED), "patches": GRID**2, "flop": _flop(), "saved": _saved()}


def _config(core: str) -> Any:
    return Qwen3VLVisionConfig(
        **TOWER, out_hidden_size=OUT, deepstack_visual_indexes=JOINED, attn_implementation=core, hidden_act="gelu"
    )


def _core(module: Any, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> tuple[Tensor, None]:
    """Fused attention without a mask, whose output is laid out as kernels have it."""
    query, key, value = (each.transpose(1, 2).contiguous().transpose(1, 2) for each in (query, key, value))
    return functional.scaled_dot_product_attention(query, key, value).transpose(1, 2), None


def _flop() -> int:
    tower = Qwen3VLVisionModel(_config("eager"))
    patch = 3 * 2 * TOWER["patch_size"] ** 2
    with FlopCounterMode(display=False) as counter:
        tower(torch.randn(GRID**2, patch), torch.tensor([[1, GRID, GRID]]))
    return int(counter.get_total_flops())


def _saved() -> float:
    config, hidden, count = _config("flash_contiguous"), TOWER["hidden_size"], GRID**2
    layer = Qwen3VLVisionBlock(config).to(torch.bfloat16)
    for weight in layer.parameters():
        nn.init.normal_(weight, std=0.02)
    x = torch.randn(count, hidden, dtype=torch.bfloat16, requires_grad=True)
    tables = torch.randn(2, count, hidden // TOWER["num_heads"], dtype=torch.bfloat16).unbind(0)
    ends = torch.tensor([0, count], dtype=torch.int32)

    def run(stream: Any, position_embeddings: Any) -> Any:
        return layer(stream, cu_seqlens=ends, max_seqlen=count, position_embeddings=position_embeddings)

    return hidden * saved(compiled(run), layer, x, position_embeddings=tables)
