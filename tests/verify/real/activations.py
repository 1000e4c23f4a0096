"""Bytes a real transformer layer saves for backward, counted by the hooks of autograd."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from .llama import Block, Shape
from .saved import compiled, saved

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
            "compiled": saved(compiled(block), block, _input(shape)),
        }
        if shape.gated:
            found[name]["selective"] = _cached(block, shape)
    return found


def _input(shape: Shape) -> Tensor:
    return torch.randn(SEQUENCES, TOKENS, shape.hidden, dtype=torch.bfloat16, requires_grad=True)


def _cached(block: nn.Module, shape: Shape) -> float:
    """Bytes a token under selective checkpointing as torchtitan asks for it: attention and every second matmul."""
    contexts: list[Any] = []

    def contexted() -> Any:
        contexts.append(create_selective_checkpoint_contexts(_Alternating()))
        return contexts[0]

    x = _input(shape)
    alive = checkpoint(block, x, use_reentrant=False, context_fn=contexted)
    outputs = [getattr(kept, "val", kept) for kept in tree_leaves(dict(contexts[0][0].storage))]
    del alive
    saved = sum(kept.untyped_storage().nbytes() for kept in outputs if isinstance(kept, Tensor))
    return (saved + x.untyped_storage().nbytes()) / (SEQUENCES * TOKENS)


class _Alternating:
    """Keeps what fused attention gives, and of matmuls the first, the third and so on."""

    def __init__(self) -> None:
        self.matmuls = 0

    def __call__(self, context: Any, operation: Any, *_: Any, **__: Any) -> CheckpointPolicy:
        keep = "scaled_dot_product" in str(operation)
        if operation is torch.ops.aten.mm.default and not context.is_recompute:
            self.matmuls += 1
            keep = self.matmuls % 2 == 1
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE
