"""Bytes a real transformer layer saves for backward, counted by the hooks of autograd."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .llama import Block, Shape

SEQUENCES, TOKENS = 2, 64
SHAPES = {
    "multi-head": Shape(),
    "grouped queries": Shape(kv_heads=2),
    "two matrices": Shape(gated=False, ffn_hidden=2048),
    "wide": Shape(hidden=256, heads=8, kv_heads=4, head_dim=64, ffn_hidden=1536),
}


def counted() -> dict[str, Any]:
    """Bytes a token, by shape: of a layer run as it is written, and compiled (norms and activation fused)."""
    found = {}
    for name, shape in SHAPES.items():
        block = Block(shape).to(torch.bfloat16)
        found[name] = {
            "hidden": shape.hidden,
            "heads": shape.heads,
            "kv_heads": shape.kv_heads,
            "head_dim": shape.head_dim,
            "ffn_hidden": shape.ffn_hidden,
            "gated": shape.gated,
            "compiled": _saved(_compiled(block), block, shape),
        }
    return found


def _compiled(block: nn.Module) -> Any:
    """The layer as torch.compile partitions it into forward and backward; no code is generated."""
    torch._dynamo.reset()
    return torch.compile(block, backend="aot_eager_decomp_partition")


def _saved(run: Any, block: nn.Module, shape: Shape) -> float:
    """Bytes a token of what autograd keeps, each storage once and weights not at all."""
    x = torch.randn(SEQUENCES, TOKENS, shape.hidden, dtype=torch.bfloat16, requires_grad=True)
    run(x)
    weights = {weight.untyped_storage().data_ptr() for weight in block.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        alive = run(x)
    del alive
    return sum(kept.values()) / (SEQUENCES * TOKENS)
