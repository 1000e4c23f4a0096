"""Memory of a step of AdamW in fp32: the most that it makes for a moment, in bytes for each parameter."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .loss import Alive

LAYERS, SIZE = 4, 1024


def counted() -> dict[str, float]:
    """When the moments are there: of all layers together, but one by one of the largest alone."""
    return {
        "by lists": _made({"foreach": True}) / (LAYERS * SIZE),  # the default on a GPU
        "one by one": _made({"foreach": False}) / SIZE,
        "fused": _made({"fused": True}) / (LAYERS * SIZE),
    }


def _made(kind: dict[str, bool]) -> int:
    layers = [torch.zeros(SIZE, requires_grad=True) for _ in range(LAYERS)]
    for layer in layers:
        layer.grad = torch.ones(SIZE)
    optimizer: Any = torch.optim.AdamW(layers, **kind)
    optimizer.step()
    kept = [*layers, *(layer.grad for layer in layers if layer.grad is not None)]
    kept += [state for each in optimizer.state.values() for state in each.values() if isinstance(state, Tensor)]
    alive = Alive()
    alive.sizes |= {tensor.untyped_storage().data_ptr(): 0 for tensor in kept}
    with alive:
        optimizer.step()
    return alive.most
